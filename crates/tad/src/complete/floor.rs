//! Whether C1 gets what it should.

use super::case::Case;
use crate::fix::entitled;
use crate::sim::{SimError, run};
use serde::Serialize;

/// Seeds of the simulations: a gap fails with each of them.
const SEEDS: [u64; 3] = [1, 2, 3];

/// With fewer requests than this in the counted time, a loss may be chance.
const REQUESTS_MIN: f64 = 100.0;

/// The least throughput that C1 must have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Its throughput at C2's base load.
    pub base_per_s: f64,
    /// Its throughput alone on machines with its share of every resource.
    pub entitled_per_s: f64,
}

impl Floor {
    /// The smaller of the two: throughput beyond its share is lent, and may be taken back.
    pub fn per_s(self) -> f64 {
        self.base_per_s.min(self.entitled_per_s)
    }
}

/// C1's actual and required throughput, if it gets too little with every seed.
pub(super) fn shortfall(case: &Case, loss: f64) -> Result<Option<(f64, Floor)>, SimError> {
    let grown = case.grown();
    let (small, alone) = entitled(&case.tad, &case.base, "C1");
    let mut first = None;
    for seed in SEEDS {
        let got = run(&case.tad, &grown, seed, &mut |_| {})?;
        let got_per_s = got.throughput("C1");
        let base_per_s = run(&case.tad, &case.base, seed, &mut |_| {})?.throughput("C1");
        // Most systems isolate: then the third run is not needed.
        if got_per_s >= base_per_s * (1.0 - loss) {
            return Ok(None);
        }
        let entitled_per_s = run(&small, &alone, seed, &mut |_| {})?.throughput("C1");
        let floor = Floor { base_per_s, entitled_per_s };
        let enough = floor.per_s() * got.counted_s >= REQUESTS_MIN;
        if !enough || got_per_s >= floor.per_s() * (1.0 - loss) {
            return Ok(None);
        }
        first.get_or_insert((got_per_s, floor));
    }
    Ok(first)
}
