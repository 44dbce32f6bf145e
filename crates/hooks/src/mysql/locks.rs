//! What the statements of a connection took and freed: session locks by effect, not by text.
//!
//! A statement's text gives an [`Effect`] (see `lexer`); its answer decides what is applied:
//!
//! | answer | takes | release |
//! | --- | --- | --- |
//! | OK | all | applied |
//! | ERR, an earlier result of the same text was OK, or the text is compound | all, for some statement may have run | no |
//! | ERR otherwise | those that a failing statement can leave behind: user locks, global read lock, backup locks, unknown | no |
//! | ERR that refuses the statement before it runs (syntax, rights) | none | no |
//!
//! LOCK TABLES, XA START and HANDLER OPEN leave nothing behind when they fail.

use crate::holding::Holding;

/// What a text may take: a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Takes(pub(super) u16);

impl Takes {
    pub(super) const NONE: Takes = Takes(0);
    pub(super) const TABLES: Takes = Takes(1);
    pub(super) const READ_LOCK: Takes = Takes(1 << 1);
    pub(super) const BACKUP_LOCK: Takes = Takes(1 << 2);
    pub(super) const BACKUP_STAGE: Takes = Takes(1 << 3);
    pub(super) const INSTANCE: Takes = Takes(1 << 4);
    /// A user lock that cannot be counted by name.
    pub(super) const USER_LOCK: Takes = Takes(1 << 5);
    pub(super) const XA: Takes = Takes(1 << 6);
    pub(super) const HANDLER: Takes = Takes(1 << 7);
    pub(super) const UNKNOWN: Takes = Takes(1 << 8);
    /// Could open a transaction and fail afterwards.
    pub(super) const MAY_BEGIN: Takes = Takes(1 << 9);
    /// Holds several statements, so an error does not mean that none succeeded.
    pub(super) const COMPOUND: Takes = Takes(1 << 10);

    /// The bits that stand for a lock.
    pub(super) const LOCKS: Takes = Takes(0x1FF);
    const LEFT_BY_ERROR: Takes = Takes(
        Takes::READ_LOCK.0
            | Takes::BACKUP_LOCK.0
            | Takes::BACKUP_STAGE.0
            | Takes::INSTANCE.0
            | Takes::USER_LOCK.0
            | Takes::UNKNOWN.0,
    );

    pub(super) const fn any(self, other: Takes) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn and(self, other: Takes) -> Takes {
        Takes(self.0 & other.0)
    }

    pub(super) const fn without(self, other: Takes) -> Takes {
        Takes(self.0 & !other.0)
    }

    pub(super) const fn with(self, other: Takes) -> Takes {
        Takes(self.0 | other.0)
    }
}

/// What an exact statement or a command does once its answer is OK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    None,
    GetLock,
    ReleaseLock,
    ReleaseAllLocks,
    UnlockTables,
    UnlockInstance,
    BeginTransaction,
    BackupUnlock,
    BackupEnd,
    XaFinish,
    HandlerClose,
    /// COM_STMT_PREPARE: the takes belong to the statement that was prepared.
    Remember,
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER.
    ChangeUser,
    /// A replica's command.
    Replicate,
}

/// The hashed name of a user lock; bytes rather than a number, so that the queue of requests needs
/// no padding.
pub(super) type Name = [u8; 8];
/// For everything that names no user lock.
pub(super) const NO_NAME: Name = [0; 8];

/// What a request does to the locks of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Effect {
    pub(super) takes: Takes,
    pub(super) op: Op,
    /// For `GetLock` and `ReleaseLock`.
    pub(super) name: Name,
}

impl Effect {
    pub(super) const NONE: Effect = Effect { takes: Takes::NONE, op: Op::None, name: NO_NAME };
}

const NAMES: usize = 8;
const STATEMENTS: usize = 8;

/// The session locks of one connection. Plain data; a full table turns into a flag.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Locks {
    // What every request reads comes last, beside the session's own fields; the rest is rarely
    // used.
    names: [Name; NAMES],
    statements: [u32; STATEMENTS],
    /// What executing each prepared statement takes; empty marks a free entry.
    statement_takes: [Takes; STATEMENTS],
    /// How often each name was taken; 0 marks a free entry.
    counts: [u8; NAMES],
    /// What the statement prepared last takes: MariaDB executes it under the id 0xFFFFFFFF.
    last_prepared: Takes,
    /// What prepared statements without an entry take: it counts for every statement from then on.
    everywhere: Takes,
    /// Everything but named user locks and handlers.
    held: Takes,
    /// Open handlers; 255 means that they were not counted.
    handlers: u8,
    /// A text PREPARE had a source that was not a plain literal.
    pub(super) dynamic: bool,
}

impl Locks {
    /// The offset of the fields that every request reads; they extend to the end.
    pub(super) const HOT: usize = core::mem::offset_of!(Locks, counts);

    pub(super) const fn new() -> Locks {
        Locks {
            held: Takes::NONE,
            handlers: 0,
            names: [NO_NAME; NAMES],
            counts: [0; NAMES],
            statements: [0; STATEMENTS],
            statement_takes: [Takes::NONE; STATEMENTS],
            everywhere: Takes::NONE,
            last_prepared: Takes::NONE,
            dynamic: false,
        }
    }

    pub(super) fn holding(&self) -> Holding {
        let named = self.counts != [0; NAMES];
        if self.held == Takes::NONE && self.handlers == 0 && !named {
            return Holding::NONE;
        }
        self.holding_some(named)
    }

    #[cold]
    fn holding_some(&self, named: bool) -> Holding {
        Holding::NONE
            .with_if(Holding::LOCK_TABLES, self.held.any(Takes::TABLES))
            .with_if(Holding::GLOBAL_READ_LOCK, self.held.any(Takes::READ_LOCK))
            .with_if(
                Holding::BACKUP,
                self.held.any(Takes::BACKUP_LOCK.with(Takes::BACKUP_STAGE).with(Takes::INSTANCE)),
            )
            .with_if(Holding::USER_LOCK, named || self.held.any(Takes::USER_LOCK))
            .with_if(Holding::XA, self.held.any(Takes::XA))
            .with_if(Holding::HANDLER, self.handlers > 0)
            .with_if(Holding::UNKNOWN, self.held.any(Takes::UNKNOWN))
    }

    /// Applies a request whose answer was OK.
    pub(super) fn succeeded(&mut self, effect: Effect) {
        if effect != Effect::NONE && effect.op != Op::Remember {
            self.apply(effect);
        }
    }

    #[cold]
    fn apply(&mut self, effect: Effect) {
        self.take(effect.takes);
        match effect.op {
            Op::GetLock => self.count_name(effect.name),
            Op::ReleaseLock => self.release_name(effect.name),
            Op::ReleaseAllLocks => {
                self.counts = [0; NAMES];
                self.free(Takes::USER_LOCK);
            }
            Op::UnlockTables => self.free(Takes::TABLES.with(Takes::READ_LOCK)),
            Op::UnlockInstance => self.free(Takes::INSTANCE),
            // START TRANSACTION unlocks tables, but not a global read lock (MariaDB manual, LOCK
            // TABLES).
            Op::BeginTransaction => self.free(Takes::TABLES),
            Op::BackupUnlock => self.free(Takes::BACKUP_LOCK),
            Op::BackupEnd => self.free(Takes::BACKUP_STAGE),
            Op::XaFinish => self.free(Takes::XA),
            Op::HandlerClose if self.handlers < u8::MAX => {
                self.handlers = self.handlers.saturating_sub(1)
            }
            Op::Reset | Op::ChangeUser => *self = Locks::new(),
            _ => {}
        }
    }

    /// Applies a request whose answer was ERR `code`; `ran` if an earlier result of the same answer
    /// was OK.
    pub(super) fn failed(&mut self, effect: Effect, code: u16, ran: bool) {
        if effect.op == Op::Remember {
            return;
        }
        if effect.op == Op::GetLock {
            if ran || !refuses_user_lock(code) {
                self.count_name(effect.name);
            }
            return;
        }
        if ran || effect.takes.any(Takes::COMPOUND) && code != ER_PARSE {
            self.take(effect.takes);
        } else {
            let left = effect.takes.and(Takes::LEFT_BY_ERROR);
            let user = if code == ER_PARSE {
                Takes::NONE
            } else {
                left.and(Takes::USER_LOCK.with(Takes::UNKNOWN))
            };
            let other = if refuses_statement(code) {
                Takes::NONE
            } else {
                left.without(Takes::USER_LOCK.with(Takes::UNKNOWN))
            };
            self.take(user.with(other));
        }
    }

    fn take(&mut self, takes: Takes) {
        self.held = self.held.with(takes.and(Takes::LOCKS).without(Takes::HANDLER));
        if takes.any(Takes::HANDLER) {
            self.handlers =
                if takes.any(Takes::COMPOUND) { u8::MAX } else { self.handlers.saturating_add(1) };
        }
    }

    fn free(&mut self, takes: Takes) {
        self.held = self.held.without(takes);
    }

    fn count_name(&mut self, name: Name) {
        let known = self
            .names
            .iter()
            .zip(&self.counts)
            .position(|(&known, &count)| count > 0 && known == name);
        let place = known.or_else(|| self.counts.iter().position(|&count| count == 0));
        let counted =
            place.and_then(|place| Some((self.names.get_mut(place)?, self.counts.get_mut(place)?)));
        match counted {
            Some((slot, count)) if *count < u8::MAX => {
                *slot = name;
                *count += 1;
            }
            _ => self.take(Takes::USER_LOCK),
        }
    }

    /// Frees one count. GET_LOCK may have timed out and RELEASE_LOCK may have found nothing; the
    /// count was raised for either outcome, so it stays at or above the true one.
    fn release_name(&mut self, name: Name) {
        for (&known, count) in self.names.iter().zip(&mut self.counts) {
            if known == name {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// A COM_STMT_PREPARE of such a text is in progress.
    pub(super) fn preparing(&mut self, takes: Takes) {
        self.last_prepared = takes;
    }

    /// The server gave a prepared statement its id.
    pub(super) fn prepared(&mut self, id: u32, takes: Takes) {
        self.closed(id);
        if takes == Takes::NONE {
            return;
        }
        let mut places = self.statements.iter_mut().zip(&mut self.statement_takes);
        match places.find(|(_, known)| **known == Takes::NONE) {
            Some((statement, known)) => {
                *statement = id;
                *known = takes;
            }
            None => self.everywhere = self.everywhere.with(takes),
        }
    }

    /// COM_STMT_CLOSE.
    pub(super) fn closed(&mut self, id: u32) {
        for (&known, takes) in self.statements.iter().zip(&mut self.statement_takes) {
            if known == id {
                *takes = Takes::NONE;
            }
        }
    }

    /// What executing the statement takes.
    pub(super) fn execution(&self, id: u32) -> Takes {
        let none = [Takes::NONE; STATEMENTS];
        if self.statement_takes == none && self.everywhere == Takes::NONE && id != u32::MAX {
            return Takes::NONE;
        }
        self.execution_of_some(id)
    }

    #[cold]
    fn execution_of_some(&self, id: u32) -> Takes {
        let latest = if id == u32::MAX { self.last_prepared } else { Takes::NONE };
        let known =
            self.statements.iter().zip(&self.statement_takes).filter(|(known, _)| **known == id);
        known.fold(self.everywhere.with(latest), |takes, (_, more)| takes.with(*more))
    }
}

const ER_PARSE: u16 = 1064;

/// Errors with which a FLUSH, BACKUP or LOCK INSTANCE statement is refused before it takes
/// anything. Its syntax or the user's rights may be wrong, or the table may not exist. There may be
/// locked tables or an active transaction, or a read lock that blocks the update.
fn refuses_statement(code: u16) -> bool {
    matches!(code, ER_PARSE | 1044 | 1045 | 1142 | 1146 | 1192 | 1223 | 1227)
}

/// Errors with which a plain GET_LOCK has not got its lock: syntax, lock wait timeout, deadlock
/// (MariaDB), wrong name, deadlock (MySQL).
fn refuses_user_lock(code: u16) -> bool {
    matches!(code, ER_PARSE | 1205 | 1213 | 3057 | 3058)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(takes: Takes, op: Op, name: u64) -> Effect {
        Effect { takes, op, name: name.to_le_bytes() }
    }

    #[test]
    fn a_name_taken_twice_needs_two_releases() {
        let mut locks = Locks::new();
        locks.succeeded(effect(Takes::NONE, Op::GetLock, 7));
        locks.succeeded(effect(Takes::NONE, Op::GetLock, 7));
        locks.succeeded(effect(Takes::NONE, Op::ReleaseLock, 7));
        assert_eq!(locks.holding(), Holding::USER_LOCK);
        locks.succeeded(effect(Takes::NONE, Op::ReleaseLock, 8));
        assert_eq!(locks.holding(), Holding::USER_LOCK, "another name");
        locks.succeeded(effect(Takes::NONE, Op::ReleaseLock, 7));
        assert_eq!(locks.holding(), Holding::NONE);
    }

    #[test]
    fn the_ninth_name_makes_user_locks_sticky() {
        let mut locks = Locks::new();
        for name in 1..=9 {
            locks.succeeded(effect(Takes::NONE, Op::GetLock, name));
        }
        for name in 1..=9 {
            locks.succeeded(effect(Takes::NONE, Op::ReleaseLock, name));
        }
        assert_eq!(locks.holding(), Holding::USER_LOCK);
        locks.succeeded(effect(Takes::NONE, Op::ReleaseAllLocks, 0));
        assert_eq!(locks.holding(), Holding::NONE);
    }

    #[test]
    fn an_error_leaves_what_a_failing_statement_can_leave() {
        let all = Takes::LOCKS;
        let mut locks = Locks::new();
        locks.failed(effect(all, Op::None, 0), 1317, false);
        let left = Holding::GLOBAL_READ_LOCK
            .union(Holding::BACKUP)
            .union(Holding::USER_LOCK)
            .union(Holding::UNKNOWN);
        assert_eq!(locks.holding(), left);
        let mut locks = Locks::new();
        locks.failed(effect(all, Op::None, 0), ER_PARSE, false);
        assert_eq!(locks.holding(), Holding::NONE, "a syntax error runs nothing");
        locks.failed(effect(Takes::TABLES, Op::None, 0), ER_PARSE, true);
        assert_eq!(
            locks.holding(),
            Holding::LOCK_TABLES,
            "but an earlier statement of the text may have run"
        );
    }

    #[test]
    fn a_full_statement_table_makes_every_execution_a_take() {
        let mut locks = Locks::new();
        for id in 1..=8 {
            locks.prepared(id, Takes::TABLES);
        }
        assert_eq!(locks.execution(99), Takes::NONE);
        locks.prepared(9, Takes::USER_LOCK);
        assert_eq!(locks.execution(99), Takes::USER_LOCK);
        locks.closed(1);
        locks.prepared(10, Takes::READ_LOCK);
        assert_eq!(locks.execution(10), Takes::READ_LOCK.with(Takes::USER_LOCK));
        assert_eq!(locks.execution(1), Takes::USER_LOCK, "closed");
    }
}
