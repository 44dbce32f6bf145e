//! The function `syscall`.

use libc::{c_int, c_long};

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
