//! A database: pool, log, tables, locks.

use crate::btree;
use crate::checkpointer::Checkpointer;
use crate::error::EngineError;
use crate::heap;
use crate::lock::LockTable;
use crate::log::{FIRST, Log};
use crate::logdev::LogDevice;
use crate::recovery::{RecoveryReport, Tail};
use crate::store::{MAX_TABLES, Store, TableId, TreeLatch, root_of};
use crate::txn::{self, Transaction};
use headworks_bufferpool::storage::Storage;
use headworks_bufferpool::{BufferPool, Doublewrite, Lsn, PageId, PoolConfig, PoolError, Wal};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the largest page: nodes note offsets in two bytes.
const MAX_PAGE: usize = 32 << 10;

/// Settings of a database.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// The buffer pool's.
    pub pool: PoolConfig,
    /// Longest wait for a row lock; default 1 s.
    pub lock_limit: Duration,
    /// What is latched on the way to a leaf; default [`TreeLatch::Coupled`].
    pub tree_latch: TreeLatch,
    /// Bytes of log after which a background checkpoint cuts the log; default 64 MiB, `u64::MAX`
    /// for none. How far it is cut depends on the pool's `checkpoint_age_bytes`.
    pub checkpoint_log_bytes: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            pool: PoolConfig::default(),
            lock_limit: Duration::from_secs(1),
            tree_latch: TreeLatch::Coupled,
            checkpoint_log_bytes: 64 << 20,
        }
    }
}

/// A database.
pub struct Engine {
    // Dropped first: it uses the fields below.
    _checkpointer: Checkpointer,
    shared: Arc<Shared>,
    next_id: AtomicU64,
}

/// Shared by transactions and the checkpointer.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) locks: LockTable,
    /// Commits whose writes are being applied: a log position before the record, and the
    /// transaction.
    pub(crate) applying: Mutex<BTreeSet<(u64, u64)>>,
    pub(crate) poisoned: AtomicBool,
    /// The log is kept from this LSN on.
    pub(crate) kept_from: Mutex<u64>,
    /// The last unreported error of a background checkpoint.
    pub(crate) background_error: Mutex<Option<EngineError>>,
}

impl Engine {
    /// Makes an empty database whose table *n* is a heap file where `heaps[n]`, else a tree. An
    /// unfinished earlier attempt is started over.
    ///
    /// # Errors
    /// [`EngineError::Exists`] if the log belongs to a finished database; those of pool and log.
    ///
    /// # Panics
    /// With more than 63 tables.
    pub fn create(
        config: EngineConfig,
        storage: Arc<dyn Storage>,
        log: Arc<dyn LogDevice>,
        doublewrite: Option<Arc<Doublewrite>>,
        heaps: &[bool],
    ) -> Result<Self, EngineError> {
        assert!(
            heaps.len() <= MAX_TABLES as usize,
            "{} tables, {MAX_TABLES} are possible",
            heaps.len()
        );
        // The last step of an attempt notes where recovery begins, which is never position 0.
        if log.start()? > 0 {
            return Err(EngineError::Exists);
        }
        log.truncate(0)?;
        if let Some(area) = &doublewrite {
            // Copies from another database would overwrite pages of ours.
            area.clear().map_err(PoolError::from)?;
        }
        let shared = Shared::new(config, storage, log, (FIRST, FIRST), doublewrite)?;
        shared.store.format(heaps)?;
        shared.flush()?;
        Ok(Self::over(shared, config))
    }

    /// Opens a database and recovers it, if it was not closed.
    ///
    /// # Errors
    /// Those of pool and log. [`EngineError::LogDamaged`] if the log is damaged other than at its
    /// end, and [`EngineError::Damaged`] if it lacks changes that pages have; nothing is cut off
    /// then. [`EngineError::NotMade`] if [`Engine::create`] did not finish. An unusable page does
    /// not keep the rest from opening ([`Engine::out_of_service`]).
    pub fn open(
        config: EngineConfig,
        storage: Arc<dyn Storage>,
        log: Arc<dyn LogDevice>,
        doublewrite: Option<Arc<Doublewrite>>,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let tail = Tail::read(&*log)?;
        let mended = match &doublewrite {
            Some(area) => area.recover(&*storage, tail.start())?.len(),
            None => 0,
        };
        let positions = (tail.start().0, tail.end());
        let shared = Shared::new(config, storage, log, positions, doublewrite)?;
        let mut report = tail.replay(&shared.store)?;
        report.mended = mended as u64;
        shared.flush()?;
        Ok((Self::over(shared, config), report))
    }

    fn over(shared: Shared, config: EngineConfig) -> Self {
        let shared = Arc::new(shared);
        Self {
            _checkpointer: Checkpointer::start(&shared, config.checkpoint_log_bytes),
            shared,
            next_id: AtomicU64::new(1),
        }
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(&self.shared, self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The buffer pool.
    #[must_use]
    pub fn pool(&self) -> &BufferPool {
        &self.shared.store.pool
    }

    /// The unreported error of a background checkpoint, if there was one.
    #[must_use]
    pub fn take_background_error(&self) -> Option<EngineError> {
        self.shared.background_error.lock().take()
    }

    /// Pages that turned out to be unusable until the database is opened again, with the reasons.
    /// They are damaged, or storage returned an old version, and the log lacks part of their
    /// history. The log keeps the changes that wait for them, and grows meanwhile.
    #[must_use]
    pub fn out_of_service(&self) -> Vec<(PageId, String)> {
        self.shared.store.health.lost()
    }

    /// Pages in use.
    #[must_use]
    pub fn pages_used(&self) -> u64 {
        self.shared.store.pages_used()
    }

    /// Visits all rows of a heap file.
    ///
    /// # Errors
    /// [`EngineError::OutOfService`], the pool's.
    pub fn scan_heap(
        &self,
        table: TableId,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), EngineError> {
        heap::scan(&self.shared.store, root_of(table.0), visit)
    }

    /// Sets a row outside any transaction, without a lock and without waiting for the log: for
    /// loading. It is durable after the next [`Engine::flush`].
    ///
    /// # Errors
    /// [`EngineError::OutOfService`], the pool's.
    pub fn load(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let _frames = self.shared.store.frames_to_put(root_of(table.0))?;
        btree::put(&self.shared.store, root_of(table.0), key, Some(value), None)
    }

    /// As [`Engine::load`], for a row of a heap file.
    ///
    /// # Errors
    /// [`EngineError::OutOfService`], the pool's.
    pub fn load_append(&self, table: TableId, row: &[u8]) -> Result<(), EngineError> {
        let _frames = self.shared.store.frames_to_descend(root_of(table.0))?;
        heap::append(&self.shared.store, root_of(table.0), row, None)
    }

    /// Takes a checkpoint without writing pages: frees the log up to the first change that pages
    /// lack.
    ///
    /// # Errors
    /// Those of pool and log; the earlier checkpoint then remains valid.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        self.shared.checkpoint()
    }

    /// Writes everything and takes a checkpoint.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    pub fn flush(&self) -> Result<(), EngineError> {
        self.shared.flush()
    }
}

impl Shared {
    fn new(
        config: EngineConfig,
        storage: Arc<dyn Storage>,
        log: Arc<dyn LogDevice>,
        (kept_from, end): (u64, u64),
        doublewrite: Option<Arc<Doublewrite>>,
    ) -> Result<Self, EngineError> {
        if storage.page_size() > MAX_PAGE {
            let reason = format!("{}: at most {MAX_PAGE} are possible", storage.page_size());
            return Err(PoolError::Config { setting: "page_size", reason }.into());
        }
        let log = Arc::new(Log::new(log, end));
        let pages = storage.pages();
        let wal: Arc<dyn Wal> = Arc::clone(&log) as Arc<dyn Wal>;
        let pool = BufferPool::new(config.pool, storage, wal, doublewrite)?;
        Ok(Self {
            store: Store::new(pool, log, pages, config.tree_latch),
            locks: LockTable::new(config.lock_limit),
            applying: Mutex::default(),
            poisoned: AtomicBool::new(false),
            kept_from: Mutex::new(kept_from),
            background_error: Mutex::default(),
        })
    }

    pub(crate) fn max_value(&self) -> usize {
        txn::max_value(self.store.pool.config().page_size)
    }

    /// Makes the log durable up to `lsn`. On failure no more changes are made. Otherwise others
    /// would see uncommitted changes, and the log would grow in memory.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<(), EngineError> {
        self.store.log.flush_to(lsn).map_err(|error| {
            self.poisoned.store(true, Ordering::Release);
            error.into()
        })
    }

    pub(crate) fn checkpoint(&self) -> Result<(), EngineError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(EngineError::Poisoned);
        }
        // One at a time: a later checkpoint must not be followed by an earlier position.
        let mut kept_from = self.kept_from.lock();
        // The pages' position first: a commit that ends in between has its changes after it.
        let pages = self.store.pool.checkpoint_lsn()?.0;
        let commits = self.applying.lock().first().map(|&(lsn, _)| lsn);
        // Never before an earlier position. A page dirtied after that checkpoint's scan gets a
        // record after it, whatever position was noted with it.
        let needed = pages.min(self.store.health.log_needed_from());
        let start = commits.map_or(needed, |lsn| lsn.min(needed)).max(*kept_from);
        // A commit before `start` that has ended may have its changes after `start`. They must be
        // durable before its record is freed.
        self.store.log.flush_to(self.store.log.end_lsn())?;
        self.store.log.device().set_start(start - FIRST)?;
        *kept_from = start;
        Ok(())
    }

    fn flush(&self) -> Result<(), EngineError> {
        let end = self.store.log.end_lsn();
        self.store.log.flush_to(end)?;
        self.store.pool.flush_all()?;
        self.checkpoint()
    }
}
