//! `make demo`: three scenes of an overloaded machine, each on servers side by side. One is as it
//! is, the other one behind Headworks, and the load goes to them in turn, in slices of seconds.

mod client;
mod scenes;
mod slices;

use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::progress::Progress;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};
use crate::work::Work;
use anyhow::Result;
use scenes::Scene;
use slices::{BUCKET_S, SLICE_S};
use std::path::Path;
use std::time::Duration;

const ID: &str = "demo";

/// Pairs of slices in a scene; in a full and in a quick run.
const PAIRS: [usize; 2] = [3, 1];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "Three scenes, as it is and behind Headworks",
    paper: "",
    figure: "Demo",
    expected_s: 3 * scenes::EXPECTED_S,
    expected_quick_s: 100,
    needs: &["mariadb-server-core", "postgresql (third scene)", "root (third scene)"],
    bench: &Steps { collect, report },
};

/// What must hold of a scene: how many times shorter P99 is, in each pair of slices.
fn claims(record: &Record) -> Vec<Claim> {
    const UNIT: &str = "P99 as it is / P99 behind Headworks";
    fn shorter(seed: &Seed<'_>, scene: Scene) -> f64 {
        let [theirs, ours] = scene.arms().map(|arm| seed.get(arm, 0.0, "p99_ms"));
        theirs / ours
    }
    let all = [
        (
            Scene::Arrivals,
            Claim::new("transactions that arrive whether or not others are answered wait less")
                .ours(UNIT, |seed| shorter(seed, Scene::Arrivals))
                .at_least(3.0),
        ),
        (
            Scene::Neighbours,
            Claim::new("a small account hardly notices a large one")
                .ours(UNIT, |seed| shorter(seed, Scene::Neighbours))
                .at_least(5.0),
        ),
        (
            Scene::Commits,
            Claim::new("commits do not wait for a checkpoint")
                .ours(UNIT, |seed| shorter(seed, Scene::Commits))
                .at_least(5.0),
        ),
    ];
    let there = |scene: Scene| record.arms.iter().any(|arm| arm.arm == scene.arms()[0]);
    all.into_iter().filter(|(scene, _)| there(*scene)).map(|(_, claim)| claim).collect()
}

fn collect(options: &RunOptions) -> Result<Record> {
    let pairs = options.repeat.unwrap_or(PAIRS[usize::from(options.quick)]).max(1);
    let headworks = options.headworks()?;
    let work = Work::new(options, 2 << 30)?;
    let expected = if options.quick { EXPERIMENT.expected_quick_s } else { EXPERIMENT.expected_s };
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, Duration::from_secs(expected));
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let (mut arms, mut runs): (Vec<rounds::Arm>, Vec<(&str, f64, Run)>) = Default::default();
    for scene in Scene::ALL {
        if let Some(why) = scene.refusal() {
            progress.note(&format!("left out: {}: {why}", scene.title()));
            continue;
        }
        let found = scenes::play(scene, &headworks, &work, pairs, options.seed, &mut progress)?;
        let [theirs, ours] = scene.arms();
        arms.push(rounds::Arm::new(theirs, "as it is".to_owned(), &[0.0]));
        arms.push(rounds::Arm::new(ours, scene.setting().to_owned(), &[0.0]));
        for (number, pair) in found.into_iter().enumerate() {
            for (arm, run) in scene.arms().into_iter().zip(pair) {
                runs.push((arm, 0.0, Run { seed: number as u64 + 1, ..run }));
            }
        }
    }
    Ok(rounds.record((0.0, SLICE_S), "scene", arms, &runs))
}

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let there = |scene: &Scene| record.arms.iter().any(|arm| arm.arm == scene.arms()[0]);
    let panel = |scene: Scene| {
        let panel = Panel::time(scene.title(), "longest of the moment, ms").tenfold();
        let labels = ["as it is", scene.setting()];
        labels
            .into_iter()
            .zip(scene.arms())
            .fold(panel, |panel, (label, arm)| panel.at(label, arm, 0.0, "longest_ms"))
    };
    let claims = claims(&record);
    let caption = format!(
        "a new load every {SLICE_S} s, to each server in turn; longest latency in each {BUCKET_S} s"
    );
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: scenes::ABOUT,
        time_label: "s since the load began",
        runs: "pairs of slices",
        caption,
        claims: &claims,
        panels: Scene::ALL.into_iter().filter(there).map(panel).collect(),
        columns: &[
            ("p50 ms", "p50_ms"),
            ("p99 ms", "p99_ms"),
            ("longest ms", "max_ms"),
            ("answered/s", "per_s"),
            ("arrived/s", "arrived_per_s"),
            ("pace of the machine, ms", "work_ms"),
        ],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
