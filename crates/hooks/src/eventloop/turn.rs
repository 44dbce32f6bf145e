//! The life of a connection and of its turns.

use super::blocking;
use super::connection::{self, Channel, Inner, LoopConnection, QueueState};
use super::events::{self, Entry, IN, way};
use super::framing::{Following, Framing};
use super::section::{self, Lists};
use crate::peer::peer_of;
use crate::{conn, identity::apply_identity, process};
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;
use headworks_region::control::Mode;
use headworks_region::layout::{Counter, Region};
use headworks_region::session::{Encryption, SessionSlot};
use headworks_region::thread::keeping_errno;
use headworks_region::{PassReason, Pause, Protocol, State, clock, set_waker};

/// `accept` returned a connection of a server whose event loops are followed from the first byte
/// on.
#[inline(never)] // what it copies is gone from the stack when it returns
pub fn accepted(fd: i32, protocol: Protocol) {
    set_waker(wake);
    let Some(region) = process::region() else { return };
    let Some(connection) = connection::find_or_make(fd) else {
        region.count(Counter::FdTooLarge);
        return;
    };
    // An earlier connection whose end the hooks did not see: its descriptor was closed by other
    // means.
    if connection.session_id().is_some() {
        close(fd, connection);
    }
    let Some(peer) = peer_of(fd) else { return };
    let Some(session_id) = region.register(process::own_pid(), clock::now()) else { return };
    if let Some(slot) = region.session(session_id) {
        slot.address.set(peer.address());
        slot.local_port.store(peer.local_port, Ordering::Relaxed);
    }
    connection.set_blocking(protocol == Protocol::MongoDb && !region.pooled());
    if !connection.begin(fd, session_id, protocol) {
        region.count(Counter::ConcurrentUse);
        region.unregister(session_id);
    }
}

/// A session was admitted; this thread granted it.
pub(super) fn wake(session_id: u32) -> bool {
    let Some((fd, connection)) = connection::of_session(session_id) else { return false };
    let Some(set) = connection.asked().and_then(|(set, ..)| section::find(set)) else {
        return false;
    };
    if !set.is_mine() {
        events::rearm(fd, connection);
    } else if connection.queue_state() == QueueState::Held {
        Lists(set).put(fd, connection, QueueState::Granted);
    }
    true
}

/// The server's read of a client's socket returned these bytes.
#[inline(never)]
pub fn received(connection: &'static LoopConnection, bytes: &[u8]) {
    // The TLS library reads its records.
    if connection.channel() == Channel::Socket {
        follow_client(connection, bytes);
    }
}

/// Follows the client's side of the conversation.
pub(super) fn follow_client(connection: &'static LoopConnection, bytes: &[u8]) {
    with(connection, |session_id, inner| {
        let held = inner.holding();
        inner.client_bytes(bytes);
        look_at_session(connection, session_id, inner);
        if connection.is_blocking() {
            blocking::received(connection, session_id, inner, held);
        }
    });
}

/// The server's write to a client's socket took these bytes.
#[inline(never)]
pub fn sent(connection: &'static LoopConnection, bytes: &[u8]) {
    if connection.channel() == Channel::Socket {
        follow_server(connection, bytes);
    }
}

/// Follows the server's side of the conversation.
pub(super) fn follow_server(connection: &'static LoopConnection, bytes: &[u8]) {
    let mut late = None;
    with(connection, |session_id, inner| {
        if inner.framing.listens_to_server() {
            let owed = inner.framing.owes_answers();
            inner.framing.server_bytes(bytes);
            look_at_session(connection, session_id, inner);
            if connection.is_blocking() {
                return blocking::sent(session_id, inner);
            }
            let answered = owed && !inner.framing.owes_answers();
            late = (answered && connection.queue_state() == QueueState::Out).then_some(session_id);
        }
    });
    if let Some(session_id) = late {
        answered_late(connection, session_id);
    }
}

/// A thread other than the loop's has answered all of a session's requests. Its turn is over,
/// unless a transaction is open or its next request has come meanwhile.
#[cold]
fn answered_late(connection: &'static LoopConnection, session_id: u32) {
    let Some(set) = connection.asked().and_then(|(set, ..)| section::find(set)) else { return };
    let Some((fd, _)) = connection::of_session(session_id) else { return };
    let mut over = false;
    if let Some(section) = (0..20).find_map(|_| set.enter()) {
        let done = turn(section.lists(), (fd, connection), clock::now(), |turn| {
            if turn.connection.queue_state() == QueueState::Out
                && !turn.inner.framing.owes_answers()
            {
                let (fresh, _) = turn.account();
                let holding = turn.inner.holding_between();
                turn.slot.holding.store(u32::from(holding.bits()), Ordering::Relaxed);
                over = holding.is_empty();
                if over {
                    turn.note_end(fresh);
                } else {
                    turn.region.begin_gap(turn.slot, turn.now);
                    turn.put(QueueState::Kept);
                }
            }
        });
        if done == Err(Refused::Busy) && connection.queue_state() == QueueState::Out {
            // The loop ends it at its next wait.
            section.lists().put(fd, connection, QueueState::Served);
        }
    }
    // Outside the section: the next session may have to be woken.
    if over && let Some(region) = process::region() {
        region.leave(session_id);
    }
}

fn with(connection: &'static LoopConnection, work: impl FnOnce(u32, &mut Inner)) {
    if connection.is_left_alone() {
        return;
    }
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return;
    };
    let Some(mut used) = connection.use_soon().or_else(|| connection.use_later()) else {
        // Skipping these bytes would desynchronize the parser.
        region.count(Counter::ConcurrentUse);
        connection.stop_following();
        region.stop_following(session_id);
        return;
    };
    if let Some(inner) = used.inner() {
        work(session_id, inner);
    }
}

/// After bytes of either side: checks whether the connection can still be followed, and its
/// identity.
fn look_at_session(connection: &LoopConnection, session_id: u32, inner: &mut Inner) {
    let following = inner.framing.following();
    if following != Following::Yes || inner.paused {
        follow(connection, session_id, inner, following);
    }
    let Some((identity, number)) = inner.framing.identity() else { return };
    if inner.classified != Some(number)
        && let Some(region) = process::region()
    {
        inner.classified = Some(number);
        apply_identity(region, session_id, identity);
    }
}

#[cold]
fn follow(connection: &LoopConnection, session_id: u32, inner: &mut Inner, following: Following) {
    let Some(region) = process::region() else { return };
    match following {
        Following::Yes => region.resume_following(session_id),
        Following::Paused if inner.paused => {}
        Following::Paused => region.stop_following(session_id),
        Following::Never(counter) => {
            connection.stop_following();
            region.count(counter);
            if counter == Counter::OpaqueTls
                && let Some(slot) = region.session(session_id)
            {
                slot.encryption.store(Encryption::Opaque as u32, Ordering::Relaxed);
            }
            if let Some((identity, _)) = inner.framing.identity() {
                apply_identity(region, session_id, identity);
            }
            region.stop_following(session_id);
        }
    }
    inner.paused = following != Following::Yes;
}

/// An operation on the connection failed. Its events pass from here on, and it is not followed.
pub(crate) fn abandon(connection: &'static LoopConnection) {
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return;
    };
    connection.stop_following();
    region.stop_following(session_id);
}

/// A thread is about to shut the socket down for reading.
pub fn shutting_down(fd: i32, connection: &'static LoopConnection) {
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return;
    };
    if super::is_foreign() {
        return;
    }
    region.cancel(session_id);
    if connection.queue_state() == QueueState::Held {
        events::rearm(fd, connection);
    }
}

/// A thread is about to close the socket.
pub fn close(fd: i32, connection: &'static LoopConnection) {
    if super::is_foreign() {
        return;
    }
    if connection.is_blocking()
        && let (Some(region), Some(session_id)) = (process::region(), connection.session_id())
    {
        region.cancel(session_id);
    }
    let set = connection.asked().and_then(|(set, ..)| section::find(set));
    let elsewhere = connection.is_elsewhere();
    {
        // As in `withdraw`: an entry that stays would lead the descriptor's next session into this
        // set's lists.
        if let Some(section) = set.and_then(|set| (0..20).find_map(|_| set.enter())) {
            section.lists().put(fd, connection, QueueState::Out);
        }
        if connection.is_tagged()
            && let Some(set) = set
        {
            set.count_tagged(false);
        }
        connection.note_asked(None, false);
    }
    if let Some(session_id) = connection.end()
        && !elsewhere
        && let Some(region) = process::region()
    {
        region.unregister(session_id);
    }
}

/// A followed connection inside its set's section, with all that an operation needs.
pub(super) struct Turn<'a> {
    pub(super) lists: Lists,
    pub(super) fd: i32,
    pub(super) connection: &'static LoopConnection,
    pub(super) now: Nanos,
    pub(super) region: &'static Region,
    pub(super) session_id: u32,
    pub(super) slot: &'static SessionSlot,
    pub(super) inner: &'a mut Inner,
}

/// Why an operation was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The connection bypasses the gate.
    Ungated,
    /// Another thread uses it and does not run: try again later.
    Busy,
}

/// Runs `work` on a connection.
pub(super) fn turn<T>(
    lists: Lists,
    (fd, connection): (i32, &'static LoopConnection),
    now: Nanos,
    work: impl FnOnce(&mut Turn<'_>) -> T,
) -> Result<T, Refused> {
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return Err(Refused::Ungated);
    };
    let slot =
        region.session(session_id).filter(|_| !connection.is_ungated()).ok_or(Refused::Ungated)?;
    let mut used = connection.use_soon().ok_or(Refused::Busy)?;
    let inner = used.inner().ok_or(Refused::Ungated)?;
    Ok(work(&mut Turn { lists, fd, connection, now, region, session_id, slot, inner }))
}

impl Turn<'_> {
    pub(super) fn put(&self, queue_state: QueueState) {
        self.lists.put(self.fd, self.connection, queue_state);
    }

    /// An event reports bytes to read: returns whether it is passed on. If not, the session is held
    /// from here on.
    pub(super) fn admit(&mut self, hung_up: bool) -> bool {
        match self.connection.queue_state() {
            QueueState::Served => return true,
            QueueState::Granted => {}
            QueueState::Held if !hung_up && self.slot.state() == State::Queued => {
                // There are more bytes than at the last check.
                if self.inner.framing.looks_at_once() {
                    self.inner.peeked = false;
                    self.peek();
                }
                return false;
            }
            QueueState::Held => {}
            QueueState::Kept | QueueState::Out => match self.slot.state() {
                state @ (State::Running
                | State::Owed
                | State::Passing
                | State::Long
                | State::Lent) => {
                    self.region.end_gap(self.slot, self.now);
                    self.arrives();
                    if state == State::Lent {
                        self.region.reenter(self.session_id);
                    }
                }
                // The client is gone, so it cannot be served out of turn.
                _ if hung_up => self.arrives(),
                _ if !self.inner.holding().is_empty() => {
                    self.arrives();
                    self.region.reenter(self.session_id);
                }
                _ => {
                    self.arrives();
                    self.slot.turn_arrived_ns.store(self.now.0, Ordering::Relaxed);
                    if self.region.enter_or_queue(self.session_id, self.inner.wait).is_none() {
                        self.hold();
                        return false;
                    }
                }
            },
        }
        self.go_on();
        true
    }

    pub(super) fn arrives(&mut self) {
        self.inner.wait = self.region.begin_wait(self.now);
        self.slot.arrived_ns.store(self.now.0, Ordering::Relaxed);
        self.slot.admitted_ns.store(self.now.0, Ordering::Relaxed);
    }

    fn hold(&mut self) {
        (self.inner.waiting, self.inner.peeked) = (true, false);
        self.put(QueueState::Held);
        events::hide(self.fd, self.connection);
        if self.inner.framing.looks_at_once() {
            self.peek();
        }
    }

    /// The event is passed on.
    pub(super) fn go_on(&mut self) {
        if core::mem::take(&mut self.inner.waiting)
            && self.region.poll_wait(self.session_id, self.inner.wait).is_none()
        {
            // It hung up.
            self.region.let_pass(self.session_id, PassReason::Cancelled);
        }
        self.inner.admitted = self.now;
        self.slot.admitted_ns.store(self.now.0, Ordering::Relaxed);
        if let Framing::Elsewhere = self.inner.framing {
            self.put(QueueState::Out);
            if let Some(conn) = conn::find(self.fd) {
                conn.set_waited(self.now.since(self.inner.wait.arrived));
            }
        } else {
            self.put(QueueState::Served);
        }
    }

    /// Charges the commands that were read since the last time. Returns how many there were, and
    /// whether the turn has quota for more.
    pub(super) fn account(&mut self) -> (u32, bool) {
        let (commands, passed) = self.inner.framing.commands();
        let fresh_passed = passed.wrapping_sub(self.inner.seen.1);
        let fresh = commands.wrapping_sub(self.inner.seen.0).wrapping_sub(fresh_passed);
        self.inner.seen = (commands, passed);
        if fresh > 0 {
            let wait = self.inner.admitted.since(self.inner.wait.arrived);
            let times = (self.inner.admitted, self.now);
            self.region.record(self.session_id, self.slot, wait, times, fresh);
            if self.slot.state() == State::Passing {
                self.slot.served.was_passed();
            }
            return (fresh, self.region.spend_many(self.slot, fresh));
        }
        if fresh_passed > 0 {
            self.slot.served.was_passed();
            self.slot.pass_reason.store(PassReason::Statement as u32, Ordering::Relaxed);
        }
        (0, true)
    }

    /// The server is done with this session's event. If there is `more` to read, also decides
    /// whether the session is granted or held.
    pub(super) fn settle(&mut self, more: bool) {
        if self.inner.framing.owes_answers() {
            // Another thread answers it; the turn ends when that is done (`answered_late`).
            self.put(QueueState::Out);
            if more {
                self.arrives();
                self.put(QueueState::Granted);
            }
            return;
        }
        let (fresh, quota_left) = self.account();
        let holding = self.inner.holding_between();
        self.slot.holding.store(u32::from(holding.bits()), Ordering::Relaxed);
        // A server that does not ask for the client's next bytes is not done with the last ones.
        let unfinished = self.connection.asked().is_some_and(|(_, events, _)| events & IN == 0);
        if !holding.is_empty() || unfinished {
            self.region.begin_gap(self.slot, self.now);
            self.put(QueueState::Kept);
            if more {
                self.arrives();
                self.put(QueueState::Granted);
            }
            return;
        }
        if more && quota_left && matches!(self.slot.state(), State::Running | State::Owed) {
            self.arrives();
            self.put(QueueState::Granted);
            return;
        }
        self.put(QueueState::Out);
        self.end_turn(fresh);
        if more && self.admit(false) {
            self.put(QueueState::Granted);
        }
    }

    fn end_turn(&mut self, fresh: u32) {
        if self.slot.state() == State::Idle {
            return;
        }
        self.note_end(fresh);
        self.region.leave(self.session_id);
    }

    fn note_end(&mut self, fresh: u32) {
        if fresh > 0 {
            self.slot.served.turn_ended();
            if self.region.control.mode() != Mode::Enforce {
                self.region.note_turn(self.session_id, self.now);
            }
        }
    }

    /// Checks whether a held session passes.
    pub(super) fn look(&mut self) {
        if self.inner.waiting && self.region.poll_wait(self.session_id, self.inner.wait).is_some() {
            self.inner.waiting = false;
            self.put(QueueState::Granted);
        }
    }

    /// The loop is about to sleep: peeks at what a held session sent.
    pub(super) fn peek(&mut self) {
        if core::mem::replace(&mut self.inner.peeked, true)
            // Encrypted records do not show the commands.
            || self.connection.channel() != Channel::Socket
            || !super::peek::may_pass(self.fd, &self.inner.framing)
        {
            return;
        }
        self.inner.waiting = false;
        self.region.let_pass(self.session_id, PassReason::Statement);
        self.put(QueueState::Granted);
    }

    /// When its hold ends at the latest.
    pub(super) fn hold_left(&self) -> Nanos {
        let held = self.now.since(self.inner.wait.arrived);
        Nanos(self.region.control.hold_max().0.saturating_sub(held.0))
    }

    /// Lends the permit of a session that has idled for too long. Otherwise returns how much longer
    /// it may idle.
    pub(super) fn lend(&mut self) -> Option<Nanos> {
        let idle = self.now.since(Nanos(self.slot.paused_ns.load(Ordering::Relaxed)));
        let left = self.region.keeps_for(self.slot).since(idle);
        if left > Nanos(0) {
            return Some(left);
        }
        self.put(QueueState::Out);
        self.region.lend(self.session_id, Pause::Thinking);
        None
    }
}

/// Whether the kernel has more bytes of a client whose server did not read all that it was told of.
pub(super) fn has_more(fd: i32, connection: &LoopConnection) -> bool {
    let mark = connection.readiness();
    if connection.ready() == 0 {
        return false;
    }
    let edges = connection.asked().is_some_and(|(_, events, _)| way(events) == Entry::Edges);
    if !edges || !connection.is_tagged() {
        connection.found_empty(mark);
        return false;
    }
    let wanted = libc::POLLIN | libc::POLLRDHUP;
    let mut poll = libc::pollfd { fd, events: wanted, revents: 0 };
    // SAFETY: one entry.
    let found = keeping_errno(|| unsafe { libc::syscall(libc::SYS_poll, &raw mut poll, 1, 0) });
    let more = found > 0 && poll.revents != 0;
    if !more {
        connection.found_empty(mark);
    }
    more
}
