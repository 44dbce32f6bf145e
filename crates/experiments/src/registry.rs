//! The list of experiments, and the three things one can do with it: show it, run from it, report again.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::record::Outcome;
use crate::{
    apples, everyday, gate_mariadb, gate_postgres, gate_redis, index, interrupt, lruc, neighbours,
    split, tad,
};

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
    pub(crate) run: fn(&RunOptions) -> Result<Outcome>,
    #[serde(skip)]
    pub(crate) report: fn(&Path) -> Result<Outcome>,
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
    /// Seconds measured in every run of every arm; `None` leaves it to the experiment (20, quick 5). A longer window
    /// gives steadier numbers; a window shorter than the warm-up shortens that, too.
    pub window_s: Option<u64>,
    /// Runs only the cases, or in `gate-open` the arms, whose name contains this. For development.
    pub only: Option<String>,
    /// Where results go.
    pub out: PathBuf,
    /// Where temporary data goes; `None` chooses `OUT/work`, or a temporary directory if the server cannot use that.
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
    /// A full run with results in `out`.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            quick: false,
            seed: 1,
            repeat: None,
            window_s: None,
            only: None,
            out: out.into(),
            work: None,
            headworks_exe: None,
            parallelism: None,
            quota: None,
            without_gate: false,
        }
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

static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let gates = [
        gate_mariadb::EXPERIMENT,
        gate_postgres::EXPERIMENT,
        gate_redis::EXPERIMENT,
        neighbours::EXPERIMENT,
    ];
    [
        &gates[..],
        everyday::EXPERIMENTS,
        apples::EXPERIMENTS,
        tad::EXPERIMENTS,
        lruc::EXPERIMENTS,
        split::EXPERIMENTS,
    ]
    .concat()
});

/// Every experiment there is.
pub fn list() -> &'static [Experiment] {
    &EXPERIMENTS
}

/// Looks an experiment up.
pub fn find(id: &str) -> Option<&'static Experiment> {
    list().iter().find(|experiment| experiment.id == id)
}

/// Runs experiments one after the other, with progress on standard error, and writes their records, pictures and
/// pages into `options.out`.
///
/// SIGINT and SIGTERM end the run with an error after everything that was started is gone.
pub fn run(ids: &[impl AsRef<str>], options: &RunOptions) -> Result<Vec<Outcome>> {
    let mut experiments = Vec::new();
    for id in ids {
        let id = id.as_ref();
        match find(id) {
            Some(experiment) => experiments.push(experiment),
            None => {
                bail!("no experiment `{id}`; `headworks bench list` names them all: {}", names())
            }
        }
    }
    ensure!(!experiments.is_empty(), "name at least one experiment: {}", names());
    std::fs::create_dir_all(&options.out).map_err(|error| {
        anyhow::anyhow!("cannot create the output directory {}: {error}", options.out.display())
    })?;
    let _watch = interrupt::Watch::new();
    let _tables = Tables;
    let mut outcomes = Vec::new();
    for experiment in experiments {
        outcomes.push((experiment.run)(options)?);
        index::write(&options.out)?;
    }
    Ok(outcomes)
}

/// Removes what experiments keep for each other.
struct Tables;

impl Drop for Tables {
    fn drop(&mut self) {
        apples::forget_data();
        lruc::forget_data();
    }
}

/// Analyses and draws again every record in a directory.
pub fn report(directory: &Path) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for experiment in list() {
        if directory.join(format!("{}.json", experiment.id)).exists() {
            outcomes.push((experiment.report)(directory)?);
        }
    }
    ensure!(
        !outcomes.is_empty(),
        "{} holds no record of an experiment ({})",
        directory.display(),
        names()
    );
    index::write(directory)?;
    Ok(outcomes)
}

fn names() -> String {
    list().iter().map(|experiment| experiment.id).collect::<Vec<_>>().join(", ")
}
