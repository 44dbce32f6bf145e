//! The three scenes: their servers, their loads, and how they are played.

use super::client::Act;
use super::slices::{self, Group, Load, SLICE_S};
use crate::neighbours::site::{Kind, Site};
use crate::progress::Progress;
use crate::split::{self, Disk, Stack};
use crate::sweep::record::Run;
use crate::work::Work;
use anyhow::{Context, Result};
use headworks_policy::metrics::median;
use headworks_rig::gated::Instance;
use headworks_rig::{PostgresServer, SUPERUSER, postgres_program};
use headworks_workload::db::Database;
use headworks_workload::driver::Arrivals;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(super) const ABOUT: &str = "Arrivals: transactions arrive at 0.6 of the capacity that was measured just before \
    (16 clients in a closed loop, MariaDB as it is), over 256 connections; half of them change one of ten hot \
    rows. Neighbours: four clients of a small account pause between requests, beside 200 of a large one that do not; \
    MariaDB, the accounts have the same weight. Commits: 40 updates a second on PostgreSQL, on a volume that behaves \
    like a disk, and a checkpoint of 120 MB that begins after a second; PostgreSQL's own hints to write back early are \
    off. Each scene has two servers, and the load goes to them in turn.";

/// A scene, about.
pub(super) const EXPECTED_S: u64 = 75;

/// How much of the capacity arrives.
const OFFERED: f64 = 0.6;

/// pgbench's scale: [`super::client::ACCOUNTS`] rows.
const SCALE: &str = "10";

/// The machine's pace may change by so much during a scene; else it is played again.
const PACE: f64 = 4.0 / 3.0;

const GATE: &str = "[gate]\nparallelism = 16\n";

/// A class for each account; its weight is for all its sessions, of permits and processor time.
const CLASSES: &str = "[gate]\nparallelism = 2\ncpu_weights = true\n\
    [[class]]\nname = \"small\"\nweight = 1.0\nweight_of = \"class\"\n[[rule]]\naccount = \"small\"\nclass = \"small\"\n\
    [[class]]\nname = \"large\"\nweight = 1.0\nweight_of = \"class\"\n[[rule]]\naccount = \"large\"\nclass = \"large\"\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    Arrivals,
    Neighbours,
    Commits,
}

impl Scene {
    pub(super) const ALL: [Scene; 3] = [Scene::Arrivals, Scene::Neighbours, Scene::Commits];

    /// As it is, and behind Headworks.
    pub(super) fn arms(self) -> [&'static str; 2] {
        match self {
            Scene::Arrivals => ["arrivals, as it is", "arrivals, gate"],
            Scene::Neighbours => ["neighbours, as it is", "neighbours, gate"],
            Scene::Commits => ["commits, as it is", "commits, split-deadline"],
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Scene::Arrivals => "Transactions arrive, 256 connections",
            Scene::Neighbours => "A small account beside a large one",
            Scene::Commits => "Commits beside a checkpoint",
        }
    }

    /// What is put before the second server.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Scene::Arrivals => "behind the gate, P = 16",
            Scene::Neighbours => "behind the gate, a class for each",
            Scene::Commits => "--io split-deadline",
        }
    }

    /// Why it cannot be played here.
    pub(super) fn refusal(self) -> Option<&'static str> {
        // SAFETY: geteuid has no preconditions.
        let root = unsafe { libc::geteuid() } == 0;
        match self {
            Scene::Commits if !root => Some("it mounts a volume, which needs root: sudo make demo"),
            Scene::Commits if postgres_program("postgres").is_none() => {
                Some("PostgreSQL is missing: apt-get install postgresql")
            }
            _ => None,
        }
    }
}

/// The two servers of a scene.
enum Servers {
    MariaDb {
        sites: [Site; 2],
        _gate: Instance,
    },
    /// Each on its disk, which goes after the server.
    Postgres {
        servers: [PostgresServer; 2],
        _disks: [Disk; 2],
        _gate: Instance,
    },
}

/// Plays a scene; returns pairs of what was seen as it is and behind Headworks. It is played again
/// if the machine's pace changed too much meanwhile.
pub(super) fn play(
    scene: Scene,
    headworks: &Path,
    work: &Work,
    pairs: usize,
    seed: u64,
    progress: &mut Progress,
) -> Result<Vec<[Run; 2]>> {
    progress.step(&format!("{}: starting two servers", scene.title()), Duration::from_secs(25));
    let servers = start(scene, headworks, work)?;
    let begun = progress.expected_so_far();
    let mut found = pass(scene, &servers, pairs, seed, progress)?;
    if changed(&found) > PACE {
        progress.note("the machine's pace changed by more than a third: once more");
        progress.repeat_since(begun);
        found = pass(scene, &servers, pairs, seed, progress)?;
        if changed(&found) > PACE {
            progress.note("it changed again: compare within a pair of slices only");
        }
    }
    Ok(found)
}

/// By which factor the machine's pace changed from the first half of the slices to the second one.
fn changed(found: &[[Run; 2]]) -> f64 {
    let all: Vec<f64> =
        found.iter().flatten().filter_map(|run| run.numbers.get("work_ms").copied()).collect();
    let (first, second) = all.split_at(all.len() / 2);
    match (median(first), median(second)) {
        (Some(first), Some(second)) => (first / second).max(second / first),
        _ => 1.0,
    }
}

fn pass(
    scene: Scene,
    servers: &Servers,
    pairs: usize,
    seed: u64,
    progress: &mut Progress,
) -> Result<Vec<[Run; 2]>> {
    let mut found = Vec::new();
    for pair in 0..pairs as u64 {
        // The machine's pace drifts, so a capacity holds for the next slices only.
        let capacity_per_s = match scene {
            Scene::Arrivals => capacity(servers, seed + pair, progress)?,
            _ => 0.0,
        };
        let mut runs = Vec::new();
        for number in 0..2 {
            let title = format!("{} ({} of {pairs})", scene.arms()[number], pair + 1);
            progress.step(&title, Duration::from_secs_f64(SLICE_S + 1.0));
            let load = load(scene, servers, number, capacity_per_s, seed + pair)?;
            runs.push(servers.slice(number, &load, progress).context(title)?);
        }
        let [theirs, ours] = [runs.remove(0), runs.remove(0)];
        found.push([theirs, ours]);
    }
    Ok(found)
}

/// Transactions per second of 16 clients in a closed loop, on the server as it is.
fn capacity(servers: &Servers, seed: u64, progress: &mut Progress) -> Result<f64> {
    progress.step("capacity of the server as it is", Duration::from_secs(4));
    let all = group(16, servers.database(0, headworks_rig::ACCOUNT)?, Act::Transaction);
    let load = Load { groups: vec![all], arrivals: Arrivals::Closed, seconds: 3.0, seed };
    Ok(slices::drive(&load, &|| progress.tick())?.per_s)
}

fn group(clients: usize, database: Database, act: Act) -> Group {
    Group { clients, database, act, pause: Duration::ZERO }
}

fn load(
    scene: Scene,
    servers: &Servers,
    number: usize,
    capacity_per_s: f64,
    seed: u64,
) -> Result<Load> {
    let (groups, arrivals) = match scene {
        Scene::Arrivals => {
            let database = servers.database(number, headworks_rig::ACCOUNT)?;
            let rate_per_s = OFFERED * capacity_per_s;
            (vec![group(256, database, Act::Transaction)], Arrivals::Queued { rate_per_s })
        }
        Scene::Neighbours => {
            let small = group(4, servers.database(number, "small")?, Act::Sum);
            let small = Group { pause: Duration::from_millis(15), ..small };
            let large = group(200, servers.database(number, "large")?, Act::Sum);
            (vec![small, large], Arrivals::Closed)
        }
        Scene::Commits => {
            let database = servers.database(number, SUPERUSER)?;
            (vec![group(8, database, Act::Commit)], Arrivals::Queued { rate_per_s: 40.0 })
        }
    };
    Ok(Load { groups, arrivals, seconds: SLICE_S, seed })
}

impl Servers {
    fn database(&self, number: usize, account: &str) -> Result<Database> {
        match self {
            Servers::MariaDb { sites, .. } => sites[number].database(account),
            Servers::Postgres { servers, .. } => {
                let port = servers[number].port();
                Ok(format!("postgresql://{account}@127.0.0.1:{port}/postgres").parse()?)
            }
        }
    }

    /// One slice. A server with a checkpoint first makes many pages dirty.
    fn slice(&self, number: usize, load: &Load, progress: &Progress) -> Result<Run> {
        let tick = || progress.tick();
        if matches!(self, Servers::MariaDb { .. }) {
            return slices::slice(load, &tick);
        }
        let mut session = self.database(number, SUPERUSER)?.connect()?;
        session.run("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 50 = 0")?;
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(move || {
                std::thread::sleep(Duration::from_secs(1));
                session.run("CHECKPOINT")
            });
            let run = slices::slice(load, &tick);
            let done = checkpoint.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            run
        })
    }
}

fn start(scene: Scene, headworks: &Path, work: &Work) -> Result<Servers> {
    if scene == Scene::Commits {
        return on_disks(headworks, work);
    }
    let gate = Instance::shared(headworks, format!("demo-{}", std::process::id()));
    let config = if scene == Scene::Arrivals { GATE } else { CLASSES };
    let path = work.path().join("gate.toml");
    let prefix = gate.prefix_with_config(&path, config, &[])?;
    let plain = Site::start(Kind::MariaDb, &[], work.path())?;
    let ours = Site::start(Kind::MariaDb, &prefix, work.path())?;
    gate.enforcing_status()?;
    Ok(Servers::MariaDb { sites: [plain, ours], _gate: gate })
}

/// Two PostgreSQLs, each on a volume that behaves like a disk.
fn on_disks(headworks: &Path, work: &Work) -> Result<Servers> {
    let gate = Instance::private(headworks, "demo")?;
    let template = work.path().join("postgres");
    split::pgbench_data(&template, SCALE)?;
    let stack = Stack::disk();
    let disk = |name: &str| -> Result<Disk> {
        let home = work.path().join(name);
        fs::create_dir(&home)?;
        let disk = Disk::new(headworks, &home, stack)?;
        disk.copy(&template, "data")?;
        Ok(disk)
    };
    let disks = [disk("disk-1")?, disk("disk-2")?];
    let builder = |disk: &Disk| {
        [
            ("fsync", "on"),
            ("shared_buffers", "256MB"),
            ("checkpoint_timeout", "1h"),
            ("max_wal_size", "8GB"),
            ("checkpoint_flush_after", "0"),
            ("autovacuum", "off"),
        ]
        .iter()
        .fold(
            PostgresServer::builder().data_directory(disk.dir().join("data")),
            |builder, (name, value)| builder.setting(name, value),
        )
    };
    let options = ["--mode", "dry-run", "--io", "split-deadline", "--io-device", "disk"];
    let options = options.map(OsString::from);
    let plain = builder(&disks[0]).start()?;
    let ours = gate.before(builder(&disks[1]), options).start()?;
    ours.ensure_gated(true)?;
    Ok(Servers::Postgres { servers: [plain, ours], _disks: disks, _gate: gate })
}
