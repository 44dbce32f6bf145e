//! Weighted round robin over sessions, by rounds (AppleS, section 3.3).
//!
//! # The problem
//! n sessions want to run requests, and the database should work for each in proportion to its
//! weight. AppleS (which calls a session a user) divides time into *scheduling rounds*. In one
//! round, session i may issue `Lᵢ = φᵢ·ζ` requests, at least one. What a session does not use, the
//! others take.
//!
//! # Units
//! Quota and cost are in requests, as fixed-point numbers with 16 fractional bits
//! ([`ONE`] is one request). A round has a number, a `u64` that only grows.
//!
//! # The one primitive
//! A real round robin would visit sessions whose debt is not yet paid, round after round. Instead
//! each queued session carries the time at which it is due: a round and a part of it. The session
//! with the smallest time is next. A turn that cost `c` pushes its session `c / L` rounds into the
//! future. Debts, weights, unequal transactions and skipped rounds all follow from this one
//! division, and each decision costs O(log n).
//!
//! The parts of a round matter. A session with a large quota that used little of it is due soon,
//! not after all others of the round. A small account beside one with 200 busy connections waits
//! for a permit, not for 200 turns. Each session begins at a different position in the round, so
//! that due times are spread. This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with
//! rounds as virtual time.
//!
//! * *Overshoot is paid back.* A transaction cannot be stopped halfway (its locks would block
//!   others), so it may cost more than the quota. The session then waits as many rounds as the
//!   excess is worth.
//! * *Idle rounds are lost, rounds in a turn are not.* Rounds without a request pay off a session's
//!   debt, but save up at most a part of one request. They are lost in whole requests, so that each
//!   session keeps its position in the round. Rounds that pass while it runs count in full, or a
//!   session with long turns would never get its share.
//! * *Debt has a limit* of [`DEBT_ROUNDS_MAX`] rounds, so that the wait of any session is bounded.
//! * *A newcomer is no better off than a resident.* Otherwise reconnecting would wipe out a debt. A
//!   newcomer starts as if it had just finished a turn of the average cost.
//!
//! # Weights and ζ
//! φ sums to 1 over the backlogged sessions, so `φᵢ = wᵢ / Σw`. If ζ is so small that the lightest
//! session would get less than one request, "at least one" alone would flatten all weights. So ζ
//! counts as at least `1 / min φ` (the ζ_min of section 4.3): `Lᵢ = max(wᵢ·ζ/Σw, wᵢ/min w)`.
//!
//! # A worked example
//! Sessions A (weight 2) and B (weight 1), ζ at its minimum, so L = 2 and 1. Every transaction
//! costs 20 requests. A runs in round 1, and is due again 20/2 = 10 rounds later, in 11. B runs in
//! round 1, and is due in 21. A runs in 11, 21, 31…, B in 21, 41…: two to one.

mod exact;

use crate::heap::{Heap, Key};
use crate::{CLASSES, SESSIONS};
use exact::{WEIGHT_MAX, Weight, rounds};

/// One request, in the fixed-point unit of quotas and costs.
pub const ONE: i64 = 1 << 16;

/// Fractional bits of the time at which a turn is due, in rounds: one request of the largest quota
/// is one unit. The rest is enough for 100,000 rounds a second, for five years.
const ROUND_BITS: u32 = 20;

/// Weight 1.0. Weights are integers in thousandths.
pub const WEIGHT_ONE: u32 = 1_000;

/// Largest quota a session can have in a round, in requests: keeps products inside 64 bits
/// (`exact`).
const QUOTA_MAX: i64 = 1 << 20;

/// Most rounds that one session's debt is worth. Without this limit a nightly import would be
/// followed by hours of waiting.
pub const DEBT_ROUNDS_MAX: u64 = 1024;

/// Most rounds by which a newcomer is put back.
const NEWCOMER_ROUNDS_MAX: u64 = 64;

/// Shift of the moving average of turn costs: each turn counts for 1/64.
const MEAN_SHIFT: u32 = 6;

/// What a class's weight means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each session of the class has the weight (the paper's way).
    PerUser,
    /// All backlogged sessions of the class together have the weight.
    PerClass,
}

/// Weight of one class. All zero bytes mean weight 1.0 for each session.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ClassShare {
    /// In thousandths; zero counts as [`WEIGHT_ONE`], more than a million as a million.
    weight: u32,
    /// Zero: per session. Anything else: the class shares it.
    shared: u32,
}

impl ClassShare {
    /// `weight` is in thousandths, from 1 to a million; what lies beyond counts as the limit.
    pub fn new(weight: u32, sharing: Sharing) -> Self {
        ClassShare { weight: weight.max(1), shared: u32::from(sharing == Sharing::PerClass) }
    }

    /// From the words that a class's slot in shared memory holds.
    pub fn from_words(weight: u32, shared: bool) -> Self {
        ClassShare { weight, shared: u32::from(shared) }
    }

    fn thousandths(self) -> u32 {
        if self.weight == 0 { WEIGHT_ONE } else { self.weight.min(WEIGHT_MAX) }
    }

    /// Weight of each of the `backlogged` sessions of the class.
    fn of_session(self, backlogged: u32) -> Weight {
        Weight::new(self.thousandths(), if self.shared != 0 { backlogged } else { 1 })
    }

    /// What they have together, in thousandths: below 2^34, of 64 classes below 2^40.
    fn of_class(self, backlogged: u32) -> u64 {
        let times = if self.shared != 0 { 1 } else { u64::from(backlogged).min(SESSIONS as u64) };
        u64::from(self.thousandths()) * times
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Session {
    /// When its next request is due, in rounds with [`ROUND_BITS`] fractional bits.
    due: u64,
    /// When its last turn ended.
    ended: u64,
    class: u32,
    /// Bit 0: has been seen. Bit 1: backlogged, that is waiting or in its turn.
    flags: u32,
}

const KNOWN: u32 = 1;
const BACKLOGGED: u32 = 2;

/// The session whose turn it is, and how many requests the turn is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the session.
    pub session: u32,
    /// Requests it may issue before another session is due; at least 1.
    pub quota: u32,
}

/// Weighted round robin. See the module. All zero bytes are an empty scheduler with ζ at its
/// minimum.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Wrr {
    /// How far the rounds have come: the time at which the last session taken was due.
    now: u64,
    sequence: u64,
    mean_cost: i64,
    zeta: u32,
    _pad: u32,
    /// Classes with backlogged sessions, a bit each: most gates have one or two.
    busy: u64,
    backlogged: [u32; CLASSES],
    shares: [ClassShare; CLASSES],
    sessions: [Session; SESSIONS],
    heap: Heap,
}

crate::layout!(ClassShare { weight, shared });
crate::layout!(Session { due, ended, class, flags });
crate::layout!(Wrr {
    now,
    sequence,
    mean_cost,
    zeta,
    _pad,
    busy,
    backlogged,
    shares,
    sessions,
    heap
});

impl Wrr {
    /// A scheduler without sessions.
    pub const fn new() -> Self {
        const SESSION: Session = Session { due: 0, ended: 0, class: 0, flags: 0 };
        const SHARE: ClassShare = ClassShare { weight: 0, shared: 0 };
        Wrr {
            now: 0,
            sequence: 0,
            mean_cost: 0,
            zeta: 0,
            _pad: 0,
            busy: 0,
            backlogged: [0; CLASSES],
            shares: [SHARE; CLASSES],
            sessions: [SESSION; SESSIONS],
            heap: Heap::new(),
        }
    }

    /// Forgets everything, as if all bytes were zero.
    pub fn clear(&mut self) {
        (self.now, self.sequence, self.mean_cost, self.zeta) = (0, 0, 0, 0);
        self.busy = 0;
        self.backlogged.fill(0);
        self.shares.fill(ClassShare::default());
        self.sessions.fill(Session::default());
        self.heap.clear();
    }

    /// Sets ζ, the requests of one round over all sessions. Zero means the least that gives each
    /// backlogged session one request.
    pub fn set_zeta(&mut self, zeta: u32) {
        self.zeta = zeta;
    }

    /// Sets the weight of a class. It counts from each session's next turn on.
    pub fn set_share(&mut self, class: usize, share: ClassShare) {
        self.shares[class] = share;
    }

    /// Clears what is known of `session` and puts it into `class`: another connection has its slot.
    pub fn join(&mut self, session: u32, class: u32) {
        self.withdraw(session);
        self.sessions[session as usize] =
            Session { class: class.min(CLASSES as u32 - 1), ..Session::default() };
    }

    /// Moves a session to another class. Its debt stays.
    pub fn reclassify(&mut self, session: u32, class: u32) {
        let waiting = self.sessions[session as usize].flags & BACKLOGGED != 0;
        self.set_backlogged(session, false);
        self.sessions[session as usize].class = class.min(CLASSES as u32 - 1);
        self.set_backlogged(session, waiting);
    }

    /// `session` has a request and is queued.
    pub fn arrive(&mut self, session: u32) {
        self.set_backlogged(session, true);
        let quota = self.quota(session);
        let (now, mean) = (self.now, self.mean_cost);
        let entry = &mut self.sessions[session as usize];
        if entry.flags & KNOWN == 0 {
            entry.flags |= KNOWN;
            let behind = rounds(mean, quota).min(NEWCOMER_ROUNDS_MAX << ROUND_BITS);
            entry.due = now.saturating_add(behind).saturating_add(rounds(spread(session), quota));
            entry.ended = now;
        }
        // Time without a request is lost. Lateness from its last turn remains, less that time.
        let late = entry.ended.saturating_sub(entry.due);
        let late = late.saturating_sub(now.saturating_sub(entry.ended));
        let lost = now.saturating_sub(late).saturating_sub(entry.due);
        // In whole requests, so that it keeps its position in the round. If all returning sessions
        // were due at the same moment, they would be so in each later round as well. A session with
        // a large quota would then wait for all of them.
        let request = rounds(ONE, quota);
        if lost >= request {
            entry.due = entry.due.saturating_add(lost / request * request);
        }
        entry.ended = now;
        let key = Key { due: entry.due, sequence: self.sequence };
        self.sequence += 1;
        self.heap.push(session, key);
    }

    /// Whether queued `session` is the next one, and its turn is due: it is not ahead of its share.
    pub fn is_due(&self, session: u32) -> bool {
        self.heap.peek().is_some_and(|(first, key)| first == session && key.due <= self.now)
    }

    /// Takes the next session. It stays backlogged until [`Wrr::end_turn`].
    pub fn take(&mut self) -> Option<Turn> {
        let (session, key) = self.heap.pop()?;
        self.now = self.now.max(key.due);
        // What one round is worth depends on how many are backlogged. A session that came while few
        // were must not keep a share of that time.
        let quota = (self.quota(session) / ONE).clamp(1, QUOTA_MAX) as u32;
        Some(Turn { session, quota })
    }

    /// The turn is over after `used` requests, which may be more or fewer than its quota.
    pub fn end_turn(&mut self, session: u32, used: u32) {
        let cost = i64::from(used) * ONE;
        let quota = self.quota(session);
        self.set_backlogged(session, false);
        let (now, mean) = (self.now, self.mean_cost);
        let entry = &mut self.sessions[session as usize];
        entry.flags |= KNOWN;
        let most = now.saturating_add(DEBT_ROUNDS_MAX << ROUND_BITS);
        // Rounds that passed during the turn are not idle. The session is late by them, up to what
        // such a turn can be worth.
        let outcome = rounds(cost.max(mean).saturating_mul(2), quota);
        let late = outcome.saturating_add(2 << ROUND_BITS);
        let least = now.saturating_sub(late);
        entry.due = entry.due.saturating_add(rounds(cost, quota)).clamp(least, most);
        entry.ended = now;
        if used > 0 {
            // One huge transaction is no average: a sample counts as four times the mean at most.
            let sample = cost.min(self.mean_cost.saturating_mul(4).max(4 * ONE));
            self.mean_cost = if self.mean_cost == 0 {
                sample
            } else {
                self.mean_cost + ((sample - self.mean_cost) >> MEAN_SHIFT)
            };
        }
    }

    /// `session` is no longer queued: its client is gone, or it passed.
    pub fn withdraw(&mut self, session: u32) -> bool {
        self.set_backlogged(session, false);
        self.heap.remove(session)
    }

    /// Whether `session` is queued.
    pub fn is_waiting(&self, session: u32) -> bool {
        self.heap.contains(session)
    }

    /// How many sessions are queued.
    pub fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// The current round.
    pub fn round(&self) -> u64 {
        self.now >> ROUND_BITS
    }

    /// Requests that `session` may issue in one round, in units of [`ONE`].
    pub fn quota(&self, session: u32) -> i64 {
        let class = self.sessions[session as usize].class as usize;
        let own = self.shares[class].of_session(self.backlogged[class]);
        let (mut total, mut least) = (0, own);
        let mut busy = self.busy;
        while busy != 0 {
            // Below CLASSES, which is the number of bits.
            let class = busy.trailing_zeros() as usize;
            busy &= busy - 1;
            let count = self.backlogged[class];
            if count > 0 {
                let share = self.shares[class];
                total += share.of_class(count);
                let weight = share.of_session(count);
                if weight.is_less_than(least) {
                    least = weight;
                }
            }
        }
        exact::quota(own, least, total, self.zeta)
    }

    fn set_backlogged(&mut self, session: u32, backlogged: bool) {
        let entry = &mut self.sessions[session as usize];
        if (entry.flags & BACKLOGGED != 0) == backlogged {
            return;
        }
        entry.flags ^= BACKLOGGED;
        let class = entry.class as usize;
        let count = &mut self.backlogged[class];
        *count = if backlogged { *count + 1 } else { count.saturating_sub(1) };
        let bit = 1u64 << (class % CLASSES);
        self.busy = if *count > 0 { self.busy | bit } else { self.busy & !bit };
    }
}

const _: () = assert!(CLASSES == u64::BITS as usize, "a bit for each class");

/// Where in its part of a round a session is due, below [`ONE`]. Multiples of the golden ratio lie
/// evenly, however many sessions there are.
fn spread(session: u32) -> i64 {
    i64::from(session.wrapping_mul(0x9E37_79B9) >> 16)
}

impl Default for Wrr {
    fn default() -> Self {
        Self::new()
    }
}
