//! Changes of HBase and of PgBouncer, predicted from a recording before they are made: `headworks
//! tad limits` says what twice as much of one part gains. Then a system is started that has it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_record::limits::{self, Kind, Limit};

use super::hbase::{AROUND, CLASSIC, Cluster, Step, WARM_UP_S};
use super::limits::ABSENT;
use super::recorded::{Recorded, record};
use super::site::{Kind::Pooled, Site};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::running::pause;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};
use crate::work::Work;

const ID: &str = "record-predict";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "HBase and PgBouncer recorded, a change of each predicted, then made and measured",
    (400, 250),
    &[
        "default-jdk-headless",
        "maven",
        "iproute2",
        "make setup-java",
        "postgresql",
        "pgbouncer",
        "root",
    ],
    &Steps { collect, report },
);

/// A change, and the load that is limited by what it changes.
struct Change {
    word: &'static str,
    about: &'static str,
    load: &'static str,
    clients: f64,
    system: System,
    /// The limit that it widens: its kind, its process, and a part of its stage's title.
    limit: (Kind, &'static str, &'static str),
}

/// What is changed, and how it is set without and with the change.
enum System {
    /// Settings of the region server.
    HBase([&'static str; 2]),
    /// Connections between PgBouncer and PostgreSQL.
    PgBouncer([u32; 2]),
}

const CHANGES: [Change; 2] = [
    Change {
        word: "handlers",
        about: "HBase: six handlers instead of three; a quarter of the gets keeps one for 20 ms",
        load: "slow",
        clients: 16.0,
        system: System::HBase([
            "hbase.regionserver.handler.count=3",
            "hbase.regionserver.handler.count=6",
        ]),
        limit: (Kind::Threads, "regionserver", "RpcServer.default"),
    },
    Change {
        word: "pool",
        about: "PgBouncer: four connections to PostgreSQL instead of two; every second statement takes 5 ms",
        load: "pooled",
        clients: 16.0,
        system: System::PgBouncer([2, 4]),
        limit: (Kind::Threads, "postgres", ""),
    },
];

/// Windows with and without the change.
const WINDOWS: usize = 3;

fn collect(options: &RunOptions) -> Result<Record> {
    let chosen = |change: &&Change| options.only.as_deref().is_none_or(|only| change.word == only);
    let changes: Vec<&Change> = CHANGES.iter().filter(chosen).collect();
    ensure!(!changes.is_empty(), "there are {} and {}", CHANGES[0].word, CHANGES[1].word);
    let cluster = changes.iter().any(|change| matches!(change.system, System::HBase(_)));
    ensure!(
        !cluster || Path::new("scripts/test-hbase").is_file(),
        "experiments on HBase are run from a checkout, after make setup-java"
    );
    let rounds_of = options.repeat.unwrap_or(1).max(1);
    let (window_s, recording_s) = if options.quick { (4, 8) } else { (8, 20) };
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let each = (AROUND + Duration::from_secs(WARM_UP_S + WINDOWS as u64 * (window_s + 3))) * 2
        + Duration::from_secs(recording_s + 10);
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, each * (changes.len() * rounds_of) as u32);
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let mut runs = Vec::new();
    for round in 0..rounds_of {
        for change in &changes {
            interrupt::check()?;
            progress.step(&format!("{}, round {}", change.about, round + 1), each);
            let measured = |changed: bool| {
                let seconds = (window_s, recording_s);
                match change.system {
                    System::HBase(_) => hbase(change, changed, seconds, options, &progress),
                    System::PgBouncer(sizes) => {
                        let size = sizes[usize::from(changed)];
                        pooled(change, (size, !changed), seconds, options, &progress)
                    }
                }
            };
            let (per_s, seen) = measured(false)?;
            let (recorded, process) = seen.context("nothing was recorded")?;
            let found = predict(change, &recorded, process)?;
            for limit in found.limits.iter().take(4) {
                let (gain, busy) = (limit.gain * 100.0, limit.busy * 100.0);
                progress.note(&format!(
                    "{:?} {}, {}: +{gain:.0} %, busy {busy:.0} %",
                    limit.kind, limit.name, limit.change
                ));
            }
            let (changed_per_s, _) = measured(true)?;
            runs.push((change.word, 0.0, run(&found, per_s, changed_per_s)));
        }
    }
    let arms = changes.iter().map(|change| Arm::new(change.word, change.about.to_owned(), &[0.0]));
    Ok(rounds.record((2.0, window_s as f64), "change", arms.collect(), &runs))
}

/// Requests a second; without the change, also a recording, and the process with the limit.
type Driven = (f64, Option<(Recorded, u32)>);

fn hbase(
    change: &Change,
    changed: bool,
    (window_s, recording_s): (u64, u64),
    options: &RunOptions,
    progress: &Progress,
) -> Result<Driven> {
    let System::HBase(settings) = change.system else { unreachable!("HBase alone") };
    let step =
        |seconds, recorded| Step { load: change.load, clients: change.clients, seconds, recorded };
    let mut plan = vec![step(WARM_UP_S, false)];
    plan.extend((!changed).then(|| step(recording_s + 10, true)));
    plan.extend((0..WINDOWS).map(|_| step(window_s, false)));
    let work = Work::new(options, 1 << 30)?;
    let mut cluster = Cluster::start(CLASSIC, settings[usize::from(changed)], &plan, &work)?;
    let place = (&*options.out.join(ID), recording_s);
    let given = cluster.drive(&plan, place, options, progress)?;
    cluster.end(progress)?;
    let rates = given.iter().filter(|(_, recorded)| recorded.is_none()).map(|(per_s, _)| *per_s);
    let middle = middle(rates.collect());
    let recorded = given.into_iter().find_map(|(_, recorded)| recorded);
    let region = cluster.processes["regionserver"];
    Ok((middle, recorded.map(|recorded| (recorded, region))))
}

fn pooled(
    change: &Change,
    (size, recorded): (u32, bool),
    (window_s, recording_s): (u64, u64),
    options: &RunOptions,
    progress: &Progress,
) -> Result<Driven> {
    let site = Site::start(Pooled(size), Work::new(options, 1 << 30)?, progress)?;
    let load = site.load(change.load, change.clients as usize)?;
    let recorded = recorded.then(|| {
        let place = (&*options.out.join(ID), change.word);
        record(options, &site.pids(), Duration::from_secs(recording_s), place, progress)
    });
    let mut rates = Vec::new();
    for _ in 0..WINDOWS {
        let (before, begun) = (site.answered(change.load)?, Instant::now());
        pause(Duration::from_secs(window_s))?;
        rates.push((site.answered(change.load)? - before) / begun.elapsed().as_secs_f64());
    }
    drop(load);
    Ok((middle(rates), recorded.transpose()?.map(|recorded| (recorded, site.pid()))))
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// What a recording says of a change.
struct Predicted {
    limits: Vec<Limit>,
    per_s: f64,
    /// Place of the change's limit in the list, from one.
    place: Option<usize>,
}

fn predict(change: &Change, recorded: &Recorded, process: u32) -> Result<Predicted> {
    let tad = &recorded.drawn.tad;
    let mut scenario = recorded.drawn.scenario.clone().context("no request was seen")?;
    scenario.duration_ns = 5_000_000_000;
    let found = limits::limits(tad, &scenario, &recorded.drawn.paused, &mut |_| {})?;
    let (kind, _, title) = change.limit;
    let process = recorded.found.stages.place_of.get(&process);
    let is = |limit: &Limit| {
        let stage = tad.stage(&limit.name).map(|id| &tad.stages[id]);
        let there = |stage: &headworks_tad::model::Stage| {
            Some(&stage.process) == process && stage.title.contains(title)
        };
        limit.kind == kind && stage.is_some_and(there)
    };
    let place = found.limits.iter().position(is).map(|at| at + 1);
    Ok(Predicted { limits: found.limits, per_s: found.per_s, place })
}

fn run(found: &Predicted, per_s: f64, changed_per_s: f64) -> Run {
    let measured = changed_per_s / per_s.max(1e-9) - 1.0;
    let predicted = found.place.map(|place| found.limits[place - 1].gain);
    let numbers = [
        ("place", found.place.map_or(ABSENT, |place| place as f64)),
        ("predicted_percent", predicted.unwrap_or(0.0) * 100.0),
        ("measured_percent", measured * 100.0),
        ("off_percent", (predicted.unwrap_or(0.0) / measured - 1.0) * 100.0),
        ("per_s", per_s),
        ("simulated_per_s", found.per_s),
        ("changed_per_s", changed_per_s),
        ("predicted_per_s", found.per_s * (1.0 + predicted.unwrap_or(0.0))),
    ];
    let numbers = numbers.map(|(key, value)| (key.to_owned(), value)).into();
    Run { numbers, bucket_s: 1.0, ..Run::default() }
}

/// The worst of all changes.
fn worst(seed: &Seed<'_>, key: &str) -> f64 {
    let all = CHANGES.iter().map(|change| seed.get(change.word, 0.0, key).abs());
    all.fold(0.0, crate::sweep::found::largest)
}

const CLAIMS: &[Claim] = &[
    Claim::new("what the change widens is the first limit")
        .ours("its place", |seed| worst(seed, "place"))
        .at_most(1.0),
    Claim::new("the change's gain is predicted before it is made")
        .ours("percent off the gain that is measured", |seed| worst(seed, "off_percent"))
        .at_most(20.0),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let gains = CHANGES.iter().fold(Panel::bars("Gain of the change, %", "%"), |panel, change| {
        let panel = panel.bar(change.word, "predicted", change.word, 0.0, "predicted_percent");
        panel.bar(change.word, "measured", change.word, 0.0, "measured_percent")
    });
    let lines = CHANGES.iter().map(|change| format!("{}: {}", change.word, change.about));
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "A system is recorded once under a load, and tad limits predicts what the change gains. Then one with \
                the change gets the same load.",
        sweep_label: "",
        caption: lines.collect::<Vec<_>>().join("; "),
        columns: &[
            ("place", "place"),
            ("predicted %", "predicted_percent"),
            ("measured %", "measured_percent"),
            ("off %", "off_percent"),
            ("as it is/s", "per_s"),
            ("simulated/s", "simulated_per_s"),
            ("changed/s", "changed_per_s"),
            ("predicted/s", "predicted_per_s"),
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

    #[test]
    fn a_gain_that_is_far_off_or_another_limit_is_judged_so() {
        let limit = |gain| Limit {
            kind: Kind::Threads,
            name: "handlers".to_owned(),
            change: String::new(),
            per_s: 0.0,
            gain,
            busy: 1.0,
        };
        let judged = |gain, place| {
            let found = Predicted { limits: vec![limit(gain); 2], per_s: 100.0, place };
            let arm = |change: &Change| {
                let points = vec![Point { at: 0.0, runs: vec![run(&found, 100.0, 200.0)] }];
                ArmRecord { arm: change.word.to_owned(), setup: Default::default(), points }
            };
            let record = Record::of(CHANGES.iter().map(arm).collect());
            let verdicts = sweep::analyse::verdicts(CLAIMS, "rounds", &record);
            [verdicts[0].holds, verdicts[1].holds]
        };
        assert_eq!(judged(0.9, Some(1)), [true, true]);
        assert_eq!(judged(0.7, Some(1)), [true, false]);
        assert_eq!(judged(0.9, Some(2)), [false, true]);
        assert_eq!(judged(0.9, None), [false, false]);
    }
}
