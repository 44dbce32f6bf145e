//! What a picture says of control logic and of what is not certain.

use super::text::NO_BREAK;
use crate::model::{Confidence, Remedy};

/// A control's note.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Note {
    pub text: String,
    /// Names of the stages that it observes.
    pub observes: Vec<String>,
    /// Names of the stages that it changes.
    pub sets: Vec<String>,
}

/// What a picture shows of a recorded stage or arrow that is not certain.
pub(super) fn doubt(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Certain => "",
        Confidence::Likely => "?",
        Confidence::Guess => "??",
    }
}

/// The text of a control's note, and the stages that it is connected to.
pub(super) fn note(control: &Remedy) -> Note {
    let ms = |ns: &u64| format!("{}{NO_BREAK}ms", *ns as f64 / 1e6);
    let one = |stage: &String| vec![stage.clone()];
    let (text, observes, sets) = match control {
        Remedy::RateLimit { stage, resource, period_ns } => (
            format!("Limits each client's rate by the use of {resource}, every {}", ms(period_ns)),
            vec![],
            one(stage),
        ),
        Remedy::CoordinateWeights { stages, resource, period_ns } => (
            format!(
                "Corrects weights by each client's share of {resource}, every {}",
                ms(period_ns)
            ),
            vec![],
            stages.clone(),
        ),
        Remedy::BackOff { stages, resource, period_ns } => (
            format!(
                "Fewer threads for the one that uses too much {resource}, every {}",
                ms(period_ns)
            ),
            vec![],
            stages.clone(),
        ),
        Remedy::Speculate { stage, idle, threads } => (
            format!("Starts requests on speculation while {idle} is idle (+{threads} threads)"),
            vec![],
            one(stage),
        ),
        Remedy::CongestionFeedback { stage, downstream, backlog, .. } => (
            format!("Passes over clients with {backlog} or more requests waiting at {downstream}"),
            one(downstream),
            one(stage),
        ),
        Remedy::BoundDownstream { stage, downstream, limit } => (
            format!("Holds back while {limit} requests are at {downstream}"),
            one(downstream),
            one(stage),
        ),
        Remedy::ScheduleThreads { stage } => {
            ("Shares the threads by weight".to_owned(), vec![], one(stage))
        }
        Remedy::ServeInTurns { stage, turn_ns } => {
            (format!("Serves in turns of {}", ms(turn_ns)), vec![], one(stage))
        }
        Remedy::AddSchedulingPoint { stage, threads } => {
            (format!("A pool of {threads} threads with a queue"), vec![], one(stage))
        }
        Remedy::MakePluggable { stage } => ("Takes other policies".to_owned(), vec![], one(stage)),
        Remedy::Split { stage, resource, into, .. } => {
            (format!("What it uses of {resource} moves to {into}"), vec![], one(stage))
        }
        Remedy::ShareScheduler { name, stages, .. } => {
            (format!("Pull from one scheduler: {name}"), vec![], stages.clone())
        }
        Remedy::Unblock { stage } => ("Threads do not wait".to_owned(), vec![], one(stage)),
        Remedy::SeparateStreams { stage } => {
            ("Keeps the order only within a client".to_owned(), vec![], one(stage))
        }
        Remedy::SetThreads { stage, threads } => (format!("{threads} threads"), vec![], one(stage)),
        Remedy::SetBatch { stage, most } => {
            (format!("Batches of at most {most}"), vec![], one(stage))
        }
        Remedy::SetPolicy { stage, policy } => {
            (format!("Policy {}", policy.name()), vec![], one(stage))
        }
    };
    Note { text, observes, sets }
}
