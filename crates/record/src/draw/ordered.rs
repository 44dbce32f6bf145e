//! Stages that may have to keep the order in which requests come: those that append to a log.
//!
//! That an order must be kept is not seen. Most queues are served in order, and few have to be.
//! A log shows itself by three signs:
//! * one thread takes what threads of other stages hand to it;
//! * these are several, and wait until it is done, or a stage to which the way leads through it
//!   alone;
//! * what it leads to writes to files, at least a byte for each of its requests.
//!
//! A pool of one thread that writes has the same signs, so it is a guess.

use super::visits;
use crate::infer::Architecture;
use crate::infer::arrows::{End, Meaning};
use crate::trace::Trace;
use headworks_tad::model::Confidence;
use std::collections::BTreeSet;

/// Whether a stage has the signs.
pub(super) fn may_be(trace: &Trace, found: &Architecture, stage: usize) -> bool {
    let of = &found.stages.stages[stage];
    if of.on_demand || of.most != 1 {
        return false;
    }
    let before: BTreeSet<usize> = (0..found.stages.stages.len())
        .filter(|&from| from != stage && feeds(found, from, stage))
        .collect();
    let after = reached(found, &BTreeSet::from([stage]), &before);
    let several = |id: usize| found.stages.stages[id].on_demand || found.stages.stages[id].most > 1;
    let waited = before.iter().filter(|from| several(**from)).any(|&from| {
        let past = reached(found, &BTreeSet::from([from]), &BTreeSet::from([stage]));
        after.difference(&past).any(|&on| waits(found, from, on))
    });
    // Bytes are those of the whole recording, visits those of the counted time.
    let counted = trace.head.counted_s / trace.head.seconds.max(1e-9);
    waited && written(trace, found, &after) as f64 * counted >= visits(found, stage).max(1) as f64
}

/// Stages to which requests go from these, and not through others; with these.
fn reached(
    found: &Architecture,
    from: &BTreeSet<usize>,
    without: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut seen = from.clone();
    let mut todo: Vec<usize> = from.iter().copied().collect();
    while let Some(at) = todo.pop() {
        for next in (0..found.stages.stages.len()).filter(|&next| feeds(found, at, next)) {
            if !without.contains(&next) && seen.insert(next) {
                todo.push(next);
            }
        }
    }
    seen
}

fn feeds(found: &Architecture, from: usize, to: usize) -> bool {
    found.arrows.iter().any(|arrow| {
        arrow.from == End::Stage(from) && arrow.feeds(to) && arrow.sure > Confidence::Guess
    })
}

fn waits(found: &Architecture, from: usize, on: usize) -> bool {
    found.arrows.iter().any(|arrow| {
        let ends = (arrow.from, arrow.to) == (End::Stage(from), End::Stage(on));
        ends && arrow.meaning == Meaning::Blocking && arrow.sure > Confidence::Guess
    })
}

/// Bytes that threads of these stages wrote to files.
fn written(trace: &Trace, found: &Architecture, stages: &BTreeSet<usize>) -> u64 {
    let own = trace.threads.values().filter(|thread| {
        found.stages.of.get(&thread.unit).is_some_and(|stage| stages.contains(stage))
    });
    own.map(|thread| thread.device_written).sum()
}
