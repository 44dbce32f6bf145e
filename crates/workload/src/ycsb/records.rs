//! The existing records, shared by all users of a run.
//!
//! A number is *claimed* by the user that inserts it and *acknowledged* once the store has it.
//! Requests stay below the first number that is claimed and not acknowledged, so that no missing
//! record is requested.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The records of a run.
#[derive(Debug, Clone)]
pub struct Records(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    loaded: u64,
    claimed: AtomicU64,
    there: AtomicU64,
    /// Acknowledged beyond `there`.
    ahead: Mutex<BinaryHeap<Reverse<u64>>>,
}

impl Records {
    /// Records 0 to `loaded` − 1 exist; at least one.
    pub fn loaded(loaded: u64) -> Self {
        let loaded = loaded.max(1);
        Self(Arc::new(Shared {
            loaded,
            claimed: AtomicU64::new(loaded),
            there: AtomicU64::new(loaded),
            ahead: Mutex::default(),
        }))
    }

    /// Initial number of records.
    pub fn in_the_beginning(&self) -> u64 {
        self.0.loaded
    }

    /// Records below this number exist.
    pub fn there(&self) -> u64 {
        // Requests travel through the store, which orders them; nothing else depends on this
        // number.
        self.0.there.load(Ordering::Relaxed)
    }

    /// The number of a record to insert.
    pub fn claim(&self) -> u64 {
        self.0.claimed.fetch_add(1, Ordering::Relaxed)
    }

    /// The store has it.
    pub fn acknowledge(&self, number: u64) {
        let mut ahead = self.0.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.push(Reverse(number));
        let mut there = self.there();
        while ahead.peek() == Some(&Reverse(there)) {
            ahead.pop();
            there += 1;
        }
        self.0.there.store(there, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_ends_before_the_first_gap() {
        let records = Records::loaded(10);
        let [a, b, c] = [(); 3].map(|()| records.claim());
        assert_eq!((a, b, c, records.there()), (10, 11, 12, 10));
        records.acknowledge(b);
        records.acknowledge(c);
        assert_eq!(records.there(), 10);
        records.acknowledge(a);
        assert_eq!(records.there(), 13);
        assert_eq!(records.in_the_beginning(), 10);
    }

    #[test]
    fn users_that_insert_at_the_same_time_leave_no_gap() {
        let records = Records::loaded(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| records.acknowledge(records.claim())));
            }
        });
        assert_eq!(records.there(), 4_005);
    }
}
