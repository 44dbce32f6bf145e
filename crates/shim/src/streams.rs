//! The hooks of reading from and writing to clients by other calls than `recv` and `send`. For
//! files they lead to [`files`]; for every other descriptor they are the functions of the C
//! library.

use crate::files;
use crate::real;
use crate::receiving::{self, NOT_THE_STREAM, errno};
use core::ffi::c_void;
use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::conn::{self, Conn, Work};
use headworks_hooks::eventloop::{self, LoopConnection};
use headworks_hooks::threads;
use libc::{
    c_int, c_uint, iovec, loff_t, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
};

/// Whose stream goes through a descriptor.
#[derive(Clone, Copy)]
enum Stream {
    /// A client's of a server with a thread for each connection.
    Thread(&'static Conn, c_int),
    /// A client's of an event loop.
    Loop(&'static LoopConnection),
}

/// Buffers in which bytes are.
#[derive(Clone, Copy)]
enum Buffers {
    One(*const c_void, usize),
    Many(*const iovec, usize),
}

#[inline]
fn stream(fd: c_int) -> Option<Stream> {
    if let Some(connection) = eventloop::client(fd) {
        return Some(Stream::Loop(connection));
    }
    conn::find(fd).filter(|conn| conn.is_followed()).map(|conn| Stream::Thread(conn, fd))
}

impl Buffers {
    /// Of a message.
    ///
    /// # Safety
    /// The kernel has read the message.
    unsafe fn of(message: *const msghdr) -> Buffers {
        // SAFETY: the caller's duty.
        unsafe { Buffers::Many((*message).msg_iov, (*message).msg_iovlen) }
    }

    /// # Safety
    /// The kernel has read the parts.
    unsafe fn room(self) -> usize {
        match self {
            Buffers::One(_, len) => len,
            // SAFETY: the caller's duty.
            Buffers::Many(parts, len) => (0..len)
                .fold(0, |sum: usize, at| sum.saturating_add(unsafe { (*parts.add(at)).iov_len })),
        }
    }

    /// The parts that the first `count` bytes fill.
    ///
    /// # Safety
    /// They hold that many bytes.
    unsafe fn each(self, count: usize, mut work: impl FnMut(&[u8])) {
        let mut left = count;
        let mut part = |start: *const c_void, len: usize| {
            let filled = len.min(left);
            left -= filled;
            if filled > 0 {
                // SAFETY: the caller's duty.
                work(unsafe { core::slice::from_raw_parts(start.cast::<u8>(), filled) });
            }
            left > 0
        };
        match self {
            Buffers::One(start, len) => drop(part(start, len)),
            Buffers::Many(parts, len) => {
                for at in 0..len {
                    // SAFETY: the caller's duty; the kernel has read them, too.
                    let each = unsafe { *parts.add(at) };
                    if !part(each.iov_base, each.iov_len) {
                        return;
                    }
                }
            }
        }
    }
}

/// Reads from a client by `call`, into `buffers`.
///
/// # Safety
/// The call is one of the C library's that reads from the descriptor into the buffers, which are
/// the caller's.
unsafe fn read_by(
    stream: Stream,
    waits: bool,
    buffers: impl FnOnce() -> Buffers,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match stream {
        Stream::Loop(connection) => {
            let before = connection.readiness();
            let count = call();
            let Ok(filled) = usize::try_from(count) else {
                if errno() == libc::EAGAIN {
                    connection.emptied(before);
                }
                return count;
            };
            let buffers = buffers();
            // SAFETY: the kernel has read the buffers' places and written `filled` bytes, and no
            // more than fit, to them.
            unsafe {
                if filled > 0 && filled < buffers.room() {
                    connection.emptied(before);
                }
                buffers.each(filled, |bytes| {
                    guarded_keeping_errno(Of::Loop(connection), || {
                        eventloop::received(connection, bytes)
                    });
                });
            }
            count
        }
        Stream::Thread(conn, fd) => {
            if conn.work() != Work::None {
                guarded(Of::Thread(conn), || threads::about_to_receive(conn));
            }
            if waits {
                receiving::about_to_block(conn, fd);
            }
            let count = call();
            if !conn.is_followed() {
                return count;
            }
            match usize::try_from(count) {
                // SAFETY: as above.
                Ok(filled @ 1..) => unsafe {
                    buffers().each(filled, |bytes| receiving::received(conn, bytes));
                },
                // A read of nothing says nothing.
                // SAFETY: as above.
                Ok(_) if unsafe { buffers().room() } == 0 => {}
                _ => receiving::received_nothing(conn, count),
            }
            count
        }
    }
}

/// A call has written the first `count` bytes of the buffers to the descriptor.
///
/// # Safety
/// If `count` is positive, the buffers hold so many bytes.
unsafe fn written(fd: c_int, count: ssize_t, buffers: impl FnOnce() -> Buffers) {
    let Ok(count @ 1..) = usize::try_from(count) else { return };
    let Some(stream) = stream(fd) else { return };
    // SAFETY: the caller's duty.
    unsafe {
        buffers().each(count, |bytes| match stream {
            Stream::Loop(connection) => {
                guarded_keeping_errno(Of::Loop(connection), || eventloop::sent(connection, bytes));
            }
            Stream::Thread(conn, _) => guarded(Of::Thread(conn), || threads::sent(conn, bytes)),
        });
    }
}

/// The kernel has written so many bytes to the descriptor that never were in the program's memory.
fn written_unread(fd: c_int, count: ssize_t) {
    if let Ok(count @ 1..) = usize::try_from(count)
        && let Some(Stream::Thread(conn, _)) = stream(fd)
    {
        guarded_keeping_errno(Of::Thread(conn), || threads::sent_unread(conn, count));
    }
}

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { real::read(fd, buffer, len) };
    match stream(fd) {
        None => files::reading(fd, None, || len, call),
        // SAFETY: as above.
        Some(stream) => unsafe { read_by(stream, true, || Buffers::One(buffer, len), call) },
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { read(fd, buffer, len) }
}

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { real::readv(fd, parts, len) };
    // SAFETY: as above, and the kernel reads them, too.
    let bytes = || unsafe { files::length(parts, len) };
    // Not negative once the kernel has taken it.
    let buffers = || Buffers::Many(parts, usize::try_from(len).unwrap_or(0));
    match stream(fd) {
        None => files::reading(fd, None, bytes, call),
        // SAFETY: as above.
        Some(stream) => unsafe { read_by(stream, true, buffers, call) },
    }
}

/// `recv` from a client of an event loop.
///
/// # Safety
/// As the C library's function.
pub(crate) unsafe fn recv(
    connection: &'static LoopConnection,
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { real::recv(fd, buffer, len, flags) };
    if flags & NOT_THE_STREAM != 0 {
        return call();
    }
    // SAFETY: as above.
    unsafe { read_by(Stream::Loop(connection), false, || Buffers::One(buffer, len), call) }
}

/// `send` to a client of an event loop has taken so many bytes.
///
/// # Safety
/// `buffer` holds `count` bytes.
pub(crate) unsafe fn sent(
    connection: &'static LoopConnection,
    buffer: *const c_void,
    count: usize,
) {
    // SAFETY: the caller's duty.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
    guarded_keeping_errno(Of::Loop(connection), || eventloop::sent(connection, bytes));
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { real::recvfrom(fd, buffer, len, flags, addr, addr_len) };
    let waits = flags & libc::MSG_DONTWAIT == 0;
    match stream(fd).filter(|_| flags & NOT_THE_STREAM == 0) {
        None => call(),
        // SAFETY: as above.
        Some(stream) => unsafe { read_by(stream, waits, || Buffers::One(buffer, len), call) },
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { recvfrom(fd, buffer, len, flags, addr, addr_len) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { real::recvmsg(fd, message, flags) };
    let waits = flags & libc::MSG_DONTWAIT == 0;
    match stream(fd).filter(|_| flags & NOT_THE_STREAM == 0) {
        None => call(),
        // SAFETY: as above; the kernel has read the message when it is looked at.
        Some(stream) => unsafe { read_by(stream, waits, || Buffers::of(message), call) },
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let count = files::writing(fd, None, || len, || real::write(fd, buffer, len));
        written(fd, count, || Buffers::One(buffer, len));
        count
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t {
    // SAFETY: the arguments are the caller's; the length is not negative once the kernel has taken
    // it.
    unsafe {
        let bytes = || files::length(parts, len);
        let count = files::writing(fd, None, bytes, || real::writev(fd, parts, len));
        written(fd, count, || Buffers::Many(parts, usize::try_from(len).unwrap_or(0)));
        count
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the arguments are the caller's; the kernel has read the message when it is looked at.
    unsafe {
        let count = real::sendmsg(fd, message, flags);
        written(fd, count, || Buffers::of(message));
        count
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let count = real::sendto(fd, buffer, len, flags, addr, addr_len);
        written(fd, count, || Buffers::One(buffer, len));
        count
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    len: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are the caller's; the kernel has read and written the first `count`
    // messages.
    unsafe {
        let count = real::sendmmsg(fd, messages, len, flags);
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let each = &*messages.add(at);
            written(fd, each.msg_len as ssize_t, || Buffers::of(&raw const each.msg_hdr));
        }
        count
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    len: size_t,
) -> ssize_t {
    let count = files::copying(to, len, |len| {
        // SAFETY: the arguments are the caller's.
        files::writing(to, None, || len, || unsafe { real::sendfile(to, from, offset, len) })
    });
    written_unread(to, count);
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut loff_t,
    len: size_t,
) -> ssize_t {
    let count = files::copying(to, len, |len| {
        // SAFETY: the arguments are the caller's.
        files::writing(to, None, || len, || unsafe { real::sendfile64(to, from, offset, len) })
    });
    written_unread(to, count);
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut loff_t,
    to: c_int,
    to_at: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let count = unsafe {
        let call = || real::splice(from, from_at, to, to_at, len, flags);
        files::positioned_write(to, to_at, len, call)
    };
    written_unread(to, count);
    count
}
