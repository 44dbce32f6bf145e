//! The requests whose answers are still outstanding, oldest first.
//!
//! Connectors pipeline: MariaDB Connector/J sends up to 128 executions before it reads an answer.
//! Equal requests in a row share one entry with a count, so 8 entries are enough in practice. A
//! full queue makes the session opaque rather than wrong.

use super::answer::Expect;
use super::locks::Effect;

/// One request, or several equal ones in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) expect: Expect,
    pub(super) effect: Effect,
}

const CAPACITY: usize = 8;

/// A queue of fixed size. The newest entry is `open` while its command is still arriving: its
/// effect is not known yet.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Pending {
    len: u8,
    open: bool,
    queued: [Queued; CAPACITY],
}

/// Equal requests in a row.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Queued {
    count: u32,
    entry: Entry,
}

impl Pending {
    /// Bytes at the beginning that every request reads: usually the queue has one entry.
    pub(super) const HOT: usize = core::mem::offset_of!(Pending, queued) + size_of::<Queued>();

    pub(super) const fn new() -> Pending {
        Pending {
            len: 0,
            open: false,
            queued: [const {
                Queued { count: 0, entry: Entry { expect: Expect::One, effect: Effect::NONE } }
            }; CAPACITY],
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn front(&self) -> Option<Entry> {
        if self.len == 0 { None } else { self.queued.first().map(|first| first.entry) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.counted().map(|(_, entry)| entry)
    }

    /// The requests with how often each is repeated.
    pub(super) fn counted(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let queued = self.queued.iter().take(usize::from(self.len));
        queued.map(|queued| (queued.count, &queued.entry))
    }

    /// Requests to change the identity whose answers are outstanding.
    pub(super) fn logins(&self) -> u64 {
        let logins = self.counted().filter(|(_, entry)| entry.expect == Expect::Login);
        logins.map(|(count, _)| u64::from(count)).sum()
    }

    /// Adds a complete request to an empty queue.
    pub(super) fn only(&mut self, entry: Entry) {
        let [first, ..] = &mut self.queued;
        *first = Queued { count: 1, entry };
        self.len = 1;
        self.open = false;
    }

    /// Adds a request whose command has begun; false when the queue is full.
    #[must_use]
    pub(super) fn open(&mut self, expect: Expect) -> bool {
        let Some(free) = self.queued.get_mut(usize::from(self.len)) else { return false };
        *free = Queued { count: 1, entry: Entry { expect, effect: Effect::NONE } };
        self.len += 1;
        self.open = true;
        true
    }

    /// The command of the newest request is complete, and this is its effect. Nothing happens if
    /// the server answered it early.
    pub(super) fn close(&mut self, effect: Effect) {
        if !self.open {
            return;
        }
        self.open = false;
        let Some(last) = usize::from(self.len).checked_sub(1) else {
            return;
        };
        let Some(queued) = self.queued.get_mut(last) else {
            return;
        };
        queued.entry.effect = effect;
        let entry = queued.entry;
        let Some(before) = last.checked_sub(1) else {
            return;
        };
        if let Some(before) = self.queued.get_mut(before)
            && before.entry == entry
        {
            before.count = before.count.saturating_add(1);
            self.len -= 1;
        }
    }

    /// The oldest request was answered.
    pub(super) fn pop(&mut self) {
        let Some(first) = self.queued.first_mut() else {
            return;
        };
        first.count = first.count.saturating_sub(1);
        if first.count > 0 || self.len == 0 {
            return;
        }
        self.len -= 1;
        if self.len == 0 {
            self.open = false;
        } else {
            self.close_up();
        }
    }

    #[cold]
    fn close_up(&mut self) {
        self.queued.copy_within(1.., 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::locks::Takes;

    #[test]
    fn equal_requests_share_an_entry_and_are_answered_one_by_one() {
        let mut pending = Pending::new();
        for _ in 0..1000 {
            assert!(pending.open(Expect::Execution));
            pending.close(Effect::NONE);
        }
        for _ in 0..1000 {
            assert!(!pending.is_empty());
            pending.pop();
        }
        assert!(pending.is_empty());
    }

    #[test]
    fn different_requests_keep_their_order_and_the_queue_its_bound() {
        let mut pending = Pending::new();
        for index in 0..8 {
            assert!(pending.open(Expect::Results));
            pending.close(Effect { takes: Takes(index), ..Effect::NONE });
        }
        assert!(!pending.open(Expect::Results));
        for index in 0..8 {
            assert_eq!(pending.front().map(|entry| entry.effect.takes), Some(Takes(index)));
            pending.pop();
        }
        assert_eq!(pending.front(), None);
    }

    #[test]
    fn a_command_answered_before_it_was_complete_leaves_nothing_behind() {
        let mut pending = Pending::new();
        assert!(pending.open(Expect::Results));
        pending.pop();
        pending.close(Effect::NONE);
        assert!(pending.is_empty());
    }
}
