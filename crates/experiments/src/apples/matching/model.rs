//! Eq. 2 and Eq. 1 beside what was measured: λ(P) and α(P), fitted as Algorithm 1 does it.
//!
//! The samples are three of the fixed P: the smallest (P₀), the middle one (P₁) and the largest
//! (P₂, all users). The fitted curves become a separate arm, so that they are drawn and judged like
//! what was measured. From Appendix A, with α(P₀) = 1, what was measured at a P says that
//!
//! ```text
//! α(P) = (1 − λ(P₀) / (P₀ · λ(P))) · P / (P − 1)
//! ```

use std::collections::BTreeMap;

use headworks_policy::matching::{Curve, Sample, fit};

use crate::sweep::record::{ArmRecord, Point, Record, Run};

/// The arm of the fitted curves. Its numbers are `throughput_per_s` and `alpha`, and where it
/// peaks, `matching_p`, the same at all points. A round whose samples contradict the model has
/// none.
pub(super) const MODEL: &str = "Eq. 2 through three samples";

/// What a run is called.
const KEY: &str = "throughput_per_s";
const ALPHA: &str = "alpha";

/// Adds the arm, fitted to the arm `measured`, and `alpha` to that one's numbers.
pub(super) fn add(record: &mut Record, measured: &str) {
    record.arms.retain(|arm| arm.arm != MODEL);
    let Some(arm) = record.arms.iter_mut().find(|arm| arm.arm == measured) else { return };
    let rounds = arm.points.iter().map(|point| point.runs.len()).min().unwrap_or(0);
    let mut points: Vec<Point> =
        arm.points.iter().map(|point| Point { at: point.at, runs: Vec::new() }).collect();
    for round in 0..rounds {
        let samples: Vec<Sample> = arm.points.iter().map(|point| sample(point, round)).collect();
        let chosen = [0, samples.len() / 2, samples.len() - 1].map(|at| samples[at]);
        let curve = fit(chosen).ok();
        for (point, sample) in arm.points.iter_mut().zip(&samples) {
            let alpha = alpha(chosen[0], *sample);
            if alpha.is_finite() {
                point.runs[round].numbers.insert(ALPHA.to_owned(), alpha);
            }
        }
        for (point, sample) in points.iter_mut().zip(&samples) {
            let numbers = curve.map_or_else(BTreeMap::new, |curve| {
                numbers(&curve, sample.parallelism, chosen[2].parallelism)
            });
            let seed = round as u64 + 1;
            point.runs.push(Run { seed, numbers, bucket_s: 1.0, ..Run::default() });
        }
    }
    let setup = [("server".to_owned(), "computed from three of the fixed P".to_owned())].into();
    record.arms.push(ArmRecord { arm: MODEL.to_owned(), setup, points });
}

fn sample(point: &Point, round: usize) -> Sample {
    Sample {
        // Points are small whole numbers.
        parallelism: point.at as u32,
        throughput_per_s: point.runs[round].numbers.get(KEY).copied().unwrap_or(0.0),
    }
}

/// The parallel fraction that a throughput means.
fn alpha(base: Sample, sample: Sample) -> f64 {
    let (p, p0) = (f64::from(sample.parallelism), f64::from(base.parallelism));
    (1.0 - base.throughput_per_s / (p0 * sample.throughput_per_s)) * p / (p - 1.0)
}

/// What the curve says at a P, of up to `most`.
fn numbers(curve: &Curve, parallelism: u32, most: u32) -> BTreeMap<String, f64> {
    let per_s = curve.throughput_per_s(parallelism);
    // A = 1 − B·e^(−γP₀), since α(P₀) = 1.
    let decay = |p: u32| (-curve.gamma * f64::from(p)).exp();
    let alpha = 1.0 - curve.b * (decay(curve.base.parallelism) - decay(parallelism));
    let peak = curve.matching_point(curve.base.parallelism, most).unwrap_or(most);
    [(KEY, per_s), (ALPHA, alpha), ("matching_p", f64::from(peak))]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose throughputs at these P are those of a curve.
    fn record(curve: &Curve, rounds: usize) -> Record {
        let point = |p: u32| {
            let numbers = [(KEY.to_owned(), curve.throughput_per_s(p))].into();
            let run = Run { seed: 1, numbers, bucket_s: 1.0, ..Run::default() };
            Point { at: f64::from(p), runs: vec![run; rounds] }
        };
        let points = [4, 8, 16, 32, 64, 256].map(point).to_vec();
        let arm = ArmRecord { arm: "fixed".to_owned(), setup: BTreeMap::new(), points };
        let text = serde_json::json!({
            "id": "x", "title": "x", "paper": "x", "figure": "x", "recorded_at_unix_s": 0, "quick": true,
            "seed": 1, "machine": headworks_rig::machine::Machine::describe(), "counted_s": 1.0,
            "warmup_s": 1.0, "took_s": 1.0, "load_before": headworks_rig::machine::Load::read(),
            "load_after": headworks_rig::machine::Load::read(), "verdicts": [], "sweep": "x", "arms": [arm],
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_server_that_follows_the_model_is_met_at_every_point() {
        let base = Sample { parallelism: 4, throughput_per_s: 780.0 };
        let curve = Curve { base, b: 0.3, gamma: 0.05 };
        let mut record = record(&curve, 2);
        add(&mut record, "fixed");
        // A report that is made again does not add it again.
        add(&mut record, "fixed");
        let [fixed, model] = &record.arms[..] else { panic!("{} arms", record.arms.len()) };
        for (measured, fitted) in fixed.points.iter().zip(&model.points) {
            assert_eq!((fitted.at, fitted.runs.len()), (measured.at, 2));
            for (measured, fitted) in measured.runs.iter().zip(&fitted.runs) {
                for key in [KEY, ALPHA] {
                    let (ours, theirs) = (fitted.numbers[key], measured.numbers[key]);
                    assert!((ours / theirs - 1.0).abs() < 1e-6, "{key}: {ours} {theirs}");
                }
                let peak = f64::from(curve.matching_point(4, 256).unwrap());
                assert_eq!(fitted.numbers["matching_p"], peak);
            }
        }
        assert!((fixed.points[0].runs[0].numbers[ALPHA] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn samples_that_contradict_the_model_give_no_curve() {
        let base = Sample { parallelism: 4, throughput_per_s: 780.0 };
        let mut record = record(&Curve { base, b: 0.3, gamma: 0.05 }, 1);
        // Faster in proportion to P: nothing is saturated.
        record.arms[0].points[5].runs[0].numbers.insert(KEY.to_owned(), 780.0 * 64.0);
        add(&mut record, "fixed");
        assert!(record.arms[1].points.iter().all(|point| point.runs[0].numbers.is_empty()));
    }
}
