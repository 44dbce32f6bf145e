//! Explains why a system that passes all five checks is still unfair.
//!
//! A *cure* removes one feature of the model that the five problems do not cover: held threads, a
//! crowded resource and others. A cure that alone makes the system fair names the cause. If none
//! does, two are tried together. Else the cause is unknown.

use super::case::{Case, Growth};
use super::floor::shortfall;
use crate::model::{Discipline, Tad, Threads};
use crate::scenario::Arrivals;
use serde::Serialize;

/// Turn of a preemptive resource in the cure.
const QUANTUM_NS: u64 = 100_000;

/// A change that removes a feature.
type Cure = fn(&mut Case);

/// A cause of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Threads are held while their requests wait for another stage. All requests of the stage take
    /// the same path, so by definition it is not a blocking problem; but their waits differ in
    /// length.
    HeldThreads,
    /// A resource has more threads in front of it than servers, or batches. Requests that they took
    /// from the fair queue wait in the resource's own queue, first come first served.
    Crowd,
    /// A thread or a resource serves a request to its end, however large it is. The same amount of
    /// work in smaller requests does no harm.
    NotPreemptive,
    /// Both of the above.
    CrowdAndNotPreemptive,
    /// Threads are held, and service is not preemptive or the resource is crowded.
    HeldThreadsAndService,
    /// The client has too few requests in flight to be queued whenever it is its turn. A fair queue
    /// keeps nothing for absent clients.
    AbsentClient,
    /// None of these.
    Unexplained,
}

impl Cause {
    /// Names on the command line.
    pub const NAMES: [(Cause, &'static str); 7] = [
        (Cause::HeldThreads, "held-threads"),
        (Cause::Crowd, "crowd"),
        (Cause::NotPreemptive, "not-preemptive"),
        (Cause::CrowdAndNotPreemptive, "crowd-and-not-preemptive"),
        (Cause::HeldThreadsAndService, "held-threads-and-service"),
        (Cause::AbsentClient, "absent-client"),
        (Cause::Unexplained, "unexplained"),
    ];

    /// The cause of a name.
    pub fn from_name(name: &str) -> Option<Cause> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(cause, _)| *cause)
    }

    /// Removes the cause.
    pub(super) fn cure(self, case: &mut Case) {
        let cures: &[Cure] = match self {
            Cause::HeldThreads => &[release],
            Cause::Crowd => &[thin],
            Cause::NotPreemptive => &[divide],
            Cause::CrowdAndNotPreemptive => &[thin, divide],
            Cause::HeldThreadsAndService => &[release, thin, divide],
            Cause::AbsentClient => &[attend],
            Cause::Unexplained => &[],
        };
        cures.iter().for_each(|cure| cure(case));
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Cause::HeldThreads => {
                "threads are held by requests that wait longer than others on the same path"
            }
            Cause::Crowd => "more threads in front of a resource than it has servers",
            Cause::NotPreemptive => "large requests are served to their end",
            Cause::CrowdAndNotPreemptive => {
                "large requests are served to their end, and several of them at a time come first"
            }
            Cause::HeldThreadsAndService => {
                "threads are held, and resources serve in their own order or to the end"
            }
            Cause::AbsentClient => {
                "a client with few requests under way is not there when it is its turn"
            }
            Cause::Unexplained => "not explained by any cure that was tried",
        }
    }
}

/// The cause of a case that fails.
pub(super) fn cause(case: &Case, loss: f64) -> Cause {
    let cured = |cures: &[Cure]| {
        let mut changed = case.clone();
        cures.iter().for_each(|cure| cure(&mut changed));
        matches!(shortfall(&changed, loss), Ok(None))
    };
    let attempts: [(Cause, &[Cure]); 10] = [
        (Cause::HeldThreads, &[release]),
        (Cause::Crowd, &[thin]),
        (Cause::NotPreemptive, &[preempt]),
        (Cause::NotPreemptive, &[divide]),
        (Cause::CrowdAndNotPreemptive, &[thin, preempt]),
        (Cause::CrowdAndNotPreemptive, &[thin, divide]),
        (Cause::HeldThreadsAndService, &[release, preempt]),
        (Cause::HeldThreadsAndService, &[release, thin, preempt]),
        (Cause::HeldThreadsAndService, &[release, thin, divide]),
        (Cause::AbsentClient, &[attend]),
    ];
    let found = attempts.into_iter().find(|(_, cures)| cured(cures));
    found.map_or(Cause::Unexplained, |(cause, _)| cause)
}

/// No thread is held over a wait.
fn release(case: &mut Case) {
    for stage in &mut case.tad.stages {
        if let Threads::Bounded(_) = stage.threads {
            stage.asynchronous = true;
        }
    }
}

/// As many requests in service as servers; threads that wait for others stay.
fn thin(case: &mut Case) {
    let waits = |tad: &Tad, id: usize| {
        let mut steps = tad.requests.iter().flat_map(|kind| &kind.steps);
        !tad.stages[id].asynchronous && steps.any(|step| step.stage == id && !step.waits.is_empty())
    };
    let servers = |tad: &Tad, id: usize| {
        let uses = tad.stages[id].uses.iter();
        uses.map(|each| tad.resources[each.resource].parallelism).max()
    };
    for id in 0..case.tad.stages.len() {
        if waits(&case.tad, id) {
            continue;
        }
        case.tad.stages[id].batch = None;
        let few = servers(&case.tad, id);
        if let (Threads::Bounded(threads), Some(few)) = (&mut case.tad.stages[id].threads, few) {
            *threads = few.min(*threads);
        }
    }
    for at in 0..case.tad.shared_queues.len() {
        let mut resources: Vec<usize> = Vec::new();
        let mut held = 0;
        for &id in &case.tad.shared_queues[at].stages {
            resources.extend(case.tad.stages[id].uses.iter().map(|each| each.resource));
            if let (true, Threads::Bounded(threads)) =
                (waits(&case.tad, id), case.tad.stages[id].threads)
            {
                held += threads;
            }
        }
        resources.sort_unstable();
        resources.dedup();
        let servers: u32 = resources.iter().map(|&id| case.tad.resources[id].parallelism).sum();
        let queue = &mut case.tad.shared_queues[at];
        queue.concurrency = queue.concurrency.min((servers + held).max(1));
    }
}

/// Resources serve in turns.
fn preempt(case: &mut Case) {
    for resource in &mut case.tad.resources {
        resource.discipline = Discipline::RoundRobin { quantum_ns: QUANTUM_NS };
    }
}

/// C2's growth comes as more requests instead of larger ones.
fn divide(case: &mut Case) {
    case.growth = Growth::Threads;
}

/// C1 has more requests in flight, at the base load too.
fn attend(case: &mut Case) {
    for load in &mut case.base.clients[0].loads {
        if let Arrivals::Closed { threads, .. } = &mut load.arrivals {
            *threads *= 8;
        }
    }
}
