//! What a scheduler of files costs databases that do nothing in the background.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::{mariadb, postgres};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::Result;
use headworks_workload::sysbench::Oltp;
use std::fs;
use std::path::{Path, PathBuf};

/// The axis: server and load.
const POSTGRES_READS: f64 = 0.0;
const POSTGRES_WRITES: f64 = 1.0;
const MARIADB_READS: f64 = 2.0;
const MARIADB_WRITES: f64 = 3.0;
const LOADS: &[f64] = &[POSTGRES_READS, POSTGRES_WRITES, MARIADB_READS, MARIADB_WRITES];

fn template(work: &Path) -> Result<PathBuf> {
    for (name, make) in
        [("postgres", postgres::template as fn(&Path) -> _), ("mariadb", mariadb::template)]
    {
        fs::create_dir_all(work.join(name))?;
        make(&work.join(name))?;
    }
    Ok(work.to_owned())
}

fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let server = if at < MARIADB_READS { "postgres" } else { "mariadb" };
    let data = plan.copy(&plan.template.join(server).join("template"), disk)?;
    let per_s = match at {
        POSTGRES_READS => postgres::closed_loop(plan, arm, postgres::quiet(&data), "select-only")?,
        POSTGRES_WRITES => {
            postgres::closed_loop(plan, arm, postgres::quiet(&data), "simple-update")?
        }
        MARIADB_READS => mariadb::closed_loop(plan, arm, &data, Oltp::PointSelect)?,
        _ => mariadb::closed_loop(plan, arm, &data, Oltp::UpdateNonIndex)?,
    };
    Ok(named([("per_s", per_s)]))
}

const PLAIN: &str = "as it is";
const OBSERVED: &str = "the gate only observes";
const RCP: &str = "rcp";
const DEADLINE: &str = "split-deadline";

fn least(seed: &Seed<'_>, arm: &str, against: &str) -> f64 {
    let part = |at: &f64| seed.get(arm, *at, "per_s") / seed.get(against, *at, "per_s");
    LOADS.iter().map(part).fold(f64::INFINITY, f64::min)
}

pub(super) const FIG_COST: Figure = Figure {
    id: "rcp-cost",
    title: "What scheduling files costs while nothing goes on in the background",
    paper: "RCP",
    figure: "none: the cost of its section 4",
    about: "8 users in a closed loop; a volume in memory without a model of a device. 0: pgbench select-only; 1: \
        simple-update; 2: MariaDB, point selects; 3: updates of single rows. No checkpoint in the window.",
    axis: "load",
    times: [(3, 20, 9), (2, 8, 3)],
    around_s: 12,
    arms: &[
        Arm::new(PLAIN, "raw", "none"),
        Arm::new(OBSERVED, "raw", "none").io("noop"),
        Arm::new(RCP, "raw", "none").io("rcp"),
        Arm::new(DEADLINE, "raw", "none").io("split-deadline"),
    ],
    points: LOADS,
    quick_points: LOADS,
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("rcp costs next to nothing")
            .paper("not given")
            .ours("least requests/s / those with the gate only", |seed| least(seed, RCP, OBSERVED))
            .at_least(0.98),
        Claim::new("split-deadline costs next to nothing")
            .paper("not given")
            .ours("least requests/s / those with the gate only", |seed| {
                least(seed, DEADLINE, OBSERVED)
            })
            .at_least(0.98),
        Claim::new("all of it costs little")
            .paper("not given")
            .ours("least requests/s / those without headworks", |seed| least(seed, RCP, PLAIN))
            .at_least(0.95),
    ],
    panels: || {
        vec![
            Panel::sweep("Throughput", "requests/s")
                .logarithmic()
                .lines([PLAIN, OBSERVED, RCP, DEADLINE], "per_s"),
        ]
    },
};
