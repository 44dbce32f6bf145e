//! The requests whose answers are still outstanding, oldest first.
//!
//! Connectors pipeline: MariaDB Connector/J sends up to 128 executions before it reads an answer. Equal
//! requests in a row share one entry with a count, so that 8 entries are enough in practice; a queue that is full
//! makes the session opaque rather than wrong.

use super::answer::Expect;
use super::locks::Effect;

/// One request, or several equal ones in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) expect: Expect,
    pub(super) effect: Effect,
}

const CAPACITY: usize = 8;

/// A queue of fixed size. The newest entry is `open` while its command is still arriving: its effect is not known yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    entries: [Entry; CAPACITY],
    counts: [u32; CAPACITY],
    len: u8,
    open: bool,
}

impl Pending {
    pub(super) const fn new() -> Pending {
        Pending {
            entries: [Entry { expect: Expect::One, effect: Effect::NONE }; CAPACITY],
            counts: [0; CAPACITY],
            len: 0,
            open: false,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn front(&self) -> Option<Entry> {
        if self.len == 0 { None } else { self.entries.first().copied() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().take(usize::from(self.len))
    }

    /// Adds a request whose command has begun; false when the queue is full.
    #[must_use]
    pub(super) fn open(&mut self, expect: Expect) -> bool {
        let at = usize::from(self.len);
        let (Some(entry), Some(count)) = (self.entries.get_mut(at), self.counts.get_mut(at)) else {
            return false;
        };
        *entry = Entry { expect, effect: Effect::NONE };
        *count = 1;
        self.len += 1;
        self.open = true;
        true
    }

    /// The command of the newest request is complete: this is what it does. Nothing happens if the server answered it early.
    pub(super) fn close(&mut self, effect: Effect) {
        if !self.open {
            return;
        }
        self.open = false;
        let Some(last) = usize::from(self.len).checked_sub(1) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(last) else {
            return;
        };
        entry.effect = effect;
        let entry = *entry;
        let Some(before) = last.checked_sub(1) else {
            return;
        };
        if self.entries.get(before) == Some(&entry)
            && let Some(count) = self.counts.get_mut(before)
        {
            *count = count.saturating_add(1);
            self.len -= 1;
        }
    }

    /// The oldest request was answered.
    pub(super) fn pop(&mut self) {
        let Some(count) = self.counts.first_mut() else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count > 0 || self.len == 0 {
            return;
        }
        self.len -= 1;
        self.entries.copy_within(1.., 0);
        self.counts.copy_within(1.., 0);
        if self.len == 0 {
            self.open = false;
        }
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
