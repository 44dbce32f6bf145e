//! One entry for each client connection of this process, found by its descriptor.
//!
//! The table is filled in chunks. They come from the kernel when a connection is accepted, and stay
//! for the life of the process. So a look-up is two loads and never meets freed memory. One thread
//! at a time uses an entry. The databases that we know work like that, but nothing depends on it: a
//! thread that finds the entry in use passes, and is counted.

use crate::biased_lock::{BiasedLock, Entry, Ownership};
use crate::channel::Channel;
use crate::declared_locks::DeclaredLock;
use crate::early::EarlyReads;
use crate::generic;
use crate::holding::Holding;
use crate::mysql::Session;
use crate::process;
use crate::traffic::Traffic;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;

/// Descriptors that can be followed; a connection with a larger one passes, and is counted.
pub const DESCRIPTORS: usize = 1 << 17;

const CHUNK: usize = 64;

/// What the server does for a connection at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Work {
    /// Nothing: it waits for a request, or logs the client in.
    None = 0,
    /// A request that was admitted and is measured.
    Admitted = 1,
    /// A request that always passes.
    Passed = 2,
}

/// What is known of a connection, private to this process.
#[derive(Debug)]
#[repr(C)]
pub struct Inner {
    /// Time that the current request waited in the gate.
    pub wait: Nanos,
    /// When it was admitted.
    pub admitted: Nanos,
    /// Whose connection it is.
    pub session_id: Option<u32>,
    /// The identity by which it got its class (`Session::identity_number`), if it has one.
    pub classified: Option<u8>,
    /// It bypasses the gate from here on, and the bypass was counted.
    pub left_alone: bool,
    /// What follows the conversation.
    pub framing: Framing,
    /// Where its bytes are seen.
    pub channel: Channel,
    /// Locks that it holds by the profile's keywords.
    pub declared: DeclaredLock,
    /// State of the conversation.
    pub session: Session,
    /// State of the conversation under generic framing.
    pub generic: generic::Session,
    /// Bytes that went through the hooks, under generic framing.
    pub traffic: Traffic,
}

/// What follows a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Framing {
    /// The protocol of MySQL and MariaDB.
    #[default]
    MySql = 0,
    /// Data that arrives after an answer is a request.
    Generic = 1,
}

impl Inner {
    /// Whether the conversation is in MySQL's protocol and seen at the socket, as nearly all are.
    pub fn is_plain(&self) -> bool {
        self.framing == Framing::MySql && self.channel == Channel::Socket
    }

    /// Whether the server, if it reads now, reads a new request.
    pub fn at_boundary(&self) -> bool {
        match self.framing {
            Framing::MySql => self.session.at_boundary(),
            Framing::Generic => self.generic.at_boundary(),
        }
    }

    /// What the connection is estimated to hold.
    pub fn holding(&self) -> Holding {
        let named = self.declared.held();
        self.session.holding().with_if(Holding::NAMED_LOCK, named)
    }

    const fn new() -> Self {
        Inner {
            wait: Nanos(0),
            admitted: Nanos(0),
            session_id: None,
            classified: None,
            left_alone: false,
            framing: Framing::MySql,
            channel: Channel::Socket,
            declared: DeclaredLock::Nothing,
            session: Session::new(),
            generic: generic::Session::new(),
            traffic: Traffic::of(-1),
        }
    }
}

/// An entry of the table. Its first cache line has all that the hooks check before they know that
/// there is work, and all of `Inner` but the session.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Conn {
    session_id: AtomicU32,
    /// A packet's header that came alone and was not yet shown to the session; zero for none.
    /// MariaDB reads each header by its own call. Keeping it makes that call nearly free.
    header: AtomicU32,
    work: AtomicU8,
    anticipating: AtomicBool,
    /// The next byte from the client begins a command's packet.
    at_start: AtomicBool,
    /// Its session may hold a permit that could be lent while the server sleeps.
    lendable: AtomicBool,
    early: EarlyReads,
    /// Generic framing follows the bytes of the socket.
    generic: AtomicBool,
    /// The TLS library reads and writes the socket's bytes.
    in_library: AtomicBool,
    /// An operation on it failed: it is no longer followed.
    abandoned: AtomicBool,
    /// Session of a connection that was closed while its thread was in an operation, plus one.
    orphan: AtomicU32,
    /// How long the arriving request waited until its event was delivered, in microseconds.
    waited_us: AtomicU32,
    biased_lock: BiasedLock,
    inner: UnsafeCell<Inner>,
    /// Bytes that other threads sent while this connection's thread was in an operation.
    strayed: AtomicU64,
}

const _: () = {
    let session = core::mem::offset_of!(Conn, inner) + core::mem::offset_of!(Inner, session);
    assert!(session == 64, "the session's hot parts share no cache line with another's");
};

// SAFETY: `inner` is only reached through `Use`, of which there is one at a time (`biased_lock`).
unsafe impl Sync for Conn {}

/// Exclusive use of an entry, until dropped.
#[derive(Debug)]
pub struct Use<'a> {
    conn: &'a Conn,
    way: Entry,
}

impl Conn {
    const fn new() -> Self {
        Conn {
            session_id: AtomicU32::new(0),
            header: AtomicU32::new(0),
            work: AtomicU8::new(0),
            anticipating: AtomicBool::new(false),
            at_start: AtomicBool::new(false),
            lendable: AtomicBool::new(false),
            early: EarlyReads::new(),
            generic: AtomicBool::new(false),
            in_library: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            orphan: AtomicU32::new(0),
            waited_us: AtomicU32::new(0),
            biased_lock: BiasedLock::new(),
            inner: UnsafeCell::new(Inner::new()),
            strayed: AtomicU64::new(0),
        }
    }

    /// The session of this connection, if it has one.
    pub fn session_id(&self) -> Option<u32> {
        self.session_id.load(Ordering::Acquire).checked_sub(1)
    }

    /// Whether the bytes of its socket are to be followed.
    pub fn is_followed(&self) -> bool {
        self.session_id.load(Ordering::Acquire) != 0
            && !self.in_library.load(Ordering::Relaxed)
            && !self.is_abandoned()
    }

    /// Whether generic framing follows the bytes of its socket.
    pub fn is_generic(&self) -> bool {
        self.generic.load(Ordering::Relaxed)
    }

    /// Whether an operation on it failed.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// An operation on it failed: it is no longer followed.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.set_work(Work::None);
        self.set_anticipating(false);
        self.set_lendable(false);
    }

    /// Notes that another thread sent this many bytes while the entry was in use.
    pub fn note_strayed(&self, bytes: usize) {
        self.strayed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that other threads sent while the entry was in use.
    pub fn strayed(&self) -> u64 {
        self.strayed.load(Ordering::Relaxed)
    }

    /// What the server does for the connection. It lies outside the exclusive part, as most calls
    /// only check that it is nothing.
    pub fn work(&self) -> Work {
        match self.work.load(Ordering::Relaxed) {
            1 => Work::Admitted,
            2 => Work::Passed,
            _ => Work::None,
        }
    }

    /// Sets what the server does; only for the thread that serves the connection.
    pub fn set_work(&self, work: Work) {
        self.work.store(work as u8, Ordering::Relaxed);
    }

    /// Whether the permit is kept after the end of a request, because the next one is expected
    /// soon.
    pub fn anticipating(&self) -> bool {
        self.anticipating.load(Ordering::Relaxed)
    }

    /// Sets it; only for the thread that serves the connection.
    pub fn set_anticipating(&self, anticipating: bool) {
        self.anticipating.store(anticipating, Ordering::Relaxed);
    }

    /// Whether the session may hold a permit that could be lent while the server sleeps. The region
    /// has the exact answer. Most sleeping sessions have no permit and need not ask it.
    pub fn lendable(&self) -> bool {
        self.lendable.load(Ordering::Relaxed)
    }

    /// Sets it; only for the thread that serves the connection.
    pub fn set_lendable(&self, lendable: bool) {
        self.lendable.store(lendable, Ordering::Relaxed);
    }

    /// What the server's reads right after an answer found, if the next byte begins a request that
    /// is not encrypted. Otherwise no read is elided.
    pub fn early_reads(&self) -> Option<&EarlyReads> {
        let fresh =
            self.at_start.load(Ordering::Relaxed) && self.header.load(Ordering::Relaxed) == 0;
        fresh.then_some(&self.early)
    }

    /// Notes how long the arriving request waited until a thread of a pool learned of it.
    pub fn set_waited(&self, waited: Nanos) {
        let us = u32::try_from(waited.0 / 1_000).unwrap_or(u32::MAX);
        self.waited_us.store(us, Ordering::Relaxed);
    }

    /// That time, once.
    pub fn take_waited(&self) -> Nanos {
        let us = self.waited_us.load(Ordering::Relaxed);
        if us != 0 {
            self.waited_us.store(0, Ordering::Relaxed);
        }
        Nanos::from_micros(u64::from(us))
    }

    /// Keeps a header for later; returns whether it did. Four bytes are a header only where a
    /// packet begins. Four bytes of a body may be a whole request, which must be seen when it
    /// comes. So must a header without a body. Only for the thread that serves the connection.
    pub fn keep_header(&self, header: [u8; 4]) -> bool {
        let keep = self.at_start.load(Ordering::Relaxed)
            && self.header.load(Ordering::Relaxed) == 0
            && header != [0; 4];
        if keep {
            self.header.store(u32::from_le_bytes(header), Ordering::Relaxed);
        }
        keep
    }

    /// Takes the entry. `None` if another thread uses it, or if a signal interrupted this thread
    /// while it did.
    pub fn try_use(&self) -> Option<Use<'_>> {
        let mut inner = self.try_use_before_header()?;
        if let Some(header) = inner.take_header() {
            inner.session.client_bytes(&header);
        }
        Some(inner)
    }

    /// As [`Conn::try_use`], but a kept header was not yet shown to the session. The caller must
    /// take it ([`Use::take_header`]).
    pub fn try_use_before_header(&self) -> Option<Use<'_>> {
        let way = self.biased_lock.enter();
        if way.is_none() {
            self.settle_orphan();
        }
        way.map(|way| Use { conn: self, way })
    }

    /// Ends the entry's connection. `gone` gets the session once no thread acts for it any more:
    /// now, or when the current operation ends. Of several callers, one ends it.
    pub fn end(&self, gone: impl FnOnce(u32)) {
        let Some(session_id) = self.session_id.swap(0, Ordering::AcqRel).checked_sub(1) else {
            return;
        };
        if let Some(mut inner) = self.try_use() {
            inner.session_id = None;
            inner.leave(Ownership::GiveUp);
            core::mem::forget(inner);
            gone(session_id);
            return;
        }
        self.orphan.store(session_id + 1, Ordering::SeqCst);
        // The thread may have left before it could see the note.
        if !self.biased_lock.occupied()
            && let Some(session_id) = self.take_orphan()
        {
            gone(session_id);
        }
    }

    fn take_orphan(&self) -> Option<u32> {
        if self.orphan.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.orphan.swap(0, Ordering::SeqCst).checked_sub(1)
    }

    /// Gives back what a connection held that another thread closed. A thread that still uses the
    /// entry does it itself.
    #[cold]
    fn settle_orphan(&self) {
        if self.orphan.load(Ordering::SeqCst) == 0 || self.biased_lock.occupied() {
            return;
        }
        if let Some(session_id) = self.take_orphan()
            && let Some(region) = process::region()
        {
            region.unregister(session_id);
        }
    }
}

impl Use<'_> {
    /// The kept header, if there is one.
    pub fn take_header(&mut self) -> Option<[u8; 4]> {
        let header = self.conn.header.load(Ordering::Relaxed);
        if header == 0 {
            return None;
        }
        self.conn.header.store(0, Ordering::Relaxed);
        Some(header.to_le_bytes())
    }

    /// Tells the hooks what to do with the bytes of the socket. To be called after each change of
    /// framing or channel.
    pub fn note_channel(&self) {
        let generic = self.framing == Framing::Generic && self.channel == Channel::Socket;
        self.conn.generic.store(generic, Ordering::Relaxed);
        self.conn.in_library.store(self.channel == Channel::Library, Ordering::Relaxed);
    }

    /// Begins a new connection.
    #[inline(never)] // what it copies is gone from the stack when it returns
    pub fn begin(&mut self, session_id: u32) {
        **self = Inner::new();
        self.session_id = Some(session_id);
        self.conn.set_work(Work::None);
        self.conn.set_anticipating(false);
        self.conn.set_lendable(false);
        self.conn.early.forget();
        self.conn.strayed.store(0, Ordering::Relaxed);
        self.conn.abandoned.store(false, Ordering::Relaxed);
        self.note_channel();
        self.conn.header.store(0, Ordering::Relaxed);
        self.conn.session_id.store(session_id + 1, Ordering::Release);
    }

    fn leave(&self, ownership: Ownership) {
        let conn = self.conn;
        // Four bytes are a packet's header only in this protocol.
        let at_start = ownership == Ownership::Take && self.is_plain();
        conn.at_start.store(at_start, Ordering::Relaxed);
        conn.biased_lock.leave(self.way, ownership);
        // Another thread closed the connection meanwhile: this thread gives back what it held.
        if conn.orphan.load(Ordering::SeqCst) != 0 {
            conn.settle_orphan();
        }
    }
}

impl core::ops::Deref for Use<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        // SAFETY: a `Use` excludes all others.
        unsafe { &*self.conn.inner.get() }
    }
}

impl core::ops::DerefMut for Use<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: a `Use` excludes all others.
        unsafe { &mut *self.conn.inner.get() }
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // The thread that logs the client in goes on to serve it.
        let ownership = if self.at_boundary() { Ownership::Take } else { Ownership::Keep };
        self.leave(ownership);
    }
}

struct Chunk([Conn; CHUNK]);

static CHUNKS: [AtomicPtr<Chunk>; DESCRIPTORS / CHUNK] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; DESCRIPTORS / CHUNK];

/// The entry of a descriptor, if its chunk exists.
pub fn find(fd: i32) -> Option<&'static Conn> {
    let fd = usize::try_from(fd).ok()?;
    let chunk = CHUNKS.get(fd / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: a chunk that was published is initialised and never freed.
    (!chunk.is_null()).then(|| unsafe { &(*chunk).0[fd % CHUNK] })
}

/// The entry of a descriptor; makes its chunk if needed. `None` if the descriptor is beyond the
/// table or the kernel has no memory.
pub fn find_or_make(fd: i32) -> Option<&'static Conn> {
    find(fd).or_else(|| make(fd))
}

#[cold]
fn make(fd: i32) -> Option<&'static Conn> {
    let place = CHUNKS.get(usize::try_from(fd).ok()? / CHUNK)?;
    let bytes = size_of::<Chunk>();
    // SAFETY: asks for fresh private memory.
    let fresh = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if fresh == libc::MAP_FAILED {
        return None;
    }
    let chunk = fresh.cast::<Chunk>();
    for at in 0..CHUNK {
        // SAFETY: the memory is ours alone, page aligned and large enough.
        unsafe {
            (&raw mut (*chunk).0[at]).write(Conn::new());
        }
    }
    let null = core::ptr::null_mut();
    if place.compare_exchange(null, chunk, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was faster, and no thread has seen this memory.
        unsafe { libc::munmap(fresh, bytes) };
    }
    find(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_used_by_one_at_a_time() {
        let conn = find_or_make(70_001).unwrap();
        let mut first = conn.try_use().unwrap();
        assert!(conn.try_use().is_none());
        assert!(conn.try_use().is_none(), "the refusal changed nothing");
        first.begin(7);
        drop(first);
        assert!(conn.try_use().is_some());
        assert_eq!(find(70_001).unwrap().session_id(), Some(7));
        let gone = core::cell::Cell::new(None);
        conn.end(|session_id| gone.set(Some(session_id)));
        assert_eq!(gone.take(), Some(7));
        conn.end(|session_id| gone.set(Some(session_id)));
        assert_eq!(gone.take(), None, "it has ended already");
    }

    #[test]
    fn a_connection_that_is_closed_in_the_middle_of_an_operation_ends_with_it() {
        let conn = find_or_make(70_002).unwrap();
        conn.try_use().unwrap().begin(9);
        let inner = conn.try_use().unwrap();
        let gone = core::cell::Cell::new(None);
        conn.end(|session_id| gone.set(Some(session_id)));
        assert_eq!(gone.take(), None, "its thread still acts for it");
        assert_eq!(conn.session_id(), None, "but no new caller finds it");
        assert_eq!(conn.orphan.load(Ordering::SeqCst), 10);
        drop(inner);
        assert_eq!(conn.orphan.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn four_bytes_are_kept_as_a_header_only_where_a_packet_begins() {
        let packet = |sequence: u8, body: &[u8]| {
            let mut packet = vec![body.len() as u8, 0, 0, sequence];
            packet.extend_from_slice(body);
            packet
        };
        let conn = find_or_make(70_003).unwrap();
        let mut inner = conn.try_use().unwrap();
        inner.begin(3);
        let mut greeting = b"\x0a10.11.0\0\x01\0\0\0saltsalt\0".to_vec();
        greeting.extend_from_slice(&[0x00, 0x82, 8, 2, 0, 0, 0, 21]);
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"moresaltmore\0");
        inner.session.server_bytes(&packet(0, &greeting));
        drop(inner);
        assert!(!conn.keep_header([1, 0, 0, 1]), "the login is followed byte by byte");
        let mut inner = conn.try_use().unwrap();
        let mut login = vec![0x00, 0x82, 0, 0, 0, 0, 0, 1, 8];
        login.extend_from_slice(&[0; 23]);
        login.extend_from_slice(b"app\0\0");
        inner.session.client_bytes(&packet(1, &login));
        inner.session.server_bytes(&packet(2, &[0, 0, 0, 2, 0, 0, 0]));
        assert!(inner.session.at_boundary());
        drop(inner);
        assert!(!conn.keep_header([0; 4]), "a packet without a body is complete");
        assert!(conn.keep_header([4, 0, 0, 0]));
        assert!(!conn.keep_header([3, b'D', b'O', b' ']), "this is the body");
        drop(conn.try_use());
        assert!(!conn.keep_header([3, b'D', b'O', b' ']), "the session has the header by now");
        // A header that came in two parts: the four bytes behind it are the request.
        let mut inner = conn.try_use().unwrap();
        inner.session.client_bytes(b"\x0eaaa");
        inner.session.server_bytes(&packet(1, &[0, 0, 0, 2, 0, 0, 0]));
        assert!(inner.session.at_boundary());
        inner.session.client_bytes(&[4]);
        inner.session.client_bytes(&[0, 0, 0]);
        drop(inner);
        assert!(!conn.keep_header([0x17, 1, 0, 0]));
    }

    #[test]
    fn descriptors_beyond_the_table_have_no_entry() {
        assert!(find_or_make(-1).is_none());
        assert!(find_or_make(DESCRIPTORS as i32).is_none());
        assert!(find(100_000).is_none());
    }
}
