//! Bounds and patience of the search, and how many sessions it is worth its cost for.

use super::{Phase, STEP_LAST, Tuner};
use crate::Nanos;

/// Sessions from which on a search is worth its cost although P holds no session.
const CROWD_MIN: u32 = 64;
const CROWD_PER_CORE: u32 = 4;

/// Up to so many sessions for each core a search is not worth its cost, unless they are a crowd.
/// Hardly more are inside than the database serves side by side.
const FEW_PER_CORE: u32 = 8;

/// Short sessions for each long one below which no P is tried. P short ones beside L long ones have
/// P / (P + L) of the processors, which is 0.95 with this many. As all long ones go on without a
/// permit, a smaller P would only hand processors to them.
const SHORT_FOR_LONG: u32 = 19;

/// A search begins again once there are more sessions than at the latest one by this factor.
const GROWN: f64 = 1.5;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least P that is tried.
    pub least: u32,
    /// Largest P that is tried; fewer if there are fewer sessions.
    pub most: u32,
    /// Processors of the database. With fewer requests inside than that some of them idle, whatever
    /// the database does: the first samples are not taken below it.
    pub cores: u32,
    /// Shortest slice.
    pub slice: Nanos,
    /// Longest slice, unless fewer than `completions_min` turns ended in it.
    pub slice_max: Nanos,
    /// Longest slice in any case, and longest time that what is inside is given to turn over before
    /// it.
    pub slice_rare_max: Nanos,
    /// Turns that a slice should have.
    pub completions: u64,
    /// Turns that a slice should have at least: their number is known to an eighth then, by chance
    /// alone. A first sample that has fewer is not believed.
    pub completions_min: u64,
    /// Half of the confidence interval of a mean, relative to it, at which sampling ends.
    pub precision: f64,
    /// Time between two probes while P is held; more if a probe takes long.
    pub probe_every: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            least: 2,
            most: 1_024,
            cores: 1,
            slice: Nanos::from_millis(300),
            slice_max: Nanos::from_millis(2_000),
            slice_rare_max: Nanos::from_millis(20_000),
            completions: 400,
            completions_min: 64,
            precision: 0.02,
            probe_every: Nanos::from_millis(5_000),
        }
    }
}

impl Tuner {
    /// Sessions that this P lets in.
    pub(super) fn inside(&self, parallelism: u32) -> u32 {
        parallelism.min(self.sessions)
    }

    /// This P holds no session, however many there are.
    pub(super) fn is_open(&self, parallelism: u32) -> bool {
        parallelism >= self.limits.most
    }

    /// This P, within the limits; if all sessions are inside with it, it is the open gate.
    pub(super) fn bounded(&self, parallelism: u32) -> u32 {
        if parallelism >= self.sessions {
            return self.limits.most;
        }
        parallelism.clamp(self.least(), self.limits.most)
    }

    /// Sessions who all can be inside without harm, or are all inside with what is held.
    fn unharmed(&self) -> u32 {
        let few = self.limits.cores.saturating_mul(FEW_PER_CORE);
        if self.is_open(self.held) { few } else { self.held }
    }

    /// So few are there that a search is not worth its cost, or so many long ones beside them that
    /// it may try nothing.
    pub(super) fn few(&self) -> bool {
        self.sessions < self.crowd() && self.sessions <= self.unharmed() || self.outnumbered()
    }

    /// P below which the short sessions lose processors to the long ones, which P does not hold;
    /// no more than the held one.
    pub(super) fn needed(&self) -> u32 {
        self.long.saturating_mul(SHORT_FOR_LONG).min(self.held)
    }

    /// The least P that is tried.
    pub(super) fn least(&self) -> u32 {
        self.limits.least.max(self.needed())
    }

    /// So many sessions are long that no P may be tried which queues a short one.
    pub(super) fn outnumbered(&self) -> bool {
        self.long > 0 && self.needed() >= self.sessions
    }

    /// Most have left: all that are there may be inside, and would only be held for the sake of a
    /// search.
    pub(super) fn deserted(&self) -> bool {
        let most = f64::from(self.sessions) * STEP_LAST;
        self.sessions < self.crowd() && most < f64::from(self.unharmed())
    }

    /// Many more have come since the latest search began.
    pub(super) fn grown(&self) -> bool {
        let grown = f64::from(self.sessions) >= GROWN * f64::from(self.searched_users);
        self.phase != Phase::Waiting && self.phase != Phase::Silent && grown && !self.few()
    }

    pub(super) fn most(&self) -> u32 {
        self.limits.most.min(self.sessions).max(self.least())
    }

    /// More sessions than these at once may be too many for the database although P would let them
    /// in.
    pub(super) fn crowd(&self) -> u32 {
        CROWD_MIN.max(self.limits.cores.saturating_mul(CROWD_PER_CORE))
    }
}
