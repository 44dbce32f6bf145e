mod arrows;
mod bad_scenarios;
mod bad_systems;

use super::*;
use crate::model::{Confidence, Place, Policy, Quantity, Tad, Threads};
use crate::remedy::{Problem, Remedy};
use crate::scenario::{Arrivals, Change, Entry, Keys};
use crate::systems;

/// A system with a bit of everything; bad files are this one with one thing changed.
const GOOD: &str = include_str!("tests/good.toml");

/// The errors of [`GOOD`] with `old` replaced, as text.
fn errors_after(old: &str, new: &str) -> String {
    assert_eq!(GOOD.matches(old).count(), 1, "{old:?} is not there exactly once");
    match read_tad("bad.toml", &GOOD.replacen(old, new, 1)) {
        Ok(_) => panic!("no error after {old:?} became {new:?}"),
        Err(errors) => errors.to_string(),
    }
}

fn warnings_after(old: &str, new: &str) -> Vec<String> {
    assert_eq!(GOOD.matches(old).count(), 1, "{old:?} is not there exactly once");
    let loaded = read_tad("odd.toml", &GOOD.replacen(old, new, 1));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    loaded.warnings.iter().map(ToString::to_string).collect()
}

/// The line of [`GOOD`] where `text` begins, from 1.
fn line_of(text: &str) -> usize {
    GOOD[..GOOD.find(text).expect("it is there")].matches('\n').count() + 1
}

#[test]
fn the_systems_that_come_with_headworks_are_read_without_a_warning() {
    for name in systems::names() {
        let loaded = read_tad(name, systems::text(name).unwrap());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(loaded.value.name, name);
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{}", warnings.join("\n"));
    }
}

#[test]
fn names_become_indices_and_quantities_base_units() {
    let loaded = read_tad("good.toml", GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, []);
    let tad = loaded.value;
    let handle = tad.stage("handle").unwrap();
    assert_eq!(tad.stages[handle].threads, Threads::Bounded(30));
    assert!(tad.stages[handle].queue.pluggable);
    let disk = tad.resource(tad.node_of(handle), "io").unwrap();
    assert_eq!(tad.resources[disk].rate_per_s, 100e6);
    assert_eq!(tad.stages[tad.stage("stream").unwrap()].threads, Threads::OnDemand);
    let get = &tad.requests[tad.request("get").unwrap()];
    assert_eq!(get.first, 0);
    let names: Vec<&str> = get.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["handle", "fetch", "respond"]);
    // `calls` is both.
    assert_eq!(
        (get.steps[0].submits.as_slice(), get.steps[0].waits.as_slice()),
        (&[1][..], &[1][..])
    );
    assert_eq!(get.steps[1].place, Place::Other);
    assert_eq!(get.steps[1].uses[0].amount, Quantity::Parameter(0));
    assert_eq!(get.parameters[0].default, 128_000);
    assert_eq!(get.answered_by, [2]);
    let direct = &tad.remedies[&Problem::NoScheduling][0];
    assert_eq!(direct.letter, "d");
    let pool = Remedy::AddSchedulingPoint { stage: "stream".into(), threads: 10 };
    assert_eq!(direct.remedies, [pool]);
    assert_eq!(tad.controls.len(), 1);
}

#[test]
fn every_remedy_is_read_as_it_is_written() {
    let stage = || "handle".to_owned();
    let both = || vec!["handle".to_owned(), "respond".to_owned()];
    let io = || "io".to_owned();
    let period_ns = 50_000_001; // No whole number of milliseconds.
    let all = [
        Remedy::AddSchedulingPoint { stage: "stream".into(), threads: 3 },
        Remedy::MakePluggable { stage: stage() },
        Remedy::RateLimit { stage: stage(), resource: io(), period_ns },
        Remedy::Split { stage: stage(), resource: io(), into: "new".into(), threads: 3 },
        Remedy::Speculate { stage: stage(), idle: "cpu".into(), threads: 3 },
        Remedy::ShareScheduler { name: "a\"b".into(), stages: both(), concurrency: 3 },
        Remedy::CoordinateWeights { stages: both(), resource: io(), period_ns },
        Remedy::BackOff { stages: both(), resource: io(), period_ns: 2_000_000 },
        Remedy::Unblock { stage: stage() },
        Remedy::CongestionFeedback {
            stage: stage(),
            downstream: "respond".into(),
            backlog: 3,
            wrong_per_mille: 250,
        },
        Remedy::ScheduleThreads { stage: stage() },
        Remedy::SeparateStreams { stage: stage() },
        Remedy::BoundDownstream { stage: stage(), downstream: "respond".into(), limit: 3 },
        Remedy::ServeInTurns { stage: stage(), turn_ns: 50_001 },
        Remedy::SetThreads { stage: stage(), threads: 3 },
        Remedy::SetBatch { stage: stage(), most: 3 },
        Remedy::SetPolicy { stage: stage(), policy: Policy::Drr },
    ];
    let mut names: Vec<&str> = all.iter().map(Remedy::name).collect();
    names.dedup();
    assert_eq!(names, Remedy::NAMES);
    let written: Vec<String> = all.iter().map(Remedy::to_toml).collect();
    let text = format!("{GOOD}\n[remedy.blocking.x]\nremedies = [{}]\n", written.join(", "));
    let tad = read_tad("all.toml", &text).unwrap_or_else(|errors| panic!("{errors}")).value;
    let found = tad.remedies[&Problem::Blocking].iter().find(|a| a.letter == "x").unwrap();
    assert_eq!(found.remedies, all);
}

#[test]
fn a_scenario_says_who_does_what_and_what_changes() {
    let tad = read_tad("good.toml", GOOD).unwrap().value;
    let text = include_str!("tests/scenario.toml");
    let loaded = read_scenario("scenario.toml", text, &tad);
    let scenario = loaded.unwrap_or_else(|errors| panic!("{errors}")).value;
    assert_eq!(scenario.duration_ns, 60_000_000_000);
    assert_eq!(scenario.warmup_ns, 5_000_000_000);
    assert_eq!(scenario.sample_ns, 500_000_000);
    assert_eq!(scenario.switch_ns, 5_000);
    assert_eq!(scenario.policy, Some(Policy::Drf));
    let [c1, c2] = scenario.clients.as_slice() else { panic!("two clients") };
    assert_eq!((c1.weight, c2.weight), (1.0, 2.5));
    let first = &c1.loads[0];
    assert_eq!(first.arrivals, Arrivals::Closed { threads: 40, think_ns: 1_000_000 });
    // `io` as the load says, `reply` as the request does.
    assert_eq!(first.parameters, [64_000, 1_000]);
    assert_eq!((first.entry, first.keys), (Entry::Fixed(1), Keys::Zipf(0.9)));
    assert_eq!(c1.loads[1].arrivals, Arrivals::Open { rate_per_s: 100.0 });
    assert_eq!(c1.loads[1].name, "trickle");
    let burst = Arrivals::Burst { count: 80, every_ns: 1_000_000_000 };
    assert_eq!((c2.loads[0].arrivals, c2.loads[0].keys), (burst, Keys::Fixed(3)));
    // In the order of time, not of the file.
    let [(at, Change::Rate { rate_per_s, .. }), (later, Change::Loads { client: 1, loads })] =
        scenario.changes.as_slice()
    else {
        panic!("{:?}", scenario.changes)
    };
    assert_eq!((*at, *later), (10_000_000_000, 30_000_000_000));
    assert_eq!((*rate_per_s, loads.len()), (1e6, 1));
}

#[test]
fn an_order_may_be_a_guess_and_only_an_order() {
    let text = GOOD.replace("ordered = true", "ordered = true, confidence = \"guess\"");
    let tad = read_tad("good.toml", &text).unwrap_or_else(|errors| panic!("{errors}")).value;
    let guess = |tad: &Tad| {
        let ordered = tad.stages.iter().find(|stage| stage.queue.ordered);
        ordered.map(|stage| stage.queue.order_confidence)
    };
    assert_eq!(guess(&tad), Some(Confidence::Guess));
    assert_eq!(read_tad("again", &write_tad(&tad)).unwrap().value, tad);
    let errors = errors_after("ordered = true", "confidence = \"guess\"");
    assert!(errors.contains("how sure its order is"), "{errors}");
}
