//! Generic framing where the hooks do not see everything: answers, answers by another thread, and
//! reads. No session keeps a permit because of them.
//!
//! * A server reads during a request. Either it has answered unseen by the hooks: the kernel knows
//!   ([`is_answered`]). Or another thread answers, and the request ends with that answer
//!   ([`wrote`]). Or the request goes on, and its client takes its time: the daemon lends the
//!   permit, as of any session that waits for its client ([`waits`]).
//! * The kernel does not count the bytes of a Unix socket. If the permit was lent while the server
//!   read, and no answer was ever seen, the connection passes from then on ([`read`]).
//! * A server whose reads the hooks do not see: its connections pass, and are counted.

use super::{Followed, never_hold, request_is_over};
use crate::conn::{Use, Work};
use crate::served;
use headworks_region::layout::Counter;
use headworks_region::{Pause, State, clock};

/// The server reads during a request: whether it has answered unseen by the hooks.
#[cold]
pub(super) fn is_answered(it: &Followed, inner: &mut Use<'_>) -> bool {
    if !it.conn.is_generic() || !inner.traffic.wrote_unseen(it.conn.strayed()) {
        return false;
    }
    if !core::mem::replace(&mut inner.traffic.unseen, true) {
        it.region.count(Counter::UnseenAnswers);
    }
    inner.generic.answer();
    true
}

/// The server waits for its client during a request, by a read that blocks.
#[cold]
pub(super) fn waits(it: &Followed, inner: &mut Use<'_>) {
    inner.traffic.reading = true;
    // Otherwise another thread works on the request, and the permit is in use.
    if !inner.traffic.late {
        it.region.await_client(it.slot, clock::now());
    }
}

/// A read that [`waits`] saw begin returned nothing.
#[cold]
pub(super) fn waits_no_more(it: &Followed, inner: &mut Use<'_>) {
    inner.traffic.reading = false;
    if it.slot.pause() == Pause::Client {
        it.region.unblock(it.session_id);
    }
}

/// The server read bytes that begin or continue a request.
pub(super) fn read(it: &Followed, inner: &mut Use<'_>, begins: bool) {
    inner.traffic.read = true;
    inner.traffic.reading = false;
    if begins || it.slot.pause() != Pause::Client {
        return;
    }
    let was_lent = it.slot.state() == State::Lent;
    it.region.unblock(it.session_id);
    if was_lent && inner.traffic.uncounted && !inner.traffic.answered {
        never_hold(it, inner, Counter::UnseenAnswers);
    }
}

/// The server wrote this many bytes, on any thread.
pub(super) fn wrote(it: &Followed, mut inner: Use<'_>, bytes: usize) {
    if bytes == 0 {
        return;
    }
    served::answers(it.region, it.slot);
    inner.generic.answer();
    let traffic = &mut inner.traffic;
    traffic.wrote(bytes);
    traffic.answered = true;
    let late = core::mem::take(&mut traffic.reading) && it.conn.work() != Work::None;
    if !traffic.read && traffic.reads_unseen() {
        never_hold(it, &mut inner, Counter::UnseenReads);
    } else if late {
        inner.traffic.late = true;
        request_is_over(it, inner);
    }
}

/// The connection is about to be closed.
pub(super) fn closing(it: &Followed) {
    if it.conn.is_generic()
        && let Some(mut inner) =
            it.conn.try_use().filter(|inner| inner.session_id == Some(it.session_id))
        && !inner.left_alone
        && inner.traffic.reads_unseen()
    {
        it.region.count(Counter::UnseenReads);
    }
}
