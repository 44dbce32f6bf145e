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

/// A number in the paper's own unit, which the same system gives here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absolute {
    /// What it is, with its unit.
    pub(crate) what: &'static str,
    pub(crate) paper: f64,
    pub(crate) ours: fn(&Seed<'_>) -> f64,
}

/// Something that must hold of the median of seeds or rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) statement: &'static str,
    /// What the paper says.
    pub(crate) paper: &'static str,
    pub(crate) unit: &'static str,
    /// What one seed or round says.
    pub(crate) ours: fn(&Seed<'_>) -> f64,
    pub(crate) bound: Bound,
    /// The paper's number for the same, if it gives one. A statement may hold and be far from it.
    pub(crate) given: Option<f64>,
    /// Numbers that the paper gives in its own units.
    pub(crate) absolute: &'static [Absolute],
    /// What to keep in mind.
    pub(crate) note: &'static str,
}

impl Claim {
    /// One that still needs a number and a bound.
    pub(crate) const fn new(statement: &'static str) -> Self {
        let bound = Bound::AtLeast(f64::INFINITY);
        Self {
            statement,
            paper: "",
            unit: "",
            ours: |_| f64::NAN,
            bound,
            given: None,
            absolute: &[],
            note: "",
        }
    }

    /// What the paper says.
    pub(crate) const fn paper(self, paper: &'static str) -> Self {
        Self { paper, ..self }
    }

    /// What is held against the bound, and its unit.
    pub(crate) const fn ours(self, unit: &'static str, ours: fn(&Seed<'_>) -> f64) -> Self {
        Self { unit, ours, ..self }
    }

    /// The paper's number for what is held against the bound.
    pub(crate) const fn given(self, given: f64) -> Self {
        Self { given: Some(given), ..self }
    }

    /// Numbers in the paper's own units.
    pub(crate) const fn absolute(self, absolute: &'static [Absolute]) -> Self {
        Self { absolute, ..self }
    }

    pub(crate) const fn within(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    pub(crate) const fn at_least(self, least: f64) -> Self {
        self.within(Bound::AtLeast(least))
    }

    pub(crate) const fn at_most(self, most: f64) -> Self {
        self.within(Bound::AtMost(most))
    }

    pub(crate) const fn between(self, least: f64, most: f64) -> Self {
        self.within(Bound::Between(least, most))
    }

    /// What to keep in mind.
    pub(crate) const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}
