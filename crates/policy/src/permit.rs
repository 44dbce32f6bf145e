//! How long a session keeps a permit that it does not use, and how long it is counted.
//!
//! # The problem
//! P bounds the sessions that work. A permit that is kept while its client thinks, or by a request
//! that runs for minutes, does not bound work. It is only missing for others.
//!
//! # Saturated processors
//! A permit that is lent admits one more transaction, which helps only if a processor is free to
//! run it. Otherwise it adds contention: more transactions are open at once, hold locks for longer,
//! and wait for each other. So a permit is lent at once while a processor is idle, and kept for a
//! while when none is ([`Saturation`]).
//!
//! # Thinking: anticipation
//! A permit that is kept between two statements of a transaction saves one more open transaction.
//! It costs the work that another session would have done in the gap. While a processor is idle, it
//! is kept if gaps are usually no longer than statements ([`keeps_for`]). An anticipatory scheduler
//! of disks does the same: it waits for a process that usually comes back before a seek would be
//! over (Iyer and Druschel, 2001). While none is, nothing is lost by keeping it for some
//! milliseconds.
//!
//! # Long: a lower queue
//! A request that has lasted for many times the usual length would leave the upper queue of a
//! multilevel feedback scheduler. It goes on without a permit ([`Long`]); the kernel's scheduler
//! shares the processors from then on, as without a gate. On a busy machine short requests last,
//! too. So a request is long only if it has itself used much, in which time that its thread waits
//! for a processor is not counted.
//!
//! # A worked example
//! Statements take 0.5 ms. A client that answers within 0.4 ms keeps its permit, for 3.2 ms at
//! most. One that thinks for 5 ms lends it at once if a processor is idle, else it is kept
//! until the operator's limit. One that thinks for 20 ms always lends it at once. A statement that
//! has lasted for 50 ms is long, if its thread has run or slept for 10 ms of them.

use crate::Nanos;

/// A session keeps its permit if a gap is usually at most this many times as long as a statement.
const KEPT_RATIO: u64 = 2;

/// Gaps up to this length are always kept: to lend and to take back costs as much.
const KEPT_ALWAYS: Nanos = Nanos::from_micros(200);

/// A kept gap may last this many times its usual length before the permit is lent after all.
const KEPT_MAX_RATIO: u64 = 8;

/// The least such time, and the longest: a part of what the operator allows. A permit is never kept
/// for clients that usually think for longer than that.
const KEPT_MAX_LEAST: Nanos = Nanos::from_millis(1);
const KEPT_MAX_PART: u64 = 10;

/// A request is long once it has run for this many times the usual length.
const LONG_RATIO: u64 = 10;

/// Bounds of that time.
const LONG_MIN: Nanos = Nanos::from_millis(50);
const LONG_MAX: Nanos = Nanos::from_millis(1_000);

/// It must also have used as much as this many requests usually last, within bounds. Requests last
/// longer on a busy machine and do not use more: the ratio is smaller.
const USED_RATIO: u64 = 3;
const USED_MIN: Nanos = Nanos::from_millis(10);

/// What it uses is watched after this part of the time that it has to last.
const WATCHED_PART: u64 = 5;

/// Time for which a session keeps its permit once its client has begun to think, by the usual
/// length of its gaps and of its statements; at most `limit`. See [`Saturation`] for `saturated`.
pub fn keeps_for(usual_gap: Nanos, usual_run: Nanos, limit: Nanos, saturated: bool) -> Nanos {
    let longest = Nanos(limit.0 / KEPT_MAX_PART).max(KEPT_MAX_LEAST);
    if saturated {
        // A gap is much longer than usual if the client waits for a processor, too.
        return if usual_gap <= longest { limit } else { Nanos(0) };
    }
    if usual_gap > KEPT_ALWAYS.max(Nanos(usual_run.0.saturating_mul(KEPT_RATIO))) {
        return Nanos(0);
    }
    let kept_max = Nanos(usual_gap.0.saturating_mul(KEPT_MAX_RATIO));
    kept_max.max(KEPT_MAX_LEAST).min(longest).min(limit)
}

/// When a request is long: it has lasted for longer than `lasts`, and has used more than `uses`.
/// Used is the time of its thread on a processor, or asleep in storage; not the time for which it
/// waited for a processor, or was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// See above.
    pub lasts: Nanos,
    /// See above.
    pub uses: Nanos,
}

impl Long {
    /// By how long requests usually last; `None` if nothing is known of it yet.
    pub fn by(usual_run: Option<Nanos>) -> Long {
        let times = |ratio| Nanos(usual_run.unwrap_or(Nanos(0)).0.saturating_mul(ratio));
        Long {
            lasts: times(LONG_RATIO).clamp(LONG_MIN, LONG_MAX),
            uses: times(USED_RATIO).clamp(USED_MIN, LONG_MAX),
        }
    }

    /// Whether it is worth knowing what a request has used that has lasted for this time.
    pub fn is_watched(&self, lasted: Nanos) -> bool {
        lasted > Nanos(self.lasts.0 / WATCHED_PART)
    }
}

/// Time after which a request outlasts those of others, by how many sessions are busy and how many
/// turns a second end; `None` if none does. By Little's law a turn takes their quotient on average.
/// Where many share the processors all turns take long, and none outlasts the others.
pub fn outlasts(sessions: u32, turns_per_s: f64) -> Option<Nanos> {
    let mean_s = f64::from(sessions) / turns_per_s;
    let after_s = (mean_s * LONG_RATIO as f64).max(LONG_MAX.0 as f64 / 1e9);
    (turns_per_s > 0.0).then_some(Nanos((after_s * 1e9) as u64))
}

/// Whether no processor is idle, and the server has work for at least half of them. (Its clients
/// may run on the other half.)
///
/// Both are needed. A server with less work gains by more sessions, even if other programs keep
/// the processors busy. One whose sessions all wait for storage leaves processors idle, and its
/// storage may serve more requests at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saturation {
    working: u64,
    samples: u64,
    saturated: bool,
}

/// Part of the processors' time that may be idle while they are saturated, and from which on they
/// are not any more.
const IDLE_MAX: f64 = 0.05;
const IDLE_FREE: f64 = 0.10;

impl Saturation {
    /// Takes how many sessions work at this moment.
    pub fn sample(&mut self, working: u32) {
        self.working += u64::from(working);
        self.samples += 1;
    }

    /// Ends a window, over which this part of the time of `cores` processors was idle; says
    /// whether they are saturated.
    pub fn conclude(&mut self, idle: f64, cores: u32) -> bool {
        let enough = 2 * self.working >= u64::from(cores) * self.samples.max(1);
        (self.working, self.samples) = (0, 0);
        self.saturated = enough && idle < if self.saturated { IDLE_FREE } else { IDLE_MAX };
        self.saturated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Nanos = Nanos::from_millis(100);

    #[test]
    fn a_permit_is_kept_for_clients_that_are_as_quick_as_their_statements() {
        let kept = |gap_us, run_us| {
            keeps_for(Nanos::from_micros(gap_us), Nanos::from_micros(run_us), LIMIT, false)
        };
        assert_eq!(kept(400, 500), Nanos::from_micros(3_200));
        assert_eq!(kept(10_000, 500), Nanos(0));
        assert_eq!(kept(1_000, 500), Nanos::from_millis(8), "twice as long is still kept");
        assert_eq!(kept(1_001, 500), Nanos(0));
        // Nothing is known, or nothing is to be gained.
        assert_eq!(kept(0, 0), Nanos::from_millis(1));
        assert_eq!(kept(200, 20), Nanos::from_micros(1_600));
        assert_eq!(kept(60_000, 60_000), Nanos::from_millis(10));
        let never = keeps_for(Nanos(0), Nanos(0), Nanos(0), false);
        assert_eq!(never, Nanos(0), "an operator says never");
    }

    #[test]
    fn saturated_processors_lose_nothing_by_a_permit_that_is_kept_for_milliseconds() {
        let kept =
            |gap_us| keeps_for(Nanos::from_micros(gap_us), Nanos::from_micros(20), LIMIT, true);
        assert_eq!(kept(500), LIMIT);
        assert_eq!(kept(9_000), LIMIT);
        assert_eq!(kept(11_000), Nanos(0), "too long to wait for");
    }

    #[test]
    fn processors_are_saturated_if_none_is_idle_and_there_is_work_for_each() {
        let mut saturation = Saturation::default();
        let mut window = |working: [u32; 2], idle| {
            working.iter().for_each(|&working| saturation.sample(working));
            saturation.conclude(idle, 4)
        };
        assert!(!window([1, 2], 0.0), "others keep the processors busy");
        assert!(!window([9, 9], 0.3), "they wait for storage");
        assert!(window([2, 2], 0.04));
        assert!(window([4, 4], 0.09), "no flapping");
        assert!(!window([4, 4], 0.11));
        assert!(!window([4, 4], 0.09));
    }

    #[test]
    fn a_request_is_long_after_ten_times_the_usual_length_within_bounds() {
        let ms = Nanos::from_millis;
        for (usual, lasts, uses) in
            [(0, 50, 10), (5, 50, 15), (20, 200, 60), (100, 1_000, 300), (5_000, 1_000, 1_000)]
        {
            let long = Long::by(Some(ms(usual)));
            assert_eq!(long, Long { lasts: ms(lasts), uses: ms(uses) });
        }
        let long = Long::by(None);
        assert_eq!(long, Long { lasts: ms(50), uses: ms(10) });
        assert!(!long.is_watched(ms(10)) && long.is_watched(ms(11)));
    }

    #[test]
    fn a_request_outlasts_the_others_after_ten_mean_turns_and_a_second() {
        // 64 readers: 1 ms. 256 sessions that crowd two processors: 256 / 1,280 = 0.2 s.
        assert_eq!(outlasts(64, 64_000.0), Some(Nanos::from_millis(1_000)));
        assert_eq!(outlasts(256, 1_280.0), Some(Nanos::from_millis(2_000)));
        assert_eq!(outlasts(64, 0.0), None, "nothing goes on");
    }
}
