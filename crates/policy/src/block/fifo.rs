//! Lists of indices that share one table of links: any number of queues over one set of requests.
//!
//! # The primitive
//! A [`Links`] holds, for each index, who comes before and after it; a [`List`] only its two ends.
//! An index is in at most one list of a table at a time. So it can leave from the middle in
//! constant time, and each list costs four bytes.
//!
//! # Worked example
//! Push 5 and 9 at the back, 2 at the front: 2, 5, 9. Remove 5: 2, 9. Pop: 2.

use super::{Index, REQUESTS};

/// No index.
pub const NONE: Index = Index::MAX;

/// Who comes before and after whom.
#[derive(Clone, Debug)]
pub struct Links {
    next: [Index; REQUESTS],
    previous: [Index; REQUESTS],
}

/// The ends of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    first: Index,
    last: Index,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List { first: NONE, last: NONE };

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The first member.
    pub const fn first(&self) -> Option<Index> {
        if self.first == NONE { None } else { Some(self.first) }
    }
}

impl Default for List {
    fn default() -> Self {
        List::EMPTY
    }
}

impl Default for Links {
    fn default() -> Self {
        Links { next: [NONE; REQUESTS], previous: [NONE; REQUESTS] }
    }
}

impl Links {
    /// Adds `index`, which is in no list of this table, at the end.
    pub fn push_back(&mut self, list: &mut List, index: Index) {
        self.next[usize::from(index)] = NONE;
        self.previous[usize::from(index)] = list.last;
        match list.last {
            NONE => list.first = index,
            last => self.next[usize::from(last)] = index,
        }
        list.last = index;
    }

    /// Adds `index`, which is in no list of this table, at the front.
    pub fn push_front(&mut self, list: &mut List, index: Index) {
        match list.first() {
            None => self.push_back(list, index),
            Some(first) => self.insert_before(list, first, index),
        }
    }

    /// Adds `index`, which is in no list of this table, before the member `at`.
    pub fn insert_before(&mut self, list: &mut List, at: Index, index: Index) {
        let previous = self.previous[usize::from(at)];
        self.next[usize::from(index)] = at;
        self.previous[usize::from(index)] = previous;
        self.previous[usize::from(at)] = index;
        match previous {
            NONE => list.first = index,
            previous => self.next[usize::from(previous)] = index,
        }
    }

    /// Takes the member `index` out.
    pub fn remove(&mut self, list: &mut List, index: Index) {
        let (previous, next) = (self.previous[usize::from(index)], self.next[usize::from(index)]);
        match previous {
            NONE => list.first = next,
            previous => self.next[usize::from(previous)] = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.previous[usize::from(next)] = previous,
        }
    }

    /// Takes the first member out.
    pub fn pop_front(&mut self, list: &mut List) -> Option<Index> {
        let first = list.first()?;
        self.remove(list, first);
        Some(first)
    }

    /// The member after the member `index`.
    pub fn next(&self, index: Index) -> Option<Index> {
        match self.next[usize::from(index)] {
            NONE => None,
            next => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against two vectors: members of two lists come and go at both ends and in the middle.
        #[test]
        fn behaves_like_vectors(steps in proptest::collection::vec((0u8..5, 0u16..40, any::<bool>()), 1..300)) {
            let mut links = Box::new(Links::default());
            let mut lists = [List::EMPTY; 2];
            let mut model = [Vec::<Index>::new(), Vec::new()];
            for (step, index, second) in steps {
                let which = usize::from(second);
                let absent = !model.iter().any(|list| list.contains(&index));
                let at = model[which].iter().position(|member| *member == index);
                match (step, at) {
                    (0, _) if absent => {
                        links.push_back(&mut lists[which], index);
                        model[which].push(index);
                    }
                    (1, _) if absent => {
                        links.push_front(&mut lists[which], index);
                        model[which].insert(0, index);
                    }
                    (2, Some(at)) => {
                        links.remove(&mut lists[which], index);
                        model[which].remove(at);
                    }
                    (3, _) if absent && !model[which].is_empty() => {
                        let middle = model[which].len() / 2;
                        links.insert_before(&mut lists[which], model[which][middle], index);
                        model[which].insert(middle, index);
                    }
                    (4, _) => {
                        let first = (!model[which].is_empty()).then(|| model[which].remove(0));
                        prop_assert_eq!(links.pop_front(&mut lists[which]), first);
                    }
                    _ => {}
                }
                for (list, model) in lists.iter().zip(&model) {
                    let members: Vec<Index> =
                        std::iter::successors(list.first(), |index| links.next(*index)).collect();
                    prop_assert_eq!(&members, model);
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                }
            }
        }
    }
}
