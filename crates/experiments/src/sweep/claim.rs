//! What must hold of what was measured.

use super::found::Seed;

/// On which side of a bound the truth must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Between(least, most) => format!("{least} to {most}"),
        }
    }
}

/// Something that must hold, for each seed or round by itself.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) statement: &'static str,
    /// What the paper says.
    pub(crate) paper: &'static str,
    pub(crate) unit: &'static str,
    /// What one seed or round says.
    pub(crate) ours: fn(&Seed<'_>) -> f64,
    pub(crate) bound: Bound,
    /// What to keep in mind.
    pub(crate) note: &'static str,
}
