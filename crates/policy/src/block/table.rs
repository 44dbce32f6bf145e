//! The requests of a queue, and who may join whom.
//!
//! # Problem
//! A device serves one request of 64 KiB much faster than sixteen of 4 KiB. Requests that come in
//! pieces must be put together again before the device sees them.
//!
//! # The primitive
//! Every request that waits is in two hash tables, by its first sector and by the sector after its
//! last. A newcomer that begins where one ends joins it at the back (*back merge*); one that ends
//! where another begins joins it at the front. Both are found in constant time. Linux has a hash
//! for the back and a search in the sorted tree for the front.
//!
//! # Rules
//! Two requests may be joined if both are reads, both writes or both discards, and equal in FUA,
//! class and level. The union has at most [`Limits::sectors`]. The scheduler must agree: one that
//! keeps accounts joins no requests of different accounts. The union is due when the first of its
//! parts is, and is synchronous when a part is. Two requests that wait already are never joined,
//! even when a third closes the gap between them. The owner of the queue hears of a merge only as
//! the answer to its `add`.
//!
//! # Worked example
//! [0, 8) waits. A write of [8, 16) joins at the back: [0, 16). One of [16, 24) again: [0, 24). A
//! read of [24, 32) does not.

use super::fifo::{Links, List, NONE};
use super::{Added, Index, IoClass, Operation, REQUESTS, Request};
use crate::Nanos;

/// How large a request may grow by merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sectors of a union. The default is 1,280 KiB, `max_sectors_kb` of Linux. Zero: no merges.
    pub sectors: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { sectors: 2_560 }
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its index is not in use.
    Free,
    /// In the scheduler's structures; others may join it.
    Waiting,
    /// Was dispatched and came back; goes before all that wait.
    Returned,
    /// With the device, or on its way there.
    Dispatched,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What is asked, with all requests that joined.
    pub request: Request,
    /// When the first of its parts came.
    pub added: Nanos,
    /// Order of arrival, from 1.
    pub sequence: u64,
    /// A number of the scheduler's own: its deadline, its queue.
    pub mark: u64,
    dispatched: u64,
    state: State,
}

const BUCKETS: usize = 1024;

/// A hash table of indices by sector, chained.
#[derive(Clone, Debug)]
struct Chains {
    heads: [Index; BUCKETS],
    next: [Index; REQUESTS],
}

impl Chains {
    const fn new() -> Self {
        Chains { heads: [NONE; BUCKETS], next: [NONE; REQUESTS] }
    }

    fn bucket(sector: u64) -> usize {
        // Fibonacci hashing: the top bits of the product depend on all bits of the sector.
        (sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    fn insert(&mut self, sector: u64, index: Index) {
        let bucket = Self::bucket(sector);
        self.next[usize::from(index)] = self.heads[bucket];
        self.heads[bucket] = index;
    }

    fn remove(&mut self, sector: u64, index: Index) {
        let next = self.next[usize::from(index)];
        let bucket = Self::bucket(sector);
        if self.heads[bucket] == index {
            self.heads[bucket] = next;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            if self.next[usize::from(at)] == index {
                self.next[usize::from(at)] = next;
                return;
            }
            at = self.next[usize::from(at)];
        }
    }

    fn find(&self, sector: u64, mut fits: impl FnMut(Index) -> bool) -> Option<Index> {
        let mut at = self.heads[Self::bucket(sector)];
        while at != NONE {
            if fits(at) {
                return Some(at);
            }
            at = self.next[usize::from(at)];
        }
        None
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Table {
    limits: Limits,
    entries: [Entry; REQUESTS],
    by_start: Chains,
    by_end: Chains,
    returned: List,
    links: Links,
    waiting: u16,
    sequence: u64,
    dispatches: u64,
}

impl Default for Table {
    fn default() -> Self {
        Table::new(Limits::default())
    }
}

impl Table {
    /// Empty.
    pub fn new(limits: Limits) -> Self {
        let request = Request {
            operation: Operation::Flush,
            sector: 0,
            sectors: 0,
            fua: false,
            sync: false,
            cause: 0,
            class: IoClass::BestEffort,
            level: 0,
            deadline: None,
            continues: false,
        };
        let free = Entry {
            request,
            added: Nanos(0),
            sequence: 0,
            mark: 0,
            dispatched: 0,
            state: State::Free,
        };
        Table {
            limits,
            entries: [free; REQUESTS],
            by_start: Chains::new(),
            by_end: Chains::new(),
            returned: List::EMPTY,
            links: Links::default(),
            waiting: 0,
            sequence: 0,
            dispatches: 0,
        }
    }

    /// The request named `index`.
    pub fn entry(&self, index: Index) -> &Entry {
        &self.entries[usize::from(index)]
    }

    /// Sets the scheduler's own number of `index`.
    pub fn set_mark(&mut self, index: Index, mark: u64) {
        self.entries[usize::from(index)].mark = mark;
    }

    /// Requests that wait, with those that came back from the device.
    pub const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Whom `request` can join, at which end. `may` is the scheduler's own rule; a scheduler that
    /// joins no request at the front says so with `front`.
    pub fn find_merge(
        &self,
        request: &Request,
        front: bool,
        mut may: impl FnMut(&Entry) -> bool,
    ) -> Option<Added> {
        if request.sectors == 0 {
            return None;
        }
        let mut fits = |index: Index| {
            let entry = self.entry(index);
            self.joinable(&entry.request, request) && may(entry)
        };
        let back = self.by_end.find(request.sector, |index| {
            self.entry(index).request.end() == request.sector && fits(index)
        });
        if let Some(index) = back {
            return Some(Added::MergedBack(index));
        }
        let first = self.by_start.find(request.end(), |index| {
            front && self.entry(index).request.sector == request.end() && fits(index)
        });
        first.map(Added::MergedFront)
    }

    fn joinable(&self, old: &Request, new: &Request) -> bool {
        let sectors = u64::from(old.sectors) + u64::from(new.sectors);
        matches!(old.operation, Operation::Read | Operation::Write | Operation::Discard)
            && old.operation == new.operation
            && old.fua == new.fua
            && old.class == new.class
            && old.level == new.level
            && sectors <= u64::from(self.limits.sectors)
    }

    /// Joins `request` to whom [`Self::find_merge`] named.
    pub fn merge(&mut self, added: Added, request: &Request) {
        let index = match added {
            Added::Queued => return,
            Added::MergedBack(index) => {
                let old_end = self.entry(index).request.end();
                self.by_end.remove(old_end, index);
                self.by_end.insert(request.end(), index);
                index
            }
            Added::MergedFront(index) => {
                let old_start = self.entry(index).request.sector;
                self.by_start.remove(old_start, index);
                self.by_start.insert(request.sector, index);
                self.entries[usize::from(index)].request.sector = request.sector;
                index
            }
        };
        let whole = &mut self.entries[usize::from(index)].request;
        whole.sectors += request.sectors;
        whole.sync |= request.sync;
        whole.deadline = match (whole.deadline, request.deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Adds a request that joins no other. Answers its place in the order of arrival.
    pub fn insert(&mut self, now: Nanos, index: Index, request: &Request, mark: u64) -> u64 {
        debug_assert_eq!(self.entry(index).state, State::Free, "index {index} is in use");
        self.sequence += 1;
        self.entries[usize::from(index)] = Entry {
            request: *request,
            added: now,
            sequence: self.sequence,
            mark,
            dispatched: 0,
            state: State::Waiting,
        };
        self.by_start.insert(request.sector, index);
        self.by_end.insert(request.end(), index);
        self.waiting += 1;
        self.sequence
    }

    /// `index` goes to the device: no request joins it from then on.
    pub fn take(&mut self, index: Index) {
        debug_assert_eq!(self.entry(index).state, State::Waiting);
        let request = self.entry(index).request;
        self.by_start.remove(request.sector, index);
        self.by_end.remove(request.end(), index);
        self.dispatch(index);
    }

    fn dispatch(&mut self, index: Index) {
        self.dispatches += 1;
        let entry = &mut self.entries[usize::from(index)];
        entry.dispatched = self.dispatches;
        entry.state = State::Dispatched;
        self.waiting -= 1;
    }

    /// `index` came back from the device. It keeps its place: those that came back go before all
    /// others, in the order in which they were dispatched, and no request joins them.
    pub fn give_back(&mut self, index: Index) {
        debug_assert_eq!(self.entry(index).state, State::Dispatched);
        self.entries[usize::from(index)].state = State::Returned;
        self.waiting += 1;
        let dispatched = self.entry(index).dispatched;
        let mut at = self.returned.first();
        while let Some(other) = at {
            if self.entry(other).dispatched > dispatched {
                self.links.insert_before(&mut self.returned, other, index);
                return;
            }
            at = self.links.next(other);
        }
        self.links.push_back(&mut self.returned, index);
    }

    /// Takes the first of those that came back.
    pub fn take_returned(&mut self) -> Option<Index> {
        let index = self.links.pop_front(&mut self.returned)?;
        let dispatched = self.entry(index).dispatched;
        self.dispatch(index);
        self.entries[usize::from(index)].dispatched = dispatched;
        Some(index)
    }

    /// `index` is done and may name another.
    pub fn forget(&mut self, index: Index) {
        debug_assert_eq!(self.entry(index).state, State::Dispatched);
        self.entries[usize::from(index)].state = State::Free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, sector: u64, sectors: u32) -> Request {
        Request {
            operation,
            sector,
            sectors,
            fua: false,
            sync: false,
            cause: 1,
            class: IoClass::BestEffort,
            level: 4,
            deadline: None,
            continues: false,
        }
    }

    fn join(table: &mut Table, request: &Request) -> Option<Added> {
        let added = table.find_merge(request, true, |_| true)?;
        table.merge(added, request);
        Some(added)
    }

    #[test]
    fn neighbours_join_at_both_ends() {
        let mut table = Box::new(Table::default());
        table.insert(Nanos(0), 3, &request(Operation::Write, 8, 8), 0);
        let at = |sector| request(Operation::Write, sector, 8);
        assert_eq!(join(&mut table, &at(16)), Some(Added::MergedBack(3)));
        assert_eq!(join(&mut table, &at(0)), Some(Added::MergedFront(3)));
        assert_eq!(join(&mut table, &at(24)), Some(Added::MergedBack(3)));
        assert_eq!((table.entry(3).request.sector, table.entry(3).request.end()), (0, 32));
        assert_eq!(join(&mut table, &at(40)), None, "a gap of 8 sectors");
        table.take(3);
        assert_eq!(join(&mut table, &at(32)), None, "it is with the device");
    }

    #[test]
    fn only_equals_join() {
        let mut table = Box::new(Table::default());
        let first = request(Operation::Write, 0, 8);
        table.insert(Nanos(0), 0, &first, 0);
        let next = request(Operation::Write, 8, 8);
        let refused = [
            Request { operation: Operation::Read, ..next },
            Request { operation: Operation::Discard, ..next },
            Request { fua: true, ..next },
            Request { class: IoClass::Idle, ..next },
            Request { level: 3, ..next },
        ];
        for request in refused {
            assert_eq!(join(&mut table, &request), None, "{request:?}");
        }
        assert_eq!(join(&mut table, &next), Some(Added::MergedBack(0)));
        table.insert(Nanos(0), 1, &request(Operation::WriteZeroes, 96, 8), 0);
        assert_eq!(join(&mut table, &request(Operation::WriteZeroes, 104, 8)), None);
    }

    #[test]
    fn a_union_has_a_limit() {
        let mut table = Box::new(Table::new(Limits { sectors: 24 }));
        table.insert(Nanos(0), 0, &request(Operation::Read, 0, 8), 0);
        assert!(join(&mut table, &request(Operation::Read, 8, 16)).is_some());
        assert!(join(&mut table, &request(Operation::Read, 24, 1)).is_none());
    }

    #[test]
    fn a_union_is_as_urgent_as_its_most_urgent_part() {
        let mut table = Box::new(Table::default());
        let due = |deadline| Request { deadline, ..request(Operation::Write, 0, 8) };
        table.insert(Nanos(0), 0, &due(None), 0);
        let late = Request { sector: 8, ..due(Some(Nanos(90))) };
        let soon = Request { sector: 16, sync: true, ..due(Some(Nanos(40))) };
        let never = Request { sector: 24, ..due(None) };
        for part in [late, soon, never] {
            assert!(join(&mut table, &part).is_some());
        }
        let whole = table.entry(0).request;
        assert_eq!((whole.deadline, whole.sync, whole.sectors), (Some(Nanos(40)), true, 32));
    }

    #[test]
    fn those_that_come_back_keep_their_order() {
        let mut table = Box::new(Table::default());
        for index in 0..4 {
            table.insert(Nanos(0), index, &request(Operation::Read, 100 * u64::from(index), 1), 0);
        }
        for index in [2, 0, 3] {
            table.take(index);
        }
        for index in [0, 3, 2] {
            table.give_back(index);
        }
        assert_eq!(table.waiting(), 4);
        assert_eq!(table.take_returned(), Some(2));
        table.give_back(2);
        let order: Vec<_> = std::iter::from_fn(|| table.take_returned()).collect();
        assert_eq!(order, [2, 0, 3]);
        assert_eq!(table.waiting(), 1);
    }

    proptest::proptest! {
        /// A neighbour is found if and only if there is one.
        #[test]
        fn no_neighbour_is_missed(
            steps in proptest::collection::vec((0u64..40, proptest::prelude::any::<bool>()), 1..200),
        ) {
            let mut table = Box::new(Table::default());
            let mut model = std::collections::BTreeMap::<Index, (u64, u64)>::new();
            for (place, take) in steps {
                if take {
                    if let Some((index, _)) = model.pop_first() {
                        table.take(index);
                        table.forget(index);
                    }
                    continue;
                }
                let new = request(Operation::Read, place, 1);
                let by_end = |range: &(u64, u64)| range.1 == place;
                let by_start = |range: &(u64, u64)| range.0 == place + 1;
                match join(&mut table, &new) {
                    Some(Added::MergedBack(index)) => {
                        let range = model.get_mut(&index).unwrap();
                        proptest::prop_assert!(by_end(range));
                        range.1 += 1;
                    }
                    Some(Added::MergedFront(index)) => {
                        let range = model.get_mut(&index).unwrap();
                        proptest::prop_assert!(by_start(range));
                        range.0 -= 1;
                    }
                    _ => {
                        proptest::prop_assert!(!model.values().any(|r| by_end(r) || by_start(r)));
                        let index = (0..).find(|index| !model.contains_key(index)).unwrap();
                        table.insert(Nanos(0), index, &new, 0);
                        model.insert(index, (place, place + 1));
                    }
                }
            }
        }
    }
}
