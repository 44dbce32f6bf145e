//! How many threads of each unit are alive, and how many run or are ready to, over time.
//!
//! It is noted at each look at the threads, at so many moments at most: when there are as many,
//! each second one is left out, and from then on each second look. So hours are in it as coarsely
//! as seconds.

use crate::trace::{Activity, Trace};
use std::collections::BTreeMap;
use std::time::Duration;

/// Moments that are kept.
const MOMENTS: usize = 40;

/// What a look saw of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Threads.
    pub alive: u32,
    /// Time for which its threads ran or were ready, all together until now.
    pub busy_ns: u64,
    /// That is of the counted time alone.
    pub counted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    at: Duration,
    counted: Duration,
}

#[derive(Clone, Debug, Default)]
struct Series {
    alive: Vec<u32>,
    active: Vec<f64>,
    busy_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Over {
    moments: Vec<Moment>,
    units: BTreeMap<u32, Series>,
    every: u64,
    looks: u64,
}

impl Default for Over {
    fn default() -> Over {
        Over { moments: Vec::new(), units: BTreeMap::new(), every: 1, looks: 0 }
    }
}

impl Over {
    /// Notes a look, at this time of the recording and of what was counted of it. What a unit that
    /// is not in it did is not known: it has no threads.
    pub fn note(&mut self, at: Duration, counted: Duration, units: &BTreeMap<u32, Look>) {
        self.looks += 1;
        if !(self.looks - 1).is_multiple_of(self.every) {
            return;
        }
        if self.moments.len() == MOMENTS {
            self.thin();
        }
        let before = self.moments.last().copied().unwrap_or_default();
        let known = self.moments.len();
        for (&unit, look) in units {
            let series = self.units.entry(unit).or_default();
            series.alive.resize(known, 0);
            series.active.resize(known, 0.0);
            let time = if look.counted { counted - before.counted } else { at - before.at };
            let busy_ns = look.busy_ns.saturating_sub(series.busy_ns);
            let active = busy_ns as f64 / (time.as_nanos() as f64).max(1.0);
            series.busy_ns = look.busy_ns;
            series.alive.push(look.alive);
            // Without time nothing is known of it.
            series.active.push(if time.is_zero() { 0.0 } else { active });
        }
        self.moments.push(Moment { at, counted });
    }

    /// Leaves out each second moment. What was active until then is part of the next one's.
    fn thin(&mut self) {
        self.every *= 2;
        let mut before = Duration::ZERO;
        let lengths: Vec<f64> = self
            .moments
            .iter()
            .map(|moment| (moment.at - std::mem::replace(&mut before, moment.at)).as_secs_f64())
            .collect();
        let of = |at: usize| lengths.get(at).copied().unwrap_or(0.0);
        for series in self.units.values_mut() {
            let halves = series.active.chunks(2).enumerate().map(|(pair, active)| {
                let (first, second) = (of(2 * pair), of(2 * pair + 1));
                let sum = active[0] * first + active.get(1).copied().unwrap_or(0.0) * second;
                sum / (first + second).max(1e-9)
            });
            series.active = halves.collect();
            series.alive =
                series.alive.chunks(2).map(|pair| pair.get(1).copied().unwrap_or(0)).collect();
        }
        self.moments = self.moments.iter().skip(1).step_by(2).copied().collect();
    }

    /// Puts it into a recording, under the numbers that units have there.
    pub fn give(&self, trace: &mut Trace, number: impl Fn(u32) -> u32) {
        let count = self.moments.len();
        trace.head.moments_ms =
            self.moments.iter().map(|moment| moment.at.as_millis() as u64).collect();
        let mut all: BTreeMap<u32, Activity> = BTreeMap::new();
        for (&unit, series) in &self.units {
            let unit = number(unit);
            let sum = all.entry(unit).or_insert_with(|| Activity {
                unit,
                alive: vec![0; count],
                active: vec![0.0; count],
            });
            sum.alive.iter_mut().zip(&series.alive).for_each(|(sum, n)| *sum += n);
            sum.active.iter_mut().zip(&series.active).for_each(|(sum, n)| *sum += n);
        }
        for activity in all.values_mut() {
            activity.active.iter_mut().for_each(|n| *n = (*n * 1e3).round() / 1e3);
        }
        trace.activity = all.into_values().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Unit 2 has one thread that always runs; unit 3 has more threads from second to second.
    fn looks(over: &mut Over, seconds: std::ops::Range<u64>) {
        for at in seconds {
            let busy_ns = at * 1_000_000_000;
            let one = Look { alive: 1, busy_ns, counted: false };
            let more = Look { alive: at as u32, busy_ns: busy_ns / 8, counted: true };
            over.note(secs(at), secs(at) / 4, &[(2, one), (3, more)].into());
        }
    }

    fn given(over: &Over) -> Trace {
        let mut trace = Trace::default();
        over.give(&mut trace, |unit| unit);
        trace
    }

    #[test]
    fn what_is_alive_and_active_is_noted_at_each_look() {
        let mut over = Over::default();
        looks(&mut over, 0..4);
        let trace = given(&over);
        assert_eq!(trace.head.moments_ms, [0, 1_000, 2_000, 3_000]);
        assert_eq!(trace.activity[0].alive, [1, 1, 1, 1]);
        assert_eq!(trace.activity[0].active, [0.0, 1.0, 1.0, 1.0]);
        // An eighth of the time, of a quarter that was counted.
        assert_eq!(trace.activity[1].alive, [0, 1, 2, 3]);
        assert_eq!(trace.activity[1].active, [0.0, 0.5, 0.5, 0.5]);
    }

    #[test]
    fn hours_have_no_more_moments_and_their_means_are_right() {
        let mut over = Over::default();
        looks(&mut over, 1..36_001);
        let trace = given(&over);
        let count = trace.head.moments_ms.len();
        assert!((MOMENTS / 2..=MOMENTS).contains(&count), "{count}");
        assert!(*trace.head.moments_ms.last().expect("one") >= 34_000_000);
        for (activity, active) in trace.activity.iter().zip([1.0, 0.5]) {
            assert_eq!((activity.alive.len(), activity.active.len()), (count, count));
            assert!(activity.active.iter().all(|n| (n - active).abs() < 0.01), "{activity:?}");
        }
        let at_s = trace.head.moments_ms.iter().map(|ms| (ms / 1_000) as u32);
        assert!(trace.activity[1].alive.iter().copied().eq(at_s), "{trace:?}");
    }

    #[test]
    fn units_that_come_later_go_or_become_one_fit_to_the_moments() {
        let mut over = Over::default();
        let look = |alive| Look { alive, busy_ns: 0, counted: false };
        over.note(secs(1), secs(1), &[(2, look(1))].into());
        over.note(secs(2), secs(2), &[(3, look(4))].into());
        over.note(secs(3), secs(3), &[(2, look(2)), (3, look(4))].into());
        let trace = given(&over);
        assert_eq!(trace.activity[0].alive, [1, 0, 2]);
        assert_eq!(trace.activity[1].alive, [0, 4, 4]);
        let mut joined = Trace::default();
        over.give(&mut joined, |_| 9);
        assert_eq!((joined.activity.len(), &*joined.activity[0].alive), (1, &[1, 4, 6][..]));
    }
}
