//! The queues of owners: one for each owner of requests, found by hashing.

use super::fifo::{List, NONE};
use super::{Index, REQUESTS};
use crate::Nanos;

/// Whose requests a queue has.
pub trait Owner: Copy + Eq + core::fmt::Debug {
    /// The owner of a queue that is not in use.
    const UNUSED: Self;

    /// Different for any two owners.
    fn word(self) -> u64;
}

/// The requests of one owner. They stand in the scheduler's sorted order under its number.
#[derive(Clone, Copy, Debug)]
pub struct Queue<O, S> {
    /// Whose it is.
    pub owner: O,
    used: bool,
    /// Requests that name this queue: those that wait, are with the device, or came back from it.
    pub members: u16,
    /// Requests that wait here.
    pub waiting: u16,
    /// Requests with the device.
    pub inflight: u16,
    /// Those that wait, in the order of arrival.
    pub arrival: List,
    /// When its last request was completed.
    pub last_done: Option<Nanos>,
    /// Mean time from a completion to the next request, when there was no other.
    pub think_ns: u64,
    /// What its scheduler keeps beside this.
    pub extra: S,
    next_in_bucket: Index,
}

impl<O: Owner, S: Default> Queue<O, S> {
    fn of(owner: O) -> Self {
        Queue {
            owner,
            used: false,
            members: 0,
            waiting: 0,
            inflight: 0,
            arrival: List::EMPTY,
            last_done: None,
            think_ns: 0,
            extra: S::default(),
            next_in_bucket: NONE,
        }
    }

    /// The owner came with a request after it had none. One long pause must not outweigh a hundred
    /// short ones. So a sample counts at most as twice the time for which the device would be kept.
    pub fn think(&mut self, now: Nanos, idle_ns: u64) {
        if let Some(done) = self.last_done {
            let sample_ns = now.since(done).0.min(2 * idle_ns);
            self.think_ns = (7 * self.think_ns + sample_ns) / 8;
        }
    }
}

/// As many queues as there can be requests: there is always one without.
#[derive(Clone, Debug)]
pub struct Owners<O, S> {
    queues: [Queue<O, S>; REQUESTS],
    buckets: [Index; REQUESTS],
    /// Where the search for a queue to close goes on.
    hand: Index,
}

impl<O: Owner, S: Copy + Default> Default for Owners<O, S> {
    fn default() -> Self {
        Owners { queues: [Queue::of(O::UNUSED); REQUESTS], buckets: [NONE; REQUESTS], hand: 0 }
    }
}

/// Fibonacci hashing; ten bits are left, below [`REQUESTS`].
fn bucket<O: Owner>(owner: O) -> usize {
    (owner.word().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

impl<O: Owner, S: Copy + Default> Owners<O, S> {
    /// A queue.
    pub fn get(&self, queue: Index) -> &Queue<O, S> {
        &self.queues[usize::from(queue)]
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, queue: Index) -> &mut Queue<O, S> {
        &mut self.queues[usize::from(queue)]
    }

    /// The queue of `owner`.
    pub fn find(&self, owner: O) -> Option<Index> {
        let mut at = self.buckets[bucket(owner)];
        while at != NONE {
            let queue = self.get(at);
            if queue.owner == owner {
                return Some(at);
            }
            at = queue.next_in_bucket;
        }
        None
    }

    /// A queue for `owner`, who has none. When all are in use, one without requests is closed, and
    /// its state is forgotten. There is one: there are as many queues as requests, and one request
    /// has no queue yet.
    pub fn open(&mut self, owner: O) -> Index {
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
        let first = &mut self.buckets[bucket(owner)];
        let next_in_bucket = core::mem::replace(first, free);
        *self.get_mut(free) = Queue { used: true, next_in_bucket, ..Queue::of(owner) };
        free
    }

    fn close(&mut self, queue: Index) {
        let closed = *self.get(queue);
        let bucket = bucket(closed.owner);
        if self.buckets[bucket] == queue {
            self.buckets[bucket] = closed.next_in_bucket;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            if self.get(at).next_in_bucket == queue {
                self.get_mut(at).next_in_bucket = closed.next_in_bucket;
                return;
            }
            at = self.get(at).next_in_bucket;
        }
    }
}
