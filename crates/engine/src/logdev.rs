//! Where the log is kept.

use headworks_bufferpool::storage::{IoKind, IoQueue, IoRequest, IoTag};
use headworks_bufferpool::{PageId, attribution};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device for the log: a growing file and one small cell that is written atomically.
pub trait LogDevice: Send + Sync {
    /// Adds bytes at the end. They are durable after a [`LogDevice::sync`].
    ///
    /// # Errors
    /// The device's.
    fn append(&self, bytes: &[u8]) -> std::io::Result<()>;

    /// Makes appended bytes durable.
    ///
    /// # Errors
    /// The device's.
    fn sync(&self) -> std::io::Result<()>;

    /// All bytes from `offset` on.
    ///
    /// # Errors
    /// The device's.
    fn read_from(&self, offset: u64) -> std::io::Result<Vec<u8>>;

    /// Cuts the log off at `offset`: the bytes after it are not records.
    ///
    /// # Errors
    /// The device's.
    fn truncate(&self, offset: u64) -> std::io::Result<()>;

    /// Notes durably where recovery begins; the log before it is no longer needed.
    ///
    /// # Errors
    /// The device's.
    fn set_start(&self, offset: u64) -> std::io::Result<()>;

    /// Where recovery begins; 0 at first.
    ///
    /// # Errors
    /// The device's.
    fn start(&self) -> std::io::Result<u64>;

    /// Replaces bytes by others, durably: a repair's.
    ///
    /// # Errors
    /// The device's.
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let _ = (offset, bytes);
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// The location of an offset, for error messages.
    fn place(&self, offset: u64) -> String {
        format!("offset {offset}")
    }

    /// The offset up to which everything is known to have been durable; 0 if unknown. Broken
    /// records before it are damage, and not the end of the log.
    ///
    /// # Errors
    /// The device's.
    fn sealed(&self) -> std::io::Result<u64> {
        Ok(0)
    }
}

/// A unit that a device writes completely or not at all.
const SECTOR: u64 = 512;

#[derive(Default)]
struct State {
    /// The offset of `bytes[0]`.
    base: u64,
    bytes: Vec<u8>,
    durable: u64,
    start: u64,
    dead: bool,
    syncs: u64,
}

/// A log in memory whose syncs take a given time, and whose power can be cut.
#[derive(Default)]
pub struct MemLog {
    sync_time: Duration,
    state: Mutex<State>,
}

impl MemLog {
    /// Syncs take `sync_time` (a real device's is some tens of µs to ms).
    #[must_use]
    pub fn new(sync_time: Duration) -> Self {
        Self { sync_time, state: Mutex::default() }
    }

    /// An empty log whose positions begin at `offset`: for a flushed database whose pages have LSNs
    /// of an earlier log.
    #[must_use]
    pub fn starting_at(sync_time: Duration, offset: u64) -> Self {
        let state = State { base: offset, durable: offset, start: offset, ..State::default() };
        Self { sync_time, state: Mutex::new(state) }
    }

    /// Cuts the power. A part of the unsynced bytes stays, as `seed` decides; its end is damaged,
    /// or a sector of it is missing. Every operation fails until [`MemLog::restore`].
    pub fn cut(&self, seed: u64) {
        let mut state = self.state.lock();
        state.dead = true;
        let unsynced = state.base + state.bytes.len() as u64 - state.durable;
        let kept = seed % (unsynced + 1);
        // At most the bytes in memory.
        let len = (state.durable + kept - state.base) as usize;
        state.bytes.truncate(len);
        if kept > 0 && seed.is_multiple_of(3) {
            let last = (seed % kept.min(64)) as usize;
            state.bytes[len - 1 - last..].iter_mut().for_each(|byte| *byte ^= 0x55);
        } else if kept > 2 * SECTOR && seed % 3 == 1 {
            let first = (state.durable - state.base).next_multiple_of(SECTOR);
            let from = (first + seed / 3 % (kept / SECTOR - 1) * SECTOR) as usize;
            state.bytes[from..from + SECTOR as usize].fill(0);
        }
        state.durable = state.base + len as u64;
    }

    /// Switches the power on again.
    pub fn restore(&self) {
        self.state.lock().dead = false;
    }

    /// Syncs so far, and bytes appended so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.syncs, state.base + state.bytes.len() as u64)
    }

    fn alive(state: &State) -> std::io::Result<()> {
        if state.dead { Err(std::io::Error::other("the power is cut")) } else { Ok(()) }
    }
}

impl LogDevice for MemLog {
    fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock();
        Self::alive(&state)?;
        state.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> std::io::Result<()> {
        let end = {
            let state = self.state.lock();
            state.base + state.bytes.len() as u64
        };
        let until = Instant::now() + self.sync_time;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            std::thread::sleep(left);
        }
        let mut state = self.state.lock();
        Self::alive(&state)?;
        state.durable = state.durable.max(end);
        state.syncs += 1;
        Ok(())
    }

    fn read_from(&self, offset: u64) -> std::io::Result<Vec<u8>> {
        let state = self.state.lock();
        Self::alive(&state)?;
        let from = offset.saturating_sub(state.base) as usize;
        Ok(state.bytes.get(from..).unwrap_or_default().to_vec())
    }

    fn truncate(&self, offset: u64) -> std::io::Result<()> {
        let mut state = self.state.lock();
        Self::alive(&state)?;
        let len = offset.saturating_sub(state.base) as usize;
        state.bytes.truncate(len);
        state.durable = state.durable.min(offset);
        Ok(())
    }

    fn set_start(&self, offset: u64) -> std::io::Result<()> {
        let mut state = self.state.lock();
        Self::alive(&state)?;
        state.start = offset;
        let gone = (offset.saturating_sub(state.base) as usize).min(state.bytes.len());
        state.bytes.drain(..gone);
        state.base += gone as u64;
        Ok(())
    }

    fn start(&self) -> std::io::Result<u64> {
        Ok(self.state.lock().start)
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock();
        Self::alive(&state)?;
        let from = offset.checked_sub(state.base).map(|from| from as usize);
        let there = from.and_then(|from| state.bytes.get_mut(from..from + bytes.len()));
        there.ok_or(std::io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// A log whose syncs, which carry the appended bytes to the device, wait for their turn in a queue.
/// The pages' requests may share it. They are of kind [`IoKind::Log`], with the cause of the thread
/// that commits for all.
pub struct QueuedLog {
    inner: Arc<dyn LogDevice>,
    queue: Arc<IoQueue>,
}

impl QueuedLog {
    /// Puts `inner` behind `queue`.
    #[must_use]
    pub fn new(inner: Arc<dyn LogDevice>, queue: Arc<IoQueue>) -> Self {
        Self { inner, queue }
    }
}

impl LogDevice for QueuedLog {
    fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.inner.append(bytes)
    }

    fn sync(&self) -> std::io::Result<()> {
        let tag = IoTag { kind: IoKind::Log, cause: attribution::current() };
        let request = IoRequest { write: true, first: PageId(0), pages: 0, tag };
        let _turn = self.queue.enter(request);
        self.inner.sync()
    }

    fn read_from(&self, offset: u64) -> std::io::Result<Vec<u8>> {
        self.inner.read_from(offset)
    }

    fn truncate(&self, offset: u64) -> std::io::Result<()> {
        self.inner.truncate(offset)
    }

    fn set_start(&self, offset: u64) -> std::io::Result<()> {
        self.inner.set_start(offset)
    }

    fn start(&self) -> std::io::Result<u64> {
        self.inner.start()
    }

    fn sealed(&self) -> std::io::Result<u64> {
        self.inner.sealed()
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.inner.overwrite(offset, bytes)
    }

    fn place(&self, offset: u64) -> String {
        self.inner.place(offset)
    }
}
