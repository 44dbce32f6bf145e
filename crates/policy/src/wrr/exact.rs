//! Quotas and rounds, exact, in 64-bit arithmetic.
//!
//! They are worked out at every turn, under the region's lock, and a division of 128 bits is a slow
//! library call. All results are what exact arithmetic gives, rounded down to a whole unit. That
//! nothing overflows rests on the limits below. They are applied here and not left to the caller,
//! since its numbers lie in memory that others can write.

use super::{ONE, QUOTA_MAX, ROUND_BITS};
use crate::{CLASSES, SESSIONS};

/// Largest weight, in thousandths: a thousand times [`WEIGHT_ONE`](super::WEIGHT_ONE). Larger ones
/// count as this.
pub(super) const WEIGHT_MAX: u32 = 1_000_000;

/// Most that the weights of all sessions can be together: each its own, or 64 classes that share
/// theirs.
const TOTAL_MAX: u64 = WEIGHT_MAX as u64 * (SESSIONS + CLASSES) as u64;

/// Fractional bits of quotas and costs.
const ONE_BITS: u32 = ONE.trailing_zeros();

// What the products below are made of.
const _: () = assert!(
    WEIGHT_MAX < 1 << 20 && SESSIONS <= 1 << 14 && TOTAL_MAX < 1 << 34 && ONE_BITS == 16,
    "no product of these is above 64 bits"
);

/// Weight of one session: that of its class, divided among those who share it. A fraction, because
/// a light weight that thousands share is less than a thousandth each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    /// From 1 to [`WEIGHT_MAX`].
    thousandths: u64,
    /// From 1 to [`SESSIONS`].
    among: u64,
}

impl Weight {
    pub(super) fn new(thousandths: u32, among: u32) -> Self {
        Weight {
            thousandths: thousandths.clamp(1, WEIGHT_MAX).into(),
            among: u64::from(among).clamp(1, SESSIONS as u64),
        }
    }

    pub(super) fn is_less_than(self, other: Weight) -> bool {
        // Both below 2^34.
        self.thousandths * other.among < other.thousandths * self.among
    }
}

/// Requests in one round of a session of weight `own`, in units of [`ONE`]: its part of ζ
/// (`own·ζ/total`), and no less than `own/least`; [`QUOTA_MAX`] requests at the most. `total` is
/// the sum of the weights in thousandths, and `least` the least of them, which is not above `own`.
pub(super) fn quota(own: Weight, least: Weight, total: u64, zeta: u32) -> i64 {
    // What a class has together is at least what one of its sessions has.
    let total = total.clamp(own.thousandths, TOTAL_MAX);
    // Below 2^52 over below 2^48, and two products of at most 2^34.
    let by_zeta = ratio(own.thousandths * u64::from(zeta), own.among * total);
    let by_least = ratio(own.thousandths * least.among, own.among * least.thousandths);
    by_zeta.max(by_least) as i64
}

/// The quotient in units of [`ONE`], at most [`QUOTA_MAX`] of them. The denominator is below 2^48.
fn ratio(numerator: u64, denominator: u64) -> u64 {
    const MOST: u64 = (QUOTA_MAX * ONE) as u64;
    if numerator >> (u64::BITS - ONE_BITS) == 0 {
        return ((numerator << ONE_BITS) / denominator).min(MOST);
    }
    let whole = numerator / denominator;
    if whole >= QUOTA_MAX as u64 {
        return MOST;
    }
    // The rest is below the denominator.
    (whole << ONE_BITS) + ((numerator % denominator) << ONE_BITS) / denominator
}

/// Rounds that `cost` is worth to a session with `quota` in each, with [`ROUND_BITS`] fractional
/// bits; `u64::MAX` for more than that can say. Whatever costs something moves its session on.
pub(super) fn rounds(cost: i64, quota: i64) -> u64 {
    let cost = cost.max(0) as u64;
    // Below 2^37, so that a rest can be shifted.
    let quota = quota.clamp(1, QUOTA_MAX * ONE) as u64;
    const HIGH: u32 = u64::BITS - ROUND_BITS;
    let outcome = if cost >> HIGH == 0 {
        (cost << ROUND_BITS) / quota
    } else {
        // 268 million requests and more in one turn.
        let (whole, rest) = (cost / quota, cost % quota);
        if whole >> HIGH == 0 {
            (whole << ROUND_BITS) + (rest << ROUND_BITS) / quota
        } else {
            u64::MAX
        }
    };
    outcome.max(u64::from(cost > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The quotient of two products in units of [`ONE`], by 128 bits.
    fn exact(numerator: [u64; 2], denominator: [u64; 2]) -> u128 {
        let product = |[a, b]: [u64; 2]| u128::from(a) * u128::from(b);
        (product(numerator) << ONE_BITS) / product(denominator)
    }

    /// Numbers of every size up to `most`, and `most` itself.
    fn of_every_size(most: u64) -> impl Strategy<Value = u64> {
        let bits = u64::BITS - most.leading_zeros();
        prop_oneof![
            1 => Just(most),
            1 => Just(1),
            8 => (0..bits, any::<u64>()).prop_map(move |(bits, random)| {
                (random & ((2u64 << bits).wrapping_sub(1))).clamp(1, most)
            }),
        ]
    }

    fn weight() -> impl Strategy<Value = Weight> {
        let weight = |(thousandths, among)| Weight::new(thousandths as u32, among as u32);
        (of_every_size(WEIGHT_MAX.into()), of_every_size(SESSIONS as u64)).prop_map(weight)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_quota_is_what_128_bits_give(
            own in weight(),
            other in weight(),
            total in of_every_size(TOTAL_MAX),
            zeta in of_every_size(u32::MAX.into()),
        ) {
            let least = if other.is_less_than(own) { other } else { own };
            let sum = total.max(own.thousandths);
            let by_zeta = exact([own.thousandths, zeta], [own.among, sum]);
            let by_least =
                exact([own.thousandths, least.among], [own.among, least.thousandths]);
            let expected = by_zeta.max(by_least).min((QUOTA_MAX * ONE) as u128);
            prop_assert_eq!(quota(own, least, total, zeta as u32) as u128, expected);
            prop_assert!(expected >= ONE as u128, "at least one request");
        }

        #[test]
        fn rounds_are_what_128_bits_give(
            cost in of_every_size(i64::MAX as u64),
            quota in of_every_size((QUOTA_MAX * ONE) as u64),
        ) {
            let outcome = (u128::from(cost) << ROUND_BITS) / u128::from(quota);
            let expected = u64::try_from(outcome).unwrap_or(u64::MAX).max(1);
            prop_assert_eq!(rounds(cost as i64, quota as i64), expected);
        }

        /// Whatever stands in memory: no overflow, no division by zero.
        #[test]
        fn nonsense_has_a_result(words in any::<[u32; 4]>(), total in any::<u64>(), cost in any::<i64>(), by in any::<i64>()) {
            let own = Weight::new(words[0], words[1]);
            let found = quota(own, Weight::new(words[2], words[3]), total, words[0]);
            prop_assert!((0..=QUOTA_MAX * ONE).contains(&found));
            rounds(cost, by);
        }
    }

    #[test]
    fn what_costs_nothing_is_worth_nothing_and_the_rest_something() {
        assert_eq!(rounds(0, ONE), 0);
        assert_eq!(rounds(-5, ONE), 0);
        assert_eq!(rounds(1, QUOTA_MAX * ONE), 1);
        assert_eq!(rounds(ONE, ONE), 1 << ROUND_BITS);
    }
}
