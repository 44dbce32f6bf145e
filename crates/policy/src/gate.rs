//! Who is admitted next: weighted round robin, and sessions that are owed a permit.
//!
//! There are P permits, and a session that runs holds one. This module decides which session gets
//! the next free permit. Counting the permits and putting threads to sleep is the region's task.
//!
//! A session with an open transaction is never queued: a session that may own a lock always goes
//! on. If its client thinks, its permit is lent to another session. If no permit is free when its
//! next request comes, it runs without one and is **owed** a permit. It gets the next free one,
//! before all queued sessions. So at most as many sessions run beyond P as permits were lent, and
//! this excess drains first.
//!
//! One more session may run beyond P: one whose turn is due while no session of its class runs.
//! With few permits, a small account beside a large one would wait for one of the other's requests
//! to end. That takes about as long as its own request. The order and frequency of service stay the
//! same. Only the wait for a permit is saved.

use crate::SESSIONS;
use crate::wrr::{Turn, Wrr};

/// What to do with a free permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Grant it to a queued session and wake it.
    Admit(Turn),
    /// Grant it to a session that is owed one and runs already.
    Repay(u32),
}

/// State of the gate's policy. All zero bytes are an empty gate.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Gate {
    /// The order among queued sessions.
    pub wrr: Wrr,
    owed: Owed,
}

impl Gate {
    /// A gate without sessions.
    pub const fn new() -> Self {
        Gate { wrr: Wrr::new(), owed: Owed::new() }
    }

    /// Clears everything in place: the state is too large for a new one on a thread's stack.
    pub fn clear(&mut self) {
        self.wrr.clear();
        (self.owed.head, self.owed.tail, self.owed.len) = (0, 0, 0);
        self.owed.next.fill(0);
        self.owed.previous.fill(0);
    }

    /// Decides for one free permit. `None` if no session needs it.
    pub fn decide(&mut self) -> Option<Next> {
        match self.owed.pop() {
            Some(session) => Some(Next::Repay(session)),
            None => self.wrr.take().map(Next::Admit),
        }
    }

    /// Whether `session`, which was just queued, may run beyond P: its turn is due, and no session
    /// is owed a permit. The caller knows whether a session of its class runs.
    pub fn may_exceed_limit(&self, session: u32) -> bool {
        self.owed.len == 0 && self.wrr.is_due(session)
    }

    /// Admits `session` beyond P, if it [may](Gate::may_exceed_limit). It is then owed the next
    /// permit.
    pub fn admit_over_limit(&mut self, session: u32) -> Option<Turn> {
        if !self.may_exceed_limit(session) {
            return None;
        }
        let turn = self.wrr.take()?;
        self.grant_next_first(session);
        Some(turn)
    }

    /// `session` runs without a permit from now on, and is owed the next free one.
    pub fn grant_next_first(&mut self, session: u32) {
        self.owed.push(session);
    }

    /// `session` needs no permit any more. Returns whether it was owed one.
    pub fn clear_debt(&mut self, session: u32) -> bool {
        self.owed.remove(session)
    }

    /// Sessions that need a permit: the queued ones and those that are owed one.
    pub fn pending(&self) -> usize {
        self.wrr.waiting() + self.owed.len as usize
    }

    /// Whether `session` is owed a permit.
    pub fn is_owed(&self, session: u32) -> bool {
        self.owed.contains(session)
    }

    /// Sessions that are owed a permit.
    pub fn owed(&self) -> usize {
        self.owed.len as usize
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A first-in first-out list of sessions, linked by indices (plus one, so that zero means none).
#[derive(Clone, Debug)]
#[repr(C)]
struct Owed {
    head: u32,
    tail: u32,
    len: u32,
    _pad: u32,
    next: [u32; SESSIONS],
    previous: [u32; SESSIONS],
}

crate::layout!(Gate { wrr, owed });
crate::layout!(Owed { head, tail, len, _pad, next, previous });

impl Owed {
    const fn new() -> Self {
        Owed { head: 0, tail: 0, len: 0, _pad: 0, next: [0; SESSIONS], previous: [0; SESSIONS] }
    }

    fn contains(&self, session: u32) -> bool {
        self.head == session + 1 || self.previous[session as usize] != 0
    }

    fn push(&mut self, session: u32) {
        if self.contains(session) {
            return;
        }
        self.previous[session as usize] = self.tail;
        self.next[session as usize] = 0;
        match self.tail {
            0 => self.head = session + 1,
            tail => self.next[tail as usize - 1] = session + 1,
        }
        self.tail = session + 1;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u32> {
        let session = self.head.checked_sub(1)?;
        self.remove(session);
        Some(session)
    }

    fn remove(&mut self, session: u32) -> bool {
        if !self.contains(session) {
            return false;
        }
        let (previous, next) = (self.previous[session as usize], self.next[session as usize]);
        match previous {
            0 => self.head = next,
            other => self.next[other as usize - 1] = next,
        }
        match next {
            0 => self.tail = previous,
            other => self.previous[other as usize - 1] = previous,
        }
        self.previous[session as usize] = 0;
        self.next[session as usize] = 0;
        self.len = self.len.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whoever_is_owed_a_permit_goes_before_whoever_waits() {
        let mut gate = Box::new(Gate::new());
        gate.wrr.arrive(1);
        gate.grant_next_first(2);
        assert_eq!(gate.pending(), 2);
        assert_eq!(gate.decide(), Some(Next::Repay(2)));
        assert!(matches!(gate.decide(), Some(Next::Admit(Turn { session: 1, .. }))));
        assert_eq!(gate.decide(), None);
    }

    #[test]
    fn one_whose_turn_is_due_goes_ahead_one_at_a_time() {
        let mut gate = Box::new(Gate::new());
        let crowd = |gate: &mut Gate, session| {
            gate.wrr.join(session, 1);
            gate.wrr.arrive(session);
        };
        (10..20).for_each(|session| crowd(&mut gate, session));
        let mut later = 0;
        for _ in 0..100 {
            let Some(Next::Admit(turn)) = gate.decide() else { panic!("a session waits") };
            gate.wrr.end_turn(turn.session, 1);
            gate.wrr.arrive(turn.session);
            later = turn.session;
        }
        assert!(gate.admit_over_limit(later).is_none(), "others are due before it");
        gate.wrr.join(1, 2);
        gate.wrr.arrive(1);
        gate.wrr.end_turn(1, 1);
        gate.wrr.withdraw(1);
        // It comes back after a while in which the others had their turns.
        for _ in 0..100 {
            let Some(Next::Admit(turn)) = gate.decide() else { panic!("a session waits") };
            gate.wrr.end_turn(turn.session, 1);
            gate.wrr.arrive(turn.session);
        }
        gate.wrr.arrive(1);
        assert_eq!(gate.admit_over_limit(1).map(|turn| turn.session), Some(1));
        assert!(!gate.wrr.is_waiting(1));
        gate.wrr.join(2, 3);
        gate.wrr.arrive(2);
        assert!(gate.admit_over_limit(2).is_none(), "one at a time");
        assert_eq!(gate.decide(), Some(Next::Repay(1)), "the next permit is its own");
    }

    /// Turns of two classes in a gate with two permits: twenty sessions that always want more, and
    /// a few of another class that pause for `pause` after each turn. A turn takes between 1 and
    /// 16. Also the most that were inside.
    fn turns_of_two_classes(
        few: u32,
        weights: [u32; 2],
        pause: u64,
        ahead: bool,
    ) -> ([u32; 2], usize) {
        let mut gate = Box::new(Gate::new());
        let class_of = |session: u32| usize::from(session >= 20);
        for (class, weight) in weights.into_iter().enumerate() {
            let share = crate::wrr::ClassShare::new(weight, crate::wrr::Sharing::PerClass);
            gate.wrr.set_share(class, share);
        }
        let sessions = 20 + few;
        (0..sessions).for_each(|session| gate.wrr.join(session, class_of(session) as u32));
        let (mut served, mut most, mut now) = ([0; 2], 0, 0u64);
        let mut random = 1u64;
        let mut length = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1 + (random >> 60)
        };
        // When each comes back, and who is inside: until when, and whether by a permit.
        let mut back: Vec<(u64, u32)> = (0..sessions).map(|session| (0, session)).collect();
        let mut inside: Vec<(u64, u32, bool)> = Vec::new();
        while now < 100_000 {
            let come: Vec<u32> = back.iter().filter(|it| it.0 <= now).map(|it| it.1).collect();
            back.retain(|it| it.0 > now);
            for session in come {
                gate.wrr.arrive(session);
                let permits = |inside: &[(u64, u32, bool)]| inside.iter().filter(|it| it.2).count();
                while permits(&inside) < 2 {
                    match gate.decide() {
                        Some(Next::Admit(turn)) => {
                            inside.push((now + length(), turn.session, true))
                        }
                        Some(Next::Repay(settled)) => {
                            inside
                                .iter_mut()
                                .filter(|it| it.1 == settled)
                                .for_each(|it| it.2 = true);
                        }
                        None => break,
                    }
                }
                let alone = !inside.iter().any(|it| class_of(it.1) == class_of(session));
                if ahead
                    && alone
                    && gate.wrr.is_waiting(session)
                    && gate.admit_over_limit(session).is_some()
                {
                    inside.push((now + length(), session, false));
                }
                most = most.max(inside.len());
            }
            let next = inside.iter().map(|it| it.0).chain(back.iter().map(|it| it.0)).min();
            now = next.expect("a session is inside or comes back");
            let done: Vec<_> = inside.extract_if(.., |it| it.0 <= now).collect();
            for (_, session, _) in done {
                served[class_of(session)] += 1;
                gate.clear_debt(session);
                gate.wrr.end_turn(session, 1);
                back.push((now + u64::from(class_of(session) == 1) * pause, session));
            }
        }
        (served, most)
    }

    #[test]
    fn going_ahead_leaves_shares_as_they_are_and_one_more_inside() {
        for (few, weights) in
            [(2, [1_000, 1_000]), (4, [1_000, 1_000]), (4, [3_000, 1_000]), (4, [1_000, 3_000])]
        {
            let share = |ahead| {
                let ([many, few], most) = turns_of_two_classes(few, weights, 0, ahead);
                assert!(most <= 3, "{most} inside");
                f64::from(few) / f64::from(many + few)
            };
            let (with, without) = (share(true), share(false));
            assert!((with - without).abs() < 0.03, "{few} {weights:?}: {with} and {without}");
        }
        // Those who want less than their share get what they want, sooner.
        let (with, most) = turns_of_two_classes(1, [1_000, 1_000], 40, true);
        let (without, _) = turns_of_two_classes(1, [1_000, 1_000], 40, false);
        assert_eq!(most, 3);
        assert!(with[1] > without[1], "{with:?} {without:?}");
    }

    proptest! {
        /// The owed list against a plain vector.
        #[test]
        fn the_owed_are_served_in_order(ops in proptest::collection::vec((0u8..3, 0u32..12), 1..300)) {
            let mut owed = Box::new(Owed::new());
            let mut model: Vec<u32> = Vec::new();
            for (op, session) in ops {
                match op {
                    0 => {
                        owed.push(session);
                        if !model.contains(&session) {
                            model.push(session);
                        }
                    }
                    1 => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(owed.pop(), expected);
                    }
                    _ => {
                        let was = model.contains(&session);
                        model.retain(|member| *member != session);
                        prop_assert_eq!(owed.remove(session), was);
                    }
                }
                prop_assert_eq!(owed.len as usize, model.len());
            }
        }
    }
}
