//! Pins and latches as guards: dropping one releases it.

use crate::core::Core;
use crate::ids::{FrameId, Lsn, PageId};
use crate::memory::{ExclusiveBytes, SharedBytes};
use std::ops::Deref;

/// A pinned page: it stays in memory, but its bytes may change.
pub struct PagePin<'p> {
    pub(crate) core: &'p Core,
    pub(crate) frame: FrameId,
    pub(crate) page: PageId,
}

impl<'p> PagePin<'p> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> PageId {
        self.page
    }

    /// Takes the shared latch. Waits while another thread has the exclusive one or waits for it, so
    /// a thread that has the latch must not take it again.
    #[must_use]
    pub fn read(self) -> ReadGuard<'p> {
        ReadGuard { bytes: self.core.memory.read(self.frame), pin: self }
    }

    /// Takes the exclusive latch; waits while any thread has a latch.
    #[must_use]
    pub fn write(self) -> WriteGuard<'p> {
        let bytes = self.core.memory.write(self.frame);
        WriteGuard::of(self, bytes)
    }

    /// Takes the exclusive latch if no thread has a latch, else returns the pin.
    ///
    /// # Errors
    /// The pin itself.
    pub fn try_write(self) -> Result<WriteGuard<'p>, Self> {
        match self.core.memory.try_write(self.frame) {
            Some(bytes) => Ok(WriteGuard::of(self, bytes)),
            None => Err(self),
        }
    }
}

impl Drop for PagePin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.core.frames.get(self.frame).unpin();
    }
}

/// A page under its shared latch: any number of readers, no writer.
///
/// Dereferences to the whole page, with its header of [`crate::PAGE_HEADER_BYTES`]. It stays in the
/// thread that took the latch:
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<headworks_bufferpool::ReadGuard<'static>>();
/// ```
pub struct ReadGuard<'p> {
    // Declared first, so the latch is released before the pin.
    bytes: SharedBytes<'p>,
    pin: PagePin<'p>,
}

impl<'p> ReadGuard<'p> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> PageId {
        self.pin.page
    }

    /// The LSN of the last change.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.pin.core.format.lsn(&self.bytes)
    }
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A page under its exclusive latch. Dereferences to the whole page, read only; see
/// [`WriteGuard::change`]. It stays in the thread that took the latch:
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<headworks_bufferpool::WriteGuard<'static>>();
/// ```
pub struct WriteGuard<'p> {
    bytes: ExclusiveBytes<'p>,
    pin: PagePin<'p>,
    /// The page's LSN. It is written into the header when the guard is dropped, so that a change
    /// cannot overwrite it.
    lsn: Lsn,
    changed: bool,
}

impl<'p> WriteGuard<'p> {
    fn of(pin: PagePin<'p>, bytes: ExclusiveBytes<'p>) -> Self {
        let lsn = pin.core.format.lsn(&bytes);
        WriteGuard { bytes, pin, lsn, changed: false }
    }
}

impl WriteGuard<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> PageId {
        self.pin.page
    }

    /// The LSN of the last change.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The bytes, for a change. The page is dirty from here on.
    ///
    /// Call it before the record of the change is appended; `rec_lsn` is the end of the log, read
    /// before this call. A checkpoint that begins after the append then finds the page dirty. One
    /// that begins before it ends before the record. In the other order (append, then `change`) a
    /// checkpoint in between could drop the record while no page has the change.
    ///
    /// The first 24 bytes are the pool's ([`crate::PAGE_HEADER_BYTES`]): what is written there has
    /// no effect.
    pub fn change(&mut self, rec_lsn: Lsn) -> &mut [u8] {
        self.pin.core.mark_dirty(self.pin.frame, rec_lsn);
        self.changed = true;
        &mut self.bytes
    }

    /// Sets the LSN of the change: the end of its record. The page is not written before the log is
    /// durable up to there. An LSN never goes back. Of two the later one stays, as the page
    /// also has the earlier change.
    ///
    /// # Panics
    /// If the page was not changed: an LSN on a clean page would be lost.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        let flags = self.pin.core.frames.get(self.pin.frame).flags();
        assert!(flags & crate::frames::DIRTY != 0, "page {} is clean", self.pin.page);
        self.lsn = self.lsn.max(lsn);
        self.changed = true;
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.pin.core.format.set_lsn(&mut self.bytes, self.lsn);
        }
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
