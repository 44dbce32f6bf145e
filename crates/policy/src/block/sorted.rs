//! Requests in the order of their sectors, group by group.
//!
//! # Problem
//! A disk is fastest when its head goes one way. A scheduler therefore asks, of one direction or of
//! one process: which request is the next at or after this sector?
//!
//! # The primitive
//! One array of indices, sorted by group, sector and order of arrival. A group (a direction, a
//! process) is a run within it. Search takes ten steps for [`REQUESTS`] entries; an insertion
//! moves at most 2 KiB, less than the cost of keeping a tree in balance.
//!
//! # Worked example
//! Sectors 64, 8 and 32 of group 1: at or after 9 comes 32, after that 64, and at or after 65 none.

use super::{Index, REQUESTS};

/// What the array is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Requests of different groups never meet.
    pub group: u16,
    /// First sector.
    pub sector: u64,
    /// Order of arrival, unique.
    pub sequence: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sorted {
    len: u16,
    order: [Index; REQUESTS],
    keys: [Key; REQUESTS],
}

impl Default for Sorted {
    fn default() -> Self {
        const ZERO: Key = Key { group: 0, sector: 0, sequence: 0 };
        Sorted { len: 0, order: [0; REQUESTS], keys: [ZERO; REQUESTS] }
    }
}

impl Sorted {
    fn members(&self) -> &[Index] {
        &self.order[..usize::from(self.len)]
    }

    /// How many members have a smaller key.
    fn place(&self, key: Key) -> usize {
        self.members().partition_point(|index| self.keys[usize::from(*index)] < key)
    }

    fn at(&self, place: usize, group: u16) -> Option<Index> {
        let index = *self.members().get(place)?;
        (self.keys[usize::from(index)].group == group).then_some(index)
    }

    /// Adds `index`, which is no member.
    pub fn insert(&mut self, index: Index, key: Key) {
        let (place, len) = (self.place(key), usize::from(self.len));
        self.order.copy_within(place..len, place + 1);
        self.order[place] = index;
        self.keys[usize::from(index)] = key;
        self.len += 1;
    }

    /// Takes the member `index` out.
    pub fn remove(&mut self, index: Index) {
        let (place, len) = (self.place(self.keys[usize::from(index)]), usize::from(self.len));
        debug_assert_eq!(self.order[place], index);
        self.order.copy_within(place + 1..len, place);
        self.len -= 1;
    }

    /// The first request of `group` that begins at or after `sector`.
    pub fn from(&self, group: u16, sector: u64) -> Option<Index> {
        self.at(self.place(Key { group, sector, sequence: 0 }), group)
    }

    /// The first request of `group`.
    pub fn first(&self, group: u16) -> Option<Index> {
        self.from(group, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_next_sector_one_way() {
        let mut sorted = Box::new(Sorted::default());
        for (index, sector) in [(0, 64), (1, 8), (2, 32)] {
            sorted.insert(index, Key { group: 1, sector, sequence: 1 + u64::from(index) });
        }
        assert_eq!(sorted.from(1, 9), Some(2));
        assert_eq!(sorted.from(1, 33), Some(0));
        assert_eq!(sorted.from(1, 65), None);
        assert_eq!(sorted.first(0), None);
        assert_eq!(sorted.first(2), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(
            steps in proptest::collection::vec((any::<bool>(), 0u16..60, 0u16..3, 0u64..20), 1..300),
        ) {
            let mut sorted = Box::new(Sorted::default());
            let mut model = std::collections::BTreeMap::<(u16, u64, u64), Index>::new();
            for (sequence, (add, index, group, sector)) in (1..).zip(steps) {
                let old = model.iter().find(|(_, member)| **member == index).map(|(key, _)| *key);
                match (add, old) {
                    (true, None) => {
                        sorted.insert(index, Key { group, sector, sequence });
                        model.insert((group, sector, sequence), index);
                    }
                    (false, Some(key)) => {
                        sorted.remove(index);
                        model.remove(&key);
                    }
                    _ => {}
                }
                let expected = model
                    .range((group, sector, 0)..)
                    .next()
                    .filter(|(key, _)| key.0 == group)
                    .map(|(_, index)| *index);
                prop_assert_eq!(sorted.from(group, sector), expected);
            }
        }
    }
}
