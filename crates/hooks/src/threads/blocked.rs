//! Blocked requests: they wait neither for a processor nor for storage, so their session lends its
//! permit.
//!
//! A server may report when a wait begins and ends ([`begin_wait`], [`end_wait`]; MariaDB does, see
//! [`crate::server_waits`]). No server reports all. For the rest the hooks see when the thread that
//! serves a request sleeps on a condition ([`falls_asleep`], [`wakes_up`]), or polls another socket
//! than its client's. `headworks_region::pause` says when such a sleep lends.

use crate::process;
use headworks_region::layout::Region;
use headworks_region::{Pause, clock, thread};

/// This thread serves a request of this session from here on, or of none.
pub(crate) fn serves(session_id: Option<u32>) {
    thread::with(|words| words.serving.set(session_id.map_or(0, |session_id| session_id + 1)));
}

fn served() -> Option<(&'static Region, u32)> {
    let session_id = thread::with(|words| words.serving.get()).checked_sub(1)?;
    Some((process::region()?, session_id))
}

/// Whether this thread serves a request. Nothing but a load.
pub fn may_block() -> bool {
    thread::with(|words| words.serving.get()) != 0
}

/// The request that this thread serves is blocked.
pub fn begin_wait(why: Pause) {
    if let Some((region, session_id)) = served() {
        region.block(session_id, why);
    }
}

/// It goes on.
pub fn end_wait() {
    if let Some((region, session_id)) = served() {
        region.unblock(session_id);
    }
}

/// An operation failed: the session that this thread serves, if any, passes from here on.
pub(crate) fn abandon() {
    if let Some((region, session_id)) = served() {
        region.leave(session_id);
        region.stop_following(session_id);
    }
}

/// The thread is about to sleep on a condition.
pub fn falls_asleep() {
    if let Some((region, session_id)) = served() {
        region.falls_asleep(session_id, clock::now());
    }
}

/// It goes on.
pub fn wakes_up() {
    if let Some((region, session_id)) = served() {
        region.wakes_up(session_id, clock::now());
    }
}
