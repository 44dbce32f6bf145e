//! Which kind of device small `fsync`s show.
//!
//! The kernel's word is often wrong. A virtual disk calls itself a disk and is flash, and a disk
//! under a loop device is called flash. An `fsync` of a few pages tells more. A disk turns at least
//! once for the journal's commit, so it is hardly ever over within [`QUICK`]. Flash may take as
//! long beside others, but not each time. The verdict comes from [`SAMPLES`] of them.

use crate::Nanos;

/// A disk's `fsync` takes longer than this, but for a few.
pub const QUICK: Nanos = Nanos::from_micros(2_000);
/// Flash has some that take less than this.
pub const UNHURRIED: Nanos = Nanos::from_micros(4_000);
/// One verdict for so many. So many of them have to be quick on flash: a quarter.
pub const SAMPLES: u32 = 16;
const QUICK_MIN: u32 = SAMPLES / 4;
/// After so many verdicts the kind stays as it is.
const VERDICTS_MAX: u32 = 64;

/// See the module. All zero bytes have learned nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Learner {
    samples: u32,
    quick: u32,
    unhurried: u32,
    verdicts: u32,
    /// It was found to be flash, which no disk looks like.
    is_flash: u32,
}

crate::layout!(Learner { samples, quick, unhurried, verdicts, is_flash });

impl Learner {
    /// An `fsync` of a few dirty pages took so long. Says which kind the device is, if it is not
    /// the one that it is taken for.
    pub fn saw(&mut self, rotational: bool, took: Nanos) -> Option<bool> {
        if self.verdicts >= VERDICTS_MAX || self.is_flash != 0 {
            return None;
        }
        self.samples = self.samples.wrapping_add(1);
        self.quick += u32::from(took < QUICK);
        self.unhurried += u32::from(took < UNHURRIED);
        if self.samples < SAMPLES {
            return None;
        }
        let (flash, disk) = (self.quick >= QUICK_MIN, self.unhurried == 0);
        let verdicts = self.verdicts + 1;
        *self = Learner { verdicts, is_flash: flash.into(), ..Learner::default() };
        match rotational {
            true => flash.then_some(false),
            false => disk.then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind that a device is taken for after its `fsync`s.
    fn learned(mut rotational: bool, mut took_us: impl FnMut(u64) -> u64, count: u64) -> bool {
        let mut learner = Learner::default();
        for number in 0..count {
            let took = Nanos::from_micros(took_us(number));
            rotational = learner.saw(rotational, took).unwrap_or(rotational);
        }
        rotational
    }

    #[test]
    fn a_fast_device_is_flash_and_one_that_turns_is_a_disk() {
        let disk = |number: u64| 6_000 + 1_700 * (number % 7);
        let virtio = |number: u64| [300, 700, 2_400, 3_900][number as usize % 4];
        for taken_for in [true, false] {
            assert!(learned(taken_for, disk, 100), "a disk");
            assert!(!learned(taken_for, virtio, 100), "a virtual disk on flash");
        }
    }

    #[test]
    fn few_fsyncs_and_contention_change_nothing() {
        assert!(learned(true, |_| 100, u64::from(SAMPLES) - 1));
        // Now and then the cache of a disk is empty already.
        assert!(learned(true, |number| if number.is_multiple_of(8) { 500 } else { 9_000 }, 1_000));
        // Flash beside a flood: most take long.
        let beside = |number: u64| if number.is_multiple_of(16) { 3_000 } else { 40_000 };
        assert!(!learned(false, beside, 1_000));
        // A flood for a while, and then none: what was learned wrongly is learned again.
        let flood = |number: u64| if number < 64 { 40_000 } else { 300 };
        assert!(learned(false, flood, 64) && !learned(false, flood, 128));
    }
}
