//! Pages that are read ahead: in batches, without a share of the pool that others need, and with
//! errors that stay theirs.

use crate::small::{PAGE_SIZE, STRATEGIES, config, faulty, get, put};
use headworks_bufferpool::storage::{
    Fault, FaultStorage, Fifo, IoQueue, IoTag, MemStorage, PageRead, QueuedStorage, Storage,
    SubStorage,
};
use headworks_bufferpool::{
    BufferPool, NoWal, PageId, PoolConfig, PoolError, StorageError, StrategyKind,
};
use std::sync::{Arc, Mutex};

/// Notes the sizes of batches.
struct Batches {
    inner: MemStorage,
    seen: Mutex<Vec<usize>>,
}

impl Storage for Batches {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.read(page, bytes, tag)
    }

    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        self.seen.lock().unwrap().push(reads.len());
        self.inner.read_batch(reads, done);
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

/// Writes pages by a pool of their own, which is gone afterwards.
fn written(storage: Arc<dyn Storage>, pages: u64) {
    let pool =
        BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
    for page in 0..pages {
        put(&pool, page, (page % 251) as u8).unwrap();
    }
    pool.close().unwrap();
}

#[test]
fn pages_come_in_batches_through_every_layer() {
    let inner = MemStorage::new(PAGE_SIZE, 200);
    let storage = Arc::new(Batches { inner, seen: Mutex::default() });
    let below = SubStorage::new(storage.clone(), PageId(10), 150).unwrap();
    let below: Arc<dyn Storage> = Arc::new(below);
    written(below.clone(), 100);
    let wide = PoolConfig { frames: 256, ..config(StrategyKind::LRU_C) };
    let pool = BufferPool::new(wide, below, Arc::new(NoWal), None).unwrap();
    // Some are there, some are named twice.
    for page in [3, 50, 90] {
        get(&pool, page).unwrap();
    }
    let before = pool.stats();
    // The iterator that names the next pages may look at pages of the pool on the way.
    let ahead = (0..100).chain(20..60).map(|page| {
        get(&pool, 3).unwrap();
        PageId(page)
    });
    pool.prefetch(ahead).unwrap();
    assert_eq!(*storage.seen.lock().unwrap(), [32, 32, 32, 1]);
    let stats = pool.stats().since(&before);
    assert_eq!((stats.misses, stats.free_frames), (97, 156));
    for page in 0..100 {
        assert!(pool.contains(PageId(page)));
        assert_eq!(get(&pool, page).unwrap(), (page % 251) as u8);
    }
    assert_eq!(pool.stats().since(&before).misses, 97, "all were hits");
}

/// One page of a batch cannot be read: the others are there, its frame is not lost, and it comes
/// when it can.
#[test]
fn a_bad_page_of_a_batch_is_the_only_one_that_is_missing() {
    for strategy in STRATEGIES {
        let storage = Arc::new(FaultStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, 200))));
        written(storage.clone(), 100);
        let wide = PoolConfig { frames: 256, ..config(strategy) };
        let pool = BufferPool::new(wide, storage.clone(), Arc::new(NoWal), None).unwrap();
        storage.inject(Fault::ReadError(PageId(5)));
        storage.inject(Fault::FlippedBit(PageId(9)));
        let error = pool.prefetch((0..64).map(PageId)).unwrap_err();
        let is_first = matches!(
            error,
            PoolError::Storage(StorageError::Io { operation: "read", page: PageId(5), .. })
        );
        assert!(is_first, "{error:?}");
        let there = |page: &u64| pool.contains(PageId(*page));
        assert_eq!((0..64).filter(there).count(), 30, "its batch, without the two");
        assert_eq!(pool.stats().free_frames, 256 - 30);
        storage.heal();
        // A page that was never written is the error of that page alone, too.
        let ahead = (0..64).chain([150, 101]).chain(64..100);
        let error = pool.prefetch(ahead.map(PageId)).unwrap_err();
        assert!(matches!(error, PoolError::NeverWritten { page: PageId(150), .. }), "{error:?}");
        assert!((0..64).all(|page| pool.contains(PageId(page))));
        assert_eq!(get(&pool, 9).unwrap(), 9);
    }
}

/// Behind a queue every page of a batch takes its turn, beside writes of a pool that works.
#[test]
fn batches_take_their_turns_in_a_queue() {
    let memory = Arc::new(MemStorage::new(PAGE_SIZE, 400));
    let queue = Arc::new(IoQueue::new(Box::new(Fifo::default()), 4));
    let queued: Arc<dyn Storage> = Arc::new(QueuedStorage::new(memory, queue));
    written(queued.clone(), 400);
    let wide = PoolConfig { frames: 128, ..config(StrategyKind::LRU_C) };
    let pool = BufferPool::new(wide, queued, Arc::new(NoWal), None).unwrap();
    std::thread::scope(|scope| {
        for first in [0, 100, 200, 300] {
            let pool = &pool;
            scope.spawn(move || {
                for _ in 0..5 {
                    pool.prefetch((first..first + 100).map(PageId)).unwrap();
                    for page in first..first + 100 {
                        assert_eq!(get(pool, page).unwrap(), (page % 251) as u8);
                        put(pool, page, (page % 251) as u8).unwrap();
                    }
                }
            });
        }
    });
    pool.close().unwrap();
}

/// Nearly all frames are pinned: what is left is enough, and when nothing is left it is said.
#[test]
fn reading_ahead_makes_do_with_the_frames_there_are() {
    for strategy in STRATEGIES {
        let (_storage, pool) = faulty(200, strategy);
        (0..100).for_each(|page| put(&pool, page, page as u8).unwrap());
        let pins: Vec<_> = (0..31).map(|page| pool.pin(PageId(page)).unwrap()).collect();
        pool.prefetch((40..80).map(PageId)).unwrap();
        assert!(pool.contains(PageId(79)), "{strategy:?}");
        let last = pool.pin(PageId(79)).unwrap();
        let error = pool.prefetch((80..90).map(PageId)).unwrap_err();
        assert!(matches!(error, PoolError::Exhausted { .. }), "{strategy:?}: {error}");
        drop((pins, last));
        pool.prefetch((80..90).map(PageId)).unwrap();
        assert_eq!(get(&pool, 89).unwrap(), 89);
    }
}

/// Most frames are dirty: the pages that a call brings in are the only clean ones. They must not
/// make room for each other.
#[test]
fn pages_read_ahead_beside_dirty_ones_stay() {
    for strategy in STRATEGIES {
        let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 200));
        written(storage.clone(), 100);
        let quiet = PoolConfig { background: false, ..config(strategy) };
        let pool = BufferPool::new(quiet, storage, Arc::new(NoWal), None).unwrap();
        (0..28).for_each(|page| put(&pool, page, 1).unwrap());
        pool.prefetch((40..54).map(PageId)).unwrap();
        let there = (40..54).filter(|&page| pool.contains(PageId(page))).count();
        assert_eq!(there, 14, "{strategy:?}");
        pool.close().unwrap();
    }
}
