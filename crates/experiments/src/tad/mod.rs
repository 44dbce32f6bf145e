//! Figures of the Split and Maat dissertation, simulated: thread architectures, their problems, and
//! what remedies do.
//!
//! A figure is a file of `figures`: a scenario of `headworks tad simulate` with its arms, points,
//! claims and panels. [`figure::Figure`] is what it says. Everything else (running the simulations,
//! the record, claims against it, the picture, the page) is common.

mod claim;
mod collect;
mod derived;
mod figure;
mod figures;
mod formula;
mod measure;
mod panel;
mod system;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use headworks_rig::machine::Load;

use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::html::escape;
use crate::progress::Progress;
use crate::record::unix_now_s;
use crate::sweep::record::Record;
use crate::sweep::{self, Presentation};
use figure::Figure;
pub(crate) use measure::measure;
pub(crate) use system::system;

/// The papers' titles are long; readers know this one by the name of its two systems.
const PAPER: &str = "Split and Maat dissertation";

/// What several simulations of the same are called.
const RUNS: &str = "seeds";

/// All of them, in the order of the dissertation.
pub(crate) fn experiments() -> Vec<Experiment> {
    figures::FIGURES.iter().map(experiment).collect()
}

/// What the registry knows of a figure.
fn experiment(figure: &'static Figure) -> Experiment {
    Experiment {
        id: &figure.id,
        title: &figure.title,
        paper: PAPER,
        figure: &figure.figure,
        expected_s: figure.time.takes_s.0,
        expected_quick_s: figure.time.takes_s.1,
        needs: &[],
        bench: figure,
    }
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        simulate(self, options, &collect::Plan::new(self, options))
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let record = sweep::read(directory, &self.id)?;
        let show = Presentation {
            id: &self.id,
            figure: &self.figure,
            about: &self.about,
            sweep_label: &self.axis.label,
            time_label: "simulated time, s",
            runs: RUNS,
            caption: format!("Simulation of {} s", record.counted_s),
            quick: "fewer seeds and less simulated time than a full one",
            appendix: format!("<h2>The scenario</h2>\n<pre>{}</pre>", escape(self.scenario.trim())),
            derive: &|run| self.derive(run),
            claims: &claim::claims(self),
            panels: panel::panels(self),
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}

fn simulate(figure: &'static Figure, options: &RunOptions, plan: &collect::Plan) -> Result<Record> {
    let experiment = experiment(figure);
    let expected_s =
        if options.quick { experiment.expected_quick_s } else { experiment.expected_s };
    let mut progress =
        Progress::new(&format!("{}: {}", figure.id, figure.title), Duration::from_secs(expected_s));
    let (began, recorded_at_unix_s, load_before) = (Instant::now(), unix_now_s(), Load::read());
    let arms = collect::collect(figure, plan, &mut progress)?;
    Ok(Record {
        header: experiment.header(options, recorded_at_unix_s),
        counted_s: plan.counted_s as f64,
        warmup_s: figure.time.warmup_s as f64,
        took_s: began.elapsed().as_secs_f64(),
        load_before,
        load_after: Load::read(),
        verdicts: Vec::new(),
        sweep: figure.axis.key.clone(),
        arms,
    })
}
