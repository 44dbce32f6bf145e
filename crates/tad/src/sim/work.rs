//! Consumption by parts: resources serve them one after the other, and speculation uses idle ones.

use super::calendar::Event;
use super::engine::{Engine, Todo};
use super::plan::StepPlan;
use super::slab::{NONE, Trial};

impl Engine<'_> {
    pub(super) fn consume(&mut self, part: u32, planned: &StepPlan) {
        let entry = self.slab.parts[part as usize];
        if let Some(lookup) = planned.lookup.as_ref().filter(|lookup| lookup.before == entry.at)
            && self.hits(part, lookup, planned.client)
        {
            self.slab.parts[part as usize].at += lookup.saves;
            self.todo.push_back(Todo::Advance(part));
            return;
        }
        let each = planned.uses[usize::from(entry.at)];
        if each.unknown && entry.trial == Trial::UnderWay {
            return self.put_back(part);
        }
        let client = planned.client as usize;
        let instance = &self.instances[entry.place as usize];
        let (node, queue) = (instance.node, instance.queue);
        let resource = &self.plan.resources[each.resource as usize];
        let mut amount = each.amount;
        if self.scenario.jitter > 0.0 {
            let factor = 1.0 + self.scenario.jitter * (2.0 * self.rng.unit() - 1.0);
            amount = (amount as f64 * factor) as u64;
        }
        let at = resource.base + node;
        let target = &mut self.resources[at as usize];
        let service_ns = target.service_ns(amount, client as u32, &mut self.rng);
        if each.unknown && queue != NONE {
            let cost_ns = service_ns / u64::from(target.servers());
            self.queues[queue as usize].charge(client, resource.local as usize, cost_ns);
        }
        self.slab.parts[part as usize].left_ns = service_ns;
        if target.has_room() {
            target.busy += 1;
            self.serve(part, at, resource.quantum_ns);
        } else {
            target.account(self.now_ns);
            target.queue.push_back(part);
        }
    }

    /// A server of a resource begins to work for a part.
    fn serve(&mut self, part: u32, resource: u32, quantum_ns: Option<u64>) {
        let left_ns = self.slab.parts[part as usize].left_ns;
        let slice_ns = quantum_ns.map_or(left_ns, |quantum_ns| quantum_ns.min(left_ns));
        self.calendar.push(self.now_ns + slice_ns, Event::Used(part));
        let client = self.client_of(part);
        self.resources[resource as usize].used.up(client, self.now_ns);
    }

    /// A server has finished a part, or its turn is over.
    pub(super) fn used(&mut self, part: u32) {
        let planned = self.step_of(part);
        let entry = &mut self.slab.parts[part as usize];
        let each = planned.uses[usize::from(entry.at)];
        let resource = &self.plan.resources[each.resource as usize];
        let at = resource.base + self.instances[entry.place as usize].node;
        let target = &mut self.resources[at as usize];
        let slice_ns = resource.quantum_ns.map_or(entry.left_ns, |q| q.min(entry.left_ns));
        entry.left_ns -= slice_ns;
        target.used.down(planned.client as usize, self.now_ns);
        target.account(self.now_ns);
        if entry.left_ns > 0 {
            target.queue.push_back(part);
        } else {
            entry.at += 1;
            self.todo.push_back(Todo::Advance(part));
        }
        match target.queue.pop_front() {
            Some(next) => self.serve(next, at, resource.quantum_ns),
            None => {
                target.busy -= 1;
                if target.watched {
                    self.idle(at);
                }
            }
        }
    }

    /// A part that was started on speculation turns out to need more than the idle resource.
    pub(super) fn put_back(&mut self, part: u32) {
        self.stats.aborted += 1;
        let place = self.slab.parts[part as usize].place;
        self.release(part);
        let entry = &mut self.slab.parts[part as usize];
        entry.at = 0;
        entry.trial = Trial::Failed;
        self.enqueue(part, place);
    }

    /// Starts parts on speculation, if that is configured and the resource is idle. A part that
    /// turns out to wait for another stage is not put back: that is not a resource of this stage
    /// (section 4.3.2), and the thread that tried it waits like any other.
    pub(super) fn speculate(&mut self, queue: u32) {
        for member in 0..self.queues[queue as usize].members.len() {
            let place = self.queues[queue as usize].members[member];
            while let Some(resource) = self.controls.may_speculate(place) {
                if !self.resources[resource as usize].idle() {
                    break;
                }
                // A part that may not be started may not be tried either.
                self.permit(queue);
                let permits = self.controls.permits().get(member).map_or(u16::MAX, |p| p.clients);
                let entry = &mut self.queues[queue as usize];
                let Some(part) = entry.next_untried(&mut self.slab, member, permits) else {
                    break;
                };
                let client = self.client_of(part);
                self.controls.speculation_began(place);
                self.controls.started(place, client);
                self.lend_thread(part, place, client);
                let entry = &mut self.slab.parts[part as usize];
                entry.trial = Trial::UnderWay;
                entry.threaded = true;
                let stage = self.instances[place as usize].stage as usize;
                self.stats.stages[stage].waiting.down(client, self.now_ns);
                self.begin(part, place);
                // Its first use makes the resource busy before the next one is considered.
                if let Some(Todo::Advance(begun)) = self.todo.pop_back() {
                    self.advance(begun);
                }
            }
        }
    }
}
