//! The checks: what in a diagram prevents scheduling. Five are the dissertation's (section 4.2),
//! three more were found by a search (`complete`). They look for these problems, and for no others.
//!
//! Each check is a rule over the diagram and the paths of its requests, in its own module. Existing
//! measures are part of the diagram: a shared queue ends contention between its stages, and control
//! logic turns a finding into a mitigated one.

mod advice;
mod as_it_is;
mod blocking;
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

pub use advice::{Advice, Directness};

use crate::model::{Confidence, End, FlowKind, StageId, Tad};
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
    /// The condition that it violates (Table 4.3 for the five).
    pub fn condition(self) -> Condition {
        match self {
            Problem::NoScheduling | Problem::SurplusThreads => Condition::Completeness,
            Problem::UnknownUsage | Problem::OrderingConstraint | Problem::ServiceToEnd => {
                Condition::LocalEnforceability
            }
            Problem::HiddenContention | Problem::Blocking | Problem::HeldThreads => {
                Condition::IndependentScheduling
            }
        }
    }
}

/// One place in a system where scheduling is not possible.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// Which one.
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
    /// The least confidence of what it follows from.
    pub confidence: Confidence,
    /// Stages and arrows that it follows from and that are not certain.
    pub rests_on: Vec<String>,
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
    let (confidence, rests_on) = unsure(tad, problem, stages);
    Finding {
        problem,
        node: node.unwrap_or_default(),
        stages: stages.iter().map(|&stage| tad.stages[stage].name.clone()).collect(),
        resources,
        reason,
        condition: problem.condition(),
        remedies,
        mitigated_by,
        confidence,
        rests_on,
    }
}

/// The least confidence of a finding's stages and of the arrows that it follows from, and those
/// that are not certain.
fn unsure(tad: &Tad, problem: Problem, stages: &[StageId]) -> (Confidence, Vec<String>) {
    let mut least = Confidence::Certain;
    let mut names = Vec::new();
    let mut add = |confidence: Confidence, what: String| {
        if confidence != Confidence::Certain {
            least = least.min(confidence);
            names.push(format!("{what} ({})", confidence.name()));
        }
    };
    for &stage in stages {
        let stage = &tad.stages[stage];
        add(stage.confidence, format!("stage {}", stage.name));
        if problem == Problem::OrderingConstraint {
            add(stage.queue.order_confidence, format!("order of {}", stage.name));
        }
    }
    for flow in &tad.flows {
        let at = |end: End| matches!(end, End::Stage(stage) if stages.contains(&stage));
        let matters = match problem {
            Problem::Blocking | Problem::HeldThreads => {
                flow.kind == FlowKind::Blocking && at(flow.from)
            }
            Problem::NoScheduling => flow.kind == FlowKind::Data && (at(flow.from) || at(flow.to)),
            Problem::UnknownUsage
            | Problem::HiddenContention
            | Problem::OrderingConstraint
            | Problem::SurplusThreads
            | Problem::ServiceToEnd => false,
        };
        if matters {
            let name = |end: End| match end {
                End::Clients => "clients",
                End::Stage(stage) => &tad.stages[stage].name,
            };
            add(flow.confidence, format!("arrow {} to {}", name(flow.from), name(flow.to)));
        }
    }
    (least, names)
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
