//! Commits that come by the clock beside a program that writes much: an open loop, so that one that
//! has to wait makes the next ones late. No rule names either program. [`FIG_BUSY`] has programs of
//! many short calls, on a machine whose processors are busy: each call that is held then waits for
//! a processor, too.

use super::day::{self, Counted, programs};
use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::Result;
use std::path::{Path, PathBuf};

const ALONE: &str = "alone";
const PLAIN: &str = "as it is";
const SPLIT: &str = "split-deadline";
const RCP: &str = "rcp";

/// What runs beside the commits.
const BULK: &str = "dd if=/dev/zero of=big bs=1M count=400 conv=fsync";

/// Commits a second.
const RATES: &[f64] = &[20.0, 40.0, 60.0];

fn no_data(work: &Path) -> Result<PathBuf> {
    Ok(work.to_owned())
}

/// What a commit takes alone.
const COMMIT_S: f64 = 0.01;

/// The largest figure of the rates.
fn worst(figure: impl Fn(f64) -> f64) -> f64 {
    RATES.iter().map(|at| figure(*at)).fold(f64::NAN, f64::max)
}

/// How much longer the bulk took than it would with all that the commits leave of the disk. As it
/// is, it has nearly the whole disk.
fn beside(seed: &Seed<'_>, at: f64) -> f64 {
    let left = 1.0 - at * COMMIT_S;
    seed.get(SPLIT, at, "beside_s") * left / seed.get(PLAIN, at, "beside_s")
}

pub(super) const FIG_CLOCK: Figure = Figure {
    id: "split-clock",
    title: "Commits by the clock beside a program that writes much",
    paper: "",
    figure: "Everyday",
    about: "A program appends a block of 4 KiB and calls fsync at fixed times; the latency counts from the time at \
        which a commit was due. Beside it dd writes 400 MB and calls fsync. Commits that were due while dd ran \
        count. A commit takes 10 ms alone. No rule names either program.",
    axis: "commits a second",
    categories: &[],
    times: [(4, 20, 5), (3, 12, 1)],
    around_s: 5,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").full_only(),
        Arm::new(PLAIN, "hdd", "mq-deadline"),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-deadline"),
        Arm::new(RCP, "hdd", "mq-deadline").io("rcp").full_only(),
    ],
    points: RATES,
    quick_points: RATES,
    work: Work::Database {
        template: no_data,
        one: |plan, disk, arm, at| {
            let script = if arm.label == ALONE { "sleep 4" } else { BULK };
            programs(plan, disk, arm, script, (at as u64, Counted::Beside))
        },
    },
    rules: "",
    claims: &[
        Claim::new("split-deadline: commits are not overrun")
            .ours("P99 in ms, worst rate", |seed| worst(|at| seed.get(SPLIT, at, "p99_ms")))
            .at_most(300.0),
        Claim::new("split-deadline: the program beside them has what they leave of the disk")
            .ours("seconds / those with all that they leave, worst rate", |seed| {
                worst(|at| beside(seed, at))
            })
            .at_most(2.0),
    ],
    panels: || {
        let arms = [ALONE, PLAIN, SPLIT, RCP];
        vec![
            Panel::sweep("P99 of the commits", "ms").lines(arms, "p99_ms").tenfold(),
            Panel::sweep("The program beside them", "s").lines(arms, "beside_s"),
        ]
    },
};

/// What runs beside the commits on a busy machine.
const SHORT: &[(&str, &str)] = &[
    ("tar", "tar -xf $from/tree.tar"),
    (
        "short programs",
        "for i in $(seq 100); do dd if=/dev/zero of=f$i bs=4k count=1 conv=fsync; done",
    ),
    (
        "random writes",
        "perl -MIO::Handle -e 'srand 1; open F, \"+>\", \"random\"; for (1..3000) { \
            sysseek F, 4096 * int rand 20000, 0; syswrite F, \"x\" x 4096; } F->sync or die'",
    ),
    ("small writes", "dd if=/dev/zero of=seq bs=4k count=25000 conv=fsync"),
    (
        "SQLite",
        "(echo 'CREATE TABLE t (n);'; for i in $(seq 60); do echo \"INSERT INTO t VALUES ($i);\"; \
            done) | sqlite3 rows.db",
    ),
];
const SHORT_POINTS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0];
const _: () = assert!(SHORT_POINTS.len() == SHORT.len());

const SHORT_NAMES: [&str; SHORT.len()] = {
    let mut names = [""; SHORT.len()];
    let mut at = 0;
    while at < SHORT.len() {
        names[at] = SHORT[at].0;
        at += 1;
    }
    names
};

const BUSY_PLAIN: &str = "four busy loops, as it is";
const BUSY_SPLIT: &str = "four busy loops, split-deadline";

/// Most that an arm's figure is of another's.
fn most(seed: &Seed<'_>, arms: [&str; 2], key: &str) -> f64 {
    let ratio = |at: &f64| seed.get(arms[1], *at, key) / seed.get(arms[0], *at, key);
    SHORT_POINTS.iter().map(ratio).fold(f64::NAN, f64::max)
}

pub(super) const FIG_BUSY: Figure = Figure {
    id: "split-busy",
    title: "Programs of many short calls beside commits on a busy machine",
    paper: "",
    figure: "Everyday",
    about: "A program commits 30 times a second, as in split-clock. Beside it: 0: tar unpacks 4,000 files of 64 KiB; \
        1: 100 programs, each of which writes a block and calls fsync; 2: 3,000 blocks all over 80 MB, then fsync; \
        3: 100 MB in blocks of 4 KiB, then fsync; 4: 60 transactions of SQLite. Four loops keep the processors busy.",
    axis: "program beside the commits",
    categories: &SHORT_NAMES,
    times: [(4, 40, 3), (2, 13, 1)],
    around_s: 5,
    arms: &[
        Arm::new(PLAIN, "hdd", "mq-deadline").full_only(),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-deadline").full_only(),
        Arm::new(BUSY_PLAIN, "hdd", "mq-deadline"),
        Arm::new(BUSY_SPLIT, "hdd", "mq-deadline").io("split-deadline"),
    ],
    points: SHORT_POINTS,
    quick_points: &[1.0, 2.0, 3.0],
    work: Work::Database {
        template: no_data,
        one: |plan, disk, arm, at| {
            let plan = if at == 0.0 { day::tree_data(plan)? } else { plan.of("") };
            let script = SHORT[at as usize].1;
            let busy = format!(
                "loops=; for i in 1 2 3 4; do sh -c 'while :; do :; done' & loops=\"$loops $!\"; done; \
                 {script}; ok=$?; kill $loops; [ $ok = 0 ]"
            );
            let script = if arm.label.starts_with("four") { &busy } else { script };
            programs(&plan, disk, arm, script, (30, Counted::Beside))
        },
    },
    rules: "",
    claims: &[
        Claim::new("no program takes more than twice as long")
            .ours("seconds / those as it is, worst program", |seed| {
                most(seed, [BUSY_PLAIN, BUSY_SPLIT], "beside_s")
            })
            .at_most(2.0),
        Claim::new("commits do not wait longer")
            .ours("P99 / that as it is, worst program", |seed| {
                most(seed, [BUSY_PLAIN, BUSY_SPLIT], "p99_ms")
            })
            .at_most(1.2),
    ],
    panels: || {
        let arms = [PLAIN, SPLIT, BUSY_PLAIN, BUSY_SPLIT];
        vec![
            Panel::sweep("The program beside the commits", "s").lines(arms, "beside_s"),
            Panel::sweep("P99 of the commits", "ms").lines(arms, "p99_ms").tenfold(),
        ]
    },
};
