//! Bucket arithmetic of the log-linear latency histograms that live in shared memory.
//!
//! The counters are atomics of the region. This module only maps a value to its bucket, and a
//! bucket to its values. There are eight buckets for each power of two, from 1.024 µs to 137 s. So
//! a percentile that is read from them is off by at most 12.5 %.

use crate::Nanos;

const LOW_BIT: u32 = 10;
const HIGH_BIT: u32 = 37;
const STEP_BITS: u32 = 3;

/// Number of buckets: one for everything below 1.024 µs, 27 octaves of 8, one for the rest.
pub const BUCKETS: usize = ((HIGH_BIT - LOW_BIT) as usize) * 8 + 2;

/// The bucket that counts `value`.
pub const fn bucket_of(value: Nanos) -> usize {
    let top = 63 - (value.0 | 1).leading_zeros();
    if top < LOW_BIT {
        0
    } else if top >= HIGH_BIT {
        BUCKETS - 1
    } else {
        let step = (value.0 >> (top - STEP_BITS)) & 7;
        (top - LOW_BIT) as usize * 8 + step as usize + 1
    }
}

/// Lower (inclusive) and upper (exclusive) bound of a bucket.
pub const fn bounds(bucket: usize) -> (Nanos, Nanos) {
    if bucket == 0 {
        return (Nanos(0), Nanos(1 << LOW_BIT));
    }
    if bucket >= BUCKETS - 1 {
        return (Nanos(1 << HIGH_BIT), Nanos(1 << (HIGH_BIT + 1)));
    }
    let octave = (bucket - 1) as u32 / 8 + LOW_BIT;
    let step = (bucket as u64 - 1) % 8;
    let width = 1u64 << (octave - STEP_BITS);
    let low = (1u64 << octave) + step * width;
    (Nanos(low), Nanos(low + width))
}

/// The value below which the fraction `quantile` (0–1) of the counted values lies, interpolated
/// inside its bucket. `None` if nothing was counted.
pub fn percentile(counts: &[u64; BUCKETS], quantile: f64) -> Option<Nanos> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = quantile.clamp(0.0, 1.0) * total as f64;
    let mut below = 0.0;
    for (bucket, &count) in counts.iter().enumerate() {
        let upto = below + count as f64;
        if count > 0 && upto >= rank {
            let (low, high) = bounds(bucket);
            let fraction = ((rank - below) / count as f64).clamp(0.0, 1.0);
            return Some(Nanos(low.0 + ((high.0 - low.0) as f64 * fraction) as u64));
        }
        below = upto;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_buckets_tile_the_line() {
        for bucket in 1..BUCKETS {
            assert_eq!(
                bounds(bucket - 1).1,
                bounds(bucket).0,
                "between {} and {bucket}",
                bucket - 1
            );
        }
    }

    #[test]
    fn the_median_of_one_bucket_is_its_middle() {
        let mut counts = [0u64; BUCKETS];
        counts[bucket_of(Nanos(1 << 20))] = 10;
        // 1 MiNs opens an octave whose steps are 2^17 wide.
        assert_eq!(percentile(&counts, 0.5), Some(Nanos((1 << 20) + (1 << 16))));
        assert_eq!(percentile(&[0; BUCKETS], 0.5), None);
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(value in 0u64..(1 << 38)) {
            let (low, high) = bounds(bucket_of(Nanos(value)));
            prop_assert!(low.0 <= value && value < high.0);
        }
    }
}
