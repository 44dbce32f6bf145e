//! Batches: a thread serves several requests that wait as one, as in a group commit.
//!
//! The part that got the thread leads. It consumes for the others, too: what a batch uses once as
//! much as it needs itself, and of all else the sum. When it is done, all of them are.

use super::plan::{StepPlan, UsePlan};
use super::slab::{Followers, Phase};
use super::state::Engine;

impl Engine<'_> {
    /// The amount of a consumption, this time.
    pub(super) fn amount(&mut self, each: UsePlan) -> u64 {
        let mut amount = each.amount;
        if let Some(law) = self.plan.laws.get(each.law as usize) {
            amount = law.amount(amount, &mut self.rng);
        }
        if self.scenario.jitter > 0.0 {
            let factor = 1.0 + self.scenario.jitter * (2.0 * self.rng.unit() - 1.0);
            amount = (amount as f64 * factor) as u64;
        }
        amount
    }

    /// A part leads what else waits for its stage.
    pub(super) fn gather(&mut self, queue: u32, leader: u32, place: u32) {
        let planned = self.step_of(leader);
        let Some(batch) = &self.plan.stages[planned.stage as usize].batch else { return };
        let member = self.instances[place as usize].member as usize;
        let mut followers = Followers { parts: Vec::new(), more: vec![0; planned.uses.len()] };
        while followers.parts.len() + 1 < batch.most as usize {
            let next = self.queues[queue as usize].next_of(&mut self.slab, member);
            let Some(part) = next else { break };
            let step = self.step_of(part);
            let client = step.client as usize;
            for (at, each) in step.uses.iter().enumerate() {
                if !batch.once.contains(&(each.resource as usize)) {
                    followers.more[at] += self.amount(*each);
                }
            }
            self.queues[queue as usize].charge_known(client, &step.known_ns);
            let stage = &mut self.stats.stages[planned.stage as usize];
            stage.waiting.down(client, self.now_ns);
            stage.serving.up(client, self.now_ns);
            self.instances[place as usize].serving[client] += 1;
            self.slab.parts[part as usize].phase = Phase::Running;
            followers.parts.push(part);
        }
        self.charge_once(queue, planned, &followers, &batch.once);
        self.batches.insert(leader, followers);
    }

    /// What a batch uses once is paid by all in equal parts.
    fn charge_once(&mut self, queue: u32, leader: &StepPlan, all: &Followers, once: &[usize]) {
        let size = all.parts.len() as u64 + 1;
        let mut costs = Vec::new();
        for each in leader.uses.iter().filter(|each| once.contains(&(each.resource as usize))) {
            let resource = &self.plan.resources[each.resource as usize];
            let target = &self.resources[resource.base as usize];
            let whole_ns = each.amount as f64 * target.ns_per_unit / f64::from(target.servers());
            costs.push((resource.local as usize, whole_ns as u64 / size));
        }
        for at in 0..all.parts.len() + 1 {
            let client = match at.checked_sub(1) {
                Some(at) => self.client_of(all.parts[at]),
                None => leader.client as usize,
            };
            for &(resource, cost_ns) in &costs {
                self.queues[queue as usize].charge(client, resource, cost_ns);
            }
        }
    }

    /// What the followers of a part need at this consumption.
    pub(super) fn follow(&self, leader: u32, at: u16) -> u64 {
        let followers = self.batches.get(&leader);
        followers.and_then(|all| all.more.get(usize::from(at))).copied().unwrap_or(0)
    }

    /// The parts that are done when this one is.
    pub(super) fn dissolve(&mut self, leader: u32) {
        for part in self.batches.remove(&leader).unwrap_or_default().parts {
            self.slab.parts[part as usize].submitted = true;
            self.done(part, self.step_of(part));
        }
    }
}
