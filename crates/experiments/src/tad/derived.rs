//! Numbers that follow from those that were recorded.

use super::figure::{Figure, Is, Settled};
use crate::sweep::record::Run;

impl Figure {
    /// Adds the numbers that follow from those of a run.
    pub(super) fn derive(&self, run: &mut Run) {
        for derived in &self.derived {
            let value = match &derived.is {
                Is::Formula(formula) => {
                    formula.value(&|key| run.numbers.get(key).copied().into_iter().collect())
                }
                Is::Settled(settled) => settled.of(run).unwrap_or(f64::NAN),
            };
            if !value.is_nan() {
                run.numbers.insert(derived.key.clone(), value);
            }
        }
    }
}

impl Settled {
    fn of(&self, run: &Run) -> Option<f64> {
        let series = run.series.get(&self.series)?;
        let buckets = |seconds: f64| (seconds / run.bucket_s).round() as usize;
        // The last bucket may be one that has only begun.
        let series = &series[..series.len().checked_sub(1)?];
        let last = &series[series.len().checked_sub(buckets(self.final_s))?..];
        let last_mean = last.iter().sum::<f64>() / last.len() as f64;
        let after = series.get(buckets(self.change_s)..)?;
        let steady = |value: &f64| (value / last_mean - 1.0).abs() <= self.steady;
        let windows = after.windows(buckets(self.while_s));
        let first = windows.into_iter().position(|window| window.iter().all(steady))?;
        Some(first as f64 * run.bucket_s)
    }
}
