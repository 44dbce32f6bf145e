//! Why a simulation cannot begin, or cannot go on.

use super::{CLIENTS, RESOURCES};
use crate::remedy::RemedyError;

/// Why something cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// More clients than the schedulers support.
    #[error("{0} clients: at most {CLIENTS} can be simulated")]
    Clients(usize),
    /// More resources on a kind of node than the schedulers support.
    #[error("node \"{node}\" has {resources} resources: at most {RESOURCES} can be simulated")]
    Resources {
        /// Kind of node.
        node: String,
        /// How many.
        resources: usize,
    },
    /// A control or remedy does not fit.
    #[error(transparent)]
    Remedy(#[from] RemedyError),
    /// The scenario has no client or no time.
    #[error("the scenario has no {0}")]
    Empty(&'static str),
    /// A load names a request or parameters that the system does not have.
    #[error("load \"{0}\" does not fit the system's request types")]
    Load(String),
    /// A closed loop whose requests take no time: simulated time would stand still.
    #[error(
        "requests of load \"{0}\" consume nothing, and their threads do not think: they would be issued and \
         answered for ever at one instant; give the load a `think`, or a step something to consume"
    )]
    Timeless(String),
    /// More requests in flight than can be numbered.
    #[error("more than {0} parts of requests are in flight: the system is flooded")]
    Flooded(u32),
}
