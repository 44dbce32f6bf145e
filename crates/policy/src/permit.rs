//! How long a session keeps a permit that it does not use, and how long it is counted.
//!
//! # The problem
//! P bounds the sessions that work. A permit that is kept while its client thinks, or by a request
//! that runs for minutes, does not bound work: it takes a place from others.
//!
//! # Thinking: anticipation
//! A permit that is kept between two statements of a transaction saves one more open transaction,
//! and costs the work that another session would have done in the gap. So it is kept if gaps are
//! usually no longer than statements ([`keeps_for`]), as an anticipatory scheduler waits for a
//! process that usually comes back before a seek would be over (Iyer and Druschel, 2001). On a busy
//! machine gaps and statements grow together, since client and server wait for the same processors.
//!
//! # Long: a lower queue
//! A request that has run for many times the usual length would leave the upper queue of a
//! multilevel feedback scheduler. It goes on without a permit ([`long_after`]); the kernel's
//! scheduler shares the processors from then on, as without a gate.
//!
//! # A worked example
//! Statements take 0.5 ms. A client that answers within 0.4 ms keeps its permit, for 3.2 ms at
//! most. One that thinks for 10 ms lends it at once. A statement that has run for 50 ms is long.

use crate::Nanos;

/// A session keeps its permit if a gap is usually at most this many times as long as a statement.
const KEPT_RATIO: u64 = 2;

/// Gaps up to this length are always kept: to lend and to take back costs as much.
const KEPT_ALWAYS: Nanos = Nanos::from_micros(200);

/// A kept gap may last this many times its usual length before the permit is lent after all.
const PATIENCE_RATIO: u64 = 8;

/// The least such time, and the longest: a part of what the operator allows.
const PATIENCE_MIN: Nanos = Nanos::from_millis(1);
const PATIENCE_MAX_PART: u64 = 10;

/// A request is long once it has run for this many times the usual length.
const LONG_RATIO: u64 = 10;

/// Bounds of that time.
const LONG_MIN: Nanos = Nanos::from_millis(50);
const LONG_MAX: Nanos = Nanos::from_millis(1_000);

/// Time for which a session keeps its permit once its client has begun to think, by the usual
/// length of its gaps and of its statements; at most `limit`.
pub fn keeps_for(usual_gap: Nanos, usual_run: Nanos, limit: Nanos) -> Nanos {
    if usual_gap > KEPT_ALWAYS && usual_gap.0 > usual_run.0.saturating_mul(KEPT_RATIO) {
        return Nanos(0);
    }
    let patience = Nanos(usual_gap.0.saturating_mul(PATIENCE_RATIO));
    patience.min(Nanos(limit.0 / PATIENCE_MAX_PART)).max(PATIENCE_MIN).min(limit)
}

/// Time after which a request is long, by the usual length of requests; `None` if nothing is known
/// of it yet.
pub fn long_after(usual_run: Option<Nanos>) -> Nanos {
    let usual = usual_run.unwrap_or(Nanos(0));
    Nanos(usual.0.saturating_mul(LONG_RATIO)).clamp(LONG_MIN, LONG_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Nanos = Nanos::from_millis(100);

    #[test]
    fn a_permit_is_kept_for_clients_that_are_as_quick_as_their_statements() {
        let kept = |gap_us, run_us| {
            keeps_for(Nanos::from_micros(gap_us), Nanos::from_micros(run_us), LIMIT)
        };
        assert_eq!(kept(400, 500), Nanos::from_micros(3_200));
        assert_eq!(kept(10_000, 500), Nanos(0));
        assert_eq!(kept(1_000, 500), Nanos::from_millis(8), "twice as long is still kept");
        assert_eq!(kept(1_001, 500), Nanos(0));
        // Nothing is known, or nothing is to be gained.
        assert_eq!(kept(0, 0), Nanos::from_millis(1));
        assert_eq!(kept(200, 20), Nanos::from_micros(1_600));
        assert_eq!(kept(60_000, 60_000), Nanos::from_millis(10));
        assert_eq!(keeps_for(Nanos(0), Nanos(0), Nanos(0)), Nanos(0), "an operator says never");
    }

    #[test]
    fn a_request_is_long_after_ten_times_the_usual_length_within_bounds() {
        for (usual_ms, long_ms) in [(0, 50), (5, 50), (20, 200), (100, 1_000), (5_000, 1_000)] {
            assert_eq!(long_after(Some(Nanos::from_millis(usual_ms))), Nanos::from_millis(long_ms));
        }
        assert_eq!(long_after(None), Nanos::from_millis(50));
    }
}
