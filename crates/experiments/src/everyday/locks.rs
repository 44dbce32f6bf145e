//! Sessions that wait for locks must not keep bystanders from working.

use super::client::Act;
use super::collect::{AROUND_S, DATA_S};
use super::judge::{self, Measure, Spec, View};
use super::{AUTO, Arm, Case, Front, Group, P4, P16};
use crate::experiment::{Experiment, Steps};
use crate::neighbours::site::Kind;
use crate::sweep::Bound;

/// Seconds of a run, rounds, and seconds of a window; for a full and for a quick run.
const TIMES: [(u64, usize, u64); 2] = [(20, 5, 10), (11, 1, 11)];

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "gate-locks",
    title: "Clients that wait for locks, and bystanders",
    paper: "",
    figure: "Locks",
    expected_s: (TIMES[0].0 + AROUND_S) * (ARMS.len() * CASES.len() * TIMES[0].1) as u64
        + 2 * DATA_S,
    expected_quick_s: (TIMES[1].0 + AROUND_S) * 4 + 2 * DATA_S,
    needs: &["mariadb-server-core", "postgresql"],
    bench: &Steps {
        collect: |options| judge::collect(&SPEC, options),
        report: |directory, fresh| judge::report(&SPEC, directory, fresh),
    },
};

const fn arm(label: &'static str, kind: Kind, front: Front, quick: bool) -> Arm {
    Arm::new(label, kind, front, quick)
}

const ARMS: [Arm; 11] = [
    arm("MariaDB", Kind::MariaDb, Front::Nothing, true),
    arm("MariaDB, gate P = 4", Kind::MariaDb, P4, true),
    arm("MariaDB, gate P = 16", Kind::MariaDb, P16, false),
    arm("MariaDB, gate", Kind::MariaDb, AUTO, false),
    arm("MariaDB's pool", Kind::MariaDbPool, Front::Nothing, false),
    arm("MariaDB's pool, gate P = 4", Kind::MariaDbPool, P4, false),
    arm("MariaDB's pool, gate", Kind::MariaDbPool, AUTO, false),
    arm("PostgreSQL", Kind::PostgreSql, Front::Nothing, true),
    arm("PostgreSQL, gate P = 4", Kind::PostgreSql, P4, true),
    arm("PostgreSQL, gate P = 16", Kind::PostgreSql, P16, false),
    arm("PostgreSQL, gate", Kind::PostgreSql, AUTO, false),
];

const BYSTANDERS: Group = Group::new("bystanders", 8, Act::Bystand);
const OWNER: Group = Group::new("owner", 1, Act::OwnRow);

const fn waiters(clients: usize, act: Act) -> Group {
    Group::new("waiters", clients, act)
}

const CASES: [Case; 6] = [
    Case::new("4 clients want a row", &[BYSTANDERS, OWNER, waiters(4, Act::WantRow)]),
    Case::new("16 clients want a row", &[BYSTANDERS, OWNER, waiters(16, Act::WantRow)]),
    Case::new("100 clients want a row", &[BYSTANDERS, OWNER, waiters(100, Act::WantRow)])
        .also_quick(),
    Case::new(
        "ALTER TABLE behind an idle reader",
        &[
            BYSTANDERS,
            Group::new("owner", 1, Act::OwnTable),
            Group::new("alter", 1, Act::Alter),
            waiters(32, Act::ReadAltered),
        ],
    ),
    Case::new("32 clients, 4 user locks", &[BYSTANDERS, waiters(32, Act::UserLock)]),
    Case::new("32 clients sleep 1 s", &[BYSTANDERS, waiters(32, Act::Sleep)]),
];

fn ratio(view: &View<'_>, key: &str) -> Option<f64> {
    view.both(key).map(|(ours, theirs)| ours / theirs)
}

/// The difference.
fn more(view: &View<'_>, key: &str) -> Option<f64> {
    view.both(key).map(|(ours, theirs)| ours - theirs)
}

const MEASURES: [Measure; 4] = [
    Measure {
        key: "bystanders_of_as_it_is",
        title: "Bystanders' operations, of those as it is",
        statement: "bystanders work on while others wait for locks",
        unit: "operations / operations as it is",
        bound: Bound::AtLeast(0.9),
        value: |view| ratio(view, "bystanders_per_s"),
    },
    Measure {
        key: "bystanders_worst_more_ms",
        title: "Bystanders' worst wait, ms more than as it is",
        statement: "no bystander waits much longer",
        unit: "ms more than as it is, worst wait",
        bound: Bound::AtMost(50.0),
        value: |view| more(view, "bystanders_max_ms"),
    },
    Measure {
        key: "waiters_late_more_ms",
        title: "Waiters after the lock is free, ms later than as it is (P95)",
        statement: "who waited for a lock goes on when it is free",
        unit: "ms later than as it is, P95 after the lock was freed",
        bound: Bound::AtMost(10.0),
        value: |view| more(view, "late_p95_ms"),
    },
    Measure {
        key: "waiters_time_of_as_it_is",
        title: "Time for what the waiters do, of that as it is",
        statement: "the whole takes as long",
        unit: "time for each of the waiters' requests / that as it is",
        bound: Bound::AtMost(1.1),
        value: |view| view.both("waiters_per_s").map(|(ours, theirs)| theirs / ours),
    },
];

const SPEC: Spec = Spec {
    experiment: &EXPERIMENT,
    arms: &ARMS,
    cases: &CASES,
    measures: &MEASURES,
    times: TIMES,
    about: "Eight bystanders change different rows, with short pauses. Beside them, clients \
            wait: for a row whose owner idles for 3 s in its transaction, for a table with an \
            ALTER TABLE behind an idle reader, for user locks, or in the server's sleep \
            function. A session that waits needs no processor, so it must cost the bystanders \
            nothing.",
};

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{ARMS, record, run};
    use super::*;

    #[test]
    fn bystanders_and_waiters_are_judged_apart() {
        let plain: &[(&str, f64)] = &[
            ("bystanders_per_s", 2_368.0),
            ("bystanders_max_ms", 12.0),
            ("waiters_per_s", 30.0),
            ("late_p95_ms", 20.0),
        ];
        let gated: &[(&str, f64)] = &[
            ("bystanders_per_s", 2_300.0),
            ("bystanders_max_ms", 80.0),
            ("waiters_per_s", 20.0),
            ("late_p95_ms", 25.0),
        ];
        let mut record = record(vec![run(plain, &[])], vec![run(gated, &[])]);
        let points = [(1.0, CASES[0].name.to_owned(), CASES[0].groups)];
        let verdicts = judge::judge(&mut record, &ARMS, &points, &MEASURES);
        let holds: Vec<bool> = verdicts.iter().map(|verdict| verdict.holds).collect();
        // Ratio 0.97; 68 ms more; 5 ms later; 1.5 times as long.
        assert_eq!(holds, [true, false, true, false]);
    }
}
