//! Damaged logs, damaged pages, lost writes: what is named, what is rebuilt, what goes on.

use headworks_bufferpool::storage::{Fault, FaultStorage, IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{PageId, PoolConfig};
use headworks_engine::{
    Engine, EngineConfig, EngineError, FileLog, MemLog, RecoveryReport, TableId, examine_log,
    repair_log,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 2000;
const TREE: TableId = TableId(0);
const HEAP: TableId = TableId(1);
const ROWS: u64 = 3000;

fn config() -> EngineConfig {
    let pool = PoolConfig {
        frames: 48,
        page_size: PAGE_SIZE,
        flush_interval: Duration::from_millis(3),
        ..PoolConfig::default()
    };
    EngineConfig { pool, ..EngineConfig::default() }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A database in memory whose pages can be damaged.
struct Database {
    storage: Arc<FaultStorage>,
    log: Arc<MemLog>,
}

impl Database {
    /// With `ROWS` rows, which are on their pages; the log tells all of them.
    fn create() -> (Self, Engine) {
        let memory: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, PAGES));
        let it = Self { storage: Arc::new(FaultStorage::new(memory)), log: Arc::default() };
        let (storage, log) = (it.storage.clone(), it.log.clone());
        let engine = Engine::create(config(), storage, log, None, &[false, true]).unwrap();
        (0..ROWS).for_each(|number| engine.load(TREE, &key(number), &[1; 100]).unwrap());
        engine.pool().checkpoint().unwrap();
        (it, engine)
    }

    fn open(&self) -> (Engine, RecoveryReport) {
        Engine::open(config(), self.storage.clone(), self.log.clone(), None).unwrap()
    }

    fn page(&self, page: PageId) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_SIZE];
        self.storage.read(page, &mut bytes, IoTag::of(IoKind::Other)).unwrap();
        bytes
    }

    fn put_page(&self, page: PageId, bytes: &[u8]) {
        self.storage.write(page, bytes, IoTag::of(IoKind::Other)).unwrap();
    }

    fn damage(&self, page: PageId) {
        let mut bytes = self.page(page);
        bytes[PAGE_SIZE - 1] ^= 1;
        self.put_page(page, &bytes);
    }

    /// The leaf where storage has a key.
    fn leaf_of(&self, number: u64) -> PageId {
        let has = |bytes: &[u8]| {
            let two = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let key_at = |slot: usize| &bytes[two(40 + 2 * slot) + 4..][..8];
            bytes[24] == 1 && (0..two(26)).any(|slot| key_at(slot) == key(number))
        };
        (64..PAGES).map(PageId).find(|&page| has(&self.page(page))).unwrap()
    }
}

fn put(engine: &Engine, number: u64, value: &[u8]) -> Result<(), EngineError> {
    let mut transaction = engine.begin();
    transaction.put(TREE, &key(number), value)?;
    transaction.commit()
}

fn get(engine: &Engine, number: u64) -> Result<Option<Vec<u8>>, EngineError> {
    engine.begin().get(TREE, &key(number))
}

/// Reads other rows until a page has left the pool.
fn evict(engine: &Engine, page: PageId) {
    for round in 0..100 {
        if !engine.pool().contains(page) {
            return;
        }
        // Rows of some pages may be out of service.
        (0..ROWS).filter(|number| number % 7 == round % 7).for_each(|number| {
            if number.abs_diff(1500) > 200 {
                let _ = get(engine, number);
            }
        });
    }
    panic!("page {page} stays");
}

#[track_caller]
fn is_out<T: std::fmt::Debug>(result: Result<T, EngineError>, wanted: PageId) {
    match result {
        Err(EngineError::OutOfService { page, .. }) => assert_eq!(page, wanted),
        other => panic!("{other:?}"),
    }
}

/// An update of a row on a bad page does not take place; everything else does, now and after the
/// next open.
#[test]
fn a_bad_page_is_out_of_service_and_nothing_else_is() {
    let (database, engine) = Database::create();
    engine.flush().unwrap();
    let leaf = database.leaf_of(1500);
    database.damage(leaf);
    evict(&engine, leaf);
    for _ in 0..2 {
        is_out(put(&engine, 1500, b"new"), leaf);
        is_out(get(&engine, 1500), leaf);
    }
    assert_eq!(engine.out_of_service().len(), 1);
    let rest = |engine: &Engine, value: &[u8]| {
        for number in (0..1400).chain(1600..ROWS).step_by(50) {
            put(engine, number, value).unwrap();
            assert_eq!(get(engine, number).unwrap().unwrap(), value);
        }
        engine.checkpoint().unwrap();
    };
    rest(&engine, b"two");
    drop(engine);
    let (engine, report) = database.open();
    assert_eq!((report.out_of_service, report.waiting), (0, 0), "nothing waits for it");
    assert_eq!(get(&engine, 100).unwrap().unwrap(), b"two");
    is_out(put(&engine, 1500, b"new"), leaf);
    let mut visited = 0;
    let scanned = engine.begin().scan(TREE, &key(1400), &key(1600), &mut |_, _| {
        visited += 1;
        true
    });
    is_out(scanned, leaf);
    rest(&engine, b"three");
}

/// A page that the log tells as a whole is rebuilt, by recovery and by a thread that needs it.
#[test]
fn a_bad_page_is_rebuilt_if_its_history_is_in_the_log() {
    let (database, engine) = Database::create();
    let leaf = database.leaf_of(1500);
    put(&engine, 1500, b"new").unwrap();
    engine.pool().flush_all().unwrap();
    database.damage(leaf);
    evict(&engine, leaf);
    assert_eq!(get(&engine, 1500).unwrap().unwrap(), b"new");
    put(&engine, 1501, b"newer").unwrap();
    assert!(engine.out_of_service().is_empty());
    engine.pool().flush_all().unwrap();
    drop(engine);
    let whole = database.page(leaf);
    // A page of zeroes counts as one that was never written: the log makes it, too.
    for bytes in [vec![0; PAGE_SIZE], vec![7; PAGE_SIZE]] {
        database.put_page(leaf, &bytes);
        // Recovery ends with a checkpoint: the next round has nothing to rebuild from unless it
        // fails before.
        database.storage.inject(Fault::SyncError);
        let failed = Engine::open(config(), database.storage.clone(), database.log.clone(), None);
        assert!(failed.is_err());
        database.storage.heal();
        database.put_page(leaf, &bytes);
    }
    let (engine, report) = database.open();
    assert!(report.rebuilt >= 1 && report.out_of_service == 0, "{report:?}");
    for number in 0..ROWS {
        let value = get(&engine, number).unwrap().unwrap();
        let wanted: &[u8] = match number {
            1500 => b"new",
            1501 => b"newer",
            _ => &[1; 100],
        };
        assert_eq!(value, wanted, "{number}");
    }
    engine.flush().unwrap();
    assert_eq!(database.page(leaf)[32..40], whole[32..40], "the next leaf");
}

/// Changes of a page that cannot be used wait in the log, over checkpoints and opens, until it is
/// back.
#[test]
fn changes_wait_in_the_log_until_their_page_is_back() {
    let (database, engine) = Database::create();
    engine.flush().unwrap();
    let leaf = database.leaf_of(1500);
    let mirror = database.page(leaf);
    put(&engine, 1500, b"new").unwrap();
    drop(engine);
    database.damage(leaf);
    for round in 1..4u64 {
        let (engine, report) = database.open();
        assert_eq!((report.out_of_service, report.waiting), (1, 0), "{report:?}");
        assert_eq!(engine.out_of_service()[0].0, leaf);
        is_out(get(&engine, 1500), leaf);
        put(&engine, 10, &key(round)).unwrap();
        engine.flush().unwrap();
        assert_eq!(get(&engine, 10).unwrap().unwrap(), key(round));
    }
    database.put_page(leaf, &mirror);
    let (engine, report) = database.open();
    assert_eq!((report.out_of_service, report.redone), (0, 1), "{report:?}");
    assert_eq!(get(&engine, 1500).unwrap().unwrap(), b"new");
    assert_eq!(get(&engine, 1501).unwrap().unwrap(), [1; 100]);
    engine.flush().unwrap();
    drop(engine);
    let (_, report) = database.open();
    assert_eq!(report.records, 0, "nothing waits any more");
}

/// A page goes bad between an update and its commit: the rest of the commit is there, and the page,
/// which lacks its part, is not shown until recovery has completed it.
#[test]
fn a_commit_whose_page_goes_bad_waits_for_it_alone() {
    let (database, engine) = Database::create();
    engine.flush().unwrap();
    let leaf = database.leaf_of(1500);
    let mut transaction = engine.begin();
    for number in [10, 1500, 2900] {
        transaction.put(TREE, &key(number), b"new").unwrap();
    }
    transaction.append(HEAP, b"entry").unwrap();
    evict(&engine, leaf);
    database.storage.inject(Fault::ReadError(leaf));
    let error = transaction.commit().err().unwrap();
    assert!(matches!(error, EngineError::Unfinished(_)), "{error}");
    database.storage.heal();
    is_out(get(&engine, 1500), leaf);
    is_out(put(&engine, 1501, b"other"), leaf);
    let check = |engine: &Engine| {
        for number in [10, 2900] {
            assert_eq!(get(engine, number).unwrap().unwrap(), b"new");
        }
        let mut entries = 0;
        engine.scan_heap(HEAP, &mut |_| entries += 1).unwrap();
        assert_eq!(entries, 1);
        put(engine, 20, b"later").unwrap();
        engine.flush().unwrap();
    };
    check(&engine);
    drop(engine);
    let whole = database.page(leaf);
    database.damage(leaf);
    for _ in 0..2 {
        let (engine, report) = database.open();
        assert_eq!((report.completed, report.waiting), (0, 1), "{report:?}");
        is_out(get(&engine, 1500), leaf);
        check(&engine);
    }
    database.put_page(leaf, &whole);
    let (engine, report) = database.open();
    assert_eq!((report.completed, report.waiting), (1, 0), "{report:?}");
    assert_eq!(get(&engine, 1500).unwrap().unwrap(), b"new");
    check(&engine);
}

/// Storage acknowledges a write and gives the page back as it was before: its checksum is right.
#[test]
fn a_lost_write_is_found_by_the_next_read_and_by_recovery() {
    let (database, engine) = Database::create();
    engine.flush().unwrap();
    let leaf = database.leaf_of(1500);
    let stale = database.page(leaf);
    put(&engine, 1500, b"new").unwrap();
    engine.flush().unwrap();
    let current = database.page(leaf);
    database.put_page(leaf, &stale);
    evict(&engine, leaf);
    is_out(get(&engine, 1500), leaf);
    assert!(engine.out_of_service()[0].1.contains("a write was lost"));
    assert_eq!(get(&engine, 100).unwrap().unwrap(), [1; 100]);
    engine.flush().unwrap();
    drop(engine);
    // It is not forgotten.
    for _ in 0..2 {
        let (engine, report) = database.open();
        assert_eq!(report.out_of_service, 1, "{report:?}");
        is_out(get(&engine, 1500), leaf);
        put(&engine, 10, b"on").unwrap();
        engine.flush().unwrap();
    }

    // The log tells of a later change what the page had before it.
    database.put_page(leaf, &current);
    let (engine, _) = database.open();
    put(&engine, 1501, b"newer").unwrap();
    drop(engine);
    let written = database.page(leaf);
    database.put_page(leaf, &stale);
    let (engine, report) = database.open();
    assert_eq!(report.out_of_service, 1, "{report:?}");
    is_out(get(&engine, 1500), leaf);
    put(&engine, 10, b"on").unwrap();
    drop(engine);
    database.put_page(leaf, &written);
    let (engine, report) = database.open();
    assert_eq!(report.out_of_service, 0, "{report:?}");
    assert_eq!(get(&engine, 1500).unwrap().unwrap(), b"new");
    assert_eq!(get(&engine, 1501).unwrap().unwrap(), b"newer");

    // A change that is in the log still is made again.
    engine.flush().unwrap();
    let stale = database.page(leaf);
    put(&engine, 1502, b"newest").unwrap();
    engine.pool().flush_all().unwrap();
    database.put_page(leaf, &stale);
    evict(&engine, leaf);
    for (number, value) in [(1500, &b"new"[..]), (1501, b"newer"), (1502, b"newest")] {
        assert_eq!(get(&engine, number).unwrap().unwrap(), value);
    }
    assert!(engine.out_of_service().is_empty());
}

/// Page 0 says where free pages begin, and so do the pages.
#[test]
fn the_first_page_is_made_anew() {
    let (database, engine) = Database::create();
    engine.flush().unwrap();
    drop(engine);
    database.damage(PageId(0));
    let (engine, _) = database.open();
    assert!(engine.out_of_service().is_empty());
    (ROWS..2 * ROWS).for_each(|number| put(&engine, number, &[2; 100]).unwrap());
    drop(engine);
    let (engine, _) = database.open();
    for number in 0..2 * ROWS {
        let byte = if number < ROWS { 1 } else { 2 };
        assert_eq!(get(&engine, number).unwrap().unwrap(), [byte; 100], "{number}");
    }
}

fn scratch(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to.join("log")).unwrap();
    for name in ["pages", "copies", "log/start", "log/0000000000000000.log"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// One bit anywhere in the only segment: the place is named, nothing is cut off, and a repair that
/// was asked for gives up what those bytes said and nothing else.
#[test]
fn a_wrong_bit_in_the_log_is_named_and_nothing_is_cut_off() {
    const COMMITS: u64 = 400;
    let path = scratch("bit");
    let (whole, wrong) = (path.join("whole"), path.join("wrong"));
    let engine = Engine::create_in(&whole, config(), PAGES, &[false]).unwrap();
    (0..COMMITS).for_each(|number| put(&engine, number, &[3; 200]).unwrap());
    drop(engine);
    let segment = |path: &Path| path.join("log/0000000000000000.log");
    let bytes = std::fs::read(segment(&whole)).unwrap();
    for tenth in 1..10 {
        let at = bytes.len() * tenth / 10;
        copy(&whole, &wrong);
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        std::fs::write(segment(&wrong), &damaged).unwrap();
        let error = Engine::open_in(&wrong, config()).err().unwrap();
        let EngineError::LogDamaged(damage) = &error else { panic!("{error}") };
        assert_eq!(damage.len(), 1, "{error}");
        let (file, offset) = damage[0].place.rsplit_once(", offset ").unwrap();
        assert_eq!(Path::new(file), segment(&wrong));
        let from = offset.parse::<usize>().unwrap();
        assert!((from..from + damage[0].bytes as usize).contains(&at), "{error}");
        assert_eq!(std::fs::read(segment(&wrong)).unwrap(), damaged, "tenth {tenth}");

        let log = FileLog::open(&wrong.join("log"), FileLog::SEGMENT_BYTES).unwrap();
        assert_eq!(&examine_log(&log).unwrap(), damage);
        assert_eq!(std::fs::read(segment(&wrong)).unwrap(), damaged, "a look changes nothing");
        assert_eq!(&repair_log(&log).unwrap(), damage);
        assert_eq!(examine_log(&log).unwrap(), []);
        drop(log);
        let (engine, report) = Engine::open_in(&wrong, config()).unwrap();
        assert!(report.out_of_service <= 1, "{report:?}");
        let mut there = 0;
        for number in 0..COMMITS {
            match get(&engine, number) {
                Ok(value) => {
                    assert_eq!(value.as_deref(), Some(&[3; 200][..]), "{number}");
                    there += 1;
                }
                // The page lacks what the bytes said.
                Err(EngineError::OutOfService { .. }) => assert_eq!(report.out_of_service, 1),
                Err(other) => panic!("{other}"),
            }
        }
        println!("tenth {tenth}: {there} of {COMMITS} rows, {report:?}");
        assert!(there > COMMITS * 3 / 4);
    }
    std::fs::remove_dir_all(&path).unwrap();
}
