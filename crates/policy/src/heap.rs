//! An indexed binary min-heap of sessions, of fixed capacity, for shared memory.
//!
//! The key is `(round, sequence)`: earliest round first, and within a round in order of arrival.
//! Every session is in the heap at most once, and `position` finds it in O(1). So a session whose
//! client vanished is withdrawn in O(log n).
//!
//! Invariants: `entries[position[u] - 1].session == u` for each member `u`; `position[u] == 0` for
//! every other session; no entry is smaller than its parent.

use crate::SESSIONS;

/// What the heap orders by. Smaller goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Key {
    /// When the session's turn is due: a round and a part of it, as a fixed-point number.
    pub due: u64,
    /// Order of arrival, unique.
    pub sequence: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Entry {
    key: Key,
    session: u32,
    _pad: u32,
}

/// See the module. All zero bytes are an empty heap.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Heap {
    len: u32,
    _pad: u32,
    position: [u32; SESSIONS],
    entries: [Entry; SESSIONS],
}

crate::layout!(Key { due, sequence });
crate::layout!(Entry { key, session, _pad });
crate::layout!(Heap { len, _pad, position, entries });

impl Heap {
    /// An empty heap.
    pub const fn new() -> Self {
        const NONE: Entry = Entry { key: Key { due: 0, sequence: 0 }, session: 0, _pad: 0 };
        Heap { len: 0, _pad: 0, position: [0; SESSIONS], entries: [NONE; SESSIONS] }
    }

    /// Removes all sessions.
    pub fn clear(&mut self) {
        self.len = 0;
        self.position.fill(0);
    }

    /// Number of members. Never more than the capacity, whatever the memory says.
    pub fn len(&self) -> usize {
        (self.len as usize).min(SESSIONS)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `session` is a member.
    pub fn contains(&self, session: u32) -> bool {
        self.position[session as usize] != 0
    }

    /// Adds `session`, or moves it to its new key if it is a member already.
    pub fn push(&mut self, session: u32, key: Key) {
        self.remove(session);
        let at = self.len();
        self.len = at as u32 + 1;
        self.up(at, Entry { key, session, _pad: 0 });
    }

    /// The first member and its key.
    pub fn peek(&self) -> Option<(u32, Key)> {
        (!self.is_empty()).then(|| (self.entries[0].session, self.entries[0].key))
    }

    /// Takes the first member out.
    pub fn pop(&mut self) -> Option<(u32, Key)> {
        let first = self.peek()?;
        self.remove_at(0);
        Some(first)
    }

    /// Takes `session` out if it is a member; says whether it was.
    pub fn remove(&mut self, session: u32) -> bool {
        match self.position[session as usize] as usize {
            0 => false,
            at if at <= self.len() => {
                self.remove_at(at - 1);
                true
            }
            _ => {
                self.position[session as usize] = 0;
                false
            }
        }
    }

    fn remove_at(&mut self, at: usize) {
        let last = self.len() - 1;
        self.position[self.entries[at].session as usize] = 0;
        self.len = last as u32;
        if at < last {
            // The last one fills the hole, wherever it has moved to.
            let entry = self.entries[last];
            if at > 0 && entry.key < self.entries[(at - 1) / 2].key {
                self.up(at, entry);
            } else {
                self.down(at, entry);
            }
        }
    }

    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.position[entry.session as usize] = at as u32 + 1;
    }

    /// Puts an entry into the hole at `hole` or above it: those that go after it move down, each
    /// written once.
    fn up(&mut self, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if self.entries[parent].key <= entry.key {
                break;
            }
            self.put(hole, self.entries[parent]);
            hole = parent;
        }
        self.put(hole, entry);
    }

    /// The same downwards: those that go before it move up.
    fn down(&mut self, mut hole: usize, entry: Entry) {
        let len = self.len();
        loop {
            let left = 2 * hole + 1;
            if left >= len {
                break;
            }
            let right = left + 1;
            let least = if right < len && self.entries[right].key < self.entries[left].key {
                right
            } else {
                left
            };
            if entry.key <= self.entries[least].key {
                break;
            }
            self.put(hole, self.entries[least]);
            hole = least;
        }
        self.put(hole, entry);
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(due: u64, sequence: u64) -> Key {
        Key { due, sequence }
    }

    /// The invariants of the module.
    fn assert_in_order(heap: &Heap) {
        for at in 0..heap.len() {
            let Entry { key, session, .. } = heap.entries[at];
            assert_eq!(heap.position[session as usize] as usize, at + 1);
            assert!(at == 0 || heap.entries[(at - 1) / 2].key <= key);
        }
        let members = heap.position.iter().filter(|position| **position != 0).count();
        assert_eq!(members, heap.len());
    }

    #[test]
    fn rounds_go_first_then_arrival() {
        let mut heap = Box::new(Heap::new());
        heap.push(7, key(2, 1));
        heap.push(8, key(1, 3));
        heap.push(9, key(1, 2));
        assert_eq!(heap.pop(), Some((9, key(1, 2))));
        assert_eq!(heap.pop(), Some((8, key(1, 3))));
        assert_eq!(heap.pop(), Some((7, key(2, 1))));
        assert_eq!(heap.pop(), None);
    }

    #[test]
    fn a_member_is_in_it_once() {
        let mut heap = Box::new(Heap::new());
        heap.push(7, key(2, 1));
        heap.push(7, key(9, 2));
        assert_eq!(heap.len(), 1);
        assert_eq!(heap.peek(), Some((7, key(9, 2))));
    }

    proptest! {
        /// Against a sorted map: any mix of pushes, pops and removals gives the same members in
        /// the same order.
        #[test]
        fn behaves_like_a_sorted_map(ops in proptest::collection::vec((0u8..3, 0u32..40, 0u64..8), 1..400)) {
            let mut heap = Box::new(Heap::new());
            let mut model = std::collections::BTreeMap::<(u64, u64), u32>::new();
            for (sequence, (op, session, due)) in ops.into_iter().enumerate() {
                let sequence = sequence as u64;
                match op {
                    0 => {
                        model.retain(|_, member| *member != session);
                        model.insert((due, sequence), session);
                        heap.push(session, key(due, sequence));
                    }
                    1 => {
                        let expected = model.pop_first().map(|((due, sequence), session)| (session, key(due, sequence)));
                        prop_assert_eq!(heap.pop(), expected);
                    }
                    _ => {
                        let before = model.len();
                        model.retain(|_, member| *member != session);
                        prop_assert_eq!(heap.remove(session), model.len() != before);
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                assert_in_order(&heap);
                prop_assert_eq!(heap.contains(session), model.values().any(|member| *member == session));
            }
        }
    }
}
