//! "Nobody is forgotten" (`region::admission`), as a model: users that enter and leave, and an operator that raises P, one
//! shared access after the other, in every order that there is.
//!
//! The model's steps are those of `try_enter`, `queue_up`, `sweep`, `hand_over`, `leave`, `free_token` and `retune`. All of their
//! accesses that count are sequentially consistent, so the orders of steps are all that can happen. A user is forgotten if it
//! waits, a token is free, and nobody is about to do anything: who is inside may stay there for long, and who is outside
//! may never come back.

use std::collections::HashSet;

const USERS: usize = 3;
const OPERATOR: usize = USERS;
const TOKENS: usize = 2;

/// What is left out, to see that the model would notice.
#[derive(Clone, Copy, PartialEq)]
enum Omit {
    Nothing,
    /// The look of the first who enqueues.
    FirstLook,
    /// The look at `pending` after a token was freed.
    LookAfterFreeing,
    /// The look of the operator.
    LookAfterRaise,
    /// To publish before the look, and not only after it.
    PublishBefore,
    /// The rest of the look of one that is given a token meanwhile.
    LookOn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    Free,
    User(usize),
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    SeePending,
    Claim(usize),
    Lock(Locked),
    Under(Locked),
    Look(usize),
    /// And whether to look at all tokens then.
    Publish(bool),
    PublishLate,
    Sleep,
    Inside,
    FreeToken,
    SeePendingAfter(usize),
    Raise,
    Done,
}

/// What a process has the lock for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Locked {
    Enqueue,
    Leave,
    GiveFreed(usize),
    /// Found by the look at all tokens.
    GiveFound(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    limit: usize,
    words: [Word; TOKENS],
    pending: usize,
    locked: bool,
    queue: Vec<usize>,
    at: [At; USERS + 1],
    token: [Option<usize>; USERS],
    waits: [bool; USERS],
    by_policy: [bool; USERS],
    turns: [u8; USERS],
}

impl World {
    fn new() -> World {
        let mut at = [At::SeePending; USERS + 1];
        at[OPERATOR] = At::Raise;
        World {
            limit: 1,
            words: [Word::Free; TOKENS],
            pending: 0,
            locked: false,
            queue: Vec::new(),
            at,
            token: [None; USERS],
            waits: [false; USERS],
            by_policy: [false; USERS],
            turns: [2; USERS],
        }
    }

    /// Under the lock: nobody else can tell the steps of giving a busy token apart.
    fn hand_over(&mut self, token: usize) {
        self.words[token] = if self.queue.is_empty() {
            Word::Free
        } else {
            let next = self.queue.remove(0);
            (self.token[next], self.waits[next], self.by_policy[next]) = (Some(token), false, true);
            Word::User(next)
        };
    }

    /// What comes after a process has looked, or need not.
    fn then(&mut self, me: usize) -> At {
        match me {
            OPERATOR => At::Done,
            _ if self.waits[me] || self.token[me].is_some() => At::Sleep,
            _ => self.over(me),
        }
    }

    fn over(&mut self, me: usize) -> At {
        self.turns[me] -= 1;
        if self.turns[me] == 0 { At::Done } else { At::SeePending }
    }

    fn forgets(&self) -> bool {
        let rests = |me: usize| match self.at[me] {
            At::SeePending | At::Inside | At::Raise | At::Done => true,
            At::Sleep => self.waits[me],
            _ => false,
        };
        let free = self.words[..self.limit].contains(&Word::Free);
        free && self.waits.contains(&true) && (0..=OPERATOR).all(rests)
    }

    /// The next step of a process; `None` if it has to wait for another.
    fn step(&self, me: usize, omit: Omit) -> Option<World> {
        let mut it = self.clone();
        it.at[me] = match self.at[me] {
            At::Done => return None,
            At::SeePending if self.pending == 0 => At::Claim(0),
            At::SeePending => At::Lock(Locked::Enqueue),
            At::Claim(token) if token >= self.limit => At::Lock(Locked::Enqueue),
            At::Claim(token) if self.words[token] == Word::Free => {
                (it.words[token], it.token[me], it.by_policy[me]) =
                    (Word::User(me), Some(token), false);
                At::Inside
            }
            At::Claim(token) => At::Claim(token + 1),
            At::Lock(_) if self.locked => return None,
            At::Lock(what) => {
                it.locked = true;
                At::Under(what)
            }
            At::Under(Locked::Enqueue) => {
                it.queue.push(me);
                it.waits[me] = true;
                match omit {
                    Omit::PublishBefore if self.pending == 0 => {
                        it.locked = false;
                        At::Look(0)
                    }
                    _ => At::Publish(self.pending == 0 && omit != Omit::FirstLook),
                }
            }
            At::Under(Locked::Leave) => {
                let token = it.token[me].take()?;
                it.hand_over(token);
                At::Publish(false)
            }
            At::Under(Locked::GiveFreed(token)) => {
                if self.words[token] == Word::Free {
                    it.hand_over(token);
                }
                At::Publish(false)
            }
            At::Under(Locked::GiveFound(token)) => {
                if self.words[token] == Word::Free {
                    it.hand_over(token);
                }
                (it.pending, it.locked) = (it.queue.len(), false);
                At::Look(token + 1)
            }
            At::Look(token) => {
                let late = omit == Omit::PublishBefore;
                let given = omit == Omit::LookOn && me != OPERATOR && !self.waits[me];
                if token >= self.limit || (self.pending == 0 && !late) || given {
                    if late { At::PublishLate } else { it.then(me) }
                } else if self.words[token] == Word::Free {
                    At::Lock(Locked::GiveFound(token))
                } else {
                    At::Look(token + 1)
                }
            }
            At::PublishLate => {
                it.pending = self.queue.len();
                it.then(me)
            }
            At::Publish(look) => {
                (it.pending, it.locked) = (self.queue.len(), false);
                if look { At::Look(0) } else { it.then(me) }
            }
            At::Sleep if self.waits[me] => return None,
            At::Sleep => At::Inside,
            At::Inside if self.by_policy[me] || self.pending > 0 => At::Lock(Locked::Leave),
            At::Inside => At::FreeToken,
            At::FreeToken => {
                let token = it.token[me].take()?;
                it.words[token] = Word::Free;
                At::SeePendingAfter(token)
            }
            At::SeePendingAfter(token) if self.pending > 0 && omit != Omit::LookAfterFreeing => {
                At::Lock(Locked::GiveFreed(token))
            }
            At::SeePendingAfter(_) => it.over(me),
            At::Raise => {
                it.limit = TOKENS;
                if omit == Omit::LookAfterRaise { At::Done } else { At::Look(0) }
            }
        };
        Some(it)
    }
}

/// A state in which somebody is forgotten; and how many states there are.
fn search(omit: Omit) -> (Option<World>, usize) {
    let mut seen = HashSet::from([World::new()]);
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        if world.forgets() {
            return (Some(world), seen.len());
        }
        for next in (0..=OPERATOR).filter_map(|me| world.step(me, omit)) {
            let inside = next.at.iter().filter(|at| **at == At::Inside).count();
            assert!(inside <= next.limit, "{next:?}");
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (None, seen.len())
}

#[test]
fn nobody_is_forgotten_in_any_order_of_steps() {
    let (forgotten, states) = search(Omit::Nothing);
    assert_eq!(forgotten, None);
    assert!(states > 10_000, "{states}");
}

/// Each of the looks that the argument names is needed, and the model knows it.
#[test]
fn without_any_of_its_looks_somebody_is_forgotten() {
    for omit in [
        Omit::FirstLook,
        Omit::LookAfterFreeing,
        Omit::LookAfterRaise,
        Omit::PublishBefore,
        Omit::LookOn,
    ] {
        assert!(search(omit).0.is_some(), "{}", omit as u8);
    }
}
