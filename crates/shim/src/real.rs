//! The functions behind ours.
//!
//! They are looked up once, by the library's constructor. A call that comes before it, from the
//! constructor of another library, goes to the kernel directly.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{
    c_int, c_long, c_uint, epoll_event, iovec, loff_t, mmsghdr, msghdr, nfds_t, off_t, pollfd,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

/// A function of the next library in the search order.
pub(crate) struct Real(AtomicPtr<c_void>, &'static CStr);

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Real(AtomicPtr::new(core::ptr::null_mut()), name)
    }

    fn resolve(&self) {
        // SAFETY: the name is a C string; RTLD_NEXT asks behind this library.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.1.as_ptr()) };
        self.0.store(found, Ordering::Release);
    }

    fn get(&self) -> Option<*mut c_void> {
        let found = self.0.load(Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

static ACCEPT: Real = Real::new(c"accept");
static ACCEPT4: Real = Real::new(c"accept4");
static RECV: Real = Real::new(c"recv");
static SEND: Real = Real::new(c"send");
static POLL: Real = Real::new(c"poll");
static PPOLL: Real = Real::new(c"ppoll");
static EPOLL_CTL: Real = Real::new(c"epoll_ctl");
static EPOLL_WAIT: Real = Real::new(c"epoll_wait");
static EPOLL_CREATE: Real = Real::new(c"epoll_create");
static EPOLL_CREATE1: Real = Real::new(c"epoll_create1");
static EPOLL_PWAIT: Real = Real::new(c"epoll_pwait");
static EPOLL_PWAIT2: Real = Real::new(c"epoll_pwait2");
static READ: Real = Real::new(c"read");
static READV: Real = Real::new(c"readv");
static RECVFROM: Real = Real::new(c"recvfrom");
static RECVMSG: Real = Real::new(c"recvmsg");
static WRITE: Real = Real::new(c"write");
static WRITEV: Real = Real::new(c"writev");
static SENDMSG: Real = Real::new(c"sendmsg");
static SENDTO: Real = Real::new(c"sendto");
static SENDMMSG: Real = Real::new(c"sendmmsg");
static SENDFILE: Real = Real::new(c"sendfile");
static SENDFILE64: Real = Real::new(c"sendfile64");
static SPLICE: Real = Real::new(c"splice");
static SHUTDOWN: Real = Real::new(c"shutdown");
static CLOSE: Real = Real::new(c"close");
static CLOSE_RANGE: Real = Real::new(c"close_range");
static CLOSEFROM: Real = Real::new(c"closefrom");
static DUP2: Real = Real::new(c"dup2");
static DUP3: Real = Real::new(c"dup3");

/// Looks all of them up.
pub(crate) fn resolve_all() {
    for real in [
        &ACCEPT,
        &ACCEPT4,
        &RECV,
        &SEND,
        &POLL,
        &PPOLL,
        &EPOLL_CREATE,
        &EPOLL_CREATE1,
        &EPOLL_CTL,
        &EPOLL_WAIT,
        &EPOLL_PWAIT,
        &EPOLL_PWAIT2,
        &READ,
        &READV,
        &RECVFROM,
        &RECVMSG,
        &WRITE,
        &WRITEV,
        &SENDMSG,
        &SENDTO,
        &SENDMMSG,
        &SENDFILE,
        &SENDFILE64,
        &SPLICE,
        &SHUTDOWN,
        &CLOSE,
        &CLOSE_RANGE,
        &CLOSEFROM,
        &DUP2,
        &DUP3,
    ] {
        real.resolve();
    }
    files::resolve_all();
    locks::resolve_all();
    more::resolve_all();
}

/// Declares a caller of a real function, with a system call as what it falls back to.
macro_rules! real {
    ($(#[$doc:meta])* $name:ident = $real:ident or $call:expr; ($($arg:ident: $type:ty),*) -> $result:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the function of the C library.
        pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
            match $real.get() {
                // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
                Some(function) => unsafe {
                    core::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn($($type),*) -> $result,
                    >(function)($($arg),*)
                },
                // SAFETY: the caller's duty; `syscall` sets errno as the function would.
                None => unsafe { $call($($arg),*) as $result },
            }
        }
    };
}

real! {
    /// The real `accept`.
    accept = ACCEPT or |fd: c_int, addr: *mut sockaddr, len: *mut socklen_t| -> c_long {
        libc::syscall(libc::SYS_accept, fd, addr, len)
    };
    (fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int
}
real! {
    /// The real `accept4`.
    accept4 = ACCEPT4 or |fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_accept4, fd, addr, len, flags)
    };
    (fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int
}
real! {
    /// The real `recv`.
    recv = RECV or |fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_recvfrom, fd, buffer, len, flags, 0, 0)
    };
    (fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t
}
real! {
    /// The real `send`.
    send = SEND or |fd: c_int, buffer: *const c_void, len: size_t, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_sendto, fd, buffer, len, flags, 0, 0)
    };
    (fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t
}
real! {
    /// The real `poll`.
    poll = POLL or |fds: *mut pollfd, count: nfds_t, timeout_ms: c_int| -> c_long {
        let time = timespec {
            tv_sec: libc::time_t::from(timeout_ms / 1000),
            tv_nsec: c_long::from(timeout_ms % 1000) * 1_000_000,
        };
        let time = if timeout_ms < 0 { core::ptr::null() } else { &raw const time };
        libc::syscall(libc::SYS_ppoll, fds, count, time, 0, 8)
    };
    (fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int
}
real! {
    /// The real `ppoll`.
    ppoll = PPOLL or |fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t| -> c_long {
        // The kernel writes the remaining time back; the function does not.
        let mut copy = timeout.as_ref().copied();
        let timeout = copy.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut);
        libc::syscall(libc::SYS_ppoll, fds, count, timeout, mask, 8)
    };
    (fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int
}
real! {
    /// The real `epoll_ctl`.
    epoll_ctl = EPOLL_CTL or |set: c_int, op: c_int, fd: c_int, event: *mut epoll_event| -> c_long {
        libc::syscall(libc::SYS_epoll_ctl, set, op, fd, event)
    };
    (set: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int
}
real! {
    /// The real `epoll_wait`.
    epoll_wait = EPOLL_WAIT or |set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int| -> c_long {
        libc::syscall(libc::SYS_epoll_pwait, set, events, count, timeout_ms, 0, 8)
    };
    (set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int
}
real! {
    /// The real `shutdown`.
    shutdown = SHUTDOWN or |fd: c_int, how: c_int| -> c_long {
        libc::syscall(libc::SYS_shutdown, fd, how)
    };
    (fd: c_int, how: c_int) -> c_int
}
real! {
    /// The real `close`.
    close = CLOSE or |fd: c_int| -> c_long { libc::syscall(libc::SYS_close, fd) };
    (fd: c_int) -> c_int
}
real! {
    /// The real `epoll_create`.
    epoll_create = EPOLL_CREATE or |size: c_int| -> c_long {
        libc::syscall(libc::SYS_epoll_create, size)
    };
    (size: c_int) -> c_int
}
real! {
    /// The real `epoll_create1`.
    epoll_create1 = EPOLL_CREATE1 or |flags: c_int| -> c_long {
        libc::syscall(libc::SYS_epoll_create1, flags)
    };
    (flags: c_int) -> c_int
}
real! {
    /// The real `epoll_pwait`.
    epoll_pwait = EPOLL_PWAIT or |set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int, mask: *const sigset_t| -> c_long {
        libc::syscall(libc::SYS_epoll_pwait, set, events, count, timeout_ms, mask, 8)
    };
    (set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int
}
real! {
    /// The real `epoll_pwait2`.
    epoll_pwait2 = EPOLL_PWAIT2 or |set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t| -> c_long {
        libc::syscall(libc::SYS_epoll_pwait2, set, events, count, timeout, mask, 8)
    };
    (set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int
}
real! {
    /// The real `read`.
    read = READ or |fd: c_int, buffer: *mut c_void, len: size_t| -> c_long {
        libc::syscall(libc::SYS_read, fd, buffer, len)
    };
    (fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t
}
real! {
    /// The real `readv`.
    readv = READV or |fd: c_int, parts: *const iovec, count: c_int| -> c_long {
        libc::syscall(libc::SYS_readv, fd, parts, count)
    };
    (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
}
real! {
    /// The real `recvfrom`.
    recvfrom = RECVFROM or |fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t| -> c_long {
        libc::syscall(libc::SYS_recvfrom, fd, buffer, len, flags, addr, addr_len)
    };
    (fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t
}
real! {
    /// The real `recvmsg`.
    recvmsg = RECVMSG or |fd: c_int, message: *mut msghdr, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_recvmsg, fd, message, flags)
    };
    (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t
}
real! {
    /// The real `write`.
    write = WRITE or |fd: c_int, buffer: *const c_void, len: size_t| -> c_long {
        libc::syscall(libc::SYS_write, fd, buffer, len)
    };
    (fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t
}
real! {
    /// The real `writev`.
    writev = WRITEV or |fd: c_int, parts: *const iovec, count: c_int| -> c_long {
        libc::syscall(libc::SYS_writev, fd, parts, count)
    };
    (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
}
real! {
    /// The real `sendmsg`.
    sendmsg = SENDMSG or |fd: c_int, message: *const msghdr, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_sendmsg, fd, message, flags)
    };
    (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t
}
real! {
    /// The real `sendto`.
    sendto = SENDTO or |fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t| -> c_long {
        libc::syscall(libc::SYS_sendto, fd, buffer, len, flags, addr, addr_len)
    };
    (fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> ssize_t
}
real! {
    /// The real `sendmmsg`.
    sendmmsg = SENDMMSG or |fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags)
    };
    (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int
}
real! {
    /// The real `sendfile`.
    sendfile = SENDFILE or |to: c_int, from: c_int, offset: *mut off_t, count: size_t| -> c_long {
        libc::syscall(libc::SYS_sendfile, to, from, offset, count)
    };
    (to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t
}
real! {
    /// The real `sendfile64`.
    sendfile64 = SENDFILE64 or |to: c_int, from: c_int, offset: *mut loff_t, count: size_t| -> c_long {
        libc::syscall(libc::SYS_sendfile, to, from, offset, count)
    };
    (to: c_int, from: c_int, offset: *mut loff_t, count: size_t) -> ssize_t
}
real! {
    /// The real `splice`.
    splice = SPLICE or |from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, len: size_t, flags: c_uint| -> c_long {
        libc::syscall(libc::SYS_splice, from, from_at, to, to_at, len, flags)
    };
    (from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t
}
real! {
    /// The real `close_range`.
    close_range = CLOSE_RANGE or |first: c_uint, last: c_uint, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_close_range, first, last, flags)
    };
    (first: c_uint, last: c_uint, flags: c_int) -> c_int
}
/// The real `closefrom`.
///
/// # Safety
/// As the function of the C library.
pub(crate) unsafe fn closefrom(first: c_int) {
    match CLOSEFROM.get() {
        // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
        Some(function) => unsafe {
            core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(c_int)>(function)(first)
        },
        // SAFETY: the caller's duty.
        None => unsafe {
            libc::syscall(libc::SYS_close_range, first.max(0), c_uint::MAX, 0);
        },
    }
}
real! {
    /// The real `dup2`.
    dup2 = DUP2 or |from: c_int, to: c_int| -> c_long {
        // Not every machine has the call of this name, and `dup3` refuses two equal numbers.
        if from != to {
            libc::syscall(libc::SYS_dup3, from, to, 0)
        } else if libc::syscall(libc::SYS_fcntl, from, libc::F_GETFD) >= 0 {
            c_long::from(to)
        } else {
            -1
        }
    };
    (from: c_int, to: c_int) -> c_int
}
real! {
    /// The real `dup3`.
    dup3 = DUP3 or |from: c_int, to: c_int, flags: c_int| -> c_long {
        libc::syscall(libc::SYS_dup3, from, to, flags)
    };
    (from: c_int, to: c_int, flags: c_int) -> c_int
}

mod locks;
pub(crate) use locks::{
    pthread_cond_broadcast, pthread_cond_clockwait, pthread_cond_signal, pthread_cond_timedwait,
    pthread_cond_wait, pthread_mutex_lock, pthread_mutex_timedlock, pthread_mutex_trylock,
    pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_trywrlock,
    pthread_rwlock_wrlock, sem_clockwait, sem_post, sem_timedwait, sem_trywait, sem_wait, semop,
    semtimedop,
};

mod more;
pub(crate) use more::*;

mod files;
pub(crate) use files::{
    creat, fdatasync, fsync, ftruncate, mkdir, open, open64, openat, openat64, pread, preadv,
    pwrite, pwritev, rename, unlink,
};
