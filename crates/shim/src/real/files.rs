//! The functions that work on files.

use super::Real;
use core::ffi::{CStr, c_void};
use libc::{
    AT_FDCWD, AT_REMOVEDIR, c_char, c_int, c_long, c_uint, iovec, mode_t, off_t, size_t, ssize_t,
};

functions! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        kernel!(SYS_openat, AT_FDCWD, path, flags, mode);
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        kernel!(SYS_openat, AT_FDCWD, path, flags, mode);
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        kernel!(SYS_openat, dir, path, flags, mode);
    openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        kernel!(SYS_openat, dir, path, flags, mode);
    creat(path: *const c_char, mode: mode_t) -> c_int = {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        kernel!(SYS_openat, AT_FDCWD, path, flags, mode)
    };
    pread(fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t =
        kernel!(SYS_pread64, fd, buffer, len, offset);
    pwrite(fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t =
        kernel!(SYS_pwrite64, fd, buffer, len, offset);
    preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        kernel!(SYS_preadv, fd, parts, count, offset, 0);
    pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        kernel!(SYS_pwritev, fd, parts, count, offset, 0);
    fsync(fd: c_int) -> c_int = kernel!(SYS_fsync, fd);
    fdatasync(fd: c_int) -> c_int = kernel!(SYS_fdatasync, fd);
    ftruncate(fd: c_int, length: off_t) -> c_int = kernel!(SYS_ftruncate, fd, length);
    rename(from: *const c_char, to: *const c_char) -> c_int =
        kernel!(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    unlink(path: *const c_char) -> c_int = kernel!(SYS_unlinkat, AT_FDCWD, path, 0);
    mkdir(path: *const c_char, mode: mode_t) -> c_int =
        kernel!(SYS_mkdirat, AT_FDCWD, path, mode);
    __open_2(path: *const c_char, flags: c_int) -> c_int =
        kernel!(SYS_openat, AT_FDCWD, path, flags, 0);
    __open64_2(path: *const c_char, flags: c_int) -> c_int =
        kernel!(SYS_openat, AT_FDCWD, path, flags, 0);
    __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        kernel!(SYS_openat, dir, path, flags, 0);
    __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        kernel!(SYS_openat, dir, path, flags, 0);
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int =
        kernel!(SYS_fcntl, fd, command, argument);
    fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int =
        kernel!(SYS_fcntl, fd, command, argument);
    renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int =
        kernel!(SYS_renameat2, from_dir, from, to_dir, to, 0);
    renameat2(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint
    ) -> c_int = kernel!(SYS_renameat2, from_dir, from, to_dir, to, flags);
    link(from: *const c_char, to: *const c_char) -> c_int =
        kernel!(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    linkat(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int
    ) -> c_int = kernel!(SYS_linkat, from_dir, from, to_dir, to, flags);
    symlink(target: *const c_char, path: *const c_char) -> c_int =
        kernel!(SYS_symlinkat, target, AT_FDCWD, path);
    symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int =
        kernel!(SYS_symlinkat, target, dir, path);
    unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        kernel!(SYS_unlinkat, dir, path, flags);
    remove(path: *const c_char) -> c_int = kernel!(SYS_unlinkat, AT_FDCWD, path, 0);
    rmdir(path: *const c_char) -> c_int = kernel!(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int =
        kernel!(SYS_mkdirat, dir, path, mode);
    truncate(path: *const c_char, length: off_t) -> c_int = kernel!(SYS_truncate, path, length);
    fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int =
        kernel!(SYS_fallocate, fd, mode, offset, bytes);
    posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int =
        kernel!(SYS_fallocate, fd, 0, offset, bytes);
    sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int =
        kernel!(SYS_sync_file_range, fd, offset, bytes, flags);
    syncfs(fd: c_int) -> c_int = kernel!(SYS_syncfs, fd);
    copy_file_range(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t = kernel!(SYS_copy_file_range, from, from_at, to, to_at, len, flags);
    preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        kernel!(SYS_preadv2, fd, parts, count, offset, 0, flags);
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        kernel!(SYS_pwritev2, fd, parts, count, offset, 0, flags);
    msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int =
        kernel!(SYS_msync, start, len, flags);
    mmap(
        start: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void = kernel!(SYS_mmap, start, len, access, flags, fd, offset);
    sync() -> () = {
        kernel!(SYS_sync);
    };
}
