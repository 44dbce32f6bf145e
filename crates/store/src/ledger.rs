//! What each application had of the device, and what it waited for: counted where the scheduler is
//! called, so that every request is in it once.
//!
//! [`Watched`] is a scheduler that passes everything on to another one and writes into a
//! [`Ledger`]. Figures only grow; those of a window are differences.

use headworks_policy::Nanos;
use headworks_policy::block::cost::{Prices, SeekCost};
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request, SECTOR_BYTES, Share,
};
use headworks_policy::learn::device::{self, KINDS, Served};
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

/// What the device did since the start: see `policy::learn::device`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Reads, writes, flushes.
    pub kinds: [Served; KINDS],
    /// Virtual time: ∫ dt/n, in nanoseconds.
    virtual_ns: f64,
    /// Time in which requests waited for it, in nanoseconds.
    pub waited_ns: u64,
    /// Requests with it × time, in nanoseconds.
    pub filled_ns: u64,
}

impl Work {
    /// What it did since `before`, in so many seconds, of a device with this depth.
    pub fn window(&self, before: &Work, seconds: f64, depth: u32) -> device::Window {
        let part = |ns: u64| (ns as f64 / 1e9 / seconds).min(1.0);
        device::Window {
            kinds: std::array::from_fn(|at| self.kinds[at].since(&before.kinds[at])),
            seconds,
            waited: part(self.waited_ns - before.waited_ns),
            filled: part((self.filled_ns - before.filled_ns) / u64::from(depth.max(1))),
        }
    }
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
    device: Work,
    changed: Nanos,
    /// What requests are charged from now on.
    prices: Option<Prices>,
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
        let passed = now.since(self.changed).0;
        self.changed = now;
        if self.inflight > 0 {
            self.device.virtual_ns += passed as f64 / f64::from(self.inflight);
            self.device.filled_ns += passed * u64::from(self.inflight);
            self.device.waited_ns += if self.flows > 0 { passed } else { 0 };
        }
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
    /// What the device did.
    pub device: Work,
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
        Page { tallies: books.tallies.clone(), device: books.device, at: now }
    }

    /// Requests are charged these prices from now on, by schedulers that charge any.
    pub fn set_prices(&self, prices: Prices) {
        self.lock().prices = Some(prices);
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
    /// The device's virtual time at which it went there.
    virtual_ns: f64,
}

/// See the module.
pub struct Watched {
    inner: Box<dyn BlockScheduler>,
    ledger: Arc<Ledger>,
    notes: Vec<Option<Note>>,
    cost: SeekCost,
    /// Those that are charged.
    prices: Option<Prices>,
}

impl Watched {
    /// Around `inner`; requests count as `cost` says.
    pub fn new(inner: Box<dyn BlockScheduler>, ledger: Arc<Ledger>, cost: SeekCost) -> Watched {
        Watched { inner, ledger, notes: vec![None; REQUESTS], cost, prices: None }
    }

    /// Charges what was learned in the last window.
    fn heed(&mut self, prices: Option<Prices>) {
        if prices == self.prices {
            return;
        }
        self.prices = prices;
        if let Some(prices) = &prices
            && self.inner.set_prices(prices)
        {
            self.cost.set_prices(prices);
        }
    }

    fn cost_ns(&self, request: &Request) -> u64 {
        if let (Operation::Flush, Some(prices)) = (request.operation, self.prices) {
            return prices.flush.0.max(1);
        }
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
        books.pass(now);
        let (all_ns, prices) = (books.cost_ns, books.prices);
        let tally = books.of(request.cause);
        tally.came += 1;
        match added {
            Added::Queued => {
                tally.waiting += 1;
                let first = tally.waiting == 1;
                books.flows += u32::from(first);
                let note = Note { request: *request, added: now, cost_ns, all_ns, virtual_ns: 0.0 };
                self.notes[usize::from(index)] = Some(note);
            }
            Added::MergedBack(into) | Added::MergedFront(into) => {
                if let Some(note) = &mut self.notes[usize::from(into)] {
                    note.request.sectors += request.sectors;
                    note.cost_ns = self.cost.of(&note.request).0.max(1);
                }
            }
        }
        drop(books);
        self.heed(prices);
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
        if let Some(note) = &mut self.notes[usize::from(index)] {
            note.virtual_ns = books.device.virtual_ns;
        }
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
        let kind = match note.request.operation {
            Operation::Read => Some(0),
            Operation::Write => Some(1),
            Operation::Flush => Some(2),
            Operation::Discard | Operation::WriteZeroes => None,
        };
        if let Some(kind) = kind {
            let price_ns = books.device.virtual_ns - note.virtual_ns;
            books.device.kinds[kind].add(note.request.sectors.into(), price_ns);
        }
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

    fn set_pace(&mut self, millionths: Option<u32>) -> bool {
        self.inner.set_pace(millionths)
    }

    fn set_depth(&mut self, depth: u32, best_effort: u32) -> bool {
        self.inner.set_depth(depth, best_effort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_policy::block::{Sfq, sfq};

    #[test]
    fn the_time_of_a_device_is_that_of_its_requests_in_equal_parts() {
        let ledger = Arc::new(Ledger::default());
        let inner = Box::new(Sfq::new(sfq::Settings::flash()));
        let mut watched = Watched::new(inner, Arc::clone(&ledger), SeekCost::default());
        let at = Nanos::from_millis;
        let of = |kind, sector| Request::new(kind, sector, 32);
        watched.add(at(0), 0, &of(Operation::Read, 0));
        watched.add(at(0), 1, &of(Operation::Write, 1_000));
        for (index, when) in [(0, 0), (1, 4)] {
            assert_eq!(watched.dispatch(at(when)), Dispatch::Request(index));
            watched.activated(at(when), index);
        }
        watched.completed(at(10), 0, at(10));
        watched.completed(at(12), 1, at(8));
        // Alone for 4 ms, two for 6 ms, alone for 2 ms; one waited for 4 ms.
        let seen = ledger.page(at(20)).device.window(&Work::default(), 0.02, 2);
        let price = |kind: usize| seen.kinds[kind].price_ns / 1e6;
        assert_eq!((price(0), price(1)), (7.0, 5.0));
        assert!((seen.waited - 0.2).abs() < 1e-9 && (seen.filled - 0.45).abs() < 1e-9, "{seen:?}");
        // What was learned is charged from the next request on.
        let nanos = |request| (Nanos(request), Nanos(0));
        ledger.set_prices(Prices { read: nanos(5_000), write: nanos(70_000), flush: Nanos(9) });
        watched.add(at(30), 0, &of(Operation::Read, 0));
        watched.add(at(30), 1, &of(Operation::Write, 1_000));
        assert_eq!(watched.cost_ns(&of(Operation::Write, 0)), 70_000);
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
        assert_eq!(page.device.filled_ns, 50_000_000, "one for 30 ms, two for 10 ms");
        let slow = ledger.slow();
        assert_eq!((slow.len(), slow[0].cause), (1, 2));
        assert_eq!((slow[0].behind, slow[0].others_ns), (Some((1, 0.5)), 1_000));
    }
}
