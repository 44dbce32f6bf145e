//! What a scheduler of files costs databases that do nothing in the background.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::{mariadb, postgres};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::{Context, Result};
use headworks_policy::metrics::median;
use headworks_rig::{Builder, Kind, Process};
use headworks_workload::sysbench::Oltp;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Length of a window.
const WINDOW_S: u64 = 2;

/// Windows on two servers in turn, after one on each that is not counted. Returns the ratios of the
/// second one's rates to those of the first.
fn in_turn<S>(
    pairs: u64,
    servers: &[S; 2],
    mut per_s: impl FnMut(&S) -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut ratios = Vec::new();
    for pair in 0..=pairs {
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut rates = [0.0; 2];
        for at in order {
            rates[at] = per_s(&servers[at])?;
        }
        if pair > 0 {
            ratios.push(rates[1] / rates[0]);
        }
    }
    Ok(ratios)
}

/// Two servers side by side, the first one as [`BESIDE`] says.
fn side_by_side<K: Kind>(
    plan: &Plan<'_>,
    disk: &Disk,
    arm: &Arm,
    template: &str,
    builder: impl Fn(&Path) -> Builder<K>,
    per_s: impl FnMut(&Process<K>) -> Result<f64>,
) -> Result<Numbers> {
    let template = plan.template.join(template).join("template");
    let start = |arm: &Arm, name: &str| -> Result<_> {
        let data = disk.copy(&template, name)?;
        let (builder, gate) = plan.behind(arm, builder(&data))?;
        let server = builder.start_deadline(Duration::from_secs(180)).start()?;
        server.ensure_gated(gate.is_some())?;
        Ok((server, gate))
    };
    let ((first, _gate), (second, _other)) = (start(&BESIDE, "first")?, start(arm, "second")?);
    let mut servers = [first, second];
    let ratios = in_turn(plan.window_s / WINDOW_S / 2, &servers, per_s)?;
    for server in &mut servers {
        server.stop(Duration::from_secs(120))?;
    }
    Ok(named([("ratio", median(&ratios).context("no pair of windows")?)]))
}

fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    if at < MARIADB_READS {
        let script = if at == POSTGRES_READS { "select-only" } else { "simple-update" };
        side_by_side(plan, disk, arm, "postgres", postgres::quiet, |server| {
            postgres::closed_loop(server, script, WINDOW_S)
        })
    } else {
        let load = if at == MARIADB_READS { Oltp::PointSelect } else { Oltp::UpdateNonIndex };
        side_by_side(plan, disk, arm, "mariadb", mariadb::builder, |server| {
            mariadb::closed_loop(server, load, WINDOW_S)
        })
    }
}

const NOTHING: &str = "without a scheduler";
const RCP: &str = "rcp";
const DEADLINE: &str = "split-deadline";

/// The server beside each arm: its gate observes, as the arms' gates do.
const BESIDE: Arm = Arm::new(NOTHING, "raw", "none").io("noop");

/// The least median over the loads.
fn least(seed: &Seed<'_>, arm: &str) -> f64 {
    LOADS.iter().map(|at| seed.get(arm, *at, "ratio")).fold(f64::INFINITY, f64::min)
}

pub(super) const FIG_COST: Figure = Figure {
    id: "rcp-cost",
    title: "What scheduling files costs while nothing goes on in the background",
    paper: "RCP",
    figure: "none: the cost of its section 4",
    about: "Two servers side by side, one with a gate that observes, the other with a scheduler of files, too, have \
        8 users in a closed loop in turn, for 2 s at a time. Median of the pairs. A volume in memory without a model \
        of a device. 0: pgbench select-only; 1: simple-update; 2: MariaDB, point selects; 3: updates of single rows. \
        No checkpoint in the window.",
    axis: "load",
    categories: &["PostgreSQL reads", "updates", "MariaDB reads", "updates "],
    times: [(0, 160, 3), (0, 15, 1)],
    around_s: 15,
    arms: &[
        Arm::new(NOTHING, "raw", "none").io("noop"),
        Arm::new(RCP, "raw", "none").io("rcp"),
        Arm::new(DEADLINE, "raw", "none").io("split-deadline").full_only(),
    ],
    points: LOADS,
    quick_points: &[POSTGRES_READS, MARIADB_WRITES],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("rcp costs next to nothing")
            .paper("not given")
            .ours("least requests/s / those beside it without", |seed| least(seed, RCP))
            .at_least(0.98),
        Claim::new("split-deadline costs next to nothing")
            .paper("not given")
            .ours("least requests/s / those beside it without", |seed| least(seed, DEADLINE))
            .at_least(0.98),
    ],
    panels: || {
        let arms = [NOTHING, RCP, DEADLINE];
        vec![Panel::sweep("Throughput, of that without a scheduler", "ratio").lines(arms, "ratio")]
    },
};
