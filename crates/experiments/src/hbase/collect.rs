//! Runs the arms in turn. Nothing here judges a number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::machine::Load;

use super::Figure;
use crate::experiment::{Experiment, RunOptions};
use crate::progress::Progress;
use crate::running::Running;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::work::Work;

/// Seconds for which a run's clients are not counted.
const WARM_UP_S: f64 = 4.0;

/// What a cluster's start, tables and end take, besides the windows.
const AROUND: Duration = Duration::from_secs(60);

/// After so long a run has failed: it is a cluster of processes, on a busy machine.
const LONGEST: Duration = Duration::from_secs(900);

pub(super) fn collect(
    figure: &'static Figure,
    experiment: &Experiment,
    options: &RunOptions,
) -> Result<Record> {
    let script = script()?;
    let work = Work::new(options, 1 << 30)?;
    let (rounds, window_s) = if options.quick { (1, 5) } else { (3, figure.window_s) };
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let only = options.only.as_deref();
    // "ours" is an arm, and also a part of other arms' names: then only that arm is meant.
    let exact = only.is_some_and(|only| figure.arms.contains(&only));
    let chosen =
        |arm: &str| only.is_none_or(|only| if exact { arm == only } else { arm.contains(only) });
    let arms: Vec<Arm> = figure
        .arms
        .iter()
        .filter(|arm| chosen(arm))
        .map(|arm| Arm::new(arm, (*arm).to_owned(), figure.points))
        .collect();
    let runs = (rounds * arms.len() * figure.points.len()) as u32;
    let one_run = AROUND + Duration::from_secs(window_s);
    let title = format!("{}: {}", experiment.id, experiment.title);
    let mut progress = Progress::new(&title, one_run * runs);
    let seconds = (WARM_UP_S, window_s as f64);
    Rounds::begin(experiment, options).collect(rounds, seconds, figure.sweep, arms, |task| {
        progress.step(task.title, one_run);
        let figures = work.path().join("figures");
        let _ = std::fs::remove_file(&figures);
        let mut command = Command::new(&script);
        command
            .arg(format!("-Dtest={}", figure.method))
            .arg("-Dsurefire.failIfNoSpecifiedTests=false")
            .env("HEADWORKS_ARM", task.arm)
            .env("HEADWORKS_POINT", task.at.to_string())
            .env("HEADWORKS_WINDOW_S", window_s.to_string())
            .env("HEADWORKS_FIGURES", &figures);
        let log = work.path().join("log");
        Running::spawn("the cluster", command, &log)?.wait(LONGEST, &progress).map_err(
            |error| match cause(&log) {
                Some(cause) => error.context(cause),
                None => error,
            },
        )?;
        let numbers = read(&figures)?;
        Ok(Run { numbers, bucket_s: 1.0, load: Some(Load::at_rest()), ..Run::default() })
    })
}

/// The script that builds the plug-in and runs a class of its tests in a network namespace.
fn script() -> Result<PathBuf> {
    let here = Path::new("scripts/test-hbase");
    ensure!(
        here.is_file(),
        "{} is not there: experiments on HBase are run from a checkout, after make setup-java",
        here.display()
    );
    Ok(std::path::absolute(here)?)
}

/// What failed: Maven says it once, before words that end every failure alike.
fn cause(log: &Path) -> Option<String> {
    let log = std::fs::read_to_string(log).ok()?;
    let from = log.lines().skip_while(|line| !line.contains("<<< ") || line.contains("Tests run:"));
    let lines: Vec<&str> = from.take(15).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A key and a number on each line.
fn read(path: &Path) -> Result<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(path)
        .context("the cluster's run wrote no figures: is a JDK there, and make setup-java done?")?;
    let number = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok().filter(|value: &f64| value.is_finite())?))
    };
    Ok(text.lines().filter_map(number).collect())
}
