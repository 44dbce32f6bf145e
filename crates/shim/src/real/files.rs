//! The functions that work on files.

use super::Real;
use core::ffi::c_void;
use libc::{c_char, c_int, c_long, iovec, mode_t, off_t, size_t, ssize_t};

static OPEN: Real = Real::new(c"open");
static OPEN64: Real = Real::new(c"open64");
static OPENAT: Real = Real::new(c"openat");
static OPENAT64: Real = Real::new(c"openat64");
static CREAT: Real = Real::new(c"creat");
static PREAD: Real = Real::new(c"pread");
static PWRITE: Real = Real::new(c"pwrite");
static PREADV: Real = Real::new(c"preadv");
static PWRITEV: Real = Real::new(c"pwritev");
static FSYNC: Real = Real::new(c"fsync");
static FDATASYNC: Real = Real::new(c"fdatasync");
static FTRUNCATE: Real = Real::new(c"ftruncate");
static RENAME: Real = Real::new(c"rename");
static UNLINK: Real = Real::new(c"unlink");
static MKDIR: Real = Real::new(c"mkdir");

/// Looks all of them up.
pub(super) fn resolve_all() {
    for real in [
        &OPEN, &OPEN64, &OPENAT, &OPENAT64, &CREAT, &PREAD, &PWRITE, &PREADV, &PWRITEV, &FSYNC,
        &FDATASYNC, &FTRUNCATE, &RENAME, &UNLINK, &MKDIR,
    ] {
        real.resolve();
    }
}

real! {
    /// The real `open`.
    open = OPEN or |path: *const c_char, flags: c_int, mode: mode_t| -> c_long {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode)
    };
    (path: *const c_char, flags: c_int, mode: mode_t) -> c_int
}
real! {
    /// The real `open64`.
    open64 = OPEN64 or |path: *const c_char, flags: c_int, mode: mode_t| -> c_long {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode)
    };
    (path: *const c_char, flags: c_int, mode: mode_t) -> c_int
}
real! {
    /// The real `openat`.
    openat = OPENAT or |dir: c_int, path: *const c_char, flags: c_int, mode: mode_t| -> c_long {
        libc::syscall(libc::SYS_openat, dir, path, flags, mode)
    };
    (dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
}
real! {
    /// The real `openat64`.
    openat64 = OPENAT64 or |dir: c_int, path: *const c_char, flags: c_int, mode: mode_t| -> c_long {
        libc::syscall(libc::SYS_openat, dir, path, flags, mode)
    };
    (dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
}
real! {
    /// The real `creat`.
    creat = CREAT or |path: *const c_char, mode: mode_t| -> c_long {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode)
    };
    (path: *const c_char, mode: mode_t) -> c_int
}
real! {
    /// The real `pread`.
    pread = PREAD or |fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t| -> c_long {
        libc::syscall(libc::SYS_pread64, fd, buffer, len, offset)
    };
    (fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t
}
real! {
    /// The real `pwrite`.
    pwrite = PWRITE or |fd: c_int, buffer: *const c_void, len: size_t, offset: off_t| -> c_long {
        libc::syscall(libc::SYS_pwrite64, fd, buffer, len, offset)
    };
    (fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t
}
real! {
    /// The real `preadv`.
    preadv = PREADV or |fd: c_int, parts: *const iovec, count: c_int, offset: off_t| -> c_long {
        libc::syscall(libc::SYS_preadv, fd, parts, count, offset, 0)
    };
    (fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
}
real! {
    /// The real `pwritev`.
    pwritev = PWRITEV or |fd: c_int, parts: *const iovec, count: c_int, offset: off_t| -> c_long {
        libc::syscall(libc::SYS_pwritev, fd, parts, count, offset, 0)
    };
    (fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
}
real! {
    /// The real `fsync`.
    fsync = FSYNC or |fd: c_int| -> c_long { libc::syscall(libc::SYS_fsync, fd) };
    (fd: c_int) -> c_int
}
real! {
    /// The real `fdatasync`.
    fdatasync = FDATASYNC or |fd: c_int| -> c_long { libc::syscall(libc::SYS_fdatasync, fd) };
    (fd: c_int) -> c_int
}
real! {
    /// The real `ftruncate`.
    ftruncate = FTRUNCATE or |fd: c_int, length: off_t| -> c_long { libc::syscall(libc::SYS_ftruncate, fd, length) };
    (fd: c_int, length: off_t) -> c_int
}
real! {
    /// The real `rename`.
    rename = RENAME or |from: *const c_char, to: *const c_char| -> c_long {
        libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0)
    };
    (from: *const c_char, to: *const c_char) -> c_int
}
real! {
    /// The real `unlink`.
    unlink = UNLINK or |path: *const c_char| -> c_long {
        libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0)
    };
    (path: *const c_char) -> c_int
}
real! {
    /// The real `mkdir`.
    mkdir = MKDIR or |path: *const c_char, mode: mode_t| -> c_long {
        libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode)
    };
    (path: *const c_char, mode: mode_t) -> c_int
}
