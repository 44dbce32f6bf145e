//! The checks: what in a diagram prevents scheduling. Five are the dissertation's (section 4.2),
//! three more were found by a search (`complete`). They look for these problems, and for no others.
//!
//! Each check is a rule over the diagram and the paths of its requests, in its own module. Existing
//! measures are part of the diagram: a shared queue ends contention between its stages, and control
//! logic turns a finding into a mitigated one.

mod advice;
mod as_it_is;
mod blocking;
mod finding;
mod held_threads;
mod hidden_contention;
mod no_scheduling;
mod ordering_constraint;
mod queues;
mod service_to_end;
mod surplus_threads;
#[cfg(test)]
mod tests;
mod unknown_usage;
mod words;

pub use advice::{Advice, Directness};
pub use finding::{Condition, Finding};

use crate::model::{Confidence, Problem, Tad};

/// The checks' results for a system, for `--json`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// System.
    pub system: String,
    /// Its version.
    pub version: String,
    /// Letters of the unmitigated problems, in the order of Table 4.5.
    pub problems: String,
    /// Letters of the problems with only mitigated findings.
    pub mitigated: String,
    /// Letters of the unmitigated problems that follow only from what is not certain.
    pub unsure: String,
    /// All findings.
    pub findings: Vec<Finding>,
    /// Why clients do not share in the system as it is, with the policies that it has. A finding
    /// says more: that no policy would help.
    pub as_it_is: Vec<String>,
}

/// All findings of the checks, in the order of [`Problem::ALL`].
pub fn check(tad: &Tad) -> Vec<Finding> {
    let mut findings = no_scheduling::find(tad);
    findings.extend(unknown_usage::find(tad));
    findings.extend(hidden_contention::find(tad));
    findings.extend(blocking::find(tad));
    findings.extend(ordering_constraint::find(tad));
    findings.extend(surplus_threads::find(tad));
    findings.extend(service_to_end::find(tad));
    findings.extend(held_threads::find(tad));
    findings
}

/// The checks' findings with their summary.
pub fn report(tad: &Tad) -> Report {
    let findings = check(tad);
    // Of a problem: has findings, has unmitigated ones, has certain ones of these.
    let letters = |wanted: [bool; 3]| -> String {
        let has = |problem: Problem| {
            let of = || findings.iter().filter(move |finding| finding.problem == problem);
            let open = || of().filter(|finding| !finding.mitigated());
            let certain = open().any(|finding| finding.confidence == Confidence::Certain);
            [of().next().is_some(), open().next().is_some(), certain] == wanted
        };
        Problem::ALL.into_iter().filter(|&problem| has(problem)).map(Problem::letter).collect()
    };
    let problems = letters([true, true, true]);
    let mitigated = letters([true, false, false]);
    let unsure = letters([true, true, false]);
    Report {
        system: tad.name.clone(),
        version: tad.version.clone(),
        problems,
        mitigated,
        unsure,
        findings,
        as_it_is: as_it_is::notes(tad),
    }
}
