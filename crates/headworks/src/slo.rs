//! Latency targets: the daemon's side of the policy. It measures the classes that have a target and
//! sets their weights.

use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bounds, percentile};
use headworks_policy::slo::{SloControl, SloLimits, SloSight, Standing, TARGETS, Target};
use headworks_policy::wrr::{ClassShare, Sharing};
use headworks_region::snapshot::{ClassView, Snapshot};
use headworks_region::{Mapping, Mode};
use serde::{Deserialize, Serialize};

/// A window ends after this time, if it has enough requests of each class with a target; after the
/// longer time in any case.
const WINDOW_MIN: Nanos = Nanos::from_millis(1_000);
const WINDOW_MAX: Nanos = Nanos::from_millis(10_000);

/// Requests beyond the percentile that a window should have: one that rests on one or two requests
/// says nothing.
const BEYOND: f64 = 10.0;

/// How a class stands against its target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SloStatus {
    /// Class.
    pub class: String,
    /// Percentile, in percent.
    pub percentile: f64,
    /// Latency that it may have.
    pub target_ms: f64,
    /// Latency that it had in the last window; `None` before the first one.
    pub latency_ms: Option<f64>,
    /// `held`, `raising`, `infeasible` or `unknown`.
    pub standing: String,
    /// Of an infeasible target: measured over target.
    pub gap: Option<f64>,
    /// Weight that the class has by now.
    pub weight: f64,
    /// Windows that were judged, and those of them within the target.
    pub windows: u64,
    /// See `windows`.
    pub windows_held: u64,
}

#[derive(Debug)]
struct Controlled {
    class: u32,
    status: SloStatus,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Slo {
    before: Option<Snapshot>,
    control: SloControl,
    classes: Vec<Controlled>,
}

impl Slo {
    /// How every class with a target stands.
    pub fn status(&self) -> Vec<SloStatus> {
        self.classes.iter().map(|class| class.status.clone()).collect()
    }

    /// Looks, several times a second; `now` is the latest snapshot.
    pub fn tick(&mut self, region: &Mapping, now: &Snapshot) {
        let targeted: Vec<u32> = now
            .classes
            .iter()
            .filter(|c| c.target.is_some())
            .map(|c| c.class)
            .take(TARGETS)
            .collect();
        let settings = &now.settings;
        if targeted.is_empty() || settings.mode != Mode::Enforce || settings.off {
            *self = Slo::default();
            return;
        }
        if self.classes.iter().map(|c| c.class).ne(targeted.iter().copied()) {
            self.begin(&targeted, now);
            return;
        }
        let Some(before) = &self.before else { return };
        let span = now.now.since(before.now);
        let enough = targeted.iter().all(|class| {
            window(before, now, *class).is_some_and(|(counts, view)| {
                let quantile = view.target.map_or(0.0, |(quantile, _)| quantile);
                counts.iter().sum::<u64>() as f64 * (1.0 - quantile) >= BEYOND
            })
        });
        if span < WINDOW_MIN || !enough && span < WINDOW_MAX {
            return;
        }
        let limits = SloLimits::default();
        for (at, controlled) in self.classes.iter_mut().enumerate() {
            let Some((counts, view)) = window(before, now, controlled.class) else { continue };
            let Some((quantile, latency)) = view.target else { continue };
            let target = Target { quantile, latency_ms: latency.as_millis_f64() };
            let sight = SloSight {
                answered: counts.iter().sum(),
                above: above(&counts, latency),
                latency_ms: percentile(&counts, quantile).map_or(0.0, Nanos::as_millis_f64),
            };
            let standing = self.control.look(at, target, &limits, sight);
            controlled.judge(target, sight, standing);
        }
        self.set_weights(region, now);
        self.before = Some(now.clone());
    }

    fn begin(&mut self, targeted: &[u32], now: &Snapshot) {
        let total: f64 = now.classes.iter().map(total_weight).sum();
        let shares: Vec<f64> = targeted
            .iter()
            .filter_map(|class| now.classes.iter().find(|view| view.class == *class))
            .map(|view| if total > 0.0 { total_weight(view) / total } else { 0.1 })
            .collect();
        self.control = SloControl::new(&shares);
        self.classes = targeted
            .iter()
            .filter_map(|class| now.classes.iter().find(|view| view.class == *class))
            .map(|view| Controlled {
                class: view.class,
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

    /// Shares become weights: what the classes without a target have together stays as it is.
    fn set_weights(&mut self, region: &Mapping, now: &Snapshot) {
        let rest: f64 = now
            .classes
            .iter()
            .filter(|view| self.classes.iter().all(|c| c.class != view.class))
            .map(total_weight)
            .sum();
        let taken: f64 = (0..self.classes.len()).map(|at| self.control.share(at)).sum();
        if rest <= 0.0 || taken >= 1.0 {
            return;
        }
        for (at, controlled) in self.classes.iter_mut().enumerate() {
            let Some(view) = now.classes.iter().find(|view| view.class == controlled.class) else {
                continue;
            };
            let total = self.control.share(at) / (1.0 - taken) * rest;
            let users = if view.shared { 1.0 } else { f64::from(view.users.max(1)) };
            let weight = (total / users).clamp(0.001, 1_000.0);
            controlled.status.weight = weight;
            let thousandths = (weight * 1e3).round().max(1.0) as u32;
            if thousandths != (view.weight * 1e3).round() as u32 {
                let sharing = if view.shared { Sharing::PerClass } else { Sharing::PerUser };
                let share = ClassShare::new(thousandths, sharing);
                region.set_class(view.class as usize, &view.name, thousandths, share, view.shared);
            }
        }
    }
}

impl Controlled {
    fn judge(&mut self, target: Target, sight: SloSight, standing: Standing) {
        let status = &mut self.status;
        status.percentile = target.quantile * 100.0;
        status.target_ms = target.latency_ms;
        status.gap = None;
        let name = match standing {
            Standing::Unknown => "unknown",
            Standing::Held => "held",
            Standing::Raising => "raising",
            Standing::Infeasible(gap) => {
                status.gap = Some(gap);
                "infeasible"
            }
        };
        if standing != Standing::Unknown {
            status.latency_ms = Some(sight.latency_ms);
            status.windows += 1;
            status.windows_held += u64::from(standing == Standing::Held);
        }
        if status.standing != name {
            eprintln!(
                "headworks: target of class `{}`: {name}, p{:.1} {:.1} ms of {:.1} ms",
                status.class, status.percentile, sight.latency_ms, status.target_ms
            );
        }
        status.standing = name.to_owned();
    }
}

/// Weight of all users of a class together.
fn total_weight(view: &ClassView) -> f64 {
    match (view.users, view.shared) {
        (0, _) => 0.0,
        (_, true) => view.weight,
        (users, false) => view.weight * f64::from(users),
    }
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
        // A user that leaves may be counted late.
        *count = now.saturating_sub(*before);
    }
    Some((counts, view))
}

/// Requests above a latency; of the bucket in which it lies, the part above.
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
mod tests {
    use super::*;
    use headworks_policy::histogram::bucket_of;

    #[test]
    fn requests_above_a_latency_are_counted_within_their_bucket() {
        let mut counts = [0; BUCKETS];
        counts[bucket_of(Nanos::from_millis(10))] = 90;
        counts[bucket_of(Nanos::from_millis(100))] = 10;
        assert_eq!(above(&counts, Nanos::from_millis(60)), 10);
        assert_eq!(above(&counts, Nanos::from_millis(1_000)), 0);
        let (low, high) = bounds(bucket_of(Nanos::from_millis(100)));
        assert_eq!(above(&counts, Nanos((low.0 + high.0) / 2)), 5);
    }
}
