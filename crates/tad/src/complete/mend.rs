//! Does what the checks advise until they find nothing.

use crate::check::{Finding, check};
use crate::file::read_remedies;
use crate::model::Tad;
use crate::remedy::{Problem, apply};

/// Most pieces of advice that are followed for one system.
const ADVICE_MAX: usize = 200;

/// The order in which problems are treated. Stages are divided first, as that decides which of them
/// share a resource; turns are last, as they follow from the lengths of what is left.
const ORDER: [Problem; 8] = [
    Problem::NoScheduling,
    Problem::UnknownUsage,
    Problem::OrderingConstraint,
    Problem::Blocking,
    Problem::HeldThreads,
    Problem::HiddenContention,
    Problem::SurplusThreads,
    Problem::ServiceToEnd,
];

/// Whether the checks find nothing that control logic does not work around.
pub(super) fn clean(tad: &Tad) -> bool {
    check(tad).iter().all(Finding::mitigated)
}

/// Follows the checks' direct advice. Returns false if some problem has none that helps.
pub fn mend(tad: &mut Tad) -> bool {
    for _ in 0..ADVICE_MAX {
        let findings = check(tad);
        let open = findings.iter().filter(|finding| !finding.mitigated());
        let rank = |finding: &&Finding| {
            let divides = finding.remedies[0].remedies.iter().any(|r| r.contains("\"split\""));
            let of = ORDER.iter().position(|problem| *problem == finding.problem);
            (!divides, of)
        };
        let Some(first) = open.min_by_key(rank) else { return true };
        if !first.remedies.iter().any(|advice| follow(tad, &advice.remedies)) {
            return false;
        }
    }
    false
}

/// Applies some remedies, all or none. Returns whether that changed anything.
fn follow(tad: &mut Tad, remedies: &[String]) -> bool {
    let text = format!("remedies = [{}]", remedies.join(", "));
    let Ok(remedies) = read_remedies("advice", &text, tad) else { return false };
    let mut changed = tad.clone();
    let applied = remedies.iter().all(|remedy| apply(&mut changed, remedy).is_ok());
    let differs = applied && changed != *tad;
    if differs {
        *tad = changed;
    }
    differs
}
