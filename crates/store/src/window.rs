//! What an application had in one second.

use crate::ledger::Tally;
use headworks_policy::Nanos;
use headworks_policy::learn::Observation;
use serde::{Deserialize, Serialize};

/// From so many times its share on, what an application had beyond it was lent.
const LENT: f64 = 1.05;

/// An application that has less than this part of its share is not held by it, however long its
/// requests wait: the device is full of large requests of others.
const HELD: f64 = 0.7;

/// What an application had in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Share that was in force.
    pub granted: f64,
    /// Share that its owner had asked for; zero before the first.
    pub ask: f64,
    /// Service, in units of shares.
    pub used: f64,
    /// Deviation from target, once it is known.
    pub dft: Option<f64>,
    /// Its share held it: it waited mostly in the scheduler, and had about what it was granted.
    pub held: bool,
    /// Most of its service was given while no other waited.
    pub lent: bool,
    /// It asked for anything.
    pub demand: bool,
    /// By what is posted, all that was asked of it was served, and that was less than its target.
    #[serde(default)]
    pub sated: bool,
    /// Requests that were completed in a second.
    pub ios: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Mean wait in the scheduler, and time with the device, in microseconds.
    pub wait_us: f64,
    /// See `wait_us`.
    pub service_us: f64,
    /// Requests that it had in the store, on average.
    #[serde(default)]
    pub outstanding: f64,
}

impl Window {
    /// As a controller sees it.
    pub fn seen(&self, dft: Option<f64>, age: Nanos) -> Observation {
        Observation {
            dft,
            demand: self.demand,
            age,
            granted: self.granted,
            used: self.used,
            held: self.held,
            lent: self.lent,
            sated: self.sated,
            outstanding: self.outstanding,
            latency_s: (self.wait_us + self.service_us) / 1e6,
        }
    }

    /// By what was counted in so many seconds.
    pub fn of(tally: &Tally, seconds: f64, granted: f64, used: f64) -> Window {
        let taken = tally.taken.max(1) as f64;
        let done = tally.all().max(1) as f64;
        let starves = tally.waiting > 0;
        let waits = tally.waited_ns > tally.service_ns;
        Window {
            granted,
            used,
            // Served nothing: starved, or not there.
            held: if tally.taken == 0 { starves } else { waits && used > HELD * granted },
            // Others that do not wait here may wait at their hosts, for their fractions. Nothing is
            // lent to who has no more than its share.
            lent: 2 * tally.lent > tally.taken && used > LENT * granted,
            demand: tally.has_demand(),
            ios: tally.all() as f64 / seconds,
            bytes: tally.bytes as f64 / seconds,
            wait_us: tally.waited_ns as f64 / taken / 1e3,
            service_us: tally.service_ns as f64 / done / 1e3,
            // By Little's law.
            outstanding: (tally.waited_ns + tally.service_ns) as f64 / 1e9 / seconds,
            ..Window::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_beyond_a_share_is_lent() {
        let tally = Tally { taken: 10, lent: 8, ..Tally::default() };
        assert!(!Window::of(&tally, 1.0, 0.8, 0.81).lent, "others wait at their hosts");
        assert!(Window::of(&tally, 1.0, 0.5, 0.81).lent);
        let mixed = Tally { lent: 4, ..tally };
        assert!(!Window::of(&mixed, 1.0, 0.5, 0.81).lent);
    }

    #[test]
    fn who_has_far_less_than_its_share_is_not_held_by_it() {
        let waits = Tally { taken: 10, waited_ns: 2, service_ns: 1, ..Tally::default() };
        assert!(Window::of(&waits, 1.0, 0.5, 0.48).held);
        assert!(!Window::of(&waits, 1.0, 0.5, 0.27).held);
        let starved = Tally { waiting: 1, ..Tally::default() };
        assert!(Window::of(&starved, 1.0, 0.5, 0.0).held);
    }
}
