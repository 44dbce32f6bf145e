//! HBase on HDFS as it is, and with `plugins/hbase`: small forms of the dissertation's Figures 4.13
//! to 4.18, the starvation of HBASE-12790, a slow DataNode, bulk load, and what the plug-in costs.
//!
//! A run is a cluster of processes in a network namespace, which `plugins/hbase` starts and loads
//! (`headworks.cluster.Measured`). It prints how busy the named resource and the processors were.

mod collect;
mod files;
mod predicted;

use std::path::Path;

use anyhow::{Context, Result};

use predicted::Predicted;

use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::record::Record;
use crate::sweep::{self, Claim, Presentation};

const STOCK: &str = "stock";
const ONE_QUEUE: &str = "stock, one queue";
const OURS: &str = "ours";
const QUOTAS: &str = "stock, quotas";
/// HBase's switch that lets users exceed their limits while the server's limit is not reached.
const EXCEEDED: &str = "stock, quotas to exceed";
const WITHOUT: &str = "ours, without attempts";
const LOGS: &str = "stock, a log for each";
const TEN: &str = "ours, 10 outstanding";
const THIRTY: &str = "ours, 30 outstanding";
const RIVALS: [&str; 4] = [STOCK, ONE_QUEUE, QUOTAS, OURS];

/// One experiment of the family.
#[derive(Debug)]
pub(crate) struct Figure {
    id: &'static str,
    figure: &'static str,
    /// `CLASS#METHOD` of `headworks.cluster`.
    method: &'static str,
    arms: &'static [&'static str],
    points: &'static [f64],
    sweep: &'static str,
    /// Seconds of a full run's windows.
    window_s: u64,
    about: &'static str,
    claims: &'static [Claim],
    panels: fn() -> Vec<Panel>,
    /// Clients as keys of numbers name them, each by its user, or by its user and what it does.
    clients: &'static [&'static str],
    /// What the simulator says, where the dissertation has the figure.
    predicted: Option<Predicted>,
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        let experiment = EXPERIMENTS.iter().find(|known| known.id == self.id);
        let experiment = experiment.context("an experiment without an entry")?;
        let mut record = collect::collect(self, experiment, options)?;
        if let Some(predicted) = &self.predicted {
            predicted.add(&mut record, if options.quick { 10 } else { 30 })?;
        }
        Ok(record)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let mut record = sweep::read(directory, self.id)?;
        let mut panels = (self.panels)();
        if let Some(predicted) = &self.predicted {
            predicted.compare(&mut record);
            panels.push(predicted.panel(self.points));
        }
        let mut columns = columns(self.clients);
        columns.extend(
            self.predicted
                .iter()
                .map(Predicted::column)
                .map(|(head, key)| (head.to_owned(), key.to_owned())),
        );
        let columns: Vec<(&str, &str)> =
            columns.iter().map(|(head, key)| (head.as_str(), key.as_str())).collect();
        let show = Presentation {
            id: self.id,
            figure: self.figure,
            about: self.about,
            sweep_label: self.sweep,
            caption: format!("windows of {} s", record.counted_s),
            claims: self.claims,
            panels,
            columns: &columns,
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}

/// What is told of each client: heads of a table, and keys. Errors and retries are a user's.
fn columns(clients: &[&str]) -> Vec<(String, String)> {
    let mut columns: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, head: &str, key: &str| {
        let column = (format!("{}, {head}", name.replace('_', " ")), format!("{name}_{key}"));
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    for client in clients {
        add(client, "1/s", "per_s");
        add(client, "P99 in ms", "p99_ms");
    }
    for client in clients {
        let user = client.split('_').next().unwrap_or(client);
        add(user, "errors", "errors");
        add(user, "retries", "retries");
    }
    columns
}

const NEEDS: &[&str] = &["default-jdk-headless", "maven", "iproute2", "make setup-java"];

const fn experiment(
    id: &'static str,
    title: &'static str,
    figure: &'static str,
    (expected_s, expected_quick_s): (u64, u64),
    bench: &'static Figure,
) -> Experiment {
    Experiment {
        id,
        title,
        paper: "Split and Maat",
        figure,
        expected_s,
        expected_quick_s,
        needs: NEEDS,
        bench,
    }
}

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    NEIGHBOURS,
    files::NO_SCHEDULING,
    files::ATTEMPTS,
    files::NETWORK,
    files::BLOCKING,
    files::ORDERING,
    WEIGHTS,
    files::SLOW_DATANODE,
    files::BULK_LOAD,
    COST,
];

/// How far what requests wait for is used, and the processors are not: the smaller margin.
fn margin(used: f64, processors: f64) -> f64 {
    (used / 0.9).min(0.7 / processors)
}

/// The ratio of a figure at one point of an arm to that at another.
fn ratio(seed: &Seed<'_>, arm: &'static str, key: &str, (at, to): (f64, f64)) -> f64 {
    seed.get(arm, at, key) / seed.get(arm, to, key)
}

const NEIGHBOURS: Experiment = experiment(
    "hbase-neighbours",
    "100 parallel scans of one client beside one scan and ten gets a second of another (HBASE-12790)",
    "not in the dissertation",
    (1_500, 300),
    &NEIGHBOURS_FIGURE,
);
const WEIGHTS: Experiment = experiment(
    "hbase-4.18",
    "five clients of an HBase with weights from one to five",
    "Figure 4.18",
    (700, 200),
    &WEIGHTS_FIGURE,
);
const COST: Experiment = experiment(
    "hbase-cost",
    "what the plug-in of HBase costs one client",
    "not in the dissertation",
    (900, 200),
    &COST_FIGURE,
);

/// A small client's get waits for one of ten handlers that each have 20 ms of work.
const BUSY: Claim = Claim::new("the handlers are what calls wait for")
    .ours(
        "part of the handlers that work, and of the time in which processors do: the worse margin",
        |seed| margin(seed.get(OURS, 100.0, "handlers_busy"), seed.get(OURS, 100.0, "cpu_busy")),
    )
    .at_least(1.0)
    .note("handlers at 90 % at least, processors at 70 % at most");

static NEIGHBOURS_FIGURE: Figure = Figure {
    id: "hbase-neighbours",
    figure: "not in the dissertation",
    method: "Bench#neighbours",
    arms: &RIVALS,
    points: &[0.0, 100.0],
    sweep: "scans of the large client",
    window_s: 20,
    about: "Each row takes a handler 20 ms, by a filter that sleeps: handlers are what calls wait for, and processors are not.",
    claims: &[
        BUSY,
        Claim::new("a small client's gets are hardly slower beside a hundred scans")
            .ours("p99 of its gets beside them / alone", |seed| {
                ratio(seed, OURS, "few_p99_ms", (100.0, 0.0))
            })
            .at_most(2.0),
        Claim::new("and its scan goes on")
            .ours("rows a second beside them / alone", |seed| {
                ratio(seed, OURS, "few_per_s", (100.0, 0.0))
            })
            .at_least(0.45)
            .note("a scan that waits for one handler's rest of work before each row has half of what it has alone"),
        Claim::new("HBase as it is starves it")
            .ours("p99 of its gets beside them / alone, the better of one queue and three", |seed| {
                [STOCK, ONE_QUEUE].map(|arm| ratio(seed, arm, "few_p99_ms", (100.0, 0.0))).into_iter().fold(f64::INFINITY, f64::min)
            })
            .at_least(3.0),
    ],
    panels: || {
        vec![
            Panel::sweep("P99 of the small client's gets", "ms").lines(RIVALS, "few_p99_ms"),
            Panel::sweep("Rows of the small client's scan", "1/s").lines(RIVALS, "few_per_s"),
            Panel::sweep("Rows of the large client", "1/s").lines(RIVALS, "many_per_s"),
            Panel::sweep("Handlers that work", "").lines(RIVALS, "handlers_busy"),
            Panel::sweep("Processors", "").lines(RIVALS, "cpu_busy"),
        ]
    },
    clients: &["few", "many"],
    predicted: None,
};

/// Per cent of updates in YCSB's core workloads C and A.
const READS: f64 = 0.0;
const UPDATES: f64 = 50.0;

/// The larger of a figure with workload C and with A.
fn worse(of: impl Fn(f64) -> f64) -> f64 {
    of(READS).max(of(UPDATES))
}

/// Largest distance of a client's part from its weight.
fn distance(seed: &Seed<'_>, arm: &'static str, at: f64) -> f64 {
    let got: Vec<f64> =
        (1..=5).map(|client| seed.get(arm, at, &format!("c{client}_per_s"))).collect();
    let all: f64 = got.iter().sum();
    let off =
        got.iter().enumerate().map(|(at, got)| (got / all / ((at + 1) as f64 / 15.0) - 1.0).abs());
    off.fold(0.0, f64::max)
}

/// Smallest throughput by weight / largest.
fn evenness(seed: &Seed<'_>, arm: &str, at: f64) -> f64 {
    let by_weight =
        |client: u32| seed.get(arm, at, &format!("c{client}_per_s")) / f64::from(client);
    let all = (1..=5).map(by_weight);
    let (least, most) =
        all.fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    least / most
}

static WEIGHTS_FIGURE: Figure = Figure {
    id: "hbase-4.18",
    figure: "Figure 4.18",
    method: "Bench#weights",
    arms: &[STOCK, QUOTAS, OURS],
    points: &[READS, UPDATES],
    sweep: "updates, %",
    window_s: 60,
    about: "Five clients with 16 threads each send YCSB's core workloads C (reads) and A (half of them updates) to ten handlers. A \
            filter lets each read take a handler 20 ms.",
    claims: &[
        Claim::new("the handlers are what calls wait for")
            .ours("part of the handlers that work, and of the time in which processors do: the worse margin", |seed| {
                [READS, UPDATES]
                    .map(|at| margin(seed.get(OURS, at, "handlers_busy"), seed.get(OURS, at, "cpu_busy")))
                    .into_iter()
                    .fold(f64::INFINITY, f64::min)
            })
            .at_least(1.0)
            .note("handlers at 90 % at least, processors at 70 % at most"),
        Claim::new("shares follow weights")
            .paper("as desired")
            .ours("largest distance of a client's part from its weight", |seed| {
                worse(|at| distance(seed, OURS, at))
            })
            .at_most(0.03),
        Claim::new("in any second, too")
            .ours("largest distance of a client's part of a second from its weight", |seed| {
                worse(|at| seed.get(OURS, at, "worst_second"))
            })
            .at_most(0.1)
            .note("the client of weight 1 has 33 reads a second: one more or less is 3 %"),
        Claim::new("normalised shares are even")
            .ours("smallest share by weight / largest", |seed| {
                [READS, UPDATES].map(|at| evenness(seed, OURS, at)).into_iter().fold(f64::INFINITY, f64::min)
            })
            .at_least(0.97)
            .note("Pisces reports 0.99"),
        Claim::new("HBase as it is gives each the same")
            .paper("approximately equal throughput to each")
            .ours("throughput of the client of weight 5 / of weight 1", |seed| {
                seed.get(STOCK, READS, "c5_per_s") / seed.get(STOCK, READS, "c1_per_s")
            })
            .between(0.9, 1.1),
    ],
    panels: || {
        let panel = |title: &str, at: f64| {
            [STOCK, QUOTAS, OURS].into_iter().fold(Panel::bars(title, "1/s"), |panel, arm| {
                (1..=5).fold(panel, |panel, client| {
                    panel.bar(arm, &format!("weight {client}"), arm, at, &format!("c{client}_per_s"))
                })
            })
        };
        vec![panel("Reads of each client", READS), panel("Reads and updates of each", UPDATES)]
    },
    clients: &["c1", "c2", "c3", "c4", "c5"],
    predicted: Some(predicted::WEIGHTS),
};

/// What clients do in `hbase-cost`, by the names of its figures.
const LOADS: [(&str, &str); 3] = [("ycsb_a", "YCSB A"), ("ycsb_c", "YCSB C"), ("puts", "puts")];

const fn cost(statement: &'static str, bound: f64, ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new(statement)
        .ours(
            "smallest ratio of requests a second to a stock region server's: YCSB A, YCSB C, puts",
            ours,
        )
        .at_least(bound)
        .note(
            "32 threads, windows of 1.5 s at four region servers of one cluster in random order, medians",
        )
}

fn smallest(seed: &Seed<'_>, state: &str) -> f64 {
    LOADS
        .map(|(load, _)| seed.get(OURS, 0.0, &format!("{state}_{load}_ratio")))
        .into_iter()
        .fold(f64::INFINITY, f64::min)
}

static COST_FIGURE: Figure = Figure {
    id: "hbase-cost",
    figure: "not in the dissertation",
    method: "Bench#cost",
    arms: &[OURS],
    points: &[0.0],
    sweep: "",
    // Rounds of windows.
    window_s: 40,
    about: "One client with 32 threads at two stock region servers, at one with plug-in and agent, and at one where these are \
            switched off, in random order. YCSB's core workloads A and C on 1,000 records, and puts of 1 kB. What the two stock \
            servers differ by is how exact the rest is.",
    claims: &[
        cost("switched off, the plug-in costs nothing", 0.99, |seed| {
            smallest(seed, "switched_off")
        }),
        cost("with one tenant it costs little", 0.97, |seed| smallest(seed, "one_tenant")),
    ],
    panels: || {
        let bars = |state: &'static str, label: &'static str, panel: Panel| {
            LOADS.iter().fold(panel, |panel, (load, title)| {
                panel.bar(label, title, OURS, 0.0, &format!("{state}_{load}_ratio"))
            })
        };
        let panel =
            bars("switched_off", "switched off", Panel::bars("Requests a second / stock", ""));
        let panel = bars("one_tenant", "one tenant", panel);
        vec![bars("stock_again", "a second stock server", panel)]
    },
    clients: &[],
    predicted: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point, Run};

    fn arm(name: &str, clients: [f64; 5]) -> ArmRecord {
        let mut run = Run::default();
        for (at, per_s) in clients.into_iter().enumerate() {
            run.numbers.insert(format!("c{}_per_s", at + 1), per_s);
        }
        run.numbers.extend([("handlers_busy".to_owned(), 1.0), ("cpu_busy".to_owned(), 0.5)]);
        let point = |at| Point { at, runs: vec![run.clone()] };
        let points = vec![point(READS), point(UPDATES)];
        ArmRecord { arm: name.to_owned(), setup: Default::default(), points }
    }

    #[test]
    fn errors_and_retries_are_told_once_for_each_user() {
        let keys: Vec<String> =
            columns(&["c1_cold", "c2_cold", "c2_cached"]).into_iter().map(|(_, key)| key).collect();
        let rates = ["c1_cold", "c2_cold", "c2_cached"]
            .map(|client| [format!("{client}_per_s"), format!("{client}_p99_ms")]);
        let users = ["c1", "c2"].map(|user| [format!("{user}_errors"), format!("{user}_retries")]);
        assert_eq!(keys, [rates.concat(), users.concat()].concat());
    }

    #[test]
    fn weights_are_judged_both_ways() {
        let stock = arm(STOCK, [100.0; 5]);
        for (ours, holds) in [
            ([100.0, 200.0, 300.0, 400.0, 500.0], true),
            ([110.0, 190.0, 300.0, 400.0, 500.0], false),
        ] {
            let record = Record::of(vec![stock.clone(), arm(OURS, ours)]);
            let verdicts = crate::sweep::analyse::verdicts(WEIGHTS_FIGURE.claims, "round", &record);
            assert_eq!(verdicts[1].holds, holds, "{verdicts:?}");
            assert_eq!(verdicts[3].holds, holds, "{verdicts:?}");
            assert!(verdicts[0].holds && verdicts[4].holds, "{verdicts:?}");
        }
    }
}
