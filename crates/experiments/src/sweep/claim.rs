//! What must hold of what was measured.

use std::fmt;

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

/// What one seed or round says.
#[derive(Clone, Copy)]
pub(crate) enum Ours {
    Function(fn(&Seed<'_>) -> f64),
    /// As a figure's file says it.
    Formula(&'static (dyn Fn(&Seed<'_>) -> f64 + Sync)),
}

impl fmt::Debug for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ours")
    }
}

impl Ours {
    pub(crate) fn of(self, seed: &Seed<'_>) -> f64 {
        match self {
            Self::Function(function) => function(seed),
            Self::Formula(formula) => formula(seed),
        }
    }
}

/// A number in the paper's own unit, which the same system gives here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absolute {
    /// What it is, with its unit.
    pub(crate) what: &'static str,
    pub(crate) paper: f64,
    pub(crate) ours: Ours,
}

/// Something that must hold of the median of seeds or rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) statement: &'static str,
    /// What the paper says.
    pub(crate) paper: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: Ours,
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
            ours: Ours::Function(|_| f64::NAN),
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

    /// The measured figure that is compared with the bound, and its unit.
    pub(crate) const fn ours(self, unit: &'static str, ours: fn(&Seed<'_>) -> f64) -> Self {
        Self { unit, ours: Ours::Function(ours), ..self }
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
