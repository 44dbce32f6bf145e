//! The memory of the frames: the one place of the pool with `unsafe`.
//!
//! A frame's bytes are accessible only through a guard of its latch, which lies in the same
//! structure. So the borrow rules of the bytes are those of the latch.

use crate::error::PoolError;
use crate::ids::FrameId;
use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::ptr::NonNull;

/// Frames start at multiples of this, the largest alignment that O_DIRECT needs.
pub(crate) const ALIGNMENT: usize = 4096;

/// A latch in its own cache line, so that neighbours do not slow each other down.
#[repr(align(64))]
struct Latch(RawRwLock);

/// All frames of a pool: `count` pages of `page_size` bytes, each with a latch.
pub(crate) struct PageMemory {
    base: NonNull<u8>,
    layout: Layout,
    page_size: usize,
    latches: Box<[Latch]>,
}

// SAFETY: the bytes behind `base` are owned by this value and are reached only through guards of
// the latches, which are made to be shared between threads.
unsafe impl Send for PageMemory {}
// SAFETY: as above: a shared `PageMemory` gives out bytes only under the latch of their frame.
unsafe impl Sync for PageMemory {}

impl PageMemory {
    /// Reserves zeroed memory for `count` frames.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`] if there is less memory, or the system gives none.
    pub(crate) fn new(count: usize, page_size: usize) -> Result<Self, PoolError> {
        let wanted = (count as u64).saturating_mul(page_size as u64);
        check_fits(wanted)?;
        let too_large = |limit| PoolError::TooLarge { wanted_bytes: wanted, limit_bytes: limit };
        let layout = usize::try_from(wanted)
            .ok()
            .and_then(|bytes| Layout::from_size_align(bytes.max(1), ALIGNMENT).ok())
            .ok_or_else(|| too_large(isize::MAX as u64))?;
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| too_large(0))?;
        let latches = (0..count).map(|_| Latch(RawRwLock::INIT)).collect();
        Ok(Self { base, layout, page_size, latches })
    }

    #[inline]
    fn start(&self, frame: FrameId) -> *mut u8 {
        let at = frame as usize;
        assert!(at < self.latches.len(), "frame {at} of {}", self.latches.len());
        // SAFETY: `at` is less than the number of frames, so the offset lies within the allocation.
        unsafe { self.base.as_ptr().add(at * self.page_size) }
    }

    #[inline]
    fn latch(&self, frame: FrameId) -> &RawRwLock {
        &self.latches[frame as usize].0
    }

    /// Takes the shared latch of a frame.
    ///
    /// Waiting writers go first, so a thread that holds a latch shared must not take it again.
    #[inline]
    pub(crate) fn read(&self, frame: FrameId) -> SharedBytes<'_> {
        self.latch(frame).lock_shared();
        SharedBytes { memory: self, frame, of: PhantomData }
    }

    /// Takes the shared latch if that needs no waiting.
    pub(crate) fn try_read(&self, frame: FrameId) -> Option<SharedBytes<'_>> {
        // A closure: a guard made without the latch would release it.
        self.latch(frame).try_lock_shared().then(|| SharedBytes {
            memory: self,
            frame,
            of: PhantomData,
        })
    }

    /// Takes the exclusive latch of a frame.
    pub(crate) fn write(&self, frame: FrameId) -> ExclusiveBytes<'_> {
        self.latch(frame).lock_exclusive();
        ExclusiveBytes { memory: self, frame, of: PhantomData }
    }

    /// Returns a frame's memory to the system until it is used again, unless a thread has its
    /// latch. The bytes are lost.
    pub(crate) fn release(&self, frame: FrameId) {
        if let Some(bytes) = self.try_write(frame) {
            // SAFETY: the stretch lies within the allocation, which is private memory without a
            // file, so that it reads as zeroes from now on, and the exclusive latch keeps everybody
            // else away. A refusal (pages of the system that are larger than ours) leaves it as it
            // is.
            unsafe { libc::madvise(self.start(frame).cast(), bytes.len(), libc::MADV_DONTNEED) };
        }
    }

    /// Takes the exclusive latch if that needs no waiting.
    pub(crate) fn try_write(&self, frame: FrameId) -> Option<ExclusiveBytes<'_>> {
        self.latch(frame).try_lock_exclusive().then(|| ExclusiveBytes {
            memory: self,
            frame,
            of: PhantomData,
        })
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; guards borrow `self`, so none is left.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// A latch must be released by the thread that took it: a guard with this in it cannot be sent to
/// another.
type OfThisThread = PhantomData<*const ()>;

/// The bytes of a frame under its shared latch.
pub(crate) struct SharedBytes<'a> {
    memory: &'a PageMemory,
    frame: FrameId,
    of: OfThisThread,
}

impl Deref for SharedBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for a page, zeroed at allocation. This guard holds the shared
        // latch, so no `ExclusiveBytes` of the frame exists and no thread writes.
        unsafe { std::slice::from_raw_parts(self.memory.start(self.frame), self.memory.page_size) }
    }
}

impl Drop for SharedBytes<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this guard took the latch shared and gives it back once.
        unsafe { self.memory.latch(self.frame).unlock_shared() }
    }
}

/// The bytes of a frame under its exclusive latch.
pub(crate) struct ExclusiveBytes<'a> {
    memory: &'a PageMemory,
    frame: FrameId,
    of: OfThisThread,
}

impl Deref for ExclusiveBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `SharedBytes`; the exclusive latch keeps everybody else away.
        unsafe { std::slice::from_raw_parts(self.memory.start(self.frame), self.memory.page_size) }
    }
}

impl DerefMut for ExclusiveBytes<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the exclusive latch keeps everybody else away, and `&mut self` makes this the
        // only borrow through this guard.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.start(self.frame), self.memory.page_size)
        }
    }
}

impl Drop for ExclusiveBytes<'_> {
    fn drop(&mut self) {
        // SAFETY: this guard took the latch exclusively and gives it back once.
        unsafe { self.memory.latch(self.frame).unlock_exclusive() }
    }
}

/// A buffer that O_DIRECT accepts: its start is a multiple of 4096.
pub struct AlignedBuffer {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are owned by this value and borrowed through it alone.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A zeroed buffer of `bytes` bytes (at least one).
    ///
    /// Aborts the process, like every allocation of Rust's standard library, if there is no memory.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).unwrap_or_else(|_| {
            panic!("a buffer of {bytes} bytes is larger than the address space")
        });
        // SAFETY: the layout's size is at least one.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { base, layout }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `base` is valid for the layout's size and zeroed at allocation.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Refuses sizes that this process can never have.
///
/// The kernel overcommits memory, and kills a process that uses more than there is. A pool must not
/// rely on overcommitted memory.
///
/// # Errors
/// [`PoolError::TooLarge`] with the machine's memory or the control group's limit, whichever is
/// less.
pub(crate) fn check_fits(wanted_bytes: u64) -> Result<(), PoolError> {
    let limits = [total_memory_bytes(), group_limit_bytes()];
    match limits.into_iter().flatten().min() {
        Some(limit_bytes) if wanted_bytes > limit_bytes => {
            Err(PoolError::TooLarge { wanted_bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// The smallest `memory.max` of this process's control group (version 2) and its parents.
fn group_limit_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let path = root.join(own);
    let above = path.ancestors().take_while(|group| group.starts_with(root));
    let limit = |group: &Path| {
        // "max" is not a number: no limit.
        std::fs::read_to_string(group.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    above.filter_map(limit).min()
}

/// `MemTotal` of `/proc/meminfo`, where there is one.
fn total_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn latches_exclude_and_share() {
        let memory = PageMemory::new(2, ALIGNMENT).unwrap();
        let mut first = memory.write(0);
        first[0] = 7;
        assert!(memory.try_read(0).is_none());
        assert!(memory.try_write(1).is_some());
        drop(first);
        let one = memory.read(0);
        let two = memory.try_read(0).unwrap();
        assert_eq!((one[0], two[0]), (7, 7));
        assert!(memory.try_write(0).is_none());
        drop((one, two));
        assert!(memory.try_write(0).is_some());
    }

    #[test]
    fn a_pool_larger_than_memory_is_refused() {
        let error = PageMemory::new(1 << 40, 1 << 20).err().unwrap();
        assert!(matches!(error, PoolError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        let mut buffer = AlignedBuffer::new(10_000);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        assert!(buffer.iter().all(|&b| b == 0));
        buffer[9_999] = 1;
        assert_eq!(buffer.len(), 10_000);
    }
}
