//! The token: whose turn it is to learn.
//!
//! # Problem
//! If all controllers act at once, each takes the others' doings for its own. So one acts at a
//! time. The turn must not get lost with its holder, or with a message, and two must not believe
//! that they have it.
//!
//! # The primitive
//! The turn is a *lease*: a holder, an *epoch* that grows each time the turn changes, and an
//! expiry. The holder renews it with each action and passes it on. When it has expired, the next
//! learner in order takes it, at a later epoch. An action of an earlier epoch is refused: its
//! learner was cut off, and another has acted meanwhile.
//!
//! # Invariants
//! At any time at most one learner's actions are accepted. After a holder dies, learning goes on
//! within the length of a lease.
//!
//! # Worked example
//! Three learners, leases of 15 s. Learner 0 holds epoch 1 until 15 s; it renews at 10 s until 25
//! s, and dies. At 24 s learner 1 may not take it. At 25 s it takes epoch 2. Learner 0 comes back
//! with epoch 1 and is refused.
//!
//! Source: section 3.5 passes the token on requests; the lease is an addition.

use crate::Nanos;

/// Who may act, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Number of the learner.
    pub holder: u32,
    /// How often the turn has changed.
    pub epoch: u64,
    /// From then on the turn is free.
    pub expires: Nanos,
}

impl Token {
    /// Learner 0 has the first turn.
    pub fn new(now: Nanos, lease: Nanos) -> Self {
        Token { holder: 0, epoch: 1, expires: now + lease }
    }

    /// Whether an action of `holder` in `epoch` is to be carried out.
    pub fn accepts(&self, now: Nanos, holder: u32, epoch: u64) -> bool {
        self.holder == holder && self.epoch == epoch && now < self.expires
    }

    /// The holder goes on. Says whether it still may.
    pub fn renew(&mut self, now: Nanos, holder: u32, epoch: u64, lease: Nanos) -> bool {
        let may = self.accepts(now, holder, epoch);
        if may {
            self.expires = now + lease;
        }
        may
    }

    /// The holder is done; the turn is `next`'s. Says whether it was its to give.
    pub fn pass(&mut self, now: Nanos, holder: u32, epoch: u64, next: u32, lease: Nanos) -> bool {
        let may = self.accepts(now, holder, epoch);
        if may {
            *self = Token { holder: next, epoch: epoch + 1, expires: now + lease };
        }
        may
    }

    /// `who` takes a turn that was not renewed. Says whether it has it.
    pub fn take(&mut self, now: Nanos, who: u32, lease: Nanos) -> bool {
        let free = now >= self.expires;
        if free {
            *self = Token { holder: who, epoch: self.epoch + 1, expires: now + lease };
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Nanos = Nanos::from_millis(15_000);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    #[test]
    fn the_worked_example() {
        let mut token = Token::new(at(0), LEASE);
        assert!(token.renew(at(10), 0, 1, LEASE));
        assert!(!token.take(at(24), 1, LEASE));
        assert!(token.take(at(25), 1, LEASE));
        assert!(!token.renew(at(26), 0, 1, LEASE) && !token.pass(at(26), 0, 1, 2, LEASE));
        assert!(token.accepts(at(26), 1, 2));
        assert!(token.pass(at(27), 1, 2, 2, LEASE) && token.accepts(at(27), 2, 3));
        // The turn has gone round: the action that learner 0 sent long ago is not of this turn.
        assert!(token.pass(at(28), 2, 3, 0, LEASE));
        assert!(token.accepts(at(28), 0, 4) && !token.accepts(at(28), 0, 1));
    }

    #[test]
    fn at_most_one_learner_is_accepted() {
        let mut token = Token::new(at(0), LEASE);
        // Each remembers the epoch in which it had its turn last.
        let mut epochs = [1u64, 0, 0];
        let mut random = crate::random::Random::new(1);
        for second in 0..10_000 {
            let now = at(second);
            let who = random.below(3) as u32;
            let own = epochs[who as usize];
            match random.below(3) {
                0 => {
                    token.renew(now, who, own, LEASE);
                }
                1 => {
                    if token.pass(now, who, own, (who + 1) % 3, LEASE) {
                        epochs[token.holder as usize] = token.epoch;
                    }
                }
                _ => {
                    if token.take(now, who, LEASE) {
                        epochs[who as usize] = token.epoch;
                    }
                }
            }
            let accepted = (0..3).filter(|who| token.accepts(now, *who, epochs[*who as usize]));
            assert!(accepted.count() <= 1);
        }
    }
}
