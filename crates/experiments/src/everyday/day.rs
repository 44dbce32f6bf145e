//! Everyday loads. The gate must not make any of them worse, in any window of a run.

use super::client::Act;
use super::collect::{AROUND_S, DATA_S};
use super::judge::{self, Measure, Spec, View};
use super::{AUTO, Arm, Case, Front, Group, P16};
use crate::experiment::{Experiment, Steps};
use crate::neighbours::site::Kind;
use crate::sweep::Bound;
use crate::sweep::found::largest;

/// Seconds of a run, rounds, and seconds of a window; for a full and for a quick run.
const TIMES: [(u64, usize, u64); 2] = [(30, 5, 10), (12, 1, 4)];

/// The run of the load that changes: five phases of a minute.
const PHASES_S: u64 = 5 * 60;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "gate-day",
    title: "Everyday loads, as they are and behind the gate",
    paper: "",
    figure: "Everyday",
    expected_s: ((TIMES[0].0 + AROUND_S) * CASES.len() as u64 + PHASES_S)
        * (ARMS.len() * TIMES[0].1) as u64
        + 2 * DATA_S,
    expected_quick_s: (TIMES[1].0 + AROUND_S) * 16 + 2 * DATA_S,
    needs: &["mariadb-server-core", "postgresql"],
    bench: &Steps {
        collect: |options| judge::collect(&SPEC, options),
        report: |directory, fresh| judge::report(&SPEC, directory, fresh),
    },
};

const ARMS: [Arm; 8] = [
    Arm::new("MariaDB", Kind::MariaDb, Front::Nothing, true),
    Arm::new("MariaDB, gate", Kind::MariaDb, AUTO, true),
    Arm::new("MariaDB, gate P = 16", Kind::MariaDb, P16, false),
    Arm::new("MariaDB's pool", Kind::MariaDbPool, Front::Nothing, false),
    Arm::new("MariaDB's pool, gate", Kind::MariaDbPool, AUTO, false),
    Arm::new("PostgreSQL", Kind::PostgreSql, Front::Nothing, true),
    Arm::new("PostgreSQL, gate", Kind::PostgreSql, AUTO, true),
    Arm::new("PostgreSQL, gate P = 16", Kind::PostgreSql, P16, false),
];

const fn thinking(clients: usize, think_ms: u64) -> Group {
    Group::new("thinking", clients, Act::Transaction { think_ms })
}

const BUSY: Group = Group::new("busy", 192, Act::Transaction { think_ms: 0 });

const fn readers(clients: usize) -> Group {
    Group::new("readers", clients, Act::Read)
}

/// The long statements join after a third of the run.
const fn long(seconds: f64) -> Group {
    Group::new("long", 24, Act::Long { seconds }).during(1.0 / 3.0, 1.0)
}

const IMPORT: Group = Group::new("import", 4, Act::Import);
const INDEX: Group = Group::new("index", 1, Act::Index);

const CASES: [Case; 16] = [
    Case::new("thinking 10 ms", &[thinking(64, 10)]).also_quick(),
    Case::new("thinking 1 ms", &[thinking(64, 1)]),
    Case::new("thinking 100 ms", &[thinking(64, 100)]),
    Case::new("16 thinking 10 ms", &[thinking(16, 10)]),
    Case::new("256 thinking 10 ms", &[thinking(256, 10)]),
    Case::new("thinking 10 ms beside busy", &[thinking(64, 10), BUSY]).also_quick(),
    Case::new("thinking 1 ms beside busy", &[thinking(64, 1), BUSY]),
    Case::new("thinking 100 ms beside busy", &[thinking(64, 100), BUSY]),
    Case::new("statements of 1 s join readers", &[readers(64), long(1.0)]).also_quick(),
    Case::new("statements of 60 s join readers", &[readers(64), long(60.0)]),
    Case::new("point selects", &[readers(64)]).also_quick(),
    Case::new("256 point selects", &[readers(256)]),
    Case::new("imports beside readers", &[readers(64), IMPORT]),
    Case::new("an index build beside readers", &[readers(64), INDEX]),
    Case {
        only: Some(Kind::PostgreSql),
        ..Case::new(
            "a connection for each transaction",
            &[Group::new("transactions", 64, Act::Connect)],
        )
    },
    Case {
        window_s: Some(PHASES_S),
        ..Case::new(
            "a load that changes each minute",
            &[
                thinking(64, 10).during(0.0, 0.4),
                Group { name: "busy", ..BUSY }.during(0.2, 0.4),
                readers(64).during(0.4, 1.0),
                Group::new("long", 24, Act::Long { seconds: 1.0 }).during(0.6, 0.8),
                Group { name: "import", ..IMPORT }.during(0.8, 1.0),
            ],
        )
    },
];

/// Groups of short requests. Each window has many of them.
fn fast(view: &View<'_>) -> impl Iterator<Item = &'static Group> + use<> {
    view.groups.iter().filter(|group| !group.act.is_slow())
}

/// Requests per second of all short groups in each window: behind the gate, and as it is.
fn totals(view: &View<'_>) -> Vec<(f64, f64)> {
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for group in fast(view) {
        let windows = view.windows(&format!("{}_per_s", group.name));
        sums.resize(sums.len().max(windows.len()), (0.0, 0.0));
        for (sum, (ours, theirs)) in sums.iter_mut().zip(windows) {
            *sum = (sum.0 + ours, sum.1 + theirs);
        }
    }
    sums
}

/// The total's lowest ratio over all windows.
fn total(view: &View<'_>) -> Option<f64> {
    let busy = totals(view).into_iter().filter(|(_, theirs)| *theirs > 0.0);
    busy.map(|(ours, theirs)| ours / theirs).reduce(f64::min)
}

/// Whether a group works through the whole of a window.
fn settled(group: &Group, window: usize, windows: usize) -> bool {
    let part = |at: usize| at as f64 / windows as f64;
    part(window) + 1e-9 >= group.from && part(window + 1) <= group.until + 1e-9
}

/// The lowest ratio over all windows and groups. It is 1 for a group that has its share, which is
/// its part of the connections.
fn groups(view: &View<'_>) -> Option<f64> {
    let totals = totals(view);
    let mut values: Vec<f64> = Vec::new();
    for group in view.groups {
        let key = format!("{}_per_s", group.name);
        let windows = view.windows(&key);
        if group.act.is_slow() {
            let enough = |(_, theirs): &(f64, f64)| theirs * view.window_s(&key) >= LEAST;
            values.extend(view.both(&key).filter(enough).map(|(ours, theirs)| ours / theirs));
            continue;
        }
        for (window, ((ours, theirs), (all, _))) in windows.iter().zip(&totals).enumerate() {
            let there =
                |other: &&Group| !other.act.is_slow() && settled(other, window, windows.len());
            if *theirs <= 0.0 || !settled(group, window, windows.len()) {
                continue;
            }
            let clients: usize = view.groups.iter().filter(there).map(|other| other.clients).sum();
            let of_share = ours / all * clients as f64 / group.clients as f64;
            let share = if of_share >= 1.0 && clients > group.clients { 1.0 } else { 0.0 };
            values.push((ours / theirs).max(share));
        }
    }
    values.into_iter().reduce(f64::min)
}

/// Fewer requests than this say nothing about the throughput of a group of long requests.
const LEAST: f64 = 10.0;

/// The largest ratio of P99 over all windows and groups.
fn tails(view: &View<'_>) -> Option<f64> {
    let windows = fast(view).flat_map(|group| {
        let windows = view.windows(&format!("{}_p99_ms", group.name));
        let count = windows.len();
        windows.into_iter().enumerate().filter(move |(window, _)| settled(group, *window, count))
    });
    let ratios = windows
        .filter(|(_, (_, theirs))| *theirs > 0.0)
        .map(|(_, (ours, theirs))| if ours > 0.0 { ours / theirs } else { f64::NAN });
    ratios.reduce(largest)
}

const MEASURES: [Measure; 3] = [
    Measure {
        key: "total_of_as_it_is",
        title: "Requests of all, worst window",
        statement: "the total is no less in any window",
        unit: "requests / requests as it is, worst window",
        bound: Bound::AtLeast(0.97),
        value: total,
    },
    Measure {
        key: "group_of_as_it_is",
        title: "Requests of a group, worst window",
        statement: "no group has less than both as it is and its share",
        unit: "requests / requests as it is, worst window and group",
        bound: Bound::AtLeast(0.95),
        value: groups,
    },
    Measure {
        key: "p99_of_as_it_is",
        title: "P99 of a group, worst window",
        statement: "no group's P99 is longer in any window",
        unit: "P99 / P99 as it is, worst window and group",
        bound: Bound::AtMost(1.1),
        value: tails,
    },
];

const SPEC: Spec = Spec {
    experiment: &EXPERIMENT,
    arms: &ARMS,
    cases: &CASES,
    measures: &MEASURES,
    times: TIMES,
    about: "Transactions that wait for their program, alone and beside 192 busy clients; 24 long \
            statements that join 64 short readers; point selects; imports and an index build \
            beside readers; a connection for each transaction; a load that changes between \
            these. Every run begins with a server that was just started, and every window counts \
            from the first on. A long statement counts in all windows that it spans. The total \
            is that of the short requests.",
};

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{ARMS, record, run};
    use super::*;

    fn verdicts(
        plain: &[(&str, &[f64])],
        gated: &[(&str, &[f64])],
        case: &Case,
    ) -> Vec<(f64, bool)> {
        let mut record = record(vec![run(&[], plain)], vec![run(&[], gated)]);
        let points = [(1.0, case.name.to_owned(), case.groups)];
        let verdicts = judge::judge(&mut record, &ARMS, &points, &MEASURES);
        let value =
            |verdict: &crate::record::Verdict| (verdict.ours.unwrap_or(f64::NAN), verdict.holds);
        verdicts.iter().map(value).collect()
    }

    #[test]
    fn the_worst_window_counts() {
        let plain: &[(&str, &[f64])] =
            &[("thinking_per_s", &[100.0, 100.0]), ("thinking_p99_ms", &[30.0, 30.0])];
        let gated: &[(&str, &[f64])] =
            &[("thinking_per_s", &[20.0, 99.0]), ("thinking_p99_ms", &[30.0, 36.0])];
        let found = verdicts(plain, gated, &CASES[0]);
        assert_eq!(found, [(0.2, false), (0.2, false), (1.2, false)]);
    }

    #[test]
    fn a_group_may_lose_what_is_beyond_its_share() {
        // 64 of 256 clients think. The share of the 192 busy clients is 900 of 1,200 requests.
        let plain: &[(&str, &[f64])] = &[("thinking_per_s", &[200.0]), ("busy_per_s", &[1_000.0])];
        let fair: &[(&str, &[f64])] = &[("thinking_per_s", &[290.0]), ("busy_per_s", &[910.0])];
        // The busy clients lose 9 %, but have more than their share.
        assert_eq!(verdicts(plain, fair, &CASES[5])[1], (1.0, true));
        let unfair: &[(&str, &[f64])] = &[("thinking_per_s", &[150.0]), ("busy_per_s", &[1_050.0])];
        // The thinking clients have 0.75 of as it is, and less than their share.
        assert_eq!(verdicts(plain, unfair, &CASES[5])[1], (0.75, false));
    }

    #[test]
    fn who_has_just_come_is_not_judged_by_that_window() {
        let group = long(1.0);
        let settled: Vec<bool> = (0..3).map(|window| settled(&group, window, 3)).collect();
        assert_eq!(settled, [false, true, true]);
        assert!(CASES.iter().all(|case| case.name.len() < 40 && case.clients() < 400));
    }
}
