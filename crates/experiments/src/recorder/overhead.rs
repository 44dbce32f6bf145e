//! What recording costs a saturated MariaDB, and an HBase: pairs of short windows, with and without
//! the recorder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use headworks_rig::machine::Load;

use super::hbase::{self, Cluster, Step, WARM_UP_S};
use super::interval::median;
use super::recorded;
use super::site::{Kind, Site};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::running::{Running, pause};
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation};
use crate::work::Work;

const ID: &str = "record-overhead";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "what recording costs a saturated server: pairs of windows with and without the recorder",
    (2_700, 150),
    &["mariadb-server-core", "sysbench", "make setup-java", "root"],
    &Steps { collect, report },
);

const MARIADB: &str = "MariaDB";
const HBASE: &str = "HBase";
const LOAD: &str = "oltp_point_select";
/// Sessions of each.
const ARMS: [(&str, &[f64]); 2] = [(MARIADB, &[16.0, 256.0]), (HBASE, &[32.0])];
const SESSIONS: [f64; 3] = [16.0, 32.0, 256.0];
/// Pairs of a full record.
const PAIRS: usize = 100;
const WINDOW_MS: u64 = 2_500;
/// The recorder loads its programs and looks at all threads before the window.
const BEFORE: Duration = Duration::from_millis(1_000);
/// And has room behind the window, so that its end is not within it.
const BEHIND: Duration = Duration::from_millis(500);
/// Longer than all windows.
const FOREVER_S: u64 = 36_000;
/// The server comes to its pace again.
const REST: Duration = Duration::from_millis(300);

fn collect(options: &RunOptions) -> Result<Record> {
    let pairs = options.repeat.unwrap_or(if options.quick { 3 } else { PAIRS }).max(1);
    let window = options.window_s.map_or(Duration::from_millis(WINDOW_MS), Duration::from_secs);
    let chosen = options.points((ID, "sessions"), &SESSIONS, &SESSIONS[..2])?;
    let only = |name: &str| options.only.as_deref().is_none_or(|only| name.contains(only));
    let cases: Vec<(&str, f64)> = ARMS
        .iter()
        .filter(|(name, _)| only(name))
        .flat_map(|(name, points)| points.iter().map(move |&sessions| (*name, sessions)))
        .filter(|(_, sessions)| chosen.contains(sessions))
        .collect();
    ensure!(!cases.is_empty(), "{ID} has no such server with so many sessions");
    let pair = 2 * window + BEFORE + BEHIND + 2 * REST + Duration::from_secs(2);
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, pair * (pairs * cases.len()) as u32);
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let file = options.out.join(format!("{ID}.toml"));
    let mut runs = Vec::new();
    let mut arms: BTreeMap<&str, (String, Vec<f64>)> = BTreeMap::new();
    for (name, sessions) in cases {
        let work = Work::new(options, 1 << 30)?;
        let server = Loaded::start(name, sessions, work, &progress)?;
        let mut all = Pairs::default();
        for number in 0..pairs {
            progress.step(&format!("{name}, {sessions} sessions, {}/{pairs}", number + 1), pair);
            // By turns, so that a drift of the machine's pace falls on both.
            if number.is_multiple_of(2) {
                all.plain(&server, window)?;
                all.recorded(&server, window, options, &file)?;
            } else {
                all.recorded(&server, window, options, &file)?;
                all.plain(&server, window)?;
            }
        }
        arms.entry(name).or_insert_with(|| (server.about(), Vec::new())).1.push(sessions);
        runs.push((name, sessions, all.run(window)));
    }
    let arms = arms.into_iter().map(|(name, (about, points))| Arm::new(name, about, &points));
    Ok(rounds.record((0.0, window.as_secs_f64()), "sessions", arms.collect(), &runs))
}

/// A server, and clients that send one request after another.
enum Loaded {
    /// With its clients, which run until they are dropped.
    MariaDb(Box<(Site, Running)>),
    /// With the folder that has its files.
    HBase(Box<(Cluster, Work)>),
}

impl Loaded {
    fn start(name: &str, sessions: f64, work: Work, progress: &Progress) -> Result<Self> {
        if name == MARIADB {
            let site = Site::start(Kind::MariaDb, work, progress)?;
            let running = site.load(LOAD, sessions as usize)?;
            return Ok(Self::MariaDb(Box::new((site, running))));
        }
        let step = |seconds| Step { load: "ycsb", clients: sessions, seconds, recorded: false };
        let plan = [step(WARM_UP_S), step(FOREVER_S)];
        let mut cluster = Cluster::start(hbase::DEFAULT, "", &plan, &work)?;
        for number in 0..plan.len() {
            cluster.begins(number)?;
        }
        // It counts from its first moment.
        pause(REST)?;
        Ok(Self::HBase(Box::new((cluster, work))))
    }

    fn about(&self) -> String {
        match self {
            Self::MariaDb(own) => format!("{}; {LOAD}", own.0.about()),
            Self::HBase(_) => "HBase 2.6.4 as it comes; YCSB A by one connection".to_owned(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self {
            Self::MariaDb(own) => vec![own.0.pid()],
            Self::HBase(own) => own.0.processes.values().copied().collect(),
        }
    }

    /// Requests that were answered, and when they were counted, in seconds.
    fn answered(&self) -> Result<(f64, f64)> {
        match self {
            Self::MariaDb(own) => {
                let requests = own.0.answered(LOAD)?;
                Ok((requests, SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64()))
            }
            Self::HBase(own) => own.0.answered(),
        }
    }
}

/// Pairs of windows.
#[derive(Default)]
struct Pairs {
    series: BTreeMap<String, Vec<f64>>,
}

impl Pairs {
    fn note(&mut self, key: &str, value: f64) {
        self.series.entry(key.to_owned()).or_default().push(value);
    }

    fn plain(&mut self, server: &Loaded, window: Duration) -> Result<()> {
        pause(REST)?;
        let (per_s, switches) = watch(server, window)?;
        self.note("plain_per_s", per_s);
        self.note("plain_switches_per_s", switches);
        Ok(())
    }

    fn recorded(
        &mut self,
        server: &Loaded,
        window: Duration,
        options: &RunOptions,
        file: &Path,
    ) -> Result<()> {
        pause(REST)?;
        let mut command = recorded::command(options, &server.pids(), BEFORE + window + BEHIND)?;
        command.arg("-o").arg(file);
        let recorder = Recorder::start(command)?;
        pause(BEFORE)?;
        let (ticks, begun) = (recorder.ticks()?, Instant::now());
        let (per_s, switches) = watch(server, window)?;
        let cpu_s = (recorder.ticks()? - ticks) as f64 / 100.0;
        let cores = std::thread::available_parallelism()?.get() as f64;
        self.note("recorded_per_s", per_s);
        self.note("recorded_switches_per_s", switches);
        self.note("recorder_percent", cpu_s / begun.elapsed().as_secs_f64() / cores * 100.0);
        // What it does with the recording, it does outside of all windows.
        let said = recorder.end()?;
        for (key, of) in [("kernel_percent", "taken"), ("counted_percent", "counted_s")] {
            let value = said[of].as_f64().with_context(|| format!("the report has no {of}"))?;
            let whole = if of == "taken" { 1.0 } else { said["seconds"].as_f64().unwrap_or(1.0) };
            self.note(key, value / whole * 100.0);
        }
        Ok(())
    }

    fn run(mut self, window: Duration) -> Run {
        let zip = self.series["recorded_per_s"].iter().zip(&self.series["plain_per_s"]);
        let ratios: Vec<f64> = zip.map(|(with, without)| with / without).collect();
        let mut numbers = BTreeMap::from([("pairs".to_owned(), ratios.len() as f64)]);
        if let Some([low, middle, high]) = median(&mut ratios.clone()) {
            for (key, value) in [("ratio", middle), ("ratio_low", low), ("ratio_high", high)] {
                numbers.insert(key.to_owned(), value);
            }
        }
        for (key, values) in &self.series {
            if let Some(middle) = headworks_policy::metrics::median(values) {
                numbers.insert(key.clone(), middle);
            }
        }
        self.series.insert("ratios".to_owned(), ratios);
        let load = Some(Load::at_rest());
        Run { numbers, series: self.series, bucket_s: window.as_secs_f64(), load, ..Run::default() }
    }
}

/// Requests and context switches a second.
fn watch(server: &Loaded, window: Duration) -> Result<(f64, f64)> {
    let ((before, since), switched, begun) = (server.answered()?, switches()?, Instant::now());
    pause(window)?;
    let ((after, until), switches) = (server.answered()?, switches()? - switched);
    ensure!(until > since, "the load's count of requests stands still: it has ended, or hangs");
    Ok(((after - before) / (until - since), switches / begun.elapsed().as_secs_f64()))
}

/// Of the whole machine, since it began.
fn switches() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|number| number.trim().parse().ok()).context("/proc/stat has no switches")
}

/// The recorder, as a program that says a report.
struct Recorder(Child);

impl Recorder {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(command.spawn().context("cannot start the recorder")?))
    }

    /// Processor time in hundredths of a second: of `headworks`, which becomes the recorder.
    fn ticks(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        field(11).zip(field(12)).map(|(user, system)| user + system).context("the recorder ended")
    }

    fn end(mut self) -> Result<serde_json::Value> {
        let out = self.0.stdout.take().context("no pipe")?;
        let said = serde_json::from_reader(out);
        let status = self.0.wait()?;
        interrupt::check()?;
        ensure!(status.success(), "the recorder failed ({status})");
        Ok(said?)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const CLAIMS: &[Claim] = &[
    Claim::new("MariaDB, 16 sessions: throughput while it is recorded")
        .ours("median of the ratios", |seed| seed.get(MARIADB, 16.0, "ratio"))
        .at_least(0.98)
        .note("the interval is in the table; if it has both 0.98 and 1, this machine does not resolve it"),
    Claim::new("MariaDB, 256 sessions: throughput while it is recorded")
        .ours("median of the ratios", |seed| seed.get(MARIADB, 256.0, "ratio"))
        .at_least(0.98),
    Claim::new("HBase, 32 threads: throughput while it is recorded")
        .ours("median of the ratios", |seed| seed.get(HBASE, 32.0, "ratio"))
        .at_least(0.98),
    Claim::new("MariaDB, 16 sessions: the kernel's side keeps its budget")
        .ours("percent of the processors, by the kernel's statistics", |seed| {
            seed.get(MARIADB, 16.0, "kernel_percent")
        })
        .at_most(1.0),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "MariaDB with sessions that select single rows as fast as they can, and HBase on HDFS under YCSB's workload \
                A, on all processors. Windows by turns with the recorder, from a second after its start, and without.",
        sweep_label: "sessions",
        caption: format!("pairs of windows of {} s", record.counted_s),
        columns: &[
            ("pairs", "pairs"),
            ("ratio", "ratio"),
            ("from", "ratio_low"),
            ("to", "ratio_high"),
            ("plain/s", "plain_per_s"),
            ("recorded/s", "recorded_per_s"),
            ("kernel %", "kernel_percent"),
            ("recorder %", "recorder_percent"),
            ("counted %", "counted_percent"),
            ("switches/s", "plain_switches_per_s"),
        ],
        quick: "a few pairs; the interval is wide",
        claims: CLAIMS,
        panels: vec![
            Panel::time("Throughput with the recorder / without", "")
                .at("MariaDB, 16 sessions", MARIADB, 16.0, "ratios")
                .at("MariaDB, 256 sessions", MARIADB, 256.0, "ratios")
                .at("HBase, 32 threads", HBASE, 32.0, "ratios"),
        ],
        time_label: "s of windows",
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point};

    #[test]
    fn pairs_become_a_ratio_with_an_interval() {
        for (with, holds) in [(99.0, true), (97.0, false)] {
            let mut all = Pairs::default();
            for pair in 0..10 {
                let pace = f64::from(pair + 1);
                all.note("plain_per_s", 100.0 * pace);
                all.note("recorded_per_s", with * pace);
            }
            let run = all.run(Duration::from_secs(1));
            assert_eq!(run.numbers["ratio_low"], with / 100.0);
            let points = vec![Point { at: 16.0, runs: vec![run] }];
            let arm = ArmRecord { arm: MARIADB.to_owned(), setup: BTreeMap::new(), points };
            let verdicts = sweep::analyse::verdicts(CLAIMS, "rounds", &Record::of(vec![arm]));
            assert_eq!(verdicts[0].holds, holds, "{verdicts:?}");
            assert_eq!((verdicts[1].ours, verdicts[2].ours), (None, None));
        }
    }
}
