//! What a connection is estimated to hold.

use core::fmt;

/// A set of reasons for which a session must keep its permit.
///
/// Invariant: a session's set contains every reason that really applies. It may contain more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Holding(u16);

impl Holding {
    /// Nothing is held.
    pub const NONE: Holding = Holding(0);
    /// MySQL: the server said SERVER_STATUS_IN_TRANS (0x0001) or IN_TRANS_READONLY (0x2000) in its
    /// latest status. PostgreSQL: its latest ReadyForQuery said `T` or `E`.
    pub const TRANSACTION: Holding = Holding(1);
    /// A statement failed that may have opened a transaction (autocommit is off, or the text could
    /// run several statements); the next status word clears this.
    pub const AUTOCOMMIT_OFF_AFTER_ERROR: Holding = Holding(1 << 1);
    /// LOCK TABLES.
    pub const LOCK_TABLES: Holding = Holding(1 << 2);
    /// FLUSH TABLES … WITH READ LOCK or FOR EXPORT.
    pub const GLOBAL_READ_LOCK: Holding = Holding(1 << 3);
    /// BACKUP LOCK, BACKUP STAGE, LOCK INSTANCE FOR BACKUP or LOCK BINLOG FOR BACKUP.
    pub const BACKUP: Holding = Holding(1 << 4);
    /// GET_LOCK().
    pub const USER_LOCK: Holding = Holding(1 << 5);
    /// XA START without XA COMMIT or XA ROLLBACK.
    pub const XA: Holding = Holding(1 << 6);
    /// HANDLER … OPEN (keeps a metadata lock).
    pub const HANDLER: Holding = Holding(1 << 7);
    /// A text that could take any lock and cannot be judged (dynamic SQL, locking services,
    /// overlong text).
    pub const UNKNOWN: Holding = Holding(1 << 8);

    /// PostgreSQL: a session-level advisory lock (pg_advisory_lock and its like).
    pub const ADVISORY_LOCK: Holding = Holding(1 << 9);

    /// A lock that the profile declares.
    pub const NAMED_LOCK: Holding = Holding(1 << 10);

    /// Redis: keys under WATCH, for a transaction that is to come.
    pub const WATCH: Holding = Holding(1 << 11);

    const NAMES: [(Holding, &'static str); 12] = [
        (Holding::TRANSACTION, "transaction"),
        (Holding::AUTOCOMMIT_OFF_AFTER_ERROR, "autocommit-off-after-error"),
        (Holding::LOCK_TABLES, "lock-tables"),
        (Holding::GLOBAL_READ_LOCK, "global-read-lock"),
        (Holding::BACKUP, "backup"),
        (Holding::USER_LOCK, "user-lock"),
        (Holding::XA, "xa"),
        (Holding::HANDLER, "handler"),
        (Holding::UNKNOWN, "unknown"),
        (Holding::ADVISORY_LOCK, "advisory-lock"),
        (Holding::NAMED_LOCK, "named-lock"),
        (Holding::WATCH, "watch"),
    ];

    /// The raw bits, for a counter or a shared-memory word; stable within one build.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From the raw bits; unknown bits are kept and ignored.
    pub const fn from_bits(bits: u16) -> Holding {
        Holding(bits)
    }

    /// Whether nothing is held.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every reason of `other` is in this set.
    pub const fn contains(self, other: Holding) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn union(self, other: Holding) -> Holding {
        Holding(self.0 | other.0)
    }

    /// This set without the reasons of `other`.
    pub const fn without(self, other: Holding) -> Holding {
        Holding(self.0 & !other.0)
    }

    /// This set, with `other` added if `condition`.
    pub(crate) const fn with_if(self, other: Holding, condition: bool) -> Holding {
        if condition { self.union(other) } else { self }
    }

    /// The names of the reasons in this set, in the order of the constants.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Holding::NAMES.into_iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, name)| name)
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Holding {
    /// The names joined by `+`, or `nothing`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return out.write_str("nothing");
        }
        for (index, name) in self.names().enumerate() {
            if index > 0 {
                out.write_str("+")?;
            }
            out.write_str(name)?;
        }
        Ok(())
    }
}
