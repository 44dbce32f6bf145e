//! Misses under skewed reads: the pool's orders against `quick_cache`, on one trace.
//!
//! `cargo bench -p headworks-bufferpool --bench misses`. Zipf's law over 100,000 pages; pool and
//! cache hold a twentieth or a fifth of them. The second half of a million accesses counts.

use headworks_bufferpool::storage::MemStorage;
use headworks_bufferpool::{BufferPool, Lsn, PageId, PoolConfig, StrategyKind};
use quick_cache::unsync::Cache;
use std::sync::Arc;

const PAGES: u64 = 100_000;
const PAGE_SIZE: usize = 4096;
const ACCESSES: usize = 1_000_000;

/// Pages by Zipf's law, the popular ones anywhere.
fn trace(exponent: f64) -> Vec<u64> {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=PAGES)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut random = 7u64;
    let mut unit = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut page = || {
        let at = unit() * sum;
        cumulated.partition_point(|value| *value <= at) as u64 * 7_919 % PAGES
    };
    (0..ACCESSES).map(|_| page()).collect()
}

/// The part of the accesses of the second half that missed.
fn misses(trace: &[u64], mut miss: impl FnMut(u64) -> bool) -> f64 {
    let (warm, counted) = trace.split_at(ACCESSES / 2);
    for &page in warm {
        miss(page);
    }
    counted.iter().filter(|&&page| miss(page)).count() as f64 / counted.len() as f64
}

fn pool(frames: usize, strategy: StrategyKind, midpoint: bool, frequency: bool) -> BufferPool {
    let config = PoolConfig {
        frames,
        page_size: PAGE_SIZE,
        strategy,
        midpoint,
        frequency,
        ..PoolConfig::default()
    };
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let pool = BufferPool::builder(config, storage).build().expect("a small pool fits");
    for page in 0..PAGES {
        drop(pool.create(PageId(page), Lsn(1)).expect("a frame comes free"));
    }
    pool.flush_all().expect("memory takes all");
    pool
}

fn main() {
    // `cargo test` runs benches with --test; there is nothing to test here that tests do not.
    if std::env::args().any(|word| word == "--test") {
        return;
    }
    println!("misses of the second half of {ACCESSES} reads, {PAGES} pages");
    println!(
        "{:>6} {:>8} {:>9} {:>9} {:>10} {:>12}",
        "zipf", "frames", "recency", "midpoint", "frequency", "quick_cache"
    );
    for exponent in [0.8, 0.99, 1.2] {
        let trace = trace(exponent);
        for frames in [5_000, 20_000] {
            let of = |midpoint, frequency| {
                let pool = pool(frames, StrategyKind::LRU_C_EAGER, midpoint, frequency);
                misses(&trace, |page| {
                    let missing = !pool.contains(PageId(page));
                    drop(pool.read(PageId(page)).expect("it was written"));
                    missing
                })
            };
            let mut cache: Cache<u64, ()> = Cache::new(frames);
            let other = misses(&trace, |page| {
                let missing = cache.get(&page).is_none();
                if missing {
                    cache.insert(page, ());
                }
                missing
            });
            println!(
                "{exponent:>6} {frames:>8} {:>9.3} {:>9.3} {:>10.3} {other:>12.3}",
                of(false, false),
                of(true, false),
                of(false, true)
            );
        }
    }
}
