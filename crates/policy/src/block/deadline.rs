//! Sorted by sector, unless a request is due: the deadline scheduler of Linux, with deadlines of
//! each process.
//!
//! # Problem
//! In the order of sectors a disk does most, but a request at the far end may wait forever. In the
//! order of arrival no request waits long, and the disk does little.
//!
//! # The primitive
//! Reads and writes (with discards) each stand in two orders: by sector and by deadline. They are
//! dispatched in *batches* of one direction, upwards by sector, up to
//! [`Settings::fifo_batch`] requests. Only between batches a choice is made:
//! 1. The direction: reads, unless writes wait that were passed over
//!    [`Settings::writes_starved`] times.
//! 2. Where the batch begins: with the request that is due first if its deadline has passed, else
//!    where the last batch of this direction ended. Past the last sector it begins with the one due
//!    first.
//!
//! Source: the kernel's `Documentation/block/deadline-iosched` for rules and defaults; Split,
//! section 2.5.2 and Table 2.4, for deadlines of each process, which Linux does not have. A
//! request's own deadline counts first, then its cause's ([`Deadline::set_cause`]), then its
//! direction's. Classes and levels only restrict merging here.
//!
//! # Invariants
//! A batch that begins while a request of its direction is overdue begins with the one that is due
//! first. Let B be `fifo_batch` and S `writes_starved`, at least 1. Let k others of its direction
//! be due before an overdue request. It is dispatched within `(k + 1) · 2 · B + B` dispatches if it
//! is a read, and within `(k + 1) · (S + 1) · B + B` if it is a write.
//!
//! # Worked example
//! B = 2. Reads at sectors 10, 20, 30 and 5 wait, none is due, and the last batch ended at 8. Then
//! 10 and 20 are a batch, 30 goes alone, and 5 begins the next, as the one due first. If the read
//! of 30 is due before the first batch: 30, and since no read lies above it, 10, 20, ...

use super::expiry::Expiry;
use super::plug::{self, Plug};
use super::sorted::{Key, Sorted};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, Operation, Request};
use crate::Nanos;

/// Causes with their own deadlines.
pub const CAUSES: usize = 64;

/// Tunables, with the kernel's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A read is due this long after it came. Default 500 ms.
    pub read_expire: Nanos,
    /// The same for writes. Default 5 s.
    pub write_expire: Nanos,
    /// Requests of a batch. Default 16. Smaller: deadlines are looked at more often. Larger: more
    /// in the order of sectors.
    pub fifo_batch: u32,
    /// How many batches of reads may pass over waiting writes. Default 2. Zero: writes always go
    /// before reads.
    pub writes_starved: u32,
    /// How large merges may become.
    pub limits: Limits,
    /// When bursts are held.
    pub plug: plug::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            read_expire: Nanos::from_millis(500),
            write_expire: Nanos::from_millis(5_000),
            fifo_batch: 16,
            writes_starved: 2,
            limits: Limits::default(),
            plug: plug::Settings::default(),
        }
    }
}

/// Deadlines of one cause.
#[derive(Clone, Copy, Debug, Default)]
struct Cause {
    cause: u32,
    expire: [Nanos; 2],
}

/// Index of the direction: reads are 0, everything that changes data is 1.
const fn direction(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write | Operation::Flush | Operation::Discard | Operation::WriteZeroes => 1,
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Deadline {
    settings: Settings,
    table: Table,
    sorted: Sorted,
    expiry: [Expiry; 2],
    plug: Plug,
    /// Where the elevator of each direction stands.
    head: [u64; 2],
    batch: usize,
    /// Requests that the batch may still have.
    left: u32,
    /// How often writes were passed over.
    starved: u32,
    causes: [Cause; CAUSES],
    causes_len: usize,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline::new(Settings::default())
    }
}

impl Deadline {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        Deadline {
            settings,
            table: Table::new(settings.limits),
            sorted: Sorted::default(),
            expiry: [Expiry::default(), Expiry::default()],
            plug: Plug::new(settings.plug),
            head: [0; 2],
            batch: 0,
            left: 0,
            starved: 0,
            causes: [Cause::default(); CAUSES],
            causes_len: 0,
        }
    }

    /// Requests of `cause` that come from then on are due this long after they come. Says whether
    /// there was room: [`CAUSES`] can have their own deadlines.
    pub fn set_cause(&mut self, cause: u32, read: Nanos, write: Nanos) -> bool {
        let known = self.causes[..self.causes_len].iter().position(|known| known.cause == cause);
        let at = known.unwrap_or(self.causes_len);
        let Some(slot) = self.causes.get_mut(at) else { return false };
        *slot = Cause { cause, expire: [read, write] };
        self.causes_len = self.causes_len.max(at + 1);
        true
    }

    fn due(&self, now: Nanos, request: &Request) -> Nanos {
        let direction = direction(request.operation);
        let own = || {
            let causes = &self.causes[..self.causes_len];
            let known = causes.iter().find(|known| known.cause == request.cause)?;
            Some(now + known.expire[direction])
        };
        let usual = [self.settings.read_expire, self.settings.write_expire][direction];
        request.deadline.or_else(own).unwrap_or(now + usual)
    }

    fn merge(&mut self, now: Nanos, added: Added, index: Index, request: &Request) {
        let due = self.due(now, request);
        let old = *self.table.entry(index);
        let direction = direction(old.request.operation);
        self.table.merge(added, request);
        let whole = self.table.entry(index).request;
        if whole.sector != old.request.sector {
            self.sorted.remove(index);
            self.sorted.insert(index, key(&whole, old.sequence));
        }
        if due.0 < old.mark {
            self.table.set_mark(index, due.0);
            self.expiry[direction].remove(index);
            self.expiry[direction].insert(index, due, old.sequence);
        }
        self.plug.merged(&whole);
    }

    /// The next request, if any waits in the sorted order.
    fn choose(&mut self, now: Nanos) -> Option<Index> {
        if self.left > 0
            && let Some(index) = self.upwards(self.batch)
        {
            self.left -= 1;
            return Some(index);
        }
        let direction = self.choose_direction();
        let (due, first) = self.expiry[direction].first()?;
        let index = if due <= now { first } else { self.upwards(direction).unwrap_or(first) };
        self.batch = direction;
        self.left = self.settings.fifo_batch.saturating_sub(1);
        Some(index)
    }

    fn upwards(&self, direction: usize) -> Option<Index> {
        // The direction is 0 or 1.
        self.sorted.from(direction as u16, self.head[direction])
    }

    fn choose_direction(&mut self) -> usize {
        let [reads, writes] = [!self.expiry[0].is_empty(), !self.expiry[1].is_empty()];
        if reads && writes && self.starved < self.settings.writes_starved {
            self.starved += 1;
            return 0;
        }
        if writes {
            self.starved = 0;
            return 1;
        }
        0
    }
}

fn key(request: &Request, sequence: u64) -> Key {
    // The direction is 0 or 1.
    Key { group: direction(request.operation) as u16, sector: request.sector, sequence }
}

impl BlockScheduler for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        if let Some(added) = self.table.find_merge(request, true, |_| true) {
            self.merge(now, added, added.index_or(index), request);
            return added;
        }
        self.plug.queued(now, request, self.table.waiting());
        let due = self.due(now, request);
        let sequence = self.table.insert(now, index, request, due.0);
        self.sorted.insert(index, key(request, sequence));
        self.expiry[direction(request.operation)].insert(index, due, sequence);
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if let Some(index) = self.table.take_returned() {
            return Dispatch::Request(index);
        }
        if self.table.waiting() == 0 {
            return Dispatch::Idle;
        }
        if let Some(until) = self.plug.holds(now) {
            return Dispatch::Wait(until);
        }
        let Some(index) = self.choose(now) else { return Dispatch::Idle };
        let request = self.table.entry(index).request;
        let direction = direction(request.operation);
        self.sorted.remove(index);
        self.expiry[direction].remove(index);
        self.table.take(index);
        self.head[direction] = request.end();
        Dispatch::Request(index)
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.table.give_back(index);
    }

    fn completed(&mut self, _now: Nanos, index: Index, _service: Nanos) {
        self.table.forget(index);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_cause_deadlines(&mut self, cause: u32, read: Nanos, write: Nanos) -> bool {
        self.set_cause(cause, read, write)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain, read, write};
    use super::*;

    fn small() -> Box<Deadline> {
        Box::new(Deadline::new(Settings { fifo_batch: 2, ..Settings::default() }))
    }

    #[test]
    fn upwards_in_batches() {
        let mut deadline = small();
        for (index, sector) in [(0, 10), (1, 20), (2, 30), (3, 5)] {
            deadline.add(Nanos(u64::from(index)), index, &read(sector, 1));
        }
        deadline.head[0] = 8;
        assert_eq!(drain(deadline.as_mut(), Nanos(9)), [0, 1, 2, 3]);
    }

    #[test]
    fn an_overdue_request_begins_a_batch() {
        let mut deadline = small();
        for (index, sector) in [(0, 10), (1, 20), (3, 5)] {
            deadline.add(Nanos(5), index, &read(sector, 1));
        }
        deadline.add(Nanos(5), 2, &Request { deadline: Some(Nanos(7)), ..read(30, 1) });
        assert_eq!(drain(deadline.as_mut(), Nanos(7)), [2, 0, 1, 3]);
    }

    #[test]
    fn reads_pass_over_writes_twice() {
        let mut deadline = small();
        for index in 0..8 {
            deadline.add(Nanos(0), index, &read(100 * u64::from(index), 1));
            deadline.add(Nanos(0), 100 + index, &write(100 * u64::from(index), 1));
        }
        let order: Vec<bool> =
            drain(deadline.as_mut(), Nanos(1)).into_iter().map(|index| index < 100).collect();
        let (r, w) = (true, false);
        assert_eq!(order, [r, r, r, r, w, w, r, r, r, r, w, w, w, w, w, w]);
    }

    #[test]
    fn each_cause_has_deadlines_of_its_own() {
        // Table 2.4, disk: 10 ms for the blocks of A, 100 ms for those of B.
        let mut deadline = Box::new(Deadline::default());
        assert!(deadline.set_cause(1, Nanos::from_millis(10), Nanos::from_millis(10)));
        assert!(deadline.set_cause(2, Nanos::from_millis(100), Nanos::from_millis(100)));
        for index in 0..40 {
            let of_b = Request { cause: 2, ..write(10 + 100 * u64::from(index), 1) };
            deadline.add(Nanos(0), index, &of_b);
        }
        deadline.add(Nanos(0), 99, &Request { cause: 1, ..write(5, 1) });
        deadline.head[1] = 7;
        // After 10 ms A is overdue and B is not: A begins the next batch.
        let due = Nanos::from_millis(10);
        assert_eq!(deadline.dispatch(Nanos(1)), Dispatch::Request(0));
        let order = drain(deadline.as_mut(), due);
        assert_eq!(order[15], 99, "the batch of 16 that ran ends first");
        assert_eq!(order[16], 16, "and goes on upwards from A's sector");
    }

    #[test]
    fn a_cause_is_told_when_there_is_no_room() {
        let mut deadline = Box::new(Deadline::default());
        for cause in 0..CAUSES as u32 {
            assert!(deadline.set_cause(cause, Nanos(1), Nanos(1)));
        }
        assert!(!deadline.set_cause(1_000, Nanos(1), Nanos(1)));
        assert!(deadline.set_cause(5, Nanos(2), Nanos(2)), "a known one is changed in place");
    }

    #[test]
    fn a_union_is_due_with_its_first_part() {
        let mut deadline = small();
        deadline.add(Nanos(0), 0, &read(0, 8));
        deadline.add(Nanos(0), 1, &read(500, 8));
        let hurry = Request { deadline: Some(Nanos(3)), ..read(508, 8) };
        assert_eq!(deadline.add(Nanos(1), 2, &hurry), Added::MergedBack(1));
        assert_eq!(drain(deadline.as_mut(), Nanos(3)), [1, 0]);
        let front = read(92, 8);
        deadline.add(Nanos(4), 3, &read(100, 8));
        deadline.add(Nanos(4), 4, &read(96, 2));
        assert_eq!(deadline.add(Nanos(4), 5, &front), Added::MergedFront(3));
        deadline.head[0] = 90;
        assert_eq!(drain(deadline.as_mut(), Nanos(4)), [3, 4], "sorted by its first sector");
    }
}
