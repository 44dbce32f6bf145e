//! The life of a request's part: submitted to a stage, picked from its queue, worked on, blocked,
//! done.

use super::plan::{StagePlan, StepPlan};
use super::slab::{NONE, Phase, Trial};
use super::state::{Engine, Todo};
use crate::model::Place;

/// `index % count` for an index that is mostly below `count`: avoids the division then.
fn wrap(index: u32, count: u32) -> u32 {
    if index < count { index } else { index % count }
}

/// The stage instance on a node that serves a partition.
fn instance_of(stage: &StagePlan, partition: u32) -> u32 {
    if stage.instances == 1 { 0 } else { partition / stage.nodes % stage.instances }
}

impl<'a> Engine<'a> {
    /// The step of a part.
    pub(super) fn step_of(&self, part: u32) -> &'a StepPlan {
        &self.plan.steps[self.slab.parts[part as usize].step as usize]
    }

    pub(super) fn enter(&mut self, part: u32, node: u32) {
        let stage = &self.plan.stages[self.step_of(part).stage as usize];
        let request = self.slab.parts[part as usize].request;
        let instance = instance_of(stage, self.slab.requests[request as usize].partition);
        self.place(part, stage.base + node * stage.instances + instance);
    }

    pub(super) fn submit(&mut self, part: u32, from: u32) {
        let planned = self.step_of(part);
        let stage = &self.plan.stages[planned.stage as usize];
        let nodes = stage.nodes;
        let header = |part| &self.slab.requests[self.slab.parts[part as usize].request as usize];
        let node = match planned.place {
            Place::Same => wrap(from, nodes),
            Place::Any => self.rng.below(u64::from(nodes)) as u32,
            Place::Other if nodes == 1 => 0,
            Place::Other => wrap(from + 1 + self.rng.below(u64::from(nodes) - 1) as u32, nodes),
            Place::Partition => wrap(header(part).partition, nodes),
            Place::Origin => wrap(header(part).origin, nodes),
            Place::Fixed(node) => wrap(node, nodes),
        };
        let instance =
            if stage.instances == 1 { 0 } else { instance_of(stage, header(part).partition) };
        self.place(part, stage.base + node * stage.instances + instance);
    }

    /// A part has come to a stage.
    fn place(&mut self, part: u32, place: u32) {
        self.slab.parts[part as usize].place = place;
        let instance = &mut self.instances[place as usize];
        instance.present += 1;
        if instance.queue == NONE {
            self.begin(part, place);
        } else {
            self.enqueue(part, place);
        }
    }

    pub(super) fn enqueue(&mut self, part: u32, place: u32) {
        let client = self.client_of(part);
        let instance = &self.instances[place as usize];
        let (queue, member, stage) = (instance.queue, instance.member, instance.stage);
        let entry = &mut self.slab.parts[part as usize];
        entry.phase = Phase::Waiting;
        // A part that is put back keeps its age.
        if entry.trial != Trial::Failed {
            self.order += 1;
            entry.order = self.order;
        }
        let order = entry.order;
        let entry = &mut self.queues[queue as usize];
        let mistaken = entry.guarded && self.controls.mistakes(place, order);
        entry.push(&mut self.slab, (member as usize, client), part, mistaken);
        self.stats.stages[stage as usize].waiting.up(client, self.now_ns);
        self.todo.push_back(Todo::Dispatch(queue));
    }

    pub(super) fn client_of(&self, part: u32) -> usize {
        self.step_of(part).client as usize
    }

    pub(super) fn dispatch(&mut self, queue: u32) {
        let entry = &self.queues[queue as usize];
        if entry.total == 0 {
            return;
        }
        let speculates = entry.speculates;
        match (entry.guarded, entry.members.as_slice()) {
            (false, &[place]) => {
                while self.instances[place as usize].has_room() {
                    let entry = &mut self.queues[queue as usize];
                    let Some(part) = entry.next_of_one(&mut self.slab) else { break };
                    self.start(queue, part);
                }
            }
            _ => self.dispatch_among(queue),
        }
        if speculates {
            self.speculate(queue);
        }
    }

    /// Dispatches a queue of several members, or one that is guarded.
    fn dispatch_among(&mut self, queue: u32) {
        loop {
            self.permit(queue);
            let permits = self.controls.permits();
            let instances = &self.instances;
            let entry = &mut self.queues[queue as usize];
            let members = std::mem::take(&mut entry.members);
            let found = entry.next(&mut self.slab, |member, client, list| {
                instances[members[member] as usize].has_room()
                    && permits.get(member).is_none_or(|permit| permit.allows(client, list))
            });
            entry.members = members;
            let Some((_, part)) = found else { break };
            self.start(queue, part);
        }
    }

    /// A thread takes a part.
    fn start(&mut self, queue: u32, part: u32) {
        let planned = self.step_of(part);
        let client = planned.client as usize;
        let slot = &mut self.slab.parts[part as usize];
        slot.threaded = true;
        slot.begun_ns = self.now_ns;
        let (place, submitted) = (slot.place, slot.submitted);
        let entry = &mut self.queues[queue as usize];
        entry.in_service += 1;
        // Consumption after the wait was charged before it.
        if !submitted {
            entry.charge_known(client, &planned.known_ns);
        }
        let (alone, guarded) = (entry.only(client), entry.guarded);
        let shares_threads = entry.shares_threads;
        let instance = &mut self.instances[place as usize];
        instance.busy += 1;
        let stage = &mut self.stats.stages[planned.stage as usize];
        if alone && self.clients > 1 {
            stage.forced_ns[client] += planned.known_sum_ns;
        }
        stage.waiting.down(client, self.now_ns);
        if guarded {
            self.controls.started(place, client);
        }
        if shares_threads {
            self.lend_thread(place, client);
        }
        self.begin(part, place);
        if planned.batched {
            self.gather(queue, part, place);
        }
    }

    /// Shared threads are one more resource: all of them together are its capacity. A part's
    /// expected need is charged when it starts. Otherwise a client's parts would fill the stage
    /// before the first of them is done.
    pub(super) fn lend_thread(&mut self, place: u32, client: usize) {
        self.charge_thread(place, client, self.controls.thread_ns(place, client));
    }

    fn charge_thread(&mut self, place: u32, client: usize, ns: Option<u64>) {
        let Some(ns) = ns else { return };
        let instance = &self.instances[place as usize];
        let cost_ns = ns / u64::from(instance.limit.max(1));
        self.queues[instance.queue as usize].charge_threads(client, cost_ns);
    }

    pub(super) fn begin(&mut self, part: u32, place: u32) {
        let planned = self.step_of(part);
        let client = planned.client as usize;
        self.slab.parts[part as usize].phase = Phase::Running;
        self.instances[place as usize].serving[client] += 1;
        self.stats.stages[planned.stage as usize].serving.up(client, self.now_ns);
        self.todo.push_back(Todo::Advance(part));
    }

    /// The thread of a part, if it has one, becomes free.
    pub(super) fn release(&mut self, part: u32) {
        let client = self.client_of(part);
        let entry = &mut self.slab.parts[part as usize];
        let place = entry.place;
        let threaded = std::mem::take(&mut entry.threaded);
        let instance = &mut self.instances[place as usize];
        instance.serving[client] -= 1;
        self.stats.stages[instance.stage as usize].serving.down(client, self.now_ns);
        if threaded {
            let queue = instance.queue;
            if entry.trial == Trial::UnderWay {
                entry.trial = Trial::None;
                self.controls.speculation_ended(place);
            } else {
                instance.busy -= 1;
                self.queues[queue as usize].in_service -= 1;
            }
            if self.queues[queue as usize].shares_threads {
                let held_ns = self.now_ns - self.slab.parts[part as usize].begun_ns;
                let more_ns = self.controls.thread_held(place, client, held_ns);
                self.charge_thread(place, client, more_ns);
            }
            self.todo.push_back(Todo::Dispatch(queue));
        }
    }

    pub(super) fn advance(&mut self, part: u32) {
        let planned = self.step_of(part);
        let entry = self.slab.parts[part as usize];
        if !entry.submitted {
            if entry.at < planned.after {
                return self.consume(part, planned);
            }
            self.slab.parts[part as usize].submitted = true;
            let node = self.instances[entry.place as usize].node;
            let base = part - planned.index;
            for submitted in &planned.submits {
                self.todo.push_back(Todo::Submit(base + submitted, node));
            }
            if entry.waits > 0 {
                self.slab.parts[part as usize].phase = Phase::Blocked;
                if self.plan.stages[planned.stage as usize].asynchronous {
                    self.release(part);
                } else if entry.threaded && entry.trial != Trial::UnderWay {
                    // Stages that share a queue limit the parts in service, not those that wait.
                    let queue = self.instances[entry.place as usize].queue;
                    let entry = &mut self.queues[queue as usize];
                    entry.in_service -= 1;
                    if entry.concurrency < u32::MAX {
                        self.todo.push_back(Todo::Dispatch(queue));
                    }
                }
                return;
            }
        }
        if usize::from(entry.at) < planned.uses.len() {
            return self.consume(part, planned);
        }
        self.done(part, planned);
    }

    /// A blocked part can continue.
    fn resume(&mut self, part: u32) {
        let planned = self.step_of(part);
        if !self.plan.stages[planned.stage as usize].asynchronous {
            let entry = &mut self.slab.parts[part as usize];
            entry.phase = Phase::Running;
            if entry.threaded && entry.trial != Trial::UnderWay {
                let queue = self.instances[entry.place as usize].queue;
                self.queues[queue as usize].in_service += 1;
            }
            self.todo.push_back(Todo::Advance(part));
            return;
        }
        let place = self.slab.parts[part as usize].place;
        let bounded = self.instances[place as usize].queue != NONE;
        if bounded && planned.uses.len() > usize::from(planned.after) {
            // There is work left, and it needs a thread.
            self.enqueue(part, place);
        } else {
            self.begin(part, place);
        }
    }

    pub(super) fn done(&mut self, part: u32, planned: &'a StepPlan) {
        self.stats.parts += 1;
        self.release(part);
        let entry = &mut self.slab.parts[part as usize];
        entry.phase = Phase::Done;
        let (place, request) = (entry.place, entry.request);
        let base = part - planned.index;
        let instance = &mut self.instances[place as usize];
        instance.present -= 1;
        let node = instance.node;
        for next in &planned.then {
            self.todo.push_back(Todo::Submit(base + next, node));
        }
        for waiting in &planned.waited_by {
            let other = &mut self.slab.parts[(base + waiting) as usize];
            if other.waits == 0 {
                continue; // Enough others were done before.
            }
            other.waits -= 1;
            if other.waits == 0 && other.phase == Phase::Blocked {
                self.resume(base + waiting);
            }
        }
        self.left(place);
        let header = &mut self.slab.requests[request as usize];
        header.live -= 1;
        let over = header.live == 0;
        // None is left for a client that has given up.
        if planned.answers && header.answers > 0 {
            header.answers -= 1;
            if header.answers == 0 {
                let latency_ns = self.now_ns - header.wanted_ns;
                self.stats.answered(header.load, latency_ns, self.now_ns);
                self.todo.push_back(Todo::Proceed(header.load, header.origin));
            }
        }
        if planned.batched {
            self.dissolve(part);
        }
        if over {
            let count = self.plan.loads[planned.load as usize].steps.len();
            self.slab.free(request, count);
        }
    }
}
