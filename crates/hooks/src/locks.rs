//! Waits for locks, conditions and semaphores: who waits for whom, for the scheduler `rcp`.
//!
//! # The primitive
//! A hook first tries the lock, as the C library does itself; what is free costs nothing more. Only
//! a thread that is about to sleep says so ([`blocks`]), and says again when it goes on
//! ([`unblocks`]). The owner of a mutex and the writer of a lock are read from the words that the C
//! library keeps beside them. Who signals a condition or a semaphore is guessed from who did it
//! last ([`signals`]).
//!
//! # What must never happen here
//! Nothing is taken, released, or waited for. Owners are read without any order; they may be wrong,
//! and then a call of some other thread goes on a little earlier.

use crate::files;
pub use headworks_region::io::Blocker;
use headworks_region::thread;

/// Whether anybody wants to know. Nothing but loads.
#[inline]
pub fn wanted() -> bool {
    files::region().is_some_and(headworks_region::io::IoRegion::follows_waits)
}

/// The calling thread is about to wait for what lies at this address. `owner` is the thread that
/// has it, zero for nobody.
#[cold]
pub fn blocks(on: Blocker, address: usize, owner: u32) {
    let Some(region) = files::region() else { return };
    let exact = owner != 0;
    let holder = if exact { Some(owner) } else { region.inheritance.helper(address) };
    region.blocks(files::account(region), on, holder, exact);
}

/// It goes on.
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

/// The calling thread serves clients, unless the program says something else of it.
#[inline]
pub(crate) fn serves_clients() {
    thread::with(|words| {
        if words.ground.get() == 0 {
            words.ground.set(1);
        }
    });
}

/// In the child after `fork`: what was said of its parent's thread is not said of it.
pub fn forked() {
    thread::with(|words| words.ground.set(0));
}

/// What the program says of the calling thread: clients wait for it, or they do not.
pub fn says_foreground(foreground: bool) {
    thread::with(|words| words.ground.set(if foreground { 1 } else { 2 }));
}
