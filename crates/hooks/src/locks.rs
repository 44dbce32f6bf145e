//! Waits for locks, conditions and semaphores: which thread waits for which, for the scheduler
//! `rcp`.
//!
//! # The primitive
//! A hook first tries the lock, as the C library does; a free lock costs nothing more. Only a
//! thread that is about to sleep reports it ([`blocks`]), and again when it goes on ([`unblocks`]).
//! The owner of a mutex and the writer of a lock are read from the words that the C library keeps
//! in them. For a condition or a semaphore, the last thread that signalled it is taken for the next
//! one ([`signals`]).
//!
//! # What must never happen here
//! Taking, releasing or waiting. Owners are read without memory ordering and may be wrong. Then a
//! call of another thread goes on a little earlier.

use crate::files;
pub use headworks_region::io::Blocker;
use headworks_region::layout::Region;
use headworks_region::thread;

/// Whether any scheduler needs this. Nothing but loads.
#[inline]
pub fn wanted() -> bool {
    files::region().is_some_and(headworks_region::io::IoRegion::follows_waits)
}

/// The calling thread is about to wait for the object at this address. `owner` is the thread that
/// has it, or zero.
#[cold]
pub fn blocks(on: Blocker, address: usize, owner: u32) {
    let Some(region) = files::region() else { return };
    let exact = owner != 0;
    let holder = if exact { Some(owner) } else { region.inheritance.helper(address) };
    region.blocks(files::account(region), on, holder, exact);
}

/// The calling thread goes on.
#[cold]
pub fn unblocks() {
    if let Some(region) = files::region() {
        region.unblocks(files::account(region));
    }
}

/// The calling thread signals the condition, or posts the semaphore, at this address.
pub fn signals(address: usize) {
    if let Some(region) = files::region() {
        region.inheritance.signals(address);
    }
}

/// The calling thread serves clients, unless the program has declared otherwise.
#[inline]
pub(crate) fn serves_clients() {
    marks(thread::SERVES_CLIENTS);
}

#[inline]
fn marks(ground: u8) {
    thread::with(|words| {
        let own = words.ground.get();
        if own != thread::DECLARED_FOREGROUND && own != thread::DECLARED_BACKGROUND {
            words.ground.set(ground);
        }
    });
}

/// The calling thread serves this session from now on.
#[inline]
pub(crate) fn serves(region: &Region, session_id: u32) {
    serves_clients();
    let class = region.class_of(session_id);
    let background = class.is_some_and(|(_, background)| background);
    thread::with(|words| {
        words.session.set(session_id + 1);
        words.background.set(background);
        words.class.set(class.map_or(0, |(number, _)| number + 1));
    });
    if background && let Some(region) = files::region() {
        region.turns_to_background();
    }
}

/// As [`serves`], for a session whose requests are not followed, or a request that is not.
#[inline]
pub(crate) fn serves_unseen(region: &Region, session_id: u32) {
    serves(region, session_id);
    marks(thread::SERVES_UNSEEN);
}

/// The calling thread serves no session any more. It may be asked to undo what the last one did:
/// it stays one for which clients wait.
pub(crate) fn serves_none() {
    thread::with(|words| {
        words.session.set(0);
        words.background.set(false);
        words.class.set(0);
        if words.ground.get() == thread::SERVES_UNSEEN {
            words.ground.set(thread::SERVES_CLIENTS);
        }
    });
}

/// In the child after `fork`: what was declared for its parent's thread does not hold for it.
pub fn forked() {
    thread::with(|words| {
        words.ground.set(0);
        words.session.set(0);
        words.background.set(false);
        words.class.set(0);
        words.blocks_read.set(0);
    });
}

/// The program declares whether clients wait for the calling thread.
pub fn says_foreground(foreground: bool) {
    let ground = if foreground { thread::DECLARED_FOREGROUND } else { thread::DECLARED_BACKGROUND };
    thread::with(|words| words.ground.set(ground));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_take_over_what_was_declared_for_its_parent() {
        let ground = || thread::with(|words| words.ground.get());
        serves_clients();
        assert_eq!(ground(), thread::SERVES_CLIENTS);
        forked();
        assert_eq!(ground(), 0);
        // A declaration of the program stands above what is seen.
        says_foreground(false);
        serves_clients();
        assert_eq!(ground(), thread::DECLARED_BACKGROUND);
    }
}
