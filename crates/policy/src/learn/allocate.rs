//! What the store gives for what is asked.
//!
//! # Problem
//! Owners ask for the shares that their targets need. The sum may be more than the store has, an
//! owner may have died, and best effort must not starve.
//!
//! # The primitive
//! An ask is a *state* with a *lease*, not a step: it says "this share", may be repeated, lost or
//! sent by two owners at once, and is over when it was not repeated for [`Settings::lease`]. With
//! nᵢ the asks:
//!
//! * **Room.** Σ nᵢ ≤ 1 − floor: each gets its ask. The rest goes to best effort by weight.
//! * **Short.** Equation 3, weighted: the shares xᵢ that make Σ wᵢ (1 − xᵢ/nᵢ)² least with
//!   Σ xᵢ = 1 − floor. With sᵢ the shortfall 1 − xᵢ/nᵢ that means sᵢ = min(1, λ nᵢ/wᵢ), where λ
//!   follows by bisection. Large asks give most: a percent of theirs is more of the store.
//! * **Who needs more than it may have.** A target whose need is above its limit is not met
//!   whatever it gets, or what is posted of it is false: one that says "nothing" for ever seems to
//!   need the whole store. While there is too little, it counts for limit · (limit/need)², and gets
//!   what the others' targets leave. So no lie takes a target from others whose need is within
//!   their limits. There is no jump at the limit, where an honest need may swing.
//!
//! An application with a target whose ask is not known, or over, gets a *fair share*: one part of
//! as many as are present. An ask is at most the application's limit. Shares are worked out again
//! when an ask has moved by more than [`Settings::step`], or when who is present has changed.
//!
//! # Invariants
//! The sum of the shares is at most one, and none is negative. No share of a target is above its
//! limit, nor above its ask while best effort is present. If it is, it has the floor at least.
//!
//! # Worked example
//! Asks of 0.7 and 0.6, equal weights, a floor of 0.05: 0.35 too much. s₁ = 0.7 λ and s₂ = 0.6 λ
//! take (0.49 + 0.36) λ = 0.35, so λ = 0.412. The shares are 0.7 · (1 − 0.288) = 0.498 and
//! 0.6 · (1 − 0.247) = 0.452.
//!
//! Source: Equation 3 is the error to be least; the paper's learners look for it by trial.

use super::Application;
use crate::Nanos;

/// An application at the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// What it asks for. None is best effort.
    pub ask: Option<f64>,
    /// What of it counts as much as others' asks while there is too little; at most the ask.
    pub sound: f64,
    /// Its weight.
    pub weight: f64,
}

impl Claim {
    /// One that counts in full.
    pub fn new(ask: Option<f64>, weight: f64) -> Claim {
        Claim { ask, sound: ask.unwrap_or(0.0), weight }
    }

    /// One of a target with this need and this limit.
    pub fn of_need(ask: f64, need: f64, limit: f64, weight: f64) -> Claim {
        let sound = if need > limit { limit * (limit / need).powi(2) } else { ask };
        Claim { ask: Some(ask), sound: sound.min(ask), weight }
    }
}

/// Steps of the bisection: more than a double has bits.
const BISECTIONS: u32 = 60;

/// Works the shares out. Both slices are as long.
pub fn allocate(claims: &[Claim], floor: f64, shares: &mut [f64]) {
    let best_effort: f64 = claims.iter().filter(|c| c.ask.is_none()).map(|c| c.weight).sum();
    let room = if best_effort > 0.0 { 1.0 - floor } else { 1.0 };
    let sum = |of: fn(&Claim) -> f64| claims.iter().map(of).sum::<f64>();
    let (asked, sound) = (sum(|claim| claim.ask.unwrap_or(0.0)), sum(|claim| claim.sound));
    let short = asked > room;
    let lambda = if short && sound > room { lambda(claims, room) } else { 0.0 };
    // What sound asks leave goes to the rest of the others, in proportion.
    let rest =
        if short { ((room - sound) / (asked - sound).max(1e-9)).clamp(0.0, 1.0) } else { 1.0 };
    let mut left = 1.0;
    for (share, claim) in shares.iter_mut().zip(claims) {
        let granted = claim.sound * (1.0 - shortfall(claim.sound, claim.weight, lambda));
        *share = claim.ask.map_or(0.0, |ask| granted + (ask - claim.sound) * rest);
        left -= *share;
    }
    for (share, claim) in shares.iter_mut().zip(claims).filter(|(_, claim)| claim.ask.is_none()) {
        *share = left.max(0.0) * claim.weight / best_effort.max(f64::MIN_POSITIVE);
    }
}

fn shortfall(ask: f64, weight: f64, lambda: f64) -> f64 {
    (lambda * ask / weight.max(1e-9)).min(1.0)
}

fn lambda(claims: &[Claim], room: f64) -> f64 {
    let given = |lambda: f64| -> f64 {
        let of = |claim: &Claim| claim.sound * (1.0 - shortfall(claim.sound, claim.weight, lambda));
        claims.iter().map(of).sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while given(high) > room && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if given(middle) > room { low = middle } else { high = middle }
    }
    high
}

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long an ask counts. Default 40 s. Smaller: a dead owner's share is free sooner. Larger:
    /// a host may be cut off for longer.
    pub lease: Nanos,
    /// Part of the store that best effort keeps. Default 0.05.
    pub floor: f64,
    /// Part by which an ask must move to count. Default 0.02. Smaller: more messages.
    pub step: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { lease: Nanos::from_millis(40_000), floor: 0.05, step: 0.02 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    about: Application,
    present: bool,
    /// The last ask, and until when it counts.
    ask: Option<(f64, Nanos)>,
    /// The need behind it.
    need: f64,
    /// The ask by which the shares were worked out.
    applied: Option<f64>,
}

/// The store's books: who is present, who asks for what, who gets what.
#[derive(Clone, Debug)]
pub struct Allocator {
    settings: Settings,
    entries: Vec<Entry>,
    claims: Vec<Claim>,
    shares: Vec<f64>,
    changed: bool,
    /// Grows whenever shares change.
    pub epoch: u64,
}

impl Allocator {
    /// With no application present.
    pub fn new(settings: Settings, applications: &[Application]) -> Self {
        let entry = |about: &Application| Entry {
            about: *about,
            present: false,
            ask: None,
            need: 0.0,
            applied: None,
        };
        let claim = |about: &Application| Claim::new(None, about.weight);
        Allocator {
            settings,
            entries: applications.iter().map(entry).collect(),
            claims: applications.iter().map(claim).collect(),
            shares: vec![0.0; applications.len()],
            changed: true,
            epoch: 0,
        }
    }

    /// The application has something to ask the store for, or no longer. Without demand its ask is
    /// over at once.
    pub fn set_present(&mut self, at: usize, present: bool) {
        let entry = &mut self.entries[at];
        self.changed |= entry.present != present;
        entry.present = present;
        if !present {
            entry.ask = None;
        }
    }

    /// An owner asks. The same ask again only prolongs the lease. An application that is not
    /// present has nothing to ask for.
    pub fn ask(&mut self, now: Nanos, at: usize, share: f64) {
        self.ask_for(now, at, share, share);
    }

    /// The same of an owner that knows the need behind its ask: arrears come on top of it.
    pub fn ask_for(&mut self, now: Nanos, at: usize, share: f64, need: f64) {
        let entry = &mut self.entries[at];
        if !entry.present || !share.is_finite() {
            return;
        }
        // A need that grows beyond the limit changes what the ask counts for.
        let limit = entry.about.limit;
        self.changed |= need.max(limit) > 1.1 * entry.need.max(limit)
            || need.max(limit) < 0.9 * entry.need.max(limit);
        entry.need = need;
        let share = share.clamp(0.0, entry.about.limit);
        entry.ask = Some((share, now + self.settings.lease));
    }

    /// Works the shares out if anything has changed. Says whether it did.
    pub fn settle(&mut self, now: Nanos) -> bool {
        let present = self.entries.iter().filter(|entry| entry.present).count().max(1);
        let step = self.settings.step;
        for entry in &mut self.entries {
            entry.ask = entry.ask.filter(|(_, until)| now < *until);
            let ask = entry.ask.map(|(share, _)| share);
            self.changed |= match (ask, entry.applied) {
                (Some(new), Some(old)) => (new - old).abs() > step * old,
                (new, old) => new.is_some() != old.is_some(),
            };
        }
        if !core::mem::take(&mut self.changed) {
            return false;
        }
        for (entry, claim) in self.entries.iter_mut().zip(&mut self.claims) {
            entry.applied = entry.ask.map(|(share, _)| share);
            let fair = (1.0 / present as f64).min(entry.about.limit);
            let own = match (entry.present, entry.about.target) {
                (false, _) => Some(0.0),
                (true, true) => Some(entry.applied.unwrap_or(fair)),
                (true, false) => None,
            };
            let about = &entry.about;
            *claim = match own.filter(|_| entry.applied.is_some()) {
                Some(ask) => Claim::of_need(ask, entry.need, about.limit, about.weight),
                None => Claim::new(own, about.weight),
            };
        }
        allocate(&self.claims, self.settings.floor, &mut self.shares);
        self.lend_rest();
        self.epoch += 1;
        true
    }

    /// Without best effort, targets share what is left, up to their limits.
    fn lend_rest(&mut self) {
        let used: f64 = self.shares.iter().sum();
        if used <= 0.0 || used >= 1.0 - 1e-9 {
            return;
        }
        for (share, entry) in self.shares.iter_mut().zip(&self.entries) {
            *share = (*share / used).min(entry.about.limit.max(*share));
        }
    }

    /// The shares, application by application.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// What the application was promised of its ask: one if there was room.
    pub fn promise(&self, at: usize) -> f64 {
        let ask = self.claims[at].ask.unwrap_or(0.0);
        if ask > 0.0 { (self.shares[at] / ask).min(1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3, "{a} and {b}");
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    #[test]
    fn the_worked_example() {
        let claim = |ask| Claim::new(ask, 1.0);
        let mut shares = [0.0; 3];
        allocate(&[claim(Some(0.7)), claim(Some(0.6)), claim(None)], 0.05, &mut shares);
        near(shares[0], 0.498);
        near(shares[1], 0.452);
        near(shares[2], 0.05);
    }

    #[test]
    fn a_larger_weight_falls_less_short() {
        let claims = [Claim::new(Some(0.8), 4.0), Claim::new(Some(0.8), 1.0)];
        let mut shares = [0.0; 2];
        allocate(&claims, 0.05, &mut shares);
        // 0.6 too much: s₂ = 4 s₁, so 0.8 · 5 s₁ = 0.6.
        near(shares[0], 0.8 * 0.85);
        near(shares[1], 0.8 * 0.4);
    }

    proptest! {
        #[test]
        fn shares_are_shares(
            claims in proptest::collection::vec((proptest::option::of(0.0..3.0f64), 0.1..10.0f64), 1..20),
            floor in 0.0..0.3f64,
        ) {
            let claims: Vec<_> = claims.into_iter().map(|(ask, weight)| Claim::new(ask, weight)).collect();
            let mut shares = vec![0.0; claims.len()];
            allocate(&claims, floor, &mut shares);
            prop_assert!(shares.iter().sum::<f64>() <= 1.0 + 1e-9, "{shares:?}");
            prop_assert!(shares.iter().all(|share| *share >= 0.0));
            let best_effort = claims.iter().any(|claim| claim.ask.is_none());
            let rest: f64 = claims.iter().zip(&shares).filter(|(c, _)| c.ask.is_none()).map(|(_, s)| s).sum();
            prop_assert!(!best_effort || rest >= floor - 1e-9, "{rest}");
            for (claim, share) in claims.iter().zip(&shares) {
                prop_assert!(claim.ask.is_none_or(|ask| *share <= ask + 1e-9));
            }
        }

        /// No other division is better: moving a little from one to another does not help.
        #[test]
        fn what_falls_short_is_the_least(
            asks in proptest::collection::vec((0.3..1.0f64, 0.5..3.0f64), 2..6),
        ) {
            let claims: Vec<_> = asks.iter().map(|(ask, weight)| Claim::new(Some(*ask), *weight)).collect();
            prop_assume!(asks.iter().map(|(ask, _)| ask).sum::<f64>() > 1.0);
            let mut shares = vec![0.0; claims.len()];
            allocate(&claims, 0.05, &mut shares);
            let error = |shares: &[f64]| -> f64 {
                shares.iter().zip(&asks).map(|(x, (n, w))| w * (1.0 - x / n).powi(2)).sum()
            };
            let least = error(&shares);
            for i in 0..shares.len() {
                for j in 0..shares.len() {
                    let mut other = shares.clone();
                    let moved = 1e-3f64.min(other[i]);
                    other[i] -= moved;
                    other[j] += moved;
                    prop_assert!(error(&other) >= least - 1e-6);
                }
            }
        }
    }

    #[test]
    fn who_needs_more_than_it_may_have_takes_no_target_from_others() {
        let mut shares = [0.0; 3];
        let best_effort = Claim::new(None, 1.0);
        let of = |need: f64| Claim::of_need(need.min(0.9), need, 0.9, 1.0);
        // It posts nothing, and so seems to need all there is and more.
        allocate(&[of(10.0), of(0.35), best_effort], 0.05, &mut shares);
        near(shares[1], 0.35);
        near(shares[0], 0.60);
        near(shares[2], 0.05);
        allocate(&[of(10.0), of(0.85), best_effort], 0.05, &mut shares);
        near(shares[1], 0.85);
        // Alone it has what it asks for.
        allocate(&[of(10.0), best_effort], 0.05, &mut shares[..2]);
        near(shares[0], 0.9);
        // No jump at the limit.
        let mut before = f64::NAN;
        for step in 0..200 {
            let need = 0.8 + 0.001 * f64::from(step);
            allocate(&[of(need), of(0.6), best_effort], 0.05, &mut shares);
            assert!(step == 0 || (shares[0] - before).abs() < 0.01, "{need}: {shares:?}");
            before = shares[0];
        }
    }

    fn books() -> Allocator {
        let applications = [
            Application { limit: 0.5, ..Application::with_target(0) },
            Application::with_target(1),
            Application::best_effort(1),
        ];
        let mut books = Allocator::new(Settings::default(), &applications);
        for at in 0..3 {
            books.set_present(at, true);
        }
        books
    }

    #[test]
    fn an_ask_is_a_lease() {
        let mut books = books();
        assert!(books.settle(at(0)));
        near(books.shares()[1], 1.0 / 3.0);
        books.ask(at(1), 0, 0.3);
        books.ask(at(1), 1, 0.2);
        assert!(books.settle(at(1)));
        near(books.shares()[2], 0.5);
        // Two owners at once say the same; a small step is none.
        books.ask(at(30), 0, 0.3);
        books.ask(at(30), 0, 0.303);
        assert!(!books.settle(at(30)));
        assert!(books.settle(at(41)), "the ask of 1 is over");
        near(books.shares()[0], 0.303);
        near(books.shares()[1], 1.0 / 3.0);
    }

    #[test]
    fn who_joins_and_leaves_changes_shares_without_any_ask() {
        let mut books = books();
        books.ask(at(1), 0, 0.3);
        books.ask(at(1), 1, 0.2);
        books.settle(at(1));
        books.set_present(1, false);
        assert!(books.settle(at(2)));
        near(books.shares()[1], 0.0);
        near(books.shares()[2], 0.7);
        // Its owner still asks: there is no ask to come back to.
        books.ask(at(2), 1, 0.2);
        books.set_present(1, true);
        assert!(books.settle(at(2)));
        near(books.shares()[1], 1.0 / 3.0);
        books.set_present(1, false);
        books.set_present(2, false);
        assert!(books.settle(at(3)));
        near(books.shares()[0], 0.5);
    }

    #[test]
    fn nobody_gets_more_than_its_limit() {
        let mut books = books();
        books.ask_for(at(1), 0, 9.0, 0.4);
        books.ask(at(1), 1, 0.2);
        books.settle(at(1));
        near(books.shares()[0], 0.5);
        near(books.promise(0), 1.0);
        books.ask(at(2), 1, 0.9);
        books.settle(at(2));
        assert!(books.promise(1) < 0.9 && books.promise(1) > 0.3, "{}", books.promise(1));
    }
}
