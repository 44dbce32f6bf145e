//! Scenarios: clients, their requests, changes, and the duration.
//!
//! A scenario is data, like a diagram (one TOML file). The module `file` reads it for its system.

use crate::model::{Policy, RequestId, ResourceId};

/// How a client issues its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Closed loop: each of its threads issues a request, waits for the answer, thinks, and
    /// issues the next.
    Closed {
        /// Threads.
        threads: u32,
        /// Time between an answer and the next request.
        think_ns: u64,
    },
    /// Threads of the client's first closed loop issue this request instead, for this part of
    /// their requests, drawn at random.
    Part {
        /// From 0 to 1.
        part: f64,
    },
    /// Open loop: requests come at this rate, at random (exponential gaps), whatever happens.
    Open {
        /// Requests a second.
        rate_per_s: f64,
    },
    /// This many requests at once, at regular intervals.
    Burst {
        /// Requests of a burst.
        count: u32,
        /// Time from one burst to the next.
        every_ns: u64,
    },
}

impl Arrivals {
    /// Requests a second that come whatever the system does; zero for a closed loop.
    pub fn per_s(&self) -> f64 {
        match *self {
            Arrivals::Closed { .. } | Arrivals::Part { .. } => 0.0,
            Arrivals::Open { rate_per_s } => rate_per_s,
            Arrivals::Burst { count, every_ns } => f64::from(count) * 1e9 / every_ns.max(1) as f64,
        }
    }
}

/// On which node a client's requests start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Drawn evenly for each request.
    Any,
    /// Always this one.
    Fixed(u32),
    /// The node of the request's partition.
    Partition,
    /// Each thread of a closed loop stays on one node, and threads are spread evenly over the
    /// nodes, as connections are; other arrivals go round-robin. Threads that draw a node for each
    /// request would instead pile up on the node that is slowest at the moment, and leave the
    /// others idle.
    Each,
}

/// How often each partition is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// All alike.
    Uniform,
    /// By Zipf's law with this exponent; partition 0 is the most popular.
    Zipf(f64),
    /// Always this one.
    Fixed(u32),
}

/// How long a client waits for an answer, and what it does then. The request that it gave up goes
/// on in the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest wait.
    pub timeout_ns: u64,
    /// How often it asks again before the request has failed.
    pub retries: u32,
}

/// One part of a client's load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Kind of request.
    pub request: RequestId,
    /// Its own arrivals: the threads of one load do not issue another load's requests.
    pub arrivals: Arrivals,
    /// Values of the request's parameters, in its order.
    pub parameters: Vec<u64>,
    /// Where they start.
    pub entry: Entry,
    /// The partitions that they request.
    pub keys: Keys,
    /// Name in results.
    pub name: String,
    /// Without, clients wait as long as it takes.
    pub patience: Option<Patience>,
}

/// A client, served according to its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Name in results.
    pub name: String,
    /// Share, relative to others; with the priority policy, its rank.
    pub weight: f64,
    /// What it issues.
    pub loads: Vec<Load>,
}

/// A change during the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A client's loads are replaced by others; requests in flight go on.
    Loads {
        /// Client, by index.
        client: usize,
        /// Its loads from then on.
        loads: Vec<Load>,
    },
    /// A resource gets another rate, on all its nodes.
    Rate {
        /// Which.
        resource: ResourceId,
        /// Units a second.
        rate_per_s: f64,
    },
}

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in results.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Clients.
    pub clients: Vec<Client>,
    /// Changes and when, in order of time.
    pub changes: Vec<(u64, Change)>,
    /// Simulated time.
    pub duration_ns: u64,
    /// Time at the start that is not counted.
    pub warmup_ns: u64,
    /// Length of a bucket of the time series.
    pub sample_ns: u64,
    /// Policy put into every pluggable queue; `None` leaves each as the diagram has it.
    pub policy: Option<Policy>,
    /// Each amount of work is drawn uniformly from this fraction below to this fraction above the
    /// path's amount; zero for exact amounts.
    pub jitter: f64,
    /// CPU time of each thread switch, in nanoseconds; zero for none.
    pub switch_ns: u64,
}
