//! Guesses: a held call may be what a client's thread is stuck for (RCP, section 4.4).
//!
//! # Problem
//! The holder of what a client waits for may be unknown: readers of a lock, a semaphore, an inlined
//! futex. Or it is another thread than at the time of the note, because a lock went from hand to
//! hand.
//!
//! # The primitive
//! A held thread polls. If a client waits for a lock that this thread holds, its call goes on. That
//! covers a note that was written while the call was on its way to be held, and a lease that ended
//! before the wait did. When a client's thread has waited for [`STUCK_AFTER`], or for
//! [`STUCK_THOUGH_KNOWN`] for a holder that was known, the scheduler may let the held call go
//! ([`Scheduler::may_block_clients`](headworks_policy::split::Scheduler::may_block_clients)).
//!
//! # Invariants
//! A thread that dies while it waits leaves a note that counts as a stuck client for [`STUCK_FOR`]
//! at most. A wrong verdict on a guess lets calls on one file go for some time
//! (`policy::split::trust`).

use super::account::{AccountSlot, CRITICAL, KNOWN};
use super::layout::IoRegion;
use super::notes::Blocker;
use super::waits::PROMOTED;
use crate::lock::{thread_exists, thread_id};
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Criticality, Task};

/// A client's thread that waits for so long for an unknown holder is stuck.
pub const STUCK_AFTER: Nanos = Nanos::from_millis(5);

/// The same if the holder was known when it began to wait.
pub const STUCK_THOUGH_KNOWN: Nanos = Nanos::from_millis(100);

/// A guess was right if the client goes on within such a time after the call returned. The caller
/// may have more to do before it releases the lock.
pub const RIGHT_WITHIN: Nanos = Nanos::from_millis(100);

/// It counts as stuck for so long: a longer wait is not due to a call that is held here.
pub const STUCK_FOR: Nanos = Nanos::from_millis(2_000);

impl IoRegion {
    /// Lets this task of the calling thread go on if a client waits for it, or if a client's thread
    /// is stuck and may wait for it. Says whether it does.
    pub(super) fn may_block_clients(&self, now: Nanos, account: Account, task: Task) -> bool {
        if self.inheritance.clients.load(Relaxed) == 0 {
            return false;
        }
        let me = thread_id();
        let waits_for_me = |slot: &AccountSlot| {
            slot.blocked_by.load(Relaxed) == me
                && slot.blocked.load(Relaxed) & (CRITICAL | KNOWN) == CRITICAL | KNOWN
                && thread_exists(slot.tid.load(Relaxed))
        };
        let client = self.accounts.iter().find(|slot| waits_for_me(slot));
        if (client.is_some() || self.criticality(account) == Criticality::Critical)
            && self.resume_if(now, task, |scheduler| scheduler.promote(now, task, true))
        {
            if let Some(client) = client {
                client.done.fetch_or(PROMOTED, Relaxed);
            }
            return true;
        }
        let accounts = self.accounts.iter().zip(1..);
        let stuck = accounts.filter_map(|(slot, client)| Some((stuck_for(slot, now)?, client)));
        let Some((waited, client)) = stuck.max() else { return false };
        if self.inheritance.guess.returned().is_some_and(|at| now.since(at) >= RIGHT_WITHIN) {
            self.judge_guess(now, false);
        }
        let goes =
            self.resume_if(now, task, |scheduler| scheduler.may_block_clients(now, task, waited));
        if goes {
            let file = self.tasks.get(usize::from(task)).map(|slot| slot.file.load(Relaxed));
            self.inheritance.guess.begin(client, task, file.unwrap_or(u32::MAX));
            if let Some(slot) = self.accounts.get(client as usize - 1) {
                slot.done.fetch_or(PROMOTED, Relaxed);
            }
            self.inheritance.by_blocker[Blocker::Unknown as usize].fetch_add(1, Relaxed);
        }
        goes
    }

    /// Tells the scheduler whether the last guess was right.
    pub(super) fn judge_guess(&self, now: Nanos, right: bool) {
        let guess = &self.inheritance.guess;
        guess.client.store(0, Relaxed);
        let file = guess.file.load(Relaxed);
        self.locked(|guarded| guarded.split.scheduler().guessed(now, file, right));
    }
}

/// For how long a client's thread has been stuck, if it is.
fn stuck_for(slot: &AccountSlot, now: Nanos) -> Option<Nanos> {
    let waited = now.since(Nanos(slot.blocked_ns.load(Relaxed)));
    let blocked = slot.blocked.load(Relaxed);
    let least = if blocked & KNOWN != 0 { STUCK_THOUGH_KNOWN } else { STUCK_AFTER };
    (blocked & CRITICAL != 0 && waited >= least && waited < STUCK_FOR).then_some(waited)
}
