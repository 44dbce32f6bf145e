//! "No session is forgotten" (`region::admission`), as a model. Sessions enter and leave, and an
//! operator raises P. Each step is one shared access, and all orders of the steps are tried.
//!
//! The model's steps are those of `try_enter`, `queue_up`, `scan_permits`, `hand_over`, `leave`,
//! `free_permit` and `tune_parallelism`. All of their accesses that count are sequentially
//! consistent, so the orders of steps are all that can happen. A session is forgotten if it waits,
//! a permit is free, and no thread has a step left to do. A session that is inside may stay there
//! for long, and one that is outside may never come back.

use std::collections::HashSet;

const SESSIONS: usize = 3;
const OPERATOR: usize = SESSIONS;
const PERMITS: usize = 2;

/// What is left out, to see that the model would notice.
#[derive(Clone, Copy, PartialEq)]
enum Omit {
    Nothing,
    /// The look of the first who enqueues.
    FirstLook,
    /// The look at `pending` after a permit was freed.
    LookAfterFreeing,
    /// The look of the operator.
    LookAfterRaise,
    /// To publish_pending before the look, and not only after it.
    PublishBefore,
    /// The rest of the look of one that is given a permit meanwhile.
    LookOn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    Free,
    Session(usize),
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    SeePending,
    Claim(usize),
    Lock(Locked),
    Under(Locked),
    Look(usize),
    /// And whether to look at all permits then.
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
    /// Found by the look at all permits.
    GiveFound(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    limit: usize,
    words: [Word; PERMITS],
    pending: usize,
    locked: bool,
    queue: Vec<usize>,
    at: [At; SESSIONS + 1],
    permit: [Option<usize>; SESSIONS],
    waits: [bool; SESSIONS],
    by_policy: [bool; SESSIONS],
    turns: [u8; SESSIONS],
}

impl World {
    fn new() -> World {
        let mut at = [At::SeePending; SESSIONS + 1];
        at[OPERATOR] = At::Raise;
        World {
            limit: 1,
            words: [Word::Free; PERMITS],
            pending: 0,
            locked: false,
            queue: Vec::new(),
            at,
            permit: [None; SESSIONS],
            waits: [false; SESSIONS],
            by_policy: [false; SESSIONS],
            turns: [2; SESSIONS],
        }
    }

    /// Under the lock: no other thread can tell the steps of giving a busy permit apart.
    fn hand_over(&mut self, permit: usize) {
        self.words[permit] = if self.queue.is_empty() {
            Word::Free
        } else {
            let next = self.queue.remove(0);
            (self.permit[next], self.waits[next], self.by_policy[next]) =
                (Some(permit), false, true);
            Word::Session(next)
        };
    }

    /// What comes after a process has looked, or need not.
    fn then(&mut self, me: usize) -> At {
        match me {
            OPERATOR => At::Done,
            _ if self.waits[me] || self.permit[me].is_some() => At::Sleep,
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
            At::Claim(permit) if permit >= self.limit => At::Lock(Locked::Enqueue),
            At::Claim(permit) if self.words[permit] == Word::Free => {
                (it.words[permit], it.permit[me], it.by_policy[me]) =
                    (Word::Session(me), Some(permit), false);
                At::Inside
            }
            At::Claim(permit) => At::Claim(permit + 1),
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
                let permit = it.permit[me].take()?;
                it.hand_over(permit);
                At::Publish(false)
            }
            At::Under(Locked::GiveFreed(permit)) => {
                if self.words[permit] == Word::Free {
                    it.hand_over(permit);
                }
                At::Publish(false)
            }
            At::Under(Locked::GiveFound(permit)) => {
                if self.words[permit] == Word::Free {
                    it.hand_over(permit);
                }
                (it.pending, it.locked) = (it.queue.len(), false);
                At::Look(permit + 1)
            }
            At::Look(permit) => {
                let late = omit == Omit::PublishBefore;
                let given = omit == Omit::LookOn && me != OPERATOR && !self.waits[me];
                if permit >= self.limit || (self.pending == 0 && !late) || given {
                    if late { At::PublishLate } else { it.then(me) }
                } else if self.words[permit] == Word::Free {
                    At::Lock(Locked::GiveFound(permit))
                } else {
                    At::Look(permit + 1)
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
                let permit = it.permit[me].take()?;
                it.words[permit] = Word::Free;
                At::SeePendingAfter(permit)
            }
            At::SeePendingAfter(permit) if self.pending > 0 && omit != Omit::LookAfterFreeing => {
                At::Lock(Locked::GiveFreed(permit))
            }
            At::SeePendingAfter(_) => it.over(me),
            At::Raise => {
                it.limit = PERMITS;
                if omit == Omit::LookAfterRaise { At::Done } else { At::Look(0) }
            }
        };
        Some(it)
    }
}

/// A state in which a session is forgotten; and how many states there are.
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
