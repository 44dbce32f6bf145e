//! Many threads on every strategy, against a model: no update is lost, pinned pages stay, dirty
//! pages reach storage.

use headworks_bufferpool::storage::{IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{BufferPool, Lsn, NoWal, PageId, PoolConfig, StrategyKind, page_lsn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 600;
const THREADS: u64 = 8;

const STRATEGIES: [StrategyKind; 8] = [
    StrategyKind::InnoDb56,
    StrategyKind::Vanilla,
    StrategyKind::CfLru { window: 40 },
    StrategyKind::War { buffer_pages: 16 },
    StrategyKind::LRU_C_BASIC,
    StrategyKind::LRU_C_DYNAMIC,
    StrategyKind::LRU_C,
    StrategyKind::LRU_C_EAGER,
];

fn seed() -> u64 {
    let given = std::env::var("HEADWORKS_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(1)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn config(strategy: StrategyKind, instances: usize, midpoint: bool) -> PoolConfig {
    PoolConfig {
        frames: 128,
        page_size: PAGE_SIZE,
        instances,
        strategy,
        scan_depth: 16,
        flush_batch: 16,
        flush_interval: Duration::from_millis(2),
        io_batch: 8,
        midpoint,
        ..PoolConfig::default()
    }
}

fn counter(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn add(bytes: &mut [u8], at: usize) {
    let value = counter(bytes, at) + 1;
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Every page has a counter at its start and one at its end. Threads add to both under the
/// exclusive latch, and compare them under the shared one; the model counts the additions.
fn run(strategy: StrategyKind, instances: usize, midpoint: bool, seed: u64) {
    println!("{strategy:?}, {instances} instances, midpoint {midpoint}, HEADWORKS_SEED={seed}");
    let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let config = config(strategy, instances, midpoint);
    let pool = BufferPool::new(config, Arc::clone(&storage), Arc::new(NoWal), None).unwrap();
    for page in 0..PAGES {
        pool.create(PageId(page), Lsn(1)).unwrap();
    }
    let model: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, model) = (&pool, &model);
            scope.spawn(move || {
                let mut random = Random(seed * 1000 + thread);
                for _ in 0..4000 {
                    // A third of the accesses go to a twelfth of the pages.
                    let hot = random.below(3) == 0;
                    let page = random.below(if hot { PAGES / 12 } else { PAGES });
                    match random.below(11) {
                        10 => {
                            let ahead = (page..PAGES).take(12);
                            pool.prefetch(ahead.map(PageId)).unwrap();
                        }
                        0..4 => {
                            let mut guard = pool.write(PageId(page)).unwrap();
                            let bytes = guard.change(Lsn(1));
                            add(bytes, 40);
                            add(bytes, PAGE_SIZE - 8);
                            model[page as usize].fetch_add(1, Ordering::Relaxed);
                        }
                        4 => {
                            // A pin keeps the page while others push everything else out.
                            let pin = pool.pin(PageId(page)).unwrap();
                            let other = pool.read(PageId((page + PAGES / 2) % PAGES)).unwrap();
                            drop(other);
                            assert!(pool.contains(PageId(page)));
                            let guard = pin.read();
                            assert_eq!(counter(&guard, 40), counter(&guard, PAGE_SIZE - 8));
                        }
                        _ => {
                            let guard = pool.read(PageId(page)).unwrap();
                            assert_eq!(guard.page(), PageId(page));
                            let (front, back) =
                                (counter(&guard, 40), counter(&guard, PAGE_SIZE - 8));
                            assert_eq!(front, back, "page {page} was seen half changed");
                        }
                    }
                }
            });
        }
    });
    for page in 0..PAGES {
        let guard = pool.read(PageId(page)).unwrap();
        let expected = model[page as usize].load(Ordering::Relaxed);
        assert_eq!(counter(&guard, 40), expected, "page {page} in the pool");
    }
    let stats = pool.stats();
    assert!(stats.misses > PAGES, "the pool is smaller than the pages: {stats:?}");
    pool.close().unwrap();
    let mut bytes = vec![0; PAGE_SIZE];
    for page in 0..PAGES {
        storage.read(PageId(page), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
        let expected = model[page as usize].load(Ordering::Relaxed);
        assert_eq!(counter(&bytes, 40), expected, "page {page} in storage");
        assert_eq!(page_lsn(&bytes), Lsn(0));
    }
}

#[test]
fn no_update_is_lost_under_any_strategy() {
    for strategy in STRATEGIES {
        run(strategy, 1, false, seed());
    }
}

#[test]
fn no_update_is_lost_with_instances_and_midpoint() {
    for strategy in [StrategyKind::Vanilla, StrategyKind::LRU_C] {
        run(strategy, 4, true, seed() + 1);
    }
}

/// The pool shrinks and grows under load.
#[test]
fn a_pool_that_shrinks_and_grows_loses_nothing() {
    for strategy in
        [StrategyKind::Vanilla, StrategyKind::War { buffer_pages: 8 }, StrategyKind::LRU_C]
    {
        let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
        let pool =
            BufferPool::new(config(strategy, 2, false), storage, Arc::new(NoWal), None).unwrap();
        for page in 0..PAGES {
            pool.create(PageId(page), Lsn(1)).unwrap();
        }
        let model: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let seed = seed();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, model) = (&pool, &model);
                scope.spawn(move || {
                    let mut random = Random(seed * 77 + thread);
                    for _ in 0..3000 {
                        let page = random.below(PAGES);
                        add(pool.write(PageId(page)).unwrap().change(Lsn(1)), 40);
                        model[page as usize].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for frames in [48, 100, 32, 128] {
                pool.resize(frames).unwrap();
                let held = (0..PAGES).filter(|&page| pool.contains(PageId(page))).count();
                assert!(held <= frames + 4, "{held} pages in {frames} frames");
            }
        });
        pool.resize(32).unwrap();
        let (mixed, behind) = pool.regions();
        assert!(mixed + behind <= 32, "{mixed} + {behind} pages in 32 frames");
        for page in 0..PAGES {
            let guard = pool.read(PageId(page)).unwrap();
            assert_eq!(counter(&guard, 40), model[page as usize].load(Ordering::Relaxed));
        }
    }
}
