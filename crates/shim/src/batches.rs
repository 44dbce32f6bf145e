//! The hooks of calls that submit I/O in batches: libaio's, liburing's, and the bare `syscall`.
//!
//! A call of libaio is held before it is made. I/O in rings of `io_uring` is charged and never
//! held, since the kernel may take it from a ring at any time.

use crate::real;
use crate::{files, locks};
use core::ffi::{c_char, c_void};
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::files::{self as ops, batch, batch::Part};
use headworks_region::io::CallKind;
use headworks_region::thread;
use libc::{c_int, c_long, c_uint, iovec};

/// What the kernel reads of a request of `io_submit` (linux/aio_abi.h).
#[derive(Clone, Copy)]
#[repr(C)]
struct Request {
    data: u64,
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
}

/// Where the flags of a write are (`RWF_…`).
const FLAGS: usize = if cfg!(target_endian = "little") { 1 } else { 0 };

/// The write is durable when it ends.
const DURABLE: u32 = (libc::RWF_DSYNC | libc::RWF_SYNC) as u32;

impl Request {
    /// # Safety
    /// The request is one that the kernel may read, with its buffers.
    unsafe fn part(&self) -> Option<Part> {
        let kind = match self.opcode {
            0 | 7 => CallKind::Read,
            1 | 8 => CallKind::Write,
            2 | 3 => CallKind::Fsync,
            _ => return None,
        };
        let bytes = match self.opcode {
            7 | 8 => {
                let count = c_int::try_from(self.bytes).unwrap_or(0);
                // SAFETY: the caller's duty.
                unsafe { files::length(self.buffer as *const iovec, count) as u64 }
            }
            0 | 1 => self.bytes,
            _ => 0,
        };
        let commits = self.key_and_flags[FLAGS] & DURABLE != 0;
        Some(Part { kind, fd: self.fd as c_int, offset: self.offset, bytes, commits })
    }
}

/// The parts of a batch.
///
/// # Safety
/// `requests` are `count` pointers to requests, or null.
unsafe fn parts(count: c_long, requests: *const *const Request) -> impl Iterator<Item = Part> {
    let count = if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    (0..count).filter_map(move |at| {
        // SAFETY: the caller's duty.
        unsafe { (*requests.add(at)).as_ref().and_then(|request| request.part()) }
    })
}

/// # Safety
/// As `io_submit`.
unsafe fn submitting(
    count: c_long,
    requests: *const *const Request,
    real: impl FnOnce() -> c_long,
) -> c_long {
    if !ops::is_on() {
        return real();
    }
    // SAFETY: the requests are the caller's.
    guarded_under_io(|| batch::before(unsafe { parts(count, requests) }));
    let taken = real();
    if taken > 0 {
        // SAFETY: as above; the kernel has read the first of them.
        guarded_under_io(|| batch::after(unsafe { parts(taken, requests) }));
    }
    taken
}

/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_submit(
    context: *mut c_void,
    count: c_long,
    requests: *const *const c_void,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let real = || c_long::from(real::io_submit(context, count, requests));
        submitting(count, requests.cast(), real) as c_int
    }
}

/// The part of liburing's ring that programs compile in: its queue of submissions.
#[repr(C)]
struct Ring {
    head: *const c_uint,
    tail: *const c_uint,
    mask: *const c_uint,
    unused: [*const c_uint; 4],
    entries: *const Entry,
    /// Entries from here on are not submitted,
    first: c_uint,
    /// and from here on not filled.
    end: c_uint,
}

/// An entry of that queue (linux/io_uring.h).
#[repr(C)]
struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    buffer: u64,
    len: u32,
    rest: [u32; 9],
}

/// The entry's descriptor is an index of registered ones.
const FIXED_FILE: u8 = 1;

/// Rings that a thread of the kernel empties, and rings with larger entries.
const UNREADABLE: c_uint = 1 << 1 | 1 << 10;

impl Entry {
    /// # Safety
    /// The entry is one that the kernel may read, with its buffers.
    unsafe fn part(&self) -> Option<Part> {
        let kind = match self.opcode {
            1 | 4 | 22 => CallKind::Read,
            2 | 5 | 23 => CallKind::Write,
            3 => CallKind::Fsync,
            _ => return None,
        };
        let bytes = match self.opcode {
            // SAFETY: the caller's duty.
            1 | 2 => unsafe {
                files::length(self.buffer as *const iovec, self.len as c_int) as u64
            },
            3 => 0,
            _ => self.len.into(),
        };
        let known = self.flags & FIXED_FILE == 0;
        let commits = kind == CallKind::Write && self.rest[0] & DURABLE != 0;
        known.then_some(Part { kind, fd: self.fd, offset: self.offset as i64, bytes, commits })
    }
}

/// Charges what is in the queue, and submits it.
///
/// # Safety
/// The ring is one of liburing's.
unsafe fn queued(ring: *const Ring, real: impl FnOnce() -> c_int) -> c_int {
    if ops::is_on() && batch::is_seen(ring.addr()) {
        guarded_under_io(|| {
            // SAFETY: the caller's duty; entries and mask are mapped as long as the ring lives.
            unsafe {
                let Some(ring) = ring.as_ref().filter(|ring| !ring.mask.is_null()) else { return };
                let mask = *ring.mask;
                let count = ring.end.wrapping_sub(ring.first).min(mask.wrapping_add(1));
                batch::unheld((0..count).filter_map(|at| {
                    let at = ring.first.wrapping_add(at) & mask;
                    (*ring.entries.add(at as usize)).part()
                }));
            }
        });
    }
    real()
}

/// Notes a ring if it was made, and if its entries can be read.
fn making(ring: *mut c_void, flags: c_uint, real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    if result >= 0 && flags & UNREADABLE == 0 && ops::is_on() {
        guarded_under_io(|| batch::ring_made(ring.addr()));
    }
    result
}

/// Declares liburing's functions, around which something is done.
macro_rules! rings {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $around:expr;)*) => {$(
        /// # Safety
        /// As liburing's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the arguments are the caller's.
            unsafe { $around(|| real::$name($($arg),*)) }
        }
    )*};
}

rings! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int =
        |real| making(ring, flags, real);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, settings: *mut [c_uint; 30]) -> c_int =
        |real| making(ring, settings.as_ref().map_or(0, |settings| settings[2]), real);
    io_uring_submit(ring: *mut c_void) -> c_int = |real| queued(ring.cast(), real);
    io_uring_submit_and_wait(ring: *mut c_void, count: c_uint) -> c_int =
        |real| queued(ring.cast(), real);
    io_uring_submit_and_get_events(ring: *mut c_void) -> c_int = |real| queued(ring.cast(), real);
    io_uring_submit_and_wait_timeout(
        ring: *mut c_void, done: *mut c_void, count: c_uint, time: *mut c_void, mask: *mut c_void
    ) -> c_int = |real| queued(ring.cast(), real);
}

/// # Safety
/// As liburing's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_exit(ring: *mut c_void) {
    guarded_under_io(|| batch::ring_ended(ring.addr()));
    // SAFETY: the argument is the caller's.
    unsafe { real::io_uring_queue_exit(ring) }
}

/// Files by the bare system call. The C library's function takes six arguments whatever the
/// program gave, and so does this one.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // Ours come from inside a hook, whose caller's stack may be small.
    if ops::is_on() && !thread::with(|words| words.in_hook.get()) {
        // SAFETY: the arguments are the caller's.
        unsafe { governed(number, [a, b, c, d, e, f]) }
    } else {
        // SAFETY: as above.
        unsafe { real::syscall(number, [a, b, c, d, e, f]) }
    }
}

/// # Safety
/// As `syscall`.
#[inline(never)]
unsafe fn governed(number: c_long, args: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, _] = args;
    // SAFETY: the arguments are the caller's.
    let real = || unsafe { real::syscall(number, args) };
    let narrow = || real() as c_int;
    let fd = a as c_int;
    let bytes = c as usize;
    match number {
        // SAFETY: the arguments are the caller's.
        libc::SYS_io_submit => unsafe { submitting(b, c as *const *const Request, real) },
        libc::SYS_pread64 => files::reading(fd, Some(d), || bytes, || real() as isize) as c_long,
        libc::SYS_pwrite64 => files::writing(fd, Some(d), || bytes, || real() as isize) as c_long,
        libc::SYS_fsync | libc::SYS_fdatasync => files::syncing(fd, narrow).into(),
        libc::SYS_ftruncate => files::truncating(fd, b, narrow).into(),
        libc::SYS_fallocate => files::allocating(fd, b as c_int, c, d, narrow).into(),
        libc::SYS_sync_file_range => files::sync_range(fd, b, c, d as c_uint, narrow).into(),
        libc::SYS_futex => locks::futex(a as usize, b as c_int, real),
        libc::SYS_renameat2 if e as c_uint & libc::RENAME_EXCHANGE == 0 => {
            let (from, to) = (b as *const c_char, d as *const c_char);
            // SAFETY: the arguments are the caller's.
            unsafe { files::renaming((fd, from), (c as c_int, to), narrow) }.into()
        }
        libc::SYS_copy_file_range => files::copying(c as c_int, e as usize, |len| {
            // SAFETY: the arguments are the caller's.
            let part = || unsafe { real::syscall(number, [a, b, c, d, len as c_long, args[5]]) };
            // SAFETY: as above.
            unsafe { files::positioned_write(c as c_int, d as *const i64, len, || part() as isize) }
        }) as c_long,
        libc::SYS_openat2 => {
            // SAFETY: what is to be opened is null, or the caller's.
            let flags = unsafe { (c as *const u64).as_ref() }.map_or(0, |flags| *flags as c_int);
            // SAFETY: the arguments are the caller's.
            unsafe { files::opening(fd, b as *const c_char, flags, narrow) }.into()
        }
        _ => real(),
    }
}
