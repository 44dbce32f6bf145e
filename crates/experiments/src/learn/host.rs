//! A host: a process with a volume of the store, its queue, and the applications on it.
//!
//! Each second it tells the store what its applications achieved, hears what they are granted, and
//! sets the fractions of its queue by that. What happened goes to its output, a line of JSON
//! for a second.

use super::load::{Kind, Load};
use crate::record::unix_now_s;
use anyhow::{Context, Result, ensure};
use headworks_policy::block::table::Limits;
use headworks_policy::block::{BlockScheduler, Sfq, Share, sfq};
use headworks_policy::learn::rivals::Windows;
use headworks_store::note::{Answer, Grant, Post, Told};
use headworks_store::sim::array;
use headworks_volume::store::Store;
use headworks_volume::store::nbd::{Address, Nbd};
use headworks_volume::{Engine, EngineConfig};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Requests that a host has at the store: as many as its volume has threads.
const DEPTH: u32 = 32;

/// Parts of a second in which accesses are counted.
pub(super) const PARTS: u32 = 10;

/// How the host's own queue divides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Fractions {
    /// There is no queue: requests go to the store as they come.
    None,
    /// By what the store grants.
    Granted,
    /// Equally; so many requests at the store that their latency is this (PARDA).
    ByLatency {
        /// L, in seconds.
        threshold_s: f64,
    },
}

/// A span of time, and what holds in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Stage {
    /// When it ends, in seconds since the begin.
    pub until_s: u64,
    /// Part of the load that is there.
    pub part: f64,
    /// How many times the usual a transaction costs.
    pub cost: f64,
}

/// An application of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct App {
    pub name: String,
    pub kind: Kind,
    /// Whether it tells what it achieves.
    pub posts: bool,
    pub stages: Vec<Stage>,
}

/// What a host's process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spec {
    /// Its volume.
    pub uri: String,
    pub bytes: u64,
    pub fractions: Fractions,
    pub apps: Vec<App>,
    pub seed: u64,
    /// Its first second begins then, in milliseconds since 1970.
    pub begin_unix_ms: u64,
}

/// What an application did in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Did {
    /// Transactions a second.
    pub rate: f64,
    /// Accesses in each part of the second.
    pub accesses: Vec<u64>,
}

struct Host {
    store: Arc<Nbd>,
    engine: Arc<Engine>,
    fractions: Fractions,
    windows: (Windows, f64),
}

impl Host {
    fn open(spec: &Spec) -> Result<Host> {
        let store = Arc::new(Nbd::open(Address::parse(&spec.uri)?, spec.bytes, 512)?);
        let cost = array::Kind::Disks.cost();
        let usual = sfq::Settings::array(1, cost.request, cost.transfer);
        let settings = sfq::Settings { depth: DEPTH, limits: Limits { sectors: 0 }, ..usual };
        let fair = || Box::new(Sfq::new(settings)) as Box<dyn BlockScheduler>;
        let scheduler = (spec.fractions != Fractions::None).then(fair);
        let beneath = Arc::clone(&store) as Arc<dyn Store>;
        let config = EngineConfig { store: beneath, model: None, scheduler, layers: Vec::new() };
        let engine = Arc::new(Engine::start(config)?);
        let threshold_s = match spec.fractions {
            Fractions::ByLatency { threshold_s } => threshold_s,
            _ => 1.0,
        };
        let first = f64::from(DEPTH) / 2.0;
        let windows = (Windows::new(threshold_s, 0.2, vec![2.0], first), first);
        Ok(Host { store, engine, fractions: spec.fractions, windows })
    }

    fn tell(&self, told: &Told) -> Option<Answer> {
        let answer = self.store.note(&serde_json::to_vec(told).ok()?)?;
        serde_json::from_slice(&answer).ok()
    }

    /// Sets the queue by what the store says.
    fn heed(&mut self, apps: &[App], grants: &[Grant]) {
        let of = |app: &App| grants.iter().find(|grant| grant.application == app.name);
        match self.fractions {
            Fractions::None => {}
            Fractions::Granted => {
                let share = |app: &App| of(app).map_or(0.0, |grant| grant.share);
                let all: f64 = apps.iter().map(share).sum();
                for (number, app) in (1..).zip(apps) {
                    let fraction = if all > 0.0 { share(app) / all } else { 1.0 };
                    // At most 10^6.
                    let weight = ((fraction * 1e6) as u32).max(10_000);
                    self.engine.set_share(number, Some(Share { weight, best_effort: false }));
                }
            }
            Fractions::ByLatency { .. } => {
                let times = apps.iter().filter_map(of).filter(|grant| grant.used > 0.0);
                let latency_s = times.map(|grant| (grant.wait_us + grant.service_us) / 1e6);
                let worst = latency_s.fold(0.0, f64::max);
                if worst > 0.0 {
                    let (windows, now) = &mut self.windows;
                    *now = windows.next(*now, windows.beta[0], worst).min(f64::from(DEPTH));
                    // At most the host's depth.
                    self.engine.set_depth(*now as u32, *now as u32);
                }
            }
        }
    }
}

/// Runs a host by its file, to its last stage's end.
pub fn host(spec: &Path) -> Result<()> {
    let text = std::fs::read_to_string(spec)
        .with_context(|| format!("cannot read the host's file {}", spec.display()))?;
    let spec: Spec = serde_json::from_str(&text).context(
        "cannot parse the host's file: the two programs are of different builds (cargo build --workspace)",
    )?;
    let mut host = Host::open(&spec)?;
    let names = (1..).zip(&spec.apps).map(|(tag, app)| (tag, app.name.clone()));
    host.tell(&Told { tags: names.collect(), ..Told::default() }).context("no store of ours")?;
    let load = |(tag, app): (u16, &App)| Load::new(&host.engine, tag, app.kind, spec.seed);
    let loads = (1..).zip(&spec.apps).map(load).collect::<Result<Vec<_>>>()?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let ahead = Duration::from_millis(spec.begin_unix_ms.saturating_sub(now_ms as u64));
    run(&spec, &mut host, loads, Instant::now() + ahead)
}

fn run(spec: &Spec, host: &mut Host, mut loads: Vec<Load>, begin: Instant) -> Result<()> {
    let last_s = spec.apps.iter().filter_map(|app| app.stages.last()).map(|last| last.until_s);
    let mut counters = vec![0; loads.len()];
    let mut accesses: Vec<u64> = loads.iter().map(Load::accesses).collect();
    sleep(begin.saturating_duration_since(Instant::now()));
    let mut then = Instant::now();
    for second in 0..last_s.max().unwrap_or(0) {
        for (app, load) in spec.apps.iter().zip(&mut loads) {
            let stage = app.stages.iter().find(|stage| second < stage.until_s);
            let (part, cost) = stage.map_or((0.0, 1.0), |stage| (stage.part, stage.cost));
            load.set(part, cost);
        }
        let mut did = vec![Did::default(); loads.len()];
        for part in 1..=PARTS {
            let due = begin + Duration::from_secs(second) + Duration::from_secs(1) * part / PARTS;
            sleep(due.saturating_duration_since(Instant::now()));
            for ((did, load), before) in did.iter_mut().zip(&loads).zip(&mut accesses) {
                let now = load.accesses();
                did.accesses.push(now - std::mem::replace(before, now));
            }
        }
        let passed_s = then.elapsed().as_secs_f64();
        then = Instant::now();
        let mut told = Told { window: second, ..Told::default() };
        for (((app, load), counter), did) in
            spec.apps.iter().zip(&loads).zip(&mut counters).zip(&mut did)
        {
            ensure!(!load.has_failed(), "{}: the volume gave an error", app.name);
            did.rate = load.transactions(counter) / passed_s;
            let stage = app.stages.iter().find(|stage| second < stage.until_s);
            if app.posts {
                let achieved = stage.filter(|stage| stage.part > 0.0).map(|_| did.rate);
                told.posts.push(Post {
                    application: app.name.clone(),
                    achieved,
                    ..Post::default()
                });
            }
        }
        let answer = host.tell(&told).unwrap_or_default();
        host.heed(&spec.apps, &answer.grants);
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &did)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// A begin that all hosts of a run can meet.
pub(super) fn soon_unix_ms() -> u64 {
    (unix_now_s() + 3) * 1_000
}
