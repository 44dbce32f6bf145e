//! The unchanged system, the reference for remedies. Compared only with itself, a remedied system
//! could be slow for all clients and still seem to protect one.

use super::service::Service;
use super::workload::{base_for, entitled};
use crate::model::Tad;
use crate::scenario::Scenario;
use crate::sim::{Outcome, SimError, run};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A run that is made at its first use.
type Run = Arc<OnceLock<Result<Arc<Outcome>, SimError>>>;

/// Known runs. All sets of remedies are compared with the same ones.
#[derive(Debug)]
pub(super) struct Untouched<'a> {
    tad: &'a Tad,
    known: Mutex<Vec<Known>>,
}

/// A run with its system and scenario.
#[derive(Debug)]
struct Known {
    /// None for the unchanged system.
    other: Option<Tad>,
    scenario: Scenario,
    seed: u64,
    run: Run,
}

impl<'a> Untouched<'a> {
    pub fn new(tad: &'a Tad) -> Untouched<'a> {
        Untouched { tad, known: Mutex::default() }
    }

    /// The system.
    pub fn tad(&self) -> &'a Tad {
        self.tad
    }

    /// The outcome under a scenario.
    pub fn outcome(&self, scenario: &Scenario, seed: u64) -> Result<Arc<Outcome>, SimError> {
        self.run(None, scenario, seed)
    }

    /// The least that isolation requires for a client: its throughput at the others' base load, or
    /// alone on machines with its share of every resource. Throughput beyond its share is lent, and
    /// may be taken back.
    pub fn due(
        &self,
        workload: &Scenario,
        begins: &Scenario,
        client: &str,
        seed: u64,
    ) -> Result<Service, SimError> {
        let base = base_for(workload, begins, client);
        let base_gives = Service::of(&base, &*self.run(None, &base, seed)?, client);
        let (small, alone) = entitled(self.tad, workload, client);
        let share_gives = Service::of(&alone, &*self.run(Some(small), &alone, seed)?, client);
        Ok(base_gives.lesser(share_gives))
    }

    fn run(
        &self,
        other: Option<Tad>,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Arc<Outcome>, SimError> {
        let system = other.clone();
        let known = {
            let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let same = all.iter().find(|known| {
                known.seed == seed && known.scenario == *scenario && known.other == other
            });
            match same {
                Some(known) => Arc::clone(&known.run),
                None => {
                    let run = Run::default();
                    let scenario = scenario.clone();
                    all.push(Known { other, scenario, seed, run: Arc::clone(&run) });
                    run
                }
            }
        };
        // A thread that needs the same run meanwhile waits for it; others do not.
        known
            .get_or_init(|| {
                let tad = system.as_ref().unwrap_or(self.tad);
                run(tad, scenario, seed, &mut |_| {}).map(Arc::new)
            })
            .clone()
    }
}
