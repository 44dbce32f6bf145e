//! Operations behind the hooks of a server that serves each connection by a thread.
//!
//! The life of a request: `recv` returns its first bytes ([`received`]), and it may be queued
//! there. The server works and answers by `send` ([`sent`]). It comes back to `recv` for the next
//! request ([`about_to_receive`]), which ends this one. The turn ends too, unless a transaction or
//! a lock is open. If nothing can be read, the thread sleeps in `poll` ([`about_to_sleep`]). A
//! permit that it keeps for a transaction is lent when the sleep gets long ([`slept`]). Or the
//! thread sleeps in `recv` itself ([`about_to_block`]).

pub mod blocked;
mod blocking;
mod shared;
mod unseen;

pub use blocking::{about_to_block, blocked_for_nothing, may_block};

use crate::channel::Channel;
use crate::conn::{self, Conn, Framing, Use, Work};
use crate::generic;
use crate::identity::{apply_identity, assign_class};
use crate::mysql::{ClientEvent, Command, Opaque, PassReason as Statement, RequestClass};
use crate::peer::{Peer, peer_of};
use crate::traffic::Traffic;
use crate::{process, served};
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;
use headworks_region::control::Mode;
use headworks_region::layout::{Counter, Region};
use headworks_region::lock::thread_id;
use headworks_region::session::{Encryption, SessionSlot, State};
use headworks_region::{Entered, PassReason, Pause, Protocol, clock};

/// A connection that the gate follows, with all that an operation needs.
struct Followed {
    region: &'static Region,
    conn: &'static Conn,
    session_id: u32,
    slot: &'static SessionSlot,
}

fn follow(conn: &'static Conn) -> Option<Followed> {
    if conn.is_abandoned() { None } else { owner(conn) }
}

/// As [`follow`], also for a connection on which an operation failed.
fn owner(conn: &'static Conn) -> Option<Followed> {
    let session_id = conn.session_id()?;
    let region = process::region()?;
    Some(Followed { region, conn, session_id, slot: region.session(session_id)? })
}

impl Followed {
    /// Exclusive use of the connection; counted if another thread has it. `None` also if it was
    /// closed since it was found, even if another one has its descriptor by then.
    fn exclusive(&self) -> Option<Use<'static>> {
        self.mine(self.conn.try_use())
    }

    fn mine(&self, used: Option<Use<'static>>) -> Option<Use<'static>> {
        match used {
            Some(inner) if inner.session_id == Some(self.session_id) => Some(inner),
            Some(_) => None,
            None => {
                self.region.count(Counter::ConcurrentUse);
                None
            }
        }
    }
}

/// `accept` returned a connection ([`crate::lifecycle::accepted`]).
#[inline(never)] // what it copies is gone from the stack when it returns
pub(crate) fn accepted(region: &Region, fd: i32) {
    let Some(conn) = conn::find_or_make(fd) else {
        region.count(Counter::FdTooLarge);
        return;
    };
    // The hooks did not see the end of an earlier connection: its descriptor was closed in another
    // way.
    conn.end(|session_id| region.unregister(session_id));
    let Some(peer) = peer_of(fd) else { return };
    let Some(mut inner) = conn.try_use() else {
        region.count(Counter::ConcurrentUse);
        return;
    };
    let Some(session_id) = region.register(process::own_pid(), clock::now()) else { return };
    if let Some(slot) = region.session(session_id) {
        slot.address.set(peer.address());
        slot.local_port.store(peer.local_port, Ordering::Relaxed);
    }
    inner.begin(session_id);
    inner.traffic = Traffic::of(fd);
    if region.protocol() == Protocol::Generic {
        inner.framing = Framing::Generic;
        inner.note_channel();
        drop(inner);
        // The protocol does not tell who the client is, so rules see only its address.
        assign_class(region, session_id);
    }
}

/// The server is about to read. If that ends a request, the request is recorded. If it ends the
/// turn too, the permit is given back first. Only needed while [`Conn::work`] is not `None`.
#[inline(never)] // so that the hook itself stays small: it has less to save and restore
pub fn about_to_receive(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else { return };
    if inner.at_boundary() || unseen::is_answered(&it, &mut inner) {
        request_is_over(&it, inner);
    }
}

fn request_is_over(it: &Followed, mut inner: Use<'_>) {
    let work = it.conn.work();
    it.conn.set_work(Work::None);
    blocked::serves(None);
    inner.declared.answered();
    if it.region.pooled() {
        // Threads of a pool end while the sessions that they served go on.
        it.slot.thread.store(0, Ordering::Relaxed);
    }
    let holding = inner.holding();
    it.slot.holding.store(u32::from(holding.bits()), Ordering::Relaxed);
    let mut quota_left = false;
    let now = clock::now();
    if work == Work::Admitted {
        it.region.record(it.session_id, it.slot, inner.wait, (inner.admitted, now), 1);
        quota_left = it.region.spend(it.slot);
    }
    if !holding.is_empty() {
        it.region.begin_gap(it.slot, now);
    } else if it.slot.state() != State::Idle {
        end_turn(it, now, quota_left);
    }
}

fn end_turn(it: &Followed, now: Nanos, quota_left: bool) {
    it.slot.served.turn_ended();
    if it.region.control.mode() != Mode::Enforce {
        it.region.note_turn(it.session_id, now);
    }
    let anticipating = quota_left
        && it.slot.state() == State::Running
        && it.region.pending() > 0
        // A thread of a pool does not come back to read.
        && !it.region.pooled();
    it.conn.set_anticipating(anticipating);
    if !anticipating {
        leave(it);
    }
}

/// A server with a pool of threads is about to wait for the connection's next request. The client's
/// identity must be known before that request is read, as the request may be queued before then.
pub fn about_to_wait(conn: &'static Conn) {
    if conn.work() != Work::None {
        about_to_receive(conn);
    }
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else { return };
    if inner.session.opaque().is_some() || inner.session.replication() {
        stop_following(&it, &mut inner);
        return;
    }
    let identity = inner.session.identity().map(|_| inner.session.identity_number());
    if identity.is_some() && inner.classified != identity {
        classify(&it, &mut inner);
    }
}

/// Gives back the session's permit, if it has one.
fn leave(it: &Followed) {
    it.conn.set_lendable(false);
    it.region.leave(it.session_id);
}

/// `recv` returned these bytes. May put the calling thread to sleep until the request is admitted.
#[inline(never)]
pub fn received(conn: &'static Conn, bytes: &[u8]) {
    let Some(it) = follow(conn) else { return };
    let Some(inner) = it.mine(conn.try_use_before_header()) else { return };
    if inner.is_plain() {
        speak(&it, inner, bytes);
    } else {
        received_otherwise(&it, inner, bytes);
    }
}

/// Bytes of the protocol from the client, from the socket or from TLS.
fn speak(it: &Followed, mut inner: Use<'_>, bytes: &[u8]) {
    let event = match inner.take_header() {
        Some(header) => inner.session.client_packet(header, bytes),
        None => inner.session.client_bytes(bytes),
    };
    if inner.session.opaque().is_some() || inner.session.replication() {
        stop_following(it, &mut inner);
        return;
    }
    // Also after the server has accepted a COM_CHANGE_USER: the account differs from there on.
    let identity = inner.session.identity().map(|_| inner.session.identity_number());
    if identity.is_some() && inner.classified != identity {
        classify(it, &mut inner);
    }
    match event {
        ClientEvent::Request(request) => {
            inner.declared.look(bytes);
            if matches!(request.command, Command::RESET_CONNECTION | Command::CHANGE_USER) {
                inner.declared.reset();
            }
            begin_request(it, inner, request.class);
        }
        ClientEvent::None if it.conn.work() != Work::None => inner.declared.look(bytes),
        ClientEvent::None => {}
    }
}

/// Bytes of a connection that does not speak MySQL's protocol in plain text.
#[cold]
fn received_otherwise(it: &Followed, mut inner: Use<'_>, bytes: &[u8]) {
    match inner.channel {
        // The TLS library reads them.
        Channel::Library => return,
        Channel::Awaited => {
            // No TLS library was called, so TLS is part of the server.
            inner.channel = Channel::Socket;
            inner.framing = Framing::Generic;
            inner.generic = generic::Session::of_records();
            inner.note_channel();
            it.slot.encryption.store(Encryption::Unread as u32, Ordering::Relaxed);
            it.region.count(Counter::TlsUnread);
        }
        Channel::Socket => {}
    }
    receive_generic(it, inner, bytes);
}

/// Bytes from the client under generic framing.
fn receive_generic(it: &Followed, mut inner: Use<'_>, bytes: &[u8]) {
    let begins = inner.generic.client_bytes(bytes);
    unseen::read(it, &mut inner, begins);
    if begins || it.conn.work() != Work::None {
        inner.declared.look(bytes);
    }
    if !begins {
        return;
    }
    let generation = it.slot.generation.load(Ordering::Relaxed);
    if shared::seen(it.region, it.session_id, generation) {
        served::serves_several(it.region);
        it.conn.set_work(Work::Passed);
        it.slot.served.was_passed();
        it.slot.pass_reason.store(PassReason::SharedThread as u32, Ordering::Relaxed);
    } else {
        begin_request(it, inner, RequestClass::Gated);
    }
}

/// The server has handed the connection to a TLS library.
pub(crate) fn tls_begins(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else { return };
    if inner.channel == Channel::Library {
        return;
    }
    match inner.framing {
        Framing::MySql if inner.session.opaque() != Some(Opaque::Tls) => return,
        Framing::MySql => inner.session.inside_tls(),
        Framing::Generic => inner.generic = generic::Session::new(),
    }
    inner.channel = Channel::Library;
    inner.note_channel();
    it.slot.encryption.store(Encryption::Read as u32, Ordering::Relaxed);
}

/// The TLS library returned these bytes. May put the calling thread to sleep until the request is
/// admitted.
pub fn received_inside_tls(conn: &'static Conn, bytes: &[u8]) {
    let Some(it) = follow(conn) else { return };
    let Some(inner) = it.mine(conn.try_use_before_header()) else { return };
    match (inner.channel, inner.framing) {
        (Channel::Library, Framing::MySql) => speak(&it, inner, bytes),
        (Channel::Library, Framing::Generic) => receive_generic(&it, inner, bytes),
        _ => {}
    }
}

/// The TLS library took these bytes.
pub fn sent_inside_tls(conn: &'static Conn, bytes: &[u8]) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else { return };
    match (inner.channel, inner.framing) {
        (Channel::Library, Framing::MySql) => inner.session.server_bytes(bytes),
        (Channel::Library, Framing::Generic) => {
            served::answers(it.region, it.slot);
            inner.generic.server_bytes(bytes);
        }
        _ => {}
    }
}

/// `recv` found nothing to read. Only needed while [`Conn::anticipating`]: the session's permit was
/// kept for its next request.
pub fn found_nothing(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(_inner) = it.exclusive() else { return };
    if it.region.control.anticipation() == Nanos(0) {
        it.conn.set_anticipating(false);
        leave(&it);
    }
}

/// `recv` reported the end of the connection.
pub fn hung_up(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(_inner) = it.exclusive() else { return };
    leave(&it);
}

/// `send` took these bytes.
#[inline(never)]
pub fn sent(conn: &'static Conn, bytes: &[u8]) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else {
        conn.note_strayed(bytes.len());
        return;
    };
    if inner.is_plain() {
        inner.session.server_bytes(bytes);
    } else if inner.channel == Channel::Socket {
        unseen::wrote(&it, inner, bytes.len());
    }
}

/// The kernel sent this many bytes to the client directly from a file or a pipe.
#[cold]
pub fn sent_unread(conn: &'static Conn, count: usize) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else {
        conn.note_strayed(count);
        return;
    };
    match (inner.channel, inner.framing) {
        (Channel::Socket, Framing::Generic) => unseen::wrote(&it, inner, count),
        // It can no longer be followed.
        (Channel::Socket, Framing::MySql) => never_hold(&it, &mut inner, Counter::OpaqueUnknown),
        _ => {}
    }
}

/// The server is about to sleep until the connection is ready. If its session holds a permit,
/// returns how long it may sleep before [`slept`] is to be called. Nothing but loads.
pub fn about_to_sleep(conn: &'static Conn) -> Option<Nanos> {
    if !conn.lendable() {
        return None;
    }
    let it = follow(conn)?;
    if !matches!(it.slot.state(), State::Running | State::Owed) {
        return None;
    }
    Some(if conn.anticipating() {
        it.region.control.anticipation()
    } else if conn.work() != Work::None {
        it.region.keeps_for_client()
    } else {
        it.region.keeps_for(it.slot)
    })
}

/// The sleep got long: lends the permit.
pub fn slept(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(_inner) = it.exclusive() else { return };
    conn.set_lendable(false);
    if conn.anticipating() {
        conn.set_anticipating(false);
        it.region.leave(it.session_id);
    } else {
        let thinks = conn.work() == Work::None;
        it.region.lend(it.session_id, if thinks { Pause::Thinking } else { Pause::Client });
    }
}

/// The sleep that followed [`slept`] is over. In the middle of a request the server goes on at
/// once, so its session runs again.
pub fn woke(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    let Some(inner) = it.exclusive() else { return };
    if conn.work() != Work::None && !inner.at_boundary() && it.slot.state() == State::Lent {
        conn.set_lendable(true);
        it.region.unblock(it.session_id);
    }
}

/// A thread is about to shut the socket `fd` down for reading.
pub fn shutting_down(fd: i32) {
    let Some(it) = conn::find(fd).and_then(owner) else { return };
    if process::is_attached_process() {
        it.region.cancel(it.session_id);
    } else {
        it.region.count(Counter::Foreign);
    }
}

/// A thread is about to close the connection.
pub fn closing(conn: &'static Conn) {
    let Some(it) = owner(conn) else { return };
    if !process::is_attached_process() {
        it.region.count(Counter::Foreign);
        return;
    }
    unseen::closing(&it);
    // Its thread may be queued, and must not stay so.
    it.region.cancel(it.session_id);
    blocked::serves(None);
    served::serves_none();
    it.conn.end(|session_id| it.region.unregister(session_id));
}

/// An operation on the connection failed: it bypasses the gate from here on, and is not followed.
pub(crate) fn abandon(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    conn.abandon();
    it.region.leave(it.session_id);
    it.region.stop_following(it.session_id);
}

fn begin_request(it: &Followed, mut inner: Use<'_>, class: RequestClass) {
    served::serves(it.region, it.session_id);
    let slot = it.slot;
    it.conn.set_anticipating(false);
    match class {
        RequestClass::Pass(reason) => {
            served::serves_unseen(it.region, it.session_id);
            it.conn.set_work(Work::Passed);
            slot.served.was_passed();
            slot.pass_reason.store(PassReason::Statement as u32, Ordering::Relaxed);
            if reason == Statement::Quit {
                leave(it);
            }
        }
        RequestClass::Gated => {
            let now = clock::now();
            let pooled = it.region.pooled();
            let waited = if pooled { it.conn.take_waited() } else { Nanos(0) };
            slot.arrived_ns.store(now.since(waited).0, Ordering::Relaxed);
            slot.thread.store(thread_id(), Ordering::Relaxed);
            it.conn.set_work(Work::Admitted);
            it.conn.set_lendable(true);
            blocked::serves(Some(it.session_id));
            it.region.end_gap(slot, now);
            inner.wait = waited;
            inner.admitted = now;
            match slot.state() {
                State::Running | State::Owed | State::Long => {}
                State::Passing => slot.served.was_passed(),
                State::Lent => it.region.reenter(it.session_id),
                _ if !inner.holding().is_empty() => it.region.reenter(it.session_id),
                // Its thread serves others too, and read this without an event. It must not be
                // queued.
                _ if pooled => it.region.reenter(it.session_id),
                _ => {
                    slot.turn_arrived_ns.store(now.0, Ordering::Relaxed);
                    hold(it, &mut inner, now);
                }
            }
        }
    }
}

/// Waits until the session is admitted. Meanwhile another thread may shut the socket down or close
/// it. It then only has the region release this thread, which does the rest.
fn hold(it: &Followed, inner: &mut Use<'_>, arrived: Nanos) {
    let entered = it.region.enter(it.session_id, arrived);
    let admitted = if entered == Entered::AtOnce { arrived } else { clock::now() };
    it.slot.admitted_ns.store(admitted.0, Ordering::Relaxed);
    inner.wait = admitted.since(arrived);
    inner.admitted = admitted;
}

#[cold]
fn classify(it: &Followed, inner: &mut Use<'_>) {
    inner.classified = Some(inner.session.identity_number());
    if let Some(address) = inner.session.client_address() {
        it.slot.address.set(Peer::of(address).address());
    }
    if let Some(identity) = inner.session.identity() {
        apply_identity(it.region, it.session_id, identity);
    }
}

#[cold]
fn stop_following(it: &Followed, inner: &mut Use<'_>) {
    served::serves_unseen(it.region, it.session_id);
    if inner.left_alone {
        return;
    }
    if inner.session.opaque() == Some(Opaque::Tls) && inner.channel == Channel::Socket {
        inner.channel = Channel::Awaited;
        return;
    }
    let counter = match inner.session.opaque() {
        Some(Opaque::Tls) => Counter::OpaqueTls,
        Some(Opaque::Compressed) => Counter::OpaqueCompressed,
        Some(Opaque::Desynchronized) => Counter::OpaqueUnknown,
        None => Counter::Replication,
    };
    never_hold(it, inner, counter);
}

/// The connection bypasses the gate from here on. The counter says why.
#[cold]
fn never_hold(it: &Followed, inner: &mut Use<'_>, counter: Counter) {
    inner.left_alone = true;
    it.conn.set_work(Work::None);
    it.conn.set_lendable(false);
    it.region.count(counter);
    it.region.stop_following(it.session_id);
}
