//! The daemon of one instance: the heartbeat, the stall detector, the figures, the reload.
//!
//! No request needs it: if it dies or stops, all requests pass within a second. A new one can be
//! started beside the running database. It ends with the database and removes the instance.

mod choice;
pub mod handing;
mod heartbeat;
mod priority;
mod reload;
mod saturation;
mod used;

pub use choice::{beside, outside};
pub use priority::prefer;
pub use reload::{apply_config, set_weights};

use crate::cgroup::Companion;
use crate::control::{self, Request, Response};
use crate::counterfactual::Recorder;
use crate::events::{Events, Happened};
use crate::instance::{Instance, Note, started_ticks};
use crate::log::{self, Log};
use crate::metrics::Metrics;
use crate::process;
use crate::quota::Quota;
use crate::slo::Slo;
use crate::status::Status;
use crate::tuning::Tuning;
use anyhow::{Context, Result, bail};
use headworks_policy::Nanos;
use headworks_region::snapshot::Snapshot;
use headworks_region::{Mapping, clock};
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest interval of the loops that set P and ζ, in milliseconds.
const POLL_INTERVAL_MS: i32 = 100;

/// The same while a P is tried: a sample that is clearly worse ends after 150 ms.
const POLL_INTERVAL_TRIED_MS: i32 = 50;

/// Time between two snapshots.
const SNAPSHOT_INTERVAL: Nanos = Nanos::from_millis(500);

/// Window over which rates and unfairness are taken.
const WINDOW: Nanos = Nanos::from_millis(5_000);

/// How long a daemon that was asked to end waits for its database to end first. A service manager
/// asks both at once.
const SHUTDOWN_GRACE: Nanos = Nanos::from_millis(90_000);

/// Interval at which the previous daemon is checked.
const PREDECESSOR_POLL_INTERVAL: Duration = Duration::from_millis(10);

static STOP: AtomicBool = AtomicBool::new(false);

struct Daemon {
    instance: Instance,
    note: Note,
    region: Mapping,
    history: VecDeque<Snapshot>,
    recorder: Recorder,
    tuning: Tuning,
    quota: Quota,
    slo: Slo,
    companion: Companion,
    metrics: Metrics,
    log: Log,
    /// Why the current configuration file is not in force.
    config_error: Option<String>,
    /// Why metrics are not served where the configuration says.
    metrics_error: Option<String>,
    /// The instance's directory was removed, and that was logged.
    unreachable: bool,
    /// When the daemon was asked to end.
    asked_to_end: Option<Nanos>,
}

impl Daemon {
    /// One round of the loop: what is due, then what happens until the next one. Says whether there
    /// is a next one.
    fn goes_on(&mut self, events: &mut Events) -> bool {
        self.tick();
        if self.asked_to_end.is_some_and(|since| clock::now().since(since) > SHUTDOWN_GRACE) {
            return false;
        }
        let tries = self.tuning.tries();
        let happened = events.wait(if tries { POLL_INTERVAL_TRIED_MS } else { POLL_INTERVAL_MS });
        if !self.follow_server(&happened, events) {
            return false;
        }
        // Another daemon was started while this one was stopped.
        if other_lives(self.region.heartbeat.daemon.load(Ordering::Relaxed)) {
            return false;
        }
        if let Some(client) = happened.client {
            // Errors of a client concern only that client.
            let _ = control::serve(&client, |request| self.answer(request));
        }
        happened.signal.is_none_or(|signal| self.heed(signal))
    }

    /// The server may have ended, or another process may have become it. False if the daemon's work
    /// is over.
    fn follow_server(&mut self, happened: &Happened, events: &mut Events) -> bool {
        if happened.ended && !self.note.attended {
            events.watched = self.server_that_goes_on();
            if events.watched.is_none() {
                self.remove_instance();
                return false;
            }
        } else if happened.ended {
            events.watched = None;
            self.server_left();
        }
        // Another process is the server: the one before was its helper, and had accepted first.
        let server = self.region.heartbeat.server.load(Ordering::Relaxed);
        if self.note.attended && server != 0 && server != self.note.server_pid {
            events.watched = None;
        }
        if events.watched.is_none() {
            events.watched = self.look_for_server();
        }
        // A service manager stops the server first. One that has not accepted yet keeps its region.
        if events.watched.is_none() && self.asked_to_end.is_some() {
            if self.instance.mapped_by().is_none() {
                self.remove_instance();
            }
            return false;
        }
        true
    }

    /// Does what a signal asks. False if the daemon ends at once.
    fn heed(&mut self, signal: i32) -> bool {
        match signal {
            libc::SIGHUP => {
                if let Err(error) = self.reload() {
                    log::line(&format!("reload: {error:#}"));
                }
            }
            libc::SIGTERM => self.asked_to_end = self.asked_to_end.or(Some(clock::now())),
            _ => return false,
        }
        true
    }

    fn tick(&mut self) {
        let now = clock::now();
        self.look_for_profile();
        self.recorder.collect(&self.region);
        self.tuning.tick(&self.region, now);
        self.companion.tick(&self.region);
        let turns = || self.region.work().turns;
        let settings = self.region.control.settings();
        let own = self.history.back().is_none_or(|last| now.since(last.now) >= SNAPSHOT_INTERVAL);
        if !own && !self.quota.is_due(&settings, now, turns) {
            return;
        }
        let (snapshot, turns) = (self.region.snapshot(now), turns());
        self.quota.tick(&self.region, &snapshot, turns);
        if own {
            self.look_for_directory();
            self.log.look(&snapshot);
            self.slo.tick(&self.region, &snapshot);
            self.history.push_back(snapshot);
            while self.history.get(1).is_some_and(|next| now.since(next.now) > WINDOW) {
                self.history.pop_front();
            }
        }
    }

    /// Logs that commands cannot find this daemon, if its directory was removed.
    fn look_for_directory(&mut self) {
        let gone = !self.unreachable
            && std::fs::symlink_metadata(self.instance.region_path())
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if gone {
            self.unreachable = true;
            log::line(&format!(
                "{} was removed: the gate goes on as it is, but no command finds it until the database is restarted\n{}",
                self.instance.dir.display(),
                crate::instance::KEEP_RUN_DIR
            ));
        }
    }

    fn answer(&mut self, request: Request) -> Response {
        match request {
            Request::Status => {
                let now = self.region.snapshot(clock::now());
                let before = self.history.front().unwrap_or(&now);
                let mut status = Status::build(&self.instance.name, before, &now);
                status.config_error = self.config_error.clone();
                status.metrics_error = self.metrics_error.clone();
                status.log = self.instance.log();
                if status.gate == "closed" {
                    status.outside = self.outside(&now);
                }
                if status.outside.is_some() {
                    status.gate = "ungoverned".to_owned();
                }
                status.beside = beside(&self.region, &self.note);
                status.targets = self.slo.status();
                status.cgroup = self.companion.status();
                status.metrics = vec![format!("unix:{}", self.instance.metrics_path().display())];
                status
                    .metrics
                    .extend(self.metrics.address().map(|at| format!("http://{at}/metrics")));
                status.counterfactual = self.recorder.counterfactual(&now);
                status.parallelism_search = Some(self.tuning.report(&self.region).phase);
                Response::Status(Box::new(status))
            }
            Request::Tuning => Response::Tuning(Box::new(self.tuning.report(&self.region))),
            Request::Weights { weights } => match set_weights(&self.region, &weights) {
                Ok(()) => Response::Done(format!("{} weights are in force", weights.len())),
                Err(error) => Response::Error(format!("{error:#}")),
            },
            Request::Try { parallelism: parallelism @ 1..=1024, ms: ms @ 1..=3_600_000 } => {
                let until = Nanos(clock::now().0 + Nanos::from_millis(ms).0);
                if self.tuning.try_out(&self.region, parallelism, until) {
                    let seconds = ms as f64 / 1e3;
                    log::line(&format!("P {parallelism} is tried for {seconds} s"));
                    Response::Done(format!("P {parallelism} is in force for {seconds} s"))
                } else {
                    let error = "the settings were changed at the same moment: repeat the command";
                    Response::Error(error.to_owned())
                }
            }
            Request::Try { .. } => {
                Response::Error("P is 1 to 1024, and a trial lasts 1 ms to 1 h".to_owned())
            }
            Request::Reload => match self.reload() {
                Ok(done) => Response::Done(done),
                Err(error) => Response::Error(format!("{error:#}")),
            },
        }
    }

    /// The program that `headworks run` started has ended. It may have started a server that goes
    /// on behind the gate. The instance then goes on, too.
    fn server_that_goes_on(&mut self) -> Option<OwnedFd> {
        let known = &self.region.known_servers;
        let ended = self.note.server_pid;
        let accepted = self.region.heartbeat.server.load(Ordering::Relaxed);
        let started = [known.serving(), known.answered()].into_iter().flatten();
        let candidates = started.map(|server| server.pid).chain([accepted]);
        let mut alive = candidates.filter(|&pid| pid != ended && pid != 0);
        let server = alive.find(|&pid| self.instance.is_mapped_by(pid) == Some(true))?;
        let watched = process::watch(server).ok()?;
        self.note = self.note.of_server(server)?;
        self.region.heartbeat.server.store(server, Ordering::Relaxed);
        log::line(&format!(
            "process {ended} has ended; process {server}, which it had started, goes on behind the gate"
        ));
        if let Err(error) = self.instance.rewrite_note(&self.note) {
            log::line(&format!("{error:#}"));
        }
        Some(watched)
    }

    /// The server has ended; another one may come.
    fn server_left(&mut self) {
        log::line(&format!("the server (process {}) has ended", self.note.server_pid));
        // Unless the next one is there already.
        let server = &self.region.heartbeat.server;
        let gone = self.note.server_pid;
        let _ = server.compare_exchange(gone, 0, Ordering::Relaxed, Ordering::Relaxed);
        self.note = Note { server_pid: 0, server_started_ticks: 0, ..self.note.clone() };
        if let Err(error) = self.instance.rewrite_note(&self.note) {
            log::line(&format!("{error:#}"));
        }
    }

    /// A descriptor of the server that has attached.
    fn look_for_server(&mut self) -> Option<OwnedFd> {
        let server = self.region.heartbeat.server.load(Ordering::Relaxed);
        let Some(note) = self.note.of_server(server).filter(|_| server != 0) else {
            // A process that attached and ended meanwhile is not the server.
            let _ = self.region.heartbeat.server.compare_exchange(
                server,
                0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            return None;
        };
        let watched = process::watch(server).ok()?;
        log::line(&format!("process {server} serves behind the gate"));
        self.note = note;
        if let Err(error) = self.instance.rewrite_note(&self.note) {
            log::line(&format!("{error:#}"));
        }
        Some(watched)
    }

    /// Removes the instance, unless the directory belongs to the next one. A daemon that was
    /// stopped may see the end of its database late.
    fn remove_instance(&self) {
        let key = |note: &Note| (note.server_pid, note.server_started_ticks);
        if self.instance.note().is_ok_and(|note| key(&note) == key(&self.note)) {
            self.instance.remove();
        }
    }
}

/// Runs until the database ends. `ready` gets a line once the daemon serves; from then on a
/// `detached` one keeps no descriptor of the process that started it.
pub fn run(
    instance: Instance,
    mut ready: Option<impl Write>,
    detached: bool,
    companion: Companion,
) -> Result<()> {
    // A client that left before its answer, or a log without a reader, must not end the daemon.
    // SAFETY: sets a disposition, before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let note = instance.note()?;
    let region = instance.open_region()?;
    if !instance.is_running() && !note.attended {
        bail!("the database of instance `{}` does not run any more", instance.name);
    }
    let watched = if instance.is_running() { Some(process::watch(note.server_pid)?) } else { None };
    if let Some(other) = rival(&region) {
        bail!("instance `{}` has a daemon already (process {other})", instance.name);
    }
    let mut events = Events::start(&instance.socket_path())?;
    events.watched = watched;
    take_over(&instance, &note, &region);
    if let Err(error) = handing::start(&instance, &note, region) {
        log::line(&format!(
            "programs that run as another user or see other directories are not governed: {error:#}"
        ));
    }
    priority::lock_memory();
    let beater = std::thread::Builder::new().name("hw-beat".to_owned());
    let beater = beater
        .spawn(move || heartbeat::send_heartbeats(region))
        .context("cannot start a thread")?;
    priority::step_back();
    let metrics = Metrics::start(&instance, region)?;
    let mut daemon = Daemon {
        metrics,
        log: Log::default(),
        instance,
        note,
        region,
        history: VecDeque::new(),
        recorder: Recorder::default(),
        tuning: Tuning::new(),
        quota: Quota::default(),
        slo: Slo::default(),
        companion,
        config_error: None,
        metrics_error: None,
        unreachable: false,
        asked_to_end: None,
    };
    // Before the daemon reports that it is ready: the file and the settings may be changed from
    // then on, and each change is logged.
    daemon.read_config();
    daemon.tick();
    if let Some(ready) = &mut ready {
        let _ = ready.write_all(b"ready\n");
    }
    drop(ready);
    if detached {
        process::release_stderr();
    }
    while daemon.goes_on(&mut events) {}
    // Unless it belongs to another daemon by now.
    if !other_lives(daemon.region.heartbeat.daemon.load(Ordering::Relaxed)) {
        daemon.tuning.end(&daemon.region);
    }
    STOP.store(true, Ordering::Relaxed);
    let _ = beater.join();
    Ok(())
}

/// Registers this process as the region's daemon, and begins its log.
fn take_over(instance: &Instance, note: &Note, region: &Mapping) {
    region.heartbeat.daemon.store(std::process::id(), Ordering::Relaxed);
    region.heartbeat.server.store(note.server_pid, Ordering::Relaxed);
    let ungoverned = region.heartbeat.ungoverned().then_some(note.server_pid);
    region.heartbeat.alive_ns.store(clock::now().0, Ordering::Relaxed);
    if let Err(error) = log::also_to(&instance.log_path()) {
        let path = instance.log_path();
        log::line(&format!("decisions go to standard error only: {}: {error}", path.display()));
    }
    log::line(&format!("the daemon (process {}) begins", std::process::id()));
    ungoverned.iter().for_each(|&server| log::line(&says_ungoverned(server)));
}

/// The previous daemon, if it still works. A killed daemon may take a moment to disappear on a busy
/// machine, but sends no more heartbeats; this waits until it is gone.
fn rival(region: &Mapping) -> Option<u32> {
    let sign = region.heartbeat.alive_ns.load(Ordering::Relaxed);
    loop {
        let other = region.heartbeat.daemon.load(Ordering::Relaxed);
        if !other_lives(other) || region.heartbeat.stale(clock::now()) {
            return None;
        }
        if region.heartbeat.alive_ns.load(Ordering::Relaxed) != sign {
            return Some(other);
        }
        std::thread::sleep(PREDECESSOR_POLL_INTERVAL);
    }
}

/// Whether another living process is registered as the daemon.
fn other_lives(daemon: u32) -> bool {
    daemon != 0 && daemon != std::process::id() && started_ticks(daemon).is_some()
}

/// The message for a server that runs on the region of another version.
pub fn says_ungoverned(server: u32) -> String {
    format!(
        "the server (process {server}) was started by another version of headworks: it runs without the gate, and \
         all requests pass, until it is restarted"
    )
}
