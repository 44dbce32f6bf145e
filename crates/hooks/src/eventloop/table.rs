//! Things found by a descriptor, without a lock and without freed memory.

use crate::conn::DESCRIPTORS;
use core::sync::atomic::{AtomicPtr, Ordering};

const CHUNK: usize = 64;

type Chunk<T> = [T; CHUNK];

/// Filled in chunks that come from the kernel and stay for the life of the process. All zero bytes
/// are a valid `T`, which only has interior mutability through atomics or behind its own lock.
pub(super) struct Table<T: Zeroed>([AtomicPtr<Chunk<T>>; DESCRIPTORS / CHUNK]);

/// All zero bytes are a valid value that needs no destructor.
///
/// # Safety
/// It must be so.
pub(super) unsafe trait Zeroed: Sync + 'static {}

impl<T: Zeroed> Table<T> {
    pub(super) const fn new() -> Table<T> {
        Table([const { AtomicPtr::new(core::ptr::null_mut()) }; DESCRIPTORS / CHUNK])
    }

    /// The entry of a descriptor, if its chunk exists.
    #[inline]
    pub(super) fn find(&'static self, fd: i32) -> Option<&'static T> {
        let fd = usize::try_from(fd).ok()?;
        let chunk = self.0.get(fd / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk that was published is initialised and never freed.
        (!chunk.is_null()).then(|| unsafe { &(*chunk)[fd % CHUNK] })
    }

    /// The entry of a descriptor; makes its chunk if need be. `None` when the descriptor is beyond
    /// the table or the kernel has no memory.
    pub(super) fn find_or_make(&'static self, fd: i32) -> Option<&'static T> {
        if let Some(found) = self.find(fd) {
            return Some(found);
        }
        let place = self.0.get(usize::try_from(fd).ok()? / CHUNK)?;
        let bytes = size_of::<Chunk<T>>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: asks for fresh private memory, which is zero: a valid chunk.
        let fresh = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if fresh == libc::MAP_FAILED {
            return None;
        }
        let null = core::ptr::null_mut();
        if place.compare_exchange(null, fresh.cast(), Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            // SAFETY: another thread was faster, and no thread has seen this memory.
            unsafe { libc::munmap(fresh, bytes) };
        }
        self.find(fd)
    }
}
