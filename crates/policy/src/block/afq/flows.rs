//! The causes, their passes, and who has the least.

use super::super::fifo::{Links, List, NONE};
use super::super::{Index, IoClass, REQUESTS};
use crate::Nanos;

/// Whose requests a flow has. The level is that of each request: it decides what the request adds
/// to the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cause: u32,
    pub class: IoClass,
}

impl Owner {
    fn bucket(self) -> usize {
        let word = u64::from(self.cause) << 2 | self.class as u64;
        // Fibonacci hashing; ten bits are left, below REQUESTS.
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }
}

/// One cause in one class. Its requests stand in the scheduler's sorted order under its number.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub owner: Owner,
    used: bool,
    /// Requests that name this flow: those that wait, are with the device, or came back from it.
    pub members: u16,
    /// Requests that wait here.
    pub waiting: u16,
    /// Requests with the device.
    pub inflight: u16,
    /// Those that wait, in the order of arrival.
    pub arrival: List,
    /// Model time given, in nanoseconds times 840, divided by the weight.
    pub pass: u128,
    /// Its last request was synchronous.
    pub sync: bool,
    /// When its last request was completed.
    pub last_done: Option<Nanos>,
    /// Mean time from a completion to the next request, when there was no other.
    pub think_ns: u64,
    next_in_bucket: Index,
}

impl Flow {
    const FREE: Flow = Flow {
        owner: Owner { cause: 0, class: IoClass::BestEffort },
        used: false,
        members: 0,
        waiting: 0,
        inflight: 0,
        arrival: List::EMPTY,
        pass: 0,
        sync: false,
        last_done: None,
        think_ns: 0,
        next_in_bucket: NONE,
    };

    /// The owner came with a request after it had none. One long pause must not outweigh a hundred
    /// short ones: a sample counts as twice the time for which the device would be kept, at most.
    pub fn think(&mut self, now: Nanos, anticipate_ns: u64) {
        if let Some(done) = self.last_done {
            let sample_ns = now.since(done).0.min(2 * anticipate_ns);
            self.think_ns = (7 * self.think_ns + sample_ns) / 8;
        }
    }
}

/// As many flows as there can be requests: there is always one without.
#[derive(Clone, Debug)]
pub struct Flows {
    flows: [Flow; REQUESTS],
    buckets: [Index; REQUESTS],
    links: Links,
    /// Flows with requests that wait, by class, in no order.
    rings: [List; 3],
    waiting: u16,
    /// The greatest pass at which anybody's turn began, by class.
    reached: [u128; 3],
    /// Where the search for a flow to close goes on.
    hand: Index,
}

impl Default for Flows {
    fn default() -> Self {
        Flows {
            flows: [Flow::FREE; REQUESTS],
            buckets: [NONE; REQUESTS],
            links: Links::default(),
            rings: [List::EMPTY; 3],
            waiting: 0,
            reached: [0; 3],
            hand: 0,
        }
    }
}

impl Flows {
    pub fn get(&self, flow: Index) -> &Flow {
        &self.flows[usize::from(flow)]
    }

    pub fn get_mut(&mut self, flow: Index) -> &mut Flow {
        &mut self.flows[usize::from(flow)]
    }

    /// Flows with requests that wait.
    pub fn waiting(&self) -> usize {
        usize::from(self.waiting)
    }

    /// The flow of `owner`.
    pub fn find(&self, owner: Owner) -> Option<Index> {
        let mut at = self.buckets[owner.bucket()];
        while at != NONE {
            let flow = self.get(at);
            if flow.owner == owner {
                return Some(at);
            }
            at = flow.next_in_bucket;
        }
        None
    }

    /// The flow of `owner`, or a new one. When all are in use, one without requests is closed and
    /// its pass forgotten: with as many flows as requests, and one request that has none yet, there
    /// is one.
    pub fn find_or_open(&mut self, owner: Owner) -> Index {
        if let Some(flow) = self.find(owner) {
            return flow;
        }
        let mut free = self.hand;
        for step in 0..REQUESTS as Index {
            let at = (self.hand + step) % REQUESTS as Index;
            let flow = self.get(at);
            if !flow.used || flow.members == 0 {
                free = at;
                break;
            }
        }
        self.hand = (free + 1) % REQUESTS as Index;
        if self.get(free).used {
            self.close(free);
        }
        let bucket = owner.bucket();
        *self.get_mut(free) =
            Flow { owner, used: true, next_in_bucket: self.buckets[bucket], ..Flow::FREE };
        self.buckets[bucket] = free;
        free
    }

    fn close(&mut self, flow: Index) {
        let next = self.get(flow).next_in_bucket;
        let bucket = self.get(flow).owner.bucket();
        if self.buckets[bucket] == flow {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            if self.get(at).next_in_bucket == flow {
                self.get_mut(at).next_in_bucket = next;
                return;
            }
            at = self.get(at).next_in_bucket;
        }
    }

    /// The flow has something to be served: not before the pass that others have reached.
    pub fn join(&mut self, flow: Index) {
        let class = self.get(flow).owner.class as usize;
        let reached = self.reached[class];
        let state = self.get_mut(flow);
        state.pass = state.pass.max(reached);
        self.links.push_back(&mut self.rings[class], flow);
        self.waiting += 1;
    }

    /// The flow has nothing that waits any more.
    pub fn leave(&mut self, flow: Index) {
        let class = self.get(flow).owner.class as usize;
        self.links.remove(&mut self.rings[class], flow);
        self.waiting -= 1;
    }

    /// The flow's turn begins.
    pub fn reach(&mut self, flow: Index) {
        let (class, pass) = (self.get(flow).owner.class as usize, self.get(flow).pass);
        self.reached[class] = self.reached[class].max(pass);
    }

    /// The flow was given something.
    pub fn charge(&mut self, flow: Index, stride: u128) {
        let state = self.get_mut(flow);
        state.pass = state.pass.saturating_add(stride);
    }

    /// The flow with the least pass of the most urgent class in which anybody waits; of equals
    /// whoever came to wait first. Looks at all of them: causes that wait at a time are few, and a
    /// pass changes with every request.
    pub fn least(&self) -> Option<Index> {
        let class = [IoClass::RealTime, IoClass::BestEffort, IoClass::Idle]
            .into_iter()
            .find(|class| !self.rings[*class as usize].is_empty())?;
        let mut at = self.rings[class as usize].first();
        let mut best = at?;
        while let Some(flow) = at {
            if self.get(flow).pass < self.get(best).pass {
                best = flow;
            }
            at = self.links.next(flow);
        }
        Some(best)
    }
}
