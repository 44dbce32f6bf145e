//! Session-level advisory locks, counted by what the answers say.
//!
//! A request's text gives an [`Op`] (see [`super::statement`] and [`super::lock_names`]). It
//! becomes a *mark* for the answer that it waits for. When that answer is complete, its rows
//! decide:
//!
//! | op | the statement succeeded | it failed |
//! | --- | --- | --- |
//! | lock | one more for each row | none |
//! | try | one more for each true row | none |
//! | unlock | one less for each true row | none |
//! | unlock all | none are held | as before |
//! | takes | locks that cannot be counted are held | the same: part of it may have run |

use super::statement::Exact;
use crate::holding::Holding;

/// What a statement does to the session's locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    None,
    /// Takes some, and the number is unknown.
    Takes,
    Lock,
    TryLock,
    Unlock,
    UnlockAll,
}

impl Op {
    /// The operation of a text: what it is exactly, and whether it names a function that takes a
    /// lock.
    pub(super) fn of(exact: Option<Exact>, mentions: bool) -> Op {
        match exact {
            Some(Exact::Lock) => Op::Lock,
            Some(Exact::TryLock) => Op::TryLock,
            Some(Exact::Unlock) => Op::Unlock,
            Some(Exact::UnlockAll) => Op::UnlockAll,
            _ if mentions => Op::Takes,
            _ => Op::None,
        }
    }

    fn takes(self) -> bool {
        matches!(self, Op::Takes | Op::Lock | Op::TryLock)
    }
}

/// The answer that a mark waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Number of its request, counted since the session began.
    pub(super) request: u32,
    /// Number of its Execute within the request; `None` for a whole Query.
    pub(super) execute: Option<u16>,
    pub(super) op: Op,
}

const MARKS: usize = 8;
const STATEMENTS: usize = 8;

/// The locks of one session. Plain data; when a table is full, locks count as held.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    count: u32,
    uncounted: bool,
    marks: [Option<Mark>; MARKS],
    /// Rows of the current answer: all, and true ones.
    rows: u32,
    true_rows: u32,
    /// Named prepared statements with an effect, by the hash of their names.
    statements: [Option<(u64, Op)>; STATEMENTS],
    unnamed: Op,
    /// A statement that takes locks found no entry in the table.
    everywhere: bool,
}

impl Locks {
    pub(super) const fn new() -> Locks {
        Locks {
            count: 0,
            uncounted: false,
            marks: [None; MARKS],
            rows: 0,
            true_rows: 0,
            statements: [None; STATEMENTS],
            unnamed: Op::None,
            everywhere: false,
        }
    }

    pub(super) fn holding(&self) -> Holding {
        Holding::NONE.with_if(Holding::ADVISORY_LOCK, self.count > 0 || self.uncounted)
    }

    /// Adds what a request does once it is answered.
    pub(super) fn expect(&mut self, mark: Mark) {
        if mark.op == Op::None {
            return;
        }
        match self.marks.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(mark),
            None => self.uncounted |= mark.op.takes(),
        }
    }

    /// Whether rows matter.
    pub(super) fn watches(&self) -> bool {
        self.marks.first().is_some_and(Option::is_some)
    }

    /// A row of the answer, as its first bytes: number of columns, length of the first, its first
    /// byte.
    pub(super) fn row(&mut self, head: &[u8]) {
        self.rows = self.rows.saturating_add(1);
        // `t` as text, 1 in binary.
        let is_true = matches!(head, [0, 1, 0, 0, 0, 1, b't' | 1, ..]);
        self.true_rows = self.true_rows.saturating_add(u32::from(is_true));
    }

    /// Execute number `execute` of a request was carried out.
    pub(super) fn executed(&mut self, request: u32, execute: u16) {
        if let Some(mark) = self.front()
            && (mark.request, mark.execute) == (request, Some(execute))
        {
            self.resolve(mark.op, false);
            self.drop_front();
        }
        self.forget_rows();
    }

    /// A request was answered completely; `failed`: one of its statements failed.
    pub(super) fn answered(&mut self, request: u32, failed: bool) {
        while let Some(mark) = self.front().filter(|mark| mark.request == request) {
            self.resolve(mark.op, failed || mark.execute.is_some());
            self.drop_front();
        }
        self.forget_rows();
    }

    fn front(&self) -> Option<Mark> {
        self.marks.first().copied().flatten()
    }

    fn drop_front(&mut self) {
        self.marks.copy_within(1.., 0);
        if let Some(last) = self.marks.last_mut() {
            *last = None;
        }
    }

    fn forget_rows(&mut self) {
        (self.rows, self.true_rows) = (0, 0);
    }

    fn resolve(&mut self, op: Op, failed: bool) {
        match op {
            Op::Takes => self.uncounted = true,
            _ if failed => {}
            Op::Lock => self.count = self.count.saturating_add(self.rows),
            Op::TryLock => self.count = self.count.saturating_add(self.true_rows),
            Op::Unlock => self.count = self.count.saturating_sub(self.true_rows),
            Op::UnlockAll => (self.count, self.uncounted) = (0, false),
            Op::None => {}
        }
    }

    /// A function that takes a lock was called in a way that returns no rows.
    pub(super) fn takes_unseen(&mut self) {
        self.uncounted = true;
    }

    /// A statement was prepared. Its release counts only if it is the unnamed one, or has an entry.
    pub(super) fn prepared(&mut self, name: &[u8], op: Op) {
        if name.is_empty() {
            self.unnamed = op;
            return;
        }
        self.closed(name);
        if op == Op::None {
            return;
        }
        match self.statements.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((hash(name), op)),
            None => self.everywhere |= op.takes(),
        }
    }

    /// A prepared statement was closed.
    pub(super) fn closed(&mut self, name: &[u8]) {
        let name = hash(name);
        for place in &mut self.statements {
            if place.is_some_and(|(known, _)| known == name) {
                *place = None;
            }
        }
    }

    /// What executing a prepared statement does.
    pub(super) fn execution(&self, name: &[u8]) -> Op {
        if name.is_empty() {
            return self.unnamed;
        }
        let otherwise = if self.everywhere { Op::Takes } else { Op::None };
        if self.statements == [None; STATEMENTS] {
            return otherwise;
        }
        let name = hash(name);
        let mut known = self.statements.iter().flatten();
        known.find(|(known, _)| *known == name).map_or(otherwise, |(_, op)| *op)
    }
}

/// FNV-1a. Two names of one session collide only if they were chosen to.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE: &[u8] = &[0, 1, 0, 0, 0, 1, b't'];
    const FALSE: &[u8] = &[0, 1, 0, 0, 0, 1, b'f'];
    const VOID: &[u8] = &[0, 1, 0, 0, 0, 0];

    fn query(locks: &mut Locks, op: Op, rows: &[&[u8]], failed: bool) -> bool {
        locks.expect(Mark { request: 7, execute: None, op });
        rows.iter().for_each(|row| locks.row(row));
        locks.answered(7, failed);
        !locks.holding().is_empty()
    }

    #[test]
    fn a_lock_taken_twice_needs_two_releases() {
        let mut locks = Locks::new();
        assert!(query(&mut locks, Op::Lock, &[VOID], false));
        assert!(query(&mut locks, Op::TryLock, &[TRUE], false));
        assert!(query(&mut locks, Op::TryLock, &[FALSE], false), "not taken");
        assert!(query(&mut locks, Op::Unlock, &[FALSE], false), "another key");
        assert!(query(&mut locks, Op::Unlock, &[TRUE], false));
        assert!(!query(&mut locks, Op::Unlock, &[TRUE], false));
    }

    #[test]
    fn what_cannot_be_counted_is_held_until_all_is_released() {
        let mut locks = Locks::new();
        assert!(query(&mut locks, Op::Takes, &[], true), "part of it may have run");
        assert!(query(&mut locks, Op::Unlock, &[TRUE], false));
        assert!(query(&mut locks, Op::UnlockAll, &[VOID], true));
        assert!(!query(&mut locks, Op::UnlockAll, &[VOID], false));
        assert!(!query(&mut locks, Op::Lock, &[], true), "refused");
    }

    #[test]
    fn full_tables_make_locks_believed() {
        let mut locks = Locks::new();
        for request in 0..9 {
            locks.expect(Mark { request, execute: None, op: Op::Lock });
        }
        assert!(!locks.holding().is_empty());
        let mut locks = Locks::new();
        for name in 0..9u8 {
            locks.prepared(&[name + 1], Op::Lock);
        }
        assert_eq!(locks.execution(b"other"), Op::Takes);
        assert_eq!(locks.execution(&[1]), Op::Lock);
        locks.closed(&[1]);
        assert_eq!(locks.execution(&[1]), Op::Takes);
    }

    #[test]
    fn only_the_execute_that_is_meant_counts() {
        let mut locks = Locks::new();
        locks.expect(Mark { request: 0, execute: Some(1), op: Op::Unlock });
        locks.count = 1;
        locks.row(TRUE);
        locks.executed(0, 0);
        assert!(!locks.holding().is_empty(), "that row was another statement's");
        locks.row(TRUE);
        locks.executed(0, 1);
        assert!(locks.holding().is_empty());
    }
}
