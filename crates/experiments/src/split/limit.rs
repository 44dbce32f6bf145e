//! RCP's Figure 11: how many reads of the background may run, and what that costs either side.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Task};
use std::path::Path;

/// Readers in the background, each with its own file.
const READERS: u32 = 16;

const BYTES: u64 = 128 << 20;

/// A's pauses in milliseconds: it is hardly there, now and then, and always.
const AWAY: f64 = 2_000.0;
const OFTEN: f64 = 20.0;
const ALWAYS: f64 = 0.0;

fn tasks(at: f64, dir: &Path) -> Vec<Task> {
    let reads = Pattern::ReadRuns { bytes: 4096 };
    let pause_us = (at * 1e3) as u64;
    let a = Task { pause_us, ..Task::new("A", reads, dir.join("a"), BYTES) };
    let others = (0..READERS).map(|at| {
        let name = format!("b{at}");
        let path = dir.join(&name);
        Task::new(name, reads, path, BYTES)
    });
    std::iter::once(a).chain(others).collect()
}

const NOTHING: &str = "mq-deadline";
const ONE: &str = "rcp, 1";
const FOUR: &str = "rcp, 4";
const SIXTEEN: &str = "rcp, 16";

/// Reads a second of the background.
fn background(seed: &Seed<'_>, arm: &str, at: f64) -> f64 {
    (0..READERS).map(|reader| seed.get(arm, at, &format!("b{reader}_per_s"))).sum()
}

pub(super) const FIG_11: Figure = Figure {
    id: "rcp-limit",
    title: "Reads of the background at a time, and what clients and the background get",
    paper: "RCP",
    figure: "Figure 11",
    about: "A reads 4 KiB at random; 16 threads in the background do the same. Under rcp 1, 4 or 16 of those run \
        while A is active, and more when it is not.",
    axis: "A's pause, ms",
    categories: &[],
    times: [(4, 30, 5), (3, 6, 1)],
    around_s: 20,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline"),
        Arm::new(ONE, "hdd", "mq-deadline").io("rcp"),
        Arm::new(FOUR, "hdd", "mq-deadline").io("rcp").options("background_reads = 4\n"),
        Arm::new(SIXTEEN, "hdd", "mq-deadline").io("rcp").options("background_reads = 16\n"),
    ],
    points: &[AWAY, OFTEN, ALWAYS],
    quick_points: &[ALWAYS],
    work: Work::Files(tasks),
    rules: "[[io.thread]]\nname = \"b*\"\nforeground = false\n",
    claims: &[
        Claim::new("while A is away, the background has the device")
            .paper("a limit of 1 loses up to a third of the throughput")
            .ours("reads/s of the background / those under mq-deadline", |seed| {
                background(seed, ONE, AWAY) / background(seed, NOTHING, AWAY)
            })
            .at_least(0.95),
        Claim::new("A's reads do not wait behind sixteen others")
            .paper("not given")
            .ours("P99 under mq-deadline / P99", |seed| {
                seed.get(NOTHING, ALWAYS, "a_p99_ms") / seed.get(ONE, ALWAYS, "a_p99_ms")
            })
            .at_least(2.0),
    ],
    panels: || {
        let arms = [NOTHING, ONE, FOUR, SIXTEEN];
        vec![
            Panel::sweep("A: P99 of a read", "ms").lines(arms, "a_p99_ms"),
            Panel::sweep("A: reads", "per second").lines(arms, "a_per_s"),
            Panel::sweep("One of the background: reads", "per second").lines(arms, "b0_per_s"),
        ]
    },
};
