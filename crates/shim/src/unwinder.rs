//! The unwinder of the C compiler's library, which is loaded when it is needed.
//!
//! # Problem
//! A panic of ours is caught, which takes the unwinder of `libgcc_s`. Programs in C do without it.
//! If ours needed it, it would be nearly half of the processor time that each program pays at its
//! start: its constructor asks for the processor's features, at which a virtual machine is stopped.
//! In a container without that library, no program would start.
//!
//! # The primitive
//! Functions of the unwinder's names that are seen in this library alone. Each jumps to the real
//! one, which is looked up when it is first called. So a process has one unwinder: where a C++
//! exception or a cancelled thread passes through our frames, it is that of the program.
//!
//! A process behind the gate looks all of them up when it attaches ([`load`]). Later it may have no
//! descriptor left, or another root, and a panic that is not caught would end it. A program that
//! only `--io` governs keeps this risk, since it is short in most cases.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Declares functions, each with its place in the table.
macro_rules! functions {
    ($count:literal: $($at:literal $name:literal)*) => {
        static NAMES: [&CStr; $count] = [$(
            match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }
        ),*];
        /// Null until a function is first called.
        static FOUND: [AtomicPtr<c_void>; $count] =
            [const { AtomicPtr::new(core::ptr::null_mut()) }; $count];

        $(core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            "mov rax, qword ptr [rip + {found} + 8 * {at}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            // The arguments, and with them the stack is aligned as a call wants it.
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "mov edi, {at}",
            "call {find}",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            found = sym FOUND,
            find = sym find,
            at = const $at,
        );)*
    };
}

functions! { 12:
    0 "_Unwind_Backtrace"
    1 "_Unwind_DeleteException"
    2 "_Unwind_GetDataRelBase"
    3 "_Unwind_GetIP"
    4 "_Unwind_GetIPInfo"
    5 "_Unwind_GetLanguageSpecificData"
    6 "_Unwind_GetRegionStart"
    7 "_Unwind_GetTextRelBase"
    8 "_Unwind_RaiseException"
    9 "_Unwind_Resume"
    10 "_Unwind_SetGR"
    11 "_Unwind_SetIP"
}

/// Looks all functions up. False if the library is not there: a panic could not be caught.
pub(crate) fn load() -> bool {
    (0..NAMES.len()).all(|at| find(at) != absent as *const c_void)
}

/// The real function at a place of the table.
extern "C" fn find(at: usize) -> *const c_void {
    // SAFETY: the names are C strings. The library stays loaded.
    let found = unsafe {
        let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            core::ptr::null_mut()
        } else {
            libc::dlsym(library, NAMES[at].as_ptr())
        }
    };
    if found.is_null() {
        return absent as *const c_void;
    }
    FOUND[at].store(found, Relaxed);
    found
}

/// A panic cannot be raised without an unwinder (`_URC_FATAL_PHASE1_ERROR`).
extern "C" fn absent() -> u32 {
    3
}
