//! What the tuner is at and what it decides, in words.

use headworks_policy::matching::Misfit;
use headworks_policy::tuner::{Decision, Lack, Phase, Why};

/// What it is at.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for more users or requests",
        Phase::Sampling => "sampling",
        Phase::Climbing => "climbing",
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

/// What was decided.
pub(super) fn decision(decision: &Decision) -> String {
    match decision {
        Decision::Began { parallelism, why } => {
            let why = match why {
                Why::Users => "there are users enough",
                Why::Throughput => "throughput has shifted",
                Why::ServiceTime => "the time that turns spend inside has shifted",
                Why::Mix => "the length of turns, in requests, has shifted: another mix",
            };
            format!("{why}: a search begins at P = {parallelism}")
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
            "P = {parallelism} could not be sampled ({turns} turns in {seconds:.0} s say nothing of it): \
             no curve, and the climb begins at what was held"
        ),
        Decision::Abandoned { parallelism, lack } => {
            let lack = match lack {
                Lack::Users => "most users have left",
                Lack::Requests => "hardly a request is answered",
            };
            format!("{lack}: the search is given up, with P = {parallelism} as before it")
        }
        Decision::Moved { from, to, gain, interval } => {
            format!("P = {to} gives {gain:.3} x{} the throughput of P = {from}", known(*interval))
        }
        Decision::Settled { parallelism, throughput_per_s, interval } => {
            let known = known(*interval);
            format!("settled at P = {parallelism} with {throughput_per_s:.0} turns/s{known}")
        }
    }
}

/// How well something is known (half of the 95 % confidence interval), to follow a number.
fn known(interval: f64) -> String {
    if interval.is_finite() { format!(" (+- {:.1} %)", interval * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_policy::matching::Sample;

    #[test]
    fn every_decision_is_said_in_words() {
        let sample = |parallelism, throughput_per_s| Sample { parallelism, throughput_per_s };
        let samples = [sample(2, 100.0), sample(23, 400.0), sample(256, 300.0)];
        let fit = headworks_policy::matching::fit(samples);
        let intervals = [0.01, 0.02, 0.03];
        let fitted = |fit, rising| Decision::Fitted { samples, intervals, fit, rising, start: 23 };
        let began = |why| Decision::Began { parallelism: 16, why };
        let (flat, noise) = (Misfit::Flat, Misfit::Noise { interval: 0.4 });
        let settled =
            |interval| Decision::Settled { parallelism: 24, throughput_per_s: 990.0, interval };
        for (each, part) in [
            (began(Why::Users), "users enough: a search begins at P = 16"),
            (began(Why::Throughput), "throughput has shifted"),
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
                Decision::Abandoned { parallelism: 16, lack: Lack::Users },
                "users have left: the search is given up, with P = 16",
            ),
            (
                Decision::Abandoned { parallelism: 16, lack: Lack::Requests },
                "hardly a request is answered",
            ),
            (
                Decision::Moved { from: 16, to: 24, gain: 1.1, interval: 0.015 },
                "P = 24 gives 1.100 x (+- 1.5 %) the throughput of P = 16",
            ),
            (settled(0.012), "settled at P = 24 with 990 turns/s (+- 1.2 %)"),
            (settled(f64::INFINITY), "990 turns/s"),
        ] {
            let text = decision(&each);
            assert!(text.contains(part), "{text}");
        }
    }
}
