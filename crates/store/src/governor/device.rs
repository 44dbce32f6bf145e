//! What the device can do, whether processors are short, and what best effort may have of it.

use super::Governor;
use headworks_policy::Nanos;
use headworks_policy::block::cost::Prices;
use headworks_policy::learn::device::{Device, ORDINARY, Price};

/// Prices that differ by less are the same.
const STEP: f64 = 1.2;

/// Least part of the device's time of which a pace is a part: best effort may have been away.
const LEAST_PACE: f64 = 0.1;

impl Governor {
    /// Processors are short where the store runs, or no longer.
    pub fn starve(&mut self, short: bool) {
        self.starved = short;
        self.beliefs.values_mut().for_each(|belief| belief.owner.starve(short));
    }

    /// Whether processors are short where the store runs.
    pub fn are_processors_short(&self) -> bool {
        self.starved
    }

    /// What the device can do.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// For which part of the last window the device was busy.
    pub fn busy(&self) -> f64 {
        self.busy
    }

    /// What requests are to be charged, if that is another than before.
    pub fn prices(&mut self) -> Option<Prices> {
        let now = self.device.prices();
        let far = |(new, old): (&Price, &Price)| {
            (new.of(ORDINARY) / old.of(ORDINARY)).ln().abs() > STEP.ln()
                || (new.of(8.0 * ORDINARY) / old.of(8.0 * ORDINARY)).ln().abs() > STEP.ln()
        };
        let learned = self.device.is_learned().contains(&true);
        let same = self.charged.is_some_and(|old| !now.iter().zip(&old).any(far));
        if !learned || same {
            return None;
        }
        self.charged = Some(now);
        // Prices are far below a century.
        let nanos = |price: &Price| (Nanos(price.request_ns as u64), Nanos(price.sector_ns as u64));
        let [read, write, flush] = now.each_ref().map(nanos);
        Some(Prices { read, write, flush: flush.0 })
    }

    /// Part of the device's time that it may have, if that is bounded.
    pub fn pace(&self) -> Option<f64> {
        let pace = self.best_effort * self.unbounded.max(LEAST_PACE);
        (self.best_effort < 1.0).then_some(pace)
    }
}
