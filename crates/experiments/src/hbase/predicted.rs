//! What the simulator of thread architectures predicts for an experiment: the dissertation's HBase
//! (`crates/tad/systems/hbase.toml`) with the threads and rates of the experiment's cluster, and
//! the same clients. Absolute numbers are those of the file. What is compared is relative, and
//! calculated in the same way from what was measured and what was simulated.

use anyhow::{Context, Result, anyhow};
use headworks_tad::model::{
    Consumption, Device, Discipline, Quantity, Resource, ResourceKind, Tad, UNLIMITED,
};
use headworks_tad::remedy::{Remedy, apply};
use headworks_tad::{file, sim};

use super::{LOGS, OURS, STOCK, TEN, THIRTY, WITHOUT, evenness};
use crate::interrupt;
use crate::sweep::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::record::{ArmRecord, Point, Record, Run};
use crate::tad::{measure, system};

/// The key of what is compared.
const KEY: &str = "relative";

/// Simulated time before what counts: weights are corrected once a second.
const WARM_UP_S: u64 = 15;

/// Remedies as the plug-in has them, for the five problems in turn: a queue at each stage, no
/// speculation, a shared scheduler, shared handlers, all writes in one log.
const MAAT: &str = "d|?|di|i2|?";
const AS_IT_IS: &str = "?|?|?|?|?";

/// How an experiment is simulated.
#[derive(Debug)]
pub(super) struct Predicted {
    /// What is compared, for people.
    title: &'static str,
    /// It, of an arm at a point.
    relative: fn(&Seed<'_>, &str, f64) -> f64,
    /// The clients at a point, as the file of a scenario has them.
    clients: fn(f64) -> String,
    /// Makes the system that of the experiment's cluster.
    cluster: fn(&mut Tad, &str) -> Result<()>,
    arms: &'static [Simulated],
}

/// An arm: what it is called if it is measured and if it is simulated, and its remedies.
#[derive(Debug)]
struct Simulated {
    measured: &'static str,
    label: &'static str,
    maat: &'static str,
}

const SIMULATED_STOCK: Simulated =
    Simulated { measured: STOCK, label: "simulated: stock", maat: AS_IT_IS };
const SIMULATED_OURS: Simulated =
    Simulated { measured: OURS, label: "simulated: ours", maat: MAAT };
const SIMULATED_TRIES: Simulated =
    Simulated { measured: OURS, label: "simulated: ours", maat: "d|i|di|i2|?" };
const SIMULATED_WITHOUT: Simulated =
    Simulated { measured: WITHOUT, label: "simulated: ours, without attempts", maat: MAAT };

/// C1's requests a second at a point / at the first one.
fn kept(seed: &Seed<'_>, arm: &str, at: f64) -> f64 {
    let first = seed.all(arm, "c1_per_s").first().copied().unwrap_or(f64::NAN);
    seed.get(arm, at, "c1_per_s") / first
}

const KEPT: &str = "C1: requests a second / at the first point";

pub(super) const NO_SCHEDULING: Predicted = Predicted {
    title: KEPT,
    relative: kept,
    clients: |threads| {
        let client = |name, threads| {
            format!(
                "{{ name = \"{name}\", load = [{{ request = \"get\", threads = {threads} }}] }}"
            )
        };
        format!("client = [{}, {}]", client("C1", 40.0), client("C2", threads))
    },
    cluster: |tad, _| with(tad, 10, &[("io", 10e6)]),
    arms: &[SIMULATED_STOCK, SIMULATED_OURS],
};

pub(super) const ATTEMPTS: Predicted = Predicted {
    title: "C2: gets from the cache for one of its gets from files",
    relative: |seed, arm, at| {
        seed.get(arm, at, "c2_cached_per_s") / seed.get(arm, at, "c2_cold_per_s")
    },
    clients: |threads| {
        // What a handler is held for is not known before. Who reads then does not matter.
        let cold = |threads| {
            format!(
                "{{ request = \"get-short-circuit\", name = \"cold\", threads = {threads}, parameters = {{ io = \"60 KB\" }} }}"
            )
        };
        format!(
            "client = [{{ name = \"C1\", load = [{}] }}, {{ name = \"C2\", load = [{}, {{ request = \"get-cached\", \
             name = \"cached\", threads = 4 }}] }}]",
            cold(threads),
            cold(16.0)
        )
    },
    cluster: |tad, _| with(tad, 10, &[("io", 10e6)]),
    // As in the dissertation's own figure: a shared scheduler would count handlers that read.
    arms: &[
        SIMULATED_STOCK,
        Simulated { maat: "d|?|?|?|?", ..SIMULATED_WITHOUT },
        Simulated { maat: "d|i|?|?|?", ..SIMULATED_TRIES },
    ],
};

pub(super) const NETWORK: Predicted = Predicted {
    title: KEPT,
    relative: kept,
    clients: |kb| {
        let client = |name, kb| {
            format!(
                "{{ name = \"{name}\", load = [{{ request = \"get-cached\", threads = 16, parameters = {{ reply = \"{kb} KB\" }} }}] }}"
            )
        };
        format!("client = [{}, {}]", client("C1", 20.0), client("C2", kb))
    },
    // 100 Mbit/s.
    cluster: |tad, _| with(tad, 10, &[("network", 12.5e6)]),
    arms: &[SIMULATED_STOCK, SIMULATED_OURS],
};

pub(super) const BLOCKING: Predicted = Predicted {
    title: KEPT,
    relative: kept,
    clients: |files| {
        let paced = "{ request = \"get-cached\", threads = 16, think = \"10 ms\" }";
        let cold = "{ request = \"get\", threads = 40, parameters = { io = \"60 KB\" } }";
        let second = if files > 0.0 { cold } else { paced };
        format!(
            "client = [{{ name = \"C1\", load = [{paced}] }}, {{ name = \"C2\", load = [{second}] }}]"
        )
    },
    cluster: |tad, _| with(tad, 10, &[("io", 10e6)]),
    arms: &[SIMULATED_STOCK, SIMULATED_WITHOUT, SIMULATED_TRIES],
};

pub(super) const ORDERING: Predicted = Predicted {
    title: KEPT,
    relative: kept,
    clients: |threads| {
        let client = |name, threads| {
            format!(
                "{{ name = \"{name}\", load = [{{ request = \"put\", threads = {threads} }}] }}"
            )
        };
        format!("client = [{}, {}]", client("C1", 80.0), client("C2", threads))
    },
    cluster: |tad, arm| {
        // What may be outstanding below the log is what handlers wait for there.
        let handlers = match arm {
            TEN => 10,
            THIRTY => 30,
            _ => 100,
        };
        with(tad, handlers, &[("io", 1e6)])?;
        // The cluster has one DataNode, and so one copy.
        for step in tad.requests.iter_mut().flat_map(|request| &mut request.steps) {
            if step.name == "xceive-2" {
                step.uses.clear();
            }
        }
        Ok(())
    },
    arms: &[
        SIMULATED_STOCK,
        Simulated { measured: LOGS, label: "simulated: a log for each", maat: "?|?|?|?|d" },
        Simulated { measured: TEN, label: "simulated: 10 outstanding", maat: MAAT },
        Simulated { measured: THIRTY, label: "simulated: 30 outstanding", maat: MAAT },
    ],
};

pub(super) const WEIGHTS: Predicted = Predicted {
    title: "smallest share by weight / largest",
    relative: evenness,
    clients: |updates| {
        let load = "{ request = \"get-cached\", threads = 16 }";
        let part = format!(", {{ request = \"put\", part = {} }}", updates / 100.0);
        let more = if updates > 0.0 { part.as_str() } else { "" };
        let client = |weight: usize| {
            format!("{{ name = \"C{weight}\", weight = {weight}, load = [{load}{more}] }}")
        };
        format!("client = [{}]", (1..=5).map(client).collect::<Vec<_>>().join(", "))
    },
    cluster: |tad, _| {
        with(tad, 10, &[])?;
        pause(tad, "get-cached", 20_000_000)
    },
    // Only handlers are scarce.
    arms: &[SIMULATED_STOCK, Simulated { maat: "d|?|?|i2|?", ..SIMULATED_OURS }],
};

/// One node of two processors, with so many handlers and these rates.
fn with(tad: &mut Tad, handlers: u32, rates: &[(&str, f64)]) -> Result<()> {
    let slave = tad.nodes.iter().position(|node| node.name == "slave").context("no slave node")?;
    tad.nodes[slave].count = 1;
    for &(name, rate_per_s) in rates {
        let resource = tad.resource(slave, name).with_context(|| format!("no {name}"))?;
        tad.resources[resource].rate_per_s = rate_per_s;
    }
    let cpu = tad.resource(slave, "cpu").context("no CPU")?;
    tad.resources[cpu].parallelism = 2;
    Ok(apply(tad, &Remedy::SetThreads { stage: "rpc-handle".into(), threads: handlers })?)
}

/// Handlers sleep in each request of this kind.
fn pause(tad: &mut Tad, request: &str, ns: u64) -> Result<()> {
    let handle = tad.stage("rpc-handle").context("no handlers")?;
    let resource = tad.resources.len();
    tad.resources.push(Resource {
        name: "pause".to_owned(),
        title: "pause".to_owned(),
        kind: ResourceKind::Delay,
        node: tad.node_of(handle),
        rate_per_s: 1e9,
        parallelism: UNLIMITED,
        discipline: Discipline::Fifo,
        device: Device::Plain,
    });
    let request = tad.request(request).context("no such request")?;
    let steps = tad.requests[request].steps.iter_mut().filter(|step| step.stage == handle);
    for step in steps {
        step.uses.push(Consumption { resource, amount: Quantity::Fixed(ns) });
    }
    Ok(())
}

impl Predicted {
    /// Simulates each arm that was measured, at its points, once for each round.
    pub(super) fn add(&self, record: &mut Record, counted_s: u64) -> Result<()> {
        let measured = |arm: &&Simulated| record.arms.iter().any(|it| it.arm == arm.measured);
        let mut added = Vec::new();
        for arm in self.arms.iter().filter(measured) {
            let of = record.arms.iter().find(|each| each.arm == arm.measured);
            let mut points = Vec::new();
            for point in of.map_or(&[][..], |of| &of.points[..]) {
                let seeds = 1..=point.runs.len() as u64;
                let runs = seeds.map(|seed| self.simulate(arm, point.at, seed, counted_s));
                points.push(Point { at: point.at, runs: runs.collect::<Result<_>>()? });
            }
            let setup = [("server".to_owned(), format!("simulated, remedies {}", arm.maat))].into();
            added.push(ArmRecord { arm: arm.label.to_owned(), setup, points });
        }
        record.arms.extend(added);
        Ok(())
    }

    fn simulate(&self, arm: &Simulated, at: f64, seed: u64, counted_s: u64) -> Result<Run> {
        interrupt::check()?;
        let what = || format!("{} at {at}", arm.label);
        let mut tad = system("hbase", arm.maat).with_context(what)?;
        (self.cluster)(&mut tad, arm.measured).with_context(what)?;
        let text = format!(
            "name = \"predicted\"\nduration = \"{} s\"\nwarmup = \"{WARM_UP_S} s\"\njitter = 0.2\n{}{}\n",
            WARM_UP_S + counted_s,
            if arm.maat == AS_IT_IS { "" } else { "policy = \"drf\"\n" },
            (self.clients)(at)
        );
        let scenario = file::read_scenario("predicted", &text, &tad)
            .map_err(|errors| anyhow!("{errors}"))
            .with_context(what)?;
        let outcome = sim::run(&tad, &scenario.value, seed, &mut |_| {}).with_context(what)?;
        let mut run = measure(&outcome, &["C*_per_s"]);
        // Figures of experiments have small letters.
        let small = |(key, value): (String, f64)| (key.to_lowercase().replace('.', "_"), value);
        run.numbers = std::mem::take(&mut run.numbers).into_iter().map(small).collect();
        Ok(run)
    }

    /// Notes what is compared, for each run.
    pub(super) fn compare(&self, record: &mut Record) {
        let before = record.clone();
        for arm in &mut record.arms {
            for point in &mut arm.points {
                for (index, run) in point.runs.iter_mut().enumerate() {
                    let value =
                        (self.relative)(&Seed::of(&before, index), arm.arm.as_str(), point.at);
                    if value.is_finite() {
                        run.numbers.insert(KEY.to_owned(), value);
                    }
                }
            }
        }
    }

    /// The column of a table that has it.
    pub(super) fn column(&self) -> (&'static str, &'static str) {
        (self.title, KEY)
    }

    /// Measured beside simulated, at each point.
    pub(super) fn panel(&self, points: &[f64]) -> Panel {
        let panel = Panel::bars(self.title, "");
        let pairs = self.arms.iter().flat_map(|arm| points.iter().map(move |at| (arm, *at)));
        pairs.fold(panel, |panel, (arm, at)| {
            let category = format!("{}: {at}", arm.measured);
            panel.bar(&category, "measured", arm.measured, at, KEY).bar(
                &category,
                "simulated",
                arm.label,
                at,
                KEY,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::UPDATES;
    use super::*;

    /// A record in which these arms were measured once at each point.
    fn measured(arms: &[Simulated], points: &[f64]) -> Record {
        let point = |at: &f64| Point { at: *at, runs: vec![Run::default()] };
        let arm = |arm: &Simulated| ArmRecord {
            arm: arm.measured.to_owned(),
            setup: Default::default(),
            points: points.iter().map(point).collect(),
        };
        Record::of(arms.iter().map(arm).collect())
    }

    fn simulated(predicted: &Predicted, points: &[f64], counted_s: u64) -> Record {
        let mut record = measured(predicted.arms, points);
        predicted.add(&mut record, counted_s).unwrap();
        predicted.compare(&mut record);
        record
    }

    fn relative(record: &Record, arm: &Simulated, at: f64) -> f64 {
        Seed::of(record, 0).get(arm.label, at, KEY)
    }

    /// What it says of each figure is printed.
    #[test]
    fn the_dissertations_pairs_come_out_of_the_simulator() {
        let mut wrong = Vec::new();
        for (figure, predicted, points, [lost, keeps]) in [
            ("4.13", &NO_SCHEDULING, &[40.0, 200.0][..], [0.5, 0.9]),
            ("4.14", &ATTEMPTS, &[32.0][..], [1.0, 10.0]),
            ("4.15", &NETWORK, &[20.0, 200.0][..], [0.7, 0.9]),
            ("4.16", &BLOCKING, &[0.0, 1.0][..], [0.3, 0.4]),
            ("4.17", &ORDERING, &[80.0, 400.0][..], [0.7, 0.9]),
            ("4.18", &WEIGHTS, &[0.0, UPDATES][..], [0.3, 0.8]),
        ] {
            let record = simulated(predicted, points, 10);
            let at = *points.last().unwrap();
            for arm in predicted.arms {
                let values = points.iter().map(|at| relative(&record, arm, *at));
                eprintln!(
                    "{figure}, {}: {}: {:.3?}",
                    predicted.title,
                    arm.label,
                    values.collect::<Vec<_>>()
                );
            }
            let ours = predicted.arms[1..].iter().filter(|arm| !arm.label.contains("without"));
            let least = ours.map(|arm| relative(&record, arm, at)).fold(f64::INFINITY, f64::min);
            let stock = relative(&record, &predicted.arms[0], at);
            if !(stock < lost && least > keeps && least.is_finite()) {
                wrong.push(format!("{figure}: {stock}, {least}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn only_what_was_measured_is_simulated() {
        let mut record = measured(&[SIMULATED_OURS], &[40.0, 200.0]);
        NO_SCHEDULING.add(&mut record, 1).unwrap();
        let arms: Vec<&str> = record.arms.iter().map(|arm| arm.arm.as_str()).collect();
        assert_eq!(arms, [OURS, "simulated: ours"]);
        assert_eq!(record.arms[1].points.len(), 2);
    }

    #[test]
    fn measured_numbers_are_compared_in_the_same_way() {
        let mut record = measured(&[SIMULATED_STOCK], &[40.0, 200.0]);
        for (point, per_s) in record.arms[0].points.iter_mut().zip([50.0, 20.0]) {
            point.runs[0].numbers.insert("c1_per_s".to_owned(), per_s);
        }
        NO_SCHEDULING.compare(&mut record);
        assert_eq!(Seed::of(&record, 0).get(STOCK, 200.0, KEY), 0.4);
    }
}
