//! The tuner's state and decisions, in words.

use crate::config::OPEN;
use headworks_policy::matching::{Misfit, Sample};
use headworks_policy::tuner::{Decision, InsufficientData, Phase, Why};

/// What it is at.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "open, waiting for more sessions or requests",
        Phase::Sampling => "sampling",
        Phase::Climbing => "climbing",
        Phase::Comparing => "comparing with the open gate",
        Phase::Silent => "waiting for requests to go on",
        Phase::Holding => "holding",
    }
}

/// Why no curve fits.
pub(super) fn misfit(misfit: &Misfit) -> String {
    match misfit {
        Misfit::Samples => "the samples are not three different P with throughput".to_owned(),
        Misfit::Unsaturated => "throughput still grows in proportion to P".to_owned(),
        Misfit::Contradiction { ratio, least, most } => format!(
            "the samples contradict the model: y1/y2 = {ratio:.4}, it allows {least:.4} to {most:.4}"
        ),
        Misfit::Convergence => "Newton-Raphson did not converge".to_owned(),
        Misfit::Flat => "the samples do not differ by more than they scatter".to_owned(),
        Misfit::Noise { interval } => {
            format!("a sample is known to +- {:.0} % only", interval * 100.0)
        }
    }
}

/// Why a search begins.
fn cause(why: Why) -> &'static str {
    match why {
        Why::Sessions => "there are sessions enough",
        Why::Grown => "there are half as many sessions again",
        Why::Time => "the latest search is long ago",
        Why::Probe => "the open gate is better than what was held",
        Why::Throughput => "throughput has shifted",
        Why::ServiceTime => "the time that turns spend inside has shifted",
        Why::Mix => "the length of turns, in requests, has shifted: another mix",
    }
}

/// What was decided.
pub(super) fn decision(decision: &Decision) -> String {
    match decision {
        Decision::Began { parallelism, why } => {
            format!("{}: a search begins at {}", cause(*why), named(*parallelism))
        }
        Decision::Fitted { samples, intervals, fit, rising, start } => {
            let samples = samples.iter().zip(intervals).map(|(sample, interval)| {
                let (rate, p) = (sample.throughput_per_s, sample.parallelism);
                format!("{rate:.0}/s{} at P = {p}", known(*interval))
            });
            let samples: Vec<String> = samples.collect();
            let why = match fit {
                Ok(curve) => format!("B = {:.3}, gamma = {:.4}", curve.b, curve.gamma),
                Err(why) => format!("no curve ({})", misfit(why)),
            };
            let rising = if *rising { ", which still rises there" } else { "" };
            format!("{}: {why}{rising}; the climb begins at P = {start}", samples.join(", "))
        }
        Decision::Unsampled { parallelism, turns, seconds } => format!(
            "P = {parallelism} could not be sampled ({turns} turns in {seconds:.0} s say nothing of it)"
        ),
        Decision::Abandoned { parallelism, insufficient } => {
            let insufficient = match insufficient {
                InsufficientData::Sessions => "most sessions have left",
                InsufficientData::Requests => "hardly a request is answered",
                InsufficientData::Long => "long requests run, and short ones need their permits",
            };
            format!(
                "{insufficient}: the search is given up, with {} as before it",
                named(*parallelism)
            )
        }
        Decision::Moved { from, to, gain, interval } => {
            let (from, to) = (named(*from), named(*to));
            format!("{to} gives {gain:.3} x{} the throughput of {from}", known(*interval))
        }
        Decision::Open { throughput_per_s, interval, best, best_interval } => {
            let open = format!("open {throughput_per_s:.0}/s{}", known(*interval));
            match best {
                Some(Sample { parallelism, throughput_per_s }) => format!(
                    "the gate stays open: no P was better by more than the noise ({open}, P = {parallelism} \
                     {throughput_per_s:.0}/s{})",
                    known(*best_interval)
                ),
                None => format!("the gate stays open: fewer inside give less ({open})"),
            }
        }
        Decision::Settled {
            parallelism,
            throughput_per_s,
            interval,
            open_per_s,
            open_interval,
        } => {
            let (here, open) = (known(*interval), known(*open_interval));
            format!(
                "settled at P = {parallelism} with {throughput_per_s:.0} turns/s{here}; the open gate gives \
                 {open_per_s:.0}{open}"
            )
        }
    }
}

/// A P, or the open gate.
fn named(parallelism: u32) -> String {
    if parallelism >= OPEN { "the open gate".to_owned() } else { format!("P = {parallelism}") }
}

/// The uncertainty of a number (half of the 95 % confidence interval), to follow it.
fn known(interval: f64) -> String {
    if interval.is_finite() { format!(" (+- {:.1} %)", interval * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_said_in_words() {
        let sample = |parallelism, throughput_per_s| Sample { parallelism, throughput_per_s };
        let samples = [sample(2, 100.0), sample(23, 400.0), sample(256, 300.0)];
        let fit = headworks_policy::matching::fit(samples);
        let intervals = [0.01, 0.02, 0.03];
        let fitted = |fit, rising| Decision::Fitted { samples, intervals, fit, rising, start: 23 };
        let began = |why| Decision::Began { parallelism: 16, why };
        let (flat, noise) = (Misfit::Flat, Misfit::Noise { interval: 0.4 });
        let settled = |interval| Decision::Settled {
            parallelism: 24,
            throughput_per_s: 990.0,
            interval,
            open_per_s: 700.0,
            open_interval: 0.02,
        };
        let open = |best| Decision::Open {
            throughput_per_s: 1_020.0,
            interval: 0.01,
            best,
            best_interval: 0.02,
        };
        for (each, part) in [
            (began(Why::Sessions), "sessions enough: a search begins at P = 16"),
            (began(Why::Throughput), "throughput has shifted"),
            (began(Why::Grown), "half as many sessions again"),
            (began(Why::Time), "long ago"),
            (began(Why::Probe), "the open gate is better"),
            (
                Decision::Began { parallelism: OPEN, why: Why::Sessions },
                "a search begins at the open gate",
            ),
            (
                open(Some(sample(16, 1_010.0))),
                "stays open: no P was better by more than the noise (open 1020/s (+- 1.0 %), P = 16 1010/s (+- 2.0 %))",
            ),
            (open(None), "stays open: fewer inside give less (open 1020/s"),
            (began(Why::ServiceTime), "spend inside has shifted"),
            (began(Why::Mix), "another mix"),
            (fitted(fit, false), "400/s (+- 2.0 %) at P = 23"),
            (fitted(fit, true), "still rises there; the climb begins at P = 23"),
            (fitted(Err(Misfit::Unsaturated), false), "no curve (throughput still grows"),
            (fitted(Err(flat), false), "do not differ by more than they scatter"),
            (fitted(Err(noise), false), "known to +- 40 % only"),
            (
                Decision::Unsampled { parallelism: 2, turns: 9, seconds: 20.0 },
                "P = 2 could not be sampled (9 turns in 20 s",
            ),
            (
                Decision::Moved { from: 16, to: 24, gain: 1.1, interval: 0.015 },
                "P = 24 gives 1.100 x (+- 1.5 %) the throughput of P = 16",
            ),
            (
                settled(0.012),
                "settled at P = 24 with 990 turns/s (+- 1.2 %); the open gate gives 700 (+- 2.0 %)",
            ),
            (settled(f64::INFINITY), "990 turns/s"),
        ] {
            let text = decision(&each);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_search_that_is_given_up_says_why() {
        for (insufficient, part) in [
            (
                InsufficientData::Sessions,
                "sessions have left: the search is given up, with P = 16 as before it",
            ),
            (
                InsufficientData::Long,
                "long requests run, and short ones need their permits: the search is given up",
            ),
            (InsufficientData::Requests, "hardly a request is answered"),
        ] {
            let text = decision(&Decision::Abandoned { parallelism: 16, insufficient });
            assert!(text.contains(part), "{text}");
        }
    }
}
