//! What a figure consists of. A figure is data: arms, points, seeds, and what must hold of them.

use anyhow::{Result, anyhow};
use headworks_tad::model::Tad;
use headworks_tad::remedy::{Problem, apply};
use headworks_tad::{file, systems};

use super::panel::Panel;
use super::record::Run;
use crate::experiment::Experiment;
pub(crate) use crate::sweep::{Absolute, Claim};

/// The papers' titles are long; readers know this one by the name of its two systems.
pub(super) const PAPER: &str = "Split and Maat dissertation";

/// A figure of the dissertation.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The experiment's id.
    pub(crate) id: &'static str,
    /// One line that says what it shows.
    pub(crate) title: &'static str,
    /// Number of the figure.
    pub(crate) figure: &'static str,
    /// What is simulated, in a few sentences.
    pub(crate) about: &'static str,
    /// Name of the system of every arm that does not name another.
    pub(crate) system: &'static str,
    /// The scenario as its file would be, with [`PLACEHOLDERS`].
    pub(crate) scenario: &'static str,
    /// What changes from point to point.
    pub(crate) sweep: Sweep,
    /// Who is compared with whom.
    pub(crate) arms: &'static [Arm],
    /// For how long.
    pub(crate) time: Time,
    /// Keys of what is recorded of every run; a `*` stands for anything.
    pub(crate) keep: &'static [&'static str],
    /// Adds numbers that follow from those that are recorded. Also done with old records.
    pub(crate) derive: fn(&mut Run),
    /// What must hold.
    pub(crate) claims: &'static [Claim],
    /// The picture.
    pub(crate) panels: fn() -> Vec<Panel>,
    /// How long all runs take on two cores, full and quick, in seconds.
    pub(crate) expected_s: (u64, u64),
}

/// What a scenario text may have in it: the point, the simulated time, the time that is not
/// counted, and the moment in the middle at which something changes.
pub(crate) const PLACEHOLDERS: [&str; 4] = ["{x}", "{duration}", "{warmup}", "{middle}"];

/// Values on the horizontal axis.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Key in the record, with its unit.
    pub(crate) key: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    pub(crate) points: &'static [f64],
}

/// A system with remedies.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Its name, by which claims and panels refer to it.
    pub(crate) label: &'static str,
    /// Another system than the figure's.
    pub(crate) system: Option<&'static str>,
    /// Letters of the remedies of the five problems, in their order, as the dissertation writes
    /// them: `d|i|?|?|?`.
    pub(crate) maat: &'static str,
    /// Queues have the policies of the system's file, and not the scenario's.
    pub(crate) shipped: bool,
    /// Whatever else is different about the system at a point.
    pub(crate) adjust: fn(&mut Tad, f64) -> Result<()>,
}

/// An arm without anything else.
pub(crate) const fn arm(label: &'static str, maat: &'static str) -> Arm {
    Arm { label, system: None, maat, shipped: false, adjust: |_, _| Ok(()) }
}

/// A system as it is shipped.
pub(crate) const fn shipped(label: &'static str) -> Arm {
    Arm { shipped: true, ..arm(label, "?|?|?|?|?") }
}

/// Simulated time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// Counted in a full run, in seconds.
    pub(crate) full_s: u64,
    /// Counted in a quick run.
    pub(crate) quick_s: u64,
    /// Not counted, at the start.
    pub(crate) warmup_s: u64,
}

impl Figure {
    /// What the registry knows of it.
    pub(crate) const fn experiment(&'static self) -> Experiment {
        Experiment {
            id: self.id,
            title: self.title,
            paper: PAPER,
            figure: self.figure,
            expected_s: self.expected_s.0,
            expected_quick_s: self.expected_s.1,
            needs: &[],
            bench: self,
        }
    }

    /// The system of an arm at a point.
    pub(crate) fn tad(&self, arm: &Arm, point: f64) -> Result<Tad> {
        let mut tad = system(arm.system.unwrap_or(self.system), arm.maat)?;
        (arm.adjust)(&mut tad, point)?;
        Ok(tad)
    }

    /// The scenario at a point.
    pub(crate) fn scenario_text(&self, point: f64, counted_s: u64) -> String {
        let duration_s = self.time.warmup_s + counted_s;
        let values = [
            format!("{point}"),
            format!("{duration_s} s"),
            format!("{} s", self.time.warmup_s),
            format!("{} ms", duration_s * 500),
        ];
        let text = self.scenario.to_owned();
        PLACEHOLDERS.iter().zip(values).fold(text, |text, (name, value)| text.replace(name, &value))
    }
}

/// A built-in system with remedies: letters as an [`Arm`] has them.
pub(crate) fn system(name: &str, maat: &str) -> Result<Tad> {
    let text = systems::text(name)
        .or_else(|| systems::problem_text(name))
        .ok_or_else(|| anyhow!("no system is named {name}"))?;
    let mut tad = file::read_tad(name, text).map_err(|errors| anyhow!("{errors}"))?.value;
    for (problem, letter) in Problem::ALL.into_iter().zip(maat.split('|')) {
        if letter == "?" {
            continue;
        }
        let alternatives = tad.remedies.get(&problem).cloned().unwrap_or_default();
        let chosen = alternatives
            .iter()
            .find(|each| each.letter == letter)
            .ok_or_else(|| anyhow!("system {name} has no remedy {letter} of {}", problem.name()))?;
        for remedy in &chosen.remedies {
            apply(&mut tad, remedy)?;
        }
    }
    Ok(tad)
}
