//! Why there is no picture.

use crate::model::{RequestId, StageId};

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Graphviz is not installed, or not in the search path.
    #[error(
        "the picture needs the program `dot` of Graphviz for its layout, and it could not be \
         started ({0}); install it with:  apt-get install graphviz"
    )]
    NoDot(String),
    /// It did not finish.
    #[error(
        "`dot` was still at the layout after {seconds} s and was stopped; check with  dot -V  \
         that this machine's Graphviz works, or draw a system with fewer stages and flows"
    )]
    Slow {
        /// How long it was given.
        seconds: u64,
    },
    /// It finished with an error.
    #[error(
        "`dot` failed with {status}: {message}; if  dot -V  fails as well, install it again with:  \
         apt-get install --reinstall graphviz"
    )]
    Failed {
        /// Exit status.
        status: String,
        /// Its message, shortened.
        message: String,
    },
    /// Its output is not as expected.
    #[error(
        "the layout that `dot` gave cannot be read ({0}); Graphviz 2.43 or later is needed, \
         dot -V  says which one this is"
    )]
    Unreadable(String),
    /// There is no such request type to highlight.
    #[error("request type number {index} is to be highlighted, but the system has {known}")]
    NoRequest {
        /// Index that was asked for.
        index: RequestId,
        /// Number of request types.
        known: usize,
    },
    /// A mark's stage does not exist.
    #[error("a mark is for stage number {index}, but the system has {known}")]
    NoStage {
        /// Index that was asked for.
        index: StageId,
        /// Number of stages.
        known: usize,
    },
}
