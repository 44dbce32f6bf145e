//! What a random system is, whichever language it is a program of.

use headworks_tad::model::{Quantity, ResourceKind, Step, Tad};
use std::collections::BTreeSet;

/// Amounts are this much smaller than in the generator, so that many requests fit into a second.
const SMALLER: u64 = 20;
/// No stage has more threads than this here.
pub const THREADS_MAX: u32 = 6;

/// What a step takes of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Use {
    /// Nanoseconds of a processor.
    Cpu(u64),
    /// A write that is made durable.
    Write,
}

/// What a step takes.
pub fn uses(tad: &Tad, request: usize, step: &Step) -> Vec<Use> {
    let mut uses = Vec::new();
    for used in &step.uses {
        let Quantity::Parameter(at) = used.amount else { continue };
        let resource = &tad.resources[used.resource];
        let amount = tad.requests[request].parameters[at].default / SMALLER;
        uses.push(match resource.kind {
            ResourceKind::Cpu => Use::Cpu((amount as f64 / resource.rate_per_s * 1e9) as u64),
            ResourceKind::Io => Use::Write,
            _ => Use::Cpu(2_000),
        });
    }
    uses.push(Use::Cpu(5_000));
    uses
}

/// From, to, and whether the first is blocked until the other is done.
pub type Arrows = BTreeSet<(usize, usize, bool)>;

/// Stages that requests use, and the arrows between them.
pub fn used(tad: &Tad) -> (BTreeSet<usize>, Arrows) {
    let (mut used, mut arrows) = (BTreeSet::new(), Arrows::new());
    for kind in &tad.requests {
        for step in &kind.steps {
            used.insert(step.stage);
            for &next in step.submits.iter().chain(&step.then) {
                arrows.insert((step.stage, kind.steps[next].stage, step.waits.contains(&next)));
            }
        }
    }
    (used, arrows)
}
