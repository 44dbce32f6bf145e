//! What a controller watches and remembers.

use crate::model::{ResourceId, StageId, Tad};
use crate::sim::CLIENTS;
use crate::sim::plan::Plan;
use headworks_policy::aimd::Aimd;

/// What a controller sets.
#[derive(Debug)]
pub(in crate::sim) enum Kind {
    /// Rates of clients at `stage`, so that `resource` is used without a queue (section 4.2.1).
    Rate {
        stage: StageId,
        /// Part of the resource's capacity that may be requested.
        total: Aimd,
        /// Parts at each server of the resource at the last run.
        queue_before: f64,
    },
    /// Weights of clients at `stages` of each node (section 4.3.3). They aim at equal parts of each
    /// client's most used contended resource. One controller does this for all resources of a node,
    /// because several would undo each other's changes.
    Weights {
        stages: Vec<StageId>,
        /// Correction of each node and client.
        factor: Vec<[f64; CLIENTS]>,
    },
    /// Threads of `stages` (section 4.2.3).
    Threads {
        /// Its index in the controls' `held`.
        number: usize,
        /// How far each client of each node is ahead of its share, in nanoseconds.
        ahead_ns: Vec<[i64; CLIENTS]>,
    },
}

/// See the module.
#[derive(Debug)]
pub(in crate::sim) struct Controller {
    pub(in crate::sim) kind: Kind,
    /// The resources that it watches; more than one only for weights.
    pub(in crate::sim) watched: Vec<Watched>,
    pub(in crate::sim) period_ns: u64,
    /// Total waiting time at the last run.
    pub(in crate::sim) waited_ns: u64,
}

/// A resource, and its use up to the last run, by node and client.
#[derive(Debug)]
pub(in crate::sim) struct Watched {
    pub(in crate::sim) resource: ResourceId,
    pub(in crate::sim) used_ns: Vec<[u64; CLIENTS]>,
}

impl Watched {
    fn new(resource: ResourceId, nodes: u32) -> Watched {
        Watched { resource, used_ns: vec![[0; CLIENTS]; nodes as usize] }
    }
}

impl Controller {
    fn new(kind: Kind, resource: ResourceId, period_ns: u64, nodes: u32) -> Controller {
        Controller {
            kind,
            watched: vec![Watched::new(resource, nodes)],
            period_ns: period_ns.max(1),
            waited_ns: 0,
        }
    }

    /// Makes a controller of weights watch another resource of the same nodes, if it has the same
    /// period.
    pub(in crate::sim) fn join(
        &mut self,
        more: &[StageId],
        resource: ResourceId,
        period_ns: u64,
        (tad, plan): (&Tad, &Plan),
    ) -> bool {
        let node = tad.resources[resource].node;
        let Kind::Weights { stages, .. } = &mut self.kind else { return false };
        if self.period_ns != period_ns.max(1)
            || tad.resources[self.watched[0].resource].node != node
        {
            return false;
        }
        stages.extend(more);
        stages.sort_unstable();
        stages.dedup();
        self.watched.push(Watched::new(resource, plan.resources[resource].nodes));
        true
    }

    pub(in crate::sim) fn rate(
        stage: StageId,
        resource: ResourceId,
        period_ns: u64,
        plan: &Plan,
    ) -> Controller {
        let total = Aimd { value: 0.5, add: 0.02, factor: 0.9, least: 0.05, most: 1.1 };
        Controller::new(
            Kind::Rate { stage, total, queue_before: 0.0 },
            resource,
            period_ns,
            plan.resources[resource].nodes,
        )
    }

    pub(in crate::sim) fn weights(
        stages: Vec<StageId>,
        resource: ResourceId,
        period_ns: u64,
        plan: &Plan,
    ) -> Controller {
        let nodes = plan.resources[resource].nodes;
        let factor = vec![[1.0; CLIENTS]; nodes as usize];
        Controller::new(Kind::Weights { stages, factor }, resource, period_ns, nodes)
    }

    pub(in crate::sim) fn threads(
        number: usize,
        resource: ResourceId,
        period_ns: u64,
        plan: &Plan,
    ) -> Controller {
        let nodes = plan.resources[resource].nodes;
        let ahead_ns = vec![[0; CLIENTS]; nodes as usize];
        Controller::new(Kind::Threads { number, ahead_ns }, resource, period_ns, nodes)
    }
}
