//! Who enters the database next: weighted round robin, and those who had to go ahead.
//!
//! The gate hands out P tokens. Whoever holds one is inside. This module decides who gets the
//! next free one; counting the tokens and putting threads to sleep is the region's business.
//!
//! A user with an open transaction is never held (invariant of the gate: whoever may own a lock
//! always moves). If it idles inside the transaction, its token is lent to somebody else; when
//! its next request comes and no token is free, it runs *without* one. Such a user is **owed** a
//! token: the next one that comes free goes to it, before anybody who waits. So there are at most
//! as many users inside beyond P as there were lent tokens, and the excess drains first.

use crate::USERS;
use crate::wrr::{Turn, Wrr};

/// What to do with a token that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Give it to the waiting user and wake it.
    Admit(Turn),
    /// Book it on a user that runs already without one.
    Settle(u32),
}

/// State of the gate's policy. All zero bytes are an empty gate.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Gate {
    /// The order among those who wait.
    pub wrr: Wrr,
    owed: Owed,
}

impl Gate {
    /// A gate without users.
    pub const fn new() -> Self {
        Gate { wrr: Wrr::new(), owed: Owed::new() }
    }

    /// Forgets everything, in place: the state is too large to make a new one on a thread's stack.
    pub fn clear(&mut self) {
        self.wrr.clear();
        (self.owed.head, self.owed.tail, self.owed.len) = (0, 0, 0);
        self.owed.next.fill(0);
        self.owed.previous.fill(0);
    }

    /// Takes the decision for one free token; `None` when nobody needs it.
    pub fn decide(&mut self) -> Option<Next> {
        match self.owed.pop() {
            Some(user) => Some(Next::Settle(user)),
            None => self.wrr.take().map(Next::Admit),
        }
    }

    /// `user` runs without a token from now on and is owed one.
    pub fn owe(&mut self, user: u32) {
        self.owed.push(user);
    }

    /// `user` needs no token any more; says whether one was owed to it.
    pub fn forgive(&mut self, user: u32) -> bool {
        self.owed.remove(user)
    }

    /// Users that a free token would serve: those who wait and those who are owed one.
    pub fn pending(&self) -> usize {
        self.wrr.waiting() + self.owed.len as usize
    }

    /// Users that run without a token.
    pub fn owed(&self) -> usize {
        self.owed.len as usize
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A first-in first-out list of users, linked by indices (plus one, so that zero means none).
#[derive(Clone, Debug)]
#[repr(C)]
struct Owed {
    head: u32,
    tail: u32,
    len: u32,
    _pad: u32,
    next: [u32; USERS],
    previous: [u32; USERS],
}

impl Owed {
    const fn new() -> Self {
        Owed { head: 0, tail: 0, len: 0, _pad: 0, next: [0; USERS], previous: [0; USERS] }
    }

    fn contains(&self, user: u32) -> bool {
        self.head == user + 1 || self.previous[user as usize] != 0
    }

    fn push(&mut self, user: u32) {
        if self.contains(user) {
            return;
        }
        self.previous[user as usize] = self.tail;
        self.next[user as usize] = 0;
        match self.tail {
            0 => self.head = user + 1,
            tail => self.next[tail as usize - 1] = user + 1,
        }
        self.tail = user + 1;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u32> {
        let user = self.head.checked_sub(1)?;
        self.remove(user);
        Some(user)
    }

    fn remove(&mut self, user: u32) -> bool {
        if !self.contains(user) {
            return false;
        }
        let (previous, next) = (self.previous[user as usize], self.next[user as usize]);
        match previous {
            0 => self.head = next,
            other => self.next[other as usize - 1] = next,
        }
        match next {
            0 => self.tail = previous,
            other => self.previous[other as usize - 1] = previous,
        }
        self.previous[user as usize] = 0;
        self.next[user as usize] = 0;
        self.len = self.len.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whoever_is_owed_a_token_goes_before_whoever_waits() {
        let mut gate = Box::new(Gate::new());
        gate.wrr.arrive(1);
        gate.owe(2);
        assert_eq!(gate.pending(), 2);
        assert_eq!(gate.decide(), Some(Next::Settle(2)));
        assert!(matches!(gate.decide(), Some(Next::Admit(Turn { user: 1, .. }))));
        assert_eq!(gate.decide(), None);
    }

    proptest! {
        /// The owed list against a plain vector.
        #[test]
        fn the_owed_are_served_in_order(ops in proptest::collection::vec((0u8..3, 0u32..12), 1..300)) {
            let mut owed = Box::new(Owed::new());
            let mut model: Vec<u32> = Vec::new();
            for (op, user) in ops {
                match op {
                    0 => {
                        owed.push(user);
                        if !model.contains(&user) {
                            model.push(user);
                        }
                    }
                    1 => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(owed.pop(), expected);
                    }
                    _ => {
                        let was = model.contains(&user);
                        model.retain(|member| *member != user);
                        prop_assert_eq!(owed.remove(user), was);
                    }
                }
                prop_assert_eq!(owed.len as usize, model.len());
            }
        }
    }
}
