//! The engine's tables: a system and a scenario, worked out before the run.

use super::RESOURCES;
use super::draw::Draw;
use super::rng::Zipf;
use crate::model::{Batch, Place, StageId};
use crate::scenario::{Arrivals, Entry, Patience};
use std::ops::Range;

/// Consumption at a step, in units of its resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsePlan {
    pub(super) resource: u32,
    pub(super) amount: u64,
    /// Index in [`Plan::laws`], if the amount is a mean and each request's is drawn; or
    /// [`super::slab::NONE`].
    pub(super) law: u32,
    /// The queue did not know of this use.
    pub(super) unknown: bool,
}

/// A step, for one load.
#[derive(Clone, Debug)]
pub(super) struct StepPlan {
    pub(super) load: u32,
    pub(super) client: u32,
    /// Number within the request.
    pub(super) index: u32,
    pub(super) stage: u32,
    pub(super) place: Place,
    pub(super) uses: Vec<UsePlan>,
    /// Index in `uses` of the consumption after the wait.
    pub(super) after: u16,
    pub(super) submits: Vec<u32>,
    pub(super) lookup: Option<LookupPlan>,
    pub(super) waits: u16,
    /// Steps that wait for this one.
    pub(super) waited_by: Vec<u32>,
    pub(super) then: Vec<u32>,
    pub(super) answers: bool,
    /// Of its stage: the longest turn, and whether it serves batches.
    pub(super) turn_ns: u64,
    pub(super) batched: bool,
    /// The cost known to the queue: nanoseconds of each of the node's resources.
    pub(super) known_ns: [u64; RESOURCES],
    /// The sum of that.
    pub(super) known_sum_ns: u64,
}

/// What a client issues.
#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    pub(super) client: u32,
    pub(super) name: String,
    /// Its steps in [`Plan::steps`].
    pub(super) steps: Range<usize>,
    pub(super) first: u32,
    pub(super) answers: u16,
    pub(super) arrivals: Arrivals,
    pub(super) entry: Entry,
    pub(super) keys: KeyPlan,
    pub(super) patience: Option<Patience>,
    /// Loads whose requests its threads issue, each with its part.
    pub(super) parts: Vec<(u32, f64)>,
    /// Of such a load: the load that has the threads.
    pub(super) threads_of: Option<u32>,
    /// Issued from the start, not after a change.
    pub(super) initial: bool,
}

/// How a partition is drawn.
#[derive(Clone, Debug)]
pub(super) enum KeyPlan {
    Uniform,
    Zipf(Zipf),
    Fixed(u32),
}

#[derive(Clone, Debug)]
pub(super) struct StagePlan {
    /// First of its instances.
    pub(super) base: u32,
    pub(super) nodes: u32,
    pub(super) instances: u32,
    /// Zero for a stage on demand.
    pub(super) threads: u32,
    pub(super) asynchronous: bool,
    /// Longest time for which a thread works for a part while others wait.
    pub(super) turn_ns: u64,
    pub(super) batch: Option<Batch>,
}

/// No turn: a part is served to its end.
pub(super) const TO_THE_END: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) struct ResourcePlan {
    pub(super) base: u32,
    pub(super) nodes: u32,
    /// Number among the resources of its node.
    pub(super) local: u32,
    /// Longest service before the next part takes its turn.
    pub(super) quantum_ns: u64,
}

/// A cache's index among all.
#[derive(Clone, Debug)]
pub(super) struct CachePlan {
    pub(super) name: String,
    pub(super) node: usize,
    pub(super) base: u32,
    pub(super) entries: u32,
}

/// The look-up of a step, for one load.
#[derive(Clone, Debug)]
pub(super) struct LookupPlan {
    /// First of the cache's instances, one for each node.
    pub(super) base: u32,
    /// Number of the consumption before which it is done.
    pub(super) before: u16,
    /// Consumptions that a hit saves.
    pub(super) saves: u16,
    pub(super) keys: u32,
    pub(super) wanted: KeyPlan,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) stages: Vec<StagePlan>,
    pub(super) resources: Vec<ResourcePlan>,
    /// Steps of all loads, so that a part of a request can refer to its own by one number.
    pub(super) steps: Vec<StepPlan>,
    pub(super) loads: Vec<LoadPlan>,
    /// Loads of each change that has some, by index of the change.
    pub(super) change_loads: Vec<Vec<u32>>,
    pub(super) stage_instances: u32,
    pub(super) resource_instances: u32,
    pub(super) caches: Vec<CachePlan>,
    pub(super) laws: Vec<Draw>,
}

impl Plan {
    /// The instances of a stage, on all nodes.
    pub(super) fn places(&self, stage: StageId) -> Range<u32> {
        let planned = &self.stages[stage];
        planned.base..planned.base + planned.nodes * planned.instances
    }
}
