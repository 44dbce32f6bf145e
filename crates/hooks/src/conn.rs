//! One entry for each client connection of this process, found by its descriptor.
//!
//! The table is filled in chunks that come from the kernel when a connection is accepted and stay
//! for the life of the process, so a look-up is two loads and never meets freed memory. An entry
//! is used by one thread at a time; that is how the databases we know work, but nothing is
//! assumed: whoever finds the entry busy passes through, and is counted.

use crate::mysql::Session;
use crate::process;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;

/// Descriptors that can be followed; a connection with a larger one passes, and is counted.
pub const DESCRIPTORS: usize = 1 << 17;

const CHUNK: usize = 64;

/// Set in a kept header.
const HEADER: u64 = 1 << 63;

/// What the server does for a connection at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
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
pub struct Inner {
    /// Whose connection it is.
    pub user: Option<u32>,
    /// Where the conversation stands.
    pub session: Session,
    /// The identity by which it got its class (`Session::identity_number`), if it has one.
    pub classified: Option<u8>,
    /// It is left alone from here on, and was counted for it.
    pub left_alone: bool,
    /// What the request in hand waited in the gate.
    pub wait: Nanos,
    /// When it was admitted.
    pub admitted: Nanos,
}

impl Inner {
    const fn new() -> Self {
        Inner {
            user: None,
            session: Session::new(),
            classified: None,
            left_alone: false,
            wait: Nanos(0),
            admitted: Nanos(0),
        }
    }
}

/// An entry of the table. All zero bytes are an entry without a connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Conn {
    user: AtomicU32,
    work: AtomicU32,
    anticipating: AtomicBool,
    /// The next byte from the client begins a command's packet.
    at_start: AtomicBool,
    /// A packet's header that came alone, not yet shown to the session: bit 63 says that there is
    /// one. MariaDB reads each header by a call of its own, which then costs next to nothing.
    header: AtomicU64,
    /// User of a connection that was closed while its thread was in an operation, plus one.
    orphan: AtomicU32,
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is only reached through `Use`, of which there is one at a time (`busy`).
unsafe impl Sync for Conn {}

/// Exclusive use of an entry, until dropped.
#[derive(Debug)]
pub struct Use<'a>(&'a Conn);

impl Conn {
    /// The user of this connection, if it has one.
    pub fn user(&self) -> Option<u32> {
        self.user.load(Ordering::Acquire).checked_sub(1)
    }

    /// What the server does for the connection. Outside the exclusive part, because most calls
    /// only want to know that it does nothing.
    pub fn work(&self) -> Work {
        match self.work.load(Ordering::Relaxed) {
            1 => Work::Admitted,
            2 => Work::Passed,
            _ => Work::None,
        }
    }

    /// Sets what the server does; only for the thread that serves the connection.
    pub fn set_work(&self, work: Work) {
        self.work.store(work as u32, Ordering::Relaxed);
    }

    /// The token is kept although the request has ended, because the next one is expected soon.
    pub fn anticipating(&self) -> bool {
        self.anticipating.load(Ordering::Relaxed)
    }

    /// Sets it; only for the thread that serves the connection.
    pub fn set_anticipating(&self, anticipating: bool) {
        self.anticipating.store(anticipating, Ordering::Relaxed);
    }

    /// Keeps a header for later; says whether it did. Four bytes are a header only where a packet
    /// begins: four bytes of a body may be a whole request, which must be seen when it comes.
    /// Only for the thread that serves the connection.
    pub fn keep_header(&self, header: [u8; 4]) -> bool {
        if !self.at_start.load(Ordering::Relaxed) || self.header.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.header.store(HEADER | u64::from(u32::from_le_bytes(header)), Ordering::Relaxed);
        true
    }

    /// Takes the entry, unless another thread has it or a signal interrupted whoever had it.
    pub fn try_use(&self) -> Option<Use<'_>> {
        // Lazily: a `Use` that is made and thrown away would free the entry of whoever has it.
        (!self.busy.swap(true, Ordering::Acquire)).then(|| {
            let mut inner = Use(self);
            let header = self.header.load(Ordering::Relaxed);
            if header != 0 {
                self.header.store(0, Ordering::Relaxed);
                inner.session.client_bytes(&(header as u32).to_le_bytes());
            }
            inner
        })
    }

    /// Ends the entry's connection; `gone` gets the user once its thread acts for it no more:
    /// now, or when the operation in which that thread is comes to its end. Of several callers
    /// one ends it.
    pub fn end(&self, gone: impl FnOnce(u32)) {
        let Some(user) = self.user.swap(0, Ordering::AcqRel).checked_sub(1) else { return };
        if let Some(mut inner) = self.try_use() {
            inner.user = None;
            drop(inner);
            gone(user);
            return;
        }
        self.orphan.store(user + 1, Ordering::SeqCst);
        // Its thread may have left between the two: then it has not seen the note.
        if !self.busy.load(Ordering::SeqCst)
            && let Some(user) = self.take_orphan()
        {
            gone(user);
        }
    }

    fn take_orphan(&self) -> Option<u32> {
        if self.orphan.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.orphan.swap(0, Ordering::SeqCst).checked_sub(1)
    }
}

impl Use<'_> {
    /// Begins a new connection.
    pub fn begin(&mut self, user: u32) {
        **self = Inner::new();
        self.user = Some(user);
        self.0.set_work(Work::None);
        self.0.set_anticipating(false);
        self.0.header.store(0, Ordering::Relaxed);
        self.0.user.store(user + 1, Ordering::Release);
    }
}

impl core::ops::Deref for Use<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        // SAFETY: `busy` is ours.
        unsafe { &*self.0.inner.get() }
    }
}

impl core::ops::DerefMut for Use<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: `busy` is ours.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.at_start.store(self.session.at_boundary(), Ordering::Relaxed);
        self.0.busy.store(false, Ordering::SeqCst);
        // Closed by another thread meanwhile: what it held is ours to give back.
        if let Some(user) = self.0.take_orphan()
            && let Some(region) = process::region()
        {
            region.unregister(user);
        }
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

/// The entry of a descriptor; makes its chunk if need be. `None` when the descriptor is beyond
/// the table or the kernel has no memory.
pub fn find_or_make(fd: i32) -> Option<&'static Conn> {
    if let Some(conn) = find(fd) {
        return Some(conn);
    }
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
            (&raw mut (*chunk).0[at]).write(Conn {
                user: AtomicU32::new(0),
                work: AtomicU32::new(0),
                anticipating: AtomicBool::new(false),
                at_start: AtomicBool::new(false),
                header: AtomicU64::new(0),
                orphan: AtomicU32::new(0),
                busy: AtomicBool::new(false),
                inner: UnsafeCell::new(Inner::new()),
            });
        }
    }
    let null = core::ptr::null_mut();
    if place.compare_exchange(null, chunk, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was faster, and nobody has seen this memory.
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
        assert_eq!(find(70_001).unwrap().user(), Some(7));
        let gone = core::cell::Cell::new(None);
        conn.end(|user| gone.set(Some(user)));
        assert_eq!(gone.take(), Some(7));
        conn.end(|user| gone.set(Some(user)));
        assert_eq!(gone.take(), None, "it has ended already");
    }

    #[test]
    fn a_connection_that_is_closed_in_the_middle_of_an_operation_ends_with_it() {
        let conn = find_or_make(70_002).unwrap();
        conn.try_use().unwrap().begin(9);
        let inner = conn.try_use().unwrap();
        let gone = core::cell::Cell::new(None);
        conn.end(|user| gone.set(Some(user)));
        assert_eq!(gone.take(), None, "its thread still acts for it");
        assert_eq!(conn.user(), None, "but nobody new finds it");
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
