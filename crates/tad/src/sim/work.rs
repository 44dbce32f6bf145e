//! Consumption by parts: resources serve them one after the other, and speculation uses idle ones.

use super::calendar::Event;
use super::plan::{StepPlan, TO_THE_END};
use super::slab::{NONE, Phase, Trial};
use super::state::{Engine, Todo};

impl Engine<'_> {
    pub(super) fn consume(&mut self, part: u32, planned: &StepPlan) {
        let entry = self.slab.parts[part as usize];
        if entry.left_ns > 0 {
            // It comes back for the rest, after the turns of others.
            let node = self.instances[entry.place as usize].node;
            let each = planned.uses[usize::from(entry.at)];
            return self.ask(part, self.plan.resources[each.resource as usize].base + node);
        }
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
        let mut amount = self.amount(each);
        if planned.batched {
            amount = amount.saturating_add(self.follow(part, entry.at));
        }
        let at = resource.base + node;
        let target = &mut self.resources[at as usize];
        let service_ns = target.service_ns(amount, client as u32, &mut self.rng);
        if each.unknown && queue != NONE && planned.turn_ns == TO_THE_END {
            let cost_ns = service_ns / u64::from(target.servers());
            self.queues[queue as usize].charge(client, resource.local as usize, cost_ns);
        }
        self.slab.parts[part as usize].left_ns = service_ns;
        self.ask(part, at);
    }

    /// A part wants to be served by a resource.
    fn ask(&mut self, part: u32, resource: u32) {
        let target = &mut self.resources[resource as usize];
        if target.has_room() {
            target.busy += 1;
            self.serve(part, resource);
        } else {
            target.account(self.now_ns);
            target.queue.push_back(part);
        }
    }

    /// A server of a resource begins to work for a part.
    fn serve(&mut self, part: u32, resource: u32) {
        let planned = self.step_of(part);
        let (client, turn_ns) = (planned.client as usize, planned.turn_ns);
        let target = &mut self.resources[resource as usize];
        let planned = &self.plan.resources[target.resource as usize];
        let entry = &mut self.slab.parts[part as usize];
        let mut slice_ns = entry.left_ns.min(planned.quantum_ns);
        if turn_ns != TO_THE_END && entry.threaded {
            // A part that waited for the resource has a little of its turn left in any case.
            let left_ns = turn_ns.saturating_sub(self.now_ns - entry.begun_ns);
            slice_ns = slice_ns.min(left_ns.max(turn_ns / 8).max(1));
            let queue = self.instances[entry.place as usize].queue;
            let cost_ns = slice_ns / u64::from(target.servers());
            self.queues[queue as usize].charge(client, planned.local as usize, cost_ns);
        }
        entry.left_ns -= slice_ns;
        self.calendar.push(self.now_ns + slice_ns, Event::Used(part));
        target.used.up(client, self.now_ns);
    }

    /// A server has finished a part, or its turn is over.
    pub(super) fn used(&mut self, part: u32) {
        let planned = self.step_of(part);
        let entry = &mut self.slab.parts[part as usize];
        let each = planned.uses[usize::from(entry.at)];
        let resource = &self.plan.resources[each.resource as usize];
        let at = resource.base + self.instances[entry.place as usize].node;
        let target = &mut self.resources[at as usize];
        target.used.down(planned.client as usize, self.now_ns);
        target.account(self.now_ns);
        let turn_ns = planned.turn_ns;
        let over = turn_ns != TO_THE_END && self.now_ns - entry.begun_ns >= turn_ns;
        if entry.left_ns == 0 {
            entry.at += 1;
        }
        let mut goes_on = false;
        if over && self.turn_over(part, planned) {
            // A request that waits for the server comes first, as it does below.
        } else if self.slab.parts[part as usize].left_ns > 0 {
            self.resources[at as usize].queue.push_back(part);
        } else {
            goes_on = true;
        }
        let target = &mut self.resources[at as usize];
        match target.queue.pop_front() {
            Some(next) => self.serve(next, at),
            None => {
                target.busy -= 1;
                if target.watched {
                    self.idle(at);
                }
            }
        }
        if goes_on {
            // Before all other work of this instant, which was none when the event came.
            self.advance(part);
        }
    }

    /// The turn of a part is over: if work is left and others wait, it goes back into the queue,
    /// before the younger parts of its client.
    fn turn_over(&mut self, part: u32, planned: &StepPlan) -> bool {
        let entry = self.slab.parts[part as usize];
        let end = if entry.submitted { planned.uses.len() } else { usize::from(planned.after) };
        if usize::from(entry.at) >= end || !entry.threaded || entry.trial == Trial::UnderWay {
            return false;
        }
        let instance = &self.instances[entry.place as usize];
        let (queue, member) = (instance.queue as usize, instance.member as usize);
        if self.queues[queue].total == 0 {
            return false;
        }
        self.release(part);
        self.slab.parts[part as usize].phase = Phase::Waiting;
        let client = planned.client as usize;
        self.queues[queue].push_front(&mut self.slab, (member, client), part);
        self.stats.stages[planned.stage as usize].waiting.up(client, self.now_ns);
        true
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
                self.slab.parts[part as usize].begun_ns = self.now_ns;
                self.lend_thread(place, client);
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
