//! Random numbers that are the same on every machine: SplitMix64 (Steele, Lea and Flood 2014).

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `bound`, which is not zero. Bias is below 2⁻³² for bounds that fit in 32 bits.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The product's upper half is below `bound`.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}
