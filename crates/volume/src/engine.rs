//! The queue between front ends and a store.
//!
//! # The way of a request
//! [`Engine::submit`] checks it, passes it through the layers, and queues it. While the device has
//! room, the block scheduler picks the next request, and the model computes when the device will
//! complete it. Meanwhile the store does the work. The request is answered when both are over.
//!
//! # What holds
//! * A request is answered exactly once.
//! * A flush goes to the device at once, ahead of queued requests. It covers the writes that were
//!   answered before it was submitted, and these are all in the store. Writes in flight may be
//!   covered or not.
//! * A write with `fua` is durable when it is answered, whatever else is unflushed.
//! * A large read or write may go to the device in pieces, one after the other. If one fails, the
//!   others do not follow.
//! * Requests in flight at the same time may be done in any order, even if they overlap. A caller
//!   that needs an order waits for the answer.
//!
//! # Without a queue
//! If there is nothing to decide (no scheduler, no model, no layer) and the store answers within
//! microseconds, [`Engine::submit`] does the work itself and answers before it returns.

mod counters;
mod fence;
mod perform;
mod queue;
mod shared;
mod timer;
mod workers;

pub use counters::{Count, Counts, Lateness};
pub use fence::Fence;

use crate::buffer::Buffer;
use crate::layer::Layer;
use crate::model::Model;
use crate::store::{self, Extent, Store};
use headworks_policy::Nanos;
use headworks_policy::block::{BlockScheduler, Operation, Request, SECTOR_BYTES, Share};
use shared::Shared;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Longest read or write, in bytes. Discards and zeroing may cover 2 TiB less a sector.
pub const TRANSFER_BYTES_MAX: u64 = 32 << 20;

/// Called exactly once with the result: the data read, or the submitter's own buffer back. On a
/// thread of the engine, or within [`Engine::submit`] on the submitter's. It may submit further
/// requests; it must not wait for any.
pub type Completion = Box<dyn FnOnce(io::Result<Buffer>) + Send>;

/// A request from a front end: what schedulers, models and layers see, its data, and its end.
pub struct Submission {
    /// What is asked, by whom.
    pub request: Request,
    /// The data of a write, as long as the request. For a read: the buffer to fill; if it is empty,
    /// the engine makes one.
    pub data: Buffer,
    /// Zeroing may give the space back.
    pub unmap: bool,
    /// What the client tells its applications apart by. Zero if it does not.
    pub tag: u16,
    /// Keeps the request from the store once its connection is over.
    pub fence: Option<Arc<Fence>>,
    /// Gets the result.
    pub done: Completion,
    /// Sectors of it that are done, and the end of those that go next: a read or a write may go in
    /// pieces.
    piece: Range<u32>,
    /// Offset and length are whole sectors, and the length fits.
    whole: bool,
}

impl Submission {
    /// A request without an account, at the middle level. Offset and length are in bytes, and zero
    /// for a flush. The engine refuses what is not whole sectors.
    pub fn new(operation: Operation, offset: u64, len: u64, done: Completion) -> Self {
        let sectors = u32::try_from(len / SECTOR_BYTES);
        let whole = sectors.is_ok() && (offset | len).is_multiple_of(SECTOR_BYTES);
        let request = Request::new(operation, offset / SECTOR_BYTES, sectors.unwrap_or(0));
        Submission { whole, ..Submission::of(request, done) }
    }

    /// This request, with no data yet.
    pub fn of(request: Request, done: Completion) -> Self {
        Submission {
            request,
            data: Buffer::default(),
            unmap: false,
            tag: 0,
            fence: None,
            done,
            piece: 0..request.sectors,
            whole: true,
        }
    }

    /// A write of all of `data`.
    pub fn write(offset: u64, data: Buffer, done: Completion) -> Self {
        let len = data.len() as u64;
        Submission { data, ..Submission::new(Operation::Write, offset, len, done) }
    }

    /// First byte.
    pub fn offset_bytes(&self) -> u64 {
        self.request.sector * SECTOR_BYTES
    }

    /// Bytes.
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.request.sectors) * SECTOR_BYTES
    }

    /// Of the piece that goes next: its first byte, and which bytes of the data it has.
    fn piece_bytes(&self) -> (u64, Range<usize>) {
        // Data is limited by TRANSFER_BYTES_MAX, far below the size of memory.
        let byte = |sector: u32| (u64::from(sector) * SECTOR_BYTES) as usize;
        let piece = byte(self.piece.start)..byte(self.piece.end);
        (self.offset_bytes() + piece.start as u64, piece)
    }
}

/// Tells whose requests are, where a front end cannot: those of a file system come by threads of
/// the kernel. Called with the queue locked, so each call takes microseconds at most.
pub trait Causes: Send {
    /// A request enters the queue: fills in its cause, level and criticality (`sync`), if known.
    /// Returns the tag that a storage server knows its application by; zero if it has none.
    fn complete(&mut self, now: Nanos, request: &mut Request) -> u16;

    /// Whether causes may have become critical since the last call.
    fn have_changed(&mut self, now: Nanos) -> bool;

    /// Whether a client waits for requests of this cause.
    fn is_critical(&self, cause: u32) -> bool;
}

/// The parts of an engine.
pub struct EngineConfig {
    /// Where the bytes lie.
    pub store: Arc<dyn Store>,
    /// The model of the device's time; without one, the store's own time counts.
    pub model: Option<Box<dyn Model>>,
    /// The scheduler; without one, requests run in order of arrival.
    pub scheduler: Option<Box<dyn BlockScheduler>>,
    /// Layers, the first one nearest to the front end.
    pub layers: Vec<Box<dyn Layer>>,
}

impl EngineConfig {
    /// The store alone.
    pub fn raw(store: Arc<dyn Store>) -> EngineConfig {
        EngineConfig { store, model: None, scheduler: None, layers: Vec::new() }
    }
}

/// A queue, its device and its store. Dropping it waits for the requests in it.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    incarnation: String,
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// If its threads cannot be started.
    pub fn start(config: EngineConfig) -> io::Result<Engine> {
        let shared = Arc::new(Shared::new(config));
        let mut threads = Vec::new();
        if !shared.is_direct() {
            threads.push(timer::spawn(&shared)?);
        }
        if !shared.is_inline() {
            threads.extend(workers::spawn(&shared)?);
        }
        Ok(Engine { shared, threads: Mutex::new(threads), incarnation: store::unique() })
    }

    /// Size of the volume in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.shared.store.size_bytes()
    }

    /// Differs from that of each other engine: it has all that it answered.
    pub(crate) fn incarnation(&self) -> &str {
        &self.incarnation
    }

    /// Whose bytes are under it; see [`Store::identity`].
    pub(crate) fn identity(&self) -> Option<String> {
        self.shared.store.identity()
    }

    /// Takes a request. A malformed one is answered with EINVAL.
    pub fn submit(&self, submission: Submission) {
        Shared::submit(&self.shared, submission);
    }

    /// Submits the request that `make` returns, and waits for the answer. Not from a completion.
    pub fn call(&self, make: impl FnOnce(Completion) -> Submission) -> io::Result<Buffer> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(make(Box::new(move |result| {
            let _ = sender.send(result);
        })));
        receiver.recv().unwrap_or_else(|_| Err(io::Error::from_raw_os_error(libc::EIO)))
    }

    /// Reads without a queue and without a buffer of ours. `None` if this engine has decisions to
    /// make: then submit.
    pub fn read_now(&self, offset: u64, into: &mut [u8]) -> Option<io::Result<()>> {
        self.shared.read_now(offset, into)
    }

    /// Writes without a queue and without a copy. `None` if this engine has decisions to make.
    pub fn write_now(&self, offset: u64, from: &[u8], fua: bool) -> Option<io::Result<()>> {
        self.shared.write_now(offset, from, fua)
    }

    /// Reads without queue, layers and counters, for a front end that measures its own latency.
    pub(crate) fn read_past_queue(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.shared.store.read(offset, into)
    }

    /// Answers come this much before the model's time. The front end's own latency is part of what
    /// a user measures, so the sum is the model's time. Where the model is faster than the front
    /// end, the front end's latency remains.
    pub fn set_lead(&self, lead: Nanos) {
        self.shared.set_lead(lead);
    }

    /// From now on requests that enter the queue are completed by `causes`. Returns whether there
    /// is a queue.
    pub fn set_causes(&self, causes: Box<dyn Causes>) -> bool {
        self.shared.set_causes(causes)
    }

    /// The application `cause` has this share from now on; see [`BlockScheduler::set_share`]. False
    /// without a queue.
    pub fn set_share(&self, cause: u32, share: Option<Share>) -> bool {
        Shared::adjust(&self.shared, &mut |scheduler| scheduler.set_share(cause, share))
    }

    /// The device has at most this many requests from now on, and as many of best effort; see
    /// [`BlockScheduler::set_depth`]. False without a queue.
    pub fn set_depth(&self, depth: u32, best_effort: u32) -> bool {
        Shared::adjust(&self.shared, &mut |scheduler| scheduler.set_depth(depth, best_effort))
    }

    /// Best effort has at most so many millionths of the device's time; see
    /// [`BlockScheduler::set_pace`]. False without a queue.
    pub fn set_pace(&self, millionths: Option<u32>) -> bool {
        Shared::adjust(&self.shared, &mut |scheduler| scheduler.set_pace(millionths))
    }

    /// The allocated parts of a range; see [`Store::extents`]. Not ordered against requests in
    /// flight.
    pub fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        self.shared.store.extents(offset, len)
    }

    /// Waits until every submitted request is answered and no new one has come meanwhile.
    pub fn drain(&self) {
        self.shared.drain();
    }

    /// Counts of all requests so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Counts and lateness go back to zero: what came so far was no user's.
    pub fn forget_counts(&self) {
        self.shared.forget_counts();
    }

    /// Name and figures of each layer.
    pub fn figures(&self) -> Vec<(&'static str, Vec<(String, f64)>)> {
        self.shared.figures()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let threads =
            std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        let own = std::thread::current().id();
        // The last owner may have been a completion, which must not wait for its own thread.
        let outside = threads.iter().all(|thread| thread.thread().id() != own);
        if outside {
            self.shared.drain();
        }
        self.shared.stop();
        for thread in threads {
            if outside {
                // It panics only if a completion did, which was reported then.
                let _ = thread.join();
            }
        }
    }
}
