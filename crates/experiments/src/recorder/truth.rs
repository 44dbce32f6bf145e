//! Random systems as real programs, in three dresses, made hard to see in five ways, and in three
//! dresses of Java: which of their stages and arrows are found.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_record::capture;
use headworks_record::truth::java::{Dress, Java};
use headworks_record::truth::{Count, SATURATED, Score, USUAL, WARM, judge};

use super::interval::proportion;
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};

const ID: &str = "record-truth";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "stages and arrows that the recorder finds in random systems whose architecture is known",
    (600, 60),
    &["root", "default-jdk-headless", "a JDK from 21 on for virtual threads"],
    &Steps { collect, report },
);

const NAMED: &str = "named";
const LOOPS: &str = "loops";
const EXECUTOR: &str = "executor";
const DRESSES: [&str; 3] = [NAMED, LOOPS, EXECUTOR];
const SPINS: &str = "spins";
const BATCHES: &str = "batches";
const RENAMES: &str = "renames";
const RING: &str = "ring";
const SATURATES: &str = "saturated";
/// What makes a system hard to see. Threads have names; those that rename themselves have loops.
const HARD: [&str; 5] = [SPINS, BATCHES, RENAMES, RING, SATURATES];

const JAVA_NAMED: &str = "java-named";
const JAVA_EXECUTOR: &str = "java-executor";
const JAVA_VIRTUAL: &str = "java-virtual";
/// Programs of a Java virtual machine.
const JAVA: [&str; 3] = [JAVA_NAMED, JAVA_EXECUTOR, JAVA_VIRTUAL];

/// Systems of each dress.
const SYSTEMS: usize = 30;
/// One of so many of these is also made hard to see.
const HARD_EACH: usize = 3;
/// The first system's own seed is so many times that of the run, and the others follow.
const BETWEEN: u64 = 10_000;
const EACH: Duration = Duration::from_secs(6);

fn collect(options: &RunOptions) -> Result<Record> {
    if let Some(why) = capture::refusal() {
        anyhow::bail!("eBPF cannot be used here: {why}");
    }
    let systems = options.repeat.unwrap_or(if options.quick { 4 } else { SYSTEMS }).max(1);
    let chosen = |dress: &&str| options.only.as_deref().is_none_or(|only| dress.contains(only));
    let first = options.seed * BETWEEN + 1;
    let all = DRESSES.into_iter().chain(HARD).chain(JAVA).filter(chosen);
    let (programs, dresses, left_out) = Programs::of(first, all.collect());
    let takes_part =
        |at: usize, dress: &str| at.is_multiple_of(HARD_EACH) || !HARD.contains(&dress);
    let folder = options.out.join(ID);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let all = (0..systems).flat_map(|at| dresses.iter().map(move |dress| (at, *dress)));
    let all: Vec<(usize, &str)> = all.filter(|(at, dress)| takes_part(*at, dress)).collect();
    let mut progress = Progress::new(&title, EACH * all.len() as u32);
    left_out.iter().for_each(|why| progress.note(why));
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for (at, dress) in all {
        let system = first + at as u64;
        interrupt::check()?;
        progress.step(&format!("system {system}, {dress}"), EACH);
        let kept = folder.join(format!("{system}-{dress}"));
        let load = match dress {
            SATURATES => SATURATED,
            _ if JAVA.contains(&dress) => WARM,
            _ => USUAL,
        };
        let mut score = Score::default();
        let judged = judge(programs.command(system, dress)?, load, &mut score, Some(&kept))?;
        for note in &score.notes {
            progress.note(&format!("system {system}, {dress}: {note}"));
        }
        if judged {
            sums.entry(dress).or_default().add(system, &score);
        }
    }
    let arms = dresses.iter().map(|dress| Arm::new(dress, about(dress).to_owned(), &[0.0]));
    let runs: Vec<_> = dresses
        .iter()
        .map(|&dress| (dress, 0.0, sums.remove(dress).unwrap_or_default().run()))
        .collect();
    Ok(rounds.record((0.1, 2.5), "dress", arms.collect(), &runs))
}

fn about(dress: &str) -> &'static str {
    match dress {
        NAMED => "threads have their stage's name",
        LOOPS => "threads have one loop function a stage, and no name",
        SPINS => "as named; the last stage looks for work all the time",
        BATCHES => "as named; one wake-up for all items that a stage has",
        RENAMES => "as loops; threads take the same new names in all stages with each request",
        RING => "as named; stages wait by io_uring",
        SATURATES => "as named; sixteen clients that do not pause",
        JAVA_NAMED => "in Java; pools and threads have their stage's name",
        JAVA_EXECUTOR => "in Java; tasks of one executor run all stages, pool-1-thread-#",
        JAVA_VIRTUAL => "in Java; virtual threads, and named ones for every second pool",
        _ => "threads run all stages by one function, without names",
    }
}

/// Programs that are random systems: this one, and one in Java.
struct Programs {
    java: Option<Java>,
}

impl Programs {
    /// With those of these dresses that can be run here, and why others cannot.
    fn of(first: u64, dresses: Vec<&'static str>) -> (Programs, Vec<&'static str>, Vec<String>) {
        let java = dresses.iter().any(|dress| JAVA.contains(dress)).then(Java::compile);
        let why = java.as_ref().and_then(|java| java.as_ref().err()).map(|why| format!("{why:#}"));
        let programs = Programs { java: java.and_then(Result::ok) };
        let (mut some, mut left_out) = (Vec::new(), Vec::new());
        for dress in dresses {
            match programs.command(first, dress) {
                Err(none) if JAVA.contains(&dress) => {
                    let why = why.clone().unwrap_or_else(|| format!("{none:#}"));
                    left_out.push(format!("{dress} is left out: {why}"));
                }
                _ => some.push(dress),
            }
        }
        (programs, some, left_out)
    }

    fn command(&self, system: u64, dress: &str) -> Result<Command> {
        let java = |dress| self.java.as_ref().context("no Java")?.command(system, dress);
        let own = std::env::current_exe().context("this program cannot find itself")?;
        ensure!(own.is_file(), "{} was replaced meanwhile", own.display());
        let mut command = Command::new(own);
        command.args(["random-server", &system.to_string()]).env_remove("LD_PRELOAD");
        match dress {
            JAVA_NAMED => return java(Dress::Named),
            JAVA_EXECUTOR => return java(Dress::Executor),
            JAVA_VIRTUAL => return java(Dress::Virtual),
            SATURATES => command.arg(NAMED),
            RENAMES => command.args([LOOPS, RENAMES]),
            SPINS | BATCHES | RING => command.args([NAMED, dress]),
            _ => command.arg(dress),
        };
        Ok(command)
    }
}

/// All systems of a dress.
#[derive(Default)]
struct Sum {
    counts: BTreeMap<&'static str, [f64; 3]>,
    certain: f64,
    certain_wrong: f64,
    missed: f64,
    silent: f64,
    series: BTreeMap<String, Vec<f64>>,
}

impl Sum {
    fn add(&mut self, system: u64, score: &Score) {
        let mut note =
            |key: &str, value: f64| self.series.entry(key.to_owned()).or_default().push(value);
        note("system", system as f64);
        for (what, count) in
            [("stages", score.stages), ("arrows", score.arrows), ("blocking", score.blocking)]
        {
            let Count { right, found, truth } = count;
            let sum = self.counts.entry(what).or_default();
            for (sum, (part, n)) in
                sum.iter_mut().zip([("right", right), ("found", found), ("true", truth)])
            {
                note(&format!("{what}_{part}"), n as f64);
                *sum += n as f64;
            }
        }
        self.certain += score.certain as f64;
        self.certain_wrong += score.certain_wrong as f64;
        self.missed += score.missed as f64;
        self.silent += score.silent as f64;
    }

    /// Sums as numbers, and each system's own as series.
    fn run(self) -> Run {
        let mut numbers = BTreeMap::from([
            ("certain".to_owned(), self.certain),
            ("certain_wrong".to_owned(), self.certain_wrong),
            ("missed".to_owned(), self.missed),
            ("silent".to_owned(), self.silent),
            ("systems".to_owned(), self.series.get("system").map_or(0, Vec::len) as f64),
        ]);
        for (what, [right, found, truth]) in self.counts {
            for (part, of) in [("precision", found), ("recall", truth)] {
                let [low, high] = proportion(right, of);
                let mut note = |key: &str, value| {
                    numbers.insert(format!("{what}_{part}{key}"), value);
                };
                note("", if of > 0.0 { right / of } else { f64::NAN });
                note("_low", low);
                note("_high", high);
            }
            numbers.insert(format!("{what}_true"), truth);
        }
        numbers.retain(|_, value| value.is_finite());
        Run { numbers, series: self.series, bucket_s: 1.0, ..Run::default() }
    }
}

/// The worse of precision and recall.
fn worse(seed: &Seed<'_>, dress: &str, what: &str) -> f64 {
    let get = |part: &str| seed.get(dress, 0.0, &format!("{what}_{part}"));
    get("precision").min(get("recall"))
}

const fn claim(statement: &'static str, bound: f64, ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new(statement)
        .ours("the worse of precision and recall", ours)
        .at_least(bound)
        .note("sums over all systems; intervals are in the table")
}

const CLAIMS: &[Claim] = &[
    claim("named: stages are found", 0.98, |seed| worse(seed, NAMED, "stages")),
    claim("named: arrows are found", 0.95, |seed| worse(seed, NAMED, "arrows")),
    claim("named: blocking is found", 0.90, |seed| worse(seed, NAMED, "blocking")),
    claim("loops: stages are found", 0.98, |seed| worse(seed, LOOPS, "stages")),
    claim("loops: arrows are found", 0.95, |seed| worse(seed, LOOPS, "arrows")),
    claim("loops: blocking is found", 0.90, |seed| worse(seed, LOOPS, "blocking")),
    Claim::new("executor: arrows that are drawn are right")
        .ours("precision", |seed| seed.get(EXECUTOR, 0.0, "arrows_precision"))
        .at_least(0.95),
    Claim::new("executor: arrows are found")
        .ours("recall", |seed| seed.get(EXECUTOR, 0.0, "arrows_recall"))
        .at_least(0.80),
    Claim::new("hard to see: arrows that are drawn are right")
        .ours("the least precision of the five", |seed| {
            let precision = |dress: &&str| seed.get(dress, 0.0, "arrows_precision");
            HARD.iter().map(precision).fold(1.0, f64::min)
        })
        .at_least(0.95),
    Claim::new("and what is not seen is named")
        .ours("missed arrows to stages that the report does not name", |seed| {
            HARD.iter().map(|dress| seed.get(dress, 0.0, "silent")).sum()
        })
        .at_most(0.0),
    Claim::new("no wrong arrow is called certain")
        .ours("of all dresses", |seed| {
            let wrong = |dress: &&str| seed.get(dress, 0.0, "certain_wrong");
            DRESSES.iter().chain(&HARD).map(wrong).sum()
        })
        .at_most(0.0),
    claim("java-named: stages are found", 0.98, |seed| worse(seed, JAVA_NAMED, "stages")),
    claim("java-named: arrows are found", 0.95, |seed| worse(seed, JAVA_NAMED, "arrows")),
    claim("java-named: blocking is found", 0.90, |seed| worse(seed, JAVA_NAMED, "blocking")),
    Claim::new("java-executor: arrows that are drawn are right")
        .ours("precision", |seed| seed.get(JAVA_EXECUTOR, 0.0, "arrows_precision"))
        .at_least(0.95),
    Claim::new("java-executor: arrows are found")
        .ours("recall", |seed| seed.get(JAVA_EXECUTOR, 0.0, "arrows_recall"))
        .at_least(0.80),
    Claim::new("java-virtual: arrows that are drawn are right")
        .ours("precision", |seed| seed.get(JAVA_VIRTUAL, 0.0, "arrows_precision"))
        .at_least(0.95),
    Claim::new("java-virtual: what is not seen is named")
        .ours("missed arrows that the report does not name", |seed| {
            seed.get(JAVA_VIRTUAL, 0.0, "silent")
        })
        .at_most(0.0),
    Claim::new("in Java, no wrong arrow is called certain")
        .ours("of all dresses", |seed| {
            JAVA.iter().map(|dress| seed.get(dress, 0.0, "certain_wrong")).sum()
        })
        .at_most(0.0),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let bars = |what: &str| {
        let panel = Panel::bars(&format!("{what}: precision and recall"), "").up_to(1.0);
        DRESSES.iter().chain(&HARD).chain(&JAVA).fold(panel, |panel, dress| {
            ["precision", "recall"].iter().fold(panel, |panel, part| {
                let key = format!("{}_{part}", what.to_lowercase());
                panel.bar(dress, part, dress, 0.0, &key)
            })
        })
    };
    let lists = systems(&record);
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "Random systems of the generator of diagrams, as real programs of threads, with four clients that pause \
                for 0.5 ms. Every third one is also made hard to see. Those in Java run for 2 s before. Each is recorded for 2.5 s without a hint, and what was found is compared with what it is.",
        sweep_label: "",
        caption: lists.clone(),
        columns: &[
            ("systems", "systems"),
            ("stages p", "stages_precision"),
            ("from", "stages_precision_low"),
            ("to", "stages_precision_high"),
            ("r", "stages_recall"),
            ("from", "stages_recall_low"),
            ("arrows p", "arrows_precision"),
            ("from", "arrows_precision_low"),
            ("r", "arrows_recall"),
            ("from", "arrows_recall_low"),
            ("blocking p", "blocking_precision"),
            ("r", "blocking_recall"),
            ("certain", "certain"),
            ("wrong ones", "certain_wrong"),
            ("missed", "missed"),
            ("not named", "silent"),
        ],
        quick: "few systems; the intervals are wide",
        claims: CLAIMS,
        panels: vec![bars("Stages"), bars("Arrows"), bars("Blocking")],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

/// The systems that were judged.
fn systems(record: &Record) -> String {
    let of = |arm: &crate::sweep::record::ArmRecord| {
        let runs = arm.points.iter().flat_map(|point| &point.runs);
        let systems = runs.flat_map(|run| run.series.get("system").into_iter().flatten());
        let systems: Vec<String> = systems.map(|system| format!("{system:.0}")).collect();
        format!("{}: systems {}", arm.arm, systems.join(" "))
    };
    record.arms.iter().map(of).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point};

    #[test]
    fn one_wrong_stage_of_ten_is_judged_so() {
        let arm = |dress: &str, right: usize| {
            let stages = Count { right, found: 10, truth: 10 };
            let mut sum = Sum::default();
            sum.add(1, &Score { stages, arrows: stages, blocking: stages, ..Score::default() });
            let points = vec![Point { at: 0.0, runs: vec![sum.run()] }];
            ArmRecord { arm: dress.to_owned(), setup: BTreeMap::new(), points }
        };
        for (right, holds) in [(10, true), (9, false)] {
            let arms = DRESSES.iter().chain(&HARD).map(|dress| arm(dress, right)).collect();
            let record = Record::of(arms);
            let verdicts = crate::sweep::analyse::verdicts(CLAIMS, "rounds", &record);
            assert_eq!(verdicts[0].holds, holds, "{verdicts:?}");
            assert!(verdicts[9].holds && verdicts[10].holds, "{verdicts:?}");
            assert!(systems(&record).contains("named: systems 1"));
        }
    }
}
