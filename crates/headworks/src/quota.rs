//! The largest ζ that the bounds of fairness and variation allow: the daemon's side of the policy.
//!
//! A window lasts until the sessions of each class could have had enough turns to tell unfairness
//! from chance ([`QuotaLimits::ends`]). A class with too few turns, because its statements take
//! minutes, tells nothing about ζ. The window does not wait for it.
//!
//! A window may be as short as a scheduling round of AppleS, 100 ms. Whole snapshots that often
//! would cost too much with thousands of sessions. The daemon takes one each half second. Between
//! them it takes another only if the window can be over by then ([`Quota::is_due`]).

use headworks_policy::Nanos;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_policy::quota::{QuotaControl, QuotaLimits, QuotaObservation};
use headworks_region::control::Settings;
use headworks_region::snapshot::{ClassView, SessionView, Snapshot};
use headworks_region::{Mapping, Mode, State};
use std::collections::HashMap;

/// Part of a window for which a session must have had an open request to count. Between the
/// statements of a transaction the client thinks, too.
const BACKLOGGED: f64 = 0.5;

/// Largest ζ, as in a configuration.
const MOST: f64 = 1_048_576.0;

/// Most snapshots of an unfinished window, beyond the daemon's own.
const EXTRA_SNAPSHOTS_MAX: u32 = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Quota {
    window: Option<Under>,
    control: QuotaControl,
}

/// The window under way.
#[derive(Debug)]
struct Under {
    before: Snapshot,
    /// Turns of the region when the window began.
    turns: u64,
    /// Turns of the region for each turn of a mean session in the class that has the fewest, as
    /// last measured.
    pace: f64,
    /// Snapshots that found the window unfinished.
    looks: u32,
}

impl Quota {
    /// Whether the window can be over, so that a snapshot is worth its price. Decided by the time
    /// passed and by `turns`, the number of turns that have ended in the region. `turns` is called
    /// only if the time does not decide.
    pub fn is_due(&self, settings: &Settings, now: Nanos, turns: impl FnOnce() -> u64) -> bool {
        let (Some(limits), Some(under)) = (limits(settings), &self.window) else { return false };
        let lasted = now.since(under.before.now);
        // Even unlimited turns would not end it: it has not lasted for long enough.
        if under.looks >= EXTRA_SNAPSHOTS_MAX || !limits.ends(lasted, f64::INFINITY) {
            return false;
        }
        let ended = turns().saturating_sub(under.turns) as f64;
        limits.ends(lasted, ended / under.pace.max(1.0))
    }

    /// Evaluates the window. `now` is the latest snapshot, and `turns` have ended in the region so
    /// far.
    pub fn tick(&mut self, region: &Mapping, now: &Snapshot, turns: u64) {
        let settings = &now.settings;
        let Some(limits) = limits(settings) else {
            *self = Quota::default();
            return;
        };
        let Some(under) = &mut self.window else {
            self.control = QuotaControl::new(f64::from(settings.zeta));
            self.window = Some(Under { before: now.clone(), turns, pace: 1.0, looks: 0 });
            return;
        };
        let window = Window::new(&under.before, now);
        let limits = QuotaLimits { increase: window.step(), ..limits };
        let least = window.turns_least();
        // A class without a turn so far may have to be waited for until the end.
        under.pace = turns.saturating_sub(under.turns) as f64 / least;
        if !limits.ends(now.now.since(under.before.now), least) {
            under.looks += 1;
            return;
        }
        let observation = window.observation(&limits);
        let zeta = self.control.observe(&limits, observation).round() as u32;
        *under = Under { before: now.clone(), turns, pace: under.pace, looks: 0 };
        if zeta != settings.zeta {
            region.tune_quota(zeta);
        }
    }
}

/// The bounds, if there are any and the mode holds sessions.
fn limits(settings: &Settings) -> Option<QuotaLimits> {
    let bounds = [settings.unfairness_max_mille, settings.latency_cv_max_mille];
    let wanted = bounds != [0, 0] && settings.mode == Mode::Enforce && !settings.off;
    wanted.then(|| QuotaLimits {
        unfairness_max: f64::from(bounds[0]) / 1e3,
        variability_max: f64::from(bounds[1]) / 1e3,
        most: MOST,
        ..QuotaLimits::default()
    })
}

/// Weight of one session of a class. `wanting` is the number of busy sessions of the class. A class
/// that shares its weight divides it among its busy sessions only.
pub fn weight_of_each(now: &Snapshot, class: u32, wanting: f64) -> f64 {
    let view = now.classes.iter().find(|view| view.class == class);
    let each = |view: &ClassView| {
        if view.shared { view.weight / wanting.max(1.0) } else { view.weight }
    };
    view.map_or(1.0, each).max(1e-6)
}

/// Time for which a session had an open request since `past` was taken at `from`: answered
/// requests, without their part before, and the open one. Requests that were answered together each
/// count the whole time, so a session with long pipelines counts as backlogged sooner.
fn wanted(past: &SessionView, session: &SessionView, from: Nanos, until: Nanos) -> Nanos {
    let answered = |session: &SessionView| session.totals.wait + session.totals.run;
    let open = |session: &SessionView, at: Nanos| {
        let is =
            matches!(session.state, State::Queued | State::Running | State::Owed | State::Passing);
        if is { at.since(session.arrived) } else { Nanos(0) }
    };
    (answered(session) + open(session, until)).since(answered(past) + open(past, from))
}

/// Sessions of a class that were busy most of the time.
#[derive(Default)]
struct OfClass {
    turns: u64,
    requests: u64,
    /// Requests for each weight, and variation of latencies, of each session.
    shares: Vec<f64>,
    variations: Vec<Option<f64>>,
    /// Busy sessions at a time; each occasional one counts for its part.
    wanting: f64,
}

impl OfClass {
    /// Turns of a mean session.
    fn turns_each(&self) -> f64 {
        self.turns as f64 / self.shares.len().max(1) as f64
    }
}

struct Window(HashMap<u32, OfClass>);

impl Window {
    /// Over sessions that were backlogged most of the time, as U_f requires. A session that was
    /// queued for the whole window counts with 0 requests. A session that is idle more than half of
    /// it is left out: it does not want its full share.
    fn new(before: &Snapshot, now: &Snapshot) -> Window {
        let earlier: HashMap<(u32, u32), &SessionView> = before
            .sessions
            .iter()
            .map(|session| ((session.session, session.generation), session))
            .collect();
        let span = now.now.since(before.now).0 as f64;
        let mut classes: HashMap<u32, OfClass> = HashMap::new();
        let mut now_and_then: HashMap<u32, f64> = HashMap::new();
        for session in now.sessions.iter().filter(|session| !session.bypass) {
            let Some(past) = earlier.get(&(session.session, session.generation)) else { continue };
            let part = wanted(past, session, before.now, now.now).0 as f64 / span;
            if part < BACKLOGGED {
                *now_and_then.entry(session.class).or_default() += part;
                continue;
            }
            let class = classes.entry(session.class).or_default();
            class.wanting += 1.0;
            let requests = session.totals.requests.saturating_sub(past.totals.requests);
            class.requests += requests;
            class.turns += session.totals.turns.saturating_sub(past.totals.turns);
            class.shares.push(requests as f64);
            let (sum, squares) = (
                session.latency_ms.0 - past.latency_ms.0,
                session.latency_ms.1 - past.latency_ms.1,
            );
            class.variations.push(coefficient_of_variation(requests, sum, squares));
        }
        for (number, class) in &mut classes {
            class.wanting += now_and_then.get(number).copied().unwrap_or(0.0);
            let weight = weight_of_each(now, *number, class.wanting);
            class.shares.iter_mut().for_each(|requests| *requests /= weight);
        }
        Window(classes)
    }

    fn sessions(&self) -> usize {
        self.0.values().map(|class| class.shares.len()).sum()
    }

    /// Turns of a mean session of the class that had the fewest.
    fn turns_least(&self) -> f64 {
        self.0.values().map(OfClass::turns_each).reduce(f64::min).unwrap_or(0.0)
    }

    /// Requests by which ζ may grow.
    fn step(&self) -> f64 {
        let sum = |of: fn(&OfClass) -> u64| self.0.values().map(of).sum::<u64>() as f64;
        let requests = sum(|class| class.requests) / sum(|class| class.turns).max(1.0);
        QuotaLimits::step(requests, self.sessions() as f64)
    }

    /// Results of the classes that had enough turns.
    fn observation(&self, limits: &QuotaLimits) -> QuotaObservation {
        let judged = || self.0.values().filter(|class| limits.judges(class.turns_each()));
        let shares: Vec<f64> = judged().flat_map(|class| class.shares.iter().copied()).collect();
        let known = shares.len() >= 2;
        let variations = judged().flat_map(|class| class.variations.iter().copied());
        QuotaObservation {
            unfairness: unfairness(shares).filter(|_| known),
            variability: latency_variability(variations).filter(|_| known),
            least: self.sessions().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests;
