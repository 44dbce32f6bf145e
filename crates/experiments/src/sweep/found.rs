//! A view on a record: what was found at an arm and a point.

use super::record::{Point, Record, Run};
use headworks_policy::metrics::median;

/// Runs of all seeds at an arm and a point, if they are in the record.
pub(crate) fn point<'a>(record: &'a Record, arm: &str, at: f64) -> Option<&'a Point> {
    let arm = record.arms.iter().find(|each| each.arm == arm)?;
    arm.points.iter().find(|point| point.at == at)
}

/// Lowest, middle and highest of the seeds.
pub(super) fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let middle = median(values)?;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some([low, middle, high])
}

/// What one seed or round found at all arms and points. A missing value is NaN, for which no claim
/// holds.
pub(crate) struct Seed<'a> {
    pub(super) record: &'a Record,
    pub(super) index: usize,
}

impl<'a> Seed<'a> {
    /// What the run of this number found.
    pub(crate) fn of(record: &'a Record, index: usize) -> Self {
        Self { record, index }
    }
}

impl Seed<'_> {
    fn run(&self, arm: &str, at: f64) -> Option<&Run> {
        point(self.record, arm, at)?.runs.get(self.index)
    }

    /// A number.
    pub(crate) fn get(&self, arm: &str, at: f64, key: &str) -> f64 {
        self.run(arm, at).and_then(|run| run.numbers.get(key)).copied().unwrap_or(f64::NAN)
    }

    /// A number at one point, relative to that at another.
    pub(crate) fn ratio(&self, arm: &str, key: &str, at: f64, than: f64) -> f64 {
        self.get(arm, at, key) / self.get(arm, than, key)
    }

    /// A number at all points of an arm, in their order.
    pub(crate) fn all(&self, arm: &str, key: &str) -> Vec<f64> {
        self.points(arm).into_iter().map(|at| self.get(arm, at, key)).collect()
    }

    /// The points of an arm, in their order.
    pub(crate) fn points(&self, arm: &str) -> Vec<f64> {
        let arm_record = self.record.arms.iter().find(|each| each.arm == arm);
        arm_record.map_or(Vec::new(), |arm| arm.points.iter().map(|point| point.at).collect())
    }

    /// The same, as means over all seeds.
    pub(crate) fn means(&self, arm: &str, key: &str) -> Vec<f64> {
        let arm_record = self.record.arms.iter().find(|each| each.arm == arm);
        let points = arm_record.map_or(&[][..], |arm| &arm.points[..]);
        let mean = |point: &Point| {
            let values = point.runs.iter().map(|run| run.numbers.get(key).copied());
            values.map(|value| value.unwrap_or(f64::NAN)).sum::<f64>() / point.runs.len() as f64
        };
        points.iter().map(mean).collect()
    }

    /// A number at the point of an arm where its mean over all seeds is largest.
    pub(crate) fn best(&self, arm: &str, key: &str) -> f64 {
        let means = self.means(arm, key);
        let best = (0..means.len()).max_by(|&a, &b| means[a].total_cmp(&means[b]));
        best.map_or(f64::NAN, |best| self.all(arm, key)[best])
    }

    /// The mean of a series over the second half of the time, without its first tenth, in which
    /// things settle.
    pub(crate) fn late(&self, arm: &str, at: f64, key: &str) -> f64 {
        self.part(arm, at, key, 0.55, 1.0)
    }

    /// The same over the first half.
    pub(crate) fn early(&self, arm: &str, at: f64, key: &str) -> f64 {
        self.part(arm, at, key, 0.05, 0.5)
    }

    /// The mean of a series from one time to another, in whole seconds since the begin.
    pub(crate) fn between(&self, arm: &str, at: f64, key: &str, from_s: usize, to_s: usize) -> f64 {
        let Some(run) = self.run(arm, at) else { return f64::NAN };
        let bucket = |second: usize| (second as f64 / run.bucket_s) as usize;
        let values = run.series.get(key).and_then(|all| all.get(bucket(from_s)..bucket(to_s)));
        let Some(values) = values.filter(|values| !values.is_empty()) else { return f64::NAN };
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn part(&self, arm: &str, at: f64, key: &str, from: f64, to: f64) -> f64 {
        let Some(values) = self.run(arm, at).and_then(|run| run.series.get(key)) else {
            return f64::NAN;
        };
        // A last bucket that has hardly begun would count as much as the others.
        let whole = self.record.counted_s + self.record.warmup_s;
        let bucket_s = self.run(arm, at).map_or(1.0, |run| run.bucket_s);
        let buckets = ((whole / bucket_s).round() as usize).min(values.len());
        let cut = |share: f64| (share * buckets as f64).round() as usize;
        let part = &values[cut(from)..cut(to)];
        part.iter().sum::<f64>() / part.len() as f64
    }
}

/// The larger one; not a number if one is not.
pub(crate) fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::super::record::ArmRecord;
    use super::*;

    #[test]
    fn the_best_point_is_that_of_all_seeds_together() {
        let point = |at: f64, values: [f64; 2]| Point {
            at,
            runs: values
                .map(|value| Run { numbers: [("y".to_owned(), value)].into(), ..Run::default() })
                .into(),
        };
        let points =
            vec![point(4.0, [10.0, 30.0]), point(8.0, [25.0, 20.0]), point(16.0, [5.0, 5.0])];
        let arm = ArmRecord { arm: "a".to_owned(), setup: [].into(), points };
        let record = Record::of(vec![arm]);
        let seeds = [0, 1].map(|index| Seed { record: &record, index });
        assert_eq!(seeds[0].means("a", "y"), [20.0, 22.5, 5.0]);
        assert_eq!(seeds.map(|seed| seed.best("a", "y")), [25.0, 20.0]);
        let seed = Seed { record: &record, index: 0 };
        assert!(seed.best("none", "y").is_nan() && seed.best("a", "none").is_nan());
    }
}
