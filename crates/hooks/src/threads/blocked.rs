//! Blocked requests: they wait neither for a processor nor for storage, so their session lends its
//! permit.
//!
//! A server may report when a wait begins and ends ([`begin_wait`], [`end_wait`]; MariaDB does, see
//! [`crate::server_waits`]). On other servers the hooks see when the thread that serves a request
//! sleeps on a condition ([`falls_asleep`], [`wakes_up`]). The daemon lends the permit of a thread
//! that sleeps there for longer than storage usually takes.

use crate::process;
use core::sync::atomic::{AtomicBool, Ordering};
use headworks_region::layout::Region;
use headworks_region::session::SessionSlot;
use headworks_region::{Pause, State, clock, thread};

/// The server reports what its threads wait for, so sleeps on conditions are ignored.
static SERVER_TELLS: AtomicBool = AtomicBool::new(false);

/// From here on the server reports when its waits begin and end.
pub(crate) fn server_tells() {
    SERVER_TELLS.store(true, Ordering::Relaxed);
}

/// This thread serves a request of this session from here on, or of none.
pub(crate) fn serves(session_id: Option<u32>) {
    thread::with(|words| words.serving.set(session_id.map_or(0, |session_id| session_id + 1)));
}

fn served() -> Option<(&'static Region, u32, &'static SessionSlot)> {
    let session_id = thread::with(|words| words.serving.get()).checked_sub(1)?;
    let region = process::region()?;
    Some((region, session_id, region.session(session_id)?))
}

/// Whether this thread serves a request and its server does not report waits. Nothing but loads.
pub fn may_block() -> bool {
    thread::with(|words| words.serving.get()) != 0 && !SERVER_TELLS.load(Ordering::Relaxed)
}

/// The request that this thread serves is blocked.
pub fn begin_wait(why: Pause) {
    if let Some((region, session_id, _)) = served() {
        region.block(session_id, why);
    }
}

/// It goes on.
pub fn end_wait() {
    if let Some((region, session_id, _)) = served() {
        region.unblock(session_id);
    }
}

/// An operation failed: the session that this thread serves, if any, passes from here on.
pub(crate) fn abandon() {
    if let Some((region, session_id, _)) = served() {
        region.leave(session_id);
        region.stop_following(session_id);
    }
}

/// The thread is about to sleep on a condition.
pub fn falls_asleep() {
    if let Some((_, _, slot)) = served()
        && slot.state() == State::Running
    {
        slot.falls_asleep(clock::now());
    }
}

/// It goes on.
pub fn wakes_up() {
    if let Some((region, session_id, slot)) = served()
        && slot.pause() == Pause::Asleep
    {
        if slot.state() == State::Lent {
            region.unblock(session_id);
        } else {
            // It was storage, or a short sleep.
            slot.end_pause();
        }
    }
}
