//! Room for requests in flight: how much of an application's requests the store reads at a time.
//!
//! # Problem
//! A client may push as many requests as it likes. What the store has read stands in its memory,
//! and in a queue with an end, where it is in the way of others.
//!
//! # The primitive
//! Each application has a budget of requests and bytes. A request takes its part before its payload
//! is read, and gives it back when the device is done with it. So a socket is read no faster than
//! its application's share is served; the rest waits in the client's memory. A request that is
//! larger than the budget goes when it is alone.
//!
//! Answers to reads have a second budget, until they have gone out. It is apart from the first, as
//! a client that does not receive would else hold up the others at the device. A connection may
//! have a little open without it, so that small requests never wait for such a client.
//!
//! Connections of one application wait in the order in which they came. Else one that writes large
//! requests would take each piece of room that another one of it is too small or too late for.

use headworks_volume::nbd::Room;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    requests: u32,
    bytes: u64,
}

/// How much each application may have in flight.
#[derive(Debug)]
pub struct Limits {
    requests: AtomicU32,
    bytes: AtomicU64,
}

impl Limits {
    /// So many requests and bytes.
    pub fn new(requests: u32, bytes: u64) -> Limits {
        Limits { requests: requests.max(1).into(), bytes: bytes.into() }
    }

    /// Other numbers from now on.
    pub fn set(&self, requests: u32, bytes: u64) {
        self.requests.store(requests.max(1), Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct State {
    load: Load,
    /// Those that wait, by their numbers, the first one in front.
    queue: VecDeque<u64>,
    next: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Budget {
    limits: Arc<Limits>,
    state: Mutex<State>,
    freed: Condvar,
}

impl Budget {
    /// With nothing in flight.
    pub fn new(limits: Arc<Limits>) -> Budget {
        Budget { limits, state: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests and bytes in flight.
    pub fn load(&self) -> (u32, u64) {
        let load = self.lock().load;
        (load.requests, load.bytes)
    }

    /// Waits until a request of `bytes` has room; calls `before` first if it has to wait.
    pub fn take(self: &Arc<Budget>, bytes: u64, before: &mut dyn FnMut()) -> Room {
        let mut state = self.lock();
        if !state.queue.is_empty() || !self.fits(state.load, bytes) {
            let own = state.next;
            state.next += 1;
            state.queue.push_back(own);
            drop(state);
            before();
            state = self.lock();
            while state.queue.front() != Some(&own) || !self.fits(state.load, bytes) {
                state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.queue.pop_front();
            if !state.queue.is_empty() {
                self.freed.notify_all();
            }
        }
        state.load.requests += 1;
        state.load.bytes += bytes;
        drop(state);
        Box::new(Taken { budget: Arc::clone(self), bytes })
    }

    fn fits(&self, load: Load, bytes: u64) -> bool {
        load.requests == 0
            || load.requests < self.limits.requests.load(Ordering::Relaxed)
                && load.bytes + bytes <= self.limits.bytes.load(Ordering::Relaxed)
    }
}

struct Taken {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.load.requests -= 1;
        state.load.bytes -= self.bytes;
        drop(state);
        // Only the first one goes, and it is not known which thread that is.
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_in_the_order_of_those_who_wait() {
        let budget = Arc::new(Budget::new(Arc::new(Limits::new(100, 100))));
        let all = budget.take(100, &mut || ());
        let waits = |bytes: u64| {
            let own = Arc::clone(&budget);
            let before = budget.lock().queue.len();
            let thread = std::thread::spawn(move || own.take(bytes, &mut || ()));
            while budget.lock().queue.len() == before {
                std::thread::yield_now();
            }
            thread
        };
        let (large, small) = (waits(90), waits(20));
        drop(all);
        let large = large.join().unwrap();
        assert!(!small.is_finished(), "it would fit into nothing yet");
        // One that would fit does not pass the one that waits.
        let last = waits(1);
        assert_eq!(budget.load(), (1, 90));
        drop(large);
        drop((small.join().unwrap(), last.join().unwrap()));
        assert_eq!(budget.load(), (0, 0));
    }

    #[test]
    fn a_request_waits_for_room_and_a_large_one_goes_alone() {
        let budget = Arc::new(Budget::new(Arc::new(Limits::new(2, 100))));
        let never = &mut || panic!("there is room");
        let large = budget.take(1_000, never);
        let waits = {
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || {
                let mut waited = false;
                let room = budget.take(60, &mut || waited = true);
                (waited, room)
            })
        };
        while !waits.is_finished() && budget.load().0 < 1 {}
        drop(large);
        let (_, small) = waits.join().unwrap();
        assert_eq!(budget.load(), (1, 60));
        let other = budget.take(40, never);
        assert_eq!(budget.load(), (2, 100));
        drop((small, other));
        assert_eq!(budget.load(), (0, 0));
    }
}
