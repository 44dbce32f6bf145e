//! The C library's own functions, which the exported ones call.
//!
//! They are looked up once, by the library's constructor. A call that comes before it, from the
//! constructor of another library, goes to the kernel directly.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

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

    fn find(&self) -> Option<*mut c_void> {
        self.get().or_else(|| {
            self.resolve();
            self.get()
        })
    }
}

/// The name of a function as a C string.
macro_rules! symbol {
    ($name:ident) => {
        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}

/// A system call, which sets errno as the function would.
macro_rules! kernel {
    ($number:ident $(, $value:expr)*) => {
        libc::syscall(libc::$number $(, $value)*)
    };
}

/// Declares real functions, each with what is done while it is not looked up.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $fallback:expr;)*) => {
        #[allow(non_upper_case_globals)]
        mod of {
            use super::*;
            $(pub(super) static $name: Real = Real::new(symbol!($name));)*
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
                    // SAFETY: the caller's duty.
                    None => unsafe { ($fallback) as $result },
                }
            }
        )*
    };
}

/// Declares real functions that look themselves up if they are called before that, and what is
/// returned if there are none.
macro_rules! late_functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, or $missing:expr;)*) => {
        #[allow(non_upper_case_globals)]
        mod of {
            use super::*;
            $(pub(super) static $name: Real = Real::new(symbol!($name));)*
        }

        /// Looks all of them up.
        #[allow(dead_code)] // those of libraries that come later are not
        pub(super) fn resolve_all() {
            $(of::$name.resolve();)*
        }

        $(
            /// The real function of this name.
            ///
            /// # Safety
            /// As the function of its library.
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
                match of::$name.find() {
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
        )*
    };
}

// Behind the macros, which they use.
mod files;
mod libraries;
mod locks;
mod sockets;
mod streams;
mod syscall;
pub(crate) use files::*;
pub(crate) use libraries::*;
pub(crate) use locks::*;
pub(crate) use sockets::*;
pub(crate) use streams::*;
pub(crate) use syscall::syscall;

/// Looks up all but those that are looked up when they are first called.
pub(crate) fn resolve_all() {
    sockets::resolve_all();
    streams::resolve_all();
    files::resolve_all();
    locks::resolve_all();
}
