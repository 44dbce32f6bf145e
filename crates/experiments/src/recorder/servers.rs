//! MariaDB, PostgreSQL, Redis, WiredTiger and Cassandra under load: what is found of them, and how
//! the recording simulates.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::expected::{self, Expected};
use super::points::{self, Page};
use super::recorded::{Recorded, record};
use super::site::{Kind, Site};
use super::{CLIENTS, RECORDED};
use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::progress::Progress;
use crate::running::pause;
use crate::sweep::Claim;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::work::Work;

/// One server.
struct Family {
    id: &'static str,
    name: &'static str,
    kind: Kind,
    /// Loads: an arm each.
    loads: &'static [&'static str],
    expected: &'static Expected,
    claims: &'static [Claim],
}

const fn experiment(
    family: &'static Family,
    title: &'static str,
    needs: &'static [&'static str],
) -> Experiment {
    super::experiment(family.id, title, (180, 60), needs, family)
}

pub(super) const MARIADB: Experiment = experiment(
    &MARIADB_FAMILY,
    "MariaDB, recorded under load: its stages and arrows, and a simulation of the recording",
    &["mariadb-server-core", "sysbench", "root"],
);
pub(super) const POSTGRES: Experiment = experiment(
    &POSTGRES_FAMILY,
    "PostgreSQL, recorded under load: its stages and arrows, and a simulation of the recording",
    &["postgresql", "root"],
);
pub(super) const REDIS: Experiment = experiment(
    &REDIS_FAMILY,
    "Redis, recorded under load: its stages and arrows, and a simulation of the recording",
    &["redis-server", "redis-tools", "root"],
);

pub(super) const WIREDTIGER: Experiment = experiment(
    &WIREDTIGER_FAMILY,
    "WiredTiger behind a small server, recorded under load: its stages and arrows, and a simulation",
    &["libwiredtiger-dev", "gcc", "redis-tools", "root"],
);

pub(super) const CASSANDRA: Experiment = experiment(
    &CASSANDRA_FAMILY,
    "Cassandra, recorded under load: Figure 3.4 on one node, and a simulation of the recording",
    &["default-jdk-headless", "maven", "scripts/setup cassandra", "root"],
);

const MARIADB_LOADS: &[&str] = &["oltp_point_select", "oltp_read_write"];
static MARIADB_FAMILY: Family = Family {
    id: "record-mariadb",
    name: "MariaDB",
    kind: Kind::MariaDb,
    loads: MARIADB_LOADS,
    expected: &expected::MARIADB,
    claims: &[
        points::all_found("stages are found", |seed| points::found(seed, MARIADB_LOADS, "stages")),
        points::all_found("arrows are found", |seed| points::found(seed, MARIADB_LOADS, "arrows")),
        points::simulates(|seed| points::off(seed, MARIADB_LOADS)),
        points::costs(|seed| points::cost(seed, MARIADB_LOADS)),
    ],
};

const POSTGRES_LOADS: &[&str] = &["select", "update"];
static POSTGRES_FAMILY: Family = Family {
    id: "record-postgres",
    name: "PostgreSQL",
    kind: Kind::Postgres,
    loads: POSTGRES_LOADS,
    expected: &expected::POSTGRES,
    claims: &[
        points::all_found("stages are found", |seed| points::found(seed, POSTGRES_LOADS, "stages")),
        points::all_found("arrows are found", |seed| points::found(seed, POSTGRES_LOADS, "arrows")),
        points::simulates(|seed| points::off(seed, POSTGRES_LOADS)),
        points::costs(|seed| points::cost(seed, POSTGRES_LOADS)),
    ],
};

const REDIS_LOADS: &[&str] = &["get", "set"];
static REDIS_FAMILY: Family = Family {
    id: "record-redis",
    name: "Redis",
    kind: Kind::Redis,
    loads: REDIS_LOADS,
    expected: &expected::REDIS,
    claims: &[
        points::all_found("stages are found", |seed| points::found(seed, REDIS_LOADS, "stages")),
        points::all_found("arrows are found", |seed| points::found(seed, &["set"], "arrows")),
        points::simulates(|seed| points::off(seed, REDIS_LOADS)),
        points::costs(|seed| points::cost(seed, REDIS_LOADS)),
    ],
};

const WIREDTIGER_LOADS: &[&str] = &["get", "put"];
static WIREDTIGER_FAMILY: Family = Family {
    id: "record-wiredtiger",
    name: "WiredTiger",
    kind: Kind::WiredTiger,
    loads: WIREDTIGER_LOADS,
    expected: &expected::WIREDTIGER,
    claims: &[
        points::all_found("stages are found", |seed| {
            points::found(seed, WIREDTIGER_LOADS, "stages")
        }),
        points::all_found("arrows are found", |seed| points::found(seed, &["put"], "arrows")),
        points::simulates(|seed| points::off(seed, WIREDTIGER_LOADS)),
        points::costs(|seed| points::cost(seed, WIREDTIGER_LOADS)),
    ],
};

const CASSANDRA_LOADS: &[&str] = &["get", "put", "mix"];
static CASSANDRA_FAMILY: Family = Family {
    id: "record-cassandra",
    name: "Cassandra",
    kind: Kind::Cassandra,
    loads: CASSANDRA_LOADS,
    expected: &expected::CASSANDRA,
    claims: &[
        points::all_found("stages are found", |seed| points::found(seed, &["put"], "stages")),
        points::all_found("arrows are found", |seed| points::found(seed, &["put"], "arrows")),
        points::simulates(|seed| points::off(seed, CASSANDRA_LOADS)),
        points::costs(|seed| points::cost(seed, CASSANDRA_LOADS)),
    ],
};

impl Bench for Family {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        let experiment = super::EXPERIMENTS.iter().find(|known| known.id == self.id);
        collect(self, experiment.expect("each family is an experiment"), options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let page = Page {
            id: self.id,
            about: "Clients of the server's usual load generator, which send one request after another on the same \
                    machine. With 8 of them the server is also recorded, with the default budget and no hint. Of that \
                    recording the diagram is simulated with each number of clients.",
            arms: self.loads,
            claims: self.claims,
            expected: &[(self.name, self.expected)],
        };
        points::report(&page, directory, fresh)
    }
}

/// Times of a run.
struct Times {
    window: Duration,
    recording: Duration,
}

fn collect(family: &Family, experiment: &Experiment, options: &RunOptions) -> Result<Record> {
    let (window_s, recording_s) = if options.quick { (1, 3) } else { (5, 30) };
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let times = Times {
        window: Duration::from_secs(window_s),
        recording: Duration::from_secs(recording_s),
    };
    let rounds = options.repeat.unwrap_or(1).max(1);
    let chosen =
        |load: &&&'static str| options.only.as_deref().is_none_or(|only| load.contains(only));
    let loads: Vec<&'static str> = family.loads.iter().filter(chosen).copied().collect();
    let one = times.window * CLIENTS.len() as u32 + times.recording + Duration::from_secs(20);
    let title = format!("{}: {}", experiment.id, experiment.title);
    let mut progress = Progress::new(&title, one * (rounds * loads.len()) as u32);
    let schedule = Rounds::begin(experiment, options);
    let site = Site::start(family.kind, Work::new(options, 1 << 30)?, &progress)?;
    let mut runs: Vec<(&str, f64, Run)> = Vec::new();
    let mut found = BTreeMap::new();
    for round in 1..=rounds as u64 {
        for &load in &loads {
            progress.step(&format!("round {round}/{rounds} · {load}"), one);
            let name = format!("{load}-{round}");
            let place = (&*options.out.join(family.id), &*name);
            let (measured, recorded) = measure(&site, load, &times, options, place, &progress)?;
            let judged = recorded.judge(family.expected, &BTreeMap::new());
            found.insert(load, judged.text());
            let more = points::runs(&measured, Some((&recorded, judged)));
            runs.extend(more.into_iter().map(|(at, run)| (load, at, Run { seed: round, ..run })));
        }
    }
    let arms = loads.iter().map(|load| Arm::new(load, site.about().to_owned(), &CLIENTS));
    let seconds = (2.0, window_s as f64);
    let mut record = schedule.record(seconds, "clients", arms.collect(), &runs);
    points::tell(&mut record, &found);
    Ok(record)
}

fn measure(
    site: &Site,
    load: &str,
    times: &Times,
    options: &RunOptions,
    place: (&Path, &str),
    progress: &Progress,
) -> Result<(BTreeMap<u32, f64>, Recorded)> {
    let mut measured = BTreeMap::new();
    let mut recorded = None;
    for clients in CLIENTS {
        let running = site.load(load, clients as usize)?;
        let (before, begun) = (site.answered(load)?, Instant::now());
        pause(times.window)?;
        let per_s = (site.answered(load)? - before) / begun.elapsed().as_secs_f64();
        measured.insert(clients as u32, per_s);
        if clients == RECORDED {
            let mut own = record(options, &[site.pid()], times.recording, place, progress)?;
            if site.shares_connection() {
                // The recording does not tell how many they are.
                own.drawn.know_clients(clients as u32);
            }
            recorded = Some(own);
        }
        drop(running);
    }
    Ok((measured, recorded.expect("one point is recorded")))
}
