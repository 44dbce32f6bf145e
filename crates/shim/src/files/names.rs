//! Calls that make, move or remove names of files: each is a metadata call that waits its turn.

use super::{metadata, removing, renaming};
use crate::real;
use core::ffi::c_char;
use libc::{c_int, c_uint, mode_t, off_t};

hooks! {
    rename(from: *const c_char, to: *const c_char) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { renaming((libc::AT_FDCWD, from), (libc::AT_FDCWD, to), real) };
    renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { renaming((from_dir, from), (to_dir, to), real) };
    unlink(path: *const c_char) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { removing(libc::AT_FDCWD, path, real) };
    renameat2(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint
    ) -> c_int = |real| match flags & libc::RENAME_EXCHANGE {
        // SAFETY: the arguments are the caller's.
        0 => unsafe { renaming((from_dir, from), (to_dir, to), real) },
        _ => metadata(false, real),
    };
    link(from: *const c_char, to: *const c_char) -> c_int = |real| metadata(false, real);
    linkat(
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int
    ) -> c_int = |real| metadata(false, real);
    symlink(target: *const c_char, path: *const c_char) -> c_int = |real| metadata(false, real);
    symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int =
        |real| metadata(false, real);
    unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { removing(dir, path, real) };
    remove(path: *const c_char) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { removing(libc::AT_FDCWD, path, real) };
    rmdir(path: *const c_char) -> c_int = |real| metadata(false, real);
    mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int = |real| metadata(true, real);
    truncate(path: *const c_char, length: off_t) -> c_int = |real| metadata(false, real);
}

aliases! {
    truncate64 = truncate(path: *const c_char, length: off_t) -> c_int;
}
