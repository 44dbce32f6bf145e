//! Group commit: a stage that makes several requests durable with one sync of the disk.
//!
//! Numbers show it. Threads that wait for its answers are woken more often than it waits for the
//! disk, and each has waited about as long as the disk takes. A stage of which only some requests
//! need the disk has as few accesses, but there most waits are shorter.

use super::{disk, one_for_each_connection};
use crate::infer::Architecture;
use crate::infer::arrows::{By, End, Meaning};
use crate::infer::waits::Kind;
use crate::trace::Trace;
use headworks_tad::model::Confidence;

/// Fewest requests for each sync, on average, for a stage to serve batches.
const SIZE_MIN: f64 = 1.5;
/// Fewer syncs are chance.
const SYNCS_MIN: u64 = 30;
/// A waiter waits for at least this part of a sync: it may come while one is under way that is not
/// its own, and then waits for two.
const WAIT_MIN: f64 = 0.5;
/// Most requests of a batch: more than there are.
pub(super) const MOST: u32 = 1_000;

/// A stage's batches in the counted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Batches {
    /// Syncs of the disk: one for each batch.
    pub syncs: f64,
}

/// Those of a stage, if it has any.
pub(super) fn find(trace: &Trace, found: &Architecture, stage: usize) -> Option<Batches> {
    let of = &found.stages.stages[stage];
    let facts = &found.facts[stage];
    let device = Kind::ALL.iter().position(|kind| *kind == Kind::Device).unwrap_or(0);
    // A sync may sleep more than once, and writes more than once if it has much.
    let sleeps = facts.sleeps[device];
    let syncs = if facts.bios > 0 { sleeps.min(facts.bios) } else { sleeps };
    let pool = !of.on_demand && !one_for_each_connection(trace, found, stage);
    if !pool || syncs < SYNCS_MIN || disk(found, stage) == 0 {
        return None;
    }
    let wakes = |by: By| matches!(by, By::Wake | By::Ready);
    let (mut n, mut ns) = (0, 0);
    for arrow in found.arrows.iter().filter(|arrow| {
        arrow.meaning == Meaning::Blocking && wakes(arrow.by) && arrow.sure > Confidence::Guess
    }) {
        // In the simulator a batch does not wait for other stages.
        if arrow.from == End::Stage(stage) {
            return None;
        }
        if arrow.to == End::Stage(stage) {
            (n, ns) = (n + arrow.n, ns + arrow.off_ns);
        }
    }
    let size = n as f64 / syncs as f64;
    let sync_ns = facts.asleep_ns[device] as f64 / syncs as f64;
    let wait_ns = ns as f64 / n.max(1) as f64;
    (size >= SIZE_MIN && wait_ns >= WAIT_MIN * sync_ns).then_some(Batches { syncs: syncs as f64 })
}
