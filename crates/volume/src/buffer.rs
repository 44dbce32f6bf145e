//! Memory for the data of requests: aligned for direct I/O, reused, and not cleared in between.
//!
//! A buffer still holds the data of its last user. Fill all of it before a reader gets it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Alignment of every buffer, in bytes: enough for direct I/O on all known devices.
pub const ALIGN_BYTES: usize = 4096;

/// Sizes that are kept for the next user: 4 KiB, 8 KiB … 2 MiB.
const CLASSES: usize = 10;

/// Most that is kept of each size.
const KEPT_BYTES: usize = 8 << 20;

/// Bytes of a request. Empty by default.
pub struct Buffer {
    at: NonNull<u8>,
    len: usize,
    /// Zero if there is no memory behind it.
    capacity: usize,
}

// SAFETY: a buffer is the only owner of its memory.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

/// Unused memory of one size.
struct Kept(Vec<NonNull<u8>>);

// SAFETY: the memory that the pointers name has no other owner.
unsafe impl Send for Kept {}

static POOL: [Mutex<Kept>; CLASSES] = [const { Mutex::new(Kept(Vec::new())) }; CLASSES];

fn class_of(capacity: usize) -> Option<usize> {
    let class = (capacity / ALIGN_BYTES).trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

fn layout_of(capacity: usize) -> Layout {
    match Layout::from_size_align(capacity, ALIGN_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a buffer of {capacity} bytes does not fit in memory"),
    }
}

impl Buffer {
    /// A buffer of `len` bytes with undefined contents.
    pub fn new(len: usize) -> Buffer {
        if len == 0 {
            return Buffer::default();
        }
        let capacity = len.max(ALIGN_BYTES).next_power_of_two();
        let kept = class_of(capacity)
            .and_then(|class| POOL[class].lock().unwrap_or_else(PoisonError::into_inner).0.pop());
        let at = kept.unwrap_or_else(|| {
            let layout = layout_of(capacity);
            // SAFETY: the size is not zero.
            let at = unsafe { alloc_zeroed(layout) };
            NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout))
        });
        Buffer { at, len, capacity }
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Buffer {
        let mut buffer = Buffer::new(len);
        buffer.fill(0);
        buffer
    }

    /// Shortens it; the rest stays reserved.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Resizes it if enough is reserved; added bytes are undefined. Returns whether it did.
    pub fn try_resize(&mut self, len: usize) -> bool {
        let fits = len <= self.capacity;
        if fits {
            self.len = len;
        }
        fits
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer { at: NonNull::dangling(), len: 0, capacity: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        if let Some(class) = class_of(self.capacity) {
            let mut pool = POOL[class].lock().unwrap_or_else(PoisonError::into_inner);
            if (pool.0.len() + 1) * self.capacity <= KEPT_BYTES {
                pool.0.push(self.at);
                return;
            }
        }
        // SAFETY: allocated by `new` with this very layout, and no other code uses it.
        unsafe { dealloc(self.at.as_ptr(), layout_of(self.capacity)) };
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are allocated (or none) and were initialised, by zeros at first, as
        // all that is reserved was.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is the only owner.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_aligned_and_has_its_length() {
        for len in [1, 512, 4096, 4097, 1 << 20, (2 << 20) + 1] {
            let buffer = Buffer::new(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % ALIGN_BYTES, 0, "{len}");
        }
        assert!(Buffer::default().is_empty());
    }

    #[test]
    fn a_buffer_grows_within_what_is_reserved_only() {
        let mut buffer = Buffer::new(8192);
        buffer.truncate(512);
        assert!(buffer.try_resize(8192));
        assert_eq!(buffer.len(), 8192);
        assert!(!buffer.try_resize(8193));
        assert_eq!(buffer.len(), 8192);
        assert!(!Buffer::default().try_resize(1));
    }

    #[test]
    fn memory_is_used_again_and_not_shared() {
        let mut held: Vec<Buffer> = (0..100u8).map(|n| Buffer::copy_of(&[n; 5000])).collect();
        held.truncate(50);
        held.extend((100..200u8).map(|n| Buffer::copy_of(&[n; 5000])));
        for (at, buffer) in held.iter().enumerate() {
            let expected = if at < 50 { at } else { at + 50 };
            assert!(buffer.iter().all(|byte| usize::from(*byte) == expected));
        }
    }
}
