//! What the gate promises, held against what was measured. Pure.

use super::analyse::{Numbers, Row, ratio, row};
use super::arms::Config::{Gated, Gated16, Pgbouncer, Ungated, Ungated16};
use super::arms::{Load, Mode};
use crate::bound::Bound;
use crate::record::Verdict;

/// All verdicts, workload by workload.
pub(super) fn verdicts(rows: &[Row], quick: bool) -> Vec<Verdict> {
    let tps: fn(&Numbers) -> f64 = |n| n.throughput_tps;
    let p99: fn(&Numbers) -> f64 = |n| n.p99_ms;
    let mut all = Vec::new();
    for load in Load::ALL {
        for mode in Mode::ALL {
            let at = (load, mode);
            let mut say = |what: &str, ours: Option<f64>, unit: &str, bound: Bound| {
                all.push(Verdict {
                    statement: format!("{}, {}: {what}", load.name(), mode.name()),
                    paper: "not measured on PostgreSQL".to_owned(),
                    ours,
                    unit: unit.to_owned(),
                    holds: ours.is_some_and(|value| bound.holds(value)),
                    note: note(ours, quick).to_owned(),
                });
            };
            say(
                "256 clients: at least 1.05 × the throughput of PostgreSQL as it is",
                ratio(rows, at, Gated, Ungated, tps),
                "ratio of tx/s",
                Bound::AtLeast(1.05),
            );
            if mode != Mode::Prepared {
                say(
                    "256 clients: at least 1.10 × the throughput behind PgBouncer",
                    ratio(rows, at, Gated, Pgbouncer, tps),
                    "ratio of tx/s",
                    Bound::AtLeast(1.10),
                );
            }
            say(
                "256 clients: p99 latency at most 0.2 × that of PostgreSQL as it is",
                ratio(rows, at, Gated, Ungated, p99),
                "ratio of ms",
                Bound::AtMost(0.2),
            );
            say(
                "256 clients: unfairness U_f at most 0.02",
                row(rows, load, mode, Gated).and_then(|row| row.median.unfairness),
                "U_f over transactions",
                Bound::AtMost(0.02),
            );
            say(
                "16 clients: at least 0.99 × the throughput without the gate",
                ratio(rows, at, Gated16, Ungated16, tps),
                "ratio of tx/s",
                Bound::AtLeast(0.99),
            );
        }
    }
    all
}

fn note(ours: Option<f64>, quick: bool) -> &'static str {
    match (ours, quick) {
        (None, _) => "not measured: an arm that it needs did not run",
        (Some(_), true) => "a quick run, which is no measurement",
        (Some(_), false) => "median over rounds",
    }
}

#[cfg(test)]
mod tests {
    use super::super::analyse::tests::good;
    use super::*;

    #[test]
    fn every_promise_can_hold_and_can_fail() {
        let rows = good();
        let all = verdicts(&rows, false);
        assert_eq!(all.len(), 6 * 5 - 2);
        for verdict in &all {
            assert!(verdict.holds, "{verdict:?}");
        }
        for spoil in [
            |n: &mut Numbers| n.throughput_tps *= 0.9,
            |n: &mut Numbers| n.p99_ms *= 2.0,
            |n: &mut Numbers| n.unfairness = Some(0.03),
        ] {
            let mut rows = good();
            rows.iter_mut()
                .filter(|row| row.arm.config.is_gated())
                .for_each(|row| spoil(&mut row.median));
            let failed = verdicts(&rows, false).iter().filter(|verdict| !verdict.holds).count();
            assert!(failed >= 6, "{failed}");
        }
        assert!(
            verdicts(&[], false).iter().all(|verdict| !verdict.holds && verdict.ours.is_none())
        );
    }
}
