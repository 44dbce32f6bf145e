//! Trying a changed system: every workload, every seed, until a goal is missed.

use super::goal::{Floor, Goal, Miss};
use super::workload::{Workload, base_for, entitled};
use crate::model::Tad;
use crate::scenario::Scenario;
use crate::sim::{Outcome, SimError, run};
use serde::Serialize;

/// What became of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The goals hold in all runs.
    Holds(Measured),
    /// A run missed a goal.
    Fails {
        /// Workload of that run.
        workload: String,
        /// Seed of that run.
        seed: u64,
        /// What was missed.
        #[serde(flatten)]
        miss: Miss,
    },
    /// The remedies do not fit together, or the system cannot be simulated.
    Impossible {
        /// Why.
        why: String,
    },
}

/// Performance over all workloads and seeds, for sets that hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Mean requests a second, all clients together.
    pub throughput_per_s: f64,
    /// Mean requests a second of each client.
    pub clients_per_s: Vec<f64>,
    /// Mean of the 99th percentiles of those whom the goals protect, or of all.
    pub latency_ms_p99: f64,
    /// Runs.
    pub runs: u32,
}

/// Goals and workloads.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub goals: &'a [Goal],
    /// Workloads, each with its scenario as that begins.
    pub workloads: &'a [(Workload, Scenario)],
    pub protected: &'a [&'a str],
    pub seeds: u32,
}

impl Bench<'_> {
    /// Tries a system.
    pub fn judge(&self, tad: &Tad) -> Verdict {
        match self.measure(tad) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Impossible { why: error.to_string() },
        }
    }

    fn measure(&self, tad: &Tad) -> Result<Verdict, SimError> {
        let clients = self.workloads.first().map_or(0, |(each, _)| each.scenario.clients.len());
        let mut clients_per_s = vec![0.0; clients];
        let mut latency_ms = 0.0;
        let mut runs = 0;
        for seed in 1..=u64::from(self.seeds) {
            let mut known = Known { tad, seed, floors: Vec::new() };
            for (workload, begins) in self.workloads {
                let outcome = run(tad, &workload.scenario, seed, &mut |_| {})?;
                for goal in self.goals {
                    let floor = |client: &str| known.floor(&workload.scenario, begins, client);
                    if let Some(miss) = goal.judge(&workload.scenario, &outcome, floor)? {
                        let workload = workload.name.clone();
                        return Ok(Verdict::Fails { workload, seed, miss });
                    }
                }
                runs += 1;
                latency_ms += self.tail(&outcome);
                for (sum, client) in clients_per_s.iter_mut().zip(&outcome.clients) {
                    *sum += client.throughput_per_s;
                }
            }
        }
        let count = f64::from(runs.max(1));
        clients_per_s.iter_mut().for_each(|sum| *sum /= count);
        Ok(Verdict::Holds(Measured {
            throughput_per_s: clients_per_s.iter().sum(),
            clients_per_s,
            latency_ms_p99: latency_ms / count,
            runs,
        }))
    }

    /// The worst 99th percentile of whom the goals protect.
    fn tail(&self, outcome: &Outcome) -> f64 {
        let of =
            |name: &String| self.protected.is_empty() || self.protected.contains(&name.as_str());
        let loads = outcome.clients.iter().filter(|client| of(&client.name));
        loads.flat_map(|client| &client.loads).map(|load| load.latency_ms_p99).fold(0.0, f64::max)
    }
}

/// What isolation compares with, for one system and seed: most workloads share it.
struct Known<'a> {
    tad: &'a Tad,
    seed: u64,
    floors: Vec<(Scenario, f64)>,
}

impl Known<'_> {
    fn floor(
        &mut self,
        workload: &Scenario,
        begins: &Scenario,
        client: &str,
    ) -> Result<Floor, SimError> {
        let base = base_for(workload, begins, client);
        let base_per_s = match self.floors.iter().find(|(known, _)| *known == base) {
            Some((_, per_s)) => *per_s,
            None => run(self.tad, &base, self.seed, &mut |_| {})?.throughput(client),
        };
        self.floors.push((base, base_per_s));
        let (small, alone) = entitled(self.tad, workload, client);
        let entitled_per_s = match self.floors.iter().find(|(known, _)| *known == alone) {
            Some((_, per_s)) => *per_s,
            None => run(&small, &alone, self.seed, &mut |_| {})?.throughput(client),
        };
        self.floors.push((alone, entitled_per_s));
        Ok(Floor { base_per_s, entitled_per_s })
    }
}
