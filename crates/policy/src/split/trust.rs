//! Files whose held calls have made clients wait.
//!
//! # Problem
//! A background task may hold a lock of which only the server knows while it writes a certain file.
//! InnoDB's page cleaner keeps the pages of a batch latched until the doublewrite file is durable.
//! Each held call then costs a client a [guess](super::Scheduler::may_block_clients).
//!
//! # The primitive
//! A guess was right if the client went on soon after the call that it let go. If [`RIGHT_MIN`]
//! guesses in a row were right for a file, its calls are not held for [`TRUST_FOR`], and for twice
//! as long after each further one. Then one is held again, and shows whether that is still so. A
//! wrong guess ends it.
//!
//! A client may need many held calls, of which each guess lets one go: then no guess is right,
//! although holding brings the client nothing. After [`STUCK_MIN`] guesses within [`STUCK_WITHIN`]
//! short calls on the file are not held for [`TRUST_FOR`]. A big `fsync` still is: clients may wait
//! for something else, and all of them would wait for its pieces.

use super::Criticality;
use crate::Nanos;

/// Right guesses in a row after which a file is trusted.
pub const RIGHT_MIN: u32 = 2;

/// For how long it is trusted at first.
pub const TRUST_FOR: Nanos = Nanos::from_millis(10_000);

/// Guesses, right or wrong, after which short calls on a file are not held.
pub const STUCK_MIN: u32 = 10;

/// The time within which they were made.
pub const STUCK_WITHIN: Nanos = Nanos::from_millis(3_000);

/// At most 2 to this power as long: ten minutes.
const DOUBLED_MAX: u32 = 6;

/// Files that are remembered.
const FILES: usize = 32;

/// What is known of a file. All zero bytes: nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Trusted {
    until: Nanos,
    /// The file plus one.
    file: u32,
    /// Right guesses in a row.
    right: u32,
    /// When the guesses that `stuck` counts began.
    since: Nanos,
    /// Until when short calls are not held.
    short_until: Nanos,
    stuck: u32,
    _pad: u32,
}

crate::layout!(Trusted { until, file, right, since, short_until, stuck, _pad });

/// See the module. All zero bytes: no file is trusted.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Trust {
    files: [Trusted; FILES],
}

crate::layout!(Trust { files });

impl Trust {
    /// How critical calls on the file are, if they are not to be held.
    pub(super) fn trusts(&self, now: Nanos, file: u32) -> Option<Criticality> {
        let wanted = file.wrapping_add(1);
        let known = self.files.iter().find(|known| known.file == wanted)?;
        match (known.until > now, known.short_until > now) {
            (true, _) => Some(Criticality::Critical),
            (false, true) => Some(Criticality::Guessed),
            (false, false) => None,
        }
    }

    /// A call on the file was let go by a guess, which was right or not.
    pub(super) fn guessed(&mut self, now: Nanos, file: u32, right: bool) {
        let wanted = file.wrapping_add(1);
        let found = self.files.iter().position(|known| known.file == wanted);
        let oldest = || {
            (0..FILES)
                .min_by_key(|at| {
                    let known = &self.files[*at];
                    known.until.max(known.short_until)
                })
                .unwrap_or(0)
        };
        let place = &mut self.files[found.unwrap_or_else(oldest)];
        if place.file != wanted {
            *place = Trusted { file: wanted, ..Trusted::default() };
        }
        if now.since(place.since) > STUCK_WITHIN {
            (place.since, place.stuck) = (now, 0);
        }
        place.stuck += 1;
        if place.stuck >= STUCK_MIN {
            place.stuck = 0;
            place.short_until = now + TRUST_FOR;
        }
        place.right = if right { place.right.saturating_add(1) } else { 0 };
        place.until = match place.right.checked_sub(RIGHT_MIN) {
            Some(more) => now + Nanos(TRUST_FOR.0 << more.min(DOUBLED_MAX)),
            None => now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_trusted_after_right_guesses_and_longer_each_time() {
        let mut trust = Trust::default();
        let mut now = Nanos(1);
        trust.guessed(now, 7, true);
        assert_eq!(trust.trusts(now, 7), None, "it may have been chance");
        trust.guessed(now, 7, true);
        assert_eq!(trust.trusts(now, 7), Some(Criticality::Critical));
        assert_eq!(trust.trusts(now, 8), None);
        now += TRUST_FOR;
        assert_eq!(trust.trusts(now, 7), None);
        trust.guessed(now, 7, true);
        now += TRUST_FOR;
        assert!(trust.trusts(now, 7).is_some());
        now += TRUST_FOR;
        assert_eq!(trust.trusts(now, 7), None);
        trust.guessed(now, 7, false);
        trust.guessed(now, 7, true);
        assert_eq!(trust.trusts(now, 7), None, "it starts from nothing");
    }

    #[test]
    fn the_file_that_is_trusted_for_the_shortest_time_is_forgotten_first() {
        let mut trust = Trust::default();
        for _ in 0..3 {
            trust.guessed(Nanos(1), 0, true);
        }
        for file in 1..=FILES as u32 {
            trust.guessed(Nanos(2), file, true);
            trust.guessed(Nanos(2), file, true);
        }
        assert!(trust.trusts(Nanos(3), 0).is_some());
        let trusts = |file: &u32| trust.trusts(Nanos(3), *file).is_some();
        let kept = (1..=FILES as u32).filter(trusts).count();
        assert_eq!(kept, FILES - 1);
    }

    #[test]
    fn short_calls_on_a_file_beside_which_clients_are_stuck_for_seconds_are_let_go() {
        let mut trust = Trust::default();
        let mut now = STUCK_WITHIN + STUCK_WITHIN;
        for _ in 0..STUCK_MIN {
            assert_eq!(trust.trusts(now, 7), None);
            now += Nanos::from_millis(200);
            trust.guessed(now, 7, false);
        }
        assert_eq!(trust.trusts(now, 7), Some(Criticality::Guessed));
        now += TRUST_FOR;
        assert_eq!(trust.trusts(now, 7), None);
        // Now and then a client waits: that is no reason.
        for _ in 0..2 * STUCK_MIN {
            now += Nanos::from_millis(500);
            trust.guessed(now, 7, false);
            assert_eq!(trust.trusts(now, 7), None);
        }
    }
}
