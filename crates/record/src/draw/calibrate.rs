//! What the recording leaves open is set so that a simulation of the recorded load answers as
//! quickly as the system did.
//!
//! Two things are open. First, how much requests vary: sums do not tell. What varies more waits
//! longer where several want a processor, and no longer where one is alone. Second, how long a
//! thread waits for a processor after it was woken. Where a processor is free, that is known. Else
//! it is recorded with the time for which all processors were busy, which is simulated anyway. A
//! search finds how much requests vary. If the most is not enough, it adds a part of these waits to
//! the steps, the same part for all.

use super::{Drawn, TIME, Wakes};
use headworks_tad::model::{Consumption, Quantity, Tad};
use headworks_tad::scenario::{Arrivals, Scenario};
use headworks_tad::sim;

const SECOND: u64 = 1_000_000_000;
/// Simulated time of a trial. Few requests need more of it.
const TRIAL: u64 = 2 * SECOND;
const REQUESTS: f64 = 3_000.0;
/// More than all of the recorded time is never added.
const PART_MAX: f64 = 1.5;
const TRIALS: usize = 7;
/// Most that a simulated amount varies: from nothing to its double.
const VARIES_MAX: f64 = 1.0;

/// What was recorded of a load, and what a simulation of it gives.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Match {
    /// The stage at which it comes in.
    pub name: String,
    /// Clients.
    pub threads: u32,
    /// Requests a second.
    pub per_s: f64,
    /// Part of that by which chance may make it wrong: most of the time is not counted.
    pub within: f64,
    /// Why more may have come, if that is known.
    pub least: Option<String>,
    /// Answers a second, counted apart from requests; zero if none were.
    pub answers_per_s: f64,
    /// Time of an answer, if it was seen.
    pub answer_ms: Option<f64>,
    /// Part of the clients' time for a request that is simulated as work: processor time of clients
    /// on the same machine, and waits for processors until the request is read.
    pub client_ms: f64,
    /// Requests a second and time of an answer in the simulation.
    pub simulated: Option<(f64, f64)>,
}

/// Figures that differ by more do not fit.
const APART: f64 = 4.0 / 3.0;

impl Match {
    /// Which figures of this load do not fit, in words. What was counted comes first.
    pub fn doubts(&self) -> Vec<String> {
        let apart = |a: f64, b: f64| a > 0.0 && b > 0.0 && a.max(b) > APART * a.min(b);
        let mut doubts = Vec::new();
        let name = &self.name;
        if apart(self.per_s, self.answers_per_s) {
            doubts.push(format!(
                "{name}: {:.1} requests/s and {:.1} answers/s were counted",
                self.per_s, self.answers_per_s
            ));
        }
        let Some((per_s, ms)) = self.simulated else { return doubts };
        if apart(self.per_s, per_s) {
            doubts.push(format!(
                "{name}: {:.1} requests/s were recorded and {per_s:.1} are simulated",
                self.per_s
            ));
        }
        if let Some(answer) = self.answer_ms.filter(|answer| apart(*answer, ms)) {
            doubts.push(format!(
                "{name}: answers took {answer:.2} ms and take {ms:.2} ms in the simulation"
            ));
        }
        doubts
    }
}

/// See the module.
pub fn calibrate(drawn: &mut Drawn) {
    let Some(mut scenario) = trial_of(drawn) else { return };
    let wanted = weighted(drawn, |load| load.answer_ms.map(|ms| ms + load.client_ms));
    let plain = drawn.tad.clone();
    let with = |part: f64| {
        let mut tad = plain.clone();
        add(&mut tad, &drawn.wakes, part);
        tad
    };
    let mut part = 0.0;
    if let Some(wanted) = wanted {
        let quicker = |tad: &Tad, scenario: &Scenario| {
            answer_ms(tad, scenario, drawn).is_some_and(|ms| ms < wanted)
        };
        let plain = with(0.0);
        scenario.jitter = search(scenario.jitter, VARIES_MAX, |jitter| {
            quicker(&plain, &Scenario { jitter, ..scenario.clone() })
        });
        if scenario.jitter >= VARIES_MAX {
            part = search(0.0, PART_MAX, |part| quicker(&with(part), &scenario));
        }
    }
    drawn.tad = with(part);
    if let Some(load) = &mut drawn.scenario {
        load.jitter = scenario.jitter;
    }
    if let Ok(outcome) = sim::run(&drawn.tad, &scenario, 1, &mut |_| {}) {
        for (load, client) in drawn.loads.iter_mut().zip(&outcome.clients) {
            let ms = mean_ms(client) - load.client_ms;
            load.simulated = Some((client.throughput_per_s, ms.max(0.0)));
        }
    }
}

/// The largest value for which answers are too quick.
fn search(low: f64, high: f64, too_quick: impl Fn(f64) -> bool) -> f64 {
    if too_quick(high) {
        return high;
    }
    let (mut low, mut high) = (low, high);
    for _ in 0..TRIALS {
        let middle = f64::midpoint(low, high);
        if too_quick(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Requests a second of the busiest load, were it of so many clients.
pub fn throughput(drawn: &Drawn, clients: u32) -> Option<f64> {
    let mut scenario = drawn.scenario.clone()?;
    scenario.duration_ns = 3 * SECOND;
    scenario.warmup_ns = SECOND / 2;
    scenario.sample_ns = scenario.duration_ns;
    let busiest = busiest(drawn)?;
    for load in &mut scenario.clients.get_mut(busiest)?.loads {
        if let Arrivals::Closed { threads, .. } = &mut load.arrivals {
            *threads = clients;
        }
    }
    let outcome = sim::run(&drawn.tad, &scenario, 1, &mut |_| {}).ok()?;
    Some(outcome.clients.get(busiest)?.throughput_per_s)
}

/// Sets the busiest load's clients to so many, at the pace with which they would send what was
/// recorded: of connections with several requests at a time, it cannot be seen.
pub fn know_clients(drawn: &mut Drawn, clients: u32) {
    let Some(busiest) = busiest(drawn) else { return };
    let wanted = drawn.loads[busiest].per_s;
    let (mut low, mut high) = (0.0, f64::from(clients) / wanted.max(1e-9) * 1e9);
    for _ in 0..TRIALS {
        let middle = f64::midpoint(low, high);
        set_think(drawn, busiest, middle as u64);
        match throughput(drawn, clients) {
            Some(per_s) if per_s > wanted => low = middle,
            _ => high = middle,
        }
    }
    set_think(drawn, busiest, low as u64);
}

fn busiest(drawn: &Drawn) -> Option<usize> {
    let per_s = |at: usize| drawn.loads[at].per_s;
    (0..drawn.loads.len()).max_by(|&a, &b| per_s(a).total_cmp(&per_s(b)))
}

fn set_think(drawn: &mut Drawn, client: usize, ns: u64) {
    let clients = drawn.scenario.iter_mut().filter_map(|scenario| scenario.clients.get_mut(client));
    for load in clients.flat_map(|client| &mut client.loads) {
        if let Arrivals::Closed { think_ns, .. } = &mut load.arrivals {
            *think_ns = ns;
        }
    }
}

/// A short scenario of the recorded load.
pub(super) fn trial_of(drawn: &Drawn) -> Option<Scenario> {
    let mut scenario = drawn.scenario.clone()?;
    let per_s: f64 = drawn.loads.iter().map(|load| load.per_s).sum();
    let length_s = (REQUESTS / per_s.max(1.0)).clamp(0.2, 60.0);
    scenario.duration_ns = ((length_s * 1e9) as u64).min(10 * TRIAL);
    scenario.warmup_ns = scenario.duration_ns / 5;
    scenario.sample_ns = scenario.duration_ns;
    Some(scenario)
}

/// A mean over the loads by their requests.
fn weighted(drawn: &Drawn, of: impl Fn(&Match) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0.0);
    for load in &drawn.loads {
        if let Some(value) = of(load) {
            sum += value * load.per_s;
            n += load.per_s;
        }
    }
    (n > 0.0).then(|| sum / n)
}

fn mean_ms(client: &sim::ClientOutcome) -> f64 {
    let answered: u64 = client.loads.iter().map(|load| load.answered).sum();
    let sum: f64 =
        client.loads.iter().map(|load| load.latency_ms_mean * load.answered as f64).sum();
    sum / answered.max(1) as f64
}

/// Mean time of an answer of the loads whose answers were seen.
fn answer_ms(tad: &Tad, scenario: &Scenario, drawn: &Drawn) -> Option<f64> {
    let outcome = sim::run(tad, scenario, 1, &mut |_| {}).ok()?;
    let (mut sum, mut n) = (0.0, 0.0);
    for (load, client) in drawn.loads.iter().zip(&outcome.clients) {
        if load.answer_ms.is_some() {
            sum += mean_ms(client) * load.per_s;
            n += load.per_s;
        }
    }
    (n > 0.0).then(|| sum / n)
}

/// Adds a part of the time between wake-ups and work to the steps.
fn add(tad: &mut Tad, wakes: &[Wakes], part: f64) {
    for &Wakes { request, step, free_ns, busy_ns } in wakes {
        let more = free_ns + (busy_ns as f64 * part) as u64;
        let stage = tad.requests[request].steps[step].stage;
        let time = tad.stages[stage].uses.iter().map(|used| used.resource);
        let mut time = time.filter(|&resource| tad.resources[resource].name == TIME);
        let (Some(resource), true) = (time.next(), more > 0) else { continue };
        let uses = &mut tad.requests[request].steps[step].uses;
        match uses.iter_mut().find(|each| each.resource == resource) {
            Some(Consumption { amount: Quantity::Fixed(ns), .. }) => *ns += more,
            _ => uses.push(Consumption { resource, amount: Quantity::Fixed(more) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_tad::file::{read_scenario, read_tad};

    const SYSTEM: &str = r#"
name = "small"

[[node]]
name = "host"
count = 1

[[node.resource]]
name = "cpu"
rate = "1000 MHz"
parallelism = 1
quantum = "3 ms"

[[node.resource]]
name = "time"
kind = "custom"
rate = "1000000000 op/s"
parallelism = 1000000

[[process]]
name = "server"
node = "host"

[[stage]]
name = "work"
process = "server"
threads = "on-demand"
uses = ["cpu", "time"]

[[flow]]
from = "clients"
to = "work"

[[request]]
name = "work"
answered-by = "work"

[[request.step]]
name = "work"
stage = "work"
uses = ["cpu 100000 cycles"]
"#;
    const LOAD: &str = r#"
name = "load"
duration = "10 s"
warmup = "1 s"
sample = "500 ms"
jitter = 0.1

[[client]]
name = "C1"

[[client.load]]
request = "work"
threads = 2
think = "100 us"
"#;

    fn drawn() -> Drawn {
        let tad = read_tad("small", SYSTEM).unwrap_or_else(|error| panic!("{error}")).value;
        let load = read_scenario("load", LOAD, &tad).unwrap_or_else(|error| panic!("{error}"));
        let load_of = Match {
            name: "work".to_owned(),
            threads: 2,
            per_s: 7_500.0,
            within: 0.0,
            least: None,
            answers_per_s: 0.0,
            answer_ms: None,
            client_ms: 0.0,
            simulated: None,
        };
        Drawn {
            tad,
            scenario: Some(load.value),
            left_out: Vec::new(),
            scheduled: Vec::new(),
            loads: vec![load_of],
            paused: Vec::new(),
            wakes: vec![Wakes { request: 0, step: 0, free_ns: 0, busy_ns: 200_000 }],
        }
    }

    /// Answers of several clients take longer because requests vary: one client is as quick as its
    /// work. Only where that does not suffice, time is added.
    #[test]
    fn waits_behind_others_are_not_added_to_what_one_client_waits() {
        let mut varied = drawn();
        let trial = trial_of(&varied).expect("a load");
        let recorded =
            answer_of(&varied.tad, &Scenario { jitter: 0.7, ..trial }).expect("a simulation");
        let alone = varied.simulated(1).expect("a simulation");
        varied.loads[0].answer_ms = Some(recorded);
        varied.calibrate();
        let jitter = varied.scenario.as_ref().expect("a load").jitter;
        assert!((0.3..1.0).contains(&jitter), "{jitter}");
        let after = varied.simulated(1).expect("a simulation");
        assert!((after / alone - 1.0).abs() < 0.05, "{alone} {after}");
        let mut slow = drawn();
        slow.loads[0].answer_ms = Some(recorded + 0.1);
        slow.calibrate();
        assert!(slow.simulated(1).expect("a simulation") < 0.8 * alone);
    }

    fn answer_of(tad: &Tad, scenario: &Scenario) -> Option<f64> {
        Some(mean_ms(sim::run(tad, scenario, 1, &mut |_| {}).ok()?.clients.first()?))
    }
}
