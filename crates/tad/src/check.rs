//! The five checks: what in a diagram prevents scheduling (dissertation, section 4.2).
//!
//! Each check is a rule over the diagram and the paths of its requests, in its own module. Existing
//! measures are part of the diagram: a shared queue ends contention between its stages, and control
//! logic turns a finding into a mitigated one.

mod advice;
mod blocking;
mod hidden_contention;
mod no_scheduling;
mod ordering_constraint;
#[cfg(test)]
mod tests;
mod unknown_usage;

pub use advice::{Advice, Directness};

use crate::model::{StageId, Tad};
use crate::remedy::{Problem, Remedy};

/// What a system must offer so that a policy can be implemented on it (section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// There is a scheduling point wherever a resource is used.
    Completeness,
    /// Each scheduling point has the information and the means for its part.
    LocalEnforceability,
    /// Decisions at one scheduling point have no unexpected effect at another.
    IndependentScheduling,
}

impl Condition {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Condition::Completeness => "Completeness",
            Condition::LocalEnforceability => "Local enforceability",
            Condition::IndependentScheduling => "Independent scheduling",
        }
    }
}

impl Problem {
    /// The condition that it violates (Table 4.3).
    pub fn condition(self) -> Condition {
        match self {
            Problem::NoScheduling => Condition::Completeness,
            Problem::UnknownUsage | Problem::OrderingConstraint => Condition::LocalEnforceability,
            Problem::HiddenContention | Problem::Blocking => Condition::IndependentScheduling,
        }
    }
}

/// One place in a system where scheduling is not possible.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// Which of the five.
    pub problem: Problem,
    /// Kind of node where it is.
    pub node: String,
    /// The stages that have it; for blocking, the stage that blocks.
    pub stages: Vec<String>,
    /// Resources that cannot be scheduled there; none for blocking and ordering.
    pub resources: Vec<String>,
    /// The reason, with names of requests, stages and resources.
    pub reason: String,
    /// What it violates.
    pub condition: Condition,
    /// Possible remedies, direct ones first.
    pub remedies: Vec<Advice>,
    /// Control logic of the system that works around it; empty if there is none.
    pub mitigated_by: Vec<String>,
}

impl Finding {
    /// Whether control logic of the system works around it.
    pub fn mitigated(&self) -> bool {
        !self.mitigated_by.is_empty()
    }
}

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
    /// All findings.
    pub findings: Vec<Finding>,
}

/// All findings of the five checks, in the order of [`Problem::ALL`].
pub fn check(tad: &Tad) -> Vec<Finding> {
    let mut findings = no_scheduling::find(tad);
    findings.extend(unknown_usage::find(tad));
    findings.extend(hidden_contention::find(tad));
    findings.extend(blocking::find(tad));
    findings.extend(ordering_constraint::find(tad));
    findings
}

/// The checks' findings with their summary.
pub fn report(tad: &Tad) -> Report {
    let findings = check(tad);
    let letters = |mitigated: bool| {
        let has = |problem: Problem| {
            let mut of = findings.iter().filter(|finding| finding.problem == problem).peekable();
            of.peek().is_some() && of.all(Finding::mitigated) == mitigated
        };
        Problem::ALL.into_iter().filter(|&problem| has(problem)).map(Problem::letter).collect()
    };
    Report {
        system: tad.name.clone(),
        version: tad.version.clone(),
        problems: letters(false),
        mitigated: letters(true),
        findings,
    }
}

/// A finding with the data that its problem implies.
fn finding(
    tad: &Tad,
    problem: Problem,
    stages: &[StageId],
    resources: Vec<String>,
    reason: String,
    remedies: Vec<Advice>,
    mitigated_by: Vec<String>,
) -> Finding {
    let node = stages.first().map(|&stage| tad.nodes[tad.node_of(stage)].name.clone());
    Finding {
        problem,
        node: node.unwrap_or_default(),
        stages: stages.iter().map(|&stage| tad.stages[stage].name.clone()).collect(),
        resources,
        reason,
        condition: problem.condition(),
        remedies,
        mitigated_by,
    }
}

/// The controls of the system that `answers` selects, in the file's form.
fn controls(tad: &Tad, answers: impl Fn(&Remedy) -> bool) -> Vec<String> {
    tad.controls.iter().filter(|control| answers(control)).map(Remedy::to_toml).collect()
}

/// "a, b and c"
fn join<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [front @ .., last] => {
            let front: Vec<&str> = front.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", front.join(", "), last.as_ref())
        }
    }
}

/// "does" for one, "do" for more.
fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}
