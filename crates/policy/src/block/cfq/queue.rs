//! The queues of the causes, and whose turn is next.

use super::super::fifo::{Links, List, NONE};
use super::super::{Index, IoClass, REQUESTS, Request};
use super::{Ring, is_sync};
use crate::Nanos;

/// Whose requests a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cause: u32,
    pub sync: bool,
    pub class: IoClass,
    pub level: u8,
}

impl Owner {
    pub fn of(request: &Request) -> Self {
        Owner {
            cause: request.cause,
            sync: is_sync(request),
            class: request.class,
            level: request.level.min(7),
        }
    }

    fn bucket(self) -> usize {
        let word = u64::from(self.cause) << 8
            | u64::from(self.sync) << 6
            | (self.class as u64) << 4
            | u64::from(self.level);
        // Fibonacci hashing; ten bits are left, below REQUESTS.
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }
}

/// One queue. Its requests stand in the scheduler's sorted order under its number.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    pub owner: Owner,
    used: bool,
    /// Requests that name this queue: those that wait, are with the device, or came back from it.
    pub members: u16,
    /// Requests that wait here.
    pub waiting: u16,
    /// Requests with the device.
    pub inflight: u16,
    /// Those that wait, in the order of arrival.
    pub arrival: List,
    /// Device time left of the slice; below zero, a debt.
    pub credit_ns: i64,
    /// When its last request was completed.
    pub last_done: Option<Nanos>,
    /// Mean time from a completion to the next request, when there was no other.
    pub think_ns: u64,
    next_in_bucket: Index,
}

impl Queue {
    const FREE: Queue = Queue {
        owner: Owner { cause: 0, sync: false, class: IoClass::BestEffort, level: 0 },
        used: false,
        members: 0,
        waiting: 0,
        inflight: 0,
        arrival: List::EMPTY,
        credit_ns: 0,
        last_done: None,
        think_ns: 0,
        next_in_bucket: NONE,
    };

    /// The owner came with a request after it had none. One long pause must not outweigh a hundred
    /// short ones: a sample counts as twice the time for which the device would be kept, at most.
    pub fn think(&mut self, now: Nanos, idle_ns: u64) {
        if let Some(done) = self.last_done {
            let sample_ns = now.since(done).0.min(2 * idle_ns);
            self.think_ns = (7 * self.think_ns + sample_ns) / 8;
        }
    }
}

/// As many queues as there can be requests: there is always one without.
#[derive(Clone, Debug)]
pub struct Queues {
    queues: [Queue; REQUESTS],
    buckets: [Index; REQUESTS],
    turns: Links,
    /// Queues that wait for their turn, by class.
    rings: [Ring; 3],
    /// Where the search for a queue to close goes on.
    hand: Index,
}

impl Default for Queues {
    fn default() -> Self {
        Queues {
            queues: [Queue::FREE; REQUESTS],
            buckets: [NONE; REQUESTS],
            turns: Links::default(),
            rings: [List::EMPTY; 3],
            hand: 0,
        }
    }
}

impl Queues {
    pub fn get(&self, queue: Index) -> &Queue {
        &self.queues[usize::from(queue)]
    }

    pub fn get_mut(&mut self, queue: Index) -> &mut Queue {
        &mut self.queues[usize::from(queue)]
    }

    /// The queue of `owner`.
    pub fn find(&self, owner: Owner) -> Option<Index> {
        let mut at = self.buckets[owner.bucket()];
        while at != NONE {
            let queue = self.get(at);
            if queue.owner == owner {
                return Some(at);
            }
            at = queue.next_in_bucket;
        }
        None
    }

    /// A queue for `owner`, who has none. When all are in use, one without requests is closed and
    /// its debt forgotten: with as many queues as requests, and one request that has none yet,
    /// there is one.
    pub fn open(&mut self, owner: Owner) -> Index {
        let mut free = self.hand;
        for step in 0..REQUESTS as Index {
            let at = (self.hand + step) % REQUESTS as Index;
            let queue = self.get(at);
            if !queue.used || queue.members == 0 {
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
            Queue { owner, used: true, next_in_bucket: self.buckets[bucket], ..Queue::FREE };
        self.buckets[bucket] = free;
        free
    }

    fn close(&mut self, queue: Index) {
        let next = self.get(queue).next_in_bucket;
        let bucket = self.get(queue).owner.bucket();
        if self.buckets[bucket] == queue {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            if self.get(at).next_in_bucket == queue {
                self.get_mut(at).next_in_bucket = next;
                return;
            }
            at = self.get(at).next_in_bucket;
        }
    }

    /// The queue has its turn after the others of its class.
    pub fn rejoin_back(&mut self, queue: Index) {
        let class = self.get(queue).owner.class as usize;
        self.turns.push_back(&mut self.rings[class], queue);
    }

    /// The queue has its turn before the others of its class.
    pub fn rejoin_front(&mut self, queue: Index) {
        let class = self.get(queue).owner.class as usize;
        self.turns.push_front(&mut self.rings[class], queue);
    }

    /// Takes the next queue of the class out.
    pub fn pop(&mut self, class: IoClass) -> Option<Index> {
        self.turns.pop_front(&mut self.rings[class as usize])
    }

    /// The most urgent class in which a queue waits for its turn.
    pub fn most_urgent(&self) -> Option<IoClass> {
        [IoClass::RealTime, IoClass::BestEffort, IoClass::Idle]
            .into_iter()
            .find(|class| !self.rings[*class as usize].is_empty())
    }
}
