//! Latency targets: the daemon's side of the policy. It measures the classes that have a target and
//! sets their weights.

use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bounds, percentile};
use headworks_policy::slo::{SloControl, SloLimits, SloSight, Standing, TARGETS, Target};
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

/// A class keeps at least this part of the weight that it had when its target was set, whatever its latencies say.
const WEIGHT_KEPT: f64 = 0.25;

#[derive(Debug)]
struct Controlled {
    class: u32,
    /// Weight when the target was set.
    own_weight: f64,
    status: SloStatus,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Slo {
    before: Option<Snapshot>,
    control: SloControl,
    classes: Vec<Controlled>,
    /// The shares rest on who was busy, not only on who was connected.
    known: bool,
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
        self.restore_weights(region, now);
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
        let busy = busy(before, now);
        if !self.known {
            self.control = SloControl::new(&shares(&targeted, now, &busy), &LIMITS);
            self.known = true;
        }
        for (at, controlled) in self.classes.iter_mut().enumerate() {
            let Some((counts, view)) = window(before, now, controlled.class) else { continue };
            let Some((quantile, latency)) = view.target else { continue };
            let target = Target { quantile, latency_ms: latency.as_millis_f64() };
            let sight = SloSight {
                answered: counts.iter().sum(),
                above: above(&counts, latency),
                latency_ms: percentile(&counts, quantile).map_or(0.0, Nanos::as_millis_f64),
            };
            let standing = self.control.look(at, target, &LIMITS, sight);
            controlled.judge(target, sight, standing);
        }
        self.set_weights(region, now, &busy);
        self.before = Some(now.clone());
    }

    /// The shares follow at the end of the first window.
    fn begin(&mut self, targeted: &[u32], now: &Snapshot) {
        self.known = false;
        self.classes = targeted
            .iter()
            .filter_map(|class| now.classes.iter().find(|view| view.class == *class))
            .map(|view| Controlled {
                class: view.class,
                own_weight: view.weight,
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
    fn set_weights(&mut self, region: &Mapping, now: &Snapshot, busy: &Busy) {
        let rest: f64 = now
            .classes
            .iter()
            .filter(|view| self.classes.iter().all(|c| c.class != view.class))
            .map(|view| total_weight(view, users(busy, view)))
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
            let users = if view.shared { 1 } else { users(busy, view).max(1) };
            let kept = WEIGHT_KEPT * controlled.own_weight;
            let weight = (total / f64::from(users)).max(kept).clamp(0.001, 1_000.0);
            controlled.status.weight = weight;
            put(region, view, weight);
        }
    }

    /// A reload has written the weights of the configuration over those that were found.
    fn restore_weights(&self, region: &Mapping, now: &Snapshot) {
        for controlled in &self.classes {
            if let Some(view) = now.classes.iter().find(|view| view.class == controlled.class) {
                put(region, view, controlled.status.weight);
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
            crate::log::line(&format!(
                "target of class `{}`: {name}, p{:.1} {:.1} ms of {:.1} ms",
                status.class, status.percentile, sight.latency_ms, status.target_ms
            ));
        }
        status.standing = name.to_owned();
    }
}

/// Puts a weight in force, if it is not.
fn put(region: &Mapping, view: &ClassView, weight: f64) {
    // At most a million.
    let thousandths = (weight * 1e3).round().max(1.0) as u32;
    if thousandths != (view.weight * 1e3).round() as u32 {
        let sharing = if view.shared { Sharing::PerClass } else { Sharing::PerUser };
        let share = ClassShare::new(thousandths, sharing);
        region.set_class(view.class as usize, &view.name, thousandths, share, view.shared);
    }
}

/// Users of each class that wanted something in a window: who is only connected takes no turns, so its weight is not
/// in the others' way.
type Busy = BTreeMap<u32, u32>;

fn busy(before: &Snapshot, now: &Snapshot) -> Busy {
    let requests: HashMap<(u32, u32), u64> = before
        .users
        .iter()
        .map(|user| ((user.user, user.generation), user.totals.requests))
        .collect();
    let mut busy = Busy::new();
    for user in now.users.iter().filter(|user| !user.bypass) {
        let past = requests.get(&(user.user, user.generation)).copied().unwrap_or(0);
        if user.totals.requests > past || user.state == State::Waiting {
            *busy.entry(user.class).or_default() += 1;
        }
    }
    busy
}

fn users(busy: &Busy, view: &ClassView) -> u32 {
    busy.get(&view.class).copied().unwrap_or(0)
}

/// Weight of so many users of a class together.
fn total_weight(view: &ClassView, users: u32) -> f64 {
    match (users, view.shared) {
        (0, _) => 0.0,
        (_, true) => view.weight,
        (users, false) => view.weight * f64::from(users),
    }
}

/// Parts of all weight that the classes with targets have by now. One that nobody uses counts as if one user did: it
/// has to have something that can be raised.
fn shares(targeted: &[u32], now: &Snapshot, busy: &Busy) -> Vec<f64> {
    let of = |view: &ClassView| {
        let least = u32::from(targeted.contains(&view.class));
        total_weight(view, users(busy, view).max(least))
    };
    let total: f64 = now.classes.iter().map(of).sum();
    let find = |class: &u32| now.classes.iter().find(|view| view.class == *class);
    targeted.iter().filter_map(find).map(|view| of(view) / total.max(1e-9)).collect()
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
    use crate::views::{class, snapshot, user};
    use headworks_policy::histogram::bucket_of;
    use headworks_region::snapshot::{Totals, UserView};

    /// Users of classes that have asked for so much by now.
    fn users(of: &[(u32, u64)]) -> Vec<UserView> {
        let user = |(number, &(class, requests)): (u32, &(u32, u64))| UserView {
            totals: Totals { requests, ..Totals::default() },
            ..user(number, class)
        };
        (0..).zip(of).map(user).collect()
    }

    #[test]
    fn shares_are_of_those_who_want_something() {
        let classes = || vec![class(0, "default", 1.0), class(1, "sensitive", 3.0)];
        let begin = [[(1, 0)].repeat(2), [(0, 0)].repeat(100)].concat();
        let mut end = begin.clone();
        // Both of the class, and six of a hundred others, of whom one only waits.
        end[..7].iter_mut().for_each(|user| user.1 = 10);
        let before = snapshot(users(&begin), classes());
        let mut now = snapshot(users(&end), classes());
        now.users[50].state = State::Waiting;
        now.users[60].bypass = true;
        now.users[60].totals.requests = 99;
        let busy = busy(&before, &now);
        assert_eq!(busy, BTreeMap::from([(0, 6), (1, 2)]));
        assert_eq!(shares(&[1], &now, &busy), [0.5]);
    }

    #[test]
    fn a_class_that_nobody_uses_has_a_share_that_can_grow() {
        let now = snapshot(Vec::new(), vec![class(0, "default", 1.0), class(1, "sensitive", 1.0)]);
        let alone = shares(&[1], &now, &BTreeMap::from([(0, 9)]));
        assert_eq!(alone, [0.1]);
        assert_eq!(shares(&[1], &now, &Busy::new()), [1.0], "nobody is there at all");
    }

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
