//! P finds itself: the daemon's side of the tuner. It takes the figures out of the region, carries
//! out what the policy decides, and keeps a record for `headworks explain parallelism`.

use headworks_policy::Nanos;
use headworks_policy::matching::Misfit;
use headworks_policy::tuner::{Decision, Limits, Phase, Sight, Tuner, Why};
use headworks_region::control::Settings;
use headworks_region::{Mapping, Mode, clock};
use serde::{Deserialize, Serialize};

/// Time over which the number of active users is taken: its largest value counts.
const ACTIVE_OVER: Nanos = Nanos::from_millis(2_000);

/// Decisions that are kept for people.
const KEPT: usize = 64;

/// What was measured at a P.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// P.
    pub parallelism: u32,
    /// Turns (transactions) a second.
    pub turns_per_s: f64,
    /// Half of the 95 % confidence interval, relative; `None` while there are too few slices.
    pub interval: Option<f64>,
    /// Slices that were measured.
    pub slices: u32,
}

/// The curve of the model (AppleS, Eq. 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// P and turns a second of the three samples.
    pub samples: Vec<(u32, f64)>,
    /// Half of the 95 % confidence interval of each, relative to it.
    pub intervals: Vec<f64>,
    /// The curve still rises at the largest of them.
    pub rising: bool,
    /// B and γ, if the samples fit the model.
    pub parameters: Option<(f64, f64)>,
    /// Why they do not, otherwise.
    pub misfit: Option<String>,
    /// P and turns a second along the curve.
    pub curve: Vec<(u32, f64)>,
    /// Where the search went on from there.
    pub start: u32,
}

/// Everything that can be said about how P was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TuningReport {
    /// Whether P is looked for at all; if not, an operator has fixed it.
    pub auto: bool,
    /// P in force.
    pub parallelism: u32,
    /// P that is held to be best; probes differ from it for a moment.
    pub best: u32,
    /// What the search is at.
    pub phase: String,
    /// What is being compared.
    pub measured: Vec<Measured>,
    /// What the climb that ended last had measured.
    pub last_search: Vec<Measured>,
    /// What the model made of the first samples.
    pub fitted: Option<Fitted>,
    /// Decisions, oldest first: seconds since the daemon began, and what was decided.
    pub decisions: Vec<(f64, String)>,
}

/// See the module.
#[derive(Debug)]
pub struct Tuning {
    tuner: Option<Tuner>,
    began: Nanos,
    seen: u64,
    /// Largest number of active users in the window under way and in the one before.
    active: [u32; 2],
    active_since: Nanos,
    last_search: Vec<Measured>,
    fitted: Option<Fitted>,
    decisions: Vec<(f64, String)>,
    trial: Option<Trial>,
}

/// A P that an operator tries for a moment.
#[derive(Clone, Copy, Debug)]
struct Trial {
    parallelism: u32,
    /// P before.
    before: u32,
    until: Nanos,
}

impl Tuning {
    /// Nothing is known yet.
    pub fn new() -> Tuning {
        Tuning {
            tuner: None,
            began: clock::now(),
            seen: 0,
            active: [0; 2],
            active_since: Nanos(0),
            last_search: Vec::new(),
            fitted: None,
            decisions: Vec::new(),
            trial: None,
        }
    }

    /// Puts a P in force until `until`; the search, if there is one, rests meanwhile. `false` if the region
    /// was busy.
    pub fn try_out(&mut self, region: &Mapping, parallelism: u32, until: Nanos) -> bool {
        let settings = region.control.settings();
        // One trial after another leads back to where the first began, unless an operator has set P since.
        let under_way = self.trial.filter(|trial| trial.parallelism == settings.parallelism);
        let before = under_way.map_or(settings.parallelism, |trial| trial.before);
        self.trial = Some(Trial { parallelism, before, until });
        region.apply(&Settings { parallelism, ..settings })
    }

    /// Whether a trial is under way. At its end the P before it is in force again, unless an operator has set
    /// another one meanwhile.
    fn trying(&mut self, region: &Mapping, now: Nanos) -> bool {
        let Some(trial) = self.trial else { return false };
        let settings = region.control.settings();
        let untouched = settings.parallelism == trial.parallelism;
        if untouched && now < trial.until {
            return true;
        }
        self.trial = None;
        if untouched {
            region.apply(&Settings { parallelism: trial.before, ..settings });
        }
        if let Some(tuner) = &mut self.tuner {
            tuner.resume(now);
        }
        false
    }

    /// Looks, several times a second.
    pub fn tick(&mut self, region: &Mapping, now: Nanos) {
        if self.trying(region, now) {
            return;
        }
        let settings = region.control.settings();
        if !settings.auto || settings.off || settings.mode != Mode::Enforce {
            self.tuner = None;
            return;
        }
        let limits = Limits {
            most: headworks_region::control::TOKENS as u32,
            cores: crate::config::cores(),
            ..Limits::default()
        };
        let tuner = self.tuner.get_or_insert_with(|| {
            self.seen = 0;
            Tuner::new(limits, settings.parallelism)
        });
        if now.since(self.active_since) > ACTIVE_OVER {
            self.active = [0, self.active[0]];
            self.active_since = now;
        }
        self.active[0] = self.active[0].max(region.active());
        let work = region.work();
        let before = tuner.phase();
        let measured: Vec<Measured> = measured(tuner);
        let parallelism = tuner.look(Sight {
            now,
            completed: work.turns,
            requests: work.requests,
            run: work.run,
            users: self.active[0].max(self.active[1]),
        });
        if before == Phase::Climbing && tuner.phase() == Phase::Holding {
            self.last_search = measured;
        }
        if parallelism != settings.parallelism {
            region.tune(parallelism);
        }
        self.keep(now);
    }

    fn keep(&mut self, now: Nanos) {
        let Some(tuner) = &self.tuner else { return };
        let (latest, total) = tuner.decisions();
        let latest: Vec<Decision> = latest.copied().collect();
        let fresh = total.saturating_sub(self.seen).min(latest.len() as u64) as usize;
        self.seen = total;
        for decision in &latest[latest.len() - fresh..] {
            if let Decision::Fitted { samples, intervals, fit, rising, start } = decision {
                let most = samples[2].parallelism;
                self.fitted = Some(Fitted {
                    samples: samples.iter().map(|s| (s.parallelism, s.throughput_per_s)).collect(),
                    parameters: fit.ok().map(|curve| (curve.b, curve.gamma)),
                    misfit: fit.err().map(|misfit| misfit_text(&misfit)),
                    curve: fit.map_or_else(
                        |_| Vec::new(),
                        |curve| (1..=most).map(|p| (p, curve.throughput_per_s(p))).collect(),
                    ),
                    intervals: intervals.to_vec(),
                    rising: *rising,
                    start: *start,
                });
            }
            let seconds = now.since(self.began).as_millis_f64() / 1e3;
            let text = decision_text(decision);
            crate::log::line(&format!("parallelism: {text}"));
            self.decisions.push((seconds, text));
        }
        let surplus = self.decisions.len().saturating_sub(KEPT);
        self.decisions.drain(..surplus);
    }

    /// For `headworks explain parallelism`.
    pub fn report(&self, region: &Mapping) -> TuningReport {
        let settings = region.control.settings();
        let (phase, best, measured) = match &self.tuner {
            Some(tuner) => (phase_name(tuner.phase()), tuner.center(), measured(tuner)),
            None => ("fixed", settings.parallelism, Vec::new()),
        };
        let phase = match self.trial {
            Some(trial) => {
                let left_s = trial.until.since(clock::now()).as_millis_f64() / 1e3;
                format!("a trial for another {left_s:.1} s, then {phase}")
            }
            None => phase.to_owned(),
        };
        TuningReport {
            auto: settings.auto,
            parallelism: settings.parallelism,
            best,
            phase,
            measured,
            last_search: self.last_search.clone(),
            fitted: self.fitted.clone(),
            decisions: self.decisions.clone(),
        }
    }
}

fn measured(tuner: &Tuner) -> Vec<Measured> {
    let mut measured: Vec<Measured> = tuner
        .measured()
        .filter(|(_, _, _, slices)| *slices > 0)
        .map(|(parallelism, turns_per_s, interval, slices)| Measured {
            parallelism,
            turns_per_s,
            interval: interval.is_finite().then_some(interval),
            slices,
        })
        .collect();
    measured.sort_by_key(|each| each.parallelism);
    measured
}

/// For people.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for more users",
        Phase::Sampling => "sampling",
        Phase::Climbing => "climbing",
        Phase::Holding => "holding",
    }
}

fn misfit_text(misfit: &Misfit) -> String {
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

fn decision_text(decision: &Decision) -> String {
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
                Err(misfit) => format!("no curve ({})", misfit_text(misfit)),
            };
            let rising = if *rising { ", which still rises there" } else { "" };
            format!("{}: {why}{rising}; the climb begins at P = {start}", samples.join(", "))
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
        for (decision, part) in [
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
                Decision::Moved { from: 16, to: 24, gain: 1.1, interval: 0.015 },
                "P = 24 gives 1.100 x (+- 1.5 %) the throughput of P = 16",
            ),
            (settled(0.012), "settled at P = 24 with 990 turns/s (+- 1.2 %)"),
            (settled(f64::INFINITY), "990 turns/s"),
        ] {
            let text = decision_text(&decision);
            assert!(text.contains(part), "{text}");
        }
    }
}
