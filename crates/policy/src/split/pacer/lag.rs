//! How long threads wait for a processor when they should go on.
//!
//! # Problem
//! Each batch costs its thread two wake-ups: it is told to begin, and it looks whether the pieces
//! are written. On a busy machine each of them waits for a processor, longer than the device takes
//! for a piece. Then the price of holding is many times what the device asks for.
//!
//! # The primitive
//! Threads report by how much they woke late. A batch has at least as many pieces as keep the
//! device busy for [`WAKE_UPS`] times the average. So holding takes less than twice as long as the
//! device.
//!
//! Commits by the clock are behind while a batch is written, and catch up while its thread wakes.
//! So if they take a part f of the time, a batch has no more pieces than the device writes in the
//! time of the wake-ups, times (1 − f) / f.

use crate::Nanos;

/// Those of a batch.
const WAKE_UPS: u64 = 2;

/// All zero bytes: no thread was late.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Lag {
    mean: Nanos,
}

crate::layout!(Lag { mean });

impl Lag {
    /// A thread woke so late.
    pub(super) fn saw(&mut self, by: Nanos) {
        self.mean = Nanos(self.mean.0 - self.mean.0 / 8 + by.0 / 8);
    }

    /// Pieces that a batch has at least.
    pub(super) fn least(&self, piece: Nanos) -> u32 {
        let pieces = self.mean.0.saturating_mul(WAKE_UPS) / piece.0.max(1);
        u32::try_from(pieces).unwrap_or(u32::MAX)
    }

    /// Pieces of a batch behind which commits that take so many hundredths of the time catch up,
    /// with a quarter to spare.
    pub(super) fn most(&self, piece: Nanos, taken: u64) -> u32 {
        let least = u64::from(self.least(piece));
        let pieces = least * 3 * 100_u64.saturating_sub(taken) / (4 * taken.max(1));
        u32::try_from(pieces).unwrap_or(u32::MAX)
    }
}
