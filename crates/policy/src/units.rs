//! Units as types.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A span or a point of monotonic time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Nanos(us.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// As milliseconds, with fractions.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later, which happens when two threads
    /// read the clock around a hand-over.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        self.since(other)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1_000 => write!(f, "{ns} ns"),
            ns if ns < 1_000_000 => write!(f, "{:.1} µs", ns as f64 / 1e3),
            ns if ns < 1_000_000_000 => write!(f, "{:.1} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.2} s", ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_never_run_backwards() {
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos(0));
        assert_eq!(Nanos(9) - Nanos(5), Nanos(4));
    }

    #[test]
    fn display_picks_a_readable_unit() {
        assert_eq!(Nanos(1_500).to_string(), "1.5 µs");
        assert_eq!(Nanos::from_millis(2_500).to_string(), "2.50 s");
    }
}
