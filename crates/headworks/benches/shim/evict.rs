//! Makes the processor's caches as they are in a server: full of something else.
//!
//! A hook is called after tens of microseconds of a server's work. By then the processor's caches
//! and branch predictor have forgotten the hook. This module makes them forget on purpose. It walks
//! through more data than the second-level cache holds, and runs through more code, with a branch
//! in every sixteen bytes.

use std::ffi::c_void;
use std::hint::black_box;

/// Larger than the second-level cache of any processor that this runs on today.
const DATA_BYTES: usize = 8 << 20;
const CODE_BYTES: usize = 1 << 20;

pub struct Evictor {
    data: Vec<u64>,
    code: Option<extern "C" fn()>,
}

impl Evictor {
    pub fn new() -> Evictor {
        Evictor { data: vec![1; DATA_BYTES / size_of::<u64>()], code: long_code() }
    }

    /// Displaces what the caches hold.
    pub fn run(&mut self) {
        for line in self.data.chunks_mut(64 / size_of::<u64>()) {
            line[0] = line[0].wrapping_add(1);
        }
        black_box(&self.data);
        if let Some(code) = self.code {
            code();
        }
    }
}

/// A function of a megabyte; `None` where we cannot write one.
fn long_code() -> Option<extern "C" fn()> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    // test al, al; a branch to what follows it in either case; bytes that do nothing.
    let mut block = [0x90_u8; 16];
    block[..4].copy_from_slice(&[0x84, 0xC0, 0x74, 0x00]);
    // SAFETY: asks for fresh private memory, writes no more than its size to it, and makes it
    // executable instead of writable before it is run.
    unsafe {
        let place = libc::mmap(
            std::ptr::null_mut(),
            CODE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if place == libc::MAP_FAILED {
            return None;
        }
        let bytes = place.cast::<u8>();
        for at in (0..CODE_BYTES).step_by(block.len()) {
            bytes.add(at).copy_from_nonoverlapping(block.as_ptr(), block.len());
        }
        // ret
        bytes.add(CODE_BYTES - 1).write(0xC3);
        let allowed = libc::mprotect(place, CODE_BYTES, libc::PROT_READ | libc::PROT_EXEC) == 0;
        // What was written is a function of this type.
        allowed.then(|| std::mem::transmute::<*mut c_void, extern "C" fn()>(place))
    }
}
