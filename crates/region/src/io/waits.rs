//! What clients wait for while their requests are served: time by cause, and a record of each long
//! wait.
//!
//! A thread that serves a client's request waits for locks, and for calls on files. Such waits are
//! counted by cause. One of at least [`LONG`] leaves a record: for what, who held it, and what the
//! scheduler did about it.

use super::notes::BLOCKERS;
use crate::ring::{Record, Ring, halves, joined};
use crate::text::{TEXT_BYTES, Text};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::CallKind;

/// A wait of this length and more leaves a record.
pub const LONG: Nanos = Nanos::from_millis(10);

/// A call that takes less has not waited for the device.
pub(super) const SHORTEST: Nanos = Nanos::from_micros(100);

/// Records that are kept.
const RECORDS: usize = 1024;

/// Kinds of causes: the first are those of [`super::Blocker`].
pub const CAUSES: usize = BLOCKERS + 4;

/// Their names, by number.
pub const CAUSE_NAMES: [&str; CAUSES] = [
    "",
    "mutex",
    "rwlock",
    "condition",
    "semaphore",
    "futex",
    "unknown",
    "write",
    "fsync",
    "read",
    "directory entry",
];

/// The cause of a wait for a call.
pub(super) fn cause_of(kind: CallKind) -> usize {
    BLOCKERS
        + match kind {
            CallKind::Write | CallKind::WriteDirect => 0,
            CallKind::Fsync | CallKind::Commit | CallKind::WriteRange => 1,
            CallKind::Read | CallKind::ReadCall | CallKind::ReadStream => 2,
            CallKind::Create | CallKind::MakeDirectory => 3,
        }
}

/// The holder's calls counted as the client's.
pub const INHERITED: u32 = 1;
/// The holder, or who seemed to be it, went on although the scheduler held its call.
pub const PROMOTED: u32 = 2;

/// A long wait of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientWait {
    /// How many were recorded before it.
    pub number: u64,
    /// Session of the gate, if one was served.
    pub session: Option<u32>,
    /// The thread that waited.
    pub thread: u32,
    /// What for: an index of [`CAUSE_NAMES`].
    pub cause: u32,
    /// The thread that held the lock, as far as that is known; zero if it is not.
    pub holder: u32,
    /// [`INHERITED`] and [`PROMOTED`].
    pub done: u32,
    /// When it began.
    pub began: Nanos,
    /// Until it was over.
    pub took: Nanos,
    /// Time of that for which the scheduler held the call.
    pub held: Nanos,
    /// The end of the file's path, or the holder's name.
    pub of: Text,
}

impl ClientWait {
    /// The cause in words.
    pub fn cause_name(&self) -> &'static str {
        CAUSE_NAMES.get(self.cause as usize).copied().unwrap_or("")
    }
}

const WORDS: usize = 5 + TEXT_BYTES / 8;

impl Record<WORDS> for ClientWait {
    const FIELDS: &'static str =
        "session + 1, thread; cause | done << 16, holder; began; took; held; of";

    fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = joined(self.session.map_or(0, |session| session + 1), self.thread);
        words[1] = joined(self.cause | self.done << 16, self.holder);
        (words[2], words[3], words[4]) = (self.began.0, self.took.0, self.held.0);
        for (word, bytes) in words[5..].iter_mut().zip(self.of.bytes().chunks(8)) {
            for (at, byte) in bytes.iter().enumerate() {
                *word |= u64::from(*byte) << (8 * at);
            }
        }
        words
    }

    fn from_words(number: u64, words: [u64; WORDS]) -> Self {
        let (session, thread) = halves(words[0]);
        let (cause, holder) = halves(words[1]);
        let mut of = [0; TEXT_BYTES];
        for (bytes, word) in of.chunks_mut(8).zip(&words[5..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ClientWait {
            number,
            session: session.checked_sub(1),
            thread,
            cause: cause & 0xFFFF,
            holder,
            done: cause >> 16,
            began: Nanos(words[2]),
            took: Nanos(words[3]),
            held: Nanos(words[4]),
            of: Text::new(&of),
        }
    }
}

/// See the module. All zero bytes: no client has waited.
#[derive(Debug)]
#[repr(C)]
pub struct ClientWaits {
    /// Waits, by cause.
    pub count: [AtomicU64; CAUSES],
    /// Nanoseconds of them, by cause.
    pub ns: [AtomicU64; CAUSES],
    /// The long ones.
    pub long: Ring<ClientWait, WORDS, RECORDS>,
}

headworks_policy::layout!(ClientWaits { count, ns, long });

impl ClientWaits {
    /// A wait is over. `of` is asked if it was long.
    pub(super) fn note(&self, wait: ClientWait, of: impl FnOnce() -> Text) {
        self.count[wait.cause as usize].fetch_add(1, Relaxed);
        self.ns[wait.cause as usize].fetch_add(wait.took.0, Relaxed);
        if wait.took >= LONG {
            self.long.push(&ClientWait { of: of(), ..wait });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_the_ring() {
        let wait = ClientWait {
            number: 7,
            session: Some(0),
            thread: 4711,
            cause: 8,
            holder: u32::MAX,
            done: INHERITED | PROMOTED,
            began: Nanos(1),
            took: Nanos(u64::MAX),
            held: Nanos(3),
            of: Text::new("a".repeat(TEXT_BYTES).as_bytes()),
        };
        for wait in [wait, ClientWait { session: None, of: Text::new(b"pg_wal/1"), ..wait }] {
            assert_eq!(ClientWait::from_words(7, wait.to_words()), wait);
        }
        assert_eq!(wait.cause_name(), "fsync");
    }
}
