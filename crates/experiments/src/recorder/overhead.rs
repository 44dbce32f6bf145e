//! What recording costs a saturated MariaDB: pairs of short windows, with and without the recorder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_rig::machine::Load;

use super::interval::median;
use super::recorded;
use super::site::{Kind, Site};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::running::pause;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation};
use crate::work::Work;

const ID: &str = "record-overhead";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "what recording costs a saturated MariaDB: pairs of windows with and without the recorder",
    (1_700, 60),
    &["mariadb-server-core", "sysbench", "root"],
    &Steps { collect, report },
);

const ARM: &str = "recorded / not recorded";
const LOAD: &str = "oltp_point_select";
/// Sessions.
const SESSIONS: [f64; 2] = [16.0, 256.0];
/// Pairs of a full record.
const PAIRS: usize = 100;
const WINDOW_MS: u64 = 2_500;
/// The recorder loads its programs and looks at all threads before the window.
const BEFORE: Duration = Duration::from_millis(1_000);
/// And has room behind the window, so that its end is not within it.
const BEHIND: Duration = Duration::from_millis(500);
/// The server comes to its pace again.
const REST: Duration = Duration::from_millis(300);

fn collect(options: &RunOptions) -> Result<Record> {
    let pairs = options.repeat.unwrap_or(if options.quick { 3 } else { PAIRS }).max(1);
    let window = options.window_s.map_or(Duration::from_millis(WINDOW_MS), Duration::from_secs);
    let points = options.points((ID, "sessions"), &SESSIONS, &SESSIONS[..1])?;
    let pair = 2 * window + BEFORE + BEHIND + 2 * REST + Duration::from_secs(2);
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, pair * (pairs * points.len()) as u32);
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let work = Work::new(options, 1 << 30)?;
    let file = options.out.join(format!("{ID}.toml"));
    let site = Site::start(Kind::MariaDb, work, &progress)?;
    let mut runs = Vec::new();
    for &sessions in points {
        let running = site.load(LOAD, sessions as usize)?;
        let mut all = Pairs::default();
        for number in 0..pairs {
            progress.step(&format!("{sessions} sessions, pair {}/{pairs}", number + 1), pair);
            // By turns, so that a drift of the machine's pace falls on both.
            if number.is_multiple_of(2) {
                all.plain(&site, window)?;
                all.recorded(&site, window, options, &file)?;
            } else {
                all.recorded(&site, window, options, &file)?;
                all.plain(&site, window)?;
            }
        }
        drop(running);
        runs.push((ARM, sessions, all.run(window)));
    }
    let arms = vec![Arm::new(ARM, format!("{}; {LOAD}", site.about()), points)];
    Ok(rounds.record((0.0, window.as_secs_f64()), "sessions", arms, &runs))
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

    fn plain(&mut self, site: &Site, window: Duration) -> Result<()> {
        pause(REST)?;
        let (per_s, switches) = watch(site, window)?;
        self.note("plain_per_s", per_s);
        self.note("plain_switches_per_s", switches);
        Ok(())
    }

    fn recorded(
        &mut self,
        site: &Site,
        window: Duration,
        options: &RunOptions,
        file: &Path,
    ) -> Result<()> {
        pause(REST)?;
        let mut command = recorded::command(options, &[site.pid()], BEFORE + window + BEHIND)?;
        command.arg("-o").arg(file);
        let recorder = Recorder::start(command)?;
        pause(BEFORE)?;
        let (ticks, begun) = (recorder.ticks()?, Instant::now());
        let (per_s, switches) = watch(site, window)?;
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
fn watch(site: &Site, window: Duration) -> Result<(f64, f64)> {
    let (before, switched, begun) = (site.answered(LOAD)?, switches()?, Instant::now());
    pause(window)?;
    let (after, since, took) = (site.answered(LOAD)?, switches()?, begun.elapsed().as_secs_f64());
    Ok(((after - before) / took, (since - switched) / took))
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
    Claim::new("16 sessions: throughput while it is recorded")
        .ours("median of the ratios", |seed| seed.get(ARM, 16.0, "ratio"))
        .at_least(0.98)
        .note("the interval is in the table; if it has both 0.98 and 1, this machine does not resolve it"),
    Claim::new("256 sessions: throughput while it is recorded")
        .ours("median of the ratios", |seed| seed.get(ARM, 256.0, "ratio"))
        .at_least(0.98),
    Claim::new("16 sessions: the kernel's side keeps its budget")
        .ours("percent of the processors, by the kernel's statistics", |seed| {
            seed.get(ARM, 16.0, "kernel_percent")
        })
        .at_most(1.0),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "MariaDB with sessions that select single rows as fast as they can, on all processors. Windows of 2.5 s \
                by turns with the recorder, from a second after its start, and without.",
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
        panels: vec![Panel::time("Throughput with the recorder / without", "").at(
            "16 sessions",
            ARM,
            16.0,
            "ratios",
        )],
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
            let arm = ArmRecord { arm: ARM.to_owned(), setup: BTreeMap::new(), points };
            let verdicts = sweep::analyse::verdicts(CLAIMS, "rounds", &Record::of(vec![arm]));
            assert_eq!(verdicts[0].holds, holds, "{verdicts:?}");
            assert_eq!(verdicts[1].ours, None);
        }
    }
}
