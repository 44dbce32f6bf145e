//! Trees under threads, and databases under power cuts.

use headworks_bufferpool::storage::{MemStorage, PowerCutStorage, Storage, SubStorage};
use headworks_bufferpool::{Doublewrite, PageId, PoolConfig, StrategyKind};
use headworks_engine::{Engine, EngineConfig, EngineError, LogDevice, MemLog, TableId, TreeLatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 4096;
const TREE: TableId = TableId(0);
const HEAP: TableId = TableId(1);

fn config(strategy: StrategyKind, frames: usize) -> EngineConfig {
    EngineConfig {
        pool: PoolConfig {
            frames,
            page_size: PAGE_SIZE,
            strategy,
            flush_interval: Duration::from_millis(3),
            ..PoolConfig::default()
        },
        ..EngineConfig::default()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn row(random: &mut Random) -> Vec<u8> {
    let len = random.below(300) as usize;
    let byte = random.below(256) as u8;
    vec![byte; len]
}

fn rows(engine: &Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        assert!(rows.insert(key.to_vec(), value.to_vec()).is_none(), "key {key:?} twice");
        true
    };
    engine.begin().scan(TREE, &[], &[0xff; 9], visit).unwrap();
    rows
}

/// Threads on key ranges of their own put, remove and look up; then the tree is the union of their
/// models, in order, both by scan and by look-up.
#[test]
fn trees_under_threads_are_maps() {
    for (strategy, tree_latch) in [
        (StrategyKind::Vanilla, TreeLatch::Coupled),
        (StrategyKind::Vanilla, TreeLatch::Whole),
        (StrategyKind::LRU_C, TreeLatch::Coupled),
    ] {
        let storage = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
        let log = Arc::new(MemLog::default());
        let config = EngineConfig { tree_latch, ..config(strategy, 64) };
        let engine = Engine::create(config, storage, log, None, &[false, true]).unwrap();
        let models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = std::thread::scope(|scope| {
            let spawn = |thread: u64| {
                let engine = &engine;
                scope.spawn(move || {
                    let mut random = Random(thread + 5);
                    let mut model = BTreeMap::new();
                    for step in 0..4000 {
                        // Ranges interleave: leaves are shared.
                        let number = random.below(3000) * 4 + thread;
                        let key = number.to_be_bytes().to_vec();
                        let mut transaction = engine.begin();
                        if random.below(4) == 0 {
                            transaction.delete(TREE, &key).unwrap();
                            model.remove(&key);
                        } else {
                            let value = row(&mut random);
                            transaction.put(TREE, &key, &value).unwrap();
                            model.insert(key.clone(), value);
                        }
                        if step % 7 == 0 {
                            transaction.append(HEAP, &key).unwrap();
                        }
                        assert_eq!(transaction.get(TREE, &key).unwrap(), model.get(&key).cloned());
                        transaction.commit().unwrap();
                        assert_eq!(
                            engine.begin().get(TREE, &key).unwrap(),
                            model.get(&key).cloned()
                        );
                    }
                    model
                })
            };
            let threads: Vec<_> = (0..4).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let model: BTreeMap<_, _> = models.into_iter().flatten().collect();
        assert!(engine.pages_used() > 200, "the tree is larger than the pool");
        assert_eq!(rows(&engine), model);
        let mut appended = 0;
        engine.scan_heap(HEAP, &mut |_| appended += 1).unwrap();
        assert_eq!(appended, 4 * 4000_u64.div_ceil(7));
    }
}

/// Each transaction changes two rows to the same value and appends it to the heap. After a power
/// cut at a random moment: what was acknowledged is there, what is there is whole, nothing is
/// doubled.
fn power_cut(seed: u64, strategy: StrategyKind) -> (u64, bool) {
    let base = Arc::new(MemStorage::new(PAGE_SIZE, PAGES + 128));
    let device = Arc::new(PowerCutStorage::new(base));
    let data: Arc<dyn Storage> =
        Arc::new(SubStorage::new(device.clone(), PageId(0), PAGES).unwrap());
    // An area that met a failed sync refuses from then on, until it is opened again.
    let open_area = || {
        let area = SubStorage::new(device.clone(), PageId(PAGES), 128).unwrap();
        Arc::new(Doublewrite::new(Arc::new(area)).unwrap())
    };
    let log = Arc::new(MemLog::new(Duration::from_micros(50)));
    let engine = Engine::create(
        config(strategy, 48),
        Arc::clone(&data),
        log.clone(),
        Some(open_area()),
        &[false, true],
    )
    .unwrap();
    let dead = AtomicBool::new(false);
    let acknowledged: Vec<BTreeMap<u64, u64>> = std::thread::scope(|scope| {
        let spawn = |thread: u64| {
            let (engine, dead) = (&engine, &dead);
            scope.spawn(move || {
                let mut random = Random(seed * 100 + thread);
                // For each pair of rows the last step that was acknowledged.
                let mut steps = BTreeMap::new();
                for step in 1u64.. {
                    let pair = random.below(400) * 4 + thread;
                    let mut value = step.to_be_bytes().to_vec();
                    value.resize(8 + random.below(200) as usize, 7);
                    let mut transaction = engine.begin();
                    let put = |transaction: &mut headworks_engine::Transaction<'_>, half: u64| {
                        transaction.put(TREE, &(pair * 2 + half).to_be_bytes(), &value)
                    };
                    let done = put(&mut transaction, 0)
                        .and_then(|()| put(&mut transaction, 1))
                        .and_then(|()| {
                            let entry = [pair.to_be_bytes(), step.to_be_bytes()].concat();
                            transaction.append(HEAP, &entry)
                        })
                        .and_then(|()| transaction.commit());
                    match done {
                        Ok(()) => drop(steps.insert(pair, step)),
                        Err(EngineError::LockTimeout { .. }) => {}
                        Err(_) if dead.load(Ordering::Acquire) => return steps,
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                steps
            })
        };
        let threads: Vec<_> = (0..4).map(spawn).collect();
        let mut random = Random(seed);
        for _ in 0..random.below(5) {
            std::thread::sleep(Duration::from_millis(random.below(30)));
            engine.checkpoint().unwrap();
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        dead.store(true, Ordering::Release);
        // Log and pages lose power in either order; the moment between is very short.
        if seed.is_multiple_of(2) {
            log.cut(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
            device.cut(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)).unwrap();
        } else {
            device.cut(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)).unwrap();
            log.cut(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(engine);
    device.restore();
    log.restore();
    let (engine, report) = Engine::open(
        config(strategy, 48),
        data,
        Arc::clone(&log) as Arc<dyn LogDevice>,
        Some(open_area()),
    )
    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let rows = rows(&engine);
    let step = |key: u64| {
        rows.get(&key.to_be_bytes()[..])
            .map(|value| u64::from_be_bytes(value[..8].try_into().unwrap()))
    };
    let mut heap = BTreeMap::new();
    let visit = &mut |entry: &[u8]| *heap.entry(entry.to_vec()).or_insert(0) += 1;
    engine.scan_heap(HEAP, visit).unwrap();
    assert!(heap.values().all(|&times| times == 1), "seed {seed}: a row was appended twice");
    let mut count = 0;
    for (pair, acknowledged) in acknowledged.into_iter().flatten() {
        count += 1;
        let (first, second) = (step(pair * 2), step(pair * 2 + 1));
        assert_eq!(first, second, "seed {seed}: half a transaction on pair {pair}");
        assert!(first >= Some(acknowledged), "seed {seed}: pair {pair} lost step {acknowledged}");
        let entry = [pair.to_be_bytes(), acknowledged.to_be_bytes()].concat();
        assert!(heap.contains_key(&entry), "seed {seed}: the heap lost {acknowledged} of {pair}");
    }
    (count, report.mended > 0 || report.redone > 0)
}

#[test]
fn every_acknowledged_commit_survives_a_power_cut() {
    let given = std::env::var("HEADWORKS_SEED").ok().and_then(|text| text.parse().ok());
    let first: u64 = given.unwrap_or(1);
    let strategies =
        [StrategyKind::Vanilla, StrategyKind::LRU_C, StrategyKind::War { buffer_pages: 16 }];
    let (mut commits, mut needed) = (0, 0);
    for seed in first..first + 24 {
        let strategy = strategies[(seed % 3) as usize];
        println!("{strategy:?}, HEADWORKS_SEED={seed}");
        let (count, recovered) = power_cut(seed, strategy);
        commits += count;
        needed += u32::from(recovered);
    }
    assert!(commits > 240 && needed > 12, "{commits} commits, {needed} recoveries had work");
}

/// A checkpoint in the middle of a commit, one of whose pages is in use: the log from the commit on
/// is kept, and recovery completes it.
#[test]
fn a_checkpoint_does_not_pass_a_commit_that_is_being_carried_out() {
    let device = Arc::new(PowerCutStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, PAGES))));
    let log = Arc::new(MemLog::default());
    let config = config(StrategyKind::LRU_C, 256);
    let engine = Engine::create(config, device.clone(), log.clone(), None, &[false]).unwrap();
    let key = |number: u64| number.to_be_bytes();
    (0..1000).for_each(|number| engine.load(TREE, &key(number), &[1; 100]).unwrap());
    engine.flush().unwrap();
    let (looks, looking) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let engine = &engine;
        scope.spawn(move || {
            let visit = &mut |_: &[u8], _: &[u8]| {
                looks.send(()).unwrap();
                // Its leaf stays latched until then.
                let _ = released.recv();
                false
            };
            engine.begin().scan(TREE, &key(900), &key(901), visit).unwrap();
        });
        looking.recv().unwrap();
        let commit = scope.spawn(move || {
            let mut transaction = engine.begin();
            transaction.put(TREE, &key(10), &[2; 100]).unwrap();
            transaction.put(TREE, &key(900), &[2; 100]).unwrap();
            transaction.commit()
        });
        while engine.begin().get(TREE, &key(10)).unwrap().unwrap() != [2; 100] {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Half of it is on its page, and that page in storage.
        engine.flush().unwrap();
        log.cut(0);
        device.cut(1).unwrap();
        release.send(()).unwrap();
        // Its record was durable before the cut, so it is acknowledged.
        commit.join().unwrap().unwrap();
    });
    drop(engine);
    device.restore();
    log.restore();
    let (engine, report) = Engine::open(config, device, log, None).unwrap();
    assert_eq!(report.completed, 1, "{report:?}");
    let rows = rows(&engine);
    assert!([10, 900].iter().all(|&number| rows[&key(number)[..]] == [2; 100]));
}

/// A database that was flushed opens without work; one that was cut opens, and opens again.
#[test]
fn recovery_can_be_repeated() {
    let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let log = Arc::new(MemLog::default());
    let open = || {
        Engine::open(config(StrategyKind::LRU_C, 48), Arc::clone(&storage), log.clone(), None)
            .unwrap()
    };
    let engine = Engine::create(
        config(StrategyKind::LRU_C, 48),
        Arc::clone(&storage),
        log.clone(),
        None,
        &[false, true],
    )
    .unwrap();
    for number in 0..2000u64 {
        let mut transaction = engine.begin();
        transaction.put(TREE, &number.to_be_bytes(), &[5; 100]).unwrap();
        transaction.commit().unwrap();
    }
    drop(engine);
    let (engine, report) = open();
    assert!(report.redone > 0 && report.records > 2000, "{report:?}");
    assert_eq!(rows(&engine).len(), 2000);
    drop(engine);
    let again = Engine::create(
        config(StrategyKind::LRU_C, 48),
        Arc::clone(&storage),
        log.clone(),
        None,
        &[false, true],
    );
    assert!(matches!(again, Err(EngineError::Exists)), "a whole one is never made again");
    let (engine, report) = open();
    assert_eq!((report.redone, report.completed), (0, 0), "{report:?}");
    assert_eq!(rows(&engine).len(), 2000);
}

/// Commits that come while a sync is under way share the next one.
#[test]
fn commits_share_syncs_of_the_log() {
    const USERS: u64 = 16;
    const COMMITS: u64 = 20;
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
    let log = Arc::new(MemLog::new(Duration::from_millis(5)));
    let config = config(StrategyKind::LRU_C, 256);
    let engine = Engine::create(config, storage, log.clone(), None, &[false]).unwrap();
    let (before, _) = log.counts();
    std::thread::scope(|scope| {
        for user in 0..USERS {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..COMMITS {
                    let mut transaction = engine.begin();
                    let key = (user * COMMITS + number).to_be_bytes();
                    transaction.put(TREE, &key, b"row").unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    let syncs = log.counts().0 - before;
    // Each user waits for its own commits, one after another.
    assert!((COMMITS..USERS * COMMITS / 3).contains(&syncs), "{syncs} syncs");
    assert_eq!(rows(&engine).len() as u64, USERS * COMMITS);
}

#[test]
fn limits_are_errors() {
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, 80));
    let quick =
        EngineConfig { lock_limit: Duration::from_millis(20), ..config(StrategyKind::LRU_C, 48) };
    let engine =
        Engine::create(quick, storage, Arc::new(MemLog::default()), None, &[false]).unwrap();
    let mut one = engine.begin();
    assert!(matches!(one.put(TREE, &[0; 257], b""), Err(EngineError::TooLong { .. })));
    assert!(matches!(one.put(TREE, b"k", &[0; 2000]), Err(EngineError::TooLong { .. })));
    one.put(TREE, b"k", b"v").unwrap();
    let mut two = engine.begin();
    let waited = two.get_for_update(TREE, b"k");
    assert!(matches!(waited, Err(EngineError::LockTimeout { .. })), "{waited:?}");
    drop(one);
    assert_eq!(two.get_for_update(TREE, b"k").unwrap(), None, "rolled back");
    drop(two);
    let full =
        (0..1000u64).find_map(|number| engine.load(TREE, &number.to_be_bytes(), &[1; 500]).err());
    assert!(matches!(full, Some(EngineError::Full { pages: 80 })), "{full:?}");
}
