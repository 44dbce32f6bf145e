//! Slices of time: P is set, what is inside turns over, then it is counted until there is enough.

use super::{Limits, Sight};
use crate::Nanos;

/// What a slice showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// Turns a second.
    pub(super) rate: f64,
    /// Length, in seconds.
    pub(super) seconds: f64,
    /// Time that a turn spent inside, in seconds; `None` if none ended.
    pub(super) service_s: Option<f64>,
    /// Requests of a turn; `None` likewise.
    pub(super) requests: Option<f64>,
}

/// Completions after which the mean service time is renewed, and the share of the new one.
const RENEWED_AFTER: u64 = 32;
const RENEWED_BY: u64 = 4;

/// Service time before anything is known of it.
const SERVICE_FIRST: Nanos = Nanos::from_millis(1);

/// The slice under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// When P was set; counting begins after that.
    set: Nanos,
    settle: Nanos,
    /// What had been counted when counting began.
    from: Option<Sight>,
    /// Moving mean of the service time, and what had been counted when it was last renewed.
    service: Nanos,
    renewed: (u64, Nanos),
}

impl Slice {
    pub(super) const fn new() -> Slice {
        Slice {
            set: Nanos(0),
            settle: Nanos(0),
            from: None,
            service: SERVICE_FIRST,
            renewed: (0, Nanos(0)),
        }
    }

    /// Begins another one: what is inside turns over a few times first.
    pub(super) fn begin(&mut self, now: Nanos, limits: &Limits) {
        let settle = Nanos(self.service.0.saturating_mul(4));
        let settle = settle.max(Nanos(limits.slice.0 / 4)).min(limits.slice_max);
        (self.set, self.settle, self.from) = (now, settle, None);
    }

    /// What the slice showed, if it is over; the next one follows at once.
    pub(super) fn ended(&mut self, sight: &Sight, limits: &Limits) -> Option<Shown> {
        self.renew(sight);
        let Some(from) = self.from else {
            if sight.now.since(self.set) >= self.settle {
                self.from = Some(*sight);
            }
            return None;
        };
        let span = sight.now.since(from.now);
        let turns = sight.completed.saturating_sub(from.completed);
        let enough = span >= limits.slice && turns >= limits.completions;
        if !enough && span < limits.slice_max {
            return None;
        }
        self.from = Some(*sight);
        let seconds = span.0 as f64 / 1e9;
        let each = |sum: f64| (turns > 0).then(|| sum / turns as f64);
        Some(Shown {
            rate: turns as f64 / seconds,
            seconds,
            service_s: each(sight.run.since(from.run).0 as f64 / 1e9),
            requests: each(sight.requests.saturating_sub(from.requests) as f64),
        })
    }

    fn renew(&mut self, sight: &Sight) {
        let (turns, run) = self.renewed;
        let ended = sight.completed.saturating_sub(turns);
        if ended >= RENEWED_AFTER {
            let each = sight.run.since(run).0 / ended;
            self.service = Nanos((self.service.0 * (RENEWED_BY - 1) + each) / RENEWED_BY);
            self.renewed = (sight.completed, sight.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(ms: u64, completed: u64) -> Sight {
        Sight {
            now: Nanos::from_millis(ms),
            completed,
            requests: completed * 25,
            run: Nanos::from_millis(completed * 16),
            users: 64,
        }
    }

    #[test]
    fn a_slice_counts_after_what_is_inside_has_turned_over() {
        let (mut slice, limits) = (Slice::new(), Limits::default());
        for at in 0..20 {
            // 1,000 turns a second of 16 ms: the mean creeps there from 1 ms.
            slice.ended(&sight(at * 50, at * 50), &limits);
        }
        let service_ms = slice.service.as_millis_f64();
        assert!((14.0..=16.0).contains(&service_ms), "{service_ms}");
        slice.begin(Nanos::from_millis(1_000), &limits);
        // Four times the service time is less than a quarter of a slice here.
        assert_eq!(slice.settle, Nanos::from_millis(75));
        assert_eq!(slice.ended(&sight(1_050, 1_050), &limits), None);
        assert_eq!(slice.ended(&sight(1_100, 1_100), &limits), None, "counting begins");
        assert_eq!(slice.ended(&sight(1_400, 1_400), &limits), None, "300 completions of 400");
        let shown = slice.ended(&sight(1_500, 1_500), &limits).unwrap();
        let (rate, service_s) = (shown.rate, shown.service_s.unwrap());
        assert!((rate - 1_000.0).abs() < 1e-6 && (service_s - 0.016).abs() < 1e-9, "{shown:?}");
        assert_eq!(shown.requests, Some(25.0));
    }

    #[test]
    fn a_slice_without_a_turn_has_no_means() {
        let (mut slice, limits) = (Slice::new(), Limits::default());
        slice.ended(&sight(0, 10), &limits);
        let shown = slice.ended(&sight(2_000, 10), &limits).unwrap();
        assert_eq!((shown.rate, shown.service_s, shown.requests), (0.0, None, None));
    }
}
