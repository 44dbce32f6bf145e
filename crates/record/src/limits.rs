//! Which wait limits throughput: each pool, lock and device is made twice as good in the simulator,
//! one at a time, and what gains most is first.
//!
//! Long waits are not what limits: a thread that sleeps for ten seconds holds up nothing. What a
//! change gains says more than the sum of waits. The idea of looking for the waits on which others
//! wait is that of wPerf (Zhou et al., OSDI 2018), which leaves the gain to the reader. Its knots
//! are in [`knots`]: they need no simulation.

pub mod knots;

use crate::draw::Paused;
use headworks_tad::model::{
    Consumption, Quantity, ResourceId, ResourceKind, StageId, Tad, Threads,
};
use headworks_tad::scenario::Scenario;
use headworks_tad::sim::{self, Outcome, SimError};
use serde::Serialize;

/// Kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A lock, or permits.
    Lock,
    /// A disk.
    Disk,
    /// A server that is not recorded.
    Server,
    /// The network.
    Network,
    /// Pauses of a virtual machine.
    Collector,
    /// Processors.
    Processors,
    /// Processor time that a control group may use.
    Quota,
    /// Threads of a stage.
    Threads,
    /// Time that passes at a stage.
    Time,
}

/// What a change would gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Kind.
    pub kind: Kind,
    /// Stage or resource.
    pub name: String,
    /// The change, in words.
    pub change: String,
    /// Requests a second with the change.
    pub per_s: f64,
    /// More throughput, as a part of what there is.
    pub gain: f64,
    /// Part of the time for which it is busy as it is.
    pub busy: f64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Requests a second as it is, simulated.
    pub per_s: f64,
    /// The largest gain first. What gains less than a hundredth is left out.
    pub limits: Vec<Limit>,
}

/// A smaller gain is chance.
const GAIN_MIN: f64 = 0.01;
/// Gains that differ by less are the same.
const SAME: f64 = 0.05;
const SEED: u64 = 1;

enum Part {
    Stage(StageId),
    Resource(ResourceId),
    Time(StageId),
    Pauses,
}

/// Finds them. `paused` says what of a recorded diagram's processor time is that of pauses;
/// `progress` gets the finished fraction.
pub fn limits(
    tad: &Tad,
    scenario: &Scenario,
    paused: &[Paused],
    progress: &mut dyn FnMut(f64),
) -> Result<Limits, SimError> {
    let base = sim::run(tad, scenario, SEED, &mut |_| {})?;
    let base_per_s = all_per_s(&base);
    let mut parts = parts(tad);
    parts.extend((!paused.is_empty()).then_some(Part::Pauses));
    let mut limits = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        progress(at as f64 / parts.len() as f64);
        let (changed, kind, name, change) = twice(tad, part, paused);
        let outcome = sim::run(&changed, scenario, SEED, &mut |_| {})?;
        let per_s = all_per_s(&outcome);
        let gain = per_s / base_per_s.max(1e-9) - 1.0;
        if gain >= GAIN_MIN {
            let busy = busy(tad, &base, part);
            limits.push(Limit { kind, name, change, per_s, gain, busy });
        }
    }
    limits.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    causes_first(&mut limits);
    Ok(Limits { per_s: base_per_s, limits })
}

/// Of limits with the same gain as the first of them, the cause comes first.
fn causes_first(limits: &mut [Limit]) {
    let mut from = 0;
    while from < limits.len() {
        let least = limits[from].gain * (1.0 - SAME) - GAIN_MIN;
        let more = limits[from..].iter().take_while(|limit| limit.gain >= least).count().max(1);
        limits[from..from + more].sort_by_key(rank);
        from += more;
    }
}

/// The cause is what is always busy. Threads of a pool that wait for it gain the same if there are
/// more of them, and so does all that is faster while they have it.
fn rank(limit: &Limit) -> (u8, Kind) {
    /// Busy for this part of the time, it has no room.
    const FULL: f64 = 0.7;
    let rank = match limit.kind {
        Kind::Server => 1,
        Kind::Time => 4,
        Kind::Threads => 2,
        _ if limit.busy >= FULL => 0,
        _ => 3,
    };
    (rank, limit.kind)
}

fn all_per_s(outcome: &Outcome) -> f64 {
    outcome.clients.iter().map(|client| client.throughput_per_s).sum()
}

/// What requests use or pass.
fn parts(tad: &Tad) -> Vec<Part> {
    let steps = || tad.requests.iter().flat_map(|request| &request.steps);
    let uses = |resource: ResourceId, stage: Option<StageId>| {
        steps().filter(|step| stage.is_none_or(|stage| step.stage == stage)).any(|step| {
            step.uses.iter().chain(&step.uses_after).any(|each| each.resource == resource)
        })
    };
    let mut parts = Vec::new();
    for (id, stage) in tad.stages.iter().enumerate() {
        let used = steps().any(|step| step.stage == id);
        if used && matches!(stage.threads, Threads::Bounded(_)) {
            parts.push(Part::Stage(id));
        }
        let node = tad.node_of(id);
        let time = tad.resource(node, crate::draw::TIME);
        if used && time.is_some_and(|time| uses(time, Some(id))) {
            parts.push(Part::Time(id));
        }
    }
    for (id, resource) in tad.resources.iter().enumerate() {
        if resource.name != crate::draw::TIME && uses(id, None) {
            parts.push(Part::Resource(id));
        }
    }
    parts
}

/// The system with a part of it twice as good, and what was done.
fn twice(tad: &Tad, part: &Part, paused: &[Paused]) -> (Tad, Kind, String, String) {
    let mut tad = tad.clone();
    match *part {
        Part::Pauses => {
            pauses(&mut tad, paused, None, |ns, pause| ns.saturating_sub(pause / 2));
            let change = "half as much of it, by a larger heap".to_owned();
            (tad, Kind::Collector, "garbage collection".to_owned(), change)
        }
        Part::Stage(id) => {
            let stage = &mut tad.stages[id];
            let Threads::Bounded(threads) = &mut stage.threads else { unreachable!("see parts") };
            let change = format!("{} threads instead of {threads}", *threads * 2);
            *threads *= 2;
            let name = stage.name.clone();
            (tad, Kind::Threads, name, change)
        }
        Part::Time(id) => {
            let name = tad.stages[id].name.clone();
            let time = tad.resource(tad.node_of(id), crate::draw::TIME);
            let steps = tad.requests.iter_mut().flat_map(|request| &mut request.steps);
            for step in steps.filter(|step| step.stage == id) {
                for each in step.uses.iter_mut().chain(&mut step.uses_after) {
                    if let (true, Quantity::Fixed(ns)) =
                        (Some(each.resource) == time, &mut each.amount)
                    {
                        *ns /= 2;
                    }
                }
            }
            (tad, Kind::Time, name, "its sleeps and waits half as long".to_owned())
        }
        Part::Resource(id) => {
            let resource = &mut tad.resources[id];
            let asked = resource.name == crate::draw::ASKED;
            let quota = resource.name == crate::draw::QUOTA;
            let (kind, change) = match resource.kind {
                ResourceKind::Cpu if quota => (Kind::Quota, "twice the control group's quota"),
                ResourceKind::Cpu => (Kind::Processors, "twice as many processors"),
                ResourceKind::Io => (Kind::Disk, "a disk twice as fast"),
                ResourceKind::Network => (Kind::Network, "twice as fast"),
                ResourceKind::Lock if resource.parallelism == 1 => (Kind::Lock, "split in two"),
                ResourceKind::Lock => (Kind::Lock, "twice as many"),
                ResourceKind::Custom if asked => (Kind::Server, "answers twice as fast"),
                ResourceKind::Custom => (Kind::Server, "twice as fast"),
                ResourceKind::Delay => (Kind::Time, "half as long"),
            };
            let processors = resource.kind == ResourceKind::Cpu;
            match resource.kind {
                ResourceKind::Cpu if quota => {
                    let all = resource.rate_per_s / 1e9 * f64::from(resource.parallelism);
                    (resource.parallelism, resource.rate_per_s) = crate::draw::divided(2.0 * all);
                }
                ResourceKind::Cpu | ResourceKind::Lock => resource.parallelism *= 2,
                _ => resource.rate_per_s *= 2.0,
            }
            let name = resource.name.clone();
            if processors {
                // A pause stops threads on all of them, and is not shorter.
                pauses(&mut tad, paused, Some(id), |ns, pause| ns + pause);
            }
            (tad, kind, name, change.to_owned())
        }
    }
}

/// Changes the processor time of steps that are stopped for some of it, on these processors or on
/// all.
fn pauses(
    tad: &mut Tad,
    paused: &[Paused],
    processors: Option<ResourceId>,
    change: impl Fn(u64, u64) -> u64,
) {
    for each in paused {
        let uses = &mut tad.requests[each.request].steps[each.step].uses;
        let cpu = |used: &&mut Consumption| match processors {
            Some(id) => used.resource == id,
            None => tad.resources[used.resource].kind == ResourceKind::Cpu,
        };
        if let Some(Consumption { amount: Quantity::Fixed(ns), .. }) = uses.iter_mut().find(cpu) {
            *ns = change(*ns, each.ns).max(1);
        }
    }
}

fn busy(tad: &Tad, base: &Outcome, part: &Part) -> f64 {
    match *part {
        Part::Resource(id) => {
            let resource = &tad.resources[id];
            let found = base.resource(&tad.nodes[resource.node].name, &resource.name);
            found.filter(|_| resource.limited()).map_or(0.0, |found| found.utilization)
        }
        Part::Stage(id) => {
            let stage = &tad.stages[id];
            let Threads::Bounded(threads) = stage.threads else { return 0.0 };
            let all = f64::from(threads) * f64::from(tad.nodes[tad.node_of(id)].count.max(1));
            let serving: f64 =
                base.stage(&stage.name).map_or(0.0, |found| found.serving.iter().sum());
            serving / all.max(1.0)
        }
        Part::Time(_) | Part::Pauses => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(kind: Kind, name: &str, gain: f64, busy: f64) -> Limit {
        let (name, change) = (name.to_owned(), String::new());
        Limit { kind, name, change, per_s: 100.0 * (1.0 + gain), gain, busy }
    }

    #[test]
    fn of_equal_gains_what_is_always_busy_is_first_and_a_larger_gain_stays_first() {
        let mut limits = vec![
            limit(Kind::Time, "connection", 1.00, 0.0),
            limit(Kind::Threads, "connection", 0.99, 0.9),
            limit(Kind::Lock, "narrow", 0.98, 1.0),
            limit(Kind::Lock, "seldom", 0.97, 0.3),
            limit(Kind::Server, "peer", 0.96, 0.0),
            limit(Kind::Disk, "io", 0.3, 1.0),
            limit(Kind::Lock, "other", 0.1, 0.2),
        ];
        causes_first(&mut limits);
        let names: Vec<(Kind, &str)> = limits.iter().map(|each| (each.kind, &*each.name)).collect();
        assert_eq!(names[0], (Kind::Lock, "narrow"));
        assert_eq!(names[1..3], [(Kind::Server, "peer"), (Kind::Threads, "connection")]);
        assert_eq!(names[3..5], [(Kind::Lock, "seldom"), (Kind::Time, "connection")]);
        assert_eq!(names[5], (Kind::Disk, "io"));
    }
}
