//! Records of requests that were queued: behind which sessions, for how long, and how it ended.
//!
//! A request that is not queued leaves no record, so below P nothing is written.

use crate::entered::PassReason;
use crate::ring::{Record, Ring, halves, joined};
use headworks_policy::Nanos;

/// Records that the ring keeps.
pub const HELD: usize = 4096;

/// Running sessions that a record names: those that had been running for longest.
pub const BEHIND: usize = 4;

/// One queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRequest {
    /// Its number: how many were queued before it, over all sessions.
    pub number: u64,
    /// Whose it was, and which session of that slot.
    pub session: u32,
    /// See `session`.
    pub generation: u32,
    /// Index of the class.
    pub class: u32,
    /// Other sessions that were queued or owed a permit when it was queued.
    pub ahead: u32,
    /// Sessions that ran at that moment, the longest-running ones first.
    pub behind: [Option<u32>; BEHIND],
    /// Why it passed, if it was not admitted.
    pub passed: Option<PassReason>,
    /// When it arrived.
    pub arrived: Nanos,
    /// When it was admitted or passed.
    pub admitted: Nanos,
    /// When the server came back for the next one.
    pub ended: Nanos,
}

/// See the module.
pub type HeldRing = Ring<HeldRequest, 7, HELD>;

impl Record<7> for HeldRequest {
    const FIELDS: &'static str =
        "session, generation; class, ahead; behind; passed; arrived; admitted; ended";

    fn to_words(&self) -> [u64; 7] {
        let behind = self.behind.iter().rev();
        [
            joined(self.session, self.generation),
            joined(self.class, self.ahead),
            // Slots are few enough for 16 bits each: see below.
            behind.fold(0, |word, session| word << 16 | session.map_or(0, |at| u64::from(at) + 1)),
            self.passed.map_or(0, |reason| reason as u64),
            self.arrived.0,
            self.admitted.0,
            self.ended.0,
        ]
    }

    fn from_words(number: u64, words: [u64; 7]) -> Self {
        let [whose, class, behind, passed, arrived, admitted, ended] = words;
        let (session, generation) = halves(whose);
        let (class, ahead) = halves(class);
        HeldRequest {
            number,
            session,
            generation,
            class,
            ahead,
            behind: core::array::from_fn(|at| named((behind >> (16 * at)) as u16)),
            passed: PassReason::from_word(passed as u32),
            arrived: Nanos(arrived),
            admitted: Nanos(admitted),
            ended: Nanos(ended),
        }
    }
}

// A session's number, and zero for none, fit into 16 bits: slots are small.
const _: () = assert!(headworks_policy::SESSIONS < u16::MAX as usize);

/// A session's number from the number plus one; zero for none.
pub(crate) fn named(word: u16) -> Option<u32> {
    u32::from(word).checked_sub(1)
}
