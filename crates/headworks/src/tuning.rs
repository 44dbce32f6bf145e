//! Automatic tuning of P: the daemon's side. It reads the region's figures, carries out the
//! policy's decisions, and keeps a record for `headworks explain parallelism`.
//!
//! # A temporary P
//! Samples, probes and trials put a temporary P into force. The region records it ([`TemporaryP`])
//! before it is in force and for as long as it is, together with the permanent P to follow. If a
//! daemon is killed meanwhile, the next one restores the permanent P. It does so only if the P in
//! force is the recorded one. So a P that an operator has set is never reverted.

mod words;

use headworks_policy::tuner::{Decision, Limits, Observation, Phase, Tuner};
use headworks_policy::{Nanos, permit};
use headworks_region::control::{Settings, TemporaryP};
use headworks_region::{Mode, Region, clock};
use serde::{Deserialize, Serialize};

/// Time over which the number of active sessions is taken: its largest value counts.
const ACTIVE_OVER: Nanos = Nanos::from_millis(2_000);

/// Decisions that are kept for `explain`.
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
    /// The curve still rises at the largest sample.
    pub rising: bool,
    /// B and γ, if the samples fit the model.
    pub parameters: Option<(f64, f64)>,
    /// Otherwise, why they do not.
    pub misfit: Option<String>,
    /// P and turns a second along the curve.
    pub curve: Vec<(u32, f64)>,
    /// The P at which the search continued.
    pub start: u32,
    /// A later search has begun since, so the load has changed.
    pub outdated: bool,
}

/// How P was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TuningReport {
    /// Whether P is tuned automatically; if not, an operator has fixed it.
    pub auto: bool,
    /// P in force.
    pub parallelism: u32,
    /// The best known P. Probes differ from it for a short time.
    pub best: u32,
    /// The search's phase.
    pub phase: String,
    /// What is being compared.
    pub measured: Vec<Measured>,
    /// Measurements of the last climb that ended.
    pub last_search: Vec<Measured>,
    /// The model's fit to the first samples.
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
    /// Whether a check is due: an earlier daemon may have been killed while a temporary P was in
    /// force.
    fresh: bool,
    /// Largest number of active sessions in the window under way and in the one before.
    active: [u32; 2],
    active_since: Nanos,
    /// Turns until that window began, and after which time a request outlasts the others by what
    /// ended in the one before.
    turns_before: u64,
    outlasts: Option<Nanos>,
    /// Turns at the latest tick, and when the latest ones ended.
    turns: u64,
    turned: Nanos,
    last_search: Vec<Measured>,
    fitted: Option<Fitted>,
    /// The search of the samples in `fitted` has settled.
    settled: bool,
    decisions: Vec<(f64, String)>,
    trial: Option<Trial>,
}

/// A P that an operator tries for a while.
#[derive(Clone, Copy, Debug)]
struct Trial {
    parallelism: u32,
    /// The region's record of it; none if it is the permanent P.
    temporary: Option<TemporaryP>,
    until: Nanos,
}

/// Puts a P into force. If `permanent` differs from it, the P is temporary and `permanent` is to
/// follow. `false` if the settings were changed since they were `seen`.
fn put(region: &Region, seen: &Settings, parallelism: u32, permanent: u32) -> bool {
    let temporary = (parallelism != permanent).then_some(TemporaryP { parallelism, permanent });
    let mut seen = *seen;
    if temporary.is_some()
        && region.heartbeat.temporary_p().is_some()
        && seen.parallelism != permanent
    {
        // Switch between two temporary values of P via the permanent one. The record of the new
        // temporary value is written before the value itself. A crash in between would otherwise
        // leave the old temporary value in force with no record that it is temporary.
        if !region.tune_parallelism(&seen, permanent) {
            return false;
        }
        seen.parallelism = permanent;
    }
    if temporary.is_some() {
        region.heartbeat.set_temporary_p(temporary);
    }
    let done = region.tune_parallelism(&seen, parallelism);
    if temporary.is_none() && done || standing(region, &region.control.settings()).is_none() {
        region.heartbeat.set_temporary_p(None);
    }
    done
}

/// Restores the permanent P, if a temporary one is in force.
fn restore(region: &Region) {
    let settings = region.control.settings();
    if let Some(temporary) = standing(region, &settings) {
        region.tune_parallelism(&settings, temporary.permanent);
    }
    region.heartbeat.set_temporary_p(None);
}

/// The region's record of the P in force, if it is temporary.
fn standing(region: &Region, settings: &Settings) -> Option<TemporaryP> {
    region.heartbeat.temporary_p().filter(|temporary| temporary.parallelism == settings.parallelism)
}

impl Tuning {
    /// Nothing is known yet.
    pub fn new() -> Tuning {
        Tuning {
            tuner: None,
            began: clock::now(),
            seen: 0,
            fresh: true,
            active: [0; 2],
            active_since: Nanos(0),
            turns_before: 0,
            outlasts: None,
            turns: 0,
            turned: Nanos(0),
            last_search: Vec::new(),
            fitted: None,
            settled: false,
            decisions: Vec::new(),
            trial: None,
        }
    }

    /// Puts a P into force until `until`; the search rests meanwhile. `false` if the settings were
    /// changed at the same moment.
    pub fn try_out(&mut self, region: &Region, parallelism: u32, until: Nanos) -> bool {
        self.take_over(region);
        let settings = region.control.settings();
        // A trial during another trial, or during a search, ends with the permanent P.
        let back = standing(region, &settings).map_or(settings.parallelism, |each| each.permanent);
        if !put(region, &settings, parallelism, back) {
            return false;
        }
        let temporary = region.heartbeat.temporary_p();
        self.trial = Some(Trial { parallelism, temporary, until });
        true
    }

    /// Whether a trial is running. At its end the earlier P is in force again, unless an operator
    /// has set another meanwhile.
    fn trying(&mut self, region: &Region, now: Nanos) -> bool {
        let Some(trial) = self.trial else { return false };
        let settings = region.control.settings();
        let untouched = settings.parallelism == trial.parallelism
            && standing(region, &settings) == trial.temporary;
        if untouched && now < trial.until {
            return true;
        }
        self.trial = None;
        restore(region);
        if let Some(tuner) = &mut self.tuner {
            tuner.resume(now, trial.parallelism);
        }
        false
    }

    /// Reverts a temporary P that an earlier daemon left.
    fn take_over(&mut self, region: &Region) {
        if std::mem::take(&mut self.fresh) {
            restore(region);
        }
    }

    /// Ends the search, if one runs, with the P that it held.
    pub fn end(&mut self, region: &Region) {
        let (tuner, trial) = (self.tuner.take(), self.trial.take());
        if tuner.is_some() || trial.is_some() {
            restore(region);
        }
    }

    /// Whether a temporary P is in force, or about to be.
    pub fn tries(&self) -> bool {
        let tries = |tuner: &Tuner| {
            let searches = !matches!(tuner.phase(), Phase::Waiting | Phase::Holding);
            searches || tuner.parallelism() != tuner.held()
        };
        self.tuner.as_ref().is_some_and(tries)
    }

    /// Called several times a second.
    pub fn tick(&mut self, region: &Region, now: Nanos) {
        self.take_over(region);
        if self.trying(region, now) {
            return;
        }
        let settings = region.control.settings();
        if !settings.auto || settings.off || settings.mode != Mode::Enforce {
            self.end(region);
            return;
        }
        let limits = Limits {
            most: crate::config::OPEN,
            cores: crate::config::cores(),
            ..Limits::default()
        };
        let work = region.work();
        let long = self.long(region, now, work.turns);
        let tuner = self.tuner.get_or_insert_with(|| {
            self.seen = 0;
            Tuner::new(limits, settings.parallelism)
        });
        let before = tuner.phase();
        let measured: Vec<Measured> = measured(tuner);
        let parallelism = tuner.observe(Observation {
            now,
            completed: work.turns,
            requests: work.requests,
            run: work.run,
            sessions: self.active[0].max(self.active[1]),
            long,
        });
        match (before, tuner.phase()) {
            (Phase::Climbing, Phase::Comparing | Phase::Holding) => self.last_search = measured,
            // The comparison has better figures for these two.
            (Phase::Comparing, Phase::Holding) => {
                let again =
                    |each: &Measured| measured.iter().any(|m| m.parallelism == each.parallelism);
                self.last_search.retain(|each| !again(each));
                self.last_search.extend(measured);
                self.last_search.sort_by_key(|each| each.parallelism);
            }
            _ => {}
        }
        let held = tuner.held();
        // P may be in force already, but as a sample; it becomes permanent.
        let same = standing(region, &settings).map_or(settings.parallelism, |each| each.permanent);
        if parallelism != settings.parallelism || same != held {
            put(region, &settings, parallelism, held);
        }
        self.keep(now);
    }

    /// Sessions whose request outlasts those of the others. The others are counted as active.
    fn long(&mut self, region: &Region, now: Nanos, turns: u64) -> u32 {
        if turns != self.turns {
            (self.turns, self.turned) = (turns, now);
        }
        // Time without a turn does not count: while a disk flushes, no request outlasts another.
        let outlasting = |after| region.outlasting(self.turned, after);
        let long = self.outlasts.map_or(0, outlasting);
        let window = now.since(self.active_since);
        if window > ACTIVE_OVER {
            let ended = turns.saturating_sub(self.turns_before) as f64;
            self.outlasts = permit::outlasts(self.active[0], ended * 1e9 / window.0 as f64);
            (self.turns_before, self.active_since) = (turns, now);
            self.active = [0, self.active[0]];
        }
        self.active[0] = self.active[0].max(region.active().saturating_sub(long));
        long
    }

    fn keep(&mut self, now: Nanos) {
        let Some(tuner) = &self.tuner else { return };
        let (latest, total) = tuner.decisions();
        let latest: Vec<Decision> = latest.copied().collect();
        let fresh = total.saturating_sub(self.seen).min(latest.len() as u64) as usize;
        self.seen = total;
        for decision in &latest[latest.len() - fresh..] {
            // A wide probe with a better result begins a climb, which is not a decision. The
            // climb's end reports one.
            let ends = matches!(decision, Decision::Settled { .. } | Decision::Open { .. });
            let again = ends && std::mem::replace(&mut self.settled, true);
            if again || matches!(decision, Decision::Began { .. }) {
                self.fitted.iter_mut().for_each(|fitted| fitted.outdated = true);
            }
            if let Decision::Fitted { samples, intervals, fit, rising, start } = decision {
                self.settled = false;
                let most = samples[2].parallelism;
                self.fitted = Some(Fitted {
                    samples: samples.iter().map(|s| (s.parallelism, s.throughput_per_s)).collect(),
                    parameters: fit.ok().map(|curve| (curve.b, curve.gamma)),
                    misfit: fit.err().map(|misfit| words::misfit(&misfit)),
                    curve: fit.map_or_else(
                        |_| Vec::new(),
                        |curve| (1..=most).map(|p| (p, curve.throughput_per_s(p))).collect(),
                    ),
                    intervals: intervals.to_vec(),
                    rising: *rising,
                    start: *start,
                    outdated: false,
                });
            }
            let seconds = now.since(self.began).as_millis_f64() / 1e3;
            let text = words::decision(decision);
            crate::log::line(&format!("parallelism: {text}"));
            self.decisions.push((seconds, text));
        }
        let surplus = self.decisions.len().saturating_sub(KEPT);
        self.decisions.drain(..surplus);
    }

    /// For `headworks explain parallelism`.
    pub fn report(&self, region: &Region) -> TuningReport {
        let settings = region.control.settings();
        let (phase, best, measured) = match &self.tuner {
            Some(tuner) => (words::phase(tuner.phase()), tuner.center(), measured(tuner)),
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

#[cfg(test)]
mod tests;
