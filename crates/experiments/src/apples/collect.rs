//! Runs the arms in turn: a server with its data, users in this process. Nothing here judges a
//! number.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headworks_workload::driver::{RunOptions as Driving, Stop};

use super::figure::{
    AROUND_S, Arm, BOUND_CV, BOUND_CV_PART, Figure, LOAD_S, QUICK, ServerKind, Time,
};
use super::gate;
use super::measure::{REQUEST_CV, add_search, add_status, measure, measure_before};
use super::site::{Drive, Front, Place, Server, Site, whole};
use super::trials::Trials;
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::work::Work;
use headworks_policy::random::Random;

struct Bench<'a> {
    site: Site,
    figure: &'static Figure,
    options: &'a RunOptions,
    headworks: PathBuf,
    time: Time,
    work: &'a Work,
    progress: Progress,
}

/// The data of a site, for all experiments of one command: making it takes longer than some of
/// these.
static DATA: Mutex<Option<Data>> = Mutex::new(None);

struct Data {
    work: Work,
    site: Site,
    quick: bool,
}

/// Removes the data.
pub(super) fn forget_data() {
    *DATA.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// One run to do.
#[derive(Clone, Copy)]
struct Task {
    arm: &'static Arm,
    at: f64,
    /// V_l of requests at this point, as the last run in mode dry-run measured it.
    seen_cv: Option<f64>,
}

/// Runs everything.
pub(super) fn collect(figure: &'static Figure, options: &RunOptions) -> Result<Record> {
    let site = figure.site;
    let headworks = options.headworks()?;
    let planned = if options.quick { QUICK } else { figure.time };
    let time = Time {
        window_s: options.window_s.unwrap_or(planned.window_s).max(1),
        rounds: options.repeat.unwrap_or(planned.rounds).max(1),
        ..planned
    };
    let mut shared = DATA.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = shared.take().filter(|data| (data.site, data.quick) == (site, options.quick));
    let filled = kept.is_some() || !site.keeps_data();
    let load_s = match (filled, options.quick) {
        (true, _) => 0,
        (false, true) => LOAD_S.1,
        (false, false) => LOAD_S.0,
    };
    let expected =
        Duration::from_secs(figure.round_s(time, options.quick) * time.rounds as u64 + load_s);
    let data = match kept {
        Some(data) => data,
        None => Data { work: Work::new(options, site.disk_bytes())?, site, quick: options.quick },
    };
    let mut bench = Bench {
        site,
        figure,
        options,
        headworks,
        time,
        work: &data.work,
        progress: Progress::new(&format!("{}: {}", figure.id, figure.title), expected),
    };
    let experiment = figure.experiment();
    let rounds = Rounds::begin(&experiment, options);
    if !filled {
        bench.prepare()?;
    }
    let runs = bench.rounds()?;
    drop(bench);
    *shared = Some(data);
    let arm = |arm: &Arm| rounds::Arm::new(arm.label, describe(site, arm.server), arm.points);
    let arms = figure.arms.iter().map(arm).collect();
    let seconds = (time.warm_up_s as f64, time.window_s as f64);
    Ok(rounds.record(seconds, figure.sweep.0, arms, &runs))
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let seconds = if self.options.quick { LOAD_S.1 } else { LOAD_S.0 };
        let title = format!("making the data: {}", self.site.title());
        self.progress.step(&title, Duration::from_secs(seconds));
        let mut server = self.site.start(self.place(), &Front::default(), true)?;
        server.fill(&mut || {
            self.progress.tick();
            interrupt::check().is_ok()
        })?;
        interrupt::check()?;
        server.stop()
    }

    fn place(&self) -> Place<'_> {
        Place { work: self.work.path(), quick: self.options.quick }
    }

    fn rounds(&mut self) -> Result<Vec<(&'static str, f64, Run)>> {
        let figure = self.figure;
        let arms = figure.arms.iter().filter(|arm| !matches!(arm.server, ServerKind::Tried));
        let mut tasks: Vec<Task> = arms
            .flat_map(|arm| arm.points.iter().map(move |&at| Task { arm, at, seen_cv: None }))
            .collect();
        let mut random = Random::new(self.options.seed);
        let mut runs: Vec<(&'static str, f64, Run)> = Vec::new();
        for round in 1..=self.time.rounds {
            random.shuffle(&mut tasks);
            // Arms in mode dry-run run first: others take their bounds from them.
            tasks.sort_by_key(|task| !task.arm.watches());
            for task in &tasks {
                let label = task.arm.label;
                let title = format!("round {round}/{} · {label} · {}", self.time.rounds, task.at);
                let watches =
                    |arm: &str| figure.arms.iter().any(|it| it.label == arm && it.watches());
                let seen = runs.iter().rfind(|(arm, at, _)| *at == task.at && watches(arm));
                let seen_cv = seen.and_then(|(_, _, run)| run.numbers.get(REQUEST_CV).copied());
                let task = Task { seen_cv, ..*task };
                let own = self
                    .run(task, round as u64, &title, &mut random)
                    .with_context(|| format!("{label} at {} in round {round}", task.at))?;
                runs.extend(own);
            }
        }
        Ok(runs)
    }

    /// The run of an arm, and those of the values of P that are tried on its server.
    fn run(
        &mut self,
        task: Task,
        round: u64,
        title: &str,
        random: &mut Random,
    ) -> Result<Vec<(&'static str, f64, Run)>> {
        interrupt::check()?;
        let (warm_up_s, window_s) = match task.arm.time {
            Some(own) if !self.options.quick => own,
            _ => (self.time.warm_up_s, self.time.window_s),
        };
        let tried = self.figure.tried().filter(|_| matches!(task.arm.server, ServerKind::Gate(_)));
        let points = tried.map_or(&[][..], |arm| arm.points);
        let quick = self.options.quick;
        let mut trials = Trials::new(points, window_s, quick, random);
        let trials_s = Trials::duration_s(points.len(), quick);
        let around_s = if quick { AROUND_S.1 } else { AROUND_S.0 };
        let expected = Duration::from_secs(warm_up_s + window_s + trials_s + around_s);
        self.progress.step(title, expected);
        let mut server = self.server(task)?;
        server.make_ready(&mut || {
            self.progress.tick();
            interrupt::check().is_ok()
        })?;
        interrupt::check()?;
        let users = task.arm.load.count(task.at);
        let sensitive = task.arm.load.sensitive;
        let how = Driving {
            users,
            warm_up: Duration::from_secs(warm_up_s),
            window: Duration::from_secs(window_s + trials_s),
            trace: true,
            ..Driving::default()
        };
        let stop = Stop::default();
        let gated = matches!(task.arm.server, ServerKind::Gate(_));
        let gate = gate::instance(&self.headworks);
        let (progress, mut found, mut refused) = (&mut self.progress, None, None);
        let warm_up = how.warm_up;
        let report = server.drive(Drive {
            load: &task.arm.load,
            how: &how,
            seed: self.options.seed.wrapping_add(round),
            stop: &stop,
            tick: &mut |elapsed| {
                progress.tick();
                let in_window = elapsed.saturating_sub(warm_up);
                // While all users are connected, and before other values of P are tried.
                if gated && found.is_none() && in_window.as_secs() >= window_s {
                    match gate::look(&gate, task.arm.server) {
                        Ok(looked) => found = Some(looked),
                        Err(error) => refused = Some(error),
                    }
                }
                if let Some((point, seconds)) = trials.due(in_window) {
                    let tried = gate::try_out(&gate, point, seconds);
                    refused = tried.err().or(refused.take());
                }
                if interrupt::check().is_err() || refused.is_some() {
                    stop.stop();
                }
            },
        });
        interrupt::check()?;
        if let Some(error) = refused {
            return Err(error);
        }
        let report = whole(server.as_mut(), report)?;
        let mut run = match tried {
            Some(_) => measure_before(report.clone(), &trials, window_s, round),
            None => measure(&report, sensitive, round),
        };
        if gated {
            let (status, search) = found.context("the run ended before its window did")?;
            add_status(&mut run, &status);
            add_search(&mut run, &search);
            if search["auto"] == true {
                self.keep_search(task, round, &search)?;
            }
        }
        server.check().context("after a run")?;
        server.stop()?;
        let mut runs = vec![(task.arm.label, task.at, run)];
        if let Some(arm) = tried {
            runs.extend(arm.points.iter().map(|&at| {
                let numbers = trials.tried(&report, at);
                (arm.label, at, Run { seed: round, numbers, bucket_s: 1.0, ..Run::default() })
            }));
        }
        Ok(runs)
    }

    /// Records how P was found, to explain a round that stands out.
    fn keep_search(&self, task: Task, round: u64, search: &serde_json::Value) -> Result<()> {
        let directory = self.options.out.join(format!("{}-searches", self.figure.id));
        fs::create_dir_all(&directory)?;
        let name = format!("{} at {}, round {round}.json", task.arm.label, task.at);
        fs::write(directory.join(name), serde_json::to_vec_pretty(search)?)?;
        Ok(())
    }

    /// Starts the server of an arm, with our library loaded only if the arm has a gate.
    fn server(&self, task: Task) -> Result<Box<dyn Server>> {
        let front = match task.arm.server {
            ServerKind::Plain(options) => Front { options, ..Front::default() },
            ServerKind::Tried => bail!("an arm that is only tried has no server"),
            ServerKind::Gate(config) => {
                let path = self.work.path().join("gate.toml");
                let mut config = config.replace("{x}", &task.at.to_string());
                if task.arm.follows() {
                    let seen = task.seen_cv.context("no arm in mode dry-run has run before")?;
                    config = config.replace(BOUND_CV, &(BOUND_CV_PART * seen).to_string());
                }
                let gate = gate::instance(&self.headworks);
                let gate = gate.prefix_with_config(&path, &config, self.site.profile())?;
                Front { gate, ..Front::default() }
            }
        };
        self.site.serve(self.place(), &front)
    }
}

fn describe(site: Site, server: ServerKind) -> String {
    match server {
        ServerKind::Plain([]) => site.server().to_owned(),
        ServerKind::Plain(options) => options.join(" "),
        ServerKind::Gate(config) => config.trim().to_owned(),
        ServerKind::Tried => "tried for moments on the server of the gate".to_owned(),
    }
}
