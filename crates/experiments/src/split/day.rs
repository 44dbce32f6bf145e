//! An administrator's work (a backup, a vacuum, an `ALTER`) beside clients that commit, with and
//! without a scheduler.

use super::disk::{Disk, OWN};
use super::figure::{Arm, Figure, Numbers, Plan, Work, named, sibling};
use super::load::Load;
use super::postgres::{at_a_fixed_rate, client, paced};
use super::{mariadb, postgres, redis};
use crate::running;
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::{Context, Result, ensure};
use headworks_rig::{SUPERUSER, postgres_program};
use headworks_workload::files::{self, Pattern, Report, Task};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The account of who does it.
const ACCOUNT: &str = "dba";

/// What is done, and beside what.
enum Beside {
    /// A shell's command, beside a program that commits 40 times a second. `$from` has the files
    /// that it reads. It runs on the disk.
    Program(&'static str),
    /// `pg_dump` to a file on the same disk, by the library too.
    Dump,
    /// A statement of PostgreSQL. `$from` as above.
    Postgres(&'static str),
    /// A snapshot of a Redis that syncs its log once a second.
    Snapshot,
    /// A statement of MariaDB.
    MariaDb(&'static str),
}

use Beside::{Dump, MariaDb, Postgres, Program, Snapshot};

/// The axis: what is done. pgbench's largest table has 3 million rows.
const ALL: &[(&str, Beside)] = &[
    ("dd", Program("dd if=/dev/zero of=big bs=1M count=800 conv=fsync")),
    ("tar", Program("tar -xf $from/tree.tar && sync -f .")),
    ("rsync", Program("rsync -a --fsync $from/tree .")),
    ("pg_dump", Dump),
    ("VACUUM FREEZE", Postgres("VACUUM (FREEZE) pgbench_accounts")),
    ("VACUUM FULL", Postgres("VACUUM FULL spare")),
    ("CREATE INDEX", Postgres("CREATE INDEX CONCURRENTLY ON pgbench_accounts (abalance, aid)")),
    ("COPY", Postgres("COPY import FROM PROGRAM 'seq -f \"%.0f a row that is imported\" 2000000'")),
    ("UPDATE", Postgres("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 30 = 0")),
    ("BGSAVE", Snapshot),
    ("ALTER", MariaDb("ALTER TABLE sbtest.sbtest4 FORCE")),
];
const POINTS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
const _: () = assert!(POINTS.len() == ALL.len());

/// Tables for statements that must not touch the clients' rows.
const TABLES: &str = "CREATE TABLE spare AS SELECT n, md5(n::text) FROM generate_series(1, 2000000) AS n; \
    CREATE TABLE import (row text)";

/// Files of the tree that `tar` and `rsync` copy, and their length.
const FILES: usize = 4_000;
const FILE: usize = 64 << 10;

/// The first use makes the data of a server or the tree.
fn template(work: &Path) -> Result<PathBuf> {
    Ok(work.to_owned())
}

/// The data in this directory of the template, made by `make` unless they are there.
fn data<'a>(
    plan: &'a Plan<'_>,
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf>,
) -> Result<Plan<'a>> {
    let directory = plan.template.join(name);
    if !directory.exists() {
        fs::create_dir(&directory)?;
        make(&directory)?;
    }
    Ok(plan.of(&format!("{name}/template")))
}

/// A tree of files, and an archive of it.
fn tree(directory: &Path) -> Result<PathBuf> {
    let template = directory.join("template");
    let mut content = vec![0u8; FILE];
    for number in 0..FILES {
        let folder = template.join("tree").join((number / 100).to_string());
        if number % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        content.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 + number) as u8);
        fs::write(folder.join(number.to_string()), &content)?;
    }
    let mut tar = Command::new("tar");
    shell(tar.args(["-cf", "tree.tar", "tree"]).current_dir(&template))?;
    Ok(template)
}

/// A plan whose data are the tree and its archive.
pub(super) fn tree_data<'a>(plan: &'a Plan<'_>) -> Result<Plan<'a>> {
    data(plan, "tree", tree)
}

fn shell(command: &mut Command) -> Result<()> {
    let output = running::output(command)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn seconds_of(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Which commits of a program are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// All of the window.
    Window,
    /// Those that were due while the other program ran.
    Beside,
}

/// A program that commits so often a second, and another one beside it, both under the arm's
/// scheduler.
pub(super) fn programs(
    plan: &Plan<'_>,
    disk: &Disk,
    arm: &Arm,
    script: &str,
    (per_s, counted): (u64, Counted),
) -> Result<Numbers> {
    let mut small = Task::new("small", Pattern::Append, disk.dir().join("small"), 0);
    small.due_every_us = 1_000_000 / per_s;
    let tasks = vec![small];
    files::prepare(&tasks)?;
    let load = Load { tasks, warm_up_ms: plan.warm_up_s * 1_000, window_ms: plan.window_s * 1_000 };
    let spec = plan.work.join("load.json");
    fs::write(&spec, serde_json::to_string(&load)?)?;
    let both = format!(
        "(sleep {}; begun=$(date +%s%N); {{ {script}; }} >&2 && echo $begun $(date +%s%N) >$times) & \
         \"$bench\" files \"$spec\"; wait",
        plan.warm_up_s
    );
    let times = plan.work.join("times");
    let mut command = plan.command(arm, Path::new("/bin/sh"), "generic")?;
    command
        .args(["-c", &both])
        .env("from", plan.template.as_path())
        .env("times", &times)
        .env("bench", std::env::current_exe().context("cannot find this program")?)
        .env("spec", &spec)
        .current_dir(disk.dir());
    let output = running::output(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    let reports: Vec<Report> = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the program that commits reports nothing: {}", said.trim()))?;
    let mut reports = reports.into_iter();
    let mut small = reports.next().context("the program that commits reported nothing")?;
    let times = fs::read_to_string(&times)
        .with_context(|| format!("the command beside it failed: {}", said.trim()))?;
    let mut times = times.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let (begun, ended) = times.next().zip(times.next()).context("no times")?;
    let beside_s = (ended - begun) / 1e9;
    if counted == Counted::Beside {
        small.latencies_us.truncate((beside_s * per_s as f64) as usize);
    }
    Ok(named([
        ("p50_ms", small.percentile_ms(0.5)),
        ("p99_ms", small.percentile_ms(0.99)),
        ("max_ms", small.percentile_ms(1.0)),
        ("beside_s", beside_s),
    ]))
}

/// Runs a statement, or without one a dump.
fn on_postgres(data: &Path, port: u16, statement: Option<&str>) -> Result<()> {
    if let Some(statement) = statement {
        return psql(ACCOUNT, port, statement);
    }
    let server = fs::read_to_string(data.join("postmaster.pid"))?;
    let server = server.lines().next().and_then(|line| line.parse().ok());
    let program = postgres_program("pg_dump").context("pg_dump is missing")?;
    let mut dump = sibling(server.context("the server has no process")?, &program)?;
    dump.args(["-h", "127.0.0.1", "-U", ACCOUNT, "-p", &port.to_string()])
        .args(["-Fp", "-d", "postgres", "-f"])
        .arg(data.with_extension("sql"));
    shell(&mut dump)
}

fn psql(account: &str, port: u16, statement: &str) -> Result<()> {
    let mut psql = client("psql", account, port)?;
    shell(psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]))
}

/// Makes the data of a PostgreSQL with the tables and the account.
fn postgres_data(directory: &Path) -> Result<PathBuf> {
    let data = postgres::template(directory)?;
    let mut server = paced(&data).start()?;
    psql(SUPERUSER, server.port(), &format!("CREATE ROLE {ACCOUNT} SUPERUSER LOGIN"))?;
    psql(SUPERUSER, server.port(), TABLES)?;
    server.stop(Duration::from_secs(60))?;
    Ok(data)
}

/// One run: the latencies of those who commit, and the seconds that the work beside them took.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let took = Mutex::new(Ok(f64::NAN));
    // After the warm-up, once.
    let once = Duration::from_secs(3_600);
    let timed = |work: &dyn Fn() -> Result<()>| {
        let result = running::pause(Duration::from_secs(plan.warm_up_s));
        *took.lock().unwrap() = result.and_then(|()| seconds_of(work));
    };
    let numbers = match &ALL[at as usize].1 {
        Program(script) => {
            let plan = tree_data(plan)?;
            return programs(&plan, disk, arm, script, (40, Counted::Window));
        }
        work @ (Dump | Postgres(_)) => {
            let statement = if let Postgres(statement) = work { Some(*statement) } else { None };
            let plan = data(plan, "postgres", postgres_data)?;
            let data = plan.copy(&plan.template, disk)?;
            at_a_fixed_rate(&plan, arm, paced(&data), |port| {
                *took.lock().unwrap() = seconds_of(|| on_postgres(&data, port, statement));
                Ok(())
            })?
        }
        Snapshot => {
            let plan = data(plan, "redis", redis::template)?;
            redis::beside(&plan, disk, arm, "always", once, &|server| {
                timed(&|| redis::snapshot(server));
            })?
        }
        MariaDb(statement) => {
            let plan = data(plan, "mariadb", mariadb::template)?;
            mariadb::beside(&plan, disk, arm, &[], once, &|server| {
                timed(&|| server.sql(statement).map(drop));
            })?
        }
    };
    let took = took.into_inner().unwrap()?;
    Ok(numbers.into_iter().chain(named([("beside_s", took)])).collect())
}

const HDD: [&str; 3] = ["hdd, as it is", "hdd, split-deadline", "hdd, rcp"];
const FLASH: [&str; 3] = ["flash, as it is", "flash, split-deadline", "flash, rcp"];
const MACHINE: [&str; 3] = ["own disk, as it is", "own disk, split-deadline", "own disk, rcp"];
const BACKGROUND: &str = "hdd, rcp, the account is background";

const fn arm(label: &'static str, device: &'static str) -> Arm {
    Arm::new(label, device, "mq-deadline")
}

/// The largest ratio to what is without a scheduler.
fn worst(seed: &Seed<'_>, arms: [&str; 2], key: &str) -> f64 {
    let ratio = |at: &f64| seed.get(arms[1], *at, key) / seed.get(arms[0], *at, key);
    // Without those that were not measured.
    POINTS.iter().map(ratio).fold(f64::NAN, f64::max)
}

/// What is done, by the points.
const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut at = 0;
    while at < ALL.len() {
        names[at] = ALL[at].0;
        at += 1;
    }
    names
};

pub(super) const FIG_DAY: Figure = Figure {
    id: "files-day",
    title: "Commits beside what administrators do",
    paper: "",
    figure: "Everyday",
    about: "Beside a program that appends and syncs 40 times a second: 0: dd of 800 MB with fsync; 1: tar; 2: rsync. \
        Beside pgbench -N at 40 transactions/s, 8 clients, scale 30, PostgreSQL's own pacing, a checkpoint every 30 s: \
        3: pg_dump to the same disk; 4: VACUUM FREEZE; 5: VACUUM FULL of another table; 6: CREATE INDEX \
        CONCURRENTLY; 7: COPY of 2 million rows; 8: an update of 100,000 rows. 9: beside YCSB A on Redis at 400 \
        requests/s, appendfsync always: BGSAVE. 10: beside 100 updates/s on MariaDB: ALTER TABLE … FORCE.",
    axis: "work beside the commits",
    categories: &NAMES,
    times: [(10, 60, 5), (3, 12, 1)],
    around_s: 12,
    arms: &[
        arm(HDD[0], "hdd"),
        arm(HDD[1], "hdd").io("split-deadline"),
        arm(HDD[2], "hdd").io("rcp"),
        arm(BACKGROUND, "hdd").io("rcp").full_only().options(
            "[[class]]\nname = \"admin\"\nforeground = false\n\
             [[rule]]\naccount = \"dba\"\nclass = \"admin\"\n",
        ),
        arm(FLASH[0], "ssd-b").full_only(),
        arm(FLASH[1], "ssd-b").io("split-deadline").full_only(),
        arm(FLASH[2], "ssd-b").io("rcp").full_only(),
        arm(MACHINE[0], OWN).full_only(),
        arm(MACHINE[1], OWN).io("split-deadline").full_only(),
        arm(MACHINE[2], OWN).io("rcp").full_only(),
    ],
    points: POINTS,
    quick_points: &[0.0],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("split-deadline: no commit waits longer")
            .ours("P99 / that as it is, worst case measured", |seed| {
                worst(seed, [HDD[0], HDD[1]], "p99_ms")
            })
            .at_most(1.1),
        Claim::new("split-deadline: the work beside them does not take longer")
            .ours("seconds / those as it is, worst case measured", |seed| {
                worst(seed, [HDD[0], HDD[1]], "beside_s")
            })
            .at_most(1.3),
        Claim::new("rcp: no commit waits longer")
            .ours("P99 / that as it is, worst case measured", |seed| {
                worst(seed, [HDD[0], HDD[2]], "p99_ms")
            })
            .at_most(1.1),
        Claim::new("rcp: the work beside them does not take longer")
            .ours("seconds / those as it is, worst case measured", |seed| {
                worst(seed, [HDD[0], HDD[2]], "beside_s")
            })
            .at_most(1.3),
        Claim::new("rcp, the account is background: no commit waits longer")
            .ours("P99 / that as it is, worst case measured", |seed| {
                worst(seed, [HDD[0], BACKGROUND], "p99_ms")
            })
            .at_most(1.1),
    ],
    panels: || {
        vec![
            Panel::sweep("hdd: P99 of the commits", "ms").lines(HDD, "p99_ms").tenfold(),
            Panel::sweep("hdd: the work beside them", "s").lines(HDD, "beside_s"),
            Panel::sweep("flash: P99 of the commits", "ms").lines(FLASH, "p99_ms").tenfold(),
            Panel::sweep("own disk: P99 of the commits", "ms").lines(MACHINE, "p99_ms").tenfold(),
        ]
    },
};
