//! The guards of a queue.

use crate::model::StageId;
use crate::sim::CLIENTS;
use crate::sim::queue::MISTAKEN;
use headworks_policy::bucket::Bucket;

#[derive(Clone, Debug)]
pub(in crate::sim) struct Speculation {
    /// Resource instance that must be idle.
    pub(in crate::sim) resource: u32,
    pub(in crate::sim) threads: u32,
    pub(in crate::sim) busy: u32,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct Congestion {
    pub(in crate::sim) downstream: StageId,
    /// Parts of a client at the downstream stage, all nodes together.
    pub(in crate::sim) backlog: u32,
    pub(in crate::sim) wrong_per_mille: u64,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct Bound {
    pub(in crate::sim) downstream: StageId,
    pub(in crate::sim) limit: u32,
}

/// For a rate limit: each client's bucket, in nanoseconds of the protected resource.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Limit {
    pub(in crate::sim) buckets: [Bucket; CLIENTS],
    /// Cost of a request at the protected resource; zero while unknown.
    pub(in crate::sim) cost_ns: [u64; CLIENTS],
    /// Parts that were started since the controller's last run.
    pub(in crate::sim) started: [u64; CLIENTS],
}

/// For a set of stages that back off: the clients that are ahead, as bits, by node.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Held {
    pub(in crate::sim) stages: Vec<StageId>,
    pub(in crate::sim) by_node: Vec<u16>,
}

/// For which clients a stage instance may work, as bits.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Permit {
    pub(in crate::sim) clients: u16,
    /// The same for mispredicted parts.
    pub(in crate::sim) mistaken: u16,
}

impl Permit {
    pub(in crate::sim) const ALL: Permit = Permit { clients: u16::MAX, mistaken: u16::MAX };
    pub(in crate::sim) const NONE: Permit = Permit { clients: 0, mistaken: 0 };

    /// Whether it may work on parts in a list of a client.
    pub(in crate::sim) fn allows(self, client: usize, list: usize) -> bool {
        let bits = if list == MISTAKEN { self.mistaken } else { self.clients };
        bits & (1 << client) != 0
    }
}

/// The guards of a stage instance.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Guard {
    pub(in crate::sim) limit: Option<Limit>,
    pub(in crate::sim) congestion: Option<Congestion>,
    pub(in crate::sim) bound: Option<Bound>,
    /// For a stage whose threads are shared: the mean time for which a part of each client has one.
    pub(in crate::sim) thread_ns: Option<[u64; CLIENTS]>,
    /// Number of the set of stages with which it backs off.
    pub(in crate::sim) back_off: Option<usize>,
    pub(in crate::sim) speculation: Option<Speculation>,
}

impl Guard {
    pub(in crate::sim) fn holds(&self) -> bool {
        self.limit.is_some()
            || self.congestion.is_some()
            || self.bound.is_some()
            || self.back_off.is_some()
    }
}
