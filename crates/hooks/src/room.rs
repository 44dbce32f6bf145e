//! Memory for what is too large for a caller's stack.
//!
//! # Problem
//! A call may come from a signal handler on an alternate stack of 8 KiB, of which the kernel uses
//! half, or from a thread with a stack of 16 KiB. So a hook takes little of its caller's stack. It
//! may not use the allocator either: the handler may have interrupted it.
//!
//! # The primitive
//! Pages of the kernel's, for as long as the value lives. A child of `fork` keeps those of other
//! threads, which are a few.

use core::ffi::c_void;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A type of which all zero bytes are a value, and which needs no drop.
///
/// # Safety
/// Both are true of the type.
pub(crate) unsafe trait Zeros {}

// SAFETY: bytes.
unsafe impl<const N: usize> Zeros for [u8; N] {}

/// A value in pages of the kernel's, zeros at first.
#[derive(Debug)]
pub(crate) struct Room<T: Zeros>(NonNull<T>);

impl<T: Zeros> Room<T> {
    /// `None` if the kernel has no memory for it.
    pub(crate) fn make() -> Option<Self> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let (start, bytes) = (core::ptr::null_mut::<c_void>(), size_of::<T>());
        // By system call: `mmap` is a hook of ours.
        // SAFETY: asks for new pages anywhere.
        let at = unsafe { libc::syscall(libc::SYS_mmap, start, bytes, access, kind, -1, 0) };
        if at <= 0 { None } else { NonNull::new(at as *mut T).map(Room) }
    }
}

impl<T: Zeros> Deref for Room<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: pages of this value's own, aligned and large enough; zeros are a value.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Zeros> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the reference is the only one.
        unsafe { self.0.as_mut() }
    }
}

impl<T: Zeros> Drop for Room<T> {
    fn drop(&mut self) {
        // SAFETY: the pages that were asked for, which nothing refers to any more.
        unsafe { libc::syscall(libc::SYS_munmap, self.0.as_ptr(), size_of::<T>()) };
    }
}
