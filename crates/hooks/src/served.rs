//! Whom each thread serves: the scheduler of files lets go first what a client waits for.
//!
//! The gate's hooks tell when a thread begins to serve a session. Without an I/O region nothing is
//! noted.

use crate::files;
use core::sync::atomic::Ordering::Relaxed;
use headworks_region::Protocol;
use headworks_region::io::IoRegion;
use headworks_region::layout::Region;
use headworks_region::lock::thread_id;
use headworks_region::session::SessionSlot;
use headworks_region::thread;

/// The calling thread serves clients, unless the program has declared otherwise.
#[inline]
pub(crate) fn serves_clients() {
    marks(thread::SERVES_CLIENTS);
}

#[inline]
fn marks(role: u8) {
    thread::with(|words| {
        let own = words.role.get();
        if own != thread::DECLARED_FOREGROUND && own != thread::DECLARED_BACKGROUND {
            words.role.set(role);
        }
    });
}

/// The calling thread serves this session from now on.
#[inline]
pub(crate) fn serves(region: &Region, session_id: u32) {
    if let Some(io) = files::region() {
        serves_under(io, region, session_id);
    }
}

fn serves_under(io: &IoRegion, region: &Region, session_id: u32) {
    serves_clients();
    let class = region.class_of(session_id);
    let background = class.is_some_and(|(_, background)| background);
    thread::with(|words| {
        words.session.set(session_id + 1);
        words.background.set(background);
        words.class.set(class.map_or(0, |(number, _)| number + 1));
    });
    if background {
        io.turns_to_background();
    }
}

/// As [`serves`], for a session whose requests are not followed, or a request that is not.
#[inline]
pub(crate) fn serves_unseen(region: &Region, session_id: u32) {
    if let Some(io) = files::region() {
        serves_under(io, region, session_id);
        marks(thread::SERVES_UNSEEN);
    }
}

/// The calling thread serves no session any more. It may be asked to undo what the last one did:
/// it stays one for which clients wait.
pub(crate) fn serves_none() {
    thread::with(|words| {
        words.session.set(0);
        words.background.set(false);
        words.class.set(0);
        if words.role.get() == thread::SERVES_UNSEEN {
            words.role.set(thread::SERVES_CLIENTS);
        }
    });
}

/// The calling thread serves several clients at a time: what it does is done for others, too.
#[cold]
pub(crate) fn serves_several(region: &Region) {
    if region.protocol() == Protocol::Generic
        && let Some(io) = files::region()
    {
        io.control.gate_cannot_know();
    }
    serves_none();
}

/// The calling thread sends to a client. If it has read the request, too, threads of this server
/// serve their own clients, and others are the background.
pub(crate) fn answers(region: &Region, slot: &SessionSlot) {
    if region.protocol() == Protocol::Generic
        && slot.thread.load(Relaxed) == thread_id()
        && let Some(io) = files::region()
    {
        io.control.gate_learns();
    }
}

/// In the child after `fork`: what was declared for its parent's thread does not hold for it.
pub fn forked() {
    thread::with(|words| {
        words.role.set(0);
        words.session.set(0);
        words.background.set(false);
        words.class.set(0);
        words.blocks_read.set(0);
    });
}

/// The program declares whether clients wait for the calling thread.
pub fn says_foreground(foreground: bool) {
    let role = if foreground { thread::DECLARED_FOREGROUND } else { thread::DECLARED_BACKGROUND };
    thread::with(|words| words.role.set(role));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_take_over_what_was_declared_for_its_parent() {
        let role = || thread::with(|words| words.role.get());
        serves_clients();
        assert_eq!(role(), thread::SERVES_CLIENTS);
        forked();
        assert_eq!(role(), 0);
        // A declaration of the program stands above what is seen.
        says_foreground(false);
        serves_clients();
        assert_eq!(role(), thread::DECLARED_BACKGROUND);
    }
}
