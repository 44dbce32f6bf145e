//! The operations behind the hooks of a server that serves each connection by a process.
//!
//! PostgreSQL's postmaster accepts a connection ([`accepted`]) and forks: the child serves it, and
//! is the *backend* of one client until it ends ([`inherit`]). All that is known of that client is
//! therefore one static value, not a table.
//!
//! A request lives as in [`crate::threads`], with one difference: a queued backend must still hear
//! signals. They end it, cancel its query, announce a notification for its client, or ask for a
//! barrier. CREATE and DROP DATABASE wait for a barrier that all backends take part in.
//!
//! So [`received`] holds the process in steps. After a step that did not end the wait, the bytes
//! are kept here, and the server is told that its `recv` was interrupted. It handles its signals
//! and calls `recv` again. That continues the wait ([`about_to_receive`]), and in the end returns
//! the bytes ([`deliver`]). See `docs/decisions/0009-backends-are-held-in-steps.md`. Where only TLS
//! records are seen, the process waits in one step, and signals wait too.

mod followed;
mod kept;
mod waits;

pub use kept::deliver;

use crate::channel::Channel;
use crate::conn::Work;
use crate::declared_locks::DeclaredLock;
use crate::early::EarlyReads;
use crate::generic;
use crate::peer::peer_of;
use crate::postgres::{ClientEvent, Opaque, Session};
use crate::{process, served};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use headworks_policy::Nanos;
use headworks_region::layout::{Counter, Region};
use headworks_region::session::{Encryption, SessionSlot};
use headworks_region::{Pause, Wait, clock};

const NONE: i32 = -1;

/// In the postmaster: the connection that it has accepted and not yet given to a child.
static ACCEPTED: AtomicI32 = AtomicI32::new(NONE);
/// In a backend: its client.
static CLIENT: AtomicI32 = AtomicI32::new(NONE);
/// In a backend: the epoll set in which it waits for its client.
static WAIT_SET: AtomicI32 = AtomicI32::new(NONE);

// What the hooks check before they know that there is work.
static STAGE: AtomicU8 = AtomicU8::new(Stage::Fresh as u8);
static LENDABLE: AtomicBool = AtomicBool::new(false);
static ANTICIPATING: AtomicBool = AtomicBool::new(false);
/// The bytes are read and written by the TLS library, not at the socket.
static IN_TLS: AtomicBool = AtomicBool::new(false);

/// What the backend's reads right after an answer found.
pub static EARLY_READS: EarlyReads = EarlyReads::new();

/// What a `recv` has to do before it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The backend has no slot for its connection yet: [`adopt`].
    Fresh = 0,
    /// Nothing.
    Ready = 1,
    /// A request is, or was, being served: [`about_to_receive`].
    Busy = 2,
}

/// What to do with a `recv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It goes on.
    Go,
    /// `recv` reports that it was interrupted.
    Later,
}

/// What is known of the client.
struct Backend {
    session_id: Option<u32>,
    session: Session,
    work: Work,
    /// The request that arrived waits for its turn.
    waiting: bool,
    /// Since when it waits, and for how long at most. After the wait: when the request arrived.
    hold: Wait,
    /// How long the current request waited in the gate, and when it was admitted.
    wait: Nanos,
    admitted: Nanos,
    /// Requests whose answers were accounted for.
    accounted: u32,
    quota_left: bool,
    classified: Option<u8>,
    left_alone: bool,
    channel: Channel,
    /// Follows the TLS records, where TLS is part of the server.
    generic: Option<generic::Session>,
    declared: DeclaredLock,
}

struct Shelf {
    busy: AtomicBool,
    backend: UnsafeCell<Backend>,
}

// SAFETY: `backend` is only reached through `with`, by one thread at a time.
unsafe impl Sync for Shelf {}

static SHELF: Shelf = Shelf {
    busy: AtomicBool::new(false),
    backend: UnsafeCell::new(Backend {
        session_id: None,
        session: Session::new(),
        work: Work::None,
        waiting: false,
        hold: Wait::NONE,
        wait: Nanos(0),
        admitted: Nanos(0),
        accounted: 0,
        quota_left: false,
        classified: None,
        left_alone: false,
        channel: Channel::Socket,
        generic: None,
        declared: DeclaredLock::Nothing,
    }),
};

/// A backend that the gate follows, with all that an operation needs.
struct Followed<'a> {
    region: &'static Region,
    session_id: u32,
    slot: &'static SessionSlot,
    backend: &'a mut Backend,
}

/// Runs `work` on the client of this process; `None` if there is none to follow, or an operation
/// on it is in progress.
fn with<T>(work: impl FnOnce(&mut Followed<'_>) -> T) -> Option<T> {
    let region = process::region()?;
    if SHELF.busy.swap(true, Ordering::Acquire) {
        region.count(Counter::ConcurrentUse);
        return None;
    }
    let _busy = Busy;
    // SAFETY: no other code is here while the shelf is busy, and no reference outlives that.
    let backend = unsafe { &mut *SHELF.backend.get() };
    backend.session_id.and_then(|session_id| {
        let slot = region.session(session_id)?;
        Some(work(&mut Followed { region, session_id, slot, backend }))
    })
}

/// The shelf is busy until this is dropped, also by a panic.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        SHELF.busy.store(false, Ordering::Release);
    }
}

/// The postmaster has accepted a connection.
pub fn accepted(fd: i32) {
    ACCEPTED.store(fd, Ordering::Relaxed);
}

/// In a forked child: returns whether it serves a client. Nothing but loads and stores.
pub fn inherit() -> bool {
    let client = ACCEPTED.swap(NONE, Ordering::Relaxed);
    CLIENT.store(client, Ordering::Relaxed);
    client != NONE
}

/// Whether this process is a backend and the descriptor its client's.
pub fn serves(fd: i32) -> bool {
    CLIENT.load(Ordering::Relaxed) == fd && fd != NONE
}

/// Whether this process is a backend.
pub fn has_client() -> bool {
    CLIENT.load(Ordering::Relaxed) != NONE
}

/// What a `recv` from the client has to do before it reads.
pub fn stage() -> Stage {
    match STAGE.load(Ordering::Relaxed) {
        0 => Stage::Fresh,
        1 => Stage::Ready,
        _ => Stage::Busy,
    }
}

fn set_stage(stage: Stage) {
    STAGE.store(stage as u8, Ordering::Relaxed);
}

/// Whether the session's permit was kept for its next request.
pub fn anticipating() -> bool {
    ANTICIPATING.load(Ordering::Relaxed)
}

fn set_anticipating(anticipating: bool) {
    ANTICIPATING.store(anticipating, Ordering::Relaxed);
}

fn set_lendable(lendable: bool) {
    LENDABLE.store(lendable, Ordering::Relaxed);
}

/// Gives the client a slot. Called once, when the backend reads for the first time; may change
/// errno.
#[cold]
pub fn adopt() {
    set_stage(Stage::Ready);
    let fd = CLIENT.load(Ordering::Relaxed);
    let (Some(region), Some(peer)) = (process::region(), peer_of(fd)) else { return };
    waits::find();
    // All work of this process is for its client.
    served::serves_clients();
    let pid = process::own_pid();
    region.reclaim_from_previous_process(pid);
    let Some(session_id) = region.register(pid, clock::now()) else { return };
    if let Some(slot) = region.session(session_id) {
        slot.address.set(peer.address());
        slot.local_port.store(peer.local_port, Ordering::Relaxed);
    }
    if !SHELF.busy.swap(true, Ordering::Acquire) {
        // SAFETY: as in `with`.
        unsafe { (*SHELF.backend.get()).session_id = Some(session_id) };
        SHELF.busy.store(false, Ordering::Release);
    }
}

/// The backend is about to read, and its [`stage`] is busy. If its request is queued, the next step
/// of the wait begins. If its request is over, it is settled, and the permit is given back where
/// the turn is over too.
#[inline(never)]
pub fn about_to_receive() -> Receipt {
    with(|it| {
        if it.backend.waiting {
            return match it.region.continue_wait(it.session_id, it.backend.hold) {
                Some(entered) => it.enter(entered),
                None => Receipt::Later,
            };
        }
        if it.backend.at_boundary() {
            it.settle();
        }
        Receipt::Go
    })
    .unwrap_or(Receipt::Go)
}

/// `recv` returned these bytes, or the TLS library did. May hold the process for a step;
/// [`Receipt::Later`] means that the bytes are kept here and the wait goes on.
#[inline(never)]
pub fn received(bytes: &[u8]) -> Receipt {
    with(|it| {
        let event = it.client_bytes(bytes);
        it.look_at_session();
        if event != ClientEvent::None || it.backend.work != Work::None {
            it.backend.declared.look(bytes);
        }
        match event {
            ClientEvent::Request(request) if !it.backend.left_alone => it.begin(request, bytes),
            _ => Receipt::Go,
        }
    })
    .unwrap_or(Receipt::Go)
}

/// Whether the TLS library reads and writes the client's socket.
pub fn in_tls() -> bool {
    IN_TLS.load(Ordering::Relaxed)
}

/// The server has handed the connection to a TLS library.
pub(crate) fn tls_begins() {
    if in_tls() {
        return;
    }
    with(|it| {
        let backend = &mut *it.backend;
        if backend.session.opaque() == Some(Opaque::Tls) && backend.generic.is_none() {
            backend.session.inside_tls();
            backend.channel = Channel::Library;
            IN_TLS.store(true, Ordering::Relaxed);
            it.slot.encryption.store(Encryption::Read as u32, Ordering::Relaxed);
        }
    });
}

/// `recv` found nothing to read. Only needed while [`anticipating`].
pub fn found_nothing() {
    with(|it| {
        if it.region.control.anticipation() == Nanos(0) {
            set_anticipating(false);
            it.leave();
        }
    });
}

/// `send` took these bytes, or the TLS library did.
#[inline(never)]
pub fn sent(bytes: &[u8]) {
    with(|it| {
        match &mut it.backend.generic {
            Some(generic) => generic.server_bytes(bytes),
            None => it.backend.session.server_bytes(bytes),
        }
        it.look_at_session();
        it.account();
    });
}

/// The backend has put `fd` into the epoll set `set`.
pub fn watches(set: i32, fd: i32) {
    if serves(fd) {
        // The first set lasts as long as the connection. Later ones are temporary.
        let _ = WAIT_SET.compare_exchange(NONE, set, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether the backend's session may have a permit that it could lend while it sleeps. Nothing but
/// a load.
pub fn may_lend() -> bool {
    LENDABLE.load(Ordering::Relaxed)
}

/// The backend is about to sleep in the epoll set `set`. If its session holds a permit meanwhile,
/// says how long it may sleep before [`slept`] is to be called, and for what it sleeps.
pub fn about_to_sleep(set: i32) -> Option<(Nanos, Pause)> {
    let other = WAIT_SET.load(Ordering::Relaxed) != set;
    // A TLS handshake waits for the client in its own epoll set.
    if other
        && let why = waits::pause()?
        && why != Pause::Client
    {
        return Some((waits::lent_after(why), why));
    }
    let mut sleep = None;
    with(|it| {
        sleep = Some(if anticipating() {
            (it.region.control.anticipation(), Pause::Thinking)
        } else if it.backend.work != Work::None {
            (it.region.keeps_for_client(), Pause::Client)
        } else {
            (it.region.keeps_for(it.slot), Pause::Thinking)
        });
    });
    sleep
}

/// The backend is about to poll sockets none of which is its client's: in a function that connects
/// to a server. Ends with [`woke`].
pub fn polls_elsewhere() {
    with(|it| {
        if it.backend.work != Work::None {
            set_lendable(false);
            it.region.block(it.session_id, Pause::Elsewhere);
        }
    });
}

/// The sleep has become long: the session lends its permit.
pub fn slept(why: Pause) {
    with(|it| {
        set_lendable(false);
        if anticipating() {
            set_anticipating(false);
            it.region.leave(it.session_id);
        } else {
            match why {
                Pause::Thinking | Pause::Client => drop(it.region.lend(it.session_id, why)),
                _ => it.region.block(it.session_id, why),
            }
        }
    });
}

/// The sleep that followed [`slept`] is over. In the middle of a request the server goes on at
/// once, so its session is admitted again.
pub fn woke() {
    with(|it| {
        let backend = &it.backend;
        let busy = backend.work != Work::None && !backend.at_boundary();
        if busy {
            set_lendable(true);
            it.region.unblock(it.session_id);
        }
    });
}

/// The descriptor is about to be closed.
pub fn closing(fd: i32) {
    if ACCEPTED.load(Ordering::Relaxed) == fd && process::is_attached_process() {
        ACCEPTED.store(NONE, Ordering::Relaxed);
    }
    if serves(fd) {
        exiting();
    }
}

/// Whether [`closing`] has anything to do.
pub fn knows(fd: i32) -> bool {
    fd != NONE && (ACCEPTED.load(Ordering::Relaxed) == fd || serves(fd))
}

/// An operation failed: this process passes from here on. The client's bytes that it keeps are
/// still delivered.
pub(crate) fn abandon() {
    with(|it| {
        it.backend.session_id = None;
        it.region.unregister(it.session_id);
    });
    process::stand_aside();
}

/// The process ends in an orderly way and has released its locks. What its session held is given
/// back.
pub fn exiting() {
    if CLIENT.load(Ordering::Relaxed) == NONE || !process::is_attached_process() {
        return;
    }
    with(|it| {
        if it.backend.waiting {
            it.region.count(Counter::Cancelled);
        }
        it.backend.session_id = None;
        it.region.unregister(it.session_id);
    });
    CLIENT.store(NONE, Ordering::Relaxed);
}
