//! What a check finds.

use super::advice::Advice;
use crate::model::{Confidence, End, FlowKind, Problem, Remedy, StageId, Tad};

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
    /// Control logic of the system that mitigates the problem. Often empty.
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

/// A finding with the data that its problem implies.
pub(super) fn finding(
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
pub(super) fn controls(tad: &Tad, answers: impl Fn(&Remedy) -> bool) -> Vec<String> {
    tad.controls.iter().filter(|control| answers(control)).map(Remedy::to_toml).collect()
}
