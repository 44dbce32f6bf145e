//! What administrators do beside the clients of a PostgreSQL, with and without a scheduler.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::postgres::{at_a_fixed_rate, client, paced, template};
use crate::running;
use crate::sweep::found::largest;
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::{Result, ensure};
use headworks_rig::SUPERUSER;
use std::time::Instant;

/// The account of who does it.
const ACCOUNT: &str = "dba";

/// The axis: what is done. The whole table has 3 million rows.
const NOTHING: f64 = 0.0;
const DUMP: f64 = 1.0;
const VACUUM: f64 = 2.0;
const INDEX: f64 = 3.0;
const IMPORT: f64 = 4.0;
const UPDATE: f64 = 5.0;
const BESIDE: &[f64] = &[DUMP, VACUUM, INDEX, IMPORT, UPDATE];
const ALL: &[f64] = &[NOTHING, DUMP, VACUUM, INDEX, IMPORT, UPDATE];

/// The statement of everything but a dump. The update locks rows that clients update, too.
fn statement(at: f64) -> &'static str {
    match at {
        VACUUM => "VACUUM (FREEZE) pgbench_accounts",
        INDEX => "CREATE INDEX CONCURRENTLY ON pgbench_accounts (abalance, aid)",
        IMPORT => {
            "CREATE TABLE import AS SELECT n, md5(n::text) FROM generate_series(1, 1000000) AS n"
        }
        _ => "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 30 = 0",
    }
}

fn work(port: u16, at: f64) -> Result<()> {
    let mut command = if at == DUMP {
        let mut dump = client("pg_dump", ACCOUNT, port)?;
        dump.args(["-Fp", "-f", "/dev/null"]);
        dump
    } else {
        let mut psql = client("psql", ACCOUNT, port)?;
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement(at)]);
        psql
    };
    let output = running::output(&mut command)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// One run: the clients' latencies, and the seconds that the work beside them took.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let data = plan.copy(&plan.template, disk)?;
    let mut took_s = 0.0;
    let numbers = at_a_fixed_rate(plan, arm, paced(&data), |port| {
        let role = format!("CREATE ROLE {ACCOUNT} SUPERUSER LOGIN");
        let made = client("psql", SUPERUSER, port)?.args(["-X", "-q", "-c", &role]).status()?;
        ensure!(made.success(), "cannot make the account {ACCOUNT}");
        if at != NOTHING {
            let begun = Instant::now();
            work(port, at)?;
            took_s = begun.elapsed().as_secs_f64();
        }
        Ok(())
    })?;
    Ok(numbers.into_iter().chain(named([("beside_s", took_s)])).collect())
}

const AS_IT_IS: &str = "mq-deadline";
const DEADLINE: &str = "split-deadline";
const RCP: &str = "rcp";
const BACKGROUND: &str = "rcp, the account is background";

/// The largest ratio to what is without a scheduler, over all points.
fn worst(seed: &Seed<'_>, arm: &str, points: &[f64], key: &str) -> f64 {
    let ratio = |at: &f64| seed.get(arm, *at, key) / seed.get(AS_IT_IS, *at, key);
    points.iter().map(ratio).fold(0.0, largest)
}

pub(super) const FIG_DAY: Figure = Figure {
    id: "files-day",
    title: "PostgreSQL's clients beside what administrators do",
    paper: "",
    figure: "Everyday",
    about: "pgbench -N at 40 transactions/s, 8 clients, scale 30; PostgreSQL's own pacing, a checkpoint every 30 s; a \
        disk, writeback throttle off. Beside it 0: nothing; 1: pg_dump; 2: VACUUM FREEZE; 3: CREATE INDEX \
        CONCURRENTLY; 4: a million new rows; 5: an update of 100,000 rows in one transaction.",
    axis: "work beside the clients",
    times: [(10, 60, 5), (4, 8, 1)],
    around_s: 16,
    arms: &[
        Arm::new(AS_IT_IS, "hdd", "mq-deadline"),
        Arm::new(DEADLINE, "hdd", "mq-deadline").io("split-deadline"),
        Arm::new(RCP, "hdd", "mq-deadline").io("rcp"),
        Arm::new(BACKGROUND, "hdd", "mq-deadline").io("rcp").options(
            "[[class]]\nname = \"admin\"\nforeground = false\n\
             [[rule]]\naccount = \"dba\"\nclass = \"admin\"\n",
        ),
    ],
    points: ALL,
    quick_points: &[DUMP],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("rcp: no client waits longer")
            .ours("P99 / that under mq-deadline, worst case", |seed| {
                worst(seed, RCP, ALL, "p99_ms")
            })
            .at_most(1.1),
        Claim::new("rcp: the work beside them does not take longer")
            .ours("seconds / those under mq-deadline, worst case", |seed| {
                worst(seed, RCP, BESIDE, "beside_s")
            })
            .at_most(1.25),
        Claim::new("rcp, the account is background: no client waits longer")
            .ours("P99 / that under mq-deadline, worst case", |seed| {
                worst(seed, BACKGROUND, ALL, "p99_ms")
            })
            .at_most(1.1),
        Claim::new("split-deadline: no client waits longer")
            .ours("P99 / that under mq-deadline, worst case", |seed| {
                worst(seed, DEADLINE, ALL, "p99_ms")
            })
            .at_most(1.1),
        Claim::new("split-deadline: the work beside them does not take longer")
            .ours("seconds / those under mq-deadline, worst case", |seed| {
                worst(seed, DEADLINE, BESIDE, "beside_s")
            })
            .at_most(1.25),
    ],
    panels: || {
        let arms = [AS_IT_IS, DEADLINE, RCP, BACKGROUND];
        vec![
            Panel::sweep("Clients: P99", "ms").lines(arms, "p99_ms"),
            Panel::sweep("Clients: longest", "ms").lines(arms, "max_ms"),
            Panel::sweep("The work beside them", "s").lines(arms, "beside_s"),
        ]
    },
};
