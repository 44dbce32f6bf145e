//! Searches in a system of one stage, whose behaviour can be computed by hand.

use super::*;
use crate::file::{read_scenario, read_tad};
use crate::model::Tad;
use crate::scenario::Scenario;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// 32 requests of 40 ms at a time: 800 a second. First in, first out.
const SYSTEM: &str = r#"
name = "shop"
[[node]]
name = "n"
[[node.resource]]
name = "io"
rate = "1 MB/s"
parallelism = 32
[[process]]
name = "p"
node = "n"
[[stage]]
name = "s"
process = "p"
threads = 32
queue = { explicit = true, pluggable = true }
uses = ["io"]
[[request]]
name = "r"
answered-by = ["a"]
[[request.step]]
name = "a"
stage = "s"
uses = ["io 40 KB"]
"#;

/// Fair, but with one thread: 25 a second.
const SLOW: &str = r#"
[remedy.no-scheduling.slow]
cost = 1
remedies = [
    { do = "set-policy", stage = "s", policy = "drf" },
    { do = "set-threads", stage = "s", threads = 1 },
]
"#;

const FAIR: &str = r#"
[remedy.no-scheduling.fair]
cost = 4
remedies = [{ do = "set-policy", stage = "s", policy = "drf" }]
"#;

/// The same with one thread less, which hardly matters, and more expensive.
const LESS: &str = r#"
[remedy.no-scheduling.less]
cost = 5
remedies = [
    { do = "set-policy", stage = "s", policy = "drf" },
    { do = "set-threads", stage = "s", threads = 31 },
]
"#;

/// C1 has half of it at first, and a tenth once C2 has grown.
const LOAD: &str = r#"
name = "load"
duration = "8 s"
warmup = "1 s"
sample = "250 ms"
jitter = 0.3
[[client]]
name = "C1"
[[client.load]]
request = "r"
threads = 80
[[client]]
name = "C2"
[[client.load]]
request = "r"
threads = 80
[[change]]
at = "4 s"
client = "C2"
[[change.load]]
request = "r"
threads = 720
"#;

fn read(remedies: &[&str]) -> (Tad, Scenario) {
    let text = SYSTEM.to_owned() + &remedies.concat();
    let tad = read_tad("shop", &text).unwrap_or_else(|errors| panic!("{errors}")).value;
    let scenario = read_scenario("load", LOAD, &tad).unwrap_or_else(|errors| panic!("{errors}"));
    (tad, scenario.value)
}

fn options() -> Options {
    Options {
        seeds: 2,
        costs: Costs::default(),
        slack: 3,
        limit: 100,
        duration_ns: 3_000_000_000,
        own: true,
        workers: 2,
    }
}

fn found(remedies: &[&str], goal: &str, options: &Options) -> Found {
    let (tad, scenario) = read(remedies);
    search(&tad, &[scenario], &[Goal::parse(goal).unwrap()], options, &()).unwrap()
}

fn verdict<'f>(found: &'f Found, name: &str) -> &'f Verdict {
    let name = format!("no-scheduling.{name}");
    let set = found.tried.iter().find(|set| set.names == [name.as_str()]);
    &set.unwrap_or_else(|| panic!("{found:?}")).verdict
}

#[test]
fn a_remedied_system_is_not_its_own_measure() {
    // C1 gets the same from the slow system whatever C2 does: a fraction of its former throughput.
    let found = found(&[SLOW, FAIR], "isolate:C1:10%", &options());
    let Verdict::Fails { miss, .. } = verdict(&found, "slow") else { panic!("{found:?}") };
    assert!(miss.seen.contains("C1 gets 13/s, not 200/s"), "{miss:?}");
    assert_eq!(found.best().unwrap().names, ["no-scheduling.fair"]);
    let (now, was) = match &found.best().unwrap().verdict {
        Verdict::Holds(now) => (now, found.as_it_is.as_ref().unwrap()),
        other => panic!("{other:?}"),
    };
    assert!(now.clients_per_s[0] > 1.2 * was.clients_per_s[0], "{now:?} {was:?}");
    assert!(now.worst_per_s > 3.0 * was.worst_per_s, "{now:?} {was:?}");
    assert!(now.latency_ms_p99 < was.latency_ms_p99, "{now:?} {was:?}");
}

#[test]
fn a_fair_share_of_less_than_before_is_no_solution() {
    // Shares follow the weights in the slow system. The client with the smaller share in the
    // unchanged system gets less than that.
    for goal in ["fair:10%", "drf:10%"] {
        let found = found(&[SLOW, FAIR], goal, &options());
        let Verdict::Fails { miss, .. } = verdict(&found, "slow") else { panic!("{found:?}") };
        assert!(miss.seen.contains("as it is"), "{miss:?}");
        assert_eq!(found.best().unwrap().names, ["no-scheduling.fair"], "{goal}");
    }
}

#[test]
fn what_a_cheaper_set_beats_is_dropped_after_the_first_seed() {
    let found = found(&[FAIR, LESS], "isolate:C1:20%", &options());
    let Verdict::Beaten { by } = verdict(&found, "less") else { panic!("{found:?}") };
    assert_eq!(by, &["no-scheduling.fair"]);
    assert_eq!(found.holding().count(), 1);
}

#[test]
fn of_sets_of_one_cost_the_answer_is_one_that_nothing_beats() {
    let less = LESS.replace("cost = 5", "cost = 4");
    // Tried first, and slower.
    let found = found(&[&less, FAIR], "isolate:C1:20%", &options());
    assert_eq!(found.holding().count(), 2, "{found:?}");
    assert!(!found.holding().next().unwrap().front, "{found:?}");
    assert_eq!(found.best().unwrap().names, ["no-scheduling.fair"]);
}

#[test]
fn workers_do_not_change_what_is_found() {
    let with = |workers| {
        let options = Options { workers, ..options() };
        found(&[SLOW, FAIR, LESS], "isolate:C1:20%", &options)
    };
    assert_eq!(with(1), with(3));
}

/// Stops the search once a set holds.
#[derive(Default)]
struct First {
    settled: Mutex<Vec<SetReport>>,
    holding: AtomicUsize,
}

impl Watch for First {
    fn go_on(&self, _settled: usize, _cost: u32) -> bool {
        self.holding.load(Ordering::Relaxed) == 0
    }

    fn settled(&self, set: &SetReport) {
        if matches!(set.verdict, Verdict::Holds(_)) {
            self.holding.fetch_add(1, Ordering::Relaxed);
        }
        self.settled.lock().unwrap().push(set.clone());
    }
}

#[test]
fn a_search_that_is_stopped_says_what_it_found() {
    let (tad, scenario) = read(&[SLOW, FAIR, LESS]);
    let goals = [Goal::parse("isolate:C1:20%").unwrap()];
    let watch = First::default();
    let found = search(&tad, &[scenario], &goals, &options(), &watch).unwrap();
    assert!(found.stopped && !found.limited, "{found:?}");
    assert_eq!(found.best().unwrap().names, ["no-scheduling.fair"]);
    assert!(found.tried.iter().all(|set| set.names != ["no-scheduling.less"]), "{found:?}");
    // The unchanged system was reported first.
    let settled = watch.settled.into_inner().unwrap();
    assert!(settled[0].names.is_empty() && settled.len() == found.tried.len(), "{settled:?}");
}
