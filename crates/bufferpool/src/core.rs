//! The parts of a pool, and the path of a page in and out.

use crate::attribution::{self, CauseSource};
use crate::config::PoolConfig;
use crate::doublewrite::Doublewrite;
use crate::error::{PoolError, StorageError};
use crate::frames::{DIRTY, Frames, LOADING, Since};
use crate::ids::{FrameId, Lsn, PageId, mix};
pub(crate) use crate::instance::Instance;
use crate::lru::Order;
use crate::memory::{self, ExclusiveBytes, PageMemory};
use crate::page::{HeadworksFormat, PageFormat};
use crate::stats::{Hits, bump};
use crate::storage::{IoKind, IoTag, Storage, check_range};
use crate::strategy::{self, Strategy};
use crate::sync_state::SyncState;
use crate::table::PageTable;
use crate::wal::Wal;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest search of a miss for a clean page after a sync has failed for good.
const NO_CLEAN_FRAME_TIMEOUT: Duration = Duration::from_millis(100);

/// What to do for a page that is not in the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Read it; it is an error if it was never written.
    Existing,
    /// Read it; all zeroes if it was never written.
    OrZero,
    /// Do not read: the caller fills it.
    Fresh,
}

/// Parts that an engine may bring.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) format: Option<Arc<dyn PageFormat>>,
    pub(crate) bad_page: Option<Arc<dyn BadPage>>,
    pub(crate) strategy: Option<Box<strategy::own::Make>>,
}

/// Repairs pages that storage returned damaged, for an engine that has their contents elsewhere: in
/// its log, on a mirror, in a backup.
pub trait BadPage: Send + Sync {
    /// `error` says what is wrong with the bytes of `page`. If they can be repaired, writes the
    /// whole page with its LSN to `bytes` and returns a position of the log at or before its
    /// first change that storage lacks; the pool then writes the page. Otherwise the error goes to
    /// the caller.
    ///
    /// It is called while the page is locked, so it must not ask the pool for the same page.
    fn mend(&self, page: PageId, bytes: &mut [u8], error: &PoolError) -> Option<Lsn>;
}

/// A pool without its threads.
pub(crate) struct Core {
    pub(crate) config: PoolConfig,
    pub(crate) memory: PageMemory,
    pub(crate) frames: Arc<Frames>,
    pub(crate) table: PageTable,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) wal: Arc<dyn Wal>,
    pub(crate) doublewrite: Option<Arc<Doublewrite>>,
    causes: Option<Arc<dyn CauseSource>>,
    pub(crate) instances: Box<[Instance]>,
    pub(crate) strategies: Box<[Box<dyn Strategy>]>,
    pub(crate) frames_per_instance: u32,
    /// Flushes of the whole pool that have begun.
    pub(crate) era: AtomicU64,
    /// Without a doublewrite area, which has its own.
    pub(crate) syncs: SyncState,
    pub(crate) stop: AtomicBool,
    /// Held by the thread that changes the number of frames.
    pub(crate) resizing: Mutex<()>,
    pub(crate) hits: Mutex<Hits>,
    pub(crate) format: Arc<dyn PageFormat>,
    bad_page: Option<Arc<dyn BadPage>>,
}

impl Core {
    pub(crate) fn new(
        config: PoolConfig,
        storage: Arc<dyn Storage>,
        wal: Arc<dyn Wal>,
        doublewrite: Option<Arc<Doublewrite>>,
        causes: Option<Arc<dyn CauseSource>>,
        hooks: Hooks,
    ) -> Result<Self, PoolError> {
        config.check(storage.page_size())?;
        if let Some(area) = &doublewrite
            && area.page_size() != config.page_size
        {
            let reason = format!("{} in the doublewrite area", area.page_size());
            return Err(PoolError::Config { setting: "page_size", reason });
        }
        let each = config.frames / config.instances;
        let count = each * config.instances;
        let pages = config.by_number.then(|| storage.pages());
        let entries = pages.unwrap_or(0).saturating_mul(PageTable::ENTRY_BYTES);
        memory::check_fits(config.memory_bytes().saturating_add(entries))?;
        let memory = PageMemory::new(count, config.page_size)?;
        let frames = Frames::new(count);
        // `check` keeps the number of frames below 2^31.
        let each = each as u32;
        let order = match (config.frequency, config.midpoint) {
            (true, _) => Order::Frequency { pages: each as usize },
            (false, true) => Order::Midpoint,
            (false, false) => Order::Recency,
        };
        let instances = (0..config.instances as u32)
            .map(|at| Instance::new(at * each, each, &frames, order))
            .collect();
        let own = hooks.strategy.as_deref();
        let strategies = (0..config.instances)
            .map(|_| strategy::new(&config, count as u32, each, own))
            .collect();
        Ok(Self {
            memory,
            table: PageTable::new(Arc::clone(&frames), count, pages),
            frames,
            storage,
            wal,
            doublewrite,
            causes,
            instances,
            strategies,
            frames_per_instance: each,
            config,
            era: AtomicU64::new(0),
            syncs: SyncState::default(),
            stop: AtomicBool::new(false),
            resizing: Mutex::default(),
            hits: Mutex::new(Hits::new(count)),
            format: hooks.format.unwrap_or_else(|| Arc::new(HeadworksFormat)),
            bad_page: hooks.bad_page,
        })
    }

    /// Makes earlier writes durable, for a checkpoint. After a failed sync this fails for good: no
    /// later sync restores the lost writes, and their frames may hold other pages by now.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        match &self.doublewrite {
            Some(area) => area.sync_all(&*self.storage),
            None => self.syncs.of_checkpoint(&*self.storage),
        }
    }

    pub(crate) fn index_of_page(&self, page: PageId) -> usize {
        match self.instances.len() {
            1 => 0,
            // The upper half: the lower bits choose the bucket. Less than the number of instances.
            many => ((mix(page) >> 32) as usize * many) >> 32,
        }
    }

    pub(crate) fn instance_of_frame(&self, frame: FrameId) -> &Instance {
        &self.instances[(frame / self.frames_per_instance) as usize]
    }

    /// Pins a page, and reads it first if needed.
    #[inline]
    pub(crate) fn pin(&self, page: PageId, mode: Mode) -> Result<FrameId, PoolError> {
        match self.table.pin(page) {
            Some(frame) => {
                self.keep_order(&self.instances[self.index_of_page(page)], frame);
                Ok(frame)
            }
            None => self.pin_slowly(page, mode),
        }
    }

    /// The page is not in the pool, or is being read, or its bucket is changing.
    #[cold]
    fn pin_slowly(&self, page: PageId, mode: Mode) -> Result<FrameId, PoolError> {
        // Empty frames carry it.
        if page == PageId::NONE {
            check_range(&*self.storage, page, 1)?;
        }
        loop {
            let found = {
                let bucket = self.table.lock(page);
                bucket.find(page).map(|frame| {
                    if self.frames.get(frame).try_pin() { frame } else { FrameId::MAX }
                })
            };
            match found {
                // Its frame is being emptied.
                Some(FrameId::MAX) => std::thread::yield_now(),
                Some(frame) => {
                    if self.settle_hit(frame, page) {
                        return Ok(frame);
                    }
                }
                None => {
                    if let Some(frame) = self.bring_in(page, mode)? {
                        return Ok(frame);
                    }
                }
            }
        }
    }

    /// After a hit on a page that may still be loading: waits for the load.
    fn settle_hit(&self, frame: FrameId, page: PageId) -> bool {
        let it = self.frames.get(frame);
        if it.flags() & LOADING != 0 {
            drop(self.memory.read(frame));
        }
        // A failed load removes the page's number before it ends.
        if it.page() != page {
            it.unpin();
            return false;
        }
        self.keep_order(self.instance_of_frame(frame), frame);
        true
    }

    /// After a hit: makes the page the most recently used one, if a move is worth it.
    #[inline]
    fn keep_order(&self, instance: &Instance, frame: FrameId) {
        let node = &self.frames.get(frame).node;
        if instance.lru.is_due(node, instance.quarter()) && instance.lru.touch(frame) {
            bump(&instance.counters.dirty_region_hits);
        }
    }

    /// A miss: gets a frame, reads the page, and adds it to table and list. `None`: another thread
    /// was faster.
    fn bring_in(&self, page: PageId, mode: Mode) -> Result<Option<FrameId>, PoolError> {
        let at = self.index_of_page(page);
        let frame = self.allocate(at, page)?;
        let Some(mut bytes) = self.announce(at, page, frame) else { return Ok(None) };
        match self.load(at, page, frame, mode, &mut bytes) {
            Ok(()) => {
                self.admit(at, frame);
                Ok(Some(frame))
            }
            Err(error) => {
                self.turn_away(at, page, frame, bytes);
                Err(error)
            }
        }
    }

    /// Announces a page that is about to be read into an empty frame. Other threads that need it
    /// wait for its latch, which the caller holds from here on, with a pin. `None`: another thread
    /// was faster, and the frame is free again.
    pub(crate) fn announce(
        &self,
        at: usize,
        page: PageId,
        frame: FrameId,
    ) -> Option<ExclusiveBytes<'_>> {
        let it = self.frames.get(frame);
        it.set_page(page);
        it.set_flags(LOADING);
        let bytes = self.memory.write(frame);
        {
            let bucket = self.table.lock(page);
            if bucket.find(page).is_some() {
                drop(bucket);
                it.set_page(PageId::NONE);
                it.clear_flags(LOADING);
                drop(bytes);
                self.instances[at].push_free(frame);
                return None;
            }
            bucket.insert(frame);
            it.open_pinned();
        }
        bump(&self.instances[at].counters.misses);
        Some(bytes)
    }

    /// An announced page has been read.
    pub(crate) fn admit(&self, at: usize, frame: FrameId) {
        self.instances[at].lru.insert(frame);
        self.frames.get(frame).clear_flags(LOADING);
    }

    /// An announced page could not be read.
    pub(crate) fn turn_away(
        &self,
        at: usize,
        page: PageId,
        frame: FrameId,
        bytes: ExclusiveBytes<'_>,
    ) {
        let it = self.frames.get(frame);
        self.table.remove(page, frame);
        it.clear_flags(LOADING);
        drop(bytes);
        // Threads that found it meanwhile see that its page is gone, and unpin it.
        while !it.try_close(1) {
            std::thread::yield_now();
        }
        self.instances[at].push_free(frame);
    }

    fn load(
        &self,
        at: usize,
        page: PageId,
        frame: FrameId,
        mode: Mode,
        bytes: &mut ExclusiveBytes<'_>,
    ) -> Result<(), PoolError> {
        // The old version of a recreated page is taken back too, with the change that storage
        // lacks. A checkpoint must know of that change until the new version is in the log.
        if self.strategies[at].take_back(self, &self.instances[at], page, frame, bytes) {
            return Ok(());
        }
        if mode == Mode::Fresh {
            bytes.fill(0);
            return Ok(());
        }
        let tag = IoTag { kind: IoKind::Miss, cause: self.cause() };
        let start = Instant::now();
        self.storage.read(page, bytes, tag)?;
        let counters = &self.instances[at].counters;
        // A wait of 584 years would overflow.
        counters.read_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        bump(&counters.reads[IoKind::Miss.index()]);
        match self.format.verify(bytes, page) {
            Err(PoolError::NeverWritten { .. }) if mode == Mode::OrZero => Ok(()),
            Ok(()) => Ok(()),
            Err(error) => self.repair(page, frame, bytes, error),
        }
    }

    /// Checks a page that was read, and has it repaired if it is bad.
    pub(crate) fn check(
        &self,
        page: PageId,
        frame: FrameId,
        bytes: &mut [u8],
    ) -> Result<(), PoolError> {
        match self.format.verify(bytes, page) {
            Ok(()) => Ok(()),
            Err(error) => self.repair(page, frame, bytes, error),
        }
    }

    /// Has the engine repair a bad page. It is dirty then: storage lacks what was repaired.
    fn repair(
        &self,
        page: PageId,
        frame: FrameId,
        bytes: &mut [u8],
        error: PoolError,
    ) -> Result<(), PoolError> {
        let mender = self.bad_page.as_ref().filter(|_| error.is_bad_page());
        let Some(rec_lsn) = mender.and_then(|mender| mender.mend(page, bytes, &error)) else {
            return Err(error);
        };
        self.mark_dirty(frame, rec_lsn);
        Ok(())
    }

    /// Tries to get an empty, closed frame. The miss's first attempt has number 0.
    pub(crate) fn try_allocate(&self, at: usize, attempt: u32) -> Option<FrameId> {
        let instance = &self.instances[at];
        let free = instance.free.lock().pop();
        if let Some(frame) = free {
            bump(&instance.counters.from_free_list);
            return Some(frame);
        }
        self.strategies[at].victim(self, instance, attempt).unwrap_or_else(|error| {
            // The next attempt takes another page.
            *instance.last_error.lock() = Some(error);
            None
        })
    }

    /// Gets an empty, closed frame.
    pub(crate) fn allocate(&self, at: usize, page: PageId) -> Result<FrameId, PoolError> {
        let instance = &self.instances[at];
        let mut since = None;
        let mut attempt = 0;
        loop {
            if let Some(frame) = self.try_allocate(at, attempt) {
                return Ok(frame);
            }
            attempt += 1;
            instance.wake_flusher();
            let start = *since.get_or_insert_with(Instant::now);
            if start.elapsed() > self.config.exhausted_after {
                return Err(self.exhausted(instance, page, start));
            }
            if start.elapsed() > NO_CLEAN_FRAME_TIMEOUT
                && let Some(area) = &self.doublewrite
            {
                // No more pages will be written, so waiting for a clean one is useless.
                area.check()?;
            }
            let wait = Instant::now();
            instance.wait_for_frame();
            bump(&instance.counters.frame_waits);
            // A wait of 10 ms at most.
            let waited = wait.elapsed().as_nanos() as u64;
            instance.counters.frame_wait_ns.fetch_add(waited, Ordering::Relaxed);
        }
    }

    fn exhausted(&self, instance: &Instance, page: PageId, start: Instant) -> PoolError {
        let all = instance.first..instance.first + instance.count;
        // Settings are far below 584 million years.
        let waited_ms = start.elapsed().as_millis() as u64;
        if let Some(cause) = instance.last_error.lock().take() {
            return PoolError::Unwritable { page, waited_ms, cause: Box::new(cause) };
        }
        PoolError::Exhausted {
            page,
            waited_ms,
            pinned: all.filter(|&frame| self.frames.get(frame).is_pinned()).count(),
            frames: instance.active.load(Ordering::Relaxed) as usize,
        }
    }

    /// Empties a claimed frame and removes its page from the table.
    pub(crate) fn detach(&self, frame: FrameId) {
        let page = self.frames.get(frame).page();
        self.table.remove(page, frame);
    }

    /// The cause of the calling thread's work.
    pub(crate) fn cause(&self) -> u32 {
        attribution::of(self.causes.as_deref())
    }

    /// Notes that the holder of the exclusive latch is about to change a page.
    ///
    /// `rec_lsn` is a lower bound for the position of the change in the log.
    pub(crate) fn mark_dirty(&self, frame: FrameId, rec_lsn: Lsn) {
        let since = Since { lsn: rec_lsn, era: self.era.load(Ordering::Acquire) };
        self.mark_dirty_for(self.cause(), frame, since);
    }

    /// As [`Core::mark_dirty`], for an earlier change with another cause.
    pub(crate) fn mark_dirty_for(&self, cause: u32, frame: FrameId, since: Since) {
        let it = self.frames.get(frame);
        let dirtiers = self.frames.dirtiers(frame);
        if it.flags() & DIRTY == 0 {
            dirtiers.reset();
        }
        dirtiers.add(cause);
        if it.flags() & (DIRTY | crate::frames::WRITING) == DIRTY {
            return;
        }
        let mut state = self.frames.flush_state(frame).lock();
        if it.flags() & DIRTY == 0 {
            state.oldest = since;
            state.redirtied = None;
            it.set_flags(DIRTY);
            self.instance_of_frame(frame).flush_list.lock().insert((since.lsn, frame), since.era);
        } else if state.redirtied.is_none() {
            state.redirtied = Some(since);
        }
    }

    /// The position from which the pages need the log.
    pub(crate) fn oldest_change(&self) -> Option<Lsn> {
        self.instances
            .iter()
            .filter_map(|instance| {
                instance.flush_list.lock().first_key_value().map(|(key, _)| key.0)
            })
            .min()
    }
}
