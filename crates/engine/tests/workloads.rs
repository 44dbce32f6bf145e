//! TPC-C and LinkBench keep their invariants, with threads, and through power cuts.

use headworks_bufferpool::storage::{IoTag, MemStorage, PowerCutStorage, Storage, SubStorage};
use headworks_bufferpool::{Doublewrite, PageId, PoolConfig, StorageError, StrategyKind};
use headworks_engine::{Engine, EngineConfig, EngineError, MemLog, linkbench, tpcc};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 8192;
const SCALE: tpcc::Scale = tpcc::Scale { warehouses: 2, customers: 30, items: 400 };

fn config(strategy: StrategyKind) -> EngineConfig {
    EngineConfig {
        pool: PoolConfig {
            frames: 96,
            page_size: PAGE_SIZE,
            strategy,
            flush_interval: Duration::from_millis(5),
            // After the cut no frame comes free any more.
            exhausted_after: Duration::from_secs(20),
            ..PoolConfig::default()
        },
        lock_limit: Duration::from_millis(300),
        ..EngineConfig::default()
    }
}

/// A device whose syncs take their time, once it is told to: a power cut then finds writes on their
/// way, and tears them.
struct SlowSync(Arc<PowerCutStorage>, AtomicBool);

impl Storage for SlowSync {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }

    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.0.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.0.write(page, bytes, tag)
    }

    fn sync(&self) -> Result<(), StorageError> {
        if self.1.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.sync()
    }
}

fn passes(error: &EngineError) -> bool {
    matches!(error, EngineError::Rollback(_) | EngineError::LockTimeout { .. })
}

#[test]
fn linkbench_counts_stay_right() {
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let log = Arc::new(MemLog::default());
    let engine =
        Engine::create(config(StrategyKind::LRU_C), storage, log, None, &linkbench::HEAPS).unwrap();
    linkbench::load(&engine, 2000).unwrap();
    linkbench::check(&engine, 2000).unwrap();
    std::thread::scope(|scope| {
        for user in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let mut client = linkbench::Client::new(engine, 2000, user, 3);
                for _ in 0..3000 {
                    match client.step() {
                        Ok(_) => {}
                        Err((_, error)) if passes(&error) => {}
                        Err((kind, error)) => panic!("{kind:?}: {error}"),
                    }
                }
            });
        }
    });
    linkbench::check(&engine, 2000).unwrap();
}

/// Four users until the power is cut; then conditions 1 to 4 hold, and no acknowledged commit is
/// lost.
///
/// Returns how many transactions were acknowledged, and torn pages mended.
fn power_cut(seed: u64, strategy: StrategyKind) -> (u64, u64) {
    let base = Arc::new(MemStorage::new(PAGE_SIZE, PAGES + 128));
    let power = Arc::new(PowerCutStorage::new(base));
    let device = Arc::new(SlowSync(Arc::clone(&power), AtomicBool::new(false)));
    let data: Arc<dyn Storage> =
        Arc::new(SubStorage::new(device.clone(), PageId(0), PAGES).unwrap());
    // An area that met a failed sync refuses from then on, until it is opened again.
    let open_area = || {
        let area = SubStorage::new(device.clone(), PageId(PAGES), 128).unwrap();
        Arc::new(Doublewrite::new(Arc::new(area)).unwrap())
    };
    let log = Arc::new(MemLog::new(Duration::from_micros(50)));
    let engine = Engine::create(
        config(strategy),
        Arc::clone(&data),
        log.clone(),
        Some(open_area()),
        &tpcc::HEAPS,
    )
    .unwrap();
    tpcc::load(&engine, SCALE, seed).unwrap();
    tpcc::check(&engine, SCALE).unwrap();
    device.1.store(true, Ordering::Relaxed);
    let dead = AtomicBool::new(false);
    let (orders, all) = (AtomicU64::new(0), AtomicU64::new(0));
    let receipts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for user in 0..4 {
            let (engine, dead, orders, all) = (&engine, &dead, &orders, &all);
            let receipts = &receipts;
            scope.spawn(move || {
                let mut client = tpcc::Client::new(engine, SCALE, seed * 10 + user);
                loop {
                    match client.step() {
                        Ok(kind) => {
                            all.fetch_add(1, Ordering::Relaxed);
                            let new = u64::from(kind == tpcc::Kind::NewOrder);
                            orders.fetch_add(new, Ordering::Relaxed);
                            receipts.lock().unwrap().extend(client.take_receipt());
                        }
                        Err((_, error)) if passes(&error) => {}
                        Err(_) if dead.load(Ordering::Acquire) => return,
                        Err((kind, error)) => panic!("seed {seed}, {kind:?}: {error}"),
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(40 + seed * 7 % 60));
        engine.checkpoint().unwrap();
        std::thread::sleep(Duration::from_millis(20 + seed * 13 % 50));
        let paid = || {
            let receipts = receipts.lock().unwrap();
            receipts.iter().any(|receipt| matches!(receipt, tpcc::Receipt::Payment(_)))
        };
        let began = Instant::now();
        while all.load(Ordering::Relaxed) < 25 || !paid() {
            assert!(began.elapsed() < Duration::from_secs(60), "seed {seed}: users do not get on");
            std::thread::sleep(Duration::from_millis(1));
        }
        dead.store(true, Ordering::Release);
        // Log and pages lose power in either order; the moment between is very short.
        if seed.is_multiple_of(2) {
            log.cut(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        }
        power.cut(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)).unwrap();
        if !seed.is_multiple_of(2) {
            log.cut(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        }
    });
    drop(engine);
    device.1.store(false, Ordering::Relaxed);
    power.restore();
    log.restore();
    let (engine, report) = Engine::open(config(strategy), data, log, Some(open_area()))
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    tpcc::check(&engine, SCALE).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let receipts = receipts.into_inner().unwrap();
    assert!(receipts.iter().any(|receipt| matches!(receipt, tpcc::Receipt::Payment(_))));
    let lost = tpcc::lost(&engine, &receipts).unwrap();
    assert!(lost.is_empty(), "seed {seed}: {} commits are lost: {lost:?}", lost.len());
    let there = tpcc::orders(&engine, SCALE).unwrap();
    let loaded = u64::from(SCALE.warehouses * 10 * SCALE.customers);
    let acknowledged = orders.load(Ordering::Relaxed);
    assert!(
        there >= loaded + acknowledged,
        "seed {seed}: {there} orders, {acknowledged} were promised"
    );
    (all.load(Ordering::Relaxed), report.mended)
}

#[test]
fn tpcc_is_consistent_after_power_cuts() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("HEADWORKS_SEED").unwrap_or(1);
    let cuts = number("HEADWORKS_CUTS").unwrap_or(12);
    let strategies =
        [StrategyKind::LRU_C_EAGER, StrategyKind::Vanilla, StrategyKind::War { buffer_pages: 16 }];
    let (mut transactions, mut mended) = (0, 0);
    for seed in first..first + cuts {
        let strategy = strategies[(seed % 3) as usize];
        println!("{strategy:?}, HEADWORKS_SEED={seed}");
        let (acknowledged, torn) = power_cut(seed, strategy);
        transactions += acknowledged;
        mended += torn;
    }
    println!(
        "{transactions} transactions were acknowledged before {cuts} power cuts, {mended} torn pages mended"
    );
    assert!(mended > cuts / 4, "{mended} torn pages were mended");
    assert!(transactions > cuts * 20, "{transactions} transactions");
}
