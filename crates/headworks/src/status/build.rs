//! From two snapshots of a region to its status.

use super::{ClassStatus, Percentiles, Status, UserStatus};
use crate::quota::weight_of_each;
use headworks_hooks::mysql::Holding;
use headworks_policy::Nanos;
use headworks_policy::histogram::BUCKETS;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_region::snapshot::{ClassView, SessionView, Snapshot, is_inside};
use headworks_region::{PassReason, State};
use std::collections::HashMap;

/// How evenly sessions are served.
#[derive(Clone, Copy, Debug)]
pub struct Fairness {
    /// See [`Status::unfairness`].
    pub unfairness: Option<f64>,
    /// See [`Status::latency_cv`].
    pub latency_cv: Option<f64>,
}

impl Fairness {
    /// Between two snapshots of the same region, the older one first.
    pub fn of(before: &Snapshot, now: &Snapshot) -> Fairness {
        // Only sessions that were busy all the time can be compared.
        let busy: Vec<(u32, u64)> = with_past(before, now)
            .filter(|(user, past)| !user.bypass && past.is_some())
            .map(|(user, past)| (user.class, served(user, past)))
            .filter(|&(_, requests)| requests > 0)
            .collect();
        let mut wanting: HashMap<u32, u32> = HashMap::new();
        busy.iter().for_each(|&(class, _)| *wanting.entry(class).or_default() += 1);
        let weights: HashMap<u32, f64> = wanting
            .into_iter()
            .map(|(class, users)| (class, weight_of_each(now, class, users.into())))
            .collect();
        let shares = busy
            .iter()
            .map(|(class, requests)| *requests as f64 / weights.get(class).copied().unwrap_or(1.0));
        Fairness {
            unfairness: unfairness(shares),
            latency_cv: latency_variability(now.sessions.iter().map(cv)),
        }
    }
}

/// Each session of the later snapshot, with its state in the earlier one. Both are in the order of
/// their slots.
fn with_past<'a>(
    before: &'a Snapshot,
    now: &'a Snapshot,
) -> impl Iterator<Item = (&'a SessionView, Option<&'a SessionView>)> {
    let mut earlier = before.sessions.iter().peekable();
    now.sessions.iter().map(move |user| {
        while earlier.next_if(|past| past.session < user.session).is_some() {}
        let same = |past: &&&SessionView| {
            (past.session, past.generation) == (user.session, user.generation)
        };
        (user, earlier.peek().filter(same).copied())
    })
}

/// Requests of a user since an earlier snapshot.
fn served(user: &SessionView, past: Option<&SessionView>) -> u64 {
    user.totals.requests.saturating_sub(past.map_or(0, |past| past.totals.requests))
}

/// What happened between two snapshots of a region.
struct Interval<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl Interval<'_> {
    fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    fn since(&self, class: &ClassView, of: fn(&ClassView) -> u64) -> u64 {
        let past = self.before.classes.iter().find(|past| past.class == class.class);
        of(class).saturating_sub(past.map_or(0, of))
    }

    fn sum(&self, of: fn(&ClassView) -> u64) -> u64 {
        self.now.classes.iter().map(|class| self.since(class, of)).sum()
    }

    /// The sessions: first those that wait, then those that run, the longest ones last.
    fn sessions(&self) -> Vec<UserStatus> {
        let class_of = |user: &SessionView| {
            let class = self.now.classes.iter().find(|class| class.class == user.class);
            class.map(|class| class.name.clone()).unwrap_or_default()
        };
        let mut sessions: Vec<UserStatus> = with_past(self.before, self.now)
            .map(|(user, past)| {
                let rate = self.rate(served(user, past));
                user_status(user, class_of(user), self.now.now, rate)
            })
            .collect();
        let rank = |user: &UserStatus| match user.state.as_str() {
            "waiting" => 0,
            "idle" => 2,
            _ => 1,
        };
        sessions.sort_by(|a, b| {
            (rank(a), b.since_ms.unwrap_or(0.0), a.user)
                .partial_cmp(&(rank(b), a.since_ms.unwrap_or(0.0), b.user))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        sessions
    }

    fn class(&self, class: &ClassView) -> ClassStatus {
        ClassStatus {
            name: class.name.clone(),
            weight: class.weight,
            weight_of: if class.shared { "class" } else { "user" }.to_owned(),
            users: class.sessions,
            inside: class.inside,
            waiting: class.waiting,
            requests_per_s: self.rate(self.since(class, |c| c.totals.requests)),
            requests: class.totals.requests,
            queued: class.totals.queued,
            passed: class.totals.passed,
            latency: Percentiles::of(&class.latency),
            wait: Percentiles::of(&class.wait),
        }
    }
}

/// Percentiles over all classes.
fn over_classes(now: &Snapshot, of: fn(&ClassView) -> &[u64; BUCKETS]) -> Percentiles {
    let mut sum = [0u64; BUCKETS];
    for class in &now.classes {
        for (sum, count) in sum.iter_mut().zip(of(class)) {
            *sum += count;
        }
    }
    Percentiles::of(&sum)
}

fn gate(now: &Snapshot) -> &'static str {
    match (now.settings.off, now.settings.mode, now.stale) {
        _ if now.ungoverned => "ungoverned",
        (true, ..) => "off",
        (_, headworks_region::Mode::DryRun, _) => "open",
        (.., true) => "stale",
        _ => "closed",
    }
}

impl Status {
    /// Computes the figures from two snapshots of the same region, the older one first.
    pub fn build(instance: &str, before: &Snapshot, now: &Snapshot) -> Status {
        let seconds = now.now.since(before.now).as_millis_f64() / 1e3;
        let interval = Interval { before, now, seconds };
        let fairness = Fairness::of(before, now);
        let settings = &now.settings;
        let count = |is: &dyn Fn(&SessionView) -> bool| {
            now.sessions.iter().filter(|user| is(user)).count() as u32
        };
        let paused = |user: &SessionView, blocked| {
            user.state == State::Lent && user.pause.0.is_blocked() == blocked
        };
        Status {
            instance: instance.to_owned(),
            mode: settings.mode.name().to_owned(),
            gate: gate(now).to_owned(),
            protocol: now.protocol.name().to_owned(),
            parallelism: settings.parallelism,
            parallelism_auto: settings.auto,
            parallelism_search: None,
            outside: None,
            beside: None,
            files: None,
            cgroup: None,
            stall_bonus: now.bonus,
            quota_requests: settings.zeta,
            server_pid: now.server,
            daemon_pid: now.daemon,
            window_s: seconds,
            requests_per_s: interval.rate(interval.sum(|class| class.totals.requests)),
            turns_per_s: interval.rate(interval.sum(|class| class.totals.turns)),
            users: now.sessions.len() as u32,
            inside: count(&|user| is_inside(user.state)),
            waiting: count(&|user| user.state == State::Queued),
            blocked: count(&|user| paused(user, true)),
            thinking: count(&|user| paused(user, false)),
            long: count(&|user| user.state == State::Long),
            unfairness: fairness.unfairness,
            latency_cv: fairness.latency_cv,
            latency: over_classes(now, |class| &class.latency),
            wait: over_classes(now, |class| &class.wait),
            classes: now.classes.iter().map(|class| interval.class(class)).collect(),
            targets: Vec::new(),
            connections: interval.sessions(),
            counters: now
                .counters
                .iter()
                .map(|(name, _, value)| ((*name).to_owned(), *value))
                .collect(),
            config_error: None,
            metrics_error: None,
            log: None,
            metrics: Vec::new(),
            counterfactual: None,
        }
    }
}

fn cv(user: &SessionView) -> Option<f64> {
    coefficient_of_variation(user.totals.requests, user.latency_ms.0, user.latency_ms.1)
}

const NEVER_HELD: &str = "never held";

impl UserStatus {
    /// Whether it bypasses the gate, by a rule or since it cannot be followed.
    pub(crate) fn never_held(&self) -> bool {
        self.reason == NEVER_HELD || self.reason == PassReason::Bypass.name()
    }
}

fn user_status(user: &SessionView, class: String, now: Nanos, requests_per_s: f64) -> UserStatus {
    let holding = Holding::from_bits(user.holding as u16);
    let (since, reason) = match user.state {
        State::Queued => (Some(user.arrived), "all P permits are taken: it waits for its turn"),
        State::Passing => {
            (Some(user.admitted), user.pass_reason.map_or("let pass", |reason| reason.name()))
        }
        State::Owed => (
            Some(user.admitted),
            "no permit was free: it goes on without one, and is owed the next",
        ),
        State::Running if !holding.is_empty() => {
            (Some(user.admitted), "keeps its permit until its transaction or lock ends")
        }
        State::Running => (Some(user.admitted), "has a permit"),
        // A server may wake up and wait again: the request is what lasts.
        State::Lent if user.pause.0.is_blocked() => (Some(user.admitted), ""),
        State::Lent => {
            (Some(user.pause.1), "its client thinks inside a transaction: its permit is lent")
        }
        State::Long => {
            (Some(user.admitted), "runs for many times the usual length: it does not count in P")
        }
        State::Idle if user.bypass => (None, NEVER_HELD),
        _ => (None, ""),
    };
    let mean =
        |sum: f64| if user.totals.requests > 0 { sum / user.totals.requests as f64 } else { 0.0 };
    let [account, database, application, address] = user.identity.clone();
    UserStatus {
        user: user.session,
        account,
        database,
        application,
        address,
        tls: user.encryption.name().to_owned(),
        class,
        state: match user.state {
            State::Lent if user.pause.0.is_blocked() => "blocked",
            State::Lent => "thinking",
            state => state.name(),
        }
        .to_owned(),
        reason: if user.state == State::Lent && user.pause.0.is_blocked() {
            format!("waits for {}: its permit is lent", user.pause.0.name())
        } else {
            reason.to_owned()
        },
        since_ms: since.map(|since| now.since(since).as_millis_f64()),
        holding: holding.names().map(str::to_owned).collect(),
        requests: user.totals.requests,
        requests_per_s,
        wait_ms_mean: mean(user.totals.wait.as_millis_f64()),
        wait_ms_max: user.wait_max.as_millis_f64(),
        latency_ms_mean: mean(user.latency_ms.0),
        latency_ms_max: user.latency_max.as_millis_f64(),
        latency_cv: cv(user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{class, session, snapshot};
    use headworks_region::snapshot::Totals;

    #[test]
    fn unfairness_divides_a_shared_weight_among_those_who_were_busy() {
        let at = |requests: [u64; 4]| {
            let busy = (0..).zip(requests).map(|(number, requests)| SessionView {
                totals: Totals { requests, ..Totals::default() },
                ..session(number, number / 2)
            });
            // Fifty of the class that shares its weight are only connected.
            let idle = (4..54).map(|number| session(number, 1));
            let shared = ClassView { shared: true, sessions: 52, ..class(1, "reports", 1.0) };
            let classes = vec![class(0, "default", 1.0), shared];
            snapshot(busy.chain(idle).collect(), classes)
        };
        // Half the weight, half the requests.
        let status = Status::build("db", &at([0; 4]), &at([200, 200, 100, 100]));
        assert_eq!(status.unfairness, Some(0.0));
    }
}
