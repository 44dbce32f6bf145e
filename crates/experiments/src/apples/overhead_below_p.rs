//! What the gate costs while no request is queued: two servers side by side, measured in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_workload::driver::{RunOptions as Driving, Stop};
use headworks_workload::sysbench::Oltp;
use headworks_workload::tpcc::Mix;
use headworks_workload::ycsb::Core;

use super::figure::{Load, ServerKind, Users};
use super::gate;
use super::measure::measure;
use super::site::{Drive, Engine, Front, Place, Server, Site, whole};
use super::workloads::{THROUGHPUT, compare};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::sweep::{self, Claim, Presentation};
use crate::work::Work;
use headworks_policy::random::Random;

const ID: &str = "apples-below";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "What the gate costs while fewer users come than may be served at a time",
    paper: "AppleS",
    figure: "section 4.2",
    expected_s: SUBJECTS.len() as u64 * subject_s(PAIRS.0, WINDOW_S.0) + 2 * FILL_S.0,
    expected_quick_s: SUBJECTS.len() as u64 * subject_s(PAIRS.1, WINDOW_S.1) + 2 * FILL_S.1,
    needs: &[
        "mariadb-server-core",
        "postgresql",
        "redis-server",
        "memcached",
        "default-jdk-headless",
        "maven",
        "scripts/setup java",
        "8 GB of disk",
        "6 GB of memory",
    ],
    bench: &Steps { collect, report },
};

/// Pairs of windows of a full and of a quick run, for each database.
const PAIRS: (usize, usize) = (40, 2);

/// Length of a window, and of the time before it in which the users connect and begin.
const WINDOW_S: (u64, u64) = (3, 1);
const WARM_UP: Duration = Duration::from_millis(500);

/// Seconds to start, fill and stop a server, and to fill sysbench's tables.
const AROUND_S: u64 = 30;
const FILL_S: (u64, u64) = (80, 10);

/// How long a database takes, without its tables.
const fn subject_s(pairs: usize, window_s: u64) -> u64 {
    pairs as u64 * 2 * (window_s + 1) + AROUND_S
}

const USERS: usize = 16;
/// The one point of every arm.
const AT: f64 = USERS as f64;

/// P is twice the number of users.
const GATED: ServerKind = ServerKind::Gate("[gate]\nparallelism = 32\n");
const CONFIG: &str = match GATED {
    ServerKind::Gate(config) => config,
    _ => "",
};

/// A database, and what its arms are called.
struct Subject {
    name: &'static str,
    plain: &'static str,
    gated: &'static str,
    site: Site,
}

macro_rules! subject {
    ($name:literal, $site:expr) => {
        Subject {
            name: $name,
            plain: concat!($name, ", as it is"),
            gated: concat!($name, ", gate"),
            site: $site,
        }
    };
}

const SUBJECTS: [Subject; 5] = [
    subject!("MariaDB", Site::Sysbench(Engine::MariaDb, Oltp::ReadWrite)),
    subject!("PostgreSQL", Site::Sysbench(Engine::PostgreSql, Oltp::ReadWrite)),
    subject!("Redis", Site::Redis(Core::A)),
    subject!("memcached", Site::Memcached(Core::A)),
    subject!("mongo-java-server", Site::MongoDb(Core::A)),
];

/// A claim on one of [`SUBJECTS`].
macro_rules! claim {
    ($statement:literal, $subject:literal) => {
        Claim::new($statement)
            .paper("not measured; an interception takes some 100 ns (section 4.2)")
            .ours(
                "throughput of a window / of the one beside it without the gate",
                |seed: &Seed<'_>| seed.get(SUBJECTS[$subject].gated, AT, THROUGHPUT),
            )
            .at_least(0.99)
    };
}

const CLAIMS: &[Claim] = &[
    claim!("MariaDB: at most one part in a hundred, by the median of the pairs", 0),
    claim!("PostgreSQL: the same", 1),
    claim!("Redis: the same", 2),
    claim!("memcached: the same", 3),
    claim!("MongoDB's protocol: the same", 4),
];

fn panels() -> Vec<Panel> {
    let panel = |title: &str, key: &str| {
        SUBJECTS.iter().fold(Panel::bars(title, "ratio").up_to(1.1), |panel, subject| {
            panel.bar(subject.name, "behind the gate", subject.gated, AT, key)
        })
    };
    vec![
        panel("Throughput, of that as it is", THROUGHPUT),
        panel("P99, of that as it is", "latency_p99_ratio"),
    ]
}

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let mut record = sweep::read(directory, ID)?;
    compare(&mut record);
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "Two servers of each database beside each other, one as it is and one behind a gate with twice as many \
                places as there are users, so that no request is ever held. The users ask one of them, then the other, for \
                moments, in changing order: what makes the machine slower for minutes makes both slower. sysbench's \
                oltp_read_write on MariaDB and PostgreSQL, YCSB A on the others, all in memory.",
        sweep_label: "users",
        runs: "pairs",
        caption: format!("{USERS} users, windows of {} s", record.counted_s),
        quick: "little data, short windows and few pairs; it measures nothing well",
        claims: CLAIMS,
        panels: panels(),
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

/// What pairs of windows are made with.
struct Bench<'a> {
    options: &'a RunOptions,
    headworks: PathBuf,
    work: Work,
    pairs: usize,
    window_s: u64,
    random: Random,
    progress: Progress,
}

fn collect(options: &RunOptions) -> Result<Record> {
    let headworks = options.headworks()?;
    let of = |both: (u64, u64)| if options.quick { both.1 } else { both.0 };
    let pairs = options.repeat.unwrap_or(if options.quick { PAIRS.1 } else { PAIRS.0 }).max(1);
    let window_s = options.window_s.unwrap_or(of(WINDOW_S)).max(1);
    let expected_s = SUBJECTS.len() as u64 * subject_s(pairs, window_s) + 2 * of(FILL_S);
    let mut bench = Bench {
        options,
        headworks,
        work: Work::new(options, 8 << 30)?,
        pairs,
        window_s,
        random: Random::new(options.seed),
        progress: Progress::new(
            &format!("{ID}: {}", EXPERIMENT.title),
            Duration::from_secs(expected_s),
        ),
    };
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let (mut arms, mut runs) = (Vec::new(), Vec::new());
    for subject in &SUBJECTS {
        runs.extend(bench.measure(subject).with_context(|| subject.name)?);
        let as_it_is = subject.site.server().to_owned();
        arms.push(Arm::new(subject.plain, as_it_is, &[AT]));
        arms.push(Arm::new(subject.gated, CONFIG.trim().to_owned(), &[AT]));
    }
    let seconds = (WARM_UP.as_secs_f64(), window_s as f64);
    Ok(rounds.record(seconds, "users", arms, &runs))
}

impl Bench<'_> {
    /// All pairs of one database: the arm as it is, and that behind the gate.
    fn measure(&mut self, subject: &Subject) -> Result<Vec<(&'static str, f64, Run)>> {
        let site = subject.site;
        let directory = self.work.path().join(subject.name);
        let homes = ["as-it-is", "gate"].map(|name| directory.join(name));
        fs::create_dir_all(&homes[0])?;
        if site.keeps_data() {
            self.fill(site, &homes[0])?;
        }
        // Both servers have identical data.
        let copied = Command::new("cp").arg("-a").args(&homes).status()?;
        ensure!(copied.success(), "cannot copy {}: cp ended with {copied}", homes[0].display());
        let expected = Duration::from_secs(subject_s(self.pairs, self.window_s));
        self.progress.step(&format!("{} pairs on {}", self.pairs, site.title()), expected);
        let path = self.work.path().join("gate.toml");
        let instance = gate::instance(&self.headworks);
        let gate = instance.prefix_with_config(&path, CONFIG, site.profile())?;
        let fronts = [Front::default(), Front { gate, ..Front::default() }];
        let mut servers: Vec<Box<dyn Server>> = Vec::new();
        for (home, front) in homes.iter().zip(&fronts) {
            let place = Place { work: home, quick: self.options.quick };
            let mut server = site.serve(place, front)?;
            server.make_ready(&mut || interrupt::check().is_ok())?;
            servers.push(server);
        }
        let mut runs = Vec::new();
        let mut order = [(0, subject.plain), (1, subject.gated)];
        for pair in 1..=self.pairs as u64 {
            self.random.shuffle(&mut order);
            for (server, arm) in order {
                interrupt::check()?;
                runs.push((arm, AT, self.window(servers[server].as_mut(), pair)?));
            }
        }
        instance.enforcing_status()?;
        for server in &mut servers {
            server.check().context("after all windows")?;
            server.stop()?;
        }
        fs::remove_dir_all(&directory)?;
        Ok(runs)
    }

    fn fill(&mut self, site: Site, home: &Path) -> Result<()> {
        let seconds = if self.options.quick { FILL_S.1 } else { FILL_S.0 };
        let title = format!("making the data: {}", site.title());
        self.progress.step(&title, Duration::from_secs(seconds));
        let place = Place { work: home, quick: self.options.quick };
        let mut server = site.start(place, &Front::default(), true)?;
        server.fill(&mut || {
            self.progress.tick();
            interrupt::check().is_ok()
        })?;
        interrupt::check()?;
        server.stop()
    }

    /// One window on one server.
    fn window(&self, server: &mut dyn Server, pair: u64) -> Result<Run> {
        let how = Driving {
            users: USERS,
            warm_up: WARM_UP,
            window: Duration::from_secs(self.window_s),
            ..Driving::default()
        };
        let stop = Stop::default();
        let report = server.drive(Drive {
            load: &Load::of(Users::Fixed(USERS), Mix::STANDARD),
            how: &how,
            // Both windows of a pair make the same requests.
            seed: self.options.seed.wrapping_add(pair),
            stop: &stop,
            tick: &mut |_| {
                self.progress.tick();
                if interrupt::check().is_err() {
                    stop.stop();
                }
            },
        });
        interrupt::check()?;
        let report = whole(server, report)?;
        let mut run = measure(&report, 0, pair);
        run.series.clear();
        // A window is too short to measure fairness.
        run.numbers.retain(|key, _| !key.starts_with("unfairness"));
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_database_is_judged_and_drawn_beside_itself() {
        assert_eq!(CLAIMS.len(), SUBJECTS.len());
        for (claim, subject) in CLAIMS.iter().zip(&SUBJECTS) {
            let name = subject.site.server().trim_end_matches(" as it is");
            assert_eq!(name, subject.name);
            let said = claim.statement.split(':').next().unwrap();
            assert!(said == name || said == "MongoDB's protocol", "{said}");
        }
        let arms: Vec<&str> = SUBJECTS.iter().map(|subject| subject.gated).collect();
        for panel in panels() {
            assert!(panel.lines.iter().map(|line| line.arm).eq(arms.iter().copied()));
        }
    }
}
