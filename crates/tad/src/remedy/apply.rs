//! Carrying out a remedy: a changed copy of the system.

use super::Remedy;
use crate::model::Tad;

/// Why a remedy does not fit a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemedyError {
    /// It names a stage that the system does not have.
    #[error("there is no stage \"{0}\"")]
    NoStage(String),
    /// It names a resource that the stage's kind of node does not have.
    #[error("stage \"{stage}\" has no resource \"{resource}\" on its node")]
    NoResource {
        /// Stage.
        stage: String,
        /// Resource.
        resource: String,
    },
    /// The stage is of another kind than the remedy is for.
    #[error("stage \"{stage}\" {why}")]
    Misfit {
        /// Stage.
        stage: String,
        /// Why it does not fit.
        why: &'static str,
    },
}

/// Applies a remedy. Control logic is only noted ([`Tad::controls`]) for the simulator to carry out.
pub fn apply(tad: &mut Tad, remedy: &Remedy) -> Result<(), RemedyError> {
    tad.controls.push(remedy.clone());
    Ok(())
}
