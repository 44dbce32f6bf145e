//! Functions that take their arguments to one system call.

use super::Real;
use core::ffi::{CStr, c_void};
use libc::{
    AT_FDCWD, AT_REMOVEDIR, FILE, c_char, c_int, c_long, c_uint, iovec, mode_t, off_t, size_t,
    ssize_t,
};

/// Declares real functions, each with the system call that it falls back to.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $number:ident($($value:expr),*);)*) => {
        #[allow(non_upper_case_globals)]
        mod of {
            use super::*;
            $(pub(super) static $name: Real = Real::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );)*
        }

        /// Looks all of them up.
        pub(super) fn resolve_all() {
            $(of::$name.resolve();)*
        }

        $(
            /// The real function of this name.
            ///
            /// # Safety
            /// As the function of the C library.
            pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
                match of::$name.get() {
                    // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
                    Some(function) => unsafe {
                        core::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C-unwind" fn($($type),*) -> $result,
                        >(function)($($arg),*)
                    },
                    // SAFETY: the caller's duty; `syscall` sets errno as the function would.
                    None => unsafe { libc::syscall(libc::$number, $($value),*) as $result },
                }
            }
        )*
    };
}

functions! {
    __open_2(path: *const c_char, flags: c_int) -> c_int = SYS_openat(AT_FDCWD, path, flags, 0);
    __open64_2(path: *const c_char, flags: c_int) -> c_int = SYS_openat(AT_FDCWD, path, flags, 0);
    __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        SYS_openat(dir, path, flags, 0);
    __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        SYS_openat(dir, path, flags, 0);
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int = SYS_fcntl(fd, command, argument);
    fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int =
        SYS_fcntl(fd, command, argument);
    renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int =
        SYS_renameat2(from_dir, from, to_dir, to, 0);
    renameat2(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint
    ) -> c_int = SYS_renameat2(from_dir, from, to_dir, to, flags);
    link(from: *const c_char, to: *const c_char) -> c_int =
        SYS_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    linkat(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int
    ) -> c_int = SYS_linkat(from_dir, from, to_dir, to, flags);
    symlink(target: *const c_char, path: *const c_char) -> c_int =
        SYS_symlinkat(target, AT_FDCWD, path);
    symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int =
        SYS_symlinkat(target, dir, path);
    unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        SYS_unlinkat(dir, path, flags);
    remove(path: *const c_char) -> c_int = SYS_unlinkat(AT_FDCWD, path, 0);
    rmdir(path: *const c_char) -> c_int = SYS_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
    mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int = SYS_mkdirat(dir, path, mode);
    truncate(path: *const c_char, length: off_t) -> c_int = SYS_truncate(path, length);
    fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int =
        SYS_fallocate(fd, mode, offset, bytes);
    posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int =
        SYS_fallocate(fd, 0, offset, bytes);
    sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int =
        SYS_sync_file_range(fd, offset, bytes, flags);
    syncfs(fd: c_int) -> c_int = SYS_syncfs(fd);
    copy_file_range(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t = SYS_copy_file_range(from, from_at, to, to_at, len, flags);
    preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        SYS_preadv2(fd, parts, count, offset, 0, flags);
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        SYS_pwritev2(fd, parts, count, offset, 0, flags);
    msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int = SYS_msync(start, len, flags);
    mmap(
        start: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void = SYS_mmap(start, len, access, flags, fd, offset);
}

/// The real `sync`.
///
/// # Safety
/// As the function of the C library.
pub(crate) unsafe fn sync() {
    // SAFETY: has no preconditions.
    unsafe { libc::syscall(libc::SYS_sync) };
}

/// Declares functions of libraries that may be loaded later than this one.
macro_rules! library {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, or $missing:expr;)*) => {$(
        /// The real function of this name.
        ///
        /// # Safety
        /// As the library's function.
        pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
            static OF: Real = Real::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            if OF.get().is_none() {
                OF.resolve();
            }
            match OF.get() {
                // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
                Some(function) => unsafe {
                    core::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn($($type),*) -> $result,
                    >(function)($($arg),*)
                },
                None => $missing,
            }
        }
    )*};
}

// Who finds these symbols here and nowhere else has not loaded the library.
library! {
    io_submit(context: *mut c_void, count: c_long, requests: *const *const c_void) -> c_int,
        or -libc::ENOSYS;
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int,
        or -libc::ENOSYS;
    io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, settings: *mut [c_uint; 30]
    ) -> c_int, or -libc::ENOSYS;
    io_uring_submit(ring: *mut c_void) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_wait(ring: *mut c_void, count: c_uint) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_get_events(ring: *mut c_void) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_wait_timeout(
        ring: *mut c_void, done: *mut c_void, count: c_uint, time: *mut c_void, mask: *mut c_void
    ) -> c_int, or -libc::ENOSYS;
    io_uring_queue_exit(ring: *mut c_void) -> (), or ();
}

// Constructors of other libraries may write to streams before this one has looked anything up.
library! {
    fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t, or 0;
    fwrite_unlocked(
        data: *const c_void, size: size_t, count: size_t, stream: *mut FILE
    ) -> size_t, or 0;
    fputs(text: *const c_char, stream: *mut FILE) -> c_int, or libc::EOF;
    fputs_unlocked(text: *const c_char, stream: *mut FILE) -> c_int, or libc::EOF;
    fclose(stream: *mut FILE) -> c_int, or libc::EOF;
}

/// The real `syscall`. Not looked up: an allocator may call it before anything can be looked up.
///
/// # Safety
/// As the function of the C library.
#[inline]
pub(crate) unsafe fn syscall(number: c_long, args: [c_long; 6]) -> c_long {
    let result: c_long;
    let [a, b, c, d, e, f] = args;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's convention; what the call does is the caller's duty.
    unsafe {
        core::arch::asm!(
            "syscall", inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "svc 0", in("x8") number, inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result
}
