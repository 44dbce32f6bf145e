//! What a figure consists of, and how its runs are made. A figure is data: arms, points, the tasks
//! at a point, and what must hold.

use super::disk::{self, Disk, Stack};
use super::load::Load;
use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::progress::Progress;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};
use crate::work::Work as TestDirectory;
use crate::{interrupt, running};
use anyhow::{Context, Result, ensure};
use headworks_rig::gated::Instance;
use headworks_rig::{Builder, Kind, machine};
use headworks_workload::db::DbError;
use headworks_workload::driver::{self, Arrivals, Client, Stop};
use headworks_workload::files::{self, Report, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Name of the instance.
const NAME: &str = "split";

/// Numbers of a run, by name.
pub(super) type Numbers = BTreeMap<String, f64>;

/// Numbers with these names.
pub(super) fn named<const COUNT: usize>(numbers: [(&str, f64); COUNT]) -> Numbers {
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How many times shorter the time of this name is in an arm than in the best of its rivals.
pub(super) fn shorter(seed: &Seed<'_>, rivals: &[&str], arm: &str, at: f64, key: &str) -> f64 {
    let rivals = rivals.iter().map(|rival| seed.get(rival, at, key));
    rivals.fold(f64::INFINITY, f64::min) / seed.get(arm, at, key)
}

/// What runs on the disk.
pub(super) enum Work {
    /// A process whose threads are the tasks at a point, on files in a directory.
    Files(fn(f64, &Path) -> Vec<Task>),
    /// As [`Work::Files`]. The record also has what each task did in each second of the window.
    FilesOverTime(fn(f64, &Path) -> Vec<Task>),
    /// A database.
    Database {
        /// Makes its data, once.
        template: fn(&Path) -> Result<PathBuf>,
        /// One run on a fresh disk.
        one: fn(&Plan<'_>, &Disk, &Arm, f64) -> Result<Numbers>,
    },
}

/// What is the same for all runs of a figure.
pub(super) struct Plan<'a> {
    figure: &'static Figure,
    /// The program `headworks`.
    pub program: &'a Path,
    /// A directory for temporary files.
    pub work: &'a Path,
    /// A database's data, to be copied to each disk.
    pub template: PathBuf,
    pub warm_up_s: u64,
    pub window_s: u64,
}

impl Plan<'_> {
    /// The same with the data in this directory of the template.
    pub(super) fn of(&self, directory: &str) -> Plan<'_> {
        Plan { template: self.template.join(directory), ..*self }
    }

    /// A server under the scheduler of an arm, if it has one.
    pub(super) fn behind<K: Kind>(
        &self,
        arm: &Arm,
        builder: Builder<K>,
    ) -> Result<(Builder<K>, Option<Instance>)> {
        let Some(scheduler) = arm.io else { return Ok((builder.behind(&[]), None)) };
        let gate = Instance::private(self.program, NAME)?;
        self.link(&gate.directory().context("the instance has no directory")?.join(NAME))?;
        let config = self.work.join("io.toml");
        fs::write(&config, self.config(arm, scheduler))?;
        let options = ["--config".into(), config.into_os_string()];
        Ok((gate.before::<K, OsString>(builder, options), Some(gate)))
    }

    /// Copies a database's data to the disk.
    pub(super) fn copy(&self, template: &Path, disk: &Disk) -> Result<PathBuf> {
        disk.copy(template, "data")
    }

    /// The command of a program under the scheduler of an arm, if it has one. `profile` tells what
    /// is known of the program.
    pub(super) fn command(&self, arm: &Arm, program: &Path, profile: &str) -> Result<Command> {
        let Some(scheduler) = arm.io else { return Ok(Command::new(program)) };
        let config = self.work.join("io.toml");
        fs::write(&config, self.config(arm, scheduler))?;
        self.link(&self.run_directory().join(NAME))?;
        let mut command = Command::new(self.program);
        command
            .args(["run", "--name", NAME, "--profile", profile, "--config"])
            .args([&config, Path::new("--"), program])
            .env("HEADWORKS_RUN_DIR", self.run_directory());
        Ok(command)
    }

    fn run_directory(&self) -> PathBuf {
        self.work.join("run")
    }

    /// A volume that looks for the instance [`disk::LINKED`] finds the one in this directory.
    fn link(&self, instance: &Path) -> Result<()> {
        let link = self.run_directory().join(disk::LINKED);
        let _ = fs::remove_file(&link);
        symlink(instance, &link).with_context(|| format!("cannot make {}", link.display()))
    }

    /// Requests that arrive at a fixed rate, and something that happens every so often beside
    /// them. Returns requests per second, which part of those that were due was answered, and
    /// latencies in milliseconds.
    pub(super) fn requests<C: Client>(
        &self,
        users: usize,
        rate_per_s: f64,
        kinds: &[&str],
        connect: &(dyn Fn(usize) -> Result<C, DbError> + Sync),
        every: Duration,
        beside: &(dyn Fn() + Sync),
    ) -> Result<Numbers> {
        let options = driver::RunOptions {
            users,
            arrivals: Arrivals::Queued { rate_per_s },
            warm_up: Duration::from_secs(self.warm_up_s),
            window: Duration::from_secs(self.window_s),
            ..driver::RunOptions::default()
        };
        let stop = Stop::default();
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = Instant::now();
                while !stop.is_stopped() {
                    if Instant::now() >= next {
                        next += every;
                        beside();
                    }
                    sleep(Duration::from_millis(100));
                }
            });
            let report = driver::run(&options, kinds, connect, &stop, &mut |_| {
                if interrupt::check().is_err() {
                    stop.stop();
                }
            });
            stop.stop();
            report.context("cannot run the load")
        });
        interrupt::check()?;
        let report = report?;
        let latency = report.latency;
        let ms = |us: u64| us as f64 / 1e3;
        let count = report.count as f64;
        Ok(named([
            ("per_s", report.per_s),
            ("answered_part", count / (count + report.overdue as f64)),
            ("p50_ms", ms(latency.p50_us)),
            ("p99_ms", ms(latency.p99_us)),
            ("p999_ms", ms(latency.p999_us)),
            ("max_ms", ms(latency.max_us)),
        ]))
    }

    /// The configuration of a run under a scheduler.
    pub(super) fn config(&self, arm: &Arm, scheduler: &str) -> String {
        let kind = match arm.stack.device {
            disk::OWN => "",
            "hdd" => "device = \"disk\"\n",
            _ => "device = \"flash\"\n",
        };
        format!(
            "[gate]\nmode = \"dry-run\"\n[io]\nscheduler = \"{scheduler}\"\n{kind}{}{}",
            arm.options, self.figure.rules
        )
    }
}

/// The command of a program that runs under the scheduler of another process, if it has one.
pub(super) fn sibling(process: u32, program: &Path) -> Result<Command> {
    let environment = fs::read(format!("/proc/{process}/environ"))?;
    let mut command = Command::new(program);
    for variable in environment.split(|byte| *byte == 0) {
        let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
        let [name, value] = [&variable[..at], &variable[at + 1..]].map(OsStr::from_bytes);
        command.env(name, value);
    }
    Ok(command)
}

/// The schedulers of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arm {
    pub label: &'static str,
    pub stack: Stack,
    /// The scheduler of files, if any.
    pub io: Option<&'static str>,
    /// More lines of the configuration's `[io]` section.
    pub options: &'static str,
    /// Only tasks whose names begin like these run; all of them if there are none.
    pub only: &'static [&'static str],
    /// Whether a quick run has it.
    pub quick: bool,
}

impl Arm {
    pub(super) const fn new(
        label: &'static str,
        device: &'static str,
        kernel: &'static str,
    ) -> Self {
        let stack = Stack::of(device, kernel);
        Arm { label, stack, io: None, options: "", only: &[], quick: true }
    }

    pub(super) const fn io(self, scheduler: &'static str) -> Self {
        Arm { io: Some(scheduler), ..self }
    }

    pub(super) const fn options(self, lines: &'static str) -> Self {
        Arm { options: lines, ..self }
    }

    /// The kernel's writeback throttle is on.
    pub(super) const fn throttle(self) -> Self {
        Arm { stack: Stack { throttle: true, ..self.stack }, ..self }
    }

    /// The scheduler of the volume's own queue.
    pub(super) const fn volume(self, scheduler: &'static str) -> Self {
        Arm { stack: Stack { volume: scheduler, ..self.stack }, ..self }
    }

    /// The same scheduler before the calls and in the volume's own queue, which learns from it
    /// whose the writes are.
    pub(super) const fn io_and_volume(self, scheduler: &'static str) -> Self {
        let stack = Stack { volume: scheduler, linked: true, ..self.stack };
        Arm { stack, io: Some(scheduler), ..self }
    }

    /// On XFS instead of ext4.
    pub(super) const fn xfs(self) -> Self {
        Arm { stack: Stack { file_system: "xfs", ..self.stack }, ..self }
    }

    pub(super) const fn only(self, only: &'static [&'static str]) -> Self {
        Arm { only, ..self }
    }

    pub(super) const fn full_only(self) -> Self {
        Arm { quick: false, ..self }
    }
}

/// A figure of the chapter.
pub(super) struct Figure {
    pub id: &'static str,
    pub title: &'static str,
    pub paper: &'static str,
    pub figure: &'static str,
    pub about: &'static str,
    pub axis: &'static str,
    /// What the points 0, 1, and so on are, if they are not numbers.
    pub categories: &'static [&'static str],
    /// Seconds of warm-up and of the window, and rounds; for a full and for a quick run.
    pub times: [(u64, u64, usize); 2],
    /// Making a disk and its files, and taking them away, in seconds.
    pub around_s: u64,
    pub arms: &'static [Arm],
    pub points: &'static [f64],
    pub quick_points: &'static [f64],
    pub work: Work,
    /// Sections of files and threads for the scheduler.
    pub rules: &'static str,
    pub claims: &'static [Claim],
    pub panels: fn() -> Vec<Panel>,
}

const fn quick_arms(arms: &[Arm]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < arms.len() {
        count += arms[at].quick as usize;
        at += 1;
    }
    count
}

impl Figure {
    pub(super) const fn experiment(&'static self) -> Experiment {
        let (full, quick) = (self.times[0], self.times[1]);
        Experiment {
            id: self.id,
            title: self.title,
            paper: self.paper,
            figure: self.figure,
            expected_s: (full.0 + full.1 + self.around_s)
                * (self.arms.len() * self.points.len() * full.2) as u64,
            expected_quick_s: (quick.0 + quick.1 + self.around_s)
                * (quick_arms(self.arms) * self.quick_points.len() * quick.2) as u64,
            needs: &["root", "/dev/fuse", "a loop device", "8 GB of memory"],
            bench: self,
        }
    }
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        collect(self, options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let record = sweep::read(directory, self.id)?;
        let xfs = self.arms.iter().any(|arm| arm.stack.file_system == "xfs");
        let file_system = if xfs { "ext4 or XFS" } else { "ext4" };
        let show = Presentation {
            id: self.id,
            figure: self.figure,
            about: self.about,
            sweep_label: self.axis,
            categories: self.categories,
            caption: format!("Modelled device, {file_system}, windows of {} s", record.counted_s),
            claims: self.claims,
            time_label: "s of the window",
            panels: (self.panels)(),
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}

fn collect(figure: &'static Figure, options: &RunOptions) -> Result<Record> {
    // SAFETY: geteuid has no preconditions.
    ensure!(unsafe { libc::geteuid() } == 0, "{}: mounting a volume needs root", figure.id);
    let program = options.headworks()?;
    let (warm_up_s, window_s, rounds) = figure.times[usize::from(options.quick)];
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let axis = (figure.id, figure.axis);
    let points = options.points(axis, figure.points, figure.quick_points)?;
    let arms: Vec<&Arm> = figure
        .arms
        .iter()
        .filter(|arm| match &options.only {
            Some(only) => arm.label.contains(only.as_str()),
            None => arm.quick || !options.quick,
        })
        .collect();
    let each = Duration::from_secs(warm_up_s + window_s + figure.around_s);
    let runs = (arms.len() * points.len() * rounds) as u32;
    let title = format!("{}: {}", figure.id, figure.title);
    let mut progress = Progress::new(&title, each * runs);
    let experiment = figure.experiment();
    let schedule = Rounds::begin(&experiment, options);
    let work = TestDirectory::new(options, 2 << 30)?;
    let template = match &figure.work {
        Work::Files(_) | Work::FilesOverTime(_) => PathBuf::new(),
        Work::Database { template, .. } => {
            progress.step("making the data", Duration::from_secs(20));
            template(work.path())?
        }
    };
    let plan = Plan { figure, program: &program, work: work.path(), template, warm_up_s, window_s };
    let described = |arm: &&Arm| {
        let setup = [
            ("device", arm.stack.device),
            ("kernel_scheduler", arm.stack.kernel),
            ("volume_scheduler", arm.stack.volume),
            ("volume_knows_owners", if arm.stack.linked { "yes" } else { "no" }),
            ("file_system", arm.stack.file_system),
            ("io_scheduler", arm.io.unwrap_or("none")),
        ];
        let setup = setup.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        rounds::Arm { label: arm.label, setup, points: points.to_vec() }
    };
    let seconds = (warm_up_s as f64, window_s as f64);
    let described = arms.iter().map(described).collect();
    schedule.collect(rounds, seconds, figure.axis, described, |task| {
        progress.step(task.title, each);
        let arm = arms.iter().find(|arm| arm.label == task.arm).context("no such arm")?;
        let run = one(&plan, arm, task.at)?;
        Ok(Run { load: Some(machine::Load::at_rest()), ..run })
    })
}

/// One run, on a fresh disk.
fn one(plan: &Plan<'_>, arm: &Arm, at: f64) -> Result<Run> {
    let disk = Disk::new(plan.program, plan.work, arm.stack)?;
    let run = Run { bucket_s: plan.window_s as f64, ..Run::default() };
    Ok(match &plan.figure.work {
        Work::Files(tasks) => {
            let reports = tasks_on_files(plan, arm, tasks(at, &disk.dir()))?;
            Run { numbers: numbers(&reports), ..run }
        }
        Work::FilesOverTime(tasks) => {
            let reports = tasks_on_files(plan, arm, tasks(at, &disk.dir()))?;
            let of = |report: &Report| {
                let rates = report.bytes_by_second.iter().map(|bytes| *bytes as f64 / 1e6);
                (format!("{}_mb_per_s", report.name.to_lowercase()), rates.collect())
            };
            let series = reports.iter().map(of).collect();
            Run { numbers: numbers(&reports), series, bucket_s: 1.0, ..run }
        }
        Work::Database { one, .. } => Run { numbers: one(plan, &disk, arm, at)?, ..run },
    })
}

/// The files, and a process with all tasks. Threads of the same name have one report.
fn tasks_on_files(plan: &Plan<'_>, arm: &Arm, mut tasks: Vec<Task>) -> Result<Vec<Report>> {
    let runs = |task: &Task| arm.only.iter().any(|only| task.name.starts_with(only));
    tasks.retain(|task| arm.only.is_empty() || runs(task));
    files::prepare(&tasks)?;
    let paths: BTreeSet<PathBuf> =
        tasks.iter().map(|task| task.path.clone()).filter(|path| path.is_file()).collect();
    for path in &paths {
        files::forget(path)?;
    }
    let load = Load { tasks, warm_up_ms: plan.warm_up_s * 1_000, window_ms: plan.window_s * 1_000 };
    let spec = plan.work.join("load.json");
    fs::write(&spec, serde_json::to_string(&load)?)?;
    // `headworks-bench` itself.
    let load_program = std::env::current_exe().context("cannot find this program")?;
    let mut command = plan.command(arm, &load_program, "generic")?;
    let output = running::output(command.arg("files").arg(&spec))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let reports: Vec<Report> = serde_json::from_slice(&output.stdout).context(
        "cannot read the reports of the load's process: is its program of another build?",
    )?;
    // What is dirty yet need not be written: on a disk that may take minutes.
    for path in &paths {
        fs::remove_file(path)?;
    }
    let mut named: BTreeMap<String, Report> = BTreeMap::new();
    for report in reports {
        match named.get_mut(&report.name) {
            Some(sum) => sum.add(&report),
            None => drop(named.insert(report.name.clone(), report)),
        }
    }
    Ok(named.into_values().collect())
}

fn numbers(reports: &[Report]) -> Numbers {
    let of = |report: &Report| {
        let name = report.name.to_lowercase();
        [
            ("per_s", report.per_s()),
            ("mb_per_s", report.mb_per_s()),
            ("p50_ms", report.percentile_ms(0.5)),
            ("p99_ms", report.percentile_ms(0.99)),
            ("max_ms", report.percentile_ms(1.0)),
        ]
        .map(|(what, value)| (format!("{name}_{what}"), value))
    };
    // A thread that ended no operation in the window has no latencies.
    reports.iter().flat_map(of).filter(|(_, value)| value.is_finite()).collect()
}
