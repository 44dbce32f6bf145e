//! Test vectors of the fair queue, for its port to Java (`plugins/hbase/core`).
//!
//! A file of random steps, and what the code here chose at each. The port replays them. Here it is
//! asserted that the file is what this code would write. `HEADWORKS_VECTORS=write` writes it.

use headworks_policy::fair::{Fair, WEIGHT_ONE};
use headworks_policy::random::Random;
use std::fmt::Write;

const TIERS: usize = 2;
const FLOWS: usize = 12;
const STAGES: usize = 3;
const RESOURCES: usize = 3;
/// Weights of the tiers, as `headworks.fair.Tier` has them.
const TIER_WEIGHTS: [u32; TIERS] = [20 * WEIGHT_ONE, WEIGHT_ONE];

/// Shares of tenants inside shares of tiers, at stages that share virtual times.
struct Nested {
    top: Fair<TIERS, RESOURCES>,
    tenants: [Fair<FLOWS, RESOURCES>; TIERS],
    queued: [[[u32; FLOWS]; STAGES]; TIERS],
}

impl Nested {
    fn new() -> Self {
        let mut top = Fair::new();
        for (tier, weight) in TIER_WEIGHTS.into_iter().enumerate() {
            top.set_weight(tier, weight);
        }
        Nested { top, tenants: Default::default(), queued: Default::default() }
    }

    fn add(&mut self, tier: usize, flow: usize, stage: usize) {
        self.queued[tier][stage][flow] += 1;
        self.tenants[tier].wait(flow);
        self.top.wait(tier);
    }

    /// Serves what is next at the stage.
    fn take(&mut self, stage: usize) -> Option<(usize, usize)> {
        let queued = &self.queued;
        let tier = self.top.next(|tier| queued[tier][stage].iter().any(|count| *count > 0))?;
        let flow = self.tenants[tier].next(|flow| queued[tier][stage][flow] > 0)?;
        self.top.served(tier);
        self.tenants[tier].served(flow);
        self.queued[tier][stage][flow] -= 1;
        if self.queued[tier].iter().all(|flows| flows[flow] == 0) {
            self.tenants[tier].rest(flow);
        }
        if self.tenants[tier].waiting() == 0 {
            self.top.rest(tier);
        }
        Some((tier, flow))
    }

    fn charge(&mut self, tier: usize, flow: usize, resource: usize, cost_ns: u64) {
        self.top.charge(tier, resource, cost_ns);
        self.tenants[tier].charge(flow, resource, cost_ns);
    }
}

/// Random steps with a seed, one line of JSON for each.
fn case(seed: u64, steps: usize) -> String {
    let mut random = Random::new(seed);
    let mut draw = |below: usize| (random.below(below as u64)) as usize;
    let mut nested = Nested::new();
    let mut lines = Vec::new();
    for _ in 0..steps {
        let (tier, flow, stage) = (draw(TIERS), draw(FLOWS), draw(STAGES));
        match draw(40) {
            0 => {
                let weight = 1 + draw(10 * WEIGHT_ONE as usize) as u32;
                nested.tenants[tier].set_weight(flow, weight);
                lines.push(format!("[\"weight\", {tier}, {flow}, {weight}]"));
            }
            1..=16 => {
                nested.add(tier, flow, stage);
                lines.push(format!("[\"add\", {tier}, {flow}, {stage}]"));
            }
            _ => {
                let Some((tier, flow)) = nested.take(stage) else {
                    lines.push(format!("[\"nothing\", {stage}]"));
                    continue;
                };
                // Small costs make ties, large ones exceed what may be dovetailed.
                let (resource, scale) = (draw(RESOURCES), [4, 1_000_000, 500_000_000][draw(3)]);
                let cost = draw(scale) as u64;
                nested.charge(tier, flow, resource, cost);
                let at = nested.tenants[tier].dominant(flow);
                let above = nested.top.dominant(tier);
                lines.push(format!(
                    "[\"take\", {stage}, {tier}, {flow}, {resource}, {cost}, {at}, {above}]"
                ));
            }
        }
    }
    lines.join(",\n")
}

#[test]
fn the_file_for_the_port_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../plugins/hbase/core/src/test/resources/nested.json"
    );
    let mut text =
        format!("{{\"stages\": {STAGES}, \"resources\": {RESOURCES}, \"flows\": {FLOWS},\n");
    text += "\"cases\": [\n";
    for seed in 1..=4 {
        let end = if seed < 4 { "," } else { "" };
        writeln!(text, "[\n{}\n]{end}", case(seed, 1_000)).unwrap();
    }
    text += "]}\n";
    if std::env::var("HEADWORKS_VECTORS").as_deref() == Ok("write") {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "{path} is not what the fair queue writes.\n  \
         If the change is meant: HEADWORKS_VECTORS=write cargo test -p headworks-policy --test vectors, \
         and change headworks.fair.Fair alike"
    );
}
