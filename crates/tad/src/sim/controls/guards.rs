//! Guards, which are asked at each decision of their queue.

use super::kinds::Permit;
use crate::sim::calendar::Event;
use crate::sim::state::{Engine, Todo};
use headworks_policy::Nanos;

/// Shortest time before a guard that refused every request is asked again.
const GUARD_RETRY_NS: u64 = 200_000;

impl Engine<'_> {
    /// Asks the guards of a queue.
    pub(in crate::sim) fn permit(&mut self, queue: u32) {
        let mut permits = std::mem::take(&mut self.controls.scratch);
        permits.clear();
        let members = std::mem::take(&mut self.queues[queue as usize].members);
        if self.queues[queue as usize].guarded {
            let mut soonest_ns = u64::MAX;
            for place in &members {
                permits.push(self.permit_at(queue, *place, &mut soonest_ns));
            }
            if soonest_ns < u64::MAX && !self.controls.waking.contains(&queue) {
                self.controls.waking.push(queue);
                self.calendar.push(self.now_ns + soonest_ns.max(1), Event::Wake(queue));
            }
        }
        self.queues[queue as usize].members = members;
        self.controls.scratch = permits;
    }

    /// The clients that a stage instance may work for.
    fn permit_at(&mut self, queue: u32, place: u32, soonest_ns: &mut u64) -> Permit {
        let guard_number = self.controls.guard_of[place as usize] as usize;
        let Some(guard) = self.controls.guards.get(guard_number) else { return Permit::ALL };
        let entry = &self.queues[queue as usize];
        let instance = &self.instances[place as usize];
        let mut permit = Permit::NONE;
        if let Some(bound) = &guard.bound {
            let below = &self.plan.stages[bound.downstream];
            let node = instance.node % below.nodes;
            let first = below.base + node * below.instances;
            let there: u32 = (first..first + below.instances)
                .map(|below| self.instances[below as usize].present)
                .sum();
            if there + instance.busy >= bound.limit {
                return permit;
            }
        }
        let held = guard.back_off.map_or(0, |number| {
            let held = self.controls.held[number].by_node[instance.node as usize];
            // It is held back only for the sake of another client.
            if self.present(number, instance.node) & !held == 0 { 0 } else { held }
        });
        let Some(guard) = self.controls.guards.get_mut(guard_number) else {
            return Permit::ALL;
        };
        for client in 0..self.clients {
            if entry.waiting[client] == 0 || held & (1 << client) != 0 {
                continue;
            }
            let mut congested = false;
            if let Some(congestion) = &guard.congestion {
                let below = &self.stats.stages[congestion.downstream];
                let there = below.waiting.value(client) + below.serving.value(client);
                if there >= congestion.backlog {
                    *soonest_ns = (*soonest_ns).min(GUARD_RETRY_NS);
                    congested = true;
                }
            }
            if let Some(limit) = &mut guard.limit {
                let wait_ns = limit.buckets[client].wait(Nanos(self.now_ns)).0;
                if wait_ns > 0 {
                    *soonest_ns = (*soonest_ns).min(wait_ns);
                    continue;
                }
            }
            permit.mistaken |= 1 << client;
            if !congested {
                permit.clients |= 1 << client;
            }
        }
        permit
    }

    /// The clients with parts waiting or in service at a set of stages of a node, as bits.
    pub(in crate::sim) fn present(&self, number: usize, node: u32) -> u16 {
        let mut bits = 0;
        for &stage in &self.controls.held[number].stages {
            let planned = &self.plan.stages[stage];
            let first = planned.base + node * planned.instances;
            for place in first..first + planned.instances {
                let instance = &self.instances[place as usize];
                let queue = self.queues.get(instance.queue as usize);
                for client in 0..self.clients {
                    if instance.serving[client] > 0 || queue.is_some_and(|q| q.waiting[client] > 0)
                    {
                        bits |= 1 << client;
                    }
                }
            }
        }
        bits
    }

    /// A part left a stage: the controls that bound its queue check again.
    pub(in crate::sim) fn left(&mut self, place: u32) {
        let instance = &self.instances[place as usize];
        let node = instance.node;
        let watchers = &self.controls.watchers[instance.stage as usize];
        for &watcher in watchers {
            let other = &self.instances[watcher as usize];
            if other.node == node || watchers.len() <= 16 {
                self.todo.push_back(Todo::Dispatch(other.queue));
            }
        }
    }

    /// A resource became idle: the controls that speculate on that check again.
    pub(in crate::sim) fn idle(&mut self, resource: u32) {
        for &place in &self.controls.idlers[resource as usize] {
            self.todo.push_back(Todo::Dispatch(self.instances[place as usize].queue));
        }
    }
}
