//! Servers with a planted bottleneck: whether `headworks tad limits` names it first, and what it
//! predicts that a mend gains, beside what the real mend gains.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_record::capture;
use headworks_record::planted::{self, ALL, Found, Planted, WAITS};

use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};

const ID: &str = "record-limits";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "planted bottlenecks: which wait limits throughput, and what its mend gains, predicted and real",
    (300, 150),
    &["root", "default-jdk-headless"],
    &Steps { collect, report },
);

/// The place of a planted bottleneck that was not found.
pub(super) const ABSENT: f64 = 99.0;
/// A predicted gain may be off by this part of the real one.
const NEAR: f64 = 0.2;

fn collect(options: &RunOptions) -> Result<Record> {
    if let Some(why) = capture::refusal() {
        anyhow::bail!("eBPF cannot be used here: {why}");
    }
    let rounds_of = options.repeat.unwrap_or(1).max(1);
    let window = Duration::from_secs(options.window_s.unwrap_or(if options.quick { 1 } else { 2 }));
    let chosen =
        |planted: &&Planted| options.only.as_deref().is_none_or(|only| planted.word == only);
    let servers: Vec<&'static Planted> = ALL.iter().filter(chosen).collect();
    ensure!(!servers.is_empty(), "no server is called so; there are {}", words());
    let each = window * 6 + Duration::from_secs(12);
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, each * (servers.len() * rounds_of) as u32);
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let own = std::env::current_exe().context("this program cannot find itself")?;
    let command = |words: &[String]| {
        let mut command = Command::new(&own);
        command.arg("planted-server").args(words).env_remove("LD_PRELOAD");
        command
    };
    let mut runs = Vec::new();
    for round in 0..rounds_of {
        for server in &servers {
            interrupt::check()?;
            progress.step(&format!("{}, round {}", server.about, round + 1), each);
            let found = planted::find(server, &command, window)?;
            for (at, limit) in found.limits.iter().take(4).enumerate() {
                let (number, gain, busy) = (at + 1, limit.gain * 100.0, limit.busy * 100.0);
                progress.note(&format!(
                    "{}: {number}. {:?} {}, {}: +{gain:.0} %, busy {busy:.0} %",
                    server.word, limit.kind, limit.name, limit.change
                ));
            }
            runs.push((server.word, 0.0, run(server, &found)));
        }
    }
    let arms = servers.iter().map(|server| Arm::new(server.word, server.about.to_owned(), &[0.0]));
    Ok(rounds.record((0.2, window.as_secs_f64()), "server", arms.collect(), &runs))
}

fn words() -> String {
    ALL.map(|planted| planted.word).join(", ")
}

fn run(server: &Planted, found: &Found) -> Run {
    let measured = found.measured();
    let predicted = found.predicted(server);
    let near = predicted.is_some_and(|gain| (gain / measured - 1.0).abs() <= NEAR);
    let sleeps = found.limits.iter().any(|limit| limit.name.contains("sleeper"));
    let numbers = [
        ("place", found.place(server).map_or(ABSENT, |place| place as f64)),
        ("first", f64::from(u8::from(found.place(server) == Some(1)))),
        ("near", f64::from(u8::from(near))),
        ("predicted_percent", predicted.unwrap_or(0.0) * 100.0),
        ("measured_percent", measured * 100.0),
        ("per_s", found.per_s),
        ("simulated_per_s", found.simulated_per_s),
        ("mended_per_s", found.mended_per_s),
        ("waits_per_s", found.waits.0),
        ("wait_us", found.waits.1),
        ("sleeper", f64::from(u8::from(sleeps))),
    ];
    let numbers = numbers.map(|(key, value)| (key.to_owned(), value)).into();
    Run { numbers, bucket_s: 1.0, ..Run::default() }
}

/// The part of all servers with a number of one.
fn part(seed: &Seed<'_>, key: &str) -> f64 {
    let all: Vec<f64> = ALL.iter().map(|server| seed.get(server.word, 0.0, key)).collect();
    all.iter().sum::<f64>() / all.len() as f64
}

const CLAIMS: &[Claim] = &[
    Claim::new("the planted limit is the first")
        .ours("part of the servers", |seed| part(seed, "first"))
        .at_least(0.9),
    Claim::new("the predicted gain is within 20 % of the real mend's")
        .ours("part of the servers", |seed| part(seed, "near"))
        .at_least(0.9),
    Claim::new("thousands of short waits for one lock beside a long sleeper: the lock is first")
        .ours("its place", |seed| seed.get(WAITS, 0.0, "place"))
        .at_most(1.0),
    Claim::new("and the sleeper is no limit, in no server")
        .ours("part of the servers that have it in their lists", |seed| part(seed, "sleeper"))
        .at_most(0.0),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let gains = ALL.iter().fold(Panel::bars("Gain of the mend, %", "%"), |panel, server| {
        let panel = panel.bar(server.word, "predicted", server.word, 0.0, "predicted_percent");
        panel.bar(server.word, "measured", server.word, 0.0, "measured_percent")
    });
    let lines = ALL.map(|server| format!("{}: {}", server.word, server.about));
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "Small servers with one planted bottleneck, under clients that send one request after another. Each is \
                recorded for 3 s. The mend makes the bottleneck half as narrow; windows with and without it by turns.",
        sweep_label: "",
        caption: lines.join("; "),
        columns: &[
            ("place", "place"),
            ("predicted %", "predicted_percent"),
            ("measured %", "measured_percent"),
            ("as it is/s", "per_s"),
            ("simulated/s", "simulated_per_s"),
            ("mended/s", "mended_per_s"),
            ("waits for a lock/s", "waits_per_s"),
            ("each, us", "wait_us"),
        ],
        quick: "short windows",
        claims: CLAIMS,
        panels: vec![gains],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point};
    use headworks_record::limits::{Kind, Limit};
    use std::collections::BTreeMap;

    fn limit(kind: Kind, name: &str, gain: f64) -> Limit {
        let (name, change) = (name.to_owned(), String::new());
        Limit { kind, name, change, per_s: 0.0, gain, busy: 1.0 }
    }

    #[test]
    fn a_limit_that_is_second_or_a_gain_that_is_far_off_is_judged_so() {
        let server = Planted::of(WAITS).expect("it is there");
        let lock = limit(Kind::Lock, "narrow_lock", 0.9);
        let other = limit(Kind::Threads, "connection", 1.0);
        let found = |limits: &[&Limit], mended_per_s| {
            let limits = limits.iter().map(|limit| (*limit).clone()).collect();
            run(server, &Found { limits, per_s: 100.0, mended_per_s, ..Found::default() }).numbers
        };
        let right = found(&[&lock, &other], 200.0);
        assert_eq!((right["place"], right["first"], right["near"]), (1.0, 1.0, 1.0));
        let second = found(&[&other, &lock], 300.0);
        assert_eq!((second["place"], second["first"], second["near"]), (2.0, 0.0, 0.0));
        assert_eq!(found(&[], 200.0)["place"], ABSENT);
    }

    #[test]
    fn one_server_of_thirteen_may_be_wrong_and_two_may_not() {
        for (wrong, holds) in [(1, true), (2, false)] {
            let arm = |(at, server): (usize, &Planted)| {
                let right = f64::from(u8::from(at >= wrong));
                let numbers = [("first", right), ("near", right), ("sleeper", 0.0), ("place", 1.0)];
                let numbers = numbers.map(|(key, value)| (key.to_owned(), value)).into();
                let points = vec![Point { at: 0.0, runs: vec![Run { numbers, ..Run::default() }] }];
                ArmRecord { arm: server.word.to_owned(), setup: BTreeMap::new(), points }
            };
            let record = Record::of(ALL.iter().enumerate().map(arm).collect());
            let verdicts = sweep::analyse::verdicts(CLAIMS, "rounds", &record);
            assert_eq!(verdicts[0].holds, holds, "{verdicts:?}");
            assert_eq!(verdicts[1].holds, holds, "{verdicts:?}");
            assert!(verdicts[2].holds && verdicts[3].holds, "{verdicts:?}");
        }
    }
}
