//! Events at given times, and the thread that runs them.
//!
//! The thread sleeps with the finest timer slack, and wakes early by as much as it was late before.
//! Then it watches the clock.

use super::queue::{Command, Part};
use super::shared::{AbortOnPanic, Shared};
use crate::clock;
use headworks_policy::Nanos;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is to happen.
pub(super) enum Event {
    /// The device completes this.
    Finish(Box<Command>),
    /// The layers let this go.
    Enter(Box<Part>),
    /// The scheduler asked to be called again.
    Ask,
}

struct Entry {
    at: Nanos,
    /// Events of the same time happen in the order in which they were added.
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The heap returns its greatest element: the earliest event.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Entry>,
    next_number: u64,
    stopped: bool,
}

/// Events in the order of their times.
#[derive(Default)]
pub(super) struct Timer {
    state: Mutex<State>,
    earlier: Condvar,
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event at `at`.
    pub(super) fn push(&self, at: Nanos, event: Event) {
        let mut state = self.lock();
        let first = state.heap.peek().is_none_or(|entry| at < entry.at);
        let number = state.next_number;
        state.next_number += 1;
        state.heap.push(Entry { at, number, event });
        drop(state);
        if first {
            self.earlier.notify_one();
        }
    }

    /// Ends the thread; the remaining events never happen.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.earlier.notify_all();
    }

    /// Waits for the next event. `None` when stopped.
    fn wait(&self, early: &mut Early) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let Some(at) = state.heap.peek().map(|entry| entry.at) else {
                state = self.earlier.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = clock::now();
            if now >= at {
                return state.heap.pop().map(|entry| entry.event);
            }
            let left = at.since(now);
            if left > early.margin() {
                let sleep = left.since(early.margin());
                let (guard, outcome) = self
                    .earlier
                    .wait_timeout(state, Duration::from_nanos(sleep.0))
                    .unwrap_or_else(PoisonError::into_inner);
                state = guard;
                if outcome.timed_out() {
                    early.learn(clock::now().since(now + sleep));
                }
            } else {
                drop(state);
                watch(at);
                state = self.lock();
            }
        }
    }
}

/// Looks at the clock until `at`.
fn watch(at: Nanos) {
    while clock::now() < at {
        std::hint::spin_loop();
    }
}

/// How late sleeps end, and so how early they should.
struct Early {
    late: Nanos,
}

impl Early {
    /// Watching the clock for longer would cost more processor time than the precision is worth.
    const MAX: Nanos = Nanos::from_micros(40);

    fn margin(&self) -> Nanos {
        (self.late + Nanos::from_micros(2)).min(Self::MAX)
    }

    /// A sleep ended `late` after its time: a moving average over about eight.
    fn learn(&mut self, late: Nanos) {
        let late = late.min(Nanos(2 * Self::MAX.0));
        self.late = Nanos((self.late.0 * 7 + late.0) / 8);
    }
}

/// Starts the thread.
pub(super) fn spawn(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("volume-timer".to_owned()).spawn(move || {
        let _abort = AbortOnPanic;
        // SAFETY: sets the calling thread's timer slack to 1 ns; no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        let mut early = Early { late: Nanos::from_micros(10) };
        while let Some(event) = shared.timer.wait(&mut early) {
            match event {
                Event::Finish(command) => Shared::finish(&shared, command),
                Event::Enter(part) => Shared::enter(&shared, *part),
                Event::Ask => Shared::ask(&shared),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_equals_in_order_of_coming() {
        let mut heap = BinaryHeap::new();
        for (number, at) in [50, 10, 30, 10].into_iter().enumerate() {
            heap.push(Entry { at: Nanos(at), number: number as u64, event: Event::Ask });
        }
        let order: Vec<(u64, u64)> =
            std::iter::from_fn(|| heap.pop()).map(|entry| (entry.at.0, entry.number)).collect();
        assert_eq!(order, [(10, 1), (10, 3), (30, 2), (50, 0)]);
    }

    #[test]
    fn the_margin_follows_lateness_within_its_bounds() {
        let mut early = Early { late: Nanos(0) };
        assert_eq!(early.margin(), Nanos(2_000));
        // 7/8 of 0 and 1/8 of 8 µs, and 2 µs on top.
        early.learn(Nanos(8_000));
        assert_eq!(early.margin(), Nanos(3_000));
        for _ in 0..100 {
            early.learn(Nanos(10_000_000));
        }
        assert_eq!(early.margin(), Early::MAX);
    }
}
