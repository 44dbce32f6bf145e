//! The doublewrite area: torn pages are mended, and batches overlap.

use crate::small::{PAGE_SIZE, config, put};
use headworks_bufferpool::storage::{
    Fault, FaultStorage, IoKind, IoTag, MemStorage, PageWrite, PowerCutStorage, Storage, SubStorage,
};
use headworks_bufferpool::{
    BufferPool, Doublewrite, Lsn, NoWal, PageId, PoolConfig, PoolError, StorageError, StrategyKind,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Counts the batches that are being written in place at a time, and lets none end before so many
/// came or time is up.
struct Overlapping {
    inner: MemStorage,
    wanted: usize,
    /// At this moment, and at most.
    count: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Storage for Overlapping {
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
        self.inner.write(page, bytes, tag)
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let mut count = self.count.lock().unwrap();
        count.0 += 1;
        count.1 = count.1.max(count.0);
        self.changed.notify_all();
        let limit = Duration::from_secs(30);
        let waiting = |count: &mut (usize, usize)| count.1 < self.wanted;
        let (mut count, _) = self.changed.wait_timeout_while(count, limit, waiting).unwrap();
        count.0 -= 1;
        drop(count);
        self.inner.write_batch(writes, done);
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

/// As many batches are under way as the area has places, never more; each page gets where it
/// belongs.
#[test]
fn as_many_batches_overlap_as_the_doublewrite_area_takes() {
    for batches in [1, 3] {
        let area = Arc::new(MemStorage::new(PAGE_SIZE, 128 * batches as u64));
        let area = Arc::new(Doublewrite::with_batches(area, batches).unwrap());
        let storage = Arc::new(Overlapping {
            inner: MemStorage::new(PAGE_SIZE, 1000),
            wanted: batches,
            count: Mutex::default(),
            changed: Condvar::new(),
        });
        let quiet = PoolConfig {
            frames: 600,
            background: false,
            io_batch: 30,
            ..config(StrategyKind::Vanilla)
        };
        let pool = BufferPool::new(quiet, storage.clone(), Arc::new(NoWal), Some(area)).unwrap();
        for page in 0..500 {
            pool.create(PageId(page), Lsn(1)).unwrap().change(Lsn(1))[100] = page as u8;
        }
        pool.flush_round().unwrap();
        assert_eq!(storage.count.lock().unwrap().1, batches);
        assert_eq!(pool.stats().dirty_pages, 0);
        for page in 0..500 {
            assert_eq!(pool.read(PageId(page)).unwrap()[100], page as u8);
        }
    }
    let small: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 383));
    for batches in [0, 3, usize::MAX] {
        let refused = Doublewrite::with_batches(small.clone(), batches).err().unwrap();
        assert!(matches!(refused, PoolError::Config { .. }), "{refused}");
    }
}

/// Copies of one page may lie in several slots: a torn page gets its latest, not a step back.
#[test]
fn a_torn_page_gets_its_latest_copy() {
    let tag = IoTag::of(IoKind::Other);
    let area: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 128));
    let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 300));
    let doublewrite = Arc::new(Doublewrite::new(area).unwrap());
    let quiet = PoolConfig { background: false, ..config(StrategyKind::LRU_C) };
    let pool = {
        let (storage, area) = (Arc::clone(&storage), Arc::clone(&doublewrite));
        BufferPool::new(quiet, storage, Arc::new(NoWal), Some(area)).unwrap()
    };
    let change = |page: u64, lsn: u64, rec_lsn: u64| {
        let mut guard = pool.write_or_zero(PageId(page)).unwrap();
        guard.change(Lsn(rec_lsn))[32..].fill(lsn as u8);
        guard.set_lsn(Lsn(lsn));
    };
    // A batch's copies begin at the first slot of its place, in the order of the oldest change:
    // this one leaves page 1 in the second slot, where the next does not reach.
    change(5, 10, 1);
    change(1, 11, 2);
    pool.flush_all().unwrap();
    change(1, 20, 1);
    pool.flush_all().unwrap();
    pool.abandon();
    let mut torn = vec![0; PAGE_SIZE];
    storage.read(PageId(1), &mut torn, tag).unwrap();
    torn[2000..].fill(0xee);
    storage.write(PageId(1), &torn, tag).unwrap();
    assert_eq!(doublewrite.recover(&*storage, Lsn(0)).unwrap(), [PageId(1)]);
    let pool = BufferPool::new(quiet, storage, Arc::new(NoWal), None).unwrap();
    let guard = pool.read(PageId(1)).unwrap();
    assert_eq!((guard[32], guard[PAGE_SIZE - 1]), (20, 20));
}

/// A page that storage tears and does not take, while others go on: its copy is not overwritten by
/// theirs, whichever way they are written, and mends it. When storage takes the page again nothing
/// is kept any more.
#[test]
fn the_copy_of_a_page_that_cannot_be_written_is_kept() {
    let memory: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 300));
    let area: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 128));
    let storage = Arc::new(FaultStorage::new(Arc::clone(&memory)));
    let doublewrite = Arc::new(Doublewrite::new(area).unwrap());
    // Small batches: others follow that of the torn pages.
    let quiet = PoolConfig { background: false, io_batch: 4, ..config(StrategyKind::LRU_C) };
    let pool = BufferPool::new(quiet, storage.clone(), Arc::new(NoWal), Some(doublewrite.clone()));
    let pool = pool.unwrap();
    let change = |page: u64, value: u8| {
        let mut guard = pool.write_or_zero(PageId(page)).unwrap();
        guard.change(Lsn(1))[32..].fill(value);
        guard.set_lsn(Lsn(value.into()));
    };
    let torn = [3, 4].map(PageId);
    torn.into_iter().for_each(|page| change(page.0, 1));
    pool.flush_all().unwrap();
    torn.into_iter().for_each(|page| storage.inject(Fault::TornWrite(page)));
    let mended = |lsn: u64| {
        let mut pages = doublewrite.recover(&*memory, Lsn(0)).unwrap();
        pages.sort_unstable();
        assert_eq!(pages, torn);
        let mut bytes = vec![0; PAGE_SIZE];
        for page in torn {
            memory.read(page, &mut bytes, IoTag::of(IoKind::Other)).unwrap();
            assert!(bytes[32..].iter().all(|&byte| u64::from(byte) == lsn), "{page}");
        }
    };
    for value in 2..40 {
        torn.into_iter().for_each(|page| change(page.0, value));
        // Others in batches and, where the pool is full of dirty pages, one by one, too.
        for page in 0..if value % 2 == 0 { 12 } else { 40 } {
            change(20 + (u64::from(value) * 40 + page) % 270, value);
        }
        assert!(pool.flush_all().is_err());
        mended(value.into());
    }
    storage.heal();
    pool.close().unwrap();
    assert_eq!(doublewrite.recover(&*memory, Lsn(0)).unwrap(), []);
}

/// What a cut left unreadable is mended, too; an unreadable copy keeps none of the others from it.
#[test]
fn unreadable_pages_are_mended_and_unreadable_copies_passed_over() {
    let memory: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 300));
    let copies: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 128));
    let [storage, area] = [memory, copies].map(|it| Arc::new(FaultStorage::new(it)));
    let doublewrite = Arc::new(Doublewrite::new(area.clone()).unwrap());
    let pool = BufferPool::new(
        config(StrategyKind::LRU_C),
        storage.clone(),
        Arc::new(NoWal),
        Some(doublewrite.clone()),
    );
    let pool = pool.unwrap();
    (0..5).for_each(|page| put(&pool, page, page as u8).unwrap());
    pool.close().unwrap();
    area.inject(Fault::ReadError(PageId(1)));
    storage.inject(Fault::ReadError(PageId(3)));
    assert_eq!(doublewrite.recover(&*storage, Lsn(0)).unwrap(), [PageId(3)]);
    area.heal();
    // An area of another page file mends nothing of this one, once it is emptied.
    let other = MemStorage::new(PAGE_SIZE, 300);
    doublewrite.clear().unwrap();
    assert_eq!(doublewrite.recover(&other, Lsn(0)).unwrap(), []);
}

/// A power cut in the middle of writes tears pages; the doublewrite area mends every one, however
/// many batches are under way.
#[test]
fn the_doublewrite_area_mends_torn_pages() {
    let mut torn_without = 0;
    for (seed, batches) in (1..30u64).flat_map(|seed| [0, 1, 3].map(|batches| (seed, batches))) {
        let with = batches > 0;
        let base = Arc::new(MemStorage::new(PAGE_SIZE, 684));
        let device = Arc::new(PowerCutStorage::new(base));
        let area: Arc<dyn Storage> =
            Arc::new(SubStorage::new(device.clone(), PageId(300), 384).unwrap());
        let area = Arc::new(Doublewrite::with_batches(area, batches.max(1)).unwrap());
        let doublewrite = with.then(|| Arc::clone(&area));
        // A stall that syncs would leave little to tear; batches of a few pages leave several for a
        // round.
        let lazy = PoolConfig {
            sync_stall_flush: false,
            io_batch: if batches == 3 { 4 } else { 256 },
            ..config(StrategyKind::LRU_C)
        };
        let pool = BufferPool::new(lazy, device.clone(), Arc::new(NoWal), doublewrite).unwrap();
        // Contents differ from sector to sector, so that a torn page is damaged.
        for step in 0..600u64 {
            let mut guard = pool.write_or_zero(PageId(step * 7919 % 300)).unwrap();
            guard.change(Lsn(1))[32..].fill(step as u8);
        }
        device.cut(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
        pool.abandon();
        device.restore();
        if with {
            area.recover(&*device, Lsn(0)).unwrap();
        }
        let pool =
            BufferPool::new(config(StrategyKind::LRU_C), device, Arc::new(NoWal), None).unwrap();
        for page in 0..300 {
            match pool.read(PageId(page)) {
                Ok(guard) => assert!(guard[32..].iter().all(|&b| b == guard[32])),
                Err(PoolError::NeverWritten { .. }) => {}
                Err(PoolError::Checksum { .. } | PoolError::Misplaced { .. }) if !with => {
                    torn_without += 1;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
    assert!(torn_without > 10, "{torn_without} pages were torn without the area");
}

/// Cuts the power of a device before its operation of a given number.
struct CutBefore {
    device: PowerCutStorage,
    left: AtomicU64,
    seed: u64,
}

impl CutBefore {
    fn step(&self) {
        // Below 0 it goes on at 2^64.
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.device.cut(self.seed).unwrap();
        }
    }
}

impl Storage for CutBefore {
    fn page_size(&self) -> usize {
        self.device.page_size()
    }

    fn pages(&self) -> u64 {
        self.device.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.device.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.step();
        self.device.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.step();
        self.device.sync()
    }
}

/// Rounds in which pages are changed, written by checkpoints, flushers and stalls, until the power
/// is cut. Returns the value of all pages at the last checkpoint that succeeded, and the rounds
/// begun.
fn work_until_cut(pool: &BufferPool) -> (u8, u8) {
    let mut checkpointed = 0;
    for round in 1..=3 {
        for page in 0..24 {
            let Ok(mut guard) = pool.write_or_zero(PageId(page)) else {
                return (checkpointed, round);
            };
            guard.change(Lsn(1))[32..].fill(round);
        }
        // All frames hold dirty pages: these misses stall.
        for page in 30..36 {
            let Ok(mut guard) = pool.write_or_zero(PageId(page)) else {
                return (checkpointed, round);
            };
            guard.change(Lsn(1))[32..].fill(round);
        }
        if pool.flush_round().is_err() || pool.checkpoint().is_err() {
            return (checkpointed, round);
        }
        checkpointed = round;
    }
    (checkpointed, 3)
}

/// The power is cut before each write and each sync in turn: no page is torn, none goes back behind
/// the last checkpoint.
#[test]
fn a_cut_at_any_step_leaves_whole_pages() {
    for strategy in [StrategyKind::Vanilla, StrategyKind::LRU_C] {
        let (mut steps, mut mended) = (0, 0);
        for step in 1.. {
            let mut survived = false;
            for seed in 1..6u64 {
                let base = Arc::new(MemStorage::new(PAGE_SIZE, 40 + 128));
                let device = Arc::new(CutBefore {
                    device: PowerCutStorage::new(base),
                    left: AtomicU64::new(step),
                    seed: (step * 8 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                });
                let area = SubStorage::new(device.clone(), PageId(40), 128).unwrap();
                let area = Arc::new(Doublewrite::new(Arc::new(area)).unwrap());
                let quiet = PoolConfig {
                    frames: 24,
                    background: false,
                    scan_depth: 4,
                    flush_batch: 4,
                    exhausted_after: Duration::ZERO,
                    ..config(strategy)
                };
                let pool = BufferPool::new(
                    quiet,
                    device.clone(),
                    Arc::new(NoWal),
                    Some(Arc::clone(&area)),
                )
                .unwrap();
                let (checkpointed, last) = work_until_cut(&pool);
                survived = (1..u64::MAX / 2).contains(&device.left.load(Ordering::Relaxed));
                if survived {
                    assert!(pool.stats().writes[IoKind::StallFlush.index()] > 0);
                    break;
                }
                pool.abandon();
                device.device.restore();
                mended += area.recover(&*device, Lsn(0)).unwrap().len();
                let pool = BufferPool::new(quiet, device, Arc::new(NoWal), None).unwrap();
                for page in (0..24).chain(30..36) {
                    let at = format!("{strategy:?}, step {step}, seed {seed}, page {page}");
                    match pool.read(PageId(page)) {
                        Ok(guard) => {
                            assert!(guard[32..].iter().all(|&byte| byte == guard[32]), "{at}");
                            assert!((checkpointed..=last).contains(&guard[32]), "{at}");
                        }
                        Err(PoolError::NeverWritten { .. }) if checkpointed == 0 => {}
                        Err(error) => panic!("{at}: {error}"),
                    }
                }
            }
            if survived {
                steps = step;
                break;
            }
        }
        println!("{strategy:?}: {steps} steps, {mended} pages were mended");
        assert!(steps > 100 && mended > 20, "{steps} steps, {mended} mended");
    }
}
