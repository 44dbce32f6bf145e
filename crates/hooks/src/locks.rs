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
