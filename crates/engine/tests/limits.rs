//! What an engine promises when pages run out, or cannot be read, in the middle of its work.

use headworks_bufferpool::storage::{Fault, FaultStorage, IoTag, MemStorage, Storage};
use headworks_bufferpool::{PageId, PoolConfig, PoolError, StorageError, StrategyKind};
use headworks_engine::{Engine, EngineConfig, EngineError, MemLog, TableId};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE: usize = 4096;
const TREE: TableId = TableId(0);
const HEAP: TableId = TableId(1);

fn config() -> EngineConfig {
    let pool = PoolConfig {
        frames: 48,
        page_size: PAGE_SIZE,
        flush_interval: Duration::from_millis(3),
        ..PoolConfig::default()
    };
    EngineConfig { pool, ..EngineConfig::default() }
}

fn put(engine: &Engine, number: u64) -> Result<(), EngineError> {
    let mut transaction = engine.begin();
    transaction.put(TREE, &number.to_be_bytes(), &[number as u8; 300])?;
    transaction.append(HEAP, &[number as u8; 200])?;
    transaction.commit()
}

/// A commit for which there might be too few pages is refused before it is promised: whatever was
/// acknowledged is there after each crash, rows can be removed, and nothing is stuck.
#[test]
fn a_database_that_is_full_stays_usable_and_opens_again() {
    for pages in [90, 100, 131, 163, 200, 300] {
        let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, pages));
        let log = Arc::new(MemLog::default());
        let mut engine =
            Engine::create(config(), Arc::clone(&storage), log.clone(), None, &[false, true])
                .unwrap();
        let mut next = 0;
        for round in 0..4 {
            let refused = loop {
                match put(&engine, next) {
                    Ok(()) => next += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, EngineError::Full { .. }), "{pages}: {refused}");
            let mut removal = engine.begin();
            removal.delete(TREE, &0u64.to_be_bytes()).unwrap();
            removal.commit().unwrap();
            // A crash: nothing is written, and pages that were given out and not used are lost.
            drop(engine);
            let opened = Engine::open(config(), Arc::clone(&storage), log.clone(), None);
            engine = opened.unwrap_or_else(|error| panic!("{pages}, round {round}: {error}")).0;
            for number in 1..next {
                let row = engine.begin().get(TREE, &number.to_be_bytes()).unwrap();
                assert_eq!(row, Some(vec![number as u8; 300]), "{pages}: {number} of {next}");
            }
        }
        println!("{pages} pages: {next} rows");
    }
}

/// After the log has failed nothing is changed any more: neither in the log's memory nor in what
/// others read.
#[test]
fn after_the_log_has_failed_commits_do_not_take_place() {
    let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 1000));
    let log = Arc::new(MemLog::default());
    let engine =
        Engine::create(config(), Arc::clone(&storage), log.clone(), None, &[false, true]).unwrap();
    (0..10).for_each(|number| put(&engine, number).unwrap());
    log.cut(1);
    assert!(matches!(put(&engine, 10), Err(EngineError::Wal(_))));
    for number in 11..20 {
        assert!(matches!(put(&engine, number), Err(EngineError::Poisoned)));
        assert_eq!(engine.begin().get(TREE, &u64::to_be_bytes(number)).unwrap(), None);
    }
    drop(engine);
    log.restore();
    let (engine, _) = Engine::open(config(), storage, log, None).unwrap();
    assert!(engine.begin().get(TREE, &u64::to_be_bytes(9)).unwrap().is_some());
    put(&engine, 11).unwrap();
    drop(engine);
    let wide = EngineConfig {
        pool: PoolConfig { page_size: 65_536, ..config().pool },
        ..EngineConfig::default()
    };
    let storage = Arc::new(MemStorage::new(65_536, 100));
    let refused = Engine::create(wide, storage, Arc::new(MemLog::default()), None, &[false]).err();
    assert!(matches!(refused, Some(EngineError::Pool(PoolError::Config { .. }))), "{refused:?}");
}

/// A commit whose pages cannot be read does not take place, whatever they are, and takes place when
/// they can.
#[test]
fn a_commit_whose_pages_cannot_be_read_does_not_take_place() {
    let memory: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 1000));
    let storage = Arc::new(FaultStorage::new(memory));
    let log = Arc::new(MemLog::default());
    let engine =
        Engine::create(config(), storage.clone(), log.clone(), None, &[false, true]).unwrap();
    (0..1500).for_each(|number| put(&engine, number).unwrap());
    (0..1000).for_each(|page| storage.inject(Fault::ReadError(PageId(page))));
    let replace = |number: u64| {
        let mut transaction = engine.begin();
        transaction.put(TREE, &number.to_be_bytes(), b"new")?;
        transaction.commit()
    };
    // Most leaves are not in the pool.
    let failed = (0..1500).step_by(100).find_map(|number| Some((number, replace(number).err()?)));
    let (number, error) = failed.expect("a page that must be read");
    assert!(matches!(error, EngineError::OutOfService { .. }), "{error}");
    storage.heal();
    let row = |number: u64| engine.begin().get(TREE, &number.to_be_bytes()).unwrap();
    assert_eq!(row(number), Some(vec![number as u8; 300]));
    replace(number).unwrap();
    engine.checkpoint().unwrap();
    drop(engine);
    let (engine, report) = Engine::open(config(), storage, log, None).unwrap();
    assert_eq!(report.completed, 0, "{report:?}");
    assert_eq!(engine.begin().get(TREE, &number.to_be_bytes()).unwrap(), Some(b"new".to_vec()));
}

/// A storage whose pages take their time, so that threads meet while they wait for frames.
struct Slow(Arc<dyn Storage>);

impl Storage for Slow {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        std::thread::sleep(Duration::from_micros(100));
        self.0.read(page, bytes, tag)
    }
    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        std::thread::sleep(Duration::from_micros(100));
        self.0.write(page, bytes, tag)
    }
    fn sync(&self) -> Result<(), StorageError> {
        self.0.sync()
    }
}

/// Threads whose pages together are more than the pool has frames: each gets on, and a commit that
/// is logged is carried out.
#[test]
fn more_threads_than_frames_get_on() {
    const ROWS: u64 = 8_000;
    const THREADS: u64 = 32;
    let strategies = [
        StrategyKind::LRU_C,
        StrategyKind::LRU_C_EAGER,
        StrategyKind::Vanilla,
        StrategyKind::InnoDb56,
        StrategyKind::War { buffer_pages: 8 },
    ];
    // Long keys: a page has few children, so the tree has more inner pages than there are frames.
    let key = |number: u64| {
        let mut key = [7; 120];
        key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        key
    };
    let with = |frames, strategy| {
        let pool = PoolConfig {
            frames,
            strategy,
            exhausted_after: Duration::from_secs(60),
            ..config().pool
        };
        EngineConfig { pool, ..config() }
    };
    for (frames, strategy) in [24, 16, 24, 24, 24].into_iter().zip(strategies) {
        let memory: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 6_000));
        let log = Arc::new(MemLog::default());
        let (storage, large) = (Arc::clone(&memory), with(2048, strategy));
        let engine = Engine::create(large, storage, log.clone(), None, &[false]).unwrap();
        (0..ROWS).for_each(|number| engine.load(TREE, &key(number), &[0; 200]).unwrap());
        engine.flush().unwrap();
        drop(engine);
        let slow = Arc::new(Slow(Arc::clone(&memory)));
        let (engine, _) = Engine::open(with(frames, strategy), slow, log.clone(), None).unwrap();
        // Its rows are no one else's; their pages are.
        let rows = |thread: u64| (0..60).map(move |at| (at * 97 % 250) * THREADS + thread);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let engine = &engine;
                scope.spawn(move || {
                    for number in rows(thread) {
                        let mut transaction = engine.begin();
                        // Longer than before: pages split.
                        transaction.put(TREE, &key(number), &[number as u8; 400]).unwrap();
                        transaction.get(TREE, &key(number / 2)).unwrap();
                        transaction.commit().unwrap();
                    }
                });
            }
        });
        assert!(engine.out_of_service().is_empty());
        drop(engine);
        let (engine, _) = Engine::open(with(16, strategy), memory, log, None).unwrap();
        for number in (0..THREADS).flat_map(rows) {
            let row = engine.begin().get(TREE, &key(number)).unwrap();
            assert_eq!(row, Some(vec![number as u8; 400]), "{strategy:?}: {number}");
        }
    }
}
