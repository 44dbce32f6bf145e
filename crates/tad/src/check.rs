//! The five checks: what in a diagram keeps a scheduler from its work (dissertation, section 4.2).
//!
//! Each check is a rule over the diagram and the paths of its requests, one module for each. What
//! is done about a problem already is part of the diagram: a shared queue ends contention between
//! its stages, and control logic turns a finding into a mitigated one.

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

/// What a system must offer so that a policy can be realized in it (section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// There is a scheduling point wherever a resource is used.
    Completeness,
    /// Each scheduling point knows enough, and may do enough, to carry out its part.
    LocalEnforceability,
    /// What one scheduling point decides has no unexpected effect at another.
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

/// One place in a system where a scheduler cannot do its work.
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
    /// Why, naming requests, stages and resources.
    pub reason: String,
    /// What it violates.
    pub condition: Condition,
    /// What could be done, direct remedies first.
    pub remedies: Vec<Advice>,
    /// Control logic of the system that works around it; none if nothing does.
    pub mitigated_by: Vec<String>,
}

impl Finding {
    /// Whether control logic of the system works around it.
    pub fn mitigated(&self) -> bool {
        !self.mitigated_by.is_empty()
    }
}

/// What the checks say about a system, for `--json`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// System.
    pub system: String,
    /// Its version.
    pub version: String,
    /// Letters of the problems that it has and that nothing mitigates, in the order of Table 4.5.
    pub problems: String,
    /// Letters of those that it has only where control logic works around them.
    pub mitigated: String,
    /// All findings.
    pub findings: Vec<Finding>,
}

/// Everything that the five checks find, in the order of [`Problem::ALL`].
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

/// A finding with what follows from its problem.
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

/// What the controls of the system do that this picks out, as the file writes them.
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
