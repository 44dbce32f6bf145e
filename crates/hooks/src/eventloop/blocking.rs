//! A server that reads and writes by the same calls as an event loop, but has a thread for each
//! connection: mongod.
//!
//! Its threads may block in the gate. A request begins for us with the last byte of its message. It
//! ends with the last byte of its answer, since the thread reads the next message only then. Its
//! sockets are in an epoll set, too, because asio puts them there, but that has no effect here.

use super::connection::{Inner, LoopConnection};
use crate::holding::Holding;
use crate::threads::blocked;
use crate::{process, served};
use core::sync::atomic::Ordering;
use headworks_region::lock::thread_id;
use headworks_region::{Entered, Mode, PassReason, State, clock};

/// The client's bytes were followed, before which the connection held `held`: if a request has come
/// with them, this thread waits for its session's turn.
pub(super) fn received(
    connection: &LoopConnection,
    session_id: u32,
    inner: &mut Inner,
    held: Holding,
) {
    let Some(region) = process::region() else { return };
    // Whether or not its requests are followed.
    if connection.is_left_alone() {
        served::serves_unseen(region, session_id);
        return;
    }
    served::serves(region, session_id);
    let Some(slot) = region.session(session_id) else { return };
    let (commands, passed) = inner.framing.commands();
    let fresh_passed = passed.wrapping_sub(inner.seen.1);
    let fresh = commands.wrapping_sub(inner.seen.0).wrapping_sub(fresh_passed);
    inner.seen = (commands, passed);
    if fresh == 0 {
        if fresh_passed > 0 {
            slot.served.was_passed();
            slot.pass_reason.store(PassReason::Statement as u32, Ordering::Relaxed);
        }
        return;
    }
    let now = clock::now();
    inner.wait = region.begin_wait(now);
    inner.unanswered = inner.unanswered.wrapping_add(fresh);
    inner.admitted = now;
    slot.arrived_ns.store(now.0, Ordering::Relaxed);
    slot.thread.store(thread_id(), Ordering::Relaxed);
    blocked::serves(Some(session_id));
    region.end_gap(slot, now);
    match slot.state() {
        State::Running | State::Owed | State::Long => {}
        State::Passing => slot.served.was_passed(),
        State::Lent => region.reenter(session_id),
        _ if !held.is_empty() => region.reenter(session_id),
        _ => {
            slot.turn_arrived_ns.store(now.0, Ordering::Relaxed);
            if region.enter(session_id, now) != Entered::AtOnce {
                inner.admitted = clock::now();
            }
        }
    }
    slot.admitted_ns.store(inner.admitted.0, Ordering::Relaxed);
    // A message without an answer ends with itself.
    sent(session_id, inner);
}

/// The server's bytes were followed: if all requests are answered, the turn is over, unless a
/// transaction is open.
pub(super) fn sent(session_id: u32, inner: &mut Inner) {
    if inner.unanswered == 0 || inner.framing.owes_answers() {
        return;
    }
    let Some(region) = process::region() else { return };
    let Some(slot) = region.session(session_id) else { return };
    let count = core::mem::take(&mut inner.unanswered);
    let wait = inner.admitted.since(inner.wait.arrived);
    region.record(session_id, slot, wait, (inner.admitted, clock::now()), count);
    region.spend_many(slot, count);
    blocked::serves(None);
    let holding = inner.holding_between();
    slot.holding.store(u32::from(holding.bits()), Ordering::Relaxed);
    if holding.is_empty() && slot.state() != State::Idle {
        slot.served.turn_ended();
        if region.control.mode() != Mode::Enforce {
            region.note_turn(session_id, clock::now());
        }
        region.leave(session_id);
    }
}
