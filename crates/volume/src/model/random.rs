//! Numbers that look random and are the same for the same seed.

/// SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Begins at `seed`.
    pub const fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    pub fn fraction(&mut self) -> f64 {
        // 53 bits are what the type holds.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product of 64 bits each is below the limit.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}
