//! Random systems as programs of a Java virtual machine. One source runs all of them: it is given a
//! file with the system. Dresses:
//!
//! * `named`: each stage's threads have its name
//! * `executor`: tasks of one executor run all stages, without names
//! * `virtual`: clients, stages with a thread for each request and every second pool have virtual
//!   threads; the other pools are named
//!
//! Queues are those of `java.util.concurrent`, a monitor, and executors; answers are latches,
//! futures and monitors.

use super::plan::{Arrows, THREADS_MAX, Use, used, uses};
use crate::compiled::Classes;
use anyhow::{Context, Result};
use headworks_tad::complete::random;
use headworks_tad::model::{StageId, Tad, Threads};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("RandomSystem.java");
/// The first version that has virtual threads.
const NEWER: u32 = 21;
/// The machine's threads are to be the same in each run.
const OPTIONS: [&str; 3] =
    ["-Xmx128m", "-XX:+UseSerialGC", "-XX:-UseDynamicNumberOfCompilerThreads"];

/// How a system is dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "said above")]
pub enum Dress {
    Named,
    Executor,
    Virtual,
}

impl Dress {
    /// All of them.
    pub const ALL: [Dress; 3] = [Dress::Named, Dress::Executor, Dress::Virtual];

    fn word(self) -> &'static str {
        match self {
            Dress::Named => "named",
            Dress::Executor => "executor",
            Dress::Virtual => "virtual",
        }
    }
}

/// The compiled program.
#[derive(Debug)]
pub struct Java(Classes);

impl Java {
    /// Compiles it.
    ///
    /// # Errors
    /// There is no JDK.
    pub fn compile() -> Result<Java> {
        Ok(Java(Classes::compile("RandomSystem", SOURCE)?))
    }

    /// The system of a seed. Its file goes with the program.
    ///
    /// # Errors
    /// No virtual machine here has such threads, or the file cannot be written.
    pub fn command(&self, seed: u64, dress: Dress) -> Result<Command> {
        let java = match dress {
            Dress::Virtual => newer().context("no JDK 21 or later is in /usr/lib/jvm")?,
            _ => PathBuf::from("java"),
        };
        let name = format!("{seed}-{}.plan", dress.word());
        let file = self.0.write(&name, &plan(seed, dress))?;
        let mut command = self.0.command(&java, &OPTIONS);
        command.arg(file);
        Ok(command)
    }
}

/// A virtual machine that has virtual threads.
fn newer() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let numbers = name.iter().flat_map(|name| name.split(['-', '.']));
        numbers.flat_map(str::parse::<u32>).any(|version| (NEWER..100).contains(&version))
    };
    all.filter(wanted).map(|path| path.join("bin/java")).find(|java| Path::exists(java))
}

fn is_virtual(tad: &Tad, stage: StageId, dress: Dress) -> bool {
    let pool = matches!(tad.stages[stage].threads, Threads::Bounded(_));
    dress == Dress::Virtual && (stage == 0 || !pool || stage.is_multiple_of(2))
}

/// What passes requests to a stage.
fn queue(tad: &Tad, seed: u64, stage: StageId, dress: Dress) -> &'static str {
    const KINDS: [&str; 6] = ["linked", "array", "semaphore", "condition", "monitor", "pool"];
    let at = seed as usize * 7 + stage * 5;
    let pool = matches!(tad.stages[stage].threads, Threads::Bounded(_));
    let plain = dress == Dress::Executor || is_virtual(tad, stage, dress);
    match (stage, pool, plain) {
        (0, ..) => "sockets",
        (_, true, true) => KINDS[at % (KINDS.len() - 1)],
        (_, true, false) => KINDS[at % KINDS.len()],
        (_, false, false) if at.is_multiple_of(2) => "cached",
        (_, false, _) => "thread",
    }
}

/// The file of a system: `RandomSystem.java` says what its lines are.
fn plan(seed: u64, dress: Dress) -> String {
    let tad = random(seed).tad;
    let mut out = format!("truth {}\ndress {}\n", truth(&tad, seed, dress), dress.word());
    for (stage, each) in tad.stages.iter().enumerate() {
        let virtually = if is_virtual(&tad, stage, dress) { "virtual-" } else { "" };
        let threads = match each.threads {
            Threads::Bounded(threads) => threads.min(THREADS_MAX),
            Threads::OnDemand => 0,
        };
        let _ = writeln!(out, "stage {virtually}{} {threads}", queue(&tad, seed, stage, dress));
    }
    for (number, kind) in tad.requests.iter().enumerate() {
        let _ = writeln!(out, "request {} {}", kind.steps.len(), kind.first);
        for step in &kind.steps {
            let (mut cpu_ns, mut writes) = (0, 0);
            for used in uses(&tad, number, step) {
                match used {
                    Use::Cpu(ns) => cpu_ns += ns,
                    Use::Write => writes += 1,
                }
            }
            let [submits, waits, then] =
                [&step.submits, &step.waits, &step.then].map(|all| list(all));
            let _ = writeln!(out, "step {} {cpu_ns} {writes} {submits} {waits} {then}", step.stage);
        }
    }
    out
}

fn list(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

/// The truth as the kernel can see it: virtual threads of all stages share theirs, which are those
/// of stage 0. What passes between them is counted as hidden.
fn truth(tad: &Tad, seed: u64, dress: Dress) -> String {
    let (used, arrows) = used(tad);
    let seen = |stage: StageId| if is_virtual(tad, stage, dress) { 0 } else { stage };
    let stages: BTreeSet<(StageId, String)> = used
        .iter()
        .map(|&stage| {
            let name = match queue(tad, seed, seen(stage), dress) {
                "thread" => "on-demand",
                "sockets" if dress == Dress::Virtual => "virtual threads",
                other => other,
            };
            (seen(stage), name.to_owned())
        })
        .collect();
    let merged: Arrows = arrows
        .iter()
        .map(|&(from, to, blocks)| (seen(from), seen(to), blocks))
        .filter(|(from, to, _)| from != to)
        .collect();
    let pairs =
        |all: &Arrows| all.iter().map(|(from, to, _)| (*from, *to)).collect::<BTreeSet<_>>().len();
    let hidden = pairs(&arrows) - pairs(&merged);
    serde_json::json!({ "stages": stages, "arrows": merged, "hidden": hidden }).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn truth_of(plan: &str) -> super::super::Truth {
        let line = plan.lines().next().and_then(|line| line.strip_prefix("truth "));
        read(line.expect("the truth")).expect("JSON")
    }

    #[test]
    fn a_plan_has_each_stage_and_step_and_its_dress_changes_no_arrow() {
        for seed in 1..40 {
            let tad = random(seed).tad;
            let plan = plan(seed, Dress::Named);
            let of = |word: &str| plan.lines().filter(|line| line.starts_with(word)).count();
            assert_eq!(of("stage "), tad.stages.len());
            let steps: usize = tad.requests.iter().map(|kind| kind.steps.len()).sum();
            assert_eq!(of("step "), steps);
            let truth = truth_of(&plan);
            assert_eq!(truth.hidden, 0);
            assert_eq!(truth.arrows, used(&tad).1);
            assert_eq!(truth.arrows, truth_of(&super::plan(seed, Dress::Executor)).arrows);
        }
    }

    #[test]
    fn arrows_between_virtual_threads_are_hidden_and_no_arrow_is_lost() {
        let mut hidden = 0;
        for seed in 1..40 {
            let pairs = |truth: &super::super::Truth| {
                let pairs = truth.arrows.iter().map(|(from, to, _)| (*from, *to));
                pairs.collect::<BTreeSet<_>>().len()
            };
            let named = truth_of(&plan(seed, Dress::Named));
            let truth = truth_of(&plan(seed, Dress::Virtual));
            assert_eq!(pairs(&truth) + truth.hidden, pairs(&named));
            assert!(truth.arrows.iter().all(|(from, to, _)| from != to));
            assert_eq!(truth.stages[&0], "virtual threads");
            hidden += truth.hidden;
        }
        assert!(hidden > 20, "{hidden}");
    }
}
