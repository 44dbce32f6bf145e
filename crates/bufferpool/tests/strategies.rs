//! What each strategy does with the same pool: which page goes, who waits, what a round writes.
//!
//! Flushers run only when they are told to, so every count is exact.

use headworks_bufferpool::storage::{IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{
    BufferPool, Lsn, NoWal, PageId, PoolConfig, StorageError, StrategyKind, attribution,
};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

const PAGE_SIZE: usize = 4096;
const FRAMES: u64 = 64;

/// Notes every request.
struct Recorder {
    inner: MemStorage,
    seen: Mutex<Vec<(PageId, IoTag)>>,
}

impl Recorder {
    fn take(&self) -> Vec<(PageId, IoTag)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn note(&self, page: PageId, tag: IoTag) {
        self.seen.lock().unwrap().push((page, tag));
    }
}

impl Storage for Recorder {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.note(page, tag);
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.note(page, tag);
        self.inner.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

/// A full pool: pages 0 to 63 from the least recently used on, of which the first `dirty` are
/// dirty.
fn full(strategy: StrategyKind, dirty: u64) -> (Arc<Recorder>, BufferPool) {
    let inner = MemStorage::new(PAGE_SIZE, 1000);
    let storage = Arc::new(Recorder { inner, seen: Mutex::default() });
    let config = PoolConfig {
        frames: FRAMES as usize,
        page_size: PAGE_SIZE,
        strategy,
        scan_depth: 16,
        flush_batch: 16,
        background: false,
        ..PoolConfig::default()
    };
    let pool = BufferPool::new(config, storage.clone(), Arc::new(NoWal), None).unwrap();
    for page in 0..FRAMES {
        drop(pool.create(PageId(page), Lsn(1)).unwrap());
    }
    pool.flush_all().unwrap();
    for page in 0..dirty {
        pool.write(PageId(page)).unwrap().change(Lsn(1))[40] = 1;
    }
    storage.take();
    (storage, pool)
}

fn miss(pool: &BufferPool, page: u64) {
    drop(pool.write_or_zero(PageId(page)).unwrap());
}

#[test]
fn where_vanilla_stalls_lruc_takes_the_oldest_clean_page() {
    // 20 dirty pages at the tail: no clean one among the last 16.
    let (storage, pool) = full(StrategyKind::Vanilla, 20);
    miss(&pool, 100);
    let stats = pool.stats();
    assert_eq!((stats.read_stalls, stats.clean_victims, stats.scanned), (1, 0, 16));
    assert!(!pool.contains(PageId(0)), "the page at the tail was written and went");
    let kinds: Vec<_> = storage.take().iter().map(|(page, tag)| (page.0, tag.kind)).collect();
    assert_eq!(
        kinds,
        [(0, IoKind::StallFlush), (100, IoKind::Miss)],
        "the read waited for the write"
    );

    for strategy in [StrategyKind::LRU_C_BASIC, StrategyKind::LRU_C_DYNAMIC, StrategyKind::LRU_C] {
        let (storage, pool) = full(strategy, 20);
        miss(&pool, 100);
        let stats = pool.stats();
        assert_eq!((stats.read_stalls, stats.clean_victims), (0, 1));
        assert!(!pool.contains(PageId(20)) && pool.contains(PageId(0)));
        assert_eq!(pool.regions(), (44, 20), "the dirty pages lie behind the pointer");
        assert_eq!(storage.take().len(), 1);
    }
}

#[test]
fn a_wider_window_finds_the_clean_page() {
    let (_storage, pool) = full(StrategyKind::CfLru { window: 24 }, 20);
    miss(&pool, 100);
    let stats = pool.stats();
    assert_eq!((stats.read_stalls, stats.clean_victims, stats.scanned), (0, 1, 21));
}

#[test]
fn a_round_writes_a_fixed_batch_or_all_behind_the_pointer() {
    let freed = |strategy| {
        let (storage, pool) = full(strategy, 40);
        miss(&pool, 100);
        storage.take();
        pool.flush_round().unwrap();
        let written = storage.take();
        assert!(written.iter().all(|(_, tag)| tag.kind == IoKind::LruFlush));
        assert_eq!(pool.stats().free_frames, written.len() as u64);
        written.len()
    };
    assert_eq!(freed(StrategyKind::Vanilla), 16);
    assert_eq!(freed(StrategyKind::LRU_C_BASIC), 16);
    assert_eq!(freed(StrategyKind::LRU_C_DYNAMIC), 40);
    assert_eq!(freed(StrategyKind::LRU_C), 40);
}

#[test]
fn a_hit_behind_the_pointer_saves_the_page_from_the_flusher() {
    for strategy in [StrategyKind::LRU_C_DYNAMIC, StrategyKind::LRU_C] {
        let (_storage, pool) = full(strategy, 40);
        miss(&pool, 100);
        assert_eq!(pool.regions(), (24, 40));
        drop(pool.read(PageId(5)).unwrap());
        assert_eq!(pool.regions(), (25, 39));
        assert_eq!(pool.stats().dirty_region_hits, 1);
        pool.flush_round().unwrap();
        assert!(pool.contains(PageId(5)) && !pool.contains(PageId(6)));
        assert_eq!(pool.stats().dirty_pages, 1);
    }
}

#[test]
fn a_checkpoint_cleans_pages_behind_the_pointer_and_they_are_the_next_to_go() {
    let (storage, pool) = full(StrategyKind::LRU_C, 40);
    miss(&pool, 100);
    pool.checkpoint().unwrap();
    let kinds: Vec<_> = storage.take().iter().map(|(_, tag)| tag.kind).collect();
    assert_eq!(kinds.iter().filter(|&&kind| kind == IoKind::CheckpointFlush).count(), 40);
    assert_eq!(pool.regions(), (64, 0), "the pointer stands at the tail");
    pool.flush_round().unwrap();
    assert_eq!(storage.take().len(), 0);
    // Misses take them, the oldest first, and nothing that was read later.
    (101..141).for_each(|page| miss(&pool, page));
    assert!((0..40).all(|page| !pool.contains(PageId(page))));
    assert!((41..64).chain(100..141).all(|page| pool.contains(PageId(page))));
}

#[test]
fn only_a_pool_without_clean_pages_makes_lruc_stall() {
    let (_storage, pool) = full(StrategyKind::LRU_C, 64);
    miss(&pool, 100);
    assert_eq!(pool.stats().read_stalls, 1);
    assert!(!pool.contains(PageId(0)), "the oldest page was written");
}

#[test]
fn requests_say_why_and_for_whom() {
    let (storage, pool) = full(StrategyKind::LRU_C, 0);
    attribution::with(7, || pool.write(PageId(0)).unwrap().change(Lsn(1))[40] = 2);
    attribution::with(9, || miss(&pool, 100));
    pool.flush_all().unwrap();
    let seen = storage.take();
    assert_eq!(seen[0], (PageId(100), IoTag { kind: IoKind::Miss, cause: 9 }));
    // The write is charged to the cause that dirtied the page, not to the one that asked for the
    // flush.
    assert_eq!(seen[1], (PageId(0), IoTag { kind: IoKind::CheckpointFlush, cause: 7 }));
    assert_eq!(attribution::current(), 0);
}

thread_local! {
    /// Whose request the thread has in hand, as an engine would know it.
    static SERVES: Cell<u32> = const { Cell::new(0) };
}

/// A pool that asks a source, whose pages 0 to 63 were never read.
fn asking(strategy: StrategyKind) -> (Arc<Recorder>, BufferPool) {
    let inner = MemStorage::new(PAGE_SIZE, 1000);
    let storage = Arc::new(Recorder { inner, seen: Mutex::default() });
    let config = PoolConfig {
        frames: FRAMES as usize,
        page_size: PAGE_SIZE,
        strategy,
        background: false,
        ..PoolConfig::default()
    };
    let source = Arc::new(|| SERVES.get());
    let pool =
        BufferPool::with_causes(config, storage.clone(), Arc::new(NoWal), None, source).unwrap();
    (storage, pool)
}

/// The pool asks whom a thread serves: reads are the reader's, writes of those who changed the page
/// most, and what was changed after a copy is charged separately.
#[test]
fn a_source_says_for_whom_threads_work() {
    for strategy in [StrategyKind::Vanilla, StrategyKind::WAR, StrategyKind::LRU_C] {
        let (storage, pool) = asking(strategy);
        let change = |page: u64, user: u32| {
            SERVES.set(user);
            pool.write(PageId(page)).unwrap().change(Lsn(1))[40] ^= 1;
            SERVES.set(0);
        };
        let flushed = || {
            pool.flush_all().unwrap();
            let seen = storage.take();
            seen.into_iter().map(|(page, tag)| (page.0, tag.cause)).collect::<Vec<_>>()
        };
        (0..3).for_each(|page| drop(pool.create(PageId(page), Lsn(1)).unwrap()));
        assert_eq!(flushed(), [(0, 0), (1, 0), (2, 0)], "no cause");
        change(0, 7);
        change(0, 9);
        change(0, 9);
        change(1, 7);
        change(1, 9);
        attribution::with(3, || change(2, 7));
        assert_eq!(
            flushed(),
            [(0, 9), (1, 7), (2, 3)],
            "most; first of equals; what it says itself"
        );
        change(0, 7);
        assert_eq!(flushed(), [(0, 7)], "what 9 did was written before");
        SERVES.set(8);
        (100..164).for_each(|page| drop(pool.write_or_zero(PageId(page)).unwrap()));
        SERVES.set(0);
        assert!(storage.take().iter().all(|(_, tag)| tag.cause == 8 && tag.kind == IoKind::Miss));
    }
}

/// A page that WAR holds aside keeps its causes on the way back into a frame.
#[test]
fn a_page_that_was_set_aside_is_still_its_dirtiers() {
    let inner = MemStorage::new(PAGE_SIZE, 1000);
    let storage = Arc::new(Recorder { inner, seen: Mutex::default() });
    let config = PoolConfig {
        frames: 16,
        page_size: PAGE_SIZE,
        strategy: StrategyKind::War { buffer_pages: 8 },
        scan_depth: 4,
        flush_interval: std::time::Duration::from_secs(3600),
        ..PoolConfig::default()
    };
    let source = Arc::new(|| SERVES.get());
    let pool =
        BufferPool::with_causes(config, storage.clone(), Arc::new(NoWal), None, source).unwrap();
    for page in 0..200 {
        SERVES.set(1 + page as u32 % 2);
        drop(pool.create(PageId(page), Lsn(1)).unwrap());
    }
    // The cause that looks at them is not the one that dirtied them.
    SERVES.set(5);
    (0..200).for_each(|page| drop(pool.read(PageId(page)).unwrap()));
    SERVES.set(0);
    pool.close().unwrap();
    for (page, tag) in storage.take().iter().filter(|(_, tag)| tag.kind != IoKind::Miss) {
        assert_eq!(u64::from(tag.cause), 1 + page.0 % 2, "{page}: {:?}", tag.kind);
    }
}

#[test]
fn prefetched_pages_are_hits() {
    let (storage, pool) = full(StrategyKind::LRU_C, 0);
    (64..70).for_each(|page| drop(pool.create(PageId(page), Lsn(1)).unwrap()));
    pool.flush_all().unwrap();
    let gone: Vec<_> = (0..64).map(PageId).filter(|&page| !pool.contains(page)).collect();
    assert_eq!(gone.len(), 6);
    storage.take();
    pool.prefetch(gone.iter().copied()).unwrap();
    assert!(storage.take().iter().all(|(_, tag)| tag.kind == IoKind::Prefetch));
    let before = pool.stats();
    gone.iter().for_each(|&page| drop(pool.read(page).unwrap()));
    let stats = pool.stats().since(&before);
    assert_eq!((stats.hits, stats.misses), (6, 0));
}

/// With the midpoint a scan of as many pages as the pool has frames leaves those that were used
/// twice; without it nothing is left of them.
#[test]
fn with_the_midpoint_a_scan_leaves_what_was_used_twice() {
    const MANY: u64 = 1024;
    for strategy in [StrategyKind::Vanilla, StrategyKind::LRU_C] {
        let left = |midpoint| {
            let config = PoolConfig {
                frames: MANY as usize,
                page_size: PAGE_SIZE,
                strategy,
                midpoint,
                background: false,
                ..PoolConfig::default()
            };
            let storage = Arc::new(MemStorage::new(PAGE_SIZE, 3 * MANY));
            let pool = BufferPool::new(config, storage, Arc::new(NoWal), None).unwrap();
            for _ in 0..2 {
                (0..MANY).for_each(|page| miss(&pool, page));
            }
            (MANY..2 * MANY).for_each(|page| miss(&pool, page));
            (0..MANY).filter(|&page| pool.contains(PageId(page))).count() as u64
        };
        assert_eq!(left(false), 0, "{strategy:?}");
        assert!(left(true) > MANY / 2, "{strategy:?}: {} are left", left(true));
    }
}
