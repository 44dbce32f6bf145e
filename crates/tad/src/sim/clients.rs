//! Clients: when each issues its next request.

use super::calendar::Event;
use super::plan::KeyPlan;
use super::slab::Request;
use super::state::{Engine, Todo};
use crate::scenario::{Arrivals, Entry};

/// Threads of a closed loop do not all start at once.
const START_SPREAD_NS: u64 = 1_000_000;

impl Engine<'_> {
    /// Starts the loads that are there from the beginning.
    pub(super) fn start_loads(&mut self) {
        for load in 0..self.plan.loads.len() {
            if self.plan.loads[load].initial {
                self.start_load(load as u32, 0);
            }
        }
    }

    /// Starts a load; `have` of its threads come from a load that ends.
    fn start_load(&mut self, load: u32, have: u32) {
        self.loads[load as usize].active = true;
        match self.plan.loads[load as usize].arrivals {
            Arrivals::Closed { threads, .. } => {
                for thread in have..threads {
                    self.come_home(load, thread);
                    let at = self.now_ns + self.rng.below(START_SPREAD_NS);
                    self.calendar.push(at, Event::Arrive(load));
                }
            }
            Arrivals::Open { .. } | Arrivals::Burst { .. } => self.next_arrival(load, true),
            Arrivals::Part { .. } => {}
        }
    }

    fn next_arrival(&mut self, load: u32, first: bool) {
        let gap_ns = match self.plan.loads[load as usize].arrivals {
            Arrivals::Open { rate_per_s } if rate_per_s > 0.0 => {
                self.rng.exponential(1e9 / rate_per_s) as u64
            }
            Arrivals::Burst { every_ns, .. } if first => self.rng.below(every_ns),
            Arrivals::Burst { every_ns, .. } => every_ns.max(1),
            _ => return,
        };
        self.calendar.push(self.now_ns + gap_ns, Event::Arrive(load));
    }

    /// A load is due.
    pub(super) fn arrive(&mut self, load: u32) {
        let home = self.loads[load as usize].homes.pop_front();
        if !self.loads[load as usize].active {
            // A thread that was thinking when its load ended.
            self.move_on(load, home);
            return;
        }
        let count = match self.plan.loads[load as usize].arrivals {
            Arrivals::Burst { count, .. } => count,
            _ => 1,
        };
        for _ in 0..count {
            self.issue(load, home);
        }
        self.next_arrival(load, false);
    }

    /// A thread will issue a load's request, after all that are about to.
    fn come_home(&mut self, load: u32, node: u32) {
        if self.plan.loads[load as usize].entry == Entry::Each {
            self.loads[load as usize].homes.push_back(node);
        }
    }

    /// A request of a load that began on a node was answered: its thread continues.
    pub(super) fn proceed(&mut self, load: u32, node: u32) {
        let load = self.plan.loads[load as usize].threads_of.unwrap_or(load);
        let Arrivals::Closed { think_ns, .. } = self.plan.loads[load as usize].arrivals else {
            return;
        };
        if !self.loads[load as usize].active {
            self.move_on(load, Some(node));
        } else if think_ns == 0 {
            self.issue(load, Some(node));
        } else {
            self.come_home(load, node);
            self.calendar.push(self.now_ns + think_ns, Event::Arrive(load));
        }
    }

    fn move_on(&mut self, load: u32, home: Option<u32>) {
        let state = &mut self.loads[load as usize];
        if state.leaving > 0 {
            state.leaving -= 1;
            let successor = state.successor;
            self.issue(successor, home);
        }
    }

    /// Replaces a client's loads. Threads of closed loops first finish their requests.
    pub(super) fn change_loads(&mut self, client: u32, fresh: &[u32]) {
        let ending: Vec<u32> = (0..self.loads.len() as u32)
            .filter(|load| {
                self.loads[*load as usize].active
                    && self.plan.loads[*load as usize].client == client
            })
            .collect();
        let mut ending_closed = Vec::new();
        for load in ending {
            self.loads[load as usize].active = false;
            if let Arrivals::Closed { threads, .. } = self.plan.loads[load as usize].arrivals {
                ending_closed.push((load, threads));
            }
        }
        let mut ending_closed = ending_closed.into_iter();
        for &load in fresh {
            let wanted = match self.plan.loads[load as usize].arrivals {
                Arrivals::Closed { threads, .. } => threads,
                _ => 0,
            };
            let mut have = 0;
            if wanted > 0
                && let Some((old, threads)) = ending_closed.next()
            {
                have = threads.min(wanted);
                self.loads[old as usize].leaving = have;
                self.loads[old as usize].successor = load;
            }
            self.start_load(load, have);
        }
    }

    /// The load of which a thread of this one issues a request.
    fn drawn(&mut self, load: u32) -> u32 {
        let parts = &self.plan.loads[load as usize].parts;
        if parts.is_empty() {
            return load;
        }
        let mut left = self.rng.unit();
        for &(other, part) in parts {
            if left < part {
                return other;
            }
            left -= part;
        }
        load
    }

    /// Issues a request, for a thread that belongs to a node if that matters.
    fn issue(&mut self, load: u32, home: Option<u32>) {
        let load = self.drawn(load);
        self.attempt(load, home, (self.now_ns, 0));
    }

    /// The client of a request has waited long enough, if it still waits for this one. The request
    /// goes on.
    pub(super) fn expire(&mut self, request: u32) {
        let header = self.slab.requests[request as usize];
        let Some(patience) = self.plan.loads[header.load as usize].patience else { return };
        // The number may be another request's by now.
        let due = header.issued_ns + patience.timeout_ns == self.now_ns;
        if !due || header.live == 0 || header.answers == 0 {
            return;
        }
        self.slab.requests[request as usize].answers = 0;
        self.stats.expired(header.load);
        if header.attempt < patience.retries {
            let again = (header.wanted_ns, header.attempt + 1);
            self.attempt(header.load, Some(header.origin), again);
        } else {
            self.stats.failed(header.load);
            self.todo.push_back(Todo::Proceed(header.load, header.origin));
        }
    }

    /// Issues a request that a client first wanted at `wanted_ns`, after so many attempts.
    fn attempt(&mut self, load: u32, home: Option<u32>, (wanted_ns, attempt): (u64, u32)) {
        let plan = &self.plan.loads[load as usize];
        let first = plan.first;
        let steps = &self.plan.steps[plan.steps.clone()];
        let stage = &self.plan.stages[steps[first as usize].stage as usize];
        let partitions = stage.nodes.max(self.partitions);
        let partition = match &plan.keys {
            KeyPlan::Uniform => self.rng.below(u64::from(partitions)) as u32,
            KeyPlan::Zipf(zipf) => zipf.draw(&mut self.rng),
            KeyPlan::Fixed(partition) => *partition,
        };
        let node = match plan.entry {
            Entry::Any => self.rng.below(u64::from(stage.nodes)) as u32,
            Entry::Fixed(node) => node % stage.nodes,
            Entry::Partition => partition % stage.nodes,
            Entry::Each => {
                let state = &mut self.loads[load as usize];
                let node = home.unwrap_or_else(|| {
                    state.homeless = state.homeless.wrapping_add(1);
                    state.homeless
                });
                node % stage.nodes
            }
        };
        let request = Request {
            load,
            base: 0,
            live: steps.len() as u16,
            answers: plan.answers,
            partition,
            origin: node,
            issued_ns: self.now_ns,
            wanted_ns,
            attempt,
        };
        let patience = plan.patience;
        match self.slab.make(request, (plan.steps.start as u32, steps)) {
            Ok(id) => {
                let base = self.slab.requests[id as usize].base;
                if let Some(patience) = patience {
                    self.calendar.push(self.now_ns + patience.timeout_ns, Event::Expire(id));
                }
                self.todo.push_back(Todo::Enter(base + first, node));
            }
            Err(error) => self.error = Some(error),
        }
    }
}
