//! What a hit costs: pin and unpin, against `quick_cache` on the same trace.
//!
//! `cargo bench -p headworks-bufferpool --bench hits`. Every page is in memory. A trace is a
//! million accesses, skewed (the most accessed tenth gets about six tenths) or uniform.
//! `quick_cache` holds `Arc`s: cloning and dropping one is what keeps a value alive while it is
//! used, as a pin does; with plain numbers as values it does less than a pool must. Its values are
//! 64 bytes where the pool's are pages of 4 KiB; neither's bytes are touched, but for the row that
//! says so.
//!
//! Time is the threads' own processor time, so that other users of the machine disturb little; two
//! threads that fight for a cache line pay for it in that, too. Arms take turns, the best of their
//! rounds is shown.

use headworks_bufferpool::storage::MemStorage;
use headworks_bufferpool::{BufferPool, Lsn, NoWal, PageId, PoolConfig, StrategyKind};
use quick_cache::sync::Cache;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::Barrier;

const PAGES: u64 = 16_384;
const PAGE_SIZE: usize = 4096;
const ACCESSES: usize = 1_000_000;
const ROUNDS: usize = 12;
/// Pools of each strategy.
const POOLS: usize = 3;

fn trace(skewed: bool, seed: u64) -> Vec<u64> {
    let mut random = seed;
    let mut unit = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut page = || {
        let rank = if skewed { unit().powf(4.5) } else { unit() };
        ((rank * PAGES as f64) as u64).wrapping_mul(7919) % PAGES
    };
    (0..ACCESSES).map(|_| page()).collect()
}

/// Processor time of the calling thread, in seconds.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    // Seconds of a benchmark are far below 2^52.
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Million accesses in a second of processor time of each thread, all threads together.
fn rate(threads: u64, traces: &[Vec<u64>], access: &(dyn Fn(u64) + Sync)) -> f64 {
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let running: Vec<_> = traces[..threads as usize]
            .iter()
            .map(|trace| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let start = thread_seconds();
                    trace.iter().for_each(|&page| access(page));
                    ACCESSES as f64 / (thread_seconds() - start) / 1e6
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no access panics")).sum()
    })
}

fn pool((strategy, by_number): (StrategyKind, bool)) -> BufferPool {
    let config = PoolConfig {
        frames: PAGES as usize + 1024,
        page_size: PAGE_SIZE,
        strategy,
        by_number,
        ..PoolConfig::default()
    };
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let pool = BufferPool::new(config, storage, Arc::new(NoWal), None).expect("a small pool fits");
    for page in 0..PAGES {
        drop(pool.create(PageId(page), Lsn(1)).expect("a frame is free"));
    }
    pool
}

fn main() {
    // `cargo test` runs benches with --test; there is nothing to test here that tests do not.
    if std::env::args().any(|word| word == "--test") {
        return;
    }
    // Where a pool's memory happens to lie is worth a few percent: several of each, made in turn.
    let pools: Vec<_> = (0..POOLS)
        .map(|_| {
            let [vanilla, lruc] = [StrategyKind::Vanilla, StrategyKind::LRU_C];
            [(vanilla, false), (lruc, false), (lruc, true)].map(pool)
        })
        .collect();
    let arcs: Cache<u64, Arc<[u8]>> = Cache::new(PAGES as usize * 2);
    let numbers: Cache<u64, u64> = Cache::new(PAGES as usize * 2);
    for page in 0..PAGES {
        arcs.insert(page, vec![0u8; 64].into());
        numbers.insert(page, page);
    }
    let found = |page| drop(black_box(arcs.get(&page).expect("a hit")));
    let number = |page| {
        black_box(numbers.get(&page).expect("a hit"));
    };
    let names = [
        "pool, Vanilla: pin, unpin",
        "pool, LRU-C: pin, unpin",
        "another pool, Vanilla: pin, unpin",
        "pool, LRU-C, an array of pages: pin, unpin",
        "pool, LRU-C: pin, shared latch, read a byte",
        "quick_cache: get an Arc, drop it",
        "quick_cache: get a number",
    ];
    println!(
        "million accesses in a second of each thread's processor time, best of {ROUNDS} rounds"
    );
    println!(
        "{:<46} {:>10} {:>10} {:>10} {:>10}",
        "", "skewed, 1", "skewed, 2", "uniform, 1", "uniform, 2"
    );
    let cases: Vec<_> = [true, false]
        .into_iter()
        .flat_map(|skewed| [1, 2].map(|threads| (threads, [trace(skewed, 3), trace(skewed, 4)])))
        .collect();
    let mut rates = [const { [const { Vec::new() }; 4] }; 7];
    for round in 0..ROUNDS {
        let ([vanilla, lruc, array], [other, ..]) =
            (&pools[round % POOLS], &pools[(round + 1) % POOLS]);
        let pin_vanilla = |page| hit(vanilla, page);
        let pin_lruc = |page| hit(lruc, page);
        let pin_other = |page| hit(other, page);
        let pin_array = |page| hit(array, page);
        let read = |page| {
            black_box(lruc.read(PageId(page)).expect("a hit")[40]);
        };
        let arms: [&(dyn Fn(u64) + Sync); 7] =
            [&pin_vanilla, &pin_lruc, &pin_other, &pin_array, &read, &found, &number];
        for (at, (threads, traces)) in cases.iter().enumerate() {
            for turn in 0..arms.len() {
                // No arm is always the first.
                let arm = if round % 2 == 0 { turn } else { arms.len() - 1 - turn };
                rates[arm][at].push(rate(*threads, traces, arms[arm]));
            }
        }
    }
    let row = |name: &str, of: &dyn Fn(usize) -> String| {
        println!("{name:<46} {:>10} {:>10} {:>10} {:>10}", of(0), of(1), of(2), of(3));
    };
    for (name, rates) in names.iter().zip(&rates) {
        row(name, &|at| format!("{:.1}", rates[at].iter().copied().fold(0.0, f64::max)));
    }
    println!("\nratio within a round, median");
    for (name, arm, of) in [
        ("LRU-C / Vanilla", 1, 0),
        ("Vanilla / Vanilla, what chance makes of it", 2, 0),
        ("LRU-C, an array / a hash table", 3, 1),
    ] {
        row(name, &|at| {
            let mut ratios: Vec<_> =
                rates[arm][at].iter().zip(&rates[of][at]).map(|(one, base)| one / base).collect();
            ratios.sort_by(f64::total_cmp);
            format!("{:.3}", ratios[ratios.len() / 2])
        });
    }
}

/// One function for all pools: where a compiler puts a copy of it is worth a few percent, too.
#[inline(never)]
fn hit(pool: &BufferPool, page: u64) {
    drop(black_box(pool.pin(PageId(page)).expect("a hit")));
}
