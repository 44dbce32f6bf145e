//! The metrics: their names, units and meanings.
//!
//! Names follow Prometheus: a prefix, the base unit at the end, `_total` for counters.

use super::out::{Labels, Out};
use crate::status::Fairness;
use headworks_policy::Nanos;
use headworks_region::snapshot::{ClassView, SessionView, Snapshot};
use headworks_region::{Mode, State};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::Arc;

/// The values at one moment.
#[derive(Debug)]
pub(super) struct Figures {
    instance: String,
    fairness: Fairness,
    now: Arc<Snapshot>,
}

impl Figures {
    pub(super) fn new(instance: &str, before: &Snapshot, now: Arc<Snapshot>) -> Figures {
        Figures { instance: instance.to_owned(), fairness: Fairness::of(before, &now), now }
    }

    fn labels<'a>(&'a self, class: &'a ClassView) -> Labels<'a> {
        vec![("instance", &self.instance), ("class", &class.name)]
    }

    fn whole(&self) -> Labels<'_> {
        vec![("instance", &self.instance)]
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut out = Out(encoder);
        self.gate(&mut out)?;
        self.sessions(&mut out)?;
        self.classes(&mut out)?;
        self.times(&mut out)?;
        self.events(&mut out)
    }
}

impl Figures {
    fn gate(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let (now, settings) = (&self.now, &self.now.settings);
        let yes = |condition: bool| f64::from(u8::from(condition));
        let all = self.whole();
        let mut gauge = |name, help, value: f64| out.gauge(name, help, [(all.clone(), value)]);
        gauge(
            "parallelism",
            "P: sessions admitted at once, without the bonus",
            settings.parallelism.into(),
        )?;
        gauge(
            "parallelism_auto",
            "1 if P is tuned automatically, 0 if it is fixed",
            yes(settings.auto),
        )?;
        gauge("stall_bonus", "sessions that the stall detector admits beyond P", now.bonus.into())?;
        gauge(
            "quota_requests",
            "zeta: requests of a round over all sessions, 0 for its minimum",
            settings.zeta.into(),
        )?;
        gauge(
            "gate_closed",
            "1 if sessions may be held: mode enforce, not off, the daemon alive, and the server governed",
            yes(settings.mode == Mode::Enforce && !settings.off && !now.stale && !now.ungoverned),
        )?;
        gauge(
            "server_ungoverned",
            "1 if the server was started by another version, so that all requests pass until its restart",
            yes(now.ungoverned),
        )?;
        gauge(
            "daemon_stale",
            "1 if the daemon sends no heartbeat, so that all requests pass",
            yes(now.stale),
        )?;
        if let Some(unfairness) = self.fairness.unfairness {
            let help = "U_f over requests per weight of the sessions that were busy since the scrape before, 0 is fair";
            gauge("unfairness", help, unfairness)?;
        }
        if let Some(variation) = self.fairness.latency_cv {
            let help = "variation of each session's latencies, averaged over sessions, since they connected";
            gauge("latency_variation", help, variation)?;
        }
        Ok(())
    }

    fn sessions(&self, out: &mut Out<'_>) -> Result<(), Error> {
        type Is = fn(&SessionView) -> bool;
        const STATES: [(&str, Is); 7] = [
            ("idle", |session| matches!(session.state, State::Idle | State::Cancelled)),
            ("waiting", |session| session.state == State::Queued),
            ("inside", |session| matches!(session.state, State::Running | State::Owed)),
            ("passing", |session| session.state == State::Passing),
            ("long", |session| session.state == State::Long),
            ("blocked", |session| session.state == State::Lent && session.pause.0.is_blocked()),
            ("thinking", |session| session.state == State::Lent && !session.pause.0.is_blocked()),
        ];
        // One pass over the sessions, of whom there may be many.
        let mut counts: BTreeMap<u32, [u32; STATES.len()]> = BTreeMap::new();
        for session in &self.now.sessions {
            let counts = counts.entry(session.class).or_default();
            for (count, (_, is)) in counts.iter_mut().zip(STATES) {
                *count += u32::from(is(session));
            }
        }
        let mut values = Vec::new();
        for class in &self.now.classes {
            let counts = counts.get(&class.class).copied().unwrap_or_default();
            for (count, (name, _)) in counts.into_iter().zip(STATES) {
                let mut labels = self.labels(class);
                labels.push(("state", name));
                values.push((labels, f64::from(count)));
            }
        }
        let help = "connected sessions by what they do: idle, waiting (held), inside (with a permit or owed one), passing, \
                    long (not counted in P), blocked and thinking (their permit is lent)";
        out.gauge("users", help, values)
    }

    fn classes(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let each = |of: fn(&ClassView) -> u64| {
            self.now.classes.iter().map(move |class| (self.labels(class), of(class)))
        };
        let weights = self.now.classes.iter().map(|class| (self.labels(class), class.weight));
        out.gauge("class_weight", "weight of the class, or of each of its sessions", weights)?;
        out.counter("requests", "requests answered", each(|class| class.totals.requests))?;
        out.counter(
            "admissions",
            "turns ended: transactions, or single requests outside one",
            each(|class| class.totals.turns),
        )?;
        out.counter(
            "held_requests",
            "requests that waited for a permit",
            each(|class| class.totals.queued),
        )?;
        out.counter(
            "passed_requests",
            "requests let pass without a permit, for whatever reason",
            each(|class| class.totals.passed),
        )
    }

    fn times(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let classes = &self.now.classes;
        out.histogram(
            "wait",
            "time that requests spent in the gate, those that did not wait in the first bucket",
            classes.iter().map(|class| (self.labels(class), class.totals.wait, &*class.wait)),
        )?;
        out.histogram(
            "latency",
            "time from a request's arrival to its end, in the gate and in the database",
            classes.iter().map(|class| {
                let sum = Nanos(class.totals.wait.0.wrapping_add(class.totals.run.0));
                (self.labels(class), sum, &*class.latency)
            }),
        )
    }

    /// Every counter of the region under its own name.
    fn events(&self, out: &mut Out<'_>) -> Result<(), Error> {
        for (name, help, value) in &self.now.counters {
            out.counter(name, help, [(self.whole(), *value)])?;
        }
        Ok(())
    }
}
