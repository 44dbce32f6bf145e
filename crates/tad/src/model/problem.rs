//! The problems, and their remedies (dissertation, sections 4.2 and 4.3). The first five are the
//! dissertation's; the last three were found by a search (`complete`).
//!
//! A *direct* remedy changes the architecture so that the problem is gone; an *indirect* one adds
//! control logic that works around it.

use super::policy::Policy;

/// A problem that prevents scheduling (Table 4.3, and three more).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// Resources are used in a stage that has no queue to schedule.
    NoScheduling,
    /// The queue cannot tell which resources a request will use.
    UnknownUsage,
    /// Stages with separate schedulers compete for the same resource.
    HiddenContention,
    /// Threads wait for another stage, and are missing for requests that need not wait.
    Blocking,
    /// Requests must be served in order of arrival.
    OrderingConstraint,
    /// More threads than a resource has servers: requests wait in the resource's own order.
    SurplusThreads,
    /// A thread serves a request to its end, however long that takes.
    ServiceToEnd,
    /// Threads are held while their requests wait, and the queue does not account for that.
    HeldThreads,
}

impl Problem {
    /// All: those of Table 4.5 in its order, then the others. Also the order of `--maat`.
    pub const ALL: [Problem; 8] = [
        Problem::NoScheduling,
        Problem::UnknownUsage,
        Problem::HiddenContention,
        Problem::Blocking,
        Problem::OrderingConstraint,
        Problem::SurplusThreads,
        Problem::ServiceToEnd,
        Problem::HeldThreads,
    ];

    /// How many of these are the dissertation's. They come first.
    pub const OF_THE_PAPER: usize = 5;

    /// Name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Problem::NoScheduling => "no-scheduling",
            Problem::UnknownUsage => "unknown-usage",
            Problem::HiddenContention => "hidden-contention",
            Problem::Blocking => "blocking",
            Problem::OrderingConstraint => "ordering-constraint",
            Problem::SurplusThreads => "surplus-threads",
            Problem::ServiceToEnd => "service-to-end",
            Problem::HeldThreads => "held-threads",
        }
    }

    /// The letter of the picture and of Table 4.5.
    pub fn letter(self) -> char {
        match self {
            Problem::NoScheduling => 'N',
            Problem::UnknownUsage => 'U',
            Problem::HiddenContention => 'C',
            Problem::Blocking => 'B',
            Problem::OrderingConstraint => 'O',
            Problem::SurplusThreads => 'S',
            Problem::ServiceToEnd => 'E',
            Problem::HeldThreads => 'H',
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Problem::NoScheduling => "no scheduling",
            Problem::UnknownUsage => "unknown resource usage",
            Problem::HiddenContention => "hidden contention",
            Problem::Blocking => "blocking",
            Problem::OrderingConstraint => "ordering constraint",
            Problem::SurplusThreads => "more threads than servers",
            Problem::ServiceToEnd => "service to the end",
            Problem::HeldThreads => "threads held over a wait",
        }
    }

    /// The problem of a name.
    pub fn from_name(name: &str) -> Option<Problem> {
        Self::ALL.into_iter().find(|problem| problem.name() == name)
    }
}

/// A change of a system. Stages and resources are given by name, because a change may add some.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Direct, no scheduling: the on-demand stage gets a pool and a queue.
    AddSchedulingPoint {
        /// Stage.
        stage: String,
        /// Threads of the pool.
        threads: u32,
    },
    /// Direct: the queue of a stage becomes pluggable.
    MakePluggable {
        /// Stage.
        stage: String,
    },
    /// Indirect, no scheduling: the queue of `stage` limits each client's rate. The limit follows
    /// the use of `resource` further down (AIMD on the total, divided by weight and demand).
    RateLimit {
        /// Stage whose queue holds requests back.
        stage: String,
        /// Resource that is protected.
        resource: String,
        /// How often the rates are set.
        period_ns: u64,
    },
    /// Direct, unknown usage: the part of `stage` that consumes `resource` moves to its own stage
    /// with its own queue.
    Split {
        /// Stage.
        stage: String,
        /// Resource that moves.
        resource: String,
        /// Name of the stage that takes it over. A missing stage is made.
        into: String,
        /// Its threads, if it is made.
        threads: u32,
    },
    /// Indirect, unknown usage: while `idle` is idle, queued requests are started on speculation,
    /// and put back if they turn out to need more.
    Speculate {
        /// Stage.
        stage: String,
        /// Resource whose idleness allows it, usually the CPU.
        idle: String,
        /// Threads for it, beyond those of the stage.
        threads: u32,
    },
    /// Direct, hidden contention: the stages pull from one scheduler.
    ShareScheduler {
        /// Name of the shared queue.
        name: String,
        /// Stages.
        stages: Vec<String>,
        /// Requests of all of them together that may be in service.
        concurrency: u32,
    },
    /// Indirect, hidden contention: in each period, a client that got more than its share of
    /// `resource` on a node loses weight at all these stages. It gains weight when it got less.
    CoordinateWeights {
        /// Stages.
        stages: Vec<String>,
        /// Resource.
        resource: String,
        /// How often weights are set.
        period_ns: u64,
    },
    /// Indirect, hidden contention: threads of these stages do not work for a client that is ahead
    /// of its share of `resource` on the node, while others have requests at any of them. A stage
    /// that used too much waits until the others have caught up.
    BackOff {
        /// Stages.
        stages: Vec<String>,
        /// Resource.
        resource: String,
        /// How often the clients that are ahead are determined.
        period_ns: u64,
    },
    /// Direct, blocking: threads of the stage do not wait.
    Unblock {
        /// Stage.
        stage: String,
    },
    /// Indirect, blocking: the queue of `stage` skips clients whose requests would wait long at
    /// `downstream`.
    CongestionFeedback {
        /// Stage that blocks.
        stage: String,
        /// Stage on which it blocks.
        downstream: String,
        /// Requests of a client that may wait downstream before it counts as congested.
        backlog: u32,
        /// How often the feedback is wrong, in thousandths (Fig. 4.11).
        wrong_per_mille: u32,
    },
    /// Indirect, blocking: the stage's threads are a resource, shared by weight like any other. So
    /// no client holds more than its part while others want some.
    ScheduleThreads {
        /// Stage.
        stage: String,
    },
    /// Direct, ordering: order is kept only within the requests of a client.
    SeparateStreams {
        /// Stage.
        stage: String,
    },
    /// Indirect, ordering: `stage` submits nothing while this many of its requests are at
    /// `downstream`.
    BoundDownstream {
        /// Stage that holds back.
        stage: String,
        /// Stage whose queue is kept short.
        downstream: String,
        /// Requests.
        limit: u32,
    },
    /// Direct, service to the end: a thread of the stage works for a request for at most this long.
    /// Then it puts the rest back into the queue and takes the next.
    ServeInTurns {
        /// Stage.
        stage: String,
        /// Longest time.
        turn_ns: u64,
    },
    /// Another number of threads.
    SetThreads {
        /// Stage.
        stage: String,
        /// Threads.
        threads: u32,
    },
    /// Another bound on the requests that are served as one.
    SetBatch {
        /// Stage.
        stage: String,
        /// Most requests of a batch; one for none.
        most: u32,
    },
    /// Another policy in a pluggable queue.
    SetPolicy {
        /// Stage.
        stage: String,
        /// Policy.
        policy: Policy,
    },
}
