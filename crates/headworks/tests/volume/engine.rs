//! The storage engine on a volume with the model of a drive: TPC-C on real files through power
//! cuts.

use crate::rig::{Rig, can_mount_or_skip};
use headworks_bufferpool::storage::{FileOptions, FileStorage};
use headworks_bufferpool::{Doublewrite, PoolConfig, StrategyKind};
use headworks_engine::{Engine, EngineConfig, EngineError, FileLog, RecoveryReport, tpcc};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 8192;
const SEGMENT_BYTES: u64 = 1 << 20;
const SCALE: tpcc::Scale = tpcc::Scale { warehouses: 2, customers: 30, items: 400 };
const USERS: u64 = 4;

fn config(strategy: StrategyKind) -> EngineConfig {
    EngineConfig {
        pool: PoolConfig {
            frames: 96,
            page_size: PAGE_SIZE,
            strategy,
            flush_interval: Duration::from_millis(5),
            // Without power no frame comes free any more.
            exhausted_after: Duration::from_secs(1),
            ..PoolConfig::default()
        },
        lock_limit: Duration::from_millis(300),
        ..EngineConfig::default()
    }
}

fn options() -> FileOptions {
    FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() }
}

fn create(dir: &Path) -> Engine {
    let pages = FileStorage::create(&dir.join("pages"), PAGES, options()).unwrap();
    assert!(pages.is_direct(), "past the page cache, to the volume");
    let copies = FileStorage::create(&dir.join("copies"), 128, options()).unwrap();
    let copies = Arc::new(Doublewrite::new(Arc::new(copies)).unwrap());
    let log = Arc::new(FileLog::create(&dir.join("log"), SEGMENT_BYTES).unwrap());
    let config = config(StrategyKind::LRU_C);
    Engine::create(config, Arc::new(pages), log, Some(copies), &tpcc::HEAPS).unwrap()
}

fn open(dir: &Path, strategy: StrategyKind) -> (Engine, RecoveryReport) {
    let pages = FileStorage::open(&dir.join("pages"), options()).unwrap();
    let copies = FileStorage::open(&dir.join("copies"), options()).unwrap();
    let copies = Arc::new(Doublewrite::new(Arc::new(copies)).unwrap());
    let log = Arc::new(FileLog::open(&dir.join("log"), SEGMENT_BYTES).unwrap());
    Engine::open(config(strategy), Arc::new(pages), log, Some(copies)).unwrap()
}

/// Ends the users, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Users until nothing works any more; what they were told of.
fn users_until_the_cut(
    engine: &Engine,
    seed: u64,
    (off, over): (&AtomicBool, &AtomicBool),
    done: &AtomicU64,
) -> Vec<tpcc::Receipt> {
    let receipts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for user in 0..USERS {
            let receipts = &receipts;
            scope.spawn(move || {
                let mut client = tpcc::Client::new(engine, SCALE, seed * USERS + user);
                while !over.load(Ordering::SeqCst) {
                    match client.step() {
                        Ok(_) => {
                            done.fetch_add(1, Ordering::SeqCst);
                            receipts.lock().unwrap().extend(client.take_receipt());
                        }
                        Err((_, EngineError::Rollback(_) | EngineError::LockTimeout { .. })) => {}
                        Err(_) if off.load(Ordering::SeqCst) => return,
                        Err((kind, error)) => panic!("{kind:?}: {error}"),
                    }
                }
            });
        }
    });
    receipts.into_inner().unwrap()
}

#[test]
fn the_engine_keeps_every_acknowledged_commit() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let image = rig.image("d");
    let volume = ["create", "d", "--size", "256M", "--backing", &image, "--device", "ssd-b"];
    // Flushes that take longer, so that most cuts find something to lose.
    let layers = ["--layer", "delay:flush=3ms", "--layer", "powercut:seed=23,cache=32M,keep=0.5"];
    rig.ok(&[&volume[..], &layers].concat());
    rig.mount("d");
    let engine = create(&rig.mnt());
    tpcc::load(&engine, SCALE, 1).unwrap();
    tpcc::check(&engine, SCALE).unwrap();
    drop(engine);
    rig.umount("d");

    let mut receipts = Vec::new();
    let strategies =
        [StrategyKind::LRU_C_EAGER, StrategyKind::Vanilla, StrategyKind::War { buffer_pages: 16 }];
    for (round, strategy) in (1..).zip(strategies) {
        rig.mount("d");
        let (engine, _) = open(&rig.mnt(), strategy);
        let (off, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let users = scope.spawn(|| users_until_the_cut(&engine, round, (&off, &over), &done));
            let end = Over(&over);
            let began = Instant::now();
            let mut checkpoint = false;
            while done.load(Ordering::SeqCst) < 150 + 37 * round {
                assert!(!users.is_finished(), "users stopped before the cut");
                assert!(began.elapsed() < Duration::from_secs(60), "users do not get on");
                if !checkpoint && done.load(Ordering::SeqCst) > 60 {
                    engine.checkpoint().unwrap();
                    checkpoint = true;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            off.store(true, Ordering::SeqCst);
            let said = rig.ok(&["powercut", "d"]);
            receipts.extend(users.join().unwrap());
            drop(end);
            println!("{strategy:?}: {} acknowledged so far; {}", receipts.len(), said.trim());
        });
        drop(engine);
        rig.umount("d");

        rig.mount("d");
        let (engine, report) = open(&rig.mnt(), strategy);
        println!("{report:?}");
        assert!(report.records > 0, "there was something to recover");
        tpcc::check(&engine, SCALE).unwrap();
        let lost = tpcc::lost(&engine, &receipts).unwrap();
        assert!(lost.is_empty(), "{} of {} commits are lost", lost.len(), receipts.len());
        drop(engine);
        rig.umount("d");
        rig.assert_sound(&image);
    }
}
