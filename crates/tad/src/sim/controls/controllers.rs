//! Controllers, which run once in a period.

use super::controller::{Kind, Watched};
use crate::model::{ResourceId, StageId};
use crate::sim::CLIENTS;
use crate::sim::calendar::Event;
use crate::sim::state::{Engine, Todo};
use headworks_policy::Nanos;

/// Mean number of parts waiting at each server of the protected resource above which a rate limit
/// reduces its total.
const QUEUE_MAX: f64 = 2.0;

/// Periods of use that a client may be ahead or behind; more is forgotten.
const MEMORY: i64 = 50;

/// Utilization of a resource above which its users contend.
const CONTENDED: f64 = 0.9;

/// Divides a budget by weight. No client gets more than it wants while others want more.
fn divide(budget: f64, wanted: &[f64], weights: &[f64; CLIENTS]) -> [f64; CLIENTS] {
    let mut given = [0.0; CLIENTS];
    let mut open: Vec<usize> = (0..wanted.len()).collect();
    let mut left = budget;
    loop {
        let weight: f64 = open.iter().map(|client| weights[*client]).sum();
        let share = |client: usize| left.max(0.0) * weights[client] / weight;
        let content = open.iter().position(|client| wanted[*client] < share(*client));
        let Some(content) = content else {
            for client in open {
                given[client] = share(client);
            }
            return given;
        };
        let client = open.swap_remove(content);
        given[client] = wanted[client];
        left -= wanted[client];
    }
}

impl Engine<'_> {
    /// Controllers run for the first time after their first period.
    pub(in crate::sim) fn start_controls(&mut self) {
        for (at, controller) in self.controls.controllers.iter().enumerate() {
            self.calendar.push(controller.period_ns, Event::Control(at as u32));
        }
    }

    /// A controller looks.
    pub(in crate::sim) fn control(&mut self, at: u32) {
        let mut controllers = std::mem::take(&mut self.controls.controllers);
        let controller = &mut controllers[at as usize];
        let resource = controller.watched[0].resource;
        let used: Vec<Vec<[u64; CLIENTS]>> =
            controller.watched.iter_mut().map(|each| self.used_since(each)).collect();
        match &mut controller.kind {
            Kind::Rate { stage, total, queue_before } => {
                let planned = &self.plan.resources[resource];
                let waited: u64 = (planned.base..planned.base + planned.nodes)
                    .map(|instance| {
                        let instance = &mut self.resources[instance as usize];
                        instance.account(self.now_ns);
                        instance.waited_ns
                    })
                    .sum();
                let span = controller.period_ns as f64;
                let capacity = self.capacity(resource);
                let queue = (waited - controller.waited_ns) as f64 / span / capacity;
                controller.waited_ns = waited;
                let sum = used[0].iter().fold([0; CLIENTS], |mut sum: [u64; CLIENTS], node| {
                    sum.iter_mut().zip(node).for_each(|(sum, node)| *sum += node);
                    sum
                });
                let busy = sum.iter().sum::<u64>() as f64 / span / capacity;
                // It raises the total only while the resource has capacity left. It does not lower
                // it while the queue gets shorter, as the queue is older than the last decision.
                let too_much = queue > QUEUE_MAX && queue > *queue_before * 0.95;
                if too_much || (queue <= QUEUE_MAX && busy < 0.98) {
                    total.step(too_much);
                }
                *queue_before = queue;
                let (stage, budget) = (*stage, total.value * capacity);
                self.set_rates(stage, &sum, budget, controller.period_ns);
            }
            Kind::Weights { stages, factor } => {
                let watched = controller.watched.iter().map(|each| {
                    f64::from(self.tad.resources[each.resource].parallelism.max(1))
                        * controller.period_ns as f64
                });
                let available_ns: Vec<f64> = watched.collect();
                let stages = stages.clone();
                self.set_weights(&stages, factor, &used, &available_ns);
            }
            Kind::Threads { number, ahead_ns } => {
                self.set_threads(*number, ahead_ns, &used[0], controller.period_ns);
            }
        }
        self.calendar.push(self.now_ns + controller.period_ns, Event::Control(at));
        self.controls.controllers = controllers;
    }

    /// Nanoseconds of each node's resource that each client used since the last run.
    fn used_since(&self, watched: &mut Watched) -> Vec<[u64; CLIENTS]> {
        let base = self.plan.resources[watched.resource].base;
        let looked = watched.used_ns.iter_mut().enumerate().map(|(node, last)| {
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
        let servers = self.tad.resources[resource].parallelism.max(1);
        f64::from(planned.nodes) * f64::from(servers)
    }

    fn set_rates(&mut self, stage: StageId, used_ns: &[u64; CLIENTS], budget: f64, period_ns: u64) {
        let clients = self.clients;
        let places = self.plan.places(stage);
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
        // A client with nothing waiting wants its current use and a little more, and gets that
        // unless it is above its share. Requests queued at the resource itself do not wait here.
        let used = |client: usize| used_ns[client] as f64 / period_ns as f64;
        let wanted: [f64; CLIENTS] = std::array::from_fn(|client| match waiting[client] {
            0 => used(client) * 1.2 + 0.02,
            _ => f64::INFINITY,
        });
        let rate = divide(budget, &wanted[..clients], &self.controls.weights);
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

    /// Corrects the weights of each node. `used` and `available_ns` are by resource.
    fn set_weights(
        &mut self,
        stages: &[StageId],
        factor: &mut [[f64; CLIENTS]],
        used: &[Vec<[u64; CLIENTS]>],
        available_ns: &[f64],
    ) {
        let weights = self.controls.weights;
        for (node, factor) in factor.iter_mut().enumerate() {
            let mut dominant = [0.0_f64; CLIENTS];
            for (used, available_ns) in used.iter().zip(available_ns) {
                let used_ns = &used[node];
                let part = |ns: u64| ns as f64 / available_ns;
                let sharing = used_ns.iter().filter(|ns| **ns > 0).count();
                if sharing < 2 || part(used_ns.iter().sum()) < CONTENDED {
                    continue;
                }
                for (most, ns) in dominant.iter_mut().zip(used_ns) {
                    *most = most.max(part(*ns));
                }
            }
            let active = |client: &usize| dominant[*client] > 0.0;
            let weight: f64 = (0..self.clients).filter(active).map(|client| weights[client]).sum();
            let total: f64 = dominant.iter().sum();
            for client in 0..self.clients {
                let slot = &mut factor[client];
                if total == 0.0 {
                    // Nothing is contended: corrections decay slowly.
                    *slot = slot.powf(0.9);
                } else if active(&client) {
                    let fair = weights[client] / weight;
                    let given = dominant[client] / total;
                    let correction = (fair / given).sqrt().clamp(0.8, 1.25);
                    *slot = (*slot * correction).clamp(0.02, 50.0);
                }
            }
            for &stage in stages {
                let planned = &self.plan.stages[stage];
                let first = planned.base + node as u32 * planned.instances;
                for place in first..first + planned.instances {
                    let queue = self.instances[place as usize].queue;
                    let Some(queue) = self.queues.get_mut(queue as usize) else { continue };
                    for client in 0..self.clients {
                        queue.set_weight(client, weights[client] * factor[client]);
                    }
                }
            }
        }
    }

    /// Sets which clients are ahead on which node: no thread works for them while others have parts
    /// there.
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
            for place in self.plan.places(stage) {
                let queue = self.instances[place as usize].queue;
                self.todo.push_back(Todo::Dispatch(queue));
            }
        }
    }
}
