//! Whether threads of this process serve several connections at a time, as those of event loops and
//! pools do. Holding such a thread would hold many sessions. Checked only under generic framing,
//! where the server's model is unknown.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use headworks_region::layout::{Counter, Region};
use headworks_region::session::State;

static SEEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Session whose request this thread has read last, plus one, and which session of the slot it
    /// was.
    static LAST: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// This thread has read a request of a session. Returns whether any thread was ever seen to read
/// one while the session that it served before is still connected.
pub(super) fn seen(region: &Region, session_id: u32, generation: u32) -> bool {
    let (last, of) = LAST.replace((session_id + 1, generation));
    let other = last.checked_sub(1).filter(|&last| last != session_id);
    let connected = other.and_then(|last| region.session(last)).is_some_and(|slot| {
        slot.state() != State::Free && slot.generation.load(Ordering::Relaxed) == of
    });
    if connected && !SEEN.swap(true, Ordering::Relaxed) {
        region.count(Counter::SharedThreads);
    }
    SEEN.load(Ordering::Relaxed)
}
