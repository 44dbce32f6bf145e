//! I/O that no hook can hold, so that it can be reported.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Processes with rings that are told apart.
const PROCESSES: usize = 64;

/// Counts of what is charged at best.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Unheld {
    /// Files that were mapped shared and writable: what is written so is seen at `msync` only.
    pub mapped_files: AtomicU64,
    /// A process (upper half) and how many of its rings are charged (lower half).
    rings: [AtomicU64; PROCESSES],
}

headworks_policy::layout!(Unheld { mapped_files, rings });

impl Unheld {
    /// A process made a ring of `io_uring` that is charged. Of the others `/proc` knows.
    pub fn ring_made(&self, pid: u32) {
        self.change(pid, |rings| Some(rings.saturating_add(1)));
    }

    /// A process ended a ring that was counted.
    pub fn ring_ended(&self, pid: u32) {
        self.change(pid, |rings| rings.checked_sub(1));
    }

    fn change(&self, pid: u32, count: impl Fn(u32) -> Option<u32>) {
        let of = |word: u64| (word >> 32) as u32;
        let next = |word: u64| {
            let rings = if of(word) == pid { word as u32 } else { 0 };
            count(rings)
                .map(|rings| if rings == 0 { 0 } else { u64::from(pid) << 32 | u64::from(rings) })
        };
        let own = self.rings.iter().find(|slot| of(slot.load(Relaxed)) == pid);
        let gone = |word: u64| word == 0 || !crate::lock::thread_exists(of(word));
        let free = || self.rings.iter().find(|slot| gone(slot.load(Relaxed)));
        if let Some(slot) = own.or_else(free) {
            let _ = slot.fetch_update(Relaxed, Relaxed, next);
        }
    }

    /// Rings of a process that are charged.
    pub fn rings(&self, pid: u32) -> u32 {
        let words = self.rings.iter().map(|slot| slot.load(Relaxed));
        words.filter(|word| (word >> 32) as u32 == pid).map(|word| word as u32).sum()
    }
}
