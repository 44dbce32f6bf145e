//! The pool's public interface.

use crate::attribution::CauseSource;
use crate::config::PoolConfig;
use crate::core::{BadPage, Core, Hooks, Mode};
use crate::doublewrite::Doublewrite;
use crate::error::PoolError;
use crate::flusher::{round, run_assistant, run_flusher};
use crate::frames::LOADING;
use crate::guard::{PagePin, ReadGuard, WriteGuard};
use crate::ids::{Lsn, PageId};
use crate::page::PageFormat;
use crate::stats::PoolStats;
use crate::storage::{Storage, check_range};
use crate::strategy::own::Strategy;
use crate::wal::{NoWal, Wal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pages of a checkpoint that are written between two scans of the flush list ("small batches",
/// LRU-C paper, section 4.3).
const CHECKPOINT_BATCH: usize = 128;

/// The threads of an instance, by name.
const THREADS: [(&str, ThreadWork); 2] = [("flusher", run_flusher), ("assistant", run_assistant)];
type ThreadWork = fn(&Core, usize);

/// A buffer pool.
///
/// ```
/// use headworks_bufferpool::{BufferPool, Lsn, NoWal, PageId, PoolConfig, storage::MemStorage};
/// use std::sync::Arc;
///
/// let storage = Arc::new(MemStorage::new(16 * 1024, 1000));
/// let config = PoolConfig { frames: 64, ..PoolConfig::default() };
/// let pool = BufferPool::new(config, storage, Arc::new(NoWal), None)?;
/// pool.create(PageId(7), Lsn(1))?.change(Lsn(1))[32] = 42;
/// assert_eq!(pool.read(PageId(7))?[32], 42);
/// pool.close()?;
/// # Ok::<(), headworks_bufferpool::PoolError>(())
/// ```
pub struct BufferPool {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl BufferPool {
    /// Makes a pool over `storage` and starts its flushers, one per instance.
    ///
    /// With a doublewrite area, call [`Doublewrite::recover`] after a crash, before this.
    ///
    /// # Errors
    /// [`PoolError::Config`], also if the system gives no threads; [`PoolError::TooLarge`].
    pub fn new(
        config: PoolConfig,
        storage: Arc<dyn Storage>,
        wal: Arc<dyn Wal>,
        doublewrite: Option<Arc<Doublewrite>>,
    ) -> Result<Self, PoolError> {
        Self::builder(config, storage).wal(wal).doublewrite(doublewrite).build()
    }

    /// As [`BufferPool::new`], with a source for the causes of threads' work. It is not called for
    /// threads that set their cause themselves ([`crate::attribution::with`]).
    ///
    /// Reads are then tagged with the cause of the thread that misses. Writes are tagged with the
    /// cause of the user that changed the page most, whichever thread writes it.
    ///
    /// # Errors
    /// As [`BufferPool::new`].
    pub fn with_causes(
        config: PoolConfig,
        storage: Arc<dyn Storage>,
        wal: Arc<dyn Wal>,
        doublewrite: Option<Arc<Doublewrite>>,
        causes: Arc<dyn CauseSource>,
    ) -> Result<Self, PoolError> {
        Self::builder(config, storage).wal(wal).doublewrite(doublewrite).causes(causes).build()
    }

    /// A pool with parts of the engine's own.
    #[must_use]
    pub fn builder(config: PoolConfig, storage: Arc<dyn Storage>) -> Builder {
        Builder {
            config,
            storage,
            wal: Arc::new(NoWal),
            doublewrite: None,
            causes: None,
            hooks: Hooks::default(),
        }
    }

    fn assemble(parts: Builder) -> Result<Self, PoolError> {
        let Builder { config, storage, wal, doublewrite, causes, hooks } = parts;
        let core = Arc::new(Core::new(config, storage, wal, doublewrite, causes, hooks)?);
        // If one cannot be started, the earlier ones end.
        let mut pool = Self { core, threads: Vec::new() };
        for at in (0..pool.core.instances.len()).filter(|_| config.background) {
            for (name, work) in THREADS {
                let core = Arc::clone(&pool.core);
                let thread =
                    std::thread::Builder::new().name(name.into()).spawn(move || work(&core, at));
                pool.threads.push(thread.map_err(|error| PoolError::Config {
                    setting: "background",
                    reason: format!(
                        "the system gives no thread ({error}): allow more, or flush yourself"
                    ),
                })?);
            }
        }
        Ok(pool)
    }

    /// Pins a page, reading it if it is not in the pool.
    ///
    /// # Errors
    /// Those of storage, of the checksum, [`PoolError::NeverWritten`], [`PoolError::Exhausted`].
    #[inline]
    pub fn pin(&self, page: PageId) -> Result<PagePin<'_>, PoolError> {
        let frame = self.core.pin(page, Mode::Existing)?;
        Ok(PagePin { core: &self.core, frame, page })
    }

    /// Pins a page and takes its shared latch. A thread that has a page's latch must not take it
    /// again, not even shared: a writer that waits in between would deadlock with it.
    ///
    /// # Errors
    /// As [`BufferPool::pin`].
    #[inline]
    pub fn read(&self, page: PageId) -> Result<ReadGuard<'_>, PoolError> {
        Ok(self.pin(page)?.read())
    }

    /// Pins a page and takes its exclusive latch.
    ///
    /// # Errors
    /// As [`BufferPool::pin`].
    pub fn write(&self, page: PageId) -> Result<WriteGuard<'_>, PoolError> {
        Ok(self.pin(page)?.write())
    }

    /// As [`BufferPool::write`], but a page that was never written comes as zeroes: for recovery.
    ///
    /// # Errors
    /// As [`BufferPool::pin`], without [`PoolError::NeverWritten`].
    pub fn write_or_zero(&self, page: PageId) -> Result<WriteGuard<'_>, PoolError> {
        let frame = self.core.pin(page, Mode::OrZero)?;
        Ok(PagePin { core: &self.core, frame, page }.write())
    }

    /// As [`BufferPool::write`], but a page that is not in the pool comes as zeroes, without being
    /// read. For a caller that restores a page which storage has lost. The page must be changed
    /// before the latch is released.
    ///
    /// # Errors
    /// As [`BufferPool::create`].
    pub fn write_unread(&self, page: PageId) -> Result<WriteGuard<'_>, PoolError> {
        check_range(&*self.core.storage, page, 1)?;
        let frame = self.core.pin(page, Mode::Fresh)?;
        Ok(PagePin { core: &self.core, frame, page }.write())
    }

    /// Creates a page, all zeroes and dirty, without reading it.
    ///
    /// `rec_lsn` as for [`WriteGuard::change`].
    ///
    /// # Errors
    /// [`PoolError::Exhausted`]; [`crate::StorageError::OutOfRange`] for a page beyond the end of
    /// storage, which could never be written.
    pub fn create(&self, page: PageId, rec_lsn: Lsn) -> Result<WriteGuard<'_>, PoolError> {
        let mut guard = self.write_unread(page)?;
        guard.change(rec_lsn).fill(0);
        Ok(guard)
    }

    /// Whether the page is completely in the pool at this moment.
    #[must_use]
    pub fn contains(&self, page: PageId) -> bool {
        let found = self.core.table.lock(page).find(page);
        found.is_some_and(|frame| self.core.frames.get(frame).flags() & LOADING == 0)
    }

    /// Reads missing pages, up to 32 of them in one batch ([`Storage::read_batch`]), and leaves
    /// them unpinned. Pages that another thread is reading are left to it. Returns when all have
    /// been read: to prefetch, run it on another thread.
    ///
    /// # Errors
    /// The error of the first page that cannot be read. Other pages of its batch are in the pool,
    /// later batches are not tried. [`crate::StorageError::OutOfRange`] for a page beyond the end
    /// of storage.
    pub fn prefetch(&self, pages: impl IntoIterator<Item = PageId>) -> Result<(), PoolError> {
        self.core.read_ahead(&mut pages.into_iter())
    }

    /// One round of every flusher, on the calling thread.
    ///
    /// # Errors
    /// The first failed write's; its page stays dirty.
    pub fn flush_round(&self) -> Result<(), PoolError> {
        let rounds = (0..self.core.instances.len()).map(|at| round(&self.core, at));
        // Every flusher runs its round.
        rounds.fold(Ok(()), Result::and)
    }

    /// Writes every page that was dirty when the call began, and syncs storage.
    ///
    /// It waits for pages that stay under an exclusive latch.
    ///
    /// # Errors
    /// The first failed write's, after all others were tried; its page stays dirty. A failed
    /// sync's; from then on it always fails, see [`BufferPool::checkpoint`].
    pub fn flush_all(&self) -> Result<(), PoolError> {
        let era = self.core.era.fetch_add(1, Ordering::AcqRel);
        let mut result = Ok(());
        for (instance, strategy) in self.core.instances.iter().zip(&self.core.strategies) {
            result = result.and(self.core.flush_era(instance, &**strategy, era, CHECKPOINT_BATCH));
        }
        result.and(self.core.sync().map_err(PoolError::from))
    }

    /// Takes a checkpoint: writes all earlier changes, syncs, and returns from where on the log is
    /// needed to recover the pages.
    ///
    /// # Errors
    /// As [`BufferPool::flush_all`]; the earlier checkpoint then remains valid. After a failed sync
    /// there are no more checkpoints: earlier writes may be lost although a later sync succeeds, so
    /// the log from the last checkpoint on is needed. Reads and changes go on; open the storage
    /// again to recover.
    pub fn checkpoint(&self) -> Result<Lsn, PoolError> {
        self.flush_all()?;
        self.checkpoint_lsn()
    }

    /// The position from which the log is needed to recover the pages; writes none. The pool
    /// never starts a checkpoint. An engine with a log calls this regularly, and cuts the log
    /// there.
    ///
    /// It may be earlier than the last call's result: a page dirtied in between counts from the
    /// position given with its change. The later of both is valid.
    ///
    /// # Errors
    /// Storage's, if it does not sync or has ever failed to: see [`BufferPool::checkpoint`].
    pub fn checkpoint_lsn(&self) -> Result<Lsn, PoolError> {
        // The end is read first: a page that is still clean will have a later record. Storage is
        // synced last: pages that had left the flush list are then durable.
        let end = self.core.wal.end_lsn();
        let oldest = self.core.oldest_change();
        self.core.sync()?;
        Ok(oldest.map_or(end, |lsn| lsn.min(end)))
    }

    /// Gives up frames and their memory, or takes them back.
    ///
    /// `frames` counts all instances together; the initial number is the limit.
    ///
    /// # Errors
    /// [`PoolError::ShrinkIncomplete`] if frames stay in use for 5 seconds, and errors of writes.
    /// The pool stays usable with the frames that it has, and the call may be repeated.
    pub fn resize(&self, frames: usize) -> Result<(), PoolError> {
        let each = frames / self.core.instances.len();
        if each < 16 {
            let reason = format!("{frames} frames give an instance less than 16");
            return Err(PoolError::Config { setting: "frames", reason });
        }
        let _alone = self.core.resizing.lock();
        for instance in &self.core.instances {
            // Limited by what the instance has, which is a u32.
            let active = (each as u64).min(u64::from(instance.count)) as u32;
            instance.active.store(active, Ordering::Release);
            let came_back = std::mem::take(&mut *instance.withdrawn.lock());
            let free = std::mem::take(&mut *instance.free.lock());
            came_back.into_iter().chain(free).for_each(|frame| instance.push_free(frame));
            self.withdraw(instance)?;
        }
        Ok(())
    }

    fn withdraw(&self, instance: &crate::core::Instance) -> Result<(), PoolError> {
        let core = &self.core;
        let start = Instant::now();
        loop {
            let active = instance.active.load(Ordering::Acquire);
            let (first, end) = (instance.first + active, instance.first + instance.count);
            // A frame between two states is seen in a later pass.
            let held = (first..end).filter(|&frame| core.frames.get(frame).page() != PageId::NONE);
            for frame in held {
                if core.begin_write(frame) {
                    core.write_one(instance, frame, crate::storage::IoKind::LruFlush)?;
                }
                if instance.lru.evict(frame, false) {
                    core.detach(frame);
                    instance.push_free(frame);
                }
            }
            let out = instance.withdrawn.lock().len();
            let left = (end - first) as usize - out;
            if left == 0 {
                (first..end).for_each(|frame| core.memory.release(frame));
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(5) {
                return Err(PoolError::ShrinkIncomplete { left });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Frames that can be pinned at the same time, whatever the pages: those of one instance.
    #[must_use]
    pub fn frames_together(&self) -> usize {
        // All instances have as many.
        self.core.instances[0].active.load(Ordering::Relaxed) as usize
    }

    /// Statistics so far. Hits are exact as long as no page has more than 2^32 of them between two
    /// calls.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let mut out =
            PoolStats { page_size: self.core.config.page_size as u64, ..PoolStats::default() };
        for instance in &self.core.instances {
            out.add(&instance.counters);
            for waits in [&instance.lru.waits_m, &instance.lru.waits_d] {
                out.lru_mutex_acquired += waits.acquired.load(Ordering::Relaxed);
                out.lru_mutex_waits += waits.waited.load(Ordering::Relaxed);
                out.lru_mutex_wait_ns += waits.waited_ns.load(Ordering::Relaxed);
            }
            out.dirty_pages += instance.flush_list.lock().len() as u64;
            out.free_frames += instance.free.lock().len() as u64;
        }
        out.hits = self.core.hits.lock().sum(&self.core.frames);
        out
    }

    /// Pages in the mixed and in the dirty region of the LRU lists, all instances together.
    #[must_use]
    pub fn regions(&self) -> (usize, usize) {
        self.core
            .instances
            .iter()
            .map(|instance| instance.lru.lengths())
            .fold((0, 0), |(mixed, behind), (m, b)| (mixed + m, behind + b))
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.core.config
    }

    /// The error of a background write that was not returned to any caller.
    #[must_use]
    pub fn take_background_error(&self) -> Option<PoolError> {
        self.core.instances.iter().find_map(|instance| instance.last_error.lock().take())
    }

    /// Stops the flushers without writing anything, like a crash.
    pub fn abandon(mut self) {
        self.stop();
    }

    /// Stops the flushers, writes every dirty page, syncs.
    ///
    /// # Errors
    /// As [`BufferPool::flush_all`]. The pool is returned with the pages that could not be written.
    pub fn close(mut self) -> Result<(), CloseError> {
        let flushed = self.flush_all();
        match flushed {
            Ok(()) => {
                self.stop();
                Ok(())
            }
            Err(error) => Err(CloseError { pool: Box::new(self), error }),
        }
    }

    fn stop(&mut self) {
        self.core.stop.store(true, Ordering::Release);
        self.core.instances.iter().for_each(crate::core::Instance::wake_flusher);
        for thread in self.threads.drain(..) {
            // A panic of a flusher was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The parts of a pool that is about to be made ([`BufferPool::builder`]).
pub struct Builder {
    config: PoolConfig,
    storage: Arc<dyn Storage>,
    wal: Arc<dyn Wal>,
    doublewrite: Option<Arc<Doublewrite>>,
    causes: Option<Arc<dyn CauseSource>>,
    hooks: Hooks,
}

impl Builder {
    /// The log; without it, pages are written at any time.
    #[must_use]
    pub fn wal(self, wal: Arc<dyn Wal>) -> Self {
        Self { wal, ..self }
    }

    /// Where pages are written before they are written in place.
    #[must_use]
    pub fn doublewrite(self, doublewrite: Option<Arc<Doublewrite>>) -> Self {
        Self { doublewrite, ..self }
    }

    /// Who causes the work of a thread.
    #[must_use]
    pub fn causes(self, causes: Arc<dyn CauseSource>) -> Self {
        Self { causes: Some(causes), ..self }
    }

    /// The engine's own page header. A doublewrite area needs the same one
    /// ([`Doublewrite::with_format`]).
    #[must_use]
    pub fn format(mut self, format: Arc<dyn PageFormat>) -> Self {
        self.hooks.format = Some(format);
        self
    }

    /// Who repairs pages that storage returns damaged.
    #[must_use]
    pub fn bad_page(mut self, mender: Arc<dyn BadPage>) -> Self {
        self.hooks.bad_page = Some(mender);
        self
    }

    /// The engine's own strategy instead of [`PoolConfig::strategy`]. `make` is called once for
    /// each instance, with the number of its slots. With [`PoolConfig::frequency`] a hit takes no
    /// lock: the pool's own order of pages is not needed then.
    #[must_use]
    pub fn strategy(
        mut self,
        make: impl Fn(u32) -> Box<dyn Strategy> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.strategy = Some(Box::new(make));
        self
    }

    /// Makes the pool and starts its flushers.
    ///
    /// # Errors
    /// As [`BufferPool::new`].
    pub fn build(self) -> Result<BufferPool, PoolError> {
        BufferPool::assemble(self)
    }
}

/// A drop stops the flushers and writes nothing. Dirty pages must be recovered from the log;
/// without a log, use [`BufferPool::close`].
impl Drop for BufferPool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A pool that could not be closed, and why.
pub struct CloseError {
    /// The pool, usable, with the pages that could not be written.
    pub pool: Box<BufferPool>,
    /// Why.
    pub error: PoolError,
}

impl std::fmt::Debug for CloseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CloseError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl std::fmt::Display for CloseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the pool keeps dirty pages: {}", self.error)
    }
}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<CloseError> for PoolError {
    fn from(close: CloseError) -> Self {
        close.error
    }
}
