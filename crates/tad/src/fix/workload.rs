//! A scenario and its perturbations: a remedy that holds for only one of them is no remedy.

use crate::model::{Policy, ResourceKind, Tad, Threads};
use crate::scenario::{Arrivals, Change, Load, Scenario};

/// Longest sample of the time series.
const SAMPLE_NS: u64 = 500_000_000;

/// One of the workloads under which a goal must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What it is, for people.
    pub name: String,
    /// The simulated scenario, without changes during the run.
    pub scenario: Scenario,
}

/// The workloads of a scenario, the hardest first. It is taken at its end and at its start, each
/// with the others' threads (or rates, or bursts) times four, two and one. Two more use its end:
/// with the amounts of the others' requests doubled, and with the others issuing every kind of
/// request of the system. `steady` are the clients that the goals protect, which stay the same;
/// without any, all clients grow.
pub fn workloads(
    tad: &Tad,
    scenario: &Scenario,
    steady: &[&str],
    duration_ns: u64,
) -> Vec<Workload> {
    let begins = begins(scenario, duration_ns);
    let ends = ends(scenario, duration_ns);
    let mut all: Vec<Workload> = Vec::new();
    let mut add = |name: &str, changed: Scenario| {
        if all.iter().all(|other| other.scenario != changed) {
            all.push(Workload { name: format!("{} {name}", scenario.name), scenario: changed });
        }
    };
    add("as it ends, x4", grown(&ends, steady, |load| times(load, 4)));
    add("as it ends", ends.clone());
    add("as it begins, x4", grown(&begins, steady, |load| times(load, 4)));
    add("as it ends, x2", grown(&ends, steady, |load| times(load, 2)));
    add("as it ends, amounts x2", grown(&ends, steady, heavier));
    add("as it ends, every kind of request", mixed(tad, &ends, steady));
    add("as it begins, x2", grown(&begins, steady, |load| times(load, 2)));
    add("as it begins", begins);
    all
}

/// Whether every queue of a system serves first in, first out under a scenario.
pub fn without_policy(tad: &Tad, scenario: &Scenario) -> bool {
    let bounded = tad.stages.iter().filter(|stage| stage.threads != Threads::OnDemand);
    let mut own = bounded.map(|stage| stage.queue.policy_with(scenario.policy));
    let shared = tad.shared_queues.iter().map(|queue| scenario.policy.unwrap_or(queue.policy));
    own.all(|policy| policy == Policy::Fifo) && shared.into_iter().all(|p| p == Policy::Fifo)
}

/// The base load for the isolation of a client: the others at their start, resources too.
pub fn base_for(workload: &Scenario, begins: &Scenario, client: &str) -> Scenario {
    let mut base = begins.clone();
    for (to, from) in base.clients.iter_mut().zip(&workload.clients) {
        if to.name == client {
            to.loads.clone_from(&from.loads);
        }
    }
    base
}

/// The client alone on machines with its share of everything: a part of each resource's rate and of
/// the threads, at least one thread.
pub fn entitled(tad: &Tad, workload: &Scenario, client: &str) -> (Tad, Scenario) {
    let weights: f64 = workload.clients.iter().map(|each| each.weight).sum();
    let mut alone = workload.clone();
    alone.clients.retain(|each| each.name == client);
    let share = alone.clients.iter().map(|each| each.weight).sum::<f64>() / weights;
    let mut small = tad.clone();
    for resource in small.resources.iter_mut().filter(|each| each.kind != ResourceKind::Delay) {
        resource.rate_per_s *= share;
    }
    let part = |count: u32| ((f64::from(count) * share) as u32).max(1);
    for stage in &mut small.stages {
        if let Threads::Bounded(threads) = &mut stage.threads {
            *threads = part(*threads);
        }
    }
    for (_, change) in &mut alone.changes {
        if let Change::Rate { rate_per_s, .. } = change {
            *rate_per_s *= share;
        }
    }
    (small, alone)
}

/// The scenario without its changes, shortened.
pub fn begins(scenario: &Scenario, duration_ns: u64) -> Scenario {
    Scenario { changes: Vec::new(), ..shortened(scenario, duration_ns) }
}

/// The scenario's final state, from the start on.
fn ends(scenario: &Scenario, duration_ns: u64) -> Scenario {
    let mut ends = begins(scenario, duration_ns);
    for (_, change) in &scenario.changes {
        match change {
            Change::Loads { client, loads } => ends.clients[*client].loads.clone_from(loads),
            Change::Rate { .. } => ends.changes.push((0, change.clone())),
        }
    }
    ends
}

/// A third of the time lets controllers settle. Samples are short, to see intervals.
fn shortened(scenario: &Scenario, duration_ns: u64) -> Scenario {
    let sample_ns = (duration_ns / 12).clamp(1, SAMPLE_NS);
    Scenario { duration_ns, warmup_ns: duration_ns / 3, sample_ns, ..scenario.clone() }
}

fn grown(scenario: &Scenario, steady: &[&str], change: impl Fn(&mut Load)) -> Scenario {
    let mut grown = scenario.clone();
    for client in &mut grown.clients {
        if !steady.contains(&client.name.as_str()) {
            client.loads.iter_mut().for_each(&change);
        }
    }
    grown
}

/// The others' loads, and the same amount of every other kind of request, from other threads.
/// Otherwise a remedy would pass at a stage that the scenario's requests do not cross or crowd.
fn mixed(tad: &Tad, scenario: &Scenario, steady: &[&str]) -> Scenario {
    let mut mixed = scenario.clone();
    for client in &mut mixed.clients {
        let Some(pattern) = client.loads.first().cloned() else { continue };
        if steady.contains(&client.name.as_str()) {
            continue;
        }
        for (kind, request) in tad.requests.iter().enumerate() {
            if client.loads.iter().all(|load| load.request != kind) {
                client.loads.push(Load {
                    request: kind,
                    parameters: request.parameters.iter().map(|each| each.default).collect(),
                    name: request.name.clone(),
                    ..pattern.clone()
                });
            }
        }
    }
    mixed
}

/// Multiplies the threads, the rate or the bursts.
pub(crate) fn times(load: &mut Load, factor: u32) {
    match &mut load.arrivals {
        Arrivals::Closed { threads, .. } => *threads = threads.saturating_mul(factor),
        Arrivals::Part { .. } => {}
        Arrivals::Open { rate_per_s } => *rate_per_s *= f64::from(factor),
        Arrivals::Burst { count, .. } => *count = count.saturating_mul(factor),
    }
}

fn heavier(load: &mut Load) {
    for amount in &mut load.parameters {
        *amount = amount.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read_scenario, read_tad};
    use crate::{scenarios, systems};

    const SECOND: u64 = 1_000_000_000;

    fn read(system: &str, name: &str) -> (Tad, Scenario) {
        let tad = read_tad(system, systems::text(system).unwrap()).unwrap().value;
        let text = scenarios::find(name).unwrap().text;
        let scenario = read_scenario(name, text, &tad).unwrap().value;
        (tad, scenario)
    }

    fn threads(scenario: &Scenario, client: usize) -> u32 {
        match scenario.clients[client].loads[0].arrivals {
            Arrivals::Closed { threads, .. } => threads,
            _ => 0,
        }
    }

    #[test]
    fn the_others_grow_and_the_protected_client_does_not() {
        let (tad, scenario) = read("hbase", "hbase-isolation");
        let all = workloads(&tad, &scenario, &["C1"], 6 * SECOND);
        let of_c2: Vec<u32> = all.iter().map(|each| threads(&each.scenario, 1)).collect();
        // 200 at the end and 40 at the beginning, times four, two and one.
        assert_eq!(of_c2, [800, 200, 160, 400, 200, 200, 80, 40]);
        assert!(all.iter().all(|each| threads(&each.scenario, 0) == 40));
        assert_eq!(all[4].scenario.clients[1].loads[0].parameters[1], 256_000);
        let kinds: Vec<usize> =
            all[5].scenario.clients[1].loads.iter().map(|load| load.request).collect();
        let mut sorted = kinds.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..tad.requests.len()).collect::<Vec<_>>());
        assert_eq!(all[5].scenario.clients[0].loads.len(), scenario.clients[0].loads.len());
    }

    #[test]
    fn a_share_is_of_every_resource() {
        let (tad, mut scenario) = read("mongodb", "mongodb-replication-stall");
        scenario.clients[0].weight = 3.0;
        let (small, alone) = entitled(&tad, &ends(&scenario, SECOND), "C1");
        assert_eq!(alone.clients.len(), 1);
        assert_eq!(small.resources[0].rate_per_s, tad.resources[0].rate_per_s * 0.75);
        let [(0, Change::Rate { rate_per_s, .. })] = alone.changes.as_slice() else {
            panic!("{:?}", alone.changes);
        };
        assert_eq!(*rate_per_s, 0.75e6);
    }
}
