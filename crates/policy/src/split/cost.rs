//! What dirty pages will cost the device: a prompt guess, and a later revision.
//!
//! # Problem
//! A write must be charged when it happens, or a burst fills the page cache for free. What it costs
//! is known only when it reaches the device. Before, it may be written over, deleted, or become
//! part of a long sequential transfer (Split, section 2.3.2).
//!
//! # The primitive
//! *Preliminary*: a write that goes on where the last one to the file ended costs its transfer; any
//! other costs a seek as well. *Revised*: pages that are written in the order of their offsets cost
//! their transfer and a seek for each gap. Costs are device time. [`DeviceCost::bytes`] turns them
//! into *normalized* bytes, those that the device could have transferred in that time. 1 MB of
//! random I/O may count as 10 MB (section 2.5.3).
//!
//! # Worked example
//! A disk with seeks of 8 ms and 128 MB/s. 4 KiB at a random offset: 8.03 ms, or 1.03 MB.

use super::PAGE_BYTES;
use crate::Nanos;

/// A device, as far as costs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DeviceCost {
    /// An average seek between two places of a file. Zero for flash.
    pub seek: Nanos,
    /// Bytes transferred in a second.
    pub bytes_per_s: u64,
    /// A step ahead of up to so many bytes is no seek.
    pub near: u64,
}

crate::layout!(DeviceCost { seek, bytes_per_s, near });

impl DeviceCost {
    /// A disk with one spindle.
    pub const DISK: DeviceCost =
        DeviceCost { seek: Nanos::from_millis(8), bytes_per_s: 128_000_000, near: 128 * 1024 };

    /// A flash drive on which a random page costs what 16 KiB in sequence cost.
    pub const FLASH: DeviceCost =
        DeviceCost { seek: Nanos::from_micros(60), bytes_per_s: 250_000_000, near: PAGE_BYTES };

    /// The usual one for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        if rotational { DeviceCost::DISK } else { DeviceCost::FLASH }
    }

    /// Time to transfer so many bytes.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Device time of `bytes` at `offset` where the last access to the file ended at `last_end`:
    /// the preliminary model.
    pub fn access(&self, last_end: u64, offset: u64, bytes: u64) -> Nanos {
        let sequential = offset >= last_end && offset - last_end <= self.near;
        let seek = if sequential { Nanos(0) } else { self.seek };
        seek + self.transfer(bytes)
    }

    /// Device time of `bytes` in `runs` pieces, written in the order of their offsets: the revised
    /// model.
    pub fn runs(&self, runs: u64, bytes: u64) -> Nanos {
        Nanos(self.seek.0.saturating_mul(runs)) + self.transfer(bytes)
    }

    /// Bytes that the device could have transferred in this time.
    pub fn bytes(&self, time: Nanos) -> u64 {
        let bytes = u128::from(time.0) * u128::from(self.bytes_per_s) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Default for DeviceCost {
    fn default() -> Self {
        DeviceCost::DISK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_costs_a_seek_and_sequential_does_not() {
        let disk = DeviceCost::DISK;
        assert_eq!(disk.access(4096, 4096, 128_000), Nanos::from_millis(1));
        assert_eq!(disk.access(4096, 0, 128_000), Nanos::from_millis(9), "back is a seek");
        assert_eq!(disk.bytes(disk.access(0, 1 << 30, 4096)), 1_028_096);
        assert_eq!(disk.runs(2, 128_000), Nanos::from_millis(17));
    }

    #[test]
    fn absurd_numbers_stay_in_range() {
        let none = DeviceCost { seek: Nanos(u64::MAX), bytes_per_s: 0, near: 0 };
        assert_eq!(none.access(1, 0, u64::MAX), Nanos(u64::MAX));
        assert_eq!(none.bytes(Nanos(5)), 0);
    }
}
