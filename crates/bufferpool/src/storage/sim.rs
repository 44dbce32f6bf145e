//! Any storage behind a modelled device.
//!
//! The model ([`Timing`]) takes as many commands at a time as its queue is deep. When one ends, the
//! next comes from the host's queues at that same instant. So the model's clock has no jitter; only
//! the waking of callers has.
//!
//! [`DeviceModel`] is the simplest: *units* that work in parallel, a read takes `read_ns`, a write
//! `write_ns`. At saturation it does `units / read_ns` reads or `units / write_ns` writes a second,
//! or a mix of r reads and w writes for which r·read_ns + w·write_ns = units.
//!
//! The order of service follows from the times of arrival alone.

use super::{
    Command, CommandKind, DeviceModel, HostQueue, IoTag, PageRead, PageWrite, Storage, Timing,
};
use crate::error::StorageError;
use crate::ids::PageId;
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Statistics of a simulated device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SimStats {
    /// Page reads.
    pub reads: u64,
    /// Page writes, without runs.
    pub writes: u64,
    /// Runs of consecutive pages.
    pub runs: u64,
    /// Flushes carried out; several callers may share one.
    pub syncs: u64,
    /// Total time that commands were at the device.
    pub busy_ns: u64,
}

/// A caller that waits for one or more requests.
#[derive(Default)]
struct Waiter {
    finished: Mutex<Vec<usize>>,
    changed: Condvar,
}

impl Waiter {
    fn finish(&self, index: usize) {
        self.finished.lock().push(index);
        self.changed.notify_one();
    }

    fn wait(&self) -> Vec<usize> {
        let mut finished = self.finished.lock();
        while finished.is_empty() {
            self.changed.wait(&mut finished);
        }
        std::mem::take(&mut finished)
    }
}

struct Request {
    command: Command,
    waiter: Arc<Waiter>,
    index: usize,
}

/// A command in progress, ordered by its end.
struct Running {
    done_ns: u64,
    seq: u64,
    waiter: Arc<Waiter>,
    index: usize,
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        (self.done_ns, self.seq) == (other.done_ns, other.seq)
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.done_ns, self.seq).cmp(&(other.done_ns, other.seq))
    }
}

struct State {
    timing: Box<dyn Timing>,
    host: HostQueue,
    reads: VecDeque<Request>,
    writes: VecDeque<Request>,
    running: BinaryHeap<Reverse<Running>>,
    seq: u64,
    /// Reads or writes given in the current turn.
    reads_given: u32,
    writes_given: u32,
    /// Callers that wait for a flush that has not begun.
    syncs: Vec<Arc<Waiter>>,
    /// When the current flush ends, and its callers.
    flushing: Option<(u64, Vec<Arc<Waiter>>)>,
    stats: SimStats,
    stop: bool,
}

impl State {
    fn new(timing: Box<dyn Timing>, host: HostQueue) -> Self {
        Self {
            timing,
            host,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            running: BinaryHeap::new(),
            seq: 0,
            reads_given: 0,
            writes_given: 0,
            syncs: Vec::new(),
            flushing: None,
            stats: SimStats::default(),
            stop: false,
        }
    }

    /// Whether commands may begin.
    fn open(&self) -> bool {
        !self.timing.sync_drains() || (self.syncs.is_empty() && self.flushing.is_none())
    }

    /// Starts commands while the device has room; they begin at `at_ns`.
    fn dispatch(&mut self, at_ns: u64) {
        while self.running.len() < self.timing.depth().max(1) as usize && self.open() {
            let Some(request) = self.next() else { return };
            let done_ns = self.timing.start(at_ns, &request.command).max(at_ns);
            self.seq += 1;
            self.stats.busy_ns += done_ns - at_ns;
            self.running.push(Reverse(Running {
                done_ns,
                seq: self.seq,
                waiter: request.waiter,
                index: request.index,
            }));
        }
    }

    fn next(&mut self) -> Option<Request> {
        let writes_due = self.reads_given >= self.host.reads_per_turn || self.reads.is_empty();
        if writes_due && let Some(write) = self.writes.pop_front() {
            self.writes_given += 1;
            if self.writes_given >= self.host.writes_per_turn {
                (self.reads_given, self.writes_given) = (0, 0);
            }
            return Some(write);
        }
        let read = self.reads.pop_front()?;
        if !self.writes.is_empty() {
            self.reads_given += 1;
        }
        Some(read)
    }

    /// Completes all commands that end by `now_ns`, in the order of their ends.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let command = self.running.peek().map(|r| r.0.done_ns);
            let flush = self.flushing.as_ref().map(|f| f.0);
            let at = match (command, flush) {
                (None, None) => break,
                (Some(a), None) | (None, Some(a)) => a,
                (Some(a), Some(b)) => a.min(b),
            };
            if at > now_ns {
                return;
            }
            if command == Some(at) {
                if let Some(Reverse(done)) = self.running.pop() {
                    done.waiter.finish(done.index);
                }
            } else if let Some((_, waiters)) = self.flushing.take() {
                for waiter in waiters {
                    waiter.finish(0);
                }
            }
            self.begin_flush(at);
            self.dispatch(at);
        }
    }

    fn begin_flush(&mut self, at_ns: u64) {
        let drained = !self.timing.sync_drains() || self.running.is_empty();
        if drained && self.flushing.is_none() && !self.syncs.is_empty() {
            self.stats.syncs += 1;
            let flush =
                Command { kind: CommandKind::Flush, page: PageId(0), pages: 0, page_size: 0 };
            let done_ns = self.timing.start(at_ns, &flush).max(at_ns);
            self.flushing = Some((done_ns, std::mem::take(&mut self.syncs)));
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let command = self.running.peek().map(|r| r.0.done_ns);
        let flush = self.flushing.as_ref().map(|f| f.0);
        command.into_iter().chain(flush).min()
    }
}

struct Device {
    epoch: Instant,
    state: Mutex<State>,
    wake: Condvar,
}

impl Device {
    fn now_ns(&self) -> u64 {
        // 584 years.
        self.epoch.elapsed().as_nanos() as u64
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            state.advance(self.now_ns());
            match state.next_event_ns() {
                None => self.wake.wait(&mut state),
                Some(at) => {
                    let until = self.epoch + Duration::from_nanos(at);
                    self.wake.wait_until(&mut state, until);
                }
            }
        }
    }

    /// Puts requests in the host's queue.
    fn submit(&self, add: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let now = self.now_ns();
        state.advance(now);
        let before = state.next_event_ns();
        add(&mut state);
        state.begin_flush(now);
        state.dispatch(now);
        // The device's thread sleeps until the next known event.
        if before.is_none() || state.next_event_ns() < before {
            self.wake.notify_one();
        }
    }
}

/// Any storage behind a modelled device.
pub struct SimDevice {
    inner: Arc<dyn Storage>,
    page_size: u32,
    device: Arc<Device>,
    idle: AtomicBool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SimDevice {
    /// Puts `inner`, which should take no time itself, behind a device of this model.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, model: DeviceModel) -> Self {
        Self::with_timing(inner, Box::new(model), model.host)
    }

    /// As [`SimDevice::new`], for any model.
    ///
    /// # Panics
    /// If no thread can be started, or a page is larger than 4 GiB.
    #[must_use]
    pub fn with_timing(inner: Arc<dyn Storage>, timing: Box<dyn Timing>, host: HostQueue) -> Self {
        let page_size = u32::try_from(inner.page_size()).expect("a page is smaller than 4 GiB");
        let device = Arc::new(Device {
            epoch: Instant::now(),
            state: Mutex::new(State::new(timing, host)),
            wake: Condvar::new(),
        });
        let runner = Arc::clone(&device);
        let thread = std::thread::Builder::new()
            .name("sim-device".into())
            .spawn(move || runner.run())
            .expect("the system gives a thread to the simulated device");
        Self { inner, page_size, device, idle: AtomicBool::new(false), thread: Some(thread) }
    }

    /// While `free`, requests take no time and the device ignores them: to fill a pool before a
    /// measurement.
    pub fn set_free(&self, free: bool) {
        self.idle.store(free, Ordering::Release);
    }

    fn is_free(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> SimStats {
        self.device.state.lock().stats
    }

    fn command(&self, kind: CommandKind, page: PageId, pages: u32) -> Command {
        Command { kind, page, pages, page_size: self.page_size }
    }

    fn one(&self, command: Command) {
        if self.is_free() {
            return;
        }
        let waiter = Arc::new(Waiter::default());
        let request = Request { command, waiter: Arc::clone(&waiter), index: 0 };
        self.device.submit(|state| match (command.kind, command.pages) {
            (CommandKind::Read, _) => {
                state.stats.reads += 1;
                state.reads.push_back(request);
            }
            (_, pages) => {
                state.stats.writes += u64::from(pages == 1);
                state.stats.runs += u64::from(pages > 1);
                state.writes.push_back(request);
            }
        });
        waiter.wait();
    }
}

impl SimDevice {
    /// Requests of one page each that enter the host's queue together; `done` is called as each
    /// ends.
    fn many(
        &self,
        kind: CommandKind,
        pages: impl ExactSizeIterator<Item = PageId>,
        done: &mut dyn FnMut(usize),
    ) {
        let waiter = Arc::new(Waiter::default());
        let mut left = pages.len();
        self.device.submit(|state| {
            let (queue, count) = match kind {
                CommandKind::Read => (&mut state.reads, &mut state.stats.reads),
                _ => (&mut state.writes, &mut state.stats.writes),
            };
            *count += left as u64;
            queue.extend(pages.enumerate().map(|(index, page)| Request {
                command: self.command(kind, page, 1),
                waiter: Arc::clone(&waiter),
                index,
            }));
        });
        while left > 0 {
            for at in waiter.wait() {
                left -= 1;
                done(at);
            }
        }
    }
}

impl Drop for SimDevice {
    fn drop(&mut self) {
        self.device.state.lock().stop = true;
        self.device.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the device's thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Storage for SimDevice {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.one(self.command(CommandKind::Read, page, 1));
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.one(self.command(CommandKind::Write, page, 1));
        self.inner.write(page, bytes, tag)
    }

    fn write_run(&self, first: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        // A run is far below 2^32 pages.
        let pages = (bytes.len() / self.page_size()) as u32;
        self.one(self.command(CommandKind::Write, first, pages));
        self.inner.write_run(first, bytes, tag)
    }

    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        if self.is_free() {
            return self.inner.read_batch(reads, done);
        }
        let pages: Vec<_> = reads.iter().map(|read| read.page).collect();
        self.many(CommandKind::Read, pages.into_iter(), &mut |at| {
            let read = &mut reads[at];
            done(at, self.inner.read(read.page, read.bytes, read.tag));
        });
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        if self.is_free() {
            return self.inner.write_batch(writes, done);
        }
        self.many(CommandKind::Write, writes.iter().map(|write| write.page), &mut |at| {
            let write = &writes[at];
            done(at, self.inner.write(write.page, write.bytes, write.tag));
        });
    }

    fn sync(&self) -> Result<(), StorageError> {
        if self.is_free() {
            return self.inner.sync();
        }
        let waiter = Arc::new(Waiter::default());
        self.device.submit(|state| state.syncs.push(Arc::clone(&waiter)));
        waiter.wait();
        self.inner.sync()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
