//! The matching point: how many sessions a database serves best at a time, from three measurements.
//!
//! # Problem
//! Throughput λ grows with the number of sessions inside, P, while there is idle capacity. It falls
//! beyond, because sessions get in each other's way (locks, caches, context switches). The
//! *matching point* C is the smallest P where λ peaks. Trying every P takes too long.
//!
//! # Model
//! Of the work of a request the fraction α(P) = A + B·e^(−γP) runs in parallel with others and the
//! rest alone (AppleS, Eq. 1). With α(P₀) = 1 at a small P₀ this gives (Eq. 2, proved in Appendix
//! A)
//!
//! ```text
//!                       P · λ(P₀)
//! λ(P) = ───────────────────────────────────────────────
//!         P₀ + B · P₀ · (e^(−γP₀) − e^(−γP)) · (P − 1)
//! ```
//!
//! # Solving for γ and B
//! The paper prints f(γ) with a term missing (Algorithm 1, line 5: P₀ does not appear alone, and B
//! is unknown there). Derived from Eq. 2: write
//!
//! ```text
//! yᵢ = Pᵢ·λ(P₀)/λ(Pᵢ) − P₀          what the sample lost against perfect scaling
//! gᵢ = (e^(−γP₀) − e^(−γPᵢ)) · (Pᵢ − 1)
//! ```
//!
//! so that Eq. 2 says yᵢ = B·P₀·gᵢ for i = 1, 2. Dividing one by the other removes B:
//!
//! ```text
//! f(γ) = g₁(γ)/g₂(γ) − y₁/y₂ = 0
//! ```
//!
//! With a = P₁−P₀ and b = P₂−P₀ the first term is (1−e^(−γa))/(1−e^(−γb)) · (P₁−1)/(P₂−1). It rises
//! steadily from a/b·(P₁−1)/(P₂−1) at γ → 0 to (P₁−1)/(P₂−1) at γ → ∞. So there is one solution if
//! y₁/y₂ lies between these two, and none otherwise. Then the samples contradict the model, and the
//! result says so. B follows as y₁/(P₀·g₁), which equals the paper's line 8.
//!
//! Newton–Raphson runs inside a bracket that shrinks around the solution. A step that would leave
//! the bracket is replaced by halving.

/// A measured throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Sessions inside, P.
    pub parallelism: u32,
    /// Requests or transactions a second, λ.
    pub throughput_per_s: f64,
}

/// Eq. 2 with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// P₀ and λ(P₀).
    pub base: Sample,
    /// B of Eq. 1.
    pub b: f64,
    /// γ of Eq. 1.
    pub gamma: f64,
}

/// Why three samples give no curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Misfit {
    /// Not P₀ < P₁ < P₂, or P₀ is zero, or a throughput is not above zero.
    Samples,
    /// Throughput grows at least in proportion to P up to P₁ or P₂: the database is not saturated.
    Unsaturated,
    /// y₁/y₂ is outside of what the model can give.
    Contradiction {
        /// y₁/y₂.
        ratio: f64,
        /// Least possible value.
        least: f64,
        /// Largest possible value.
        most: f64,
    },
    /// Newton–Raphson did not get to the wanted accuracy.
    Convergence,
    /// The samples do not differ by more than they scatter: any curve would go through them.
    Flat,
    /// A sample scatters too much to say anything.
    Noise {
        /// Half of its 95 % confidence interval, relative to it.
        interval: f64,
    },
}

/// Accuracy of γ: |f(γ)| is below this (the paper's μ).
pub const ACCURACY: f64 = 1e-12;

const STEPS_MAX: u32 = 200;

/// Widest interval of a sample that a curve is fitted to.
const INTERVAL_MAX: f64 = 0.3;

/// Fits Eq. 2 to samples that are known with these intervals: half of the 95 % confidence interval,
/// relative to the sample. It refuses samples that scatter so much that the curve would be one of
/// chance.
pub fn fit_measured(samples: [Sample; 3], intervals: [f64; 3]) -> Result<Curve, Misfit> {
    let widest = intervals.into_iter().fold(0.0, f64::max);
    if widest > INTERVAL_MAX {
        return Err(Misfit::Noise { interval: widest });
    }
    let ends = |sign: f64| {
        samples.iter().zip(intervals).map(move |(s, half)| s.throughput_per_s * (1.0 + sign * half))
    };
    // All three intervals have something in common.
    if ends(-1.0).fold(0.0, f64::max) <= ends(1.0).fold(f64::INFINITY, f64::min) {
        return Err(Misfit::Flat);
    }
    fit(samples)
}

/// Fits Eq. 2 to samples at P₀ < P₁ < P₂.
pub fn fit(samples: [Sample; 3]) -> Result<Curve, Misfit> {
    let [base, first, second] = samples;
    let ordered = base.parallelism > 0
        && base.parallelism < first.parallelism
        && first.parallelism < second.parallelism;
    if !ordered || samples.iter().any(|s| s.throughput_per_s.is_nan() || s.throughput_per_s <= 0.0)
    {
        return Err(Misfit::Samples);
    }
    let p0 = f64::from(base.parallelism);
    let lost =
        |s: Sample| f64::from(s.parallelism) * base.throughput_per_s / s.throughput_per_s - p0;
    let (y1, y2) = (lost(first), lost(second));
    if y1 <= 0.0 || y2 <= 0.0 {
        return Err(Misfit::Unsaturated);
    }
    let (a, b) = (f64::from(first.parallelism) - p0, f64::from(second.parallelism) - p0);
    let scale = (f64::from(first.parallelism) - 1.0) / (f64::from(second.parallelism) - 1.0);
    let (ratio, least, most) = (y1 / y2, a / b * scale, scale);
    if ratio <= least || ratio >= most {
        return Err(Misfit::Contradiction { ratio, least, most });
    }
    // (1 − e^(−γa)) without loss of digits for small γ.
    let rise = |gamma: f64, width: f64| -(-gamma * width).exp_m1();
    let f = |gamma: f64| rise(gamma, a) / rise(gamma, b) * scale - ratio;
    let slope = |gamma: f64| {
        let (ra, rb) = (rise(gamma, a), rise(gamma, b));
        (a * (-gamma * a).exp() * rb - b * (-gamma * b).exp() * ra) / (rb * rb) * scale
    };
    let gamma = solve(f, slope, 1.0 / a)?;
    let g1 = rise(gamma, a) * (-gamma * p0).exp() * (f64::from(first.parallelism) - 1.0);
    Ok(Curve { base, b: y1 / (p0 * g1), gamma })
}

/// Newton–Raphson for the root of a rising function of a positive argument, kept in a bracket.
fn solve(f: impl Fn(f64) -> f64, slope: impl Fn(f64) -> f64, start: f64) -> Result<f64, Misfit> {
    let (mut low, mut high) = (start, start);
    for _ in 0..STEPS_MAX {
        if f(low) < 0.0 {
            break;
        }
        low /= 4.0;
    }
    for _ in 0..STEPS_MAX {
        if f(high) > 0.0 {
            break;
        }
        high *= 4.0;
    }
    let mut gamma = start;
    for _ in 0..STEPS_MAX {
        let value = f(gamma);
        if value.abs() < ACCURACY {
            return Ok(gamma);
        }
        if value < 0.0 {
            low = gamma
        } else {
            high = gamma
        }
        let step = gamma - value / slope(gamma);
        gamma = if step > low && step < high { step } else { (low + high) / 2.0 };
    }
    Err(Misfit::Convergence)
}

impl Curve {
    /// λ(P), Eq. 2.
    pub fn throughput_per_s(&self, parallelism: u32) -> f64 {
        let (p, p0) = (f64::from(parallelism), f64::from(self.base.parallelism));
        let decay = (-self.gamma * p0).exp() - (-self.gamma * p).exp();
        p * self.base.throughput_per_s / (p0 + self.b * p0 * decay * (p - 1.0))
    }

    /// The matching point: the first local maximum of λ(P) from `least` up to `most`; `None` if λ
    /// still rises there (Algorithm 1, lines 10–17).
    ///
    /// The algorithm looks from P = 1 on, but Eq. 2 holds from P₀ on: α(P) is 1 there and would be
    /// more than 1 below. The curve may have a pole there, and before it a maximum that means
    /// nothing. So `least` is P₀ or more.
    pub fn matching_point(&self, least: u32, most: u32) -> Option<u32> {
        (least.max(1)..most).find(|p| self.throughput_per_s(p + 1) <= self.throughput_per_s(*p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(curve: &Curve, at: [u32; 3]) -> [Sample; 3] {
        at.map(|parallelism| Sample {
            parallelism,
            throughput_per_s: curve.throughput_per_s(parallelism),
        })
    }

    #[test]
    fn the_curve_that_made_the_samples_is_found() {
        for b in [0.05, 0.2, 0.8] {
            for gamma in [0.01, 0.05, 0.2, 1.0] {
                let base = Sample { parallelism: 2, throughput_per_s: 300.0 };
                let made = Curve { base, b, gamma };
                let found = fit(samples(&made, [2, 20, 256])).unwrap();
                assert!((found.gamma / made.gamma - 1.0).abs() < 1e-5, "{made:?} {found:?}");
                assert!((found.b / made.b - 1.0).abs() < 1e-5, "{made:?} {found:?}");
                assert_eq!(found.matching_point(2, 256), made.matching_point(2, 256));
            }
        }
    }

    #[test]
    fn samples_that_are_alike_or_scatter_give_no_curve() {
        let base = Sample { parallelism: 2, throughput_per_s: 300.0 };
        let good = samples(&Curve { base, b: 0.2, gamma: 0.05 }, [2, 20, 256]);
        assert_eq!(fit_measured(good, [0.02; 3]), fit(good));
        assert_eq!(fit_measured(good, [0.02, 0.4, 0.02]), Err(Misfit::Noise { interval: 0.4 }));
        let flat = [(2, 300.0), (20, 315.0), (256, 305.0)];
        let flat =
            flat.map(|(parallelism, throughput_per_s)| Sample { parallelism, throughput_per_s });
        assert_eq!(fit_measured(flat, [0.03; 3]), Err(Misfit::Flat));
        // 300 +- 1 % and 315 +- 1 % have nothing in common.
        assert_ne!(fit_measured(flat, [0.01; 3]), Err(Misfit::Flat));
    }

    #[test]
    fn b_is_that_of_line_8_of_the_algorithm() {
        let base = Sample { parallelism: 2, throughput_per_s: 300.0 };
        let made = Curve { base, b: 0.3, gamma: 0.07 };
        let [s0, s1, s2] = samples(&made, [2, 20, 256]);
        let found = fit([s0, s1, s2]).unwrap();
        let e = |p: u32| (-found.gamma * f64::from(p)).exp();
        let over = 20.0 * s0.throughput_per_s / s1.throughput_per_s
            - 256.0 * s0.throughput_per_s / s2.throughput_per_s;
        let under = 2.0 * ((e(2) - e(20)) * 19.0 - (e(2) - e(256)) * 255.0);
        assert!((found.b - over / under).abs() < 1e-9);
    }

    #[test]
    fn the_matching_point_is_the_first_peak() {
        // Worked by hand: P₀ = 1, λ(P₀) = 100, B = 0.5, γ = 0.1.
        // λ(P) = 100·P / (1 + 0.5·(e^−0.1 − e^−0.1P)·(P − 1)).
        let base = Sample { parallelism: 1, throughput_per_s: 100.0 };
        let curve = Curve { base, b: 0.5, gamma: 0.1 };
        let by_hand: Vec<f64> = (1..40u32)
            .map(|p| {
                let p = f64::from(p);
                100.0 * p / (1.0 + 0.5 * ((-0.1f64).exp() - (-0.1 * p).exp()) * (p - 1.0))
            })
            .collect();
        let peak = (0..by_hand.len() - 1).find(|i| by_hand[i + 1] <= by_hand[*i]).unwrap() + 1;
        assert_eq!(curve.matching_point(1, 1_000), Some(peak as u32));
    }

    #[test]
    fn below_the_first_sample_there_is_no_matching_point() {
        // P₀ = 16, λ(P₀) = 100, B = 2, γ = 0.5: λ(P) = 100 P / (16 + 32 (e^-8 - e^-0.5P) (P - 1)).
        // λ(3) = 300 / (16 - 32 * 0.223 * 2) = 172 and λ(4) = 400 / (16 - 32 * 0.135 * 3) = 132: a
        // peak, of nothing. From P₀ on λ rises: the second term under the line is 0.01 (P - 1) at
        // most.
        let base = Sample { parallelism: 16, throughput_per_s: 100.0 };
        let curve = Curve { base, b: 2.0, gamma: 0.5 };
        assert_eq!(curve.matching_point(1, 256), Some(3));
        assert_eq!(curve.matching_point(16, 256), None);
    }

    #[test]
    fn samples_that_contradict_the_model_are_refused_with_the_reason() {
        let sample = |parallelism, throughput_per_s| Sample { parallelism, throughput_per_s };
        let linear = [sample(2, 100.0), sample(20, 1_000.0), sample(200, 10_000.0)];
        assert_eq!(fit(linear), Err(Misfit::Unsaturated));
        let unordered = [sample(20, 100.0), sample(2, 100.0), sample(200, 100.0)];
        assert_eq!(fit(unordered), Err(Misfit::Samples));
        let silent = [sample(2, 0.0), sample(20, 100.0), sample(200, 100.0)];
        assert_eq!(fit(silent), Err(Misfit::Samples));
        // Already worse at P₁ than at P₀, and much better again at P₂.
        let odd = [sample(2, 100.0), sample(20, 50.0), sample(200, 900.0)];
        assert!(matches!(fit(odd), Err(Misfit::Contradiction { .. })), "{:?}", fit(odd));
    }

    #[test]
    fn whatever_is_measured_a_fit_is_exact_or_refused() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut fitted = 0;
        for _ in 0..20_000 {
            let p0 = 1 + (random() % 8) as u32;
            let p1 = p0 + 1 + (random() % 60) as u32;
            let p2 = p1 + 1 + (random() % 1_000) as u32;
            let drawn = [p0, p1, p2].map(|parallelism| Sample {
                parallelism,
                throughput_per_s: 1.0 + (random() % 10_000) as f64,
            });
            match fit(drawn) {
                Ok(curve) => {
                    fitted += 1;
                    for sample in drawn {
                        let ratio =
                            curve.throughput_per_s(sample.parallelism) / sample.throughput_per_s;
                        assert!((ratio - 1.0).abs() < 1e-6, "{drawn:?} {curve:?}");
                    }
                }
                Err(Misfit::Convergence) => panic!("{drawn:?}"),
                Err(_) => {}
            }
        }
        assert!(fitted > 1_000, "{fitted}");
    }
}
