//! The functions of sockets and descriptors.

use super::Real;
use core::ffi::{CStr, c_void};
use libc::{
    c_int, c_long, c_uint, epoll_event, iovec, loff_t, mmsghdr, msghdr, nfds_t, off_t, pollfd,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

functions! {
    listen(fd: c_int, backlog: c_int) -> c_int = kernel!(SYS_listen, fd, backlog);
    accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int =
        kernel!(SYS_accept, fd, addr, len);
    accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int =
        kernel!(SYS_accept4, fd, addr, len, flags);
    recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t =
        kernel!(SYS_recvfrom, fd, buffer, len, flags, 0, 0);
    send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t =
        kernel!(SYS_sendto, fd, buffer, len, flags, 0, 0);
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int = {
        let time = timespec {
            tv_sec: libc::time_t::from(timeout_ms / 1000),
            tv_nsec: c_long::from(timeout_ms % 1000) * 1_000_000,
        };
        let time = if timeout_ms < 0 { core::ptr::null() } else { &raw const time };
        kernel!(SYS_ppoll, fds, count, time, 0, 8)
    };
    ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int = {
        // The kernel writes the remaining time back; the function does not.
        let mut copy = timeout.as_ref().copied();
        let timeout = copy.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut);
        kernel!(SYS_ppoll, fds, count, timeout, mask, 8)
    };
    epoll_ctl(set: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int =
        kernel!(SYS_epoll_ctl, set, op, fd, event);
    epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int =
        kernel!(SYS_epoll_pwait, set, events, count, timeout_ms, 0, 8);
    shutdown(fd: c_int, how: c_int) -> c_int = kernel!(SYS_shutdown, fd, how);
    close(fd: c_int) -> c_int = kernel!(SYS_close, fd);
    epoll_create(size: c_int) -> c_int = kernel!(SYS_epoll_create, size);
    epoll_create1(flags: c_int) -> c_int = kernel!(SYS_epoll_create1, flags);
    epoll_pwait(
        set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int,
        mask: *const sigset_t
    ) -> c_int = kernel!(SYS_epoll_pwait, set, events, count, timeout_ms, mask, 8);
    epoll_pwait2(
        set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int = kernel!(SYS_epoll_pwait2, set, events, count, timeout, mask, 8);
    read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t =
        kernel!(SYS_read, fd, buffer, len);
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t =
        kernel!(SYS_readv, fd, parts, count);
    recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr,
        addr_len: *mut socklen_t
    ) -> ssize_t = kernel!(SYS_recvfrom, fd, buffer, len, flags, addr, addr_len);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t =
        kernel!(SYS_recvmsg, fd, message, flags);
    write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t =
        kernel!(SYS_write, fd, buffer, len);
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t =
        kernel!(SYS_writev, fd, parts, count);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t =
        kernel!(SYS_sendmsg, fd, message, flags);
    sendto(
        fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr,
        addr_len: socklen_t
    ) -> ssize_t = kernel!(SYS_sendto, fd, buffer, len, flags, addr, addr_len);
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int =
        kernel!(SYS_sendmmsg, fd, messages, count, flags);
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t =
        kernel!(SYS_sendfile, to, from, offset, count);
    sendfile64(to: c_int, from: c_int, offset: *mut loff_t, count: size_t) -> ssize_t =
        kernel!(SYS_sendfile, to, from, offset, count);
    splice(
        from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, len: size_t,
        flags: c_uint
    ) -> ssize_t = kernel!(SYS_splice, from, from_at, to, to_at, len, flags);
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int =
        kernel!(SYS_close_range, first, last, flags);
    dup2(from: c_int, to: c_int) -> c_int = {
        // Not every machine has the call of this name, and `dup3` refuses two equal numbers.
        if from != to {
            kernel!(SYS_dup3, from, to, 0)
        } else if kernel!(SYS_fcntl, from, libc::F_GETFD) >= 0 {
            c_long::from(to)
        } else {
            -1
        }
    };
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int = kernel!(SYS_dup3, from, to, flags);
    closefrom(first: c_int) -> () = {
        kernel!(SYS_close_range, first.max(0), c_uint::MAX, 0);
    };
}
