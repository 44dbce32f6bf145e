//! What each application had of the device, and what it waited for: counted where the scheduler is
//! called, so that every request is in it once.
//!
//! [`Watched`] is a scheduler that passes everything on to another one and writes into a
//! [`Ledger`]. Figures only grow; those of a window are differences.

use headworks_policy::Nanos;
use headworks_policy::block::cost::SeekCost;
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request, SECTOR_BYTES, Share,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slow requests that are remembered.
const SLOW_MAX: usize = 256;

/// A wait in the queue from which on a request is remembered.
const SLOW: Nanos = Nanos::from_millis(20);

/// What one application had since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests that were completed: reads, writes, flushes, others.
    pub ios: [u64; 4],
    /// Bytes read and written.
    pub bytes: u64,
    /// Cost that was charged, in nanoseconds of the device.
    pub cost_ns: u64,
    /// Time in the queue, of requests that went to the device.
    pub waited_ns: u64,
    /// Time with the device.
    pub service_ns: u64,
    /// Requests that went to the device, and those that went while no other application waited.
    pub taken: u64,
    /// See `taken`.
    pub lent: u64,
    /// Requests in the queue, and with the device.
    pub waiting: u32,
    /// See `waiting`.
    pub inflight: u32,
    /// Requests that came.
    pub came: u64,
}

impl Tally {
    /// What came since `before`. What is there at the moment stays.
    pub fn since(&self, before: &Tally) -> Tally {
        let ios = std::array::from_fn(|at| self.ios[at] - before.ios[at]);
        Tally {
            ios,
            bytes: self.bytes - before.bytes,
            cost_ns: self.cost_ns - before.cost_ns,
            waited_ns: self.waited_ns - before.waited_ns,
            service_ns: self.service_ns - before.service_ns,
            taken: self.taken - before.taken,
            lent: self.lent - before.lent,
            came: self.came - before.came,
            ..*self
        }
    }

    /// All requests that were completed.
    pub fn all(&self) -> u64 {
        self.ios.iter().sum()
    }

    /// Whether it asked for anything.
    pub fn has_demand(&self) -> bool {
        self.came > 0 || self.waiting > 0 || self.inflight > 0
    }
}

/// A request that waited for long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// When it went to the device.
    pub at: Nanos,
    /// Whose it was.
    pub cause: u32,
    /// What it asked.
    pub operation: Operation,
    /// Bytes.
    pub bytes: u64,
    /// Time in the queue.
    pub waited: Nanos,
    /// The other application that had most of the device since its last window, and its part.
    pub behind: Option<(u32, f64)>,
    /// Cost that all others were given while it waited.
    pub others_ns: u64,
}

#[derive(Default)]
struct Books {
    tallies: Vec<Tally>,
    /// The cost of each at the last mark, which parts [`Slow::behind`].
    marked_ns: Vec<u64>,
    cost_ns: u64,
    /// Applications with requests that wait.
    flows: u32,
    inflight: u32,
    /// Their cost.
    inflight_ns: u64,
    /// The cost that fills the device as one of its requests does; zero if only their number
    /// counts.
    place_ns: u64,
    /// Places of the device that are filled × time.
    filled_ns: u64,
    changed: Nanos,
    slow: VecDeque<Slow>,
}

impl Books {
    fn of(&mut self, cause: u32) -> &mut Tally {
        let at = cause as usize;
        if at >= self.tallies.len() {
            self.tallies.resize(at + 1, Tally::default());
        }
        &mut self.tallies[at]
    }

    fn pass(&mut self, now: Nanos) {
        // A few large requests fill it, too.
        let by_cost = self.inflight_ns.checked_div(self.place_ns).unwrap_or(0);
        self.filled_ns += now.since(self.changed).0 * by_cost.max(self.inflight.into());
        self.changed = now;
    }

    fn mostly_behind(&self, cause: u32) -> Option<(u32, f64)> {
        let had = |at: usize| {
            let before = self.marked_ns.get(at).copied().unwrap_or(0);
            self.tallies[at].cost_ns - before
        };
        let others = (0..self.tallies.len()).filter(|at| *at as u32 != cause);
        let most = others.max_by_key(|at| had(*at)).filter(|at| had(*at) > 0)?;
        let all: u64 = (0..self.tallies.len()).map(had).sum();
        Some((most as u32, had(most) as f64 / all as f64))
    }
}

/// See the module.
#[derive(Default)]
pub struct Ledger(Mutex<Books>);

/// A copy of the figures.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Of each application, by its number.
    pub tallies: Vec<Tally>,
    /// Places of the device that are filled × nanoseconds.
    pub filled_ns: u64,
    /// When it was taken.
    pub at: Nanos,
}

impl Page {
    /// The figures of one application.
    pub fn of(&self, cause: u32) -> Tally {
        self.tallies.get(cause as usize).copied().unwrap_or_default()
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures at `now`.
    pub fn page(&self, now: Nanos) -> Page {
        let mut books = self.lock();
        let now = now.max(books.changed);
        books.pass(now);
        Page { tallies: books.tallies.clone(), filled_ns: books.filled_ns, at: now }
    }

    /// A window begins.
    pub fn mark(&self) {
        let mut books = self.lock();
        let costs = books.tallies.iter().map(|tally| tally.cost_ns).collect();
        books.marked_ns = costs;
    }

    /// The slow requests that are remembered, the latest last.
    pub fn slow(&self) -> Vec<Slow> {
        self.lock().slow.iter().copied().collect()
    }
}

#[derive(Clone, Copy)]
struct Note {
    request: Request,
    added: Nanos,
    cost_ns: u64,
    /// The cost that all had been charged when it came.
    all_ns: u64,
}

/// See the module.
pub struct Watched {
    inner: Box<dyn BlockScheduler>,
    ledger: Arc<Ledger>,
    notes: Vec<Option<Note>>,
    cost: SeekCost,
}

impl Watched {
    /// Around `inner`; requests count as `cost` says. What costs `place` fills the device as one
    /// request does, if it is smaller.
    pub fn filling(
        inner: Box<dyn BlockScheduler>,
        ledger: Arc<Ledger>,
        cost: SeekCost,
        place: Nanos,
    ) -> Watched {
        ledger.lock().place_ns = place.0;
        Watched::new(inner, ledger, cost)
    }

    /// Around `inner`; requests count as `cost` says.
    pub fn new(inner: Box<dyn BlockScheduler>, ledger: Arc<Ledger>, cost: SeekCost) -> Watched {
        Watched { inner, ledger, notes: vec![None; REQUESTS], cost }
    }

    fn cost_ns(&self, request: &Request) -> u64 {
        self.cost.of(request).0.max(1)
    }
}

impl BlockScheduler for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        let added = self.inner.add(now, index, request);
        let cost_ns = self.cost_ns(request);
        let mut books = self.ledger.lock();
        let all_ns = books.cost_ns;
        let tally = books.of(request.cause);
        tally.came += 1;
        match added {
            Added::Queued => {
                tally.waiting += 1;
                let first = tally.waiting == 1;
                books.flows += u32::from(first);
                let note = Note { request: *request, added: now, cost_ns, all_ns };
                self.notes[usize::from(index)] = Some(note);
            }
            Added::MergedBack(into) | Added::MergedFront(into) => {
                if let Some(note) = &mut self.notes[usize::from(into)] {
                    note.request.sectors += request.sectors;
                    note.cost_ns = self.cost.of(&note.request).0.max(1);
                }
            }
        }
        added
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        self.inner.dispatch(now)
    }

    fn activated(&mut self, now: Nanos, index: Index) {
        self.inner.activated(now, index);
        let Some(note) = self.notes[usize::from(index)] else { return };
        let cause = note.request.cause;
        let waited = now.since(note.added);
        let mut books = self.ledger.lock();
        books.pass(now);
        books.inflight += 1;
        books.inflight_ns += note.cost_ns;
        books.cost_ns += note.cost_ns;
        let others_ns = books.cost_ns - note.all_ns - note.cost_ns;
        let alone = {
            let tally = books.of(cause);
            tally.waiting -= 1;
            tally.inflight += 1;
            tally.taken += 1;
            tally.cost_ns += note.cost_ns;
            tally.waited_ns += waited.0;
            tally.waiting == 0
        };
        books.flows -= u32::from(alone);
        let lent = books.flows == u32::from(!alone);
        books.of(cause).lent += u64::from(lent);
        if waited >= SLOW {
            let behind = books.mostly_behind(cause);
            let bytes = u64::from(note.request.sectors) * SECTOR_BYTES;
            let operation = note.request.operation;
            if books.slow.len() == SLOW_MAX {
                books.slow.pop_front();
            }
            books.slow.push_back(Slow {
                at: now,
                cause,
                operation,
                bytes,
                waited,
                behind,
                others_ns,
            });
        }
    }

    fn deactivated(&mut self, now: Nanos, index: Index) {
        self.inner.deactivated(now, index);
    }

    fn completed(&mut self, now: Nanos, index: Index, service: Nanos) {
        self.inner.completed(now, index, service);
        let Some(note) = self.notes[usize::from(index)].take() else { return };
        let mut books = self.ledger.lock();
        books.pass(now);
        books.inflight -= 1;
        books.inflight_ns -= note.cost_ns;
        let tally = books.of(note.request.cause);
        tally.inflight -= 1;
        tally.service_ns += service.0;
        let (kind, moved) = match note.request.operation {
            Operation::Read => (0, true),
            Operation::Write => (1, true),
            Operation::Flush => (2, false),
            Operation::Discard | Operation::WriteZeroes => (3, false),
        };
        tally.ios[kind] += u64::from(!note.request.continues);
        tally.bytes += if moved { u64::from(note.request.sectors) * SECTOR_BYTES } else { 0 };
    }

    fn shares_flushes(&self) -> bool {
        self.inner.shares_flushes()
    }

    fn most_sectors(&self, now: Nanos) -> u32 {
        self.inner.most_sectors(now)
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    fn promote(&mut self, now: Nanos, critical: &mut dyn FnMut(u32) -> bool) -> usize {
        self.inner.promote(now, critical)
    }

    fn set_cause_deadlines(&mut self, cause: u32, read: Nanos, write: Nanos) -> bool {
        self.inner.set_cause_deadlines(cause, read, write)
    }

    fn set_share(&mut self, cause: u32, share: Option<Share>) -> bool {
        self.inner.set_share(cause, share)
    }

    fn set_depth(&mut self, depth: u32, best_effort: u32) -> bool {
        self.inner.set_depth(depth, best_effort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_policy::block::Sfq;

    #[test]
    fn a_large_request_fills_the_device_as_several_small_ones() {
        let ledger = Arc::new(Ledger::default());
        let cost = SeekCost::by_size(Nanos(0), Nanos(1_000));
        let inner = Box::<Sfq>::default();
        let mut watched = Watched::filling(inner, Arc::clone(&ledger), cost, Nanos(8_000));
        let at = Nanos::from_millis;
        for (index, sectors) in [(0_u16, 64), (1, 1)] {
            let request = Request::new(Operation::Write, u64::from(index) * 1_000, sectors);
            let (begin, end) = (at(10 * u64::from(index)), at(10 * u64::from(index) + 10));
            watched.add(begin, index, &request);
            assert_eq!(watched.dispatch(begin), Dispatch::Request(index));
            watched.activated(begin, index);
            watched.completed(end, index, at(10));
        }
        // Eight places for 10 ms, then one.
        assert_eq!(ledger.page(at(20)).filled_ns, 90_000_000);
    }

    #[test]
    fn what_was_had_while_no_other_waited_is_lent_and_slow_requests_are_told_behind_whom() {
        let ledger = Arc::new(Ledger::default());
        let cost = SeekCost::by_size(Nanos(1_000), Nanos(0));
        let mut watched = Watched::new(Box::<Sfq>::default(), Arc::clone(&ledger), cost);
        let at = Nanos::from_millis;
        let request = |cause, sector| Request { cause, ..Request::new(Operation::Read, sector, 8) };
        watched.add(at(0), 0, &request(1, 0));
        watched.add(at(0), 1, &request(2, 1_000));
        let first = watched.dispatch(at(1));
        assert_eq!(first, Dispatch::Request(0));
        watched.activated(at(1), 0);
        assert_eq!(watched.dispatch(at(31)), Dispatch::Request(1));
        watched.activated(at(31), 1);
        for index in [0, 1] {
            watched.completed(at(41), index, at(10));
        }
        let page = ledger.page(at(41));
        let (one, two) = (page.of(1), page.of(2));
        assert_eq!((one.taken, one.lent, two.taken, two.lent), (1, 0, 1, 1));
        assert_eq!((one.waited_ns, two.waited_ns), (1_000_000, 31_000_000));
        assert_eq!((two.bytes, two.waiting, two.inflight, two.ios), (4_096, 0, 0, [1, 0, 0, 0]));
        assert_eq!(page.filled_ns, 50_000_000, "one for 30 ms, two for 10 ms");
        let slow = ledger.slow();
        assert_eq!((slow.len(), slow[0].cause), (1, 2));
        assert_eq!((slow[0].behind, slow[0].others_ns), (Some((1, 0.5)), 1_000));
    }
}
