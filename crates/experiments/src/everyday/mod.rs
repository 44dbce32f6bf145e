//! Loads of an ordinary day: clients that think, wait for locks, run long, and arrive whether or not they are answered.
//!
//! Each experiment is a list of [`Arm`]s (servers, as they are or behind the gate) and of [`Case`]s (groups of
//! clients). The point of a case in the record is its place in the list, counted from 1.

mod client;
mod collect;
mod day;
mod judge;
mod locks;
mod open;
mod tables;
mod windows;

use crate::neighbours::site::Kind;
use crate::registry::Experiment;
use client::Act;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[locks::EXPERIMENT, day::EXPERIMENT, open::EXPERIMENT];

/// What stands before a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    Nothing,
    /// The gate, with this configuration.
    Gate(&'static str),
    PgBouncer,
}

/// A variant of a server.
#[derive(Debug, Clone, Copy)]
struct Arm {
    label: &'static str,
    kind: Kind,
    front: Front,
    /// Whether it is there in a quick run.
    quick: bool,
}

impl Arm {
    const fn new(label: &'static str, kind: Kind, front: Front, quick: bool) -> Self {
        Self { label, kind, front, quick }
    }

    fn is_gated(&self) -> bool {
        matches!(self.front, Front::Gate(_))
    }
}

/// The gate finds P by itself, or is told.
const AUTO: Front = Front::Gate("[gate]\n");
const P16: Front = Front::Gate("[gate]\nparallelism = 16\n");
const P4: Front = Front::Gate("[gate]\nparallelism = 4\n");

/// Places for the server's connections of PgBouncer.
const POOLED: u32 = 16;

/// Clients that do the same.
#[derive(Debug, Clone, Copy)]
struct Group {
    name: &'static str,
    clients: usize,
    act: Act,
    /// When they work: parts of the window.
    from: f64,
    until: f64,
}

impl Group {
    const fn new(name: &'static str, clients: usize, act: Act) -> Self {
        Self { name, clients, act, from: 0.0, until: 1.0 }
    }

    const fn during(self, from: f64, until: f64) -> Self {
        Self { from, until, ..self }
    }
}

/// A load.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    groups: &'static [Group],
    /// Instead of the experiment's.
    window_s: Option<u64>,
    /// Only on this server.
    only: Option<Kind>,
    /// Whether it is there in a quick run.
    quick: bool,
}

impl Case {
    const fn new(name: &'static str, groups: &'static [Group]) -> Self {
        Self { name, groups, window_s: None, only: None, quick: false }
    }

    const fn also_quick(self) -> Self {
        Self { quick: true, ..self }
    }

    fn clients(&self) -> usize {
        self.groups.iter().map(|group| group.clients).sum()
    }
}
