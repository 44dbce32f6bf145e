//! The state of a running simulation. What happens to it is told in the files of each subject.

use super::calendar::Calendar;
use super::controls::Controls;
use super::error::SimError;
use super::lru::Lru;
use super::plan::Plan;
use super::queue::Queue;
use super::resource::ResourceInstance;
use super::rng::Rng;
use super::slab::{Followers, Slab};
use super::stage::StageInstance;
use super::stats::Stats;
use crate::model::Tad;
use crate::scenario::Scenario;
use std::collections::{HashMap, VecDeque};

/// Work to do at this instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Todo {
    /// A request's first part goes to a node.
    Enter(u32, u32),
    /// A part is submitted from a node.
    Submit(u32, u32),
    /// A part goes on.
    Advance(u32),
    /// A queue checks whether it can start a part.
    Dispatch(u32),
    /// A load's thread continues; its request began on this node.
    Proceed(u32, u32),
}

/// A load while it is simulated.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadState {
    pub(super) active: bool,
    /// Nodes of the threads that are about to issue a request, in the order in which they will;
    /// only with [`Entry::Each`].
    pub(super) homes: VecDeque<u32>,
    /// Requests that belonged to no thread.
    pub(super) homeless: u32,
    /// Threads of a closed loop that will move to another load, and that load.
    pub(super) leaving: u32,
    pub(super) successor: u32,
}

/// A simulation under way.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    pub(super) tad: &'a Tad,
    pub(super) scenario: &'a Scenario,
    pub(super) plan: &'a Plan,
    pub(super) rng: Rng,
    pub(super) calendar: Calendar,
    pub(super) now_ns: u64,
    pub(super) slab: Slab,
    pub(super) instances: Vec<StageInstance>,
    pub(super) queues: Vec<Queue>,
    pub(super) resources: Vec<ResourceInstance>,
    pub(super) caches: Vec<Lru>,
    pub(super) seed: u64,
    pub(super) stats: Stats,
    pub(super) todo: VecDeque<Todo>,
    pub(super) loads: Vec<LoadState>,
    pub(super) controls: Controls,
    pub(super) clients: usize,
    pub(super) partitions: u32,
    pub(super) error: Option<SimError>,
    pub(super) order: u64,
    /// By the part that leads; looked up, never iterated.
    pub(super) batches: HashMap<u32, Followers>,
}
