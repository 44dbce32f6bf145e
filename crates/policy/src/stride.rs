//! Strides: what a use of the device adds to the pass of the account that used it.
//!
//! # The primitive
//! Each account has a *pass*, and the one with the least pass goes next. A use adds its cost,
//! divided by the account's weight. A level of 0 to 7 has the weight 8 to 1.
//!
//! Source: Split, section 2.5.1.

use crate::Nanos;

/// Passes count in nanoseconds times this. It is divisible by every weight, so that passes have no
/// remainders.
pub const STRIDE: u64 = 840;

/// Tickets of a level: 8 for 0, 1 for 7.
pub const fn weight(level: u8) -> u64 {
    let level = if level < 7 { level } else { 7 };
    8 - level as u64
}

/// What a use of this cost adds to the pass of an account of this level.
pub fn stride(cost: Nanos, level: u8) -> u128 {
    u128::from(cost.0) * u128::from(STRIDE / weight(level))
}
