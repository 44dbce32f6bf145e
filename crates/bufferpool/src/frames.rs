//! Metadata of each frame: pins, page, state, list links.
//!
//! The life of a frame: *closed* (free, or being filled or emptied; it cannot be pinned) → *open*
//! (holds a page; hits pin it) → closed again by [`Nodes::claim`], which succeeds only while there
//! is no pin and the page is clean.

use crate::attribution::Dirtiers;
use crate::ids::{FrameId, Lsn, NIL, PageId};
use crate::lru::node::Node;
use crate::lru::{Claim, Nodes};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use parking_lot::Mutex;
use std::sync::Arc;

/// One pin.
const PIN: u64 = 1;
/// The bits that count pins.
const PINS: u64 = (1 << 24) - 1;
/// No thread may pin.
const CLOSED: u64 = 1 << 31;
/// One hit. The upper half of the word counts hits, so a hit needs no further instruction. An
/// overflow after 2^32 hits is lost and harmless.
const HIT: u64 = 1 << 32;

/// The page differs from storage.
pub(crate) const DIRTY: u32 = 1;
/// A write of the page is in progress.
pub(crate) const WRITING: u32 = 2;
/// The page is being read; its loader holds the exclusive latch.
pub(crate) const LOADING: u32 = 4;

/// All that a hit uses of a frame: one cache line.
#[repr(align(64))]
pub(crate) struct Frame {
    /// Pins, the closed bit and hits.
    pins: AtomicU64,
    /// [`PageId`] of the page held. Written by the thread that closed the frame.
    page: AtomicU64,
    flags: AtomicU32,
    /// Next frame of the same bucket of the page table.
    pub(crate) chain: AtomicU32,
    pub(crate) node: Node,
}

/// When a change was made.
#[derive(Clone, Copy)]
pub(crate) struct Since {
    /// At or before its position in the log.
    pub(crate) lsn: Lsn,
    /// Number of flushes of the whole pool that had begun. Without a log only this gives an order.
    pub(crate) era: u64,
}

/// When a dirty page was first changed.
#[derive(Clone, Copy)]
pub(crate) struct FlushState {
    /// The oldest change that storage lacks.
    pub(crate) oldest: Since,
    /// The first change after the copy that is being written, if there is one.
    pub(crate) redirtied: Option<Since>,
}

/// The frames of a pool.
pub(crate) struct Frames {
    frames: Box<[Frame]>,
    flush: Box<[Mutex<FlushState>]>,
    dirtiers: Box<[Dirtiers]>,
}

impl Frames {
    /// `count` frames, all closed and empty.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let frame = |_| Frame {
            pins: AtomicU64::new(CLOSED),
            page: AtomicU64::new(PageId::NONE.0),
            flags: AtomicU32::new(0),
            chain: AtomicU32::new(NIL),
            node: Node::new(),
        };
        let flush =
            |_| Mutex::new(FlushState { oldest: Since { lsn: Lsn::MAX, era: 0 }, redirtied: None });
        Arc::new(Self {
            frames: (0..count).map(frame).collect(),
            flush: (0..count).map(flush).collect(),
            dirtiers: (0..count).map(|_| Dirtiers::default()).collect(),
        })
    }

    #[inline]
    pub(crate) fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame as usize]
    }

    pub(crate) fn flush_state(&self, frame: FrameId) -> &Mutex<FlushState> {
        &self.flush[frame as usize]
    }

    pub(crate) fn dirtiers(&self, frame: FrameId) -> &Dirtiers {
        &self.dirtiers[frame as usize]
    }
}

impl Frame {
    /// Takes a pin and counts a hit, unless the frame is closed.
    ///
    /// The pin is added first, and removed if the frame is closed: one atomic addition on the
    /// common path, no loop.
    #[inline]
    pub(crate) fn try_pin(&self) -> bool {
        // Acquire: pairs with the release in `open`, so the page's fields are seen.
        let before = self.pins.fetch_add(PIN + HIT, Ordering::Acquire);
        if before & CLOSED != 0 {
            self.pins.fetch_sub(PIN + HIT, Ordering::Relaxed);
            return false;
        }
        debug_assert!(before & PINS < PINS, "2^24 pins of one page");
        true
    }

    /// Takes a pin without counting a hit.
    pub(crate) fn try_pin_quietly(&self) -> bool {
        let before = self.pins.fetch_add(PIN, Ordering::Acquire);
        if before & CLOSED != 0 {
            self.pins.fetch_sub(PIN, Ordering::Relaxed);
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn unpin(&self) {
        // Release: the thread that closes the frame sees all that was done under the pin.
        let before = self.pins.fetch_sub(PIN, Ordering::Release);
        debug_assert!(before & PINS > 0, "a pin was given back twice");
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Relaxed) & PINS != 0
    }

    /// Hits on the frame since the pool was made, whatever it held: their lower 32 bits.
    pub(crate) fn hits(&self) -> u32 {
        // The upper half of the word fits.
        (self.pins.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Closes the frame if there are no pins but `pins_of_caller`, which are consumed.
    pub(crate) fn try_close(&self, pins_of_caller: u64) -> bool {
        let mut word = self.pins.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 || word & PINS != pins_of_caller {
                return false;
            }
            let closed = (word | CLOSED) - pins_of_caller;
            match self.pins.compare_exchange_weak(word, closed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Opens the frame with one pin, the caller's.
    ///
    /// Additions, not a store: a thread that tried to pin the closed frame may be about to remove
    /// its pin.
    pub(crate) fn open_pinned(&self) {
        self.pins.fetch_add(PIN, Ordering::Relaxed);
        self.pins.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Opens a frame that was closed a moment ago, unchanged.
    pub(crate) fn reopen(&self) {
        self.pins.fetch_and(!CLOSED, Ordering::Release);
    }

    #[inline]
    pub(crate) fn page(&self) -> PageId {
        PageId(self.page.load(Ordering::Acquire))
    }

    pub(crate) fn set_page(&self, page: PageId) {
        self.page.store(page.0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Acquire)
    }

    pub(crate) fn set_flags(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::AcqRel);
    }

    pub(crate) fn clear_flags(&self, flags: u32) {
        self.flags.fetch_and(!flags, Ordering::AcqRel);
    }
}

impl Nodes for Arc<Frames> {
    fn node(&self, frame: FrameId) -> &Node {
        &self.get(frame).node
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.get(frame).flags() & (DIRTY | WRITING) != 0
    }

    fn page(&self, frame: FrameId) -> PageId {
        self.get(frame).page()
    }

    fn hits(&self, frame: FrameId) -> u32 {
        self.get(frame).hits()
    }

    fn claim(&self, frame: FrameId) -> Claim {
        let it = self.get(frame);
        if it.flags() & (DIRTY | WRITING) != 0 {
            return Claim::Dirty;
        }
        if !it.try_close(0) {
            return Claim::Pinned;
        }
        // Only a pin makes a page dirty, and none is left: this check is final.
        if it.flags() & (DIRTY | WRITING) != 0 {
            it.reopen();
            return Claim::Dirty;
        }
        Claim::Claimed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fills_one_cache_line() {
        assert_eq!(std::mem::size_of::<Frame>(), 64);
    }

    #[test]
    fn a_pinned_or_dirty_frame_is_not_claimed() {
        let frames = Frames::new(1);
        assert!(!frames.get(0).try_pin(), "closed at birth");
        frames.get(0).open_pinned();
        assert_eq!(frames.claim(0), Claim::Pinned);
        assert!(frames.get(0).try_pin());
        frames.get(0).unpin();
        frames.get(0).unpin();
        frames.get(0).set_flags(DIRTY);
        assert_eq!(frames.claim(0), Claim::Dirty);
        frames.get(0).clear_flags(DIRTY);
        assert_eq!(frames.claim(0), Claim::Claimed);
        assert!(!frames.get(0).try_pin());
        assert_eq!(frames.get(0).hits(), 1);
        frames.get(0).open_pinned();
        assert!(frames.get(0).try_pin());
        assert_eq!(frames.get(0).hits(), 2);
    }
}
