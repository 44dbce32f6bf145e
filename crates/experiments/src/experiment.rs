//! What an experiment is, how it is run, and what it produces.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use headworks_rig::gated::Instance;
use headworks_rig::machine::Machine;
use serde::Serialize;

use crate::record::{Header, Verdict};
use crate::sweep;
use crate::sweep::record::Record;

/// One experiment: a claim of a paper that a command can test.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Experiment {
    /// What to call it on a command line.
    pub id: &'static str,
    /// One line that says what it shows.
    pub title: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// The figure or section.
    pub figure: &'static str,
    /// How long a full run takes, in seconds.
    pub expected_s: u64,
    /// How long a quick run takes, in seconds.
    pub expected_quick_s: u64,
    /// The Debian packages and privileges it needs.
    pub needs: &'static [&'static str],
    #[serde(skip)]
    pub(crate) bench: &'static dyn Bench,
}

/// How an experiment is run and reported on.
pub(crate) trait Bench: Sync {
    /// Makes all runs.
    fn collect(&'static self, options: &RunOptions) -> Result<Record>;

    /// Judges and draws the record in a directory; `fresh` says that it was made in this very run.
    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome>;
}

impl fmt::Debug for dyn Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bench")
    }
}

/// An experiment that is not a sweep.
pub(crate) struct Steps {
    pub(crate) collect: fn(&RunOptions) -> Result<Record>,
    pub(crate) report: fn(&Path, bool) -> Result<Outcome>,
}

impl Bench for Steps {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        (self.collect)(options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        (self.report)(directory, fresh)
    }
}

impl Experiment {
    /// Makes the record, keeps it, and reports on it.
    pub(crate) fn run(&self, options: &RunOptions) -> Result<Outcome> {
        sweep::write(&options.out, &self.bench.collect(options)?)?;
        self.bench.report(&options.out, true)
    }

    /// The head of the record of a run that began at this time, on this machine.
    pub(crate) fn header(&self, options: &RunOptions, recorded_at_unix_s: u64) -> Header {
        Header {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            paper: self.paper.to_owned(),
            figure: self.figure.to_owned(),
            recorded_at_unix_s,
            quick: options.quick,
            seed: options.seed,
            machine: Machine::describe(),
        }
    }
}

/// How to run experiments.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// A short run over little data: shows that everything works, measures nothing well.
    pub quick: bool,
    /// The seed of all random choices: the order of the arms and the keys that clients draw.
    pub seed: u64,
    /// How many rounds; `None` leaves it to the experiment (3, quick 1).
    pub repeat: Option<usize>,
    /// Seconds measured in every run of every arm; `None` leaves it to the experiment (20, quick
    /// 5). A longer window gives steadier numbers; a window shorter than the warm-up shortens that,
    /// too.
    pub window_s: Option<u64>,
    /// Runs only the cases, or in `gate-open` the arms, whose name contains this. For development.
    pub only: Option<String>,
    /// Runs only these points of the axis; all of them if it is empty. For experiments on files.
    pub at: Vec<f64>,
    /// Where results go.
    pub out: PathBuf,
    /// Where temporary data goes; `None` chooses `OUT/work`, or a temporary directory if the server
    /// cannot use that.
    pub work: Option<PathBuf>,
    /// The `headworks` program that puts the gate in front of a server.
    pub headworks_exe: Option<PathBuf>,
    /// Users admitted at a time (P); `None` leaves it to the gate.
    pub parallelism: Option<u32>,
    /// The scheduling-round quota (ζ); `None` leaves it to the gate.
    pub quota: Option<f64>,
    /// Leaves out the arms that need the gate instead of refusing to run. For development.
    pub without_gate: bool,
}

impl RunOptions {
    /// The points of an axis that are run. `axis` has the experiment's id and the axis' name.
    ///
    /// # Errors
    /// `--at` names a point that is not on the axis.
    pub(crate) fn points<'a>(
        &'a self,
        (id, axis): (&str, &str),
        full: &'a [f64],
        quick: &'a [f64],
    ) -> Result<&'a [f64]> {
        let points = match (&self.at[..], self.quick) {
            ([], true) => quick,
            ([], false) => full,
            (at, _) => at,
        };
        let known = points.iter().all(|point| full.contains(point));
        ensure!(known, "{id} has these points: {full:?} ({axis})");
        Ok(points)
    }

    /// A full run with results in `out`.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            quick: false,
            seed: 1,
            repeat: None,
            window_s: None,
            only: None,
            at: Vec::new(),
            out: out.into(),
            work: None,
            headworks_exe: None,
            parallelism: None,
            quota: None,
            without_gate: false,
        }
    }

    /// The gate that the demonstrations put in front of a server, and its options of `headworks
    /// run`: P as asked for, or as usual. `None` if there is to be none.
    pub(crate) fn gate(&self, id: &str) -> Result<Option<(Instance, Vec<String>)>> {
        if self.without_gate {
            return Ok(None);
        }
        let gate = Instance::shared(self.headworks()?, format!("{id}-{}", std::process::id()));
        // Fixed: a search would still be under way in a window of seconds.
        let mut front = vec!["--parallelism".to_owned(), self.parallelism().to_string()];
        if let Some(quota) = self.quota {
            front.extend(["--quota".to_owned(), quota.to_string()]);
        }
        Ok(Some((gate, front)))
    }

    /// P as asked for, or 8 for each processor.
    pub(crate) fn parallelism(&self) -> u32 {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        self.parallelism.unwrap_or_else(|| 8 * cores())
    }

    /// The program that puts the gate in front of a server.
    pub(crate) fn headworks(&self) -> Result<PathBuf> {
        let program = self
            .headworks_exe
            .clone()
            .context("the program `headworks`, which makes the gate, is neither beside this one nor in PATH; install it: make install")?;
        ensure!(
            program.is_file(),
            "{} does not exist; build it first (cargo build --release)",
            program.display()
        );
        Ok(program)
    }
}

/// What one experiment produced.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The experiment's id.
    pub id: &'static str,
    /// The verdicts, in the order of the record.
    pub verdicts: Vec<Verdict>,
    /// The files written.
    pub files: Vec<PathBuf>,
    /// Table, verdicts and paths, for a terminal.
    pub text: String,
}
