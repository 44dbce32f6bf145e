//! Are the known problems complete? An experiment on a question that the dissertation leaves open
//! (section 6.3.2): "If a system is free of the five problems, can any (reasonable) scheduling
//! policy be realized on it without difficulties?" The dissertation knows five problems. This
//! search found three more, which are checked since.
//!
//! Random systems are generated. Those without findings are simulated with fair queueing in every
//! queue: C1 stays the same, C2 grows. C1 should keep its throughput at C2's base load, or that of
//! a machine of its share if that is less. So the goal *can* be reached: section 6.3.2 asks to
//! separate "the difficulties inherent to a scheduling goal" from those of the structure.
//!
//! If C1 loses more, there is a *gap*. The system is made as small as possible while it stays clean
//! and fails, and changes that cure it show the cause.
//!
//! Few systems are clean as they are made. So they can be *mended* first: what the checks advise is
//! done until they find nothing. Then the search asks two questions: whether the checks overlook
//! something, and whether their advice is good.
//!
//! The result depends only on the seeds. A search without result proves nothing; a gap is a file
//! that anyone can simulate.

mod case;
mod cause;
mod floor;
mod mend;
mod random;
mod shrink;

pub use case::{Case, Growth};
pub use cause::Cause;
pub use floor::Floor;
pub use mend::mend;
pub use random::random;

use crate::file::{read_tad, write_scenario, write_tad};
use crate::model::Tad;
use floor::shortfall;
use serde::Serialize;

/// A clean system that does not isolate.
#[derive(Clone, Debug, Serialize)]
pub struct Gap {
    /// From which it was made.
    pub seed: u64,
    /// How C2 grows.
    pub growth: Growth,
    /// What would cure it.
    pub cause: Cause,
    /// Stages, steps of both requests and shared queues, in the smallest system.
    pub size: [usize; 3],
    /// C1's throughput, and the least that it should be.
    pub got_per_s: f64,
    /// See there.
    pub floor: Floor,
    /// The system as a file.
    pub system: String,
    /// The scenario, with C2's growth half-way, as a file.
    pub scenario: String,
}

/// The result for a system.
#[derive(Clone, Debug)]
pub enum Fate {
    /// The system is invalid, or its queues grow without end.
    Invalid,
    /// The checks have findings; after mending, findings that their advice does not remove.
    Unclean,
    /// It keeps C1 from C2.
    Isolates,
    /// It does not.
    Gap(Box<Gap>),
}

/// Generates the system of a seed and examines it. `loss` is the fraction that C1 may lose.
/// `without` are causes that are removed beforehand, so that others become visible.
/// `mended`: what the checks advise is done first.
pub fn examine(seed: u64, loss: f64, without: &[Cause], mended: bool) -> Fate {
    let mut case = random(seed);
    without.iter().for_each(|known| known.cure(&mut case));
    if !valid(&case.tad) {
        return Fate::Invalid;
    }
    let clean = if mended { mend(&mut case.tad) } else { mend::clean(&case.tad) };
    if !clean {
        return Fate::Unclean;
    }
    match shortfall(&case, loss) {
        Err(_) => Fate::Invalid,
        Ok(None) => Fate::Isolates,
        Ok(Some(_)) => {
            // A system may fail for several reasons; it must not shrink from one to another.
            let cause = cause::cause(&case, loss);
            let small = shrink::shrink(case, |case| {
                valid(&case.tad)
                    && mend::clean(&case.tad)
                    && matches!(shortfall(case, loss), Ok(Some(_)))
                    && cause::cause(case, loss) == cause
            });
            Fate::Gap(Box::new(describe(seed, small, cause, loss)))
        }
    }
}

fn describe(seed: u64, mut small: Case, cause: Cause, loss: f64) -> Gap {
    let (got_per_s, floor) = match shortfall(&small, loss) {
        Ok(Some(found)) => found,
        _ => (0.0, Floor { base_per_s: 0.0, entitled_per_s: 0.0 }),
    };
    small.tad.name = format!("gap-{seed}");
    small.tad.about = format!("The checks find nothing here, and C2 harms C1: {}.", cause.title());
    Gap {
        seed,
        growth: small.growth,
        cause,
        size: [
            small.tad.stages.len(),
            small.tad.requests.iter().map(|request| request.steps.len()).sum(),
            small.tad.shared_queues.len(),
        ],
        got_per_s,
        floor,
        system: write_tad(&small.tad),
        scenario: write_scenario(&small.growing(), &small.tad),
    }
}

/// Whether it can be written as a file.
fn valid(tad: &Tad) -> bool {
    read_tad("random", &write_tad(tad)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_system() {
        assert_eq!(random(7), random(7));
        assert_ne!(random(7).tad, random(8).tad);
    }

    #[test]
    fn random_systems_are_valid_and_some_are_clean() {
        let mut clean = 0;
        for seed in 1..=300 {
            let case = random(seed);
            let text = write_tad(&case.tad);
            if let Err(errors) = read_tad("random", &text) {
                panic!("seed {seed}: {errors}\n{text}");
            }
            clean += usize::from(mend::clean(&case.tad));
        }
        assert!(clean >= 3, "{clean} of 300");
    }
}
