//! Who is there in a figure, what they want, and who divides.

use super::load::Kind;

/// What an application is to have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wants {
    /// What is left.
    Rest,
    /// This part of what it does alone.
    PartOfAlone(f64),
    /// What it does with this share, as all have theirs.
    AsWithShare(f64),
}

/// An application of a figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub name: &'static str,
    pub host: usize,
    pub kind: Kind,
    pub wants: Wants,
    /// For each phase, the part of its load that is there. Beyond the last: as in the last.
    pub there: &'static [f64],
    /// For each phase, how many times the usual its transactions cost.
    pub cost: &'static [f64],
}

impl Member {
    pub(super) const fn new(name: &'static str, host: usize, kind: Kind, wants: Wants) -> Self {
        Member { name, host, kind, wants, there: &[1.0], cost: &[1.0] }
    }

    pub(super) const fn there(self, there: &'static [f64]) -> Self {
        Member { there, ..self }
    }

    pub(super) const fn cost(self, cost: &'static [f64]) -> Self {
        Member { cost, ..self }
    }
}

/// What holds in a phase.
pub(super) fn in_phase(list: &[f64], phase: usize) -> f64 {
    list.get(phase).or(list.last()).copied().unwrap_or(1.0)
}

/// Who divides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// A store's controller; hosts follow its grants.
    Controller(&'static str),
    /// The same; hosts are in network namespaces, and reach the store over TCP with TLS.
    OverTcp(&'static str),
    /// The best fixed shares of each phase, by hand.
    Fixed,
    /// The best fixed shares of the first phase, by hand, in all of them.
    Reserved,
    /// A queue of the store, without shares; hosts have none.
    Queue(&'static str),
    /// A store without shares; hosts' windows follow the latency.
    Windows,
    /// Only the first application is there.
    Alone,
}
