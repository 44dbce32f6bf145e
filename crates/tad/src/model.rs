//! The elements of a thread architecture diagram (dissertation, section 3.1 and Table 3.1).
//!
//! Everything has a name in the file and an index here. The module `file` makes sure that every
//! index is valid, so code that takes a [`Tad`] may index without a check.

mod policy;
mod problem;
mod request;

pub use policy::Policy;
pub use problem::{Problem, Remedy};
pub use request::{Consumption, Law, Lookup, Parameter, Place, Quantity, RequestType, Step};

use crate::units::Dimension;
use std::collections::BTreeMap;

/// Index of a [`NodeKind`].
pub type NodeId = usize;
/// Index of a [`Process`].
pub type ProcessId = usize;
/// Index of a [`Resource`].
pub type ResourceId = usize;
/// Index of a [`Stage`].
pub type StageId = usize;
/// Index of a [`RequestType`].
pub type RequestId = usize;
/// Index of a [`Step`] within its request.
pub type StepId = usize;

/// A system.
#[derive(Clone, Debug, PartialEq)]
pub struct Tad {
    /// Short name.
    pub name: String,
    /// Version of the system that was studied, if any.
    pub version: String,
    /// What it is, in a sentence or two.
    pub about: String,
    /// Sources of the facts.
    pub source: String,
    /// Kinds of machines.
    pub nodes: Vec<NodeKind>,
    /// Address spaces.
    pub processes: Vec<Process>,
    /// What is consumed.
    pub resources: Vec<Resource>,
    /// Groups of threads that do similar work.
    pub stages: Vec<Stage>,
    /// Arrows of the picture.
    pub flows: Vec<Flow>,
    /// Requests, and the paths that they take.
    pub requests: Vec<RequestType>,
    /// Sets of stages of one node that pull from one scheduler.
    pub shared_queues: Vec<SharedQueue>,
    /// Control logic that is added without a change of the architecture.
    pub controls: Vec<Remedy>,
    /// The meaning of `direct`, `indirect`, … of each problem for this system.
    pub remedies: BTreeMap<Problem, Vec<Alternative>>,
}

/// A kind of machine, of which there may be many.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeKind {
    /// Name in the file.
    pub name: String,
    /// Label in the picture.
    pub title: String,
    /// How many there are.
    pub count: u32,
}

/// An address space on a kind of machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Name in the file.
    pub name: String,
    /// Label in the picture.
    pub title: String,
    /// Where it runs.
    pub node: NodeId,
}

/// Kind of a resource, which determines its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Processor.
    Cpu,
    /// Disk.
    Io,
    /// Network.
    Network,
    /// Lock.
    Lock,
    /// Anything else.
    Custom,
    /// Time that passes: no limit, and no client waits for another.
    Delay,
}

impl ResourceKind {
    /// The dimension of its amounts.
    pub fn dimension(self) -> Dimension {
        match self {
            ResourceKind::Cpu => Dimension::Cycles,
            ResourceKind::Io | ResourceKind::Network => Dimension::Bytes,
            ResourceKind::Lock | ResourceKind::Delay => Dimension::Time,
            ResourceKind::Custom => Dimension::Operations,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            ResourceKind::Cpu => "CPU",
            ResourceKind::Io => "I/O",
            ResourceKind::Network => "network",
            ResourceKind::Lock => "lock",
            ResourceKind::Custom => "custom",
            ResourceKind::Delay => "delay",
        }
    }
}

/// The order in which a resource serves its users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// One after the other, each to its end (the dissertation's simplification, section 4.1.2).
    Fifo,
    /// Preemptive: after this many nanoseconds the next one takes its turn.
    RoundRobin {
        /// Length of a turn.
        quantum_ns: u64,
    },
}

/// How a disk's service time depends on earlier accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Device {
    /// Depends only on the amount (fixed rate).
    Plain,
    /// A disk with an arm: every access that does not follow the client's last one begins with a
    /// seek. Its time grows with the square root of the distance.
    Seeking {
        /// Shortest seek plus half a turn.
        seek_ns_min: u64,
        /// Longest seek plus half a turn.
        seek_ns_max: u64,
    },
}

/// With this many servers a resource is nothing that a request ever waits for: only time passes.
pub const UNLIMITED: u32 = 1_000_000;

/// A limited resource of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name in the file, unique on its kind of node.
    pub name: String,
    /// Label in the picture.
    pub title: String,
    /// Kind.
    pub kind: ResourceKind,
    /// Each node of this kind has its own.
    pub node: NodeId,
    /// Units a second of each of its servers (cycles, bytes, operations; nanoseconds for a lock).
    pub rate_per_s: f64,
    /// Servers: cores, spindles, one for a lock.
    pub parallelism: u32,
    /// Order of service.
    pub discipline: Discipline,
    /// Behaviour beyond a fixed rate.
    pub device: Device,
}

impl Resource {
    /// Whether requests ever wait for it. Else nothing about it can be scheduled.
    pub fn limited(&self) -> bool {
        self.parallelism < UNLIMITED
    }
}

/// How many threads a stage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// A pool; requests wait in its queue.
    Bounded(u32),
    /// A thread for each request (or connection): there is no queue.
    OnDemand,
}

/// The queue in front of a bounded stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// It is a separate data structure, not just the queue of a thread pool.
    pub explicit: bool,
    /// The policy can be replaced (the plug).
    pub pluggable: bool,
    /// Requests must be served in order of arrival (the lock).
    pub ordered: bool,
    /// An ordered queue that keeps the order only within each client's requests.
    pub ordered_per_client: bool,
    /// How sure it is that the order must be kept, where it must.
    pub order_confidence: Confidence,
    /// Its policy. Simulations may replace it in a pluggable queue.
    pub policy: Policy,
}

impl Queue {
    /// The queue of a thread pool.
    pub const IMPLICIT: Queue = Queue {
        explicit: false,
        pluggable: false,
        ordered: false,
        ordered_per_client: false,
        order_confidence: Confidence::Certain,
        policy: Policy::Fifo,
    };

    /// A queue whose scheduler knows each client's share of each resource.
    pub const SCHEDULED: Queue =
        Queue { explicit: true, pluggable: true, policy: Policy::Drf, ..Queue::IMPLICIT };

    /// Its policy when a scenario sets this one in every pluggable queue. An ordered queue stays
    /// ordered.
    pub fn policy_with(&self, wanted: Option<Policy>) -> Policy {
        if self.ordered && !self.ordered_per_client {
            Policy::Fifo
        } else if self.pluggable {
            wanted.unwrap_or(self.policy)
        } else {
            self.policy
        }
    }
}

/// A resource that a stage uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub resource: ResourceId,
    /// Square brackets: some requests use it and some do not, and the queue cannot tell.
    pub may: bool,
}

/// How sure a stage or an arrow is. What a person writes is certain; what a program recorded may
/// not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It rests on too little to build on.
    Guess,
    /// It rests on a rule that may err.
    Likely,
    /// It was seen, or written by a person.
    #[default]
    Certain,
}

impl Confidence {
    /// Names in files.
    pub const NAMES: [(Confidence, &'static str); 3] = [
        (Confidence::Certain, "certain"),
        (Confidence::Likely, "likely"),
        (Confidence::Guess, "guess"),
    ];

    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Guess => "guess",
        }
    }
}

/// A group of threads that do similar work.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name in the file.
    pub name: String,
    /// Label in the picture.
    pub title: String,
    /// Where it runs.
    pub process: ProcessId,
    /// How many threads.
    pub threads: Threads,
    /// The picture's text instead of a number of threads ("one per region", "cores").
    pub threads_label: Option<String>,
    /// Its queue; meaningless for an on-demand stage.
    pub queue: Queue,
    /// What it uses.
    pub uses: Vec<Use>,
    /// Number of these stages on each node (for example one for each partition).
    pub instances: u32,
    /// Its threads take the next request while the current one waits for another stage.
    pub asynchronous: bool,
    /// How sure it is.
    pub confidence: Confidence,
    /// It serves several requests at a time as one, if they wait.
    pub batch: Option<Batch>,
}

/// How a stage serves several requests as one (group commit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Most requests of a batch. It takes what waits, and does not wait for more.
    pub most: u32,
    /// Resources that a batch uses once, as much as its first request. Of others it uses the sum.
    pub once: Vec<ResourceId>,
}

/// What an arrow means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// Stage `from` issues requests to stage `to`.
    Data,
    /// Stage `from` blocks until stage `to` resumes it.
    Blocking,
    /// Stage `from` sends information to stage `to`.
    Information,
}

/// End of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The clients.
    Clients,
    /// A stage.
    Stage(StageId),
}

/// An arrow.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// From.
    pub from: End,
    /// To.
    pub to: End,
    /// Meaning.
    pub kind: FlowKind,
    /// Short label (`w1`).
    pub label: String,
    /// It leaves the node: the other end is on another machine of the same kind.
    pub remote: bool,
    /// How sure it is.
    pub confidence: Confidence,
}

/// Stages of a node that pull requests from the same scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedQueue {
    /// Name.
    pub name: String,
    /// Its stages, all on the same kind of node.
    pub stages: Vec<StageId>,
    /// Requests of all its stages together that may be in service. Requests that wait for another
    /// stage do not count, as they could keep that stage from being served.
    pub concurrency: u32,
    /// Its policy.
    pub policy: Policy,
}

/// A remedy of a problem for this system, as the file names it: a letter (`d`, `i`, `di`, `i1`,
/// `i2`) and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Letter.
    pub letter: String,
    /// In words.
    pub about: String,
    /// Changes, in order.
    pub remedies: Vec<Remedy>,
    /// Building cost of all of it, if the file has one (see `fix`).
    pub cost: Option<u32>,
}

impl Tad {
    /// The stage of a name.
    pub fn stage(&self, name: &str) -> Option<StageId> {
        self.stages.iter().position(|stage| stage.name == name)
    }

    /// The resource with a name on a kind of node: each kind has its own `cpu`.
    pub fn resource(&self, node: NodeId, name: &str) -> Option<ResourceId> {
        self.resources.iter().position(|resource| resource.node == node && resource.name == name)
    }

    /// The request type of a name.
    pub fn request(&self, name: &str) -> Option<RequestId> {
        self.requests.iter().position(|request| request.name == name)
    }

    /// The kind of node on which a stage runs.
    pub fn node_of(&self, stage: StageId) -> NodeId {
        self.processes[self.stages[stage].process].node
    }
}
