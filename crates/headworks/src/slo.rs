//! Latency targets: the daemon's side of the policy. It measures the classes that have a target and
//! sets their weights.
//!
//! The region holds the weight that was found. The configured weight is only in the configuration,
//! so the daemon passes it at its start and at each reload ([`Slo::configure`]). The minimum weight
//! is derived from the configured weight. Derived from the found one, it would drift with each
//! restart.

use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bounds, percentile};
use headworks_policy::slo::{SloControl, SloLimits, SloObservation, TARGETS, Target, TargetState};
use headworks_policy::wrr::{ClassShare, Sharing};
use headworks_region::snapshot::{ClassView, Snapshot};
use headworks_region::{Mapping, Mode, State};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

const LIMITS: SloLimits = SloLimits::USUAL;

/// A window ends after this time, if it has enough requests of each class with a target; after the
/// longer time in any case.
const WINDOW_MIN: Nanos = Nanos::from_millis(1_000);
const WINDOW_MAX: Nanos = Nanos::from_millis(10_000);

/// Requests above the percentile that a window should have: a percentile from one or two requests
/// means nothing.
const BEYOND: f64 = 10.0;

/// A class and its target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SloStatus {
    /// Class.
    pub class: String,
    /// Percentile, in percent.
    pub percentile: f64,
    /// The latency target.
    pub target_ms: f64,
    /// Latency in the last window. `None` before the first one, and if nothing was answered in it.
    pub latency_ms: Option<f64>,
    /// `held`, `raising`, `bounded` (above the target, with the weight at its bound), `infeasible`
    /// or `unknown`.
    pub standing: String,
    /// For an infeasible target: measured latency over the target, in the last window.
    pub gap: Option<f64>,
    /// Current weight of the class.
    pub weight: f64,
    /// Windows that were evaluated, and those within the target.
    pub windows: u64,
    /// See `windows`.
    pub windows_held: u64,
}

/// A class keeps at least this part of its configured weight, whatever its latencies are.
const WEIGHT_KEPT: f64 = 0.25;

/// A class with a target, for as long as both stay the same.
#[derive(Debug)]
struct Controlled {
    class: u32,
    shared: bool,
    /// As the region has it: fraction and latency.
    target: Option<(f64, Nanos)>,
    /// The region's weight when its control began. Only for a class that is not in the
    /// configuration.
    weight_at_begin: f64,
    status: SloStatus,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Slo {
    before: Option<Snapshot>,
    control: SloControl,
    classes: Vec<Controlled>,
    /// The shares were computed from the busy sessions, not from all connected ones.
    known: bool,
    /// Weights of the configuration, by name of the class.
    configured: BTreeMap<String, f64>,
    /// Total weight of the classes without a target, when they last had requests; zero if they
    /// never had.
    rest: f64,
}

impl Slo {
    /// Takes the weights of the current configuration, by name of the class.
    pub fn configure(&mut self, weights: BTreeMap<String, f64>) {
        self.configured = weights;
    }

    /// Every class with a target, and its state.
    pub fn status(&self) -> Vec<SloStatus> {
        self.classes.iter().map(|class| class.status.clone()).collect()
    }

    /// Called several times a second; `now` is the latest snapshot.
    pub fn tick(&mut self, region: &Mapping, now: &Snapshot) {
        let targeted: Vec<&ClassView> =
            now.classes.iter().filter(|c| c.target.is_some()).take(TARGETS).collect();
        let settings = &now.settings;
        if targeted.is_empty() || settings.mode != Mode::Enforce || settings.off {
            let configured = std::mem::take(&mut self.configured);
            *self = Slo { configured, ..Slo::default() };
            return;
        }
        let same = self.classes.len() == targeted.len()
            && self.classes.iter().zip(&targeted).all(|(class, view)| class.is(view));
        if !same {
            self.begin(&targeted, now);
            return;
        }
        self.restore_weights(region, now);
        let Some(before) = self.before.take() else { return };
        let span = now.now.since(before.now);
        let enough = self.classes.iter().all(|class| {
            window(&before, now, class.class).is_some_and(|(counts, view)| {
                let quantile = view.target.map_or(0.0, |(quantile, _)| quantile);
                counts.iter().sum::<u64>() as f64 * (1.0 - quantile) >= BEYOND
            })
        });
        if span < WINDOW_MIN || !enough && span < WINDOW_MAX {
            self.before = Some(before);
            return;
        }
        let busy = busy(&before, now);
        self.look_at_the_rest(now, &busy);
        if !self.known {
            let found = shares(&self.numbers(), now, &busy, self.rest, |view| view.weight);
            self.control = SloControl::new(&found, &LIMITS);
            self.known = true;
        }
        let own = shares(&self.numbers(), now, &busy, self.rest, |view| self.own_weight(view));
        self.control.keep(&own);
        for (at, controlled) in self.classes.iter_mut().enumerate() {
            let Some((counts, view)) = window(&before, now, controlled.class) else { continue };
            let Some((quantile, latency)) = view.target else { continue };
            let target = Target { quantile, latency_ms: latency.as_millis_f64() };
            let observation = SloObservation {
                answered: counts.iter().sum(),
                above: above(&counts, latency),
                latency_ms: percentile(&counts, quantile).map_or(0.0, Nanos::as_millis_f64),
            };
            let standing = self.control.observe(at, target, &LIMITS, observation);
            if let Some(said) = controlled.judge(target, observation, standing) {
                crate::log::line(&said);
            }
        }
        self.set_weights(region, now, &busy);
        self.before = Some(now.clone());
    }

    fn numbers(&self) -> Vec<u32> {
        self.classes.iter().map(|class| class.class).collect()
    }

    /// The shares are set at the end of the first window.
    fn begin(&mut self, targeted: &[&ClassView], now: &Snapshot) {
        (self.known, self.rest) = (false, 0.0);
        self.classes = targeted
            .iter()
            .map(|view| Controlled {
                class: view.class,
                shared: view.shared,
                target: view.target,
                weight_at_begin: view.weight,
                status: SloStatus {
                    class: view.name.clone(),
                    standing: "unknown".to_owned(),
                    weight: view.weight,
                    percentile: view.target.map_or(0.0, |(quantile, _)| quantile * 100.0),
                    target_ms: view.target.map_or(0.0, |(_, latency)| latency.as_millis_f64()),
                    ..SloStatus::default()
                },
            })
            .collect();
        self.before = Some(now.clone());
    }

    /// Weight of a class without a target: the configuration's. If it is not there, the region's.
    fn own_weight(&self, view: &ClassView) -> f64 {
        match self.classes.iter().find(|class| class.class == view.class) {
            Some(class) => {
                self.configured.get(&view.name).copied().unwrap_or(class.weight_at_begin)
            }
            None => view.weight,
        }
    }

    /// Notes the total weight of the classes without a target. While none of their sessions has
    /// requests, the last total stays, so a session that comes back finds the same gate.
    fn look_at_the_rest(&mut self, now: &Snapshot, busy: &Busy) {
        let others = now.classes.iter().filter(|v| self.classes.iter().all(|c| c.class != v.class));
        let (wanted, one_each) = others.fold((0.0, 0.0), |(wanted, one_each), view| {
            let of = |sessions| total_weight(view, view.weight, sessions);
            (wanted + of(sessions(busy, view)), one_each + of(1))
        });
        if wanted > 0.0 {
            self.rest = wanted;
        } else if self.rest <= 0.0 {
            // No session has come yet: counts as one session of each class.
            self.rest = if one_each > 0.0 { one_each } else { 1.0 };
        }
    }

    /// Turns shares into weights. The total of the classes without a target stays as it is.
    fn set_weights(&mut self, region: &Mapping, now: &Snapshot, busy: &Busy) {
        let taken: f64 = (0..self.classes.len()).map(|at| self.control.share(at)).sum();
        let left = 1.0 - taken.min(LIMITS.share_max);
        for at in 0..self.classes.len() {
            let number = self.classes[at].class;
            let Some(view) = now.classes.iter().find(|view| view.class == number) else { continue };
            let total = self.control.share(at) / left * self.rest;
            let sessions = if view.shared { 1 } else { sessions(busy, view).max(1) };
            let kept = WEIGHT_KEPT * self.own_weight(view);
            let weight = (total / f64::from(sessions)).max(kept).clamp(0.001, 1_000.0);
            self.classes[at].status.weight = weight;
            put(region, view, weight);
        }
    }

    /// A reload has overwritten the tuned weights with the configuration's.
    fn restore_weights(&self, region: &Mapping, now: &Snapshot) {
        for controlled in &self.classes {
            if let Some(view) = now.classes.iter().find(|view| view.class == controlled.class) {
                put(region, view, controlled.status.weight);
            }
        }
    }
}

impl Controlled {
    /// Whether a class is still the one that is controlled, towards the same target. After a reload
    /// another class may have its number.
    fn is(&self, view: &ClassView) -> bool {
        (self.class, self.status.class.as_str(), self.target, self.shared)
            == (view.class, view.name.as_str(), view.target, view.shared)
    }

    /// Notes the result of a window. Returns a message if it is news.
    fn judge(
        &mut self,
        target: Target,
        observation: SloObservation,
        standing: TargetState,
    ) -> Option<String> {
        let status = &mut self.status;
        status.percentile = target.quantile * 100.0;
        status.target_ms = target.latency_ms;
        status.latency_ms = (observation.answered > 0).then_some(observation.latency_ms);
        status.gap = None;
        let name = match standing {
            TargetState::Unknown => "unknown",
            TargetState::Held => "held",
            TargetState::Raising => "raising",
            TargetState::Bounded => "bounded",
            TargetState::Infeasible(gap) => {
                status.gap = Some(gap);
                "infeasible"
            }
        };
        if standing != TargetState::Unknown {
            status.windows += 1;
            status.windows_held += u64::from(standing == TargetState::Held);
        }
        let news = status.standing != name;
        status.standing = name.to_owned();
        news.then(|| {
            let measured = match status.latency_ms {
                Some(ms) => format!("p{} {ms:.1} ms of", status.percentile),
                None => "nothing was answered; it is".to_owned(),
            };
            let mut text = format!(
                "target of class `{}`: {name}, {measured} {:.1} ms",
                status.class, status.target_ms
            );
            if let Some(gap) = status.gap {
                text += &format!(
                    ", {gap:.2} times the target: more weight does not bring it there, so the others keep theirs; \
                     {MEND} (the daemon tries it again soon after the load drops)"
                );
            }
            text
        })
    }
}

/// What to do about a target that cannot be held.
pub const MEND: &str =
    "raise latency_ms_max, or put fewer users into the class, then: headworks reload";

/// Puts a weight into force, unless it is already.
fn put(region: &Mapping, view: &ClassView, weight: f64) {
    // At most a million.
    let thousandths = (weight * 1e3).round().max(1.0) as u32;
    if thousandths != (view.weight * 1e3).round() as u32 {
        let sharing = if view.shared { Sharing::PerClass } else { Sharing::PerUser };
        let share = ClassShare::new(thousandths, sharing);
        region.set_class(view.class as usize, &view.name, thousandths, share, view.shared);
    }
}

/// Busy sessions of each class in a window. A session that is only connected takes no turns, so its
/// weight does not count.
type Busy = BTreeMap<u32, u32>;

fn busy(before: &Snapshot, now: &Snapshot) -> Busy {
    let requests: HashMap<(u32, u32), u64> = before
        .sessions
        .iter()
        .map(|session| ((session.session, session.generation), session.totals.requests))
        .collect();
    let mut busy = Busy::new();
    for session in now.sessions.iter().filter(|session| !session.bypass) {
        let past = requests.get(&(session.session, session.generation)).copied().unwrap_or(0);
        if session.totals.requests > past || session.state == State::Queued {
            *busy.entry(session.class).or_default() += 1;
        }
    }
    busy
}

fn sessions(busy: &Busy, view: &ClassView) -> u32 {
    busy.get(&view.class).copied().unwrap_or(0)
}

/// Total weight of this many sessions of a class, if the class has this weight.
fn total_weight(view: &ClassView, weight: f64, sessions: u32) -> f64 {
    match (sessions, view.shared) {
        (0, _) => 0.0,
        (_, true) => weight,
        (sessions, false) => weight * f64::from(sessions),
    }
}

/// Shares of the total weight for the classes with targets, given these weights and the `rest` of
/// the others. A class without busy sessions counts as one session, so that its weight can be
/// raised.
fn shares(
    targeted: &[u32],
    now: &Snapshot,
    busy: &Busy,
    rest: f64,
    weight: impl Fn(&ClassView) -> f64,
) -> Vec<f64> {
    let of = |view: &ClassView| total_weight(view, weight(view), sessions(busy, view).max(1));
    let find = |class: &u32| now.classes.iter().find(|view| view.class == *class);
    let weights: Vec<f64> = targeted.iter().filter_map(find).map(of).collect();
    let total = weights.iter().sum::<f64>() + rest;
    weights.into_iter().map(|weight| weight / total.max(1e-9)).collect()
}

/// Latencies of a class in a window, by bucket, and the class as it is.
fn window<'a>(
    before: &Snapshot,
    now: &'a Snapshot,
    class: u32,
) -> Option<([u64; BUCKETS], &'a ClassView)> {
    let view = now.classes.iter().find(|view| view.class == class)?;
    let past = before.classes.iter().find(|view| view.class == class)?;
    let mut counts = [0; BUCKETS];
    for (count, (now, before)) in
        counts.iter_mut().zip(view.latency.iter().zip(past.latency.iter()))
    {
        // A session that leaves may be counted late.
        *count = now.saturating_sub(*before);
    }
    Some((counts, view))
}

/// Requests above a latency; of the latency's own bucket, the part above.
fn above(counts: &[u64; BUCKETS], latency: Nanos) -> u64 {
    let mut sum = 0.0;
    for (bucket, count) in counts.iter().enumerate() {
        let (low, high) = bounds(bucket);
        let span = (high.0 - low.0) as f64;
        let part = (high.0 as f64 - latency.0 as f64) / span;
        sum += *count as f64 * part.clamp(0.0, 1.0);
    }
    sum.round() as u64
}

#[cfg(test)]
mod tests;
