//! What a pool promises of storage and log: no page before its log, checkpoints that cover what
//! storage lacks, flushes that end, and no trust after a sync that failed.

use crate::small::{PAGE_SIZE, STRATEGIES, config, faulty, get, put};
use headworks_bufferpool::storage::{Fault, FaultStorage, IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{
    BufferPool, Doublewrite, Lsn, NoWal, PageId, PoolConfig, PoolError, StorageError, StrategyKind,
    Wal, WalError,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

fn is_sync(error: &PoolError) -> bool {
    matches!(error, PoolError::Storage(StorageError::Io { operation: "sync", .. }))
}

/// After a sync that failed it is unknown what storage has of the pages written before it, though
/// the next sync succeeds. So there is no checkpoint any more, and the rest goes on.
#[test]
fn no_checkpoint_is_taken_once_a_sync_has_failed() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(1000, strategy);
        put(&pool, 1, 1).unwrap();
        pool.checkpoint().unwrap();
        put(&pool, 1, 2).unwrap();
        storage.inject(Fault::SyncError);
        let error = pool.checkpoint().unwrap_err();
        assert!(is_sync(&error), "{error}");
        assert!(!error.to_string().contains("page"), "a sync is of no page: {error}");
        storage.heal();
        for error in [pool.checkpoint().unwrap_err(), pool.checkpoint_lsn().unwrap_err()] {
            assert!(is_sync(&error), "{strategy:?}: {error}");
        }
        for page in 100..300 {
            put(&pool, page, page as u8).unwrap();
        }
        assert_eq!((get(&pool, 1).unwrap(), get(&pool, 100).unwrap()), (2, 100));
        let closed = pool.close().unwrap_err();
        assert!(is_sync(&closed.error), "{}", closed.error);
        drop(closed);
        let pool = BufferPool::new(config(strategy), storage, Arc::new(NoWal), None).unwrap();
        pool.checkpoint().unwrap();
    }
}

/// The sync of a read stall counts like any other: the first caller hears of a failure.
#[test]
fn a_sync_that_fails_in_a_stall_is_not_forgotten() {
    let storage = Arc::new(FaultStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, 1000))));
    let quiet = PoolConfig { background: false, ..config(StrategyKind::LRU_C) };
    let pool = BufferPool::new(quiet, storage.clone(), Arc::new(NoWal), None).unwrap();
    (0..32).for_each(|page| put(&pool, page, page as u8).unwrap());
    storage.inject(Fault::SyncError);
    let error = put(&pool, 40, 1).unwrap_err();
    assert!(matches!(error, PoolError::Unwritable { .. }), "{error}");
    storage.heal();
    put(&pool, 40, 1).unwrap();
    let error = pool.checkpoint().unwrap_err();
    assert!(is_sync(&error), "{error}");
    (0..32).for_each(|page| assert_eq!(u64::from(get(&pool, page).unwrap()), page));
}

/// With a doublewrite area the sync behind a batch of the flusher leaves copies that are still
/// needed.
#[test]
fn no_checkpoint_is_taken_after_a_batch_was_not_synced() {
    for on_the_area in [false, true] {
        let device = Arc::new(FaultStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, 428))));
        let copies = Arc::new(FaultStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, 128))));
        let area = Arc::new(Doublewrite::new(copies.clone()).unwrap());
        let quiet = PoolConfig { background: false, ..config(StrategyKind::Vanilla) };
        let pool = BufferPool::new(quiet, device.clone(), Arc::new(NoWal), Some(area)).unwrap();
        put(&pool, 1, 1).unwrap();
        pool.checkpoint().unwrap();
        put(&pool, 1, 2).unwrap();
        let faulty = if on_the_area { &copies } else { &device };
        faulty.inject(Fault::SyncError);
        // Without its copy no page is written; a page that got to its place counts as written, and
        // the sync is told of.
        let error = pool.flush_round().unwrap_err();
        assert!(is_sync(&error), "{error}");
        faulty.heal();
        let error = pool.checkpoint().unwrap_err();
        assert!(is_sync(&error), "{error}");
        put(&pool, 2, 3).unwrap();
        let error = pool.flush_round().unwrap_err();
        assert!(is_sync(&error), "{error}");
        assert_eq!((get(&pool, 1).unwrap(), get(&pool, 2).unwrap()), (2, 3));
    }
}

/// Without a log positions mean nothing: whatever a user gives, no page stays behind at the end.
#[test]
fn a_pool_without_a_log_writes_pages_of_any_lsn() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(1000, strategy);
        let mut bytes = vec![0; PAGE_SIZE];
        for (page, lsn) in [(0, 0), (1, 1), (2, 7), (3, u64::MAX - 1), (4, u64::MAX)] {
            pool.create(PageId(page), Lsn(lsn)).unwrap().change(Lsn(lsn))[100] = 9;
        }
        pool.close().unwrap();
        for page in 0..5 {
            storage.read(PageId(page), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
            assert_eq!(bytes[100], 9, "{strategy:?}: page {page}");
        }
    }
}

/// Changes every page again while it is on its way to storage, as often as it is written.
struct Restless {
    inner: MemStorage,
    pool: OnceLock<Weak<BufferPool>>,
    writes: AtomicU64,
}

impl Storage for Restless {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        // A flush that went on for ever would end the test here.
        if self.writes.fetch_add(1, Ordering::Relaxed) < 100
            && let Some(pool) = self.pool.get().and_then(Weak::upgrade)
        {
            let mut guard = pool.write(page).unwrap();
            guard.change(Lsn(1))[100] += 1;
        }
        self.inner.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

/// A page that is changed while it is written stays dirty, and a flush of all pages, which has what
/// was there when it began, does not wait for it to be clean.
#[test]
fn a_flush_writes_a_page_once_that_is_changed_meanwhile() {
    for strategy in STRATEGIES {
        let storage = Arc::new(Restless {
            inner: MemStorage::new(PAGE_SIZE, 100),
            pool: OnceLock::new(),
            writes: AtomicU64::new(0),
        });
        let quiet = PoolConfig { background: false, ..config(strategy) };
        let pool = BufferPool::new(quiet, storage.clone(), Arc::new(NoWal), None).unwrap();
        let pool = Arc::new(pool);
        (0..10).for_each(|page| put(&pool, page, 7).unwrap());
        storage.pool.set(Arc::downgrade(&pool)).unwrap();
        for flush in 0..3 {
            pool.flush_all().unwrap();
            assert_eq!(storage.writes.load(Ordering::Relaxed), 10 * (flush + 1), "{strategy:?}");
            assert_eq!(pool.stats().dirty_pages, 10, "{strategy:?}");
            let mut bytes = vec![0; PAGE_SIZE];
            for page in 0..10 {
                storage.inner.read(PageId(page), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
                assert_eq!(u64::from(bytes[100]), 7 + flush, "{strategy:?}: what was there");
            }
        }
        // Nor is its frame given away: behind the pointer, and changed again.
        (50..72).for_each(|page| drop(pool.write_or_zero(PageId(page)).unwrap()));
        let _ = pool.write_or_zero(PageId(80)).unwrap();
        pool.flush_round().unwrap();
        (0..10).for_each(|page| assert!(get(&pool, page).unwrap() >= 10, "{strategy:?}"));
    }
}

/// A flush of all pages ends although others never stop to change them, and storage then has what
/// was there when it began.
#[test]
fn a_flush_of_all_ends_under_changes_that_do_not() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(1000, strategy);
        let stop = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (pool, stop) = (&pool, &stop);
                scope.spawn(move || {
                    for step in 0u64.. {
                        let page = (step * 2 + thread) % 20;
                        let mut guard = pool.write_or_zero(PageId(page)).unwrap();
                        guard.change(Lsn(1))[104] = step as u8;
                        if stop.load(Ordering::Relaxed) != 0 {
                            return;
                        }
                    }
                });
            }
            let (send, ended) = std::sync::mpsc::channel();
            for value in 1..20 {
                for page in 0..20 {
                    pool.write_or_zero(PageId(page)).unwrap().change(Lsn(1))[100] = value;
                }
                let (pool, send) = (&pool, send.clone());
                scope.spawn(move || send.send(pool.flush_all()).unwrap());
                let flushed = ended.recv_timeout(Duration::from_secs(20));
                let mut bytes = vec![0; PAGE_SIZE];
                let there = (0..20).all(|page| {
                    storage.read(PageId(page), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
                    bytes[100] == value
                });
                if !there || !matches!(flushed, Ok(Ok(()))) {
                    // Threads that go on for ever would hide the failure.
                    stop.store(1, Ordering::Relaxed);
                    panic!("{strategy:?}: {flushed:?}, all there: {there}");
                }
            }
            stop.store(1, Ordering::Relaxed);
        });
    }
}

/// A log that is durable only as far as it is asked to be.
#[derive(Default)]
struct TestWal {
    end: AtomicU64,
    durable: AtomicU64,
    broken: AtomicU64,
}

impl Wal for TestWal {
    fn end_lsn(&self) -> Lsn {
        Lsn(self.end.load(Ordering::SeqCst))
    }

    fn flushed_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::SeqCst))
    }

    fn flush_to(&self, lsn: Lsn) -> Result<(), WalError> {
        if self.broken.load(Ordering::SeqCst) != 0 {
            return Err(WalError { wanted: lsn, message: "broken".into() });
        }
        self.durable.fetch_max(lsn.0, Ordering::SeqCst);
        Ok(())
    }
}

/// Counts writes of pages whose log is not durable yet. (A panic would end the thread that writes,
/// and leave others waiting for it.)
struct Watcher {
    inner: MemStorage,
    wal: Arc<TestWal>,
    overtook: AtomicU64,
}

impl Storage for Watcher {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        let lsn = headworks_bufferpool::page_lsn(bytes);
        self.overtook.fetch_add(u64::from(lsn > self.wal.flushed_lsn()), Ordering::Relaxed);
        self.inner.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

#[test]
fn no_page_is_written_before_its_log() {
    for strategy in STRATEGIES {
        let wal = Arc::new(TestWal::default());
        let storage = Arc::new(Watcher {
            inner: MemStorage::new(PAGE_SIZE, 300),
            wal: Arc::clone(&wal),
            overtook: AtomicU64::new(0),
        });
        let pool = BufferPool::new(config(strategy), storage.clone(), wal.clone(), None).unwrap();
        for step in 0..2000u64 {
            let mut guard = pool.write_or_zero(PageId(step * 7919 % 300)).unwrap();
            let rec_lsn = wal.end_lsn();
            guard.change(rec_lsn)[200] = step as u8;
            let lsn = Lsn(wal.end.fetch_add(10, Ordering::SeqCst) + 10);
            guard.set_lsn(lsn);
        }
        assert!(pool.stats().pages_written() > 500, "{strategy:?}");
        // With a broken log nothing is written, and nothing is lost.
        let mut guard = pool.write_or_zero(PageId(5)).unwrap();
        wal.broken.store(1, Ordering::SeqCst);
        guard.change(wal.end_lsn())[200] = 99;
        guard.set_lsn(Lsn(wal.end.fetch_add(10, Ordering::SeqCst) + 10));
        drop(guard);
        let closed = pool.close().unwrap_err();
        assert!(matches!(closed.error, PoolError::Wal(_)), "{strategy:?}: {:?}", closed.error);
        wal.broken.store(0, Ordering::SeqCst);
        assert_eq!(closed.pool.read(PageId(5)).unwrap()[200], 99);
        closed.pool.close().unwrap();
        assert_eq!(storage.overtook.load(Ordering::Relaxed), 0, "{strategy:?}: before their log");
    }
}

/// The checkpoint's position is that of the oldest change which storage lacks.
#[test]
fn a_checkpoint_covers_what_is_dirty() {
    let wal = Arc::new(TestWal::default());
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, 300));
    let quiet = PoolConfig { background: false, ..config(StrategyKind::LRU_C) };
    let pool = BufferPool::new(quiet, storage, wal.clone(), None).unwrap();
    for page in 0..5u64 {
        wal.end.store(100 + page * 10, Ordering::SeqCst);
        pool.create(PageId(page), wal.end_lsn()).unwrap().set_lsn(Lsn(110 + page * 10));
    }
    wal.end.store(1000, Ordering::SeqCst);
    assert_eq!(pool.checkpoint_lsn().unwrap(), Lsn(100));
    assert_eq!(pool.checkpoint().unwrap(), Lsn(1000));
    assert_eq!(pool.stats().dirty_pages, 0);
}

/// When the log from the oldest change on is longer than it may be, a round writes old pages of the
/// mixed region too: those of its older half.
#[test]
fn a_round_writes_old_pages_when_the_log_grows_long() {
    for strategy in [StrategyKind::Vanilla, StrategyKind::LRU_C] {
        let wal = Arc::new(TestWal::default());
        let storage = Arc::new(MemStorage::new(PAGE_SIZE, 300));
        let quiet = PoolConfig {
            background: false,
            checkpoint_age_bytes: 1000,
            flush_batch: 4,
            frames: 64,
            ..config(strategy)
        };
        let pool = BufferPool::new(quiet, storage, wal.clone(), None).unwrap();
        // Clean pages at the tail keep the flusher of the LRU list busy.
        (100..120).for_each(|page| drop(pool.write_or_zero(PageId(page)).unwrap()));
        for page in 0..10u64 {
            wal.end.store(100 + page * 100, Ordering::SeqCst);
            pool.create(PageId(page), wal.end_lsn()).unwrap().set_lsn(Lsn(110 + page * 100));
        }
        wal.end.store(1100, Ordering::SeqCst);
        pool.flush_round().unwrap();
        assert_eq!(pool.stats().dirty_pages, 10, "{strategy:?}: the log is not longer yet");
        wal.end.store(1101, Ordering::SeqCst);
        pool.flush_round().unwrap();
        let stats = pool.stats();
        assert_eq!(stats.writes[IoKind::CheckpointFlush.index()], 4, "{strategy:?}: a batch");
        assert_eq!(pool.checkpoint_lsn().unwrap(), Lsn(500), "{strategy:?}: the oldest went first");
        assert!((0..10).all(|page| pool.contains(PageId(page))), "written, not evicted");
        pool.flush_round().unwrap();
        assert_eq!(pool.checkpoint_lsn().unwrap(), Lsn(500), "{strategy:?}: short enough");
    }
}
