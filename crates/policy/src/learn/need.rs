//! Need and lag: the share that a target needs is worked out, not searched.
//!
//! # Problem
//! Trial and error costs minutes, and each trial costs throughput. But an application says in each
//! window what it got and what it achieved.
//!
//! # The primitive
//! Each target has an *owner*, at the host where its dft is born. In every window, y = 1 + dft:
//!
//! ```text
//! got   = held and not lent ? granted : used
//! need  = Σ got / Σ y                            see `estimate`
//! lag   = lag · (1 − 1/30) + promise − y         seconds of the target's work, in [−0.65, 3]
//! ask   = need · (1 + g · lag)                   g = min(0.3, 0.3 / age of the dft)
//! ```
//!
//! *got* is the granted share where the share binds, since that is exact; measured use is noisy,
//! and the larger of the two is biased. The *promise* is grant ÷ ask. The lag makes up for
//! what chance took: shares move on purpose, so that what is delivered is on target. It is frozen
//! where it would count what is not its business: work done on shares that were lent, or more than
//! it asked for; a shortfall of an application that leaves its share unused, or has no demand for
//! more. Credit counts for little. A second with three times the target, while others were away,
//! was not asked for, and is no reason to have a third of it once they are back. Both add to a need
//! that is right without it. If they are lost, steadiness is lost and not the target.
//!
//! The ask goes to the store as a state with a lease ([`super::allocate`]); the grant comes back
//! with the replies, and both levels derive their fractions from the same product. An application
//! that waits for the device and not for its share has a second lever ([`depth`]).
//!
//! # A target that cannot be met
//! It is said ([`Verdict`]) once the mean of [`VERDICT_WINDOWS`] windows is more than 5 % short:
//! *no room* if it needs more than its limit, or is held and was promised less than it asked for;
//! *not storage* if neither share nor depth holds the application, or it posts nothing although it
//! is served.
//!
//! # A target above the demand A database at night does half of its target, and no share changes
//! that. It is *sated*: its program says so ([`Observation::sated`]), or it shows. It does not wait
//! for its share. And it has less than one request under way for half of the time, or these take no
//! longer than when the target was met: longer would be needed to explain at least half of what is
//! missing.
//!
//! # Invariants
//! Nothing is tried out. Without samples the ask stays. Without demand there is no dft, no ask, and
//! the lease ends: an application that has ended is not a starved one.
//!
//! # Worked example
//! Share 0.25 achieves 0.5: need 0.5. With 0.5 granted, a window achieves 0.9: the lag is 0.1 s and
//! the ask 0.5 · (1 + 0.3 · 0.1) = 0.515 until the arrear is served.
//!
//! Source: an addition to the paper, whose controllers know only the dft. The dft passed down on
//! requests is its section 3.3; the ask beside it and the grant on the reply are of the same kind.

pub mod depth;
pub mod estimate;

#[cfg(test)]
mod tests;

use super::allocate::{self, Allocator};
use super::{Application, Controller, Fractions, Observation};
use crate::Nanos;
use depth::Depth;
use estimate::Estimate;

/// Windows by which it is judged whether a target is met: said well within a minute.
pub const VERDICT_WINDOWS: usize = 30;

/// Windows for which a lag is remembered.
const LAG_MEMORY: f64 = 30.0;

/// Most seconds behind that count.
const LAG_MOST: f64 = 3.0;

/// Most seconds ahead that count: the ask is never below 0.8 of the need. A smaller step for each
/// window instead is one-sided, and where few transactions come in a second, what is delivered is
/// too much then.
const CREDIT_MOST: f64 = 0.65;

/// Part of its share below which an application does not need more of it.
const UNUSED: f64 = 0.7;

/// Requests under way below which storage is not what an application waits for.
const FEW: f64 = 0.5;

/// Part of the target that must be missing before it is asked whether there is demand for it.
const MISSING: f64 = 0.9;

/// Most that counts as achieved, in targets. Far more is a mistake of who posts it.
const ACHIEVED_MOST: f64 = 100.0;

/// Windows before it may be said that a target is met, or not yet.
const EARLY: usize = 5;

/// Who achieves less than this part of its target, although it is served, posts nothing.
const NOTHING: f64 = 0.01;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Part of the need that is added for each second of lag. Default 0.3. Smaller: survives older
    /// dfts. Larger: follows swings.
    pub lag_gain: f64,
    /// How fast best effort's depth follows the dft. Default 0.1. Zero: depth is left alone.
    pub depth_gain: f64,
    /// A share that its application does not use is lost to all (quanta). Default: not.
    pub hard_shares: bool,
    /// Only the store's fractions are set. Default: both levels'.
    pub store_alone: bool,
    /// Windows before the first ask. Default 3.
    pub first: u32,
    /// What the store does.
    pub store: allocate::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            lag_gain: 0.3,
            depth_gain: 0.1,
            hard_shares: false,
            store_alone: false,
            first: 3,
            store: allocate::Settings::default(),
        }
    }
}

/// How a target fares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Too early to say.
    Unknown,
    /// Within 5 %, or above.
    Met,
    /// Behind, and on its way.
    Behind {
        /// Part of the target that is missing.
        shortfall: f64,
    },
    /// The store has not the room: others have targets, too, or the class has a limit.
    NoRoom {
        /// Part of the target that is missing.
        shortfall: f64,
        /// Share that it would need.
        need: f64,
    },
    /// It waits for something else than storage.
    NotStorage {
        /// Part of the target that is missing.
        shortfall: f64,
    },
    /// All that is asked of it is served, and that is less than its target.
    Sated {
        /// Part of the target for which there is no demand.
        shortfall: f64,
    },
}

/// The owner of one target.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// What it needs.
    pub estimate: Estimate,
    depth: Depth,
    windows: u32,
    lag_s: f64,
    promise: f64,
    /// How often it was not held, lately.
    unheld: f64,
    /// What it uses, lately.
    used: f64,
    age_s: f64,
    /// What it achieves and how long a request takes, lately.
    achieved: f64,
    latency_s: f64,
    /// How long a request takes at most while the target is met; zero before.
    met_s: f64,
    /// How often there was no demand for more, lately.
    sated: f64,
    /// What was achieved in the last windows, of the present need or not.
    recent: [f64; VERDICT_WINDOWS],
    /// Processors are short where the store runs.
    starved: bool,
}

impl Owner {
    /// Learns from a window.
    pub fn window(&mut self, now: Nanos, settings: &Settings, seen: &Observation) {
        let Some(dft) = seen.dft.filter(|dft| dft.is_finite()) else { return };
        let achieved = (1.0 + dft).clamp(0.0, ACHIEVED_MOST);
        let asked = self.ask(settings);
        let binds = seen.held && !seen.lent;
        self.estimate.add(if binds { seen.granted } else { seen.used }, achieved);
        self.recent[self.windows as usize % VERDICT_WINDOWS] = achieved;
        self.windows += 1;
        self.unheld += 0.2 * (f64::from(u8::from(!seen.held)) - self.unheld);
        self.used += 0.2 * (seen.used - self.used);
        self.age_s = seen.age.0 as f64 / 1e9;
        let sated = self.is_sated(achieved, seen);
        self.sated += 0.2 * (f64::from(u8::from(sated)) - self.sated);
        if self.windows <= settings.first {
            self.promise = 1.0;
            return;
        }
        let behind = self.promise - achieved;
        // Who starves has nothing of its share, and is held.
        let unused = !seen.held && seen.used < UNUSED * seen.granted;
        let given = asked.is_some_and(|asked| seen.granted > 1.1 * asked);
        let not_its_business = if behind < 0.0 {
            seen.lent || given
        } else {
            sated || unused || !seen.held && settings.hard_shares
        };
        let behind = if not_its_business { 0.0 } else { behind };
        let kept = self.lag_s * (1.0 - 1.0 / LAG_MEMORY);
        self.lag_s = (kept + behind).clamp(-CREDIT_MOST, LAG_MOST);
        if settings.depth_gain > 0.0 {
            let seen = depth::Seen {
                dft: achieved - 1.0,
                held: seen.held,
                sated,
                outstanding: seen.outstanding,
                starved: self.starved,
                age_s: self.age_s,
            };
            self.depth.window(now, settings.depth_gain, &seen);
        }
    }

    /// Whether there was no demand for more in a window.
    fn is_sated(&mut self, achieved: f64, seen: &Observation) -> bool {
        self.achieved += 0.2 * (achieved - self.achieved);
        self.latency_s += 0.2 * (seen.latency_s - self.latency_s);
        if seen.sated || seen.latency_s <= 0.0 {
            return seen.sated;
        }
        if self.achieved > 0.98 {
            // The slowest at which it was met: neighbours may have come since.
            let weight = if self.latency_s > self.met_s { 0.2 } else { 0.005 };
            self.met_s += weight * (self.latency_s - self.met_s);
        }
        let early = self.windows < EARLY as u32;
        // Where processors are short, storage may be quick and the target missed all the same.
        if seen.held || self.achieved > MISSING || early || self.starved {
            return false;
        }
        // Clients that wait for storage achieve less as a request takes longer.
        let explains = 0.5 * (1.0 / self.achieved.max(NOTHING) - 1.0);
        let few = seen.outstanding > 0.0 && seen.outstanding < FEW;
        few || self.latency_s < self.met_s * (1.0 + explains)
    }

    /// Processors are short where the store runs, or no longer.
    pub fn starve(&mut self, starved: bool) {
        self.starved = starved;
    }

    /// The share to ask for, once enough is known.
    pub fn ask(&self, settings: &Settings) -> Option<f64> {
        if self.windows < settings.first {
            return None;
        }
        let gain = settings.lag_gain.min(0.3 / self.age_s.max(1e-3));
        let ask = self.estimate.need() * (1.0 + gain * self.lag_s);
        let spared = settings.hard_shares && self.unheld > 0.6;
        Some(if spared { ask.min(1.25 * self.used) } else { ask })
    }

    /// Part of the usual depth that best effort may have for its sake.
    pub fn depth(&self) -> f64 {
        self.depth.part()
    }

    /// The store gave this part of the ask.
    pub fn granted(&mut self, promise: f64) {
        self.promise = promise;
    }

    /// The target is `factor` times what it was.
    pub fn retarget(&mut self, factor: f64) {
        if factor.is_finite() && factor > 0.0 {
            self.estimate.retarget(factor);
            (self.lag_s, self.met_s) = (0.0, 0.0);
        }
    }

    /// How the target fares.
    pub fn verdict(&self, limit: f64) -> Verdict {
        let seen = (self.windows as usize).min(VERDICT_WINDOWS);
        if seen < EARLY {
            return Verdict::Unknown;
        }
        let shortfall = 1.0 - self.recent[..seen].iter().sum::<f64>() / seen as f64;
        let need = self.estimate.need();
        if shortfall <= 0.05 {
            Verdict::Met
        } else if self.sated > 0.5 {
            Verdict::Sated { shortfall }
        } else if seen < VERDICT_WINDOWS {
            Verdict::Behind { shortfall }
        } else if shortfall > 1.0 - NOTHING && self.used > NOTHING {
            Verdict::NotStorage { shortfall }
        } else if need > limit || self.unheld < 0.5 && self.promise < 0.98 {
            Verdict::NoRoom { shortfall, need }
        } else if self.starved || self.unheld > 0.5 && self.depth.gave_up() {
            Verdict::NotStorage { shortfall }
        } else {
            Verdict::Behind { shortfall }
        }
    }
}

/// All owners and the store: need and lag as one controller.
#[derive(Clone, Debug)]
pub struct Owners {
    settings: Settings,
    owners: Vec<Owner>,
    store: Allocator,
    alive: bool,
}

impl Owners {
    /// Owners of these applications' targets.
    pub fn new(settings: Settings, applications: &[Application]) -> Self {
        Owners {
            settings,
            owners: vec![Owner::default(); applications.len()],
            store: Allocator::new(settings.store, applications),
            alive: true,
        }
    }

    /// The owner of application `at`.
    pub fn owner(&self, at: usize) -> &Owner {
        &self.owners[at]
    }

    /// The hosts' fractions are given: each host gets what its applications need.
    fn set_store_alone(&self, applications: &[Application], fractions: &mut Fractions) {
        let Fractions { host, store, .. } = fractions;
        let mut sums = vec![(0.0, 0u32); store.len()];
        for (at, application) in applications.iter().enumerate() {
            let share = self.store.shares()[at];
            if application.target && share > 0.0 {
                let (sum, count) = &mut sums[application.host];
                *sum += (share / host[at].max(0.01)).ln();
                *count += 1;
            }
        }
        let wanted = |(sum, count): (f64, u32)| (count > 0).then(|| (sum / f64::from(count)).exp());
        let all: f64 = sums.iter().filter_map(|sum| wanted(*sum)).sum();
        let others = sums.iter().filter(|(_, count)| *count == 0).count();
        let most = if others > 0 { all.min(1.0 - self.settings.store.floor) } else { 1.0 };
        for (fraction, sum) in store.iter_mut().zip(sums) {
            *fraction = match wanted(sum) {
                Some(own) if all > 0.0 => own / all * most,
                _ => (1.0 - most) / others.max(1) as f64,
            };
        }
    }
}

impl Controller for Owners {
    fn name(&self) -> &'static str {
        match (self.settings.lag_gain > 0.0, self.settings.depth_gain > 0.0) {
            (false, _) => "need",
            (true, false) => "need and lag",
            (true, true) => "need, lag and depth",
        }
    }

    fn window(
        &mut self,
        now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        for (at, application) in applications.iter().enumerate() {
            if let Some(seen) = &seen[at] {
                // The store sees who has requests, whether owners live or not.
                self.store.set_present(at, seen.demand || seen.used > 1e-4);
            }
            if !application.target || !self.alive {
                continue;
            }
            let owner = &mut self.owners[at];
            if let Some(seen) = &seen[at] {
                owner.window(now, &self.settings, seen);
                if let Some(ask) = owner.ask(&self.settings) {
                    self.store.ask_for(now, at, ask, owner.estimate.need());
                }
            }
        }
        // Before the first asks there is no reason to move anything.
        let known = |(owner, about): (&Owner, &Application)| {
            about.target && owner.windows >= self.settings.first
        };
        if !self.owners.iter().zip(applications).any(known) {
            return;
        }
        let depth = self.owners.iter().map(Owner::depth).fold(1.0, f64::min);
        fractions.depth = depth;
        if !self.store.settle(now) {
            return;
        }
        for (at, owner) in self.owners.iter_mut().enumerate() {
            owner.granted(self.store.promise(at));
        }
        if self.settings.store_alone {
            self.set_store_alone(applications, fractions);
        } else {
            fractions.set_shares(applications, self.store.shares());
        }
    }

    fn set_alive(&mut self, alive: bool) {
        self.alive = alive;
    }

    fn retarget(&mut self, at: usize, factor: f64) {
        self.owners[at].retarget(factor);
    }
}
