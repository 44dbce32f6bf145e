//! One entry for each client's socket that may be in an epoll set.

use super::framing::Framing;
use super::table::{Table, Zeroed};
use crate::conn::DESCRIPTORS;
use crate::declared_locks::DeclaredLock;
use crate::holding::Holding;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use headworks_policy::{Nanos, SESSIONS};
use headworks_region::thread::keeping_errno;
use headworks_region::{Protocol, Wait, clock};

/// Marks a real registration's data as ours, in the upper half; no address or small number has this
/// value. The lower half has the descriptor and a count of the server's registrations of it.
const TAG: u64 = 0xF17E_C0DE;

/// Tries to take an entry that another thread uses, before that thread is assumed to have lost its
/// processor.
const SPINS: u32 = 1_000;

/// Longest wait for an entry or the section of a set. Its holder makes no blocking call, but may
/// have lost its processor.
pub(super) const TIMEOUT: Nanos = Nanos::from_millis(50);

/// Bits of a descriptor in a tag; the count has the rest of the lower half.
const FD_BITS: u32 = DESCRIPTORS.trailing_zeros();

/// The state of a connection; only for the thread that [uses](LoopConnection::try_use) it.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) framing: Framing,
    /// Locks that it holds by the profile's keywords.
    pub(super) declared: DeclaredLock,
    /// The hold of the current request.
    pub(super) wait: Wait,
    /// It is queued, or was granted and does not know it yet.
    pub(super) waiting: bool,
    /// While it is held: its bytes were checked for commands that always pass.
    pub(super) peeked: bool,
    /// When the current request was passed on.
    pub(super) admitted: Nanos,
    /// Commands that were accounted for, and those of them that pass.
    pub(super) seen: (u32, u32),
    pub(super) classified: Option<u8>,
    pub(super) paused: bool,
    /// Requests that a thread of the connection's own answers ([`super::blocking`]).
    pub(super) unanswered: u32,
}

impl Inner {
    /// What the connection is estimated to hold.
    pub(super) fn holding(&self) -> Holding {
        self.framing.holding().with_if(Holding::NAMED_LOCK, self.declared.held())
    }

    /// The same, after all commands that came as a whole were answered.
    pub(super) fn holding_between(&mut self) -> Holding {
        if self.framing.between_commands() {
            self.declared.answered();
        }
        self.holding()
    }

    /// Follows bytes of the client.
    pub(super) fn client_bytes(&mut self, bytes: &[u8]) {
        self.framing.client_bytes(bytes);
        if !matches!(self.framing, Framing::Elsewhere) {
            self.declared.look(bytes);
        }
    }
}

/// In which list of its set an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum QueueState {
    /// None: nothing was asked, or its server is at it.
    Out = 0,
    /// Its event was not passed on.
    Held = 1,
    /// Its turn has come; the event is to be passed on.
    Granted = 2,
    /// Its event was passed on, and the server has not come back since.
    Served = 3,
    /// It keeps its permit beyond that: a transaction is open.
    Kept = 4,
}

impl QueueState {
    fn from_byte(byte: u8) -> QueueState {
        match byte {
            1 => QueueState::Held,
            2 => QueueState::Granted,
            3 => QueueState::Served,
            4 => QueueState::Kept,
            _ => QueueState::Out,
        }
    }
}

/// Where the conversation's bytes are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Channel {
    /// On the socket.
    Socket = 0,
    /// At the TLS library, once its handshake is over: so far there is no request, and nothing to
    /// hold.
    Handshake = 1,
    /// At the TLS library.
    Library = 2,
}

/// See the module. All zero bytes are the entry of a descriptor that is no client's.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LoopConnection {
    /// Plus one.
    session_id: AtomicU32,
    /// The epoll set that it is in, plus one.
    set: AtomicI32,
    /// What the server asked for.
    asked: AtomicU32,
    /// Events that the kernel reported and no read consumed. The upper half counts the reports.
    ready: AtomicU32,
    data: AtomicU64,
    /// Links to the neighbours in its list, as descriptors plus one; only changed in the set's
    /// section.
    pub(super) previous: AtomicU32,
    pub(super) next: AtomicU32,
    /// The round of the set in which its event was passed on last.
    pub(super) round: AtomicU32,
    queue_state: AtomicU8,
    /// The real registration carries our tag.
    tagged: AtomicBool,
    /// The server was told of a one-shot registration, and has not repeated it.
    told: AtomicBool,
    /// Counts the registrations.
    registrations: AtomicU32,
    /// It cannot be followed: its events pass on.
    left_alone: AtomicBool,
    /// A [`Channel`].
    channel: AtomicU8,
    /// Another module follows it, in a server with a pool of threads.
    elsewhere: AtomicBool,
    /// A thread serves it alone, and may be held.
    blocking: AtomicBool,
    busy: AtomicBool,
    inner: UnsafeCell<MaybeUninit<Inner>>,
}

// SAFETY: `inner` is only reached through `Use`, of which there is one at a time (`busy`).
unsafe impl Sync for LoopConnection {}

// SAFETY: atomics, and an inner part that may be uninitialised: it is only read for a session,
// whose arrival writes it.
unsafe impl Zeroed for LoopConnection {}

static WATCHES: Table<LoopConnection> = Table::new();

/// Descriptors of sessions, plus one.
static DESCRIPTOR_OF: [AtomicI32; SESSIONS] = [const { AtomicI32::new(0) }; SESSIONS];

/// In a child of `fork`, which shares the sets with its parent and must not touch them.
static DISOWNED: AtomicBool = AtomicBool::new(false);

/// This process is a child.
pub fn forked() {
    DISOWNED.store(true, Ordering::Relaxed);
}

/// The entry of a descriptor if it is a client's.
#[inline]
pub fn client(fd: i32) -> Option<&'static LoopConnection> {
    WATCHES.find(fd).filter(|connection| {
        connection.session_id.load(Ordering::Acquire) != 0 && !DISOWNED.load(Ordering::Relaxed)
    })
}

pub(super) fn find(fd: i32) -> Option<&'static LoopConnection> {
    WATCHES.find(fd)
}

pub(super) fn find_or_make(fd: i32) -> Option<&'static LoopConnection> {
    WATCHES.find_or_make(fd)
}

/// The connection of a session of this process.
pub(super) fn of_session(session_id: u32) -> Option<(i32, &'static LoopConnection)> {
    let fd = DESCRIPTOR_OF.get(session_id as usize)?.load(Ordering::Acquire) - 1;
    let connection = client(fd)?;
    (connection.session_id() == Some(session_id)).then_some((fd, connection))
}

/// The client that a real registration's data stands for. `None` inside if the registration is
/// out of date: the kernel reported it before the server made another, and will report again.
pub(super) fn tagged(data: u64) -> Option<Option<(i32, &'static LoopConnection)>> {
    if data >> 32 != TAG {
        return None;
    }
    let fd = (data & (DESCRIPTORS as u64 - 1)) as i32;
    Some(
        client(fd)
            .filter(|connection| connection.tag(fd) == data)
            .map(|connection| (fd, connection)),
    )
}

/// What a server asked for of a descriptor: set, events, data.
pub(super) type Asked = (i32, u32, u64);

impl LoopConnection {
    pub(super) fn session_id(&self) -> Option<u32> {
        self.session_id.load(Ordering::Acquire).checked_sub(1)
    }

    /// Begins a new connection; `false` if a thread still uses the previous one.
    #[inline(never)] // what it copies is gone from the stack when it returns
    pub(super) fn begin(&self, fd: i32, session_id: u32, protocol: Protocol) -> bool {
        let Some(used) = self.use_soon() else { return false };
        let inner = Inner {
            framing: Framing::of(protocol),
            declared: DeclaredLock::Nothing,
            wait: Wait::NONE,
            waiting: false,
            peeked: false,
            admitted: Nanos(0),
            seen: (0, 0),
            classified: None,
            paused: false,
            unanswered: 0,
        };
        let elsewhere = matches!(inner.framing, Framing::Elsewhere);
        // SAFETY: this thread uses the entry; what was there needs no destructor.
        unsafe { (*used.0.inner.get()).write(inner) };
        self.ready.store(0, Ordering::Relaxed);
        self.left_alone.store(false, Ordering::Relaxed);
        self.set_channel(Channel::Socket);
        self.elsewhere.store(elsewhere, Ordering::Relaxed);
        if let Some(queue_state) = DESCRIPTOR_OF.get(session_id as usize) {
            queue_state.store(fd + 1, Ordering::Release);
        }
        self.session_id.store(session_id + 1, Ordering::Release);
        true
    }

    /// Ends the connection and returns its session; of several callers one gets it.
    pub(super) fn end(&self) -> Option<u32> {
        let session_id = self.session_id.swap(0, Ordering::AcqRel).checked_sub(1)?;
        if let Some(queue_state) = DESCRIPTOR_OF.get(session_id as usize) {
            queue_state.store(0, Ordering::Release);
        }
        Some(session_id)
    }

    /// Exclusive use; `None` if another thread uses it.
    pub(super) fn try_use(&self) -> Option<Use<'_>> {
        // Lazily: a guard that is made and thrown away would end the use that is under way.
        (!self.busy.swap(true, Ordering::Acquire)).then(|| Use(self))
    }

    /// Whether a thread uses it.
    pub(super) fn is_in_use(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Exclusive use; `None` if another thread uses it and does not leave at once, as it does
    /// unless it has lost its processor.
    pub(super) fn use_soon(&self) -> Option<Use<'_>> {
        self.try_use().or_else(|| {
            (0..SPINS).find_map(|_| {
                core::hint::spin_loop();
                if self.is_in_use() { None } else { self.try_use() }
            })
        })
    }

    /// The same for a caller that cannot retry later: waits, but not for long, until the other
    /// thread is back on a processor.
    #[cold]
    pub(super) fn use_later(&self) -> Option<Use<'_>> {
        // Of such a connection, the other thread may wait for its turn.
        if self.is_blocking() {
            return None;
        }
        let begun = clock::now();
        while clock::now().since(begun) < TIMEOUT {
            // SAFETY: takes nothing.
            keeping_errno(|| unsafe { libc::sched_yield() });
            if let Some(used) = self.use_soon() {
                return Some(used);
            }
        }
        None
    }

    /// What the server asked for, of which set.
    pub(super) fn asked(&self) -> Option<Asked> {
        let set = self.set.load(Ordering::Acquire) - 1;
        (set >= 0).then(|| (set, self.events(), self.data.load(Ordering::Acquire)))
    }

    pub(super) fn events(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }

    /// Writes down what the server asks for; `None` once it is out of its set.
    pub(super) fn note_asked(&self, asked: Option<Asked>, tagged: bool) {
        let (set, events, data) = asked.unwrap_or((-1, 0, 0));
        self.asked.store(events, Ordering::Release);
        self.data.store(data, Ordering::Release);
        self.tagged.store(tagged, Ordering::Release);
        self.set.store(set + 1, Ordering::Release);
    }

    /// Begins another registration; the count is what [`LoopConnection::undo_registration`] takes.
    pub(super) fn next_registration(&self) -> (u32, bool) {
        let before = self.registrations.load(Ordering::Relaxed);
        let told = self.told.load(Ordering::Relaxed);
        self.registrations.store(before.wrapping_add(1), Ordering::Release);
        self.told.store(false, Ordering::Release);
        (before, told)
    }

    /// The kernel refused it.
    pub(super) fn undo_registration(&self, (count, told): (u32, bool)) {
        self.registrations.store(count, Ordering::Release);
        self.told.store(told, Ordering::Release);
    }

    /// Data of the real registration.
    pub(super) fn tag(&self, fd: i32) -> u64 {
        let count = self.registrations.load(Ordering::Acquire) & (u32::MAX >> FD_BITS);
        TAG << 32 | u64::from(count << FD_BITS) | u64::from(fd as u32)
    }

    /// A one-shot registration was told of already.
    pub(super) fn was_told(&self) -> bool {
        self.events() & libc::EPOLLONESHOT as u32 != 0 && self.told.load(Ordering::Acquire)
    }

    /// The server is about to be told; `false` if a one-shot registration was told of already, by
    /// another thread.
    pub(super) fn tell(&self) -> bool {
        let one_shot = self.events() & libc::EPOLLONESHOT as u32 != 0;
        !(one_shot && self.told.swap(true, Ordering::AcqRel))
    }

    pub(super) fn is_tagged(&self) -> bool {
        self.tagged.load(Ordering::Acquire)
    }

    pub(super) fn queue_state(&self) -> QueueState {
        QueueState::from_byte(self.queue_state.load(Ordering::Relaxed))
    }

    pub(super) fn set_queue_state(&self, queue_state: QueueState) {
        self.queue_state.store(queue_state as u8, Ordering::Relaxed);
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere.load(Ordering::Relaxed)
    }

    pub(super) fn is_left_alone(&self) -> bool {
        self.left_alone.load(Ordering::Relaxed)
    }

    /// Whether its events pass whatever the policy says.
    pub(super) fn is_ungated(&self) -> bool {
        self.is_left_alone() || self.channel() == Channel::Handshake
    }

    pub(super) fn channel(&self) -> Channel {
        match self.channel.load(Ordering::Relaxed) {
            1 => Channel::Handshake,
            2 => Channel::Library,
            _ => Channel::Socket,
        }
    }

    pub(super) fn set_channel(&self, channel: Channel) {
        self.channel.store(channel as u8, Ordering::Relaxed);
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    pub(super) fn stop_following(&self) {
        self.left_alone.store(true, Ordering::Relaxed);
    }

    /// The kernel reported these events.
    pub(super) fn note_ready(&self, events: u32) {
        let before = self.ready.load(Ordering::Relaxed);
        // A report is complete at its time.
        let told = (before & !0xFFFF).wrapping_add(1 << 16) | events & 0xFFFF;
        self.ready.store(told, Ordering::Release);
    }

    /// What the kernel reported, as a mark for [`LoopConnection::emptied`].
    pub fn readiness(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    /// Events that the kernel reported and no read consumed.
    pub(super) fn ready(&self) -> u32 {
        self.readiness() & 0xFFFF
    }

    /// A read that began at the mark has consumed all bytes. Does nothing if the kernel has
    /// reported more since.
    pub fn emptied(&self, mark: u32) {
        let hung_up = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        if mark & 0xFFFF != 0 && mark & hung_up == 0 {
            let _ = self.ready.compare_exchange(
                mark,
                mark & !0xFFFF,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// The kernel says that there is nothing.
    pub(super) fn found_empty(&self, mark: u32) {
        let _ =
            self.ready.compare_exchange(mark, mark & !0xFFFF, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Exclusive use of an entry, until dropped.
#[derive(Debug)]
pub(super) struct Use<'a>(&'a LoopConnection);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl Use<'_> {
    /// The inner part; `None` if there is no session (any more), for whom it was written.
    pub(super) fn inner(&mut self) -> Option<&mut Inner> {
        self.0.session_id()?;
        // SAFETY: there is a session, so `begin` has written it; a `Use` excludes all others.
        Some(unsafe { (*self.0.inner.get()).assume_init_mut() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_used_by_one_at_a_time() {
        let connection = find_or_make(70_001).unwrap();
        let first = connection.try_use().unwrap();
        assert!(connection.try_use().is_none());
        assert!(connection.try_use().is_none(), "the refusal changed nothing");
        drop(first);
        assert!(connection.try_use().is_some());
    }
}
