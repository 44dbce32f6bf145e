//! Requests in the order of their deadlines.
//!
//! With one time limit for all, deadlines come in the order of arrival and a list would do. With a
//! limit for each process (Split, section 2.5.2) a late comer may be due first. So this is an
//! indexed binary min-heap: O(log n) to add and to take out.
//!
//! Worked example: add requests due at 30, 10 and 20: the first is the one due at 10. Take it out:
//! the one due at 20.
//!
//! Invariants: `entries[position[i] - 1].index == i` for each member `i`, `position[i] == 0` for
//! every other index, and no entry is smaller than its parent.

use super::{Index, REQUESTS};
use crate::Nanos;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: (Nanos, u64),
    index: Index,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Expiry {
    len: u16,
    position: [u16; REQUESTS],
    entries: [Entry; REQUESTS],
}

impl Default for Expiry {
    fn default() -> Self {
        const UNUSED: Entry = Entry { key: (Nanos(0), 0), index: 0 };
        Expiry { len: 0, position: [0; REQUESTS], entries: [UNUSED; REQUESTS] }
    }
}

impl Expiry {
    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `index`, which is no member; `sequence` orders equal deadlines.
    pub fn insert(&mut self, index: Index, deadline: Nanos, sequence: u64) {
        let at = usize::from(self.len);
        self.len += 1;
        self.put(at, Entry { key: (deadline, sequence), index });
        self.up(at);
    }

    /// The earliest deadline, and whose it is.
    pub fn first(&self) -> Option<(Nanos, Index)> {
        (!self.is_empty()).then(|| (self.entries[0].key.0, self.entries[0].index))
    }

    /// Takes the member `index` out.
    pub fn remove(&mut self, index: Index) {
        let at = usize::from(self.position[usize::from(index)]);
        debug_assert!(at > 0, "request {index} is not in the heap");
        let at = at - 1;
        let last = usize::from(self.len) - 1;
        self.position[usize::from(index)] = 0;
        self.len -= 1;
        if at < last {
            self.put(at, self.entries[last]);
            self.down(at);
            self.up(at);
        }
    }

    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        // Places are below REQUESTS, which is far below the limit of the type.
        self.position[usize::from(entry.index)] = at as u16 + 1;
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (first, second) = (self.entries[a], self.entries[b]);
        self.put(a, second);
        self.put(b, first);
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent].key <= self.entries[at].key {
                return;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize) {
        let len = usize::from(self.len);
        loop {
            let left = 2 * at + 1;
            if left >= len {
                return;
            }
            let right = left + 1;
            let least = if right < len && self.entries[right].key < self.entries[left].key {
                right
            } else {
                left
            };
            if self.entries[at].key <= self.entries[least].key {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest(
            steps in proptest::collection::vec((any::<bool>(), 0u16..60, 0u64..9), 1..300),
        ) {
            let mut heap = Box::new(Expiry::default());
            let mut model = std::collections::BTreeMap::<(Nanos, u64), Index>::new();
            for (sequence, (add, index, deadline)) in (1..).zip(steps) {
                let old = model.iter().find(|(_, member)| **member == index).map(|(key, _)| *key);
                match (add, old) {
                    (true, None) => {
                        heap.insert(index, Nanos(deadline), sequence);
                        model.insert((Nanos(deadline), sequence), index);
                    }
                    (false, Some(key)) => {
                        heap.remove(index);
                        model.remove(&key);
                    }
                    _ => {}
                }
                let expected = model.first_key_value().map(|((due, _), index)| (*due, *index));
                prop_assert_eq!(heap.first(), expected);
                prop_assert_eq!(heap.is_empty(), model.is_empty());
            }
        }
    }
}
