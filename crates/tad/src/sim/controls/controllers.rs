//! Controllers: what looks once in a period.

use super::places;
use crate::model::{ResourceId, StageId};
use crate::sim::CLIENTS;
use crate::sim::calendar::Event;
use crate::sim::engine::{Engine, Todo};
use crate::sim::plan::Plan;
use headworks_policy::Nanos;
use headworks_policy::aimd::Aimd;

/// Mean number of parts that wait at a server of the protected resource above which a rate limit
/// holds its total to be too much.
const QUEUE_MAX: f64 = 2.0;

/// Periods of use that a client may be ahead or behind before that is forgotten.
const MEMORY: i64 = 50;

#[derive(Debug)]
enum Kind {
    /// Rates of clients at `stage`, so that `resource` is used but not queued for (section 4.2.1).
    Rate {
        stage: StageId,
        /// Part of the resource's capacity that may be asked for.
        total: Aimd,
    },
    /// Weights of clients at `stages` of each node (section 4.3.3).
    Weights {
        stages: Vec<StageId>,
        /// Correction of each node and client.
        factor: Vec<[f64; CLIENTS]>,
    },
    /// Threads of `stages` (section 4.2.3).
    Threads {
        /// Its place in [`super::Controls::held`].
        number: usize,
        /// How far each client of each node is ahead of its share, in nanoseconds.
        ahead_ns: Vec<[i64; CLIENTS]>,
    },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Controller {
    kind: Kind,
    resource: ResourceId,
    period_ns: u64,
    /// What was used when it looked last, by node and client, and what had been waited.
    used_ns: Vec<[u64; CLIENTS]>,
    waited_ns: u64,
}

impl Controller {
    fn new(kind: Kind, resource: ResourceId, period_ns: u64, nodes: u32) -> Controller {
        Controller {
            kind,
            resource,
            period_ns: period_ns.max(1),
            used_ns: vec![[0; CLIENTS]; nodes as usize],
            waited_ns: 0,
        }
    }

    pub(super) fn rate(
        stage: StageId,
        resource: ResourceId,
        period_ns: u64,
        plan: &Plan,
    ) -> Controller {
        let total = Aimd { value: 0.5, add: 0.02, factor: 0.9, least: 0.05, most: 1.1 };
        Controller::new(
            Kind::Rate { stage, total },
            resource,
            period_ns,
            plan.resources[resource].nodes,
        )
    }

    pub(super) fn weights(
        stages: Vec<StageId>,
        resource: ResourceId,
        period_ns: u64,
        plan: &Plan,
    ) -> Controller {
        let nodes = plan.resources[resource].nodes;
        let factor = vec![[1.0; CLIENTS]; nodes as usize];
        Controller::new(Kind::Weights { stages, factor }, resource, period_ns, nodes)
    }

    pub(super) fn threads(
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

impl Engine<'_> {
    /// Controllers look for the first time after their first period.
    pub(in crate::sim) fn start_controls(&mut self) {
        for (at, controller) in self.controls.controllers.iter().enumerate() {
            self.calendar.push(controller.period_ns, Event::Control(at as u32));
        }
    }

    /// A controller looks.
    pub(in crate::sim) fn control(&mut self, at: u32) {
        let mut controllers = std::mem::take(&mut self.controls.controllers);
        let controller = &mut controllers[at as usize];
        let used = self.used_since(controller);
        match &mut controller.kind {
            Kind::Rate { stage, total } => {
                let planned = &self.plan.resources[controller.resource];
                let waited: u64 = (planned.base..planned.base + planned.nodes)
                    .map(|instance| {
                        let instance = &mut self.resources[instance as usize];
                        instance.account(self.now_ns);
                        instance.waited_ns
                    })
                    .sum();
                let span = controller.period_ns as f64;
                let capacity = self.capacity(controller.resource);
                let queue = (waited - controller.waited_ns) as f64 / span / capacity;
                controller.waited_ns = waited;
                let sum = used.iter().fold([0; CLIENTS], |mut sum: [u64; CLIENTS], node| {
                    sum.iter_mut().zip(node).for_each(|(sum, node)| *sum += node);
                    sum
                });
                let busy = sum.iter().sum::<u64>() as f64 / span / capacity;
                // It probes for more only while there is more to be had.
                if queue > QUEUE_MAX || busy < 0.98 {
                    total.step(queue > QUEUE_MAX);
                }
                let (stage, budget) = (*stage, total.value * capacity);
                self.set_rates(stage, &sum, budget, controller.period_ns);
            }
            Kind::Weights { stages, factor } => {
                let stages = stages.clone();
                self.set_weights(&stages, factor, &used);
            }
            Kind::Threads { number, ahead_ns } => {
                self.set_threads(*number, ahead_ns, &used, controller.period_ns);
            }
        }
        self.calendar.push(self.now_ns + controller.period_ns, Event::Control(at));
        self.controls.controllers = controllers;
    }

    /// Nanoseconds of each node's resource that each client used since the controller looked last.
    fn used_since(&self, controller: &mut Controller) -> Vec<[u64; CLIENTS]> {
        let base = self.plan.resources[controller.resource].base;
        let looked = controller.used_ns.iter_mut().enumerate().map(|(node, last)| {
            let total = self.resources[base as usize + node].used.integrals(self.now_ns);
            let mut used = [0; CLIENTS];
            for client in 0..CLIENTS {
                used[client] = total[client] - last[client];
            }
            *last = total;
            used
        });
        looked.collect()
    }

    /// Servers of a resource on all nodes.
    fn capacity(&self, resource: ResourceId) -> f64 {
        let planned = &self.plan.resources[resource];
        let servers = self.tad().resources[resource].parallelism.max(1);
        f64::from(planned.nodes) * f64::from(servers)
    }

    fn set_rates(&mut self, stage: StageId, used_ns: &[u64; CLIENTS], budget: f64, period_ns: u64) {
        let clients = self.clients;
        let places = places(self.plan, stage);
        let instances = f64::from(places.end - places.start);
        let mut started = [0u64; CLIENTS];
        let mut waiting = [0u32; CLIENTS];
        for place in places.clone() {
            let queue = self.instances[place as usize].queue;
            if let Some(limit) = self.controls.guard_mut(place).and_then(|g| g.limit.as_mut()) {
                for (sum, started) in started.iter_mut().zip(&mut limit.started) {
                    *sum += std::mem::take(started);
                }
            }
            if let Some(queue) = self.queues.get(queue as usize) {
                for (sum, waiting) in waiting.iter_mut().zip(queue.waiting) {
                    *sum += waiting;
                }
            }
        }
        // Who has nothing waiting gets what it uses and a little more; the rest is divided by
        // weight among the others.
        let mut rate = [0.0; CLIENTS];
        let mut left = budget;
        let mut weight_left = 0.0;
        for client in 0..clients {
            if waiting[client] == 0 {
                rate[client] = used_ns[client] as f64 / period_ns as f64 * 1.2 + 0.02;
                left -= rate[client].min(budget / clients as f64);
            } else {
                weight_left += self.controls.weights[client];
            }
        }
        for client in (0..clients).filter(|client| waiting[*client] > 0) {
            rate[client] = left.max(0.0) * self.controls.weights[client] / weight_left;
        }
        for place in places {
            let now = Nanos(self.now_ns);
            let Some(limit) = self.controls.guard_mut(place).and_then(|g| g.limit.as_mut()) else {
                continue;
            };
            for client in 0..clients {
                if let Some(cost) = used_ns[client].checked_div(started[client]) {
                    let old = limit.cost_ns[client];
                    limit.cost_ns[client] = if old == 0 { cost } else { (old * 3 + cost) / 4 };
                }
                limit.buckets[client].set_rate(rate[client] * 1e9 / instances, now);
            }
            let queue = self.instances[place as usize].queue;
            self.todo.push_back(Todo::Dispatch(queue));
        }
    }

    fn set_weights(
        &mut self,
        stages: &[StageId],
        factor: &mut [[f64; CLIENTS]],
        used_ns: &[[u64; CLIENTS]],
    ) {
        for (node, used_ns) in used_ns.iter().enumerate() {
            let total: u64 = used_ns.iter().sum();
            let active = |client: &usize| used_ns[*client] > 0;
            let weights = self.controls.weights;
            let weight: f64 = (0..self.clients).filter(active).map(|client| weights[client]).sum();
            if total == 0 || (0..self.clients).filter(active).count() < 2 {
                continue;
            }
            for client in (0..self.clients).filter(active) {
                let fair = weights[client] / weight;
                let given = used_ns[client] as f64 / total as f64;
                let correction = (fair / given).sqrt().clamp(0.8, 1.25);
                let slot = &mut factor[node][client];
                *slot = (*slot * correction).clamp(0.02, 50.0);
            }
            for &stage in stages {
                let planned = &self.plan.stages[stage];
                let first = planned.base + node as u32 * planned.instances;
                for place in first..first + planned.instances {
                    let queue = self.instances[place as usize].queue;
                    let Some(queue) = self.queues.get_mut(queue as usize) else { continue };
                    for client in 0..self.clients {
                        queue.set_weight(client, weights[client] * factor[node][client]);
                    }
                }
            }
        }
    }

    /// Says which clients are ahead on which node: no thread works for them while others have
    /// something there.
    fn set_threads(
        &mut self,
        number: usize,
        ahead_ns: &mut [[i64; CLIENTS]],
        used_ns: &[[u64; CLIENTS]],
        period_ns: u64,
    ) {
        let bound = MEMORY * period_ns as i64;
        for (node, used_ns) in used_ns.iter().enumerate() {
            let present = self.present(number, node as u32);
            let active = |client: &usize| used_ns[*client] > 0 || present & (1 << client) != 0;
            let weights = self.controls.weights;
            let weight: f64 = (0..self.clients).filter(active).map(|client| weights[client]).sum();
            let total: u64 = used_ns.iter().sum();
            let mut held = 0;
            for client in 0..self.clients {
                let ahead = &mut ahead_ns[node][client];
                if !active(&client) {
                    *ahead = 0;
                    continue;
                }
                let fair = (total as f64 * weights[client] / weight) as i64;
                *ahead = (*ahead + used_ns[client] as i64 - fair).clamp(-bound, bound);
                if *ahead > 0 {
                    held |= 1 << client;
                }
            }
            self.controls.held[number].by_node[node] = held;
        }
        for stage in self.controls.held[number].stages.clone() {
            for place in places(self.plan, stage) {
                let queue = self.instances[place as usize].queue;
                self.todo.push_back(Todo::Dispatch(queue));
            }
        }
    }
}
