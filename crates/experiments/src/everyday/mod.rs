//! Everyday loads: clients that think, wait for locks, run long statements, or never wait for
//! answers.
//!
//! Each experiment has [`Arm`]s, which are variants of a server, and [`Case`]s, which are groups of
//! clients. The point of a case in the record is its number in the list, from 1.

mod client;
mod collect;
mod day;
mod judge;
mod locks;
mod open;
mod tables;
mod windows;

use crate::experiment::Experiment;
use crate::neighbours::site::Kind;
use client::Act;

/// The experiments.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[locks::EXPERIMENT, day::EXPERIMENT, open::EXPERIMENT];

/// What is in front of a server.
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
    /// Whether a quick run has it.
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

/// The gate with P = auto, and with a fixed P.
const AUTO: Front = Front::Gate("[gate]\n");
const P16: Front = Front::Gate("[gate]\nparallelism = 16\n");
const P4: Front = Front::Gate("[gate]\nparallelism = 4\n");

/// Server connections of PgBouncer.
const POOLED: u32 = 16;

/// Clients that do the same.
#[derive(Debug, Clone, Copy)]
struct Group {
    name: &'static str,
    clients: usize,
    act: Act,
    /// They work between these parts of the run.
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

/// A load: groups that work at the same time.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    groups: &'static [Group],
    /// The length of its runs, if it is not that of the experiment.
    window_s: Option<u64>,
    /// The only server that it runs on.
    only: Option<Kind>,
    /// Whether a quick run has it.
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
