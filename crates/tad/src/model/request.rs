//! Requests: their steps, and how much work each takes.

use super::{ResourceId, StageId, StepId};
use crate::units::Dimension;

/// An amount of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// In the base unit of the resource's dimension.
    Fixed(u64),
    /// That of a parameter: index into [`RequestType::parameters`].
    Parameter(usize),
    /// Drawn for each request by a law with this mean, which is fixed or a parameter's.
    Drawn(Law, Box<Quantity>),
    /// Drawn from these amounts, each as often as its weight says (a recording's histogram).
    Histogram(Vec<(u64, u32)>),
}

/// A distribution, up to its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Exponential.
    Exponential,
    /// Heavy tail: Pareto with this shape, in thousandths; above 1000, so that it has a mean.
    Pareto(u32),
}

impl Quantity {
    /// The parameter that says how much, if any.
    pub fn parameter(&self) -> Option<usize> {
        match self {
            Quantity::Parameter(index) => Some(*index),
            Quantity::Drawn(_, mean) => mean.parameter(),
            Quantity::Fixed(_) | Quantity::Histogram(_) => None,
        }
    }

    /// The same, to renumber it.
    pub fn parameter_mut(&mut self) -> Option<&mut usize> {
        match self {
            Quantity::Parameter(index) => Some(index),
            Quantity::Drawn(_, mean) => mean.parameter_mut(),
            Quantity::Fixed(_) | Quantity::Histogram(_) => None,
        }
    }

    /// The mean amount, where parameters have these values.
    pub fn mean(&self, parameters: &[u64]) -> u64 {
        match self {
            Quantity::Fixed(amount) => *amount,
            Quantity::Parameter(index) => parameters[*index],
            Quantity::Drawn(_, mean) => mean.mean(parameters),
            Quantity::Histogram(amounts) => {
                let weights: u64 = amounts.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let each = amounts.iter().map(|(amount, n)| u128::from(*amount) * u128::from(*n));
                (each.sum::<u128>() / u128::from(weights.max(1))) as u64
            }
        }
    }

    /// Whether it differs from request to request by chance.
    pub fn random(&self) -> bool {
        matches!(self, Quantity::Drawn(..) | Quantity::Histogram(_))
    }
}

/// Consumption of a resource at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumption {
    /// What is consumed.
    pub resource: ResourceId,
    /// How much.
    pub amount: Quantity,
}

/// The node and the stage instance where a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the node of the step that submitted it.
    Same,
    /// On a node drawn evenly.
    Any,
    /// On a random node other than that of the submitting step.
    Other,
    /// On the node of the request's partition, which is drawn once for each request.
    Partition,
    /// On the node where the request's first step was done.
    Origin,
    /// On this node of its kind.
    Fixed(u32),
}

/// A look-up in a cache of the step's node, directly before the first consumption that a hit saves.
///
/// Beyond the dissertation, whose resources are stateless (section 4.1.2). There, whether a request
/// hits is a property of the request; here it follows from the earlier requests of all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Name of the cache. Steps on one kind of node with the same name share it.
    pub name: String,
    /// Capacity of each node's cache; the least recently used entry is evicted.
    pub entries: u32,
    /// Keys of each client, not shared; its load's `keys` sets how often each is requested.
    pub keys: u32,
    /// The consumptions that a hit saves, which are consecutive in `uses`.
    pub skips: Vec<ResourceId>,
}

/// A part of a request: the work of one stage for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name in the file, unique within the request.
    pub name: String,
    /// Who does it.
    pub stage: StageId,
    /// Where.
    pub place: Place,
    /// Consumed first, in this order.
    pub uses: Vec<Consumption>,
    /// A cache that may save some of these.
    pub cache: Option<Lookup>,
    /// Submitted next, all at once.
    pub submits: Vec<StepId>,
    /// Then it waits until these steps of the request are done, whichever step submitted them.
    pub waits: Vec<StepId>,
    /// So many of these suffice (a quorum); all if there is no number.
    pub enough: Option<u32>,
    /// Consumed after the wait.
    pub uses_after: Vec<Consumption>,
    /// Submitted at the end. The step is done then.
    pub then: Vec<StepId>,
}

/// A value that a client may set in its requests of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Its dimension: that of the resources it is used for.
    pub dimension: Dimension,
    /// Default value.
    pub default: u64,
}

/// A kind of request and the path that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestType {
    /// Name in the file.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Values that clients may set.
    pub parameters: Vec<Parameter>,
    /// Parts. Each is submitted exactly once for each request.
    pub steps: Vec<Step>,
    /// The part that the client submits.
    pub first: StepId,
    /// The client has its answer when these are done; other steps may follow later.
    pub answered_by: Vec<StepId>,
}
