//! Work: parts consume resources, or are tried on speculation and put back.

use super::calendar::Event;
use super::engine::{Engine, Todo};
use super::slab::NONE;

impl Engine<'_> {
    pub(super) fn consume(&mut self, part: u32, load: usize, step: usize) {
        let entry = self.slab.parts[part as usize];
        let planned = self.plan.loads[load].steps[step].uses[entry.at as usize];
        if planned.unknown && entry.speculative {
            return self.put_back(part);
        }
        let client = self.client_of(part);
        let instance = &self.instances[entry.place as usize];
        let (node, queue) = (instance.node, instance.queue);
        let resource = &self.plan.resources[planned.resource as usize];
        let mut amount = planned.amount;
        if self.scenario.jitter > 0.0 {
            let factor = 1.0 + self.scenario.jitter * (2.0 * self.rng.unit() - 1.0);
            amount = (amount as f64 * factor) as u64;
        }
        let at = resource.base + node;
        let target = &mut self.resources[at as usize];
        let service_ns = target.service_ns(amount, client as u32, &mut self.rng);
        if planned.unknown && queue != NONE {
            let cost_ns = service_ns / u64::from(target.servers());
            self.queues[queue as usize].charge(client, resource.local as usize, cost_ns);
        }
        self.slab.parts[part as usize].left_ns = service_ns;
        if target.has_room() {
            target.busy += 1;
            self.serve(part, resource.quantum_ns);
        } else {
            target.account(self.now_ns);
            target.queue.push_back(part);
        }
    }

    /// A server begins to work for a part.
    fn serve(&mut self, part: u32, quantum_ns: Option<u64>) {
        let left_ns = self.slab.parts[part as usize].left_ns;
        let slice_ns = quantum_ns.map_or(left_ns, |quantum_ns| quantum_ns.min(left_ns));
        self.calendar.push(self.now_ns + slice_ns, Event::Used(part));
    }

    /// A server is done with a part, or its turn is over.
    pub(super) fn used(&mut self, part: u32) {
        let (_, load, step) = self.step_of(part);
        let client = self.client_of(part);
        let entry = self.slab.parts[part as usize];
        let planned = self.plan.loads[load].steps[step].uses[entry.at as usize];
        let resource = &self.plan.resources[planned.resource as usize];
        let at = resource.base + self.instances[entry.place as usize].node;
        let target = &mut self.resources[at as usize];
        let slice_ns = resource.quantum_ns.map_or(entry.left_ns, |q| q.min(entry.left_ns));
        target.busy_ns[client] += slice_ns;
        target.total_ns[client] += slice_ns;
        let left_ns = entry.left_ns - slice_ns;
        self.slab.parts[part as usize].left_ns = left_ns;
        target.account(self.now_ns);
        if left_ns > 0 {
            target.queue.push_back(part);
        } else {
            self.slab.parts[part as usize].at += 1;
            self.todo.push_back(Todo::Advance(part));
        }
        match target.queue.pop_front() {
            Some(next) => self.serve(next, resource.quantum_ns),
            None => {
                target.busy -= 1;
                self.idle(at);
            }
        }
    }

    /// A part that was started on speculation turns out to need more than was idle.
    fn put_back(&mut self, part: u32) {
        self.stats.aborted += 1;
        let place = self.slab.parts[part as usize].place;
        self.release(part);
        let entry = &mut self.slab.parts[part as usize];
        entry.at = 0;
        entry.tried = true;
        self.enqueue(part, place);
    }

    /// Starts parts on speculation, if that is configured and something is idle. A part that turns
    /// out to wait for another stage is not put back: that is no resource of this stage's (section
    /// 4.3.2), and the thread that tried it waits like any other.
    pub(super) fn speculate(&mut self, queue: u32) {
        for member in 0..self.queues[queue as usize].members.len() {
            let place = self.queues[queue as usize].members[member];
            while let Some(resource) = self.controls.may_speculate(place) {
                if !self.resources[resource as usize].idle() {
                    break;
                }
                // What may not be started may not be tried either.
                self.permit(queue);
                let permits = self.controls.permits().get(member).map_or(u16::MAX, |p| p.clients);
                let entry = &mut self.queues[queue as usize];
                let Some(part) = entry.next_untried(&mut self.slab, member, permits) else {
                    break;
                };
                let client = self.client_of(part);
                self.controls.speculation_began(place);
                self.controls.started(place, client);
                self.charge_thread(place, client, self.controls.thread_ns(place, client));
                let entry = &mut self.slab.parts[part as usize];
                entry.speculative = true;
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
