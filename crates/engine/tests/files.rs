//! Databases in real files: killed, torn, and damaged.

use headworks_bufferpool::storage::{FileOptions, FileStorage};
use headworks_bufferpool::{Doublewrite, PoolConfig};
use headworks_engine::{Engine, EngineConfig, EngineError, FileLog, RecoveryReport, TableId};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const PAGE_SIZE: usize = 4096;
const PAGES: u64 = 2000;
const TREE: TableId = TableId(0);
/// Small, so that a test has many.
const SEGMENT_BYTES: u64 = 20_000;
/// Makes the test below a child that commits until it is killed.
const CHILD: &str = "HEADWORKS_TEST_COMMITS_IN";

fn scratch(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn config() -> EngineConfig {
    let pool = PoolConfig { frames: 64, page_size: PAGE_SIZE, ..PoolConfig::default() };
    EngineConfig { pool, ..EngineConfig::default() }
}

fn options() -> FileOptions {
    FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() }
}

fn create(path: &Path) -> Engine {
    let storage = FileStorage::create(&path.join("pages"), PAGES, options()).unwrap();
    let area = FileStorage::create(&path.join("copies"), 128, options()).unwrap();
    let area = Arc::new(Doublewrite::new(Arc::new(area)).unwrap());
    let log = Arc::new(FileLog::create(&path.join("log"), SEGMENT_BYTES).unwrap());
    Engine::create(config(), Arc::new(storage), log, Some(area), &[false]).unwrap()
}

fn open(path: &Path) -> Result<(Engine, RecoveryReport), EngineError> {
    open_with(path, config())
}

fn open_with(path: &Path, config: EngineConfig) -> Result<(Engine, RecoveryReport), EngineError> {
    let storage = FileStorage::open(&path.join("pages"), options()).unwrap();
    let area = FileStorage::open(&path.join("copies"), options()).unwrap();
    let area = Arc::new(Doublewrite::new(Arc::new(area)).unwrap());
    let log = Arc::new(FileLog::open(&path.join("log"), SEGMENT_BYTES).unwrap());
    Engine::open(config, Arc::new(storage), log, Some(area))
}

fn put(engine: &Engine, number: u64) {
    let mut transaction = engine.begin();
    // A third of the keys is used again and again.
    transaction.put(TREE, &(number % 300).to_be_bytes(), &number.to_be_bytes()).unwrap();
    transaction.put(TREE, &(1_000_000 + number).to_be_bytes(), &[3; 200]).unwrap();
    transaction.commit().unwrap();
}

fn number_at(engine: &Engine, key: u64) -> u64 {
    let value = engine.begin().get(TREE, &key.to_be_bytes()).unwrap().unwrap();
    u64::from_be_bytes(value.try_into().unwrap())
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.join("log")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths
}

/// A process that commits is killed; each commit that it told of is there, as often as that is
/// done.
#[test]
fn a_killed_process_leaves_every_commit_that_it_told_of() {
    if let Ok(path) = std::env::var(CHILD) {
        let (engine, _) = open(Path::new(&path)).unwrap();
        let first = std::env::var("HEADWORKS_TEST_FIRST").unwrap().parse().unwrap();
        for number in first.. {
            put(&engine, number);
            println!("\ncommitted {number}");
            if number % 50 == 0 {
                engine.checkpoint().unwrap();
            }
        }
    }
    let path = scratch("killed");
    drop(create(&path));
    let mut next = 0;
    for round in 1..=4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "a_killed_process_leaves_every_commit_that_it_told_of",
            ])
            .env(CHILD, &path)
            .env("HEADWORKS_TEST_FIRST", next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let number = line.strip_prefix("committed ").map(|number| number.parse::<u64>());
            told = number.map(Result::unwrap).or(told);
            // Whatever it told before it died is read on.
            if told >= Some(next + 100 + round * 13) {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let told = told.unwrap();
        let (engine, report) = open(&path).unwrap();
        println!("round {round}: told of {told}, {report:?}");
        assert!(report.records > 0, "{report:?}");
        for number in 0..=told {
            let row = engine.begin().get(TREE, &(1_000_000 + number).to_be_bytes()).unwrap();
            assert_eq!(row, Some(vec![3; 200]), "commit {number} of {told}");
        }
        for number in told.saturating_sub(299)..=told {
            // One commit may have come after the last word.
            assert!(number_at(&engine, number % 300) >= number);
        }
        next = told + 2;
        for gap in told + 1..next {
            put(&engine, gap);
        }
    }
    std::fs::remove_dir_all(&path).unwrap();
}

/// The log's end may be cut anywhere: what is whole before it is recovered. A checkpoint gives
/// segments up.
#[test]
fn a_log_cut_anywhere_gives_what_is_whole() {
    let path = scratch("cut");
    let engine = create(&path);
    (0..200).for_each(|number| put(&engine, number));
    let many = segments(&path).len();
    assert!(many > 4, "{many} segments");
    engine.flush().unwrap();
    assert_eq!(segments(&path).len(), 1, "a checkpoint needs none of those before");
    let kept = std::fs::metadata(&segments(&path)[0]).unwrap().len();
    (200..220).for_each(|number| put(&engine, number));
    drop(engine);
    let last = segments(&path).pop().unwrap();
    let length = std::fs::metadata(&last).unwrap().len();
    assert!(segments(&path).len() > 1 || length > kept);
    let mut cut = std::fs::read(&last).unwrap();
    cut.truncate(cut.len() - 5);
    let end = cut.len() - 1;
    cut[end] ^= 1;
    std::fs::write(&last, &cut).unwrap();
    let (engine, report) = open(&path).unwrap();
    assert!(report.records > 0 && report.completed > 0, "{report:?}");
    assert!(report.torn_bytes > 0, "{report:?}");
    // The commit record came before that of its changes: it is whole, and is carried out.
    assert_eq!(number_at(&engine, 219), 219);
    put(&engine, 220);
    drop(engine);
    // One wrong bit in a record that is there whole: the last byte of the last row.
    let last = segments(&path).pop().unwrap();
    let mut bytes = std::fs::read(&last).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    std::fs::write(&last, &bytes).unwrap();
    let (engine, report) = open(&path).unwrap();
    assert_eq!(report.completed, 1, "{report:?}");
    let row = engine.begin().get(TREE, &1_000_220u64.to_be_bytes()).unwrap();
    assert_eq!(row, Some(vec![3; 200]));
    (0..=220u64).for_each(|number| assert_eq!(number_at(&engine, number), number));
    drop(engine);
    std::fs::remove_dir_all(&path).unwrap();
}

/// What is not whole and is followed by whole records is no end of the log, in any segment, and
/// nothing is cut off.
#[test]
fn damage_in_the_middle_of_the_log_is_told_and_nothing_is_cut_off() {
    let path = scratch("middle");
    let engine = create(&path);
    (0..300).for_each(|number| put(&engine, number));
    drop(engine);
    let all = segments(&path);
    assert!(all.len() > 3, "{} segments", all.len());
    let sizes =
        || all.iter().map(|path| std::fs::metadata(path).unwrap().len()).collect::<Vec<_>>();
    let before = sizes();
    for (at, segment) in all.iter().enumerate() {
        let whole = std::fs::read(segment).unwrap();
        let last = whole.len() - 1;
        // In the last segment what nothing follows is a torn end.
        for damaged in if at + 1 < all.len() { vec![last / 2, last] } else { vec![last / 2] } {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 1;
            std::fs::write(segment, &bytes).unwrap();
            let error = open(&path).err().unwrap();
            assert!(matches!(error, EngineError::LogDamaged(_)), "{error}");
            assert!(error.to_string().contains(segment.to_str().unwrap()), "{error}");
            assert_eq!(sizes(), before);
        }
        std::fs::write(segment, &whole).unwrap();
    }
    let (engine, _) = open(&path).unwrap();
    (0..300u64).for_each(|number| {
        let row = engine.begin().get(TREE, &(1_000_000 + number).to_be_bytes()).unwrap();
        assert_eq!(row, Some(vec![3; 200]), "{number}");
    });
    drop(engine);
    std::fs::remove_dir_all(&path).unwrap();
}

/// The end of the log is gone, and pages know more than it.
#[test]
fn a_log_that_is_older_than_the_pages_is_refused() {
    let path = scratch("older");
    let engine = create(&path);
    (0..50).for_each(|number| put(&engine, number));
    drop(engine);
    let copy = path.join("copy");
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(path.join("log")).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, copy.join(from.file_name().unwrap())).unwrap();
    }
    let (engine, _) = open(&path).unwrap();
    (50..300).for_each(|number| put(&engine, number));
    engine.flush().unwrap();
    drop(engine);
    std::fs::remove_dir_all(path.join("log")).unwrap();
    std::fs::rename(&copy, path.join("log")).unwrap();
    let error = open(&path).err().unwrap();
    assert!(error.to_string().contains("a page has a change"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
}

/// No caller asks for a checkpoint, and the log does not grow for ever.
#[test]
fn the_log_is_cut_in_the_background() {
    let path = scratch("background");
    drop(create(&path));
    let mut lively = config();
    lively.checkpoint_log_bytes = 50_000;
    lively.pool.checkpoint_age_bytes = 30_000;
    lively.pool.flush_interval = std::time::Duration::from_millis(5);
    let (engine, _) = open_with(&path, lively).unwrap();
    let began = std::time::Instant::now();
    let first = segments(&path)[0].clone();
    let mut number = 0;
    while number < 500 || first.exists() {
        assert!(began.elapsed().as_secs() < 60, "{} segments", segments(&path).len());
        put(&engine, number);
        number += 1;
    }
    let left = segments(&path).len();
    println!("{number} commits, {left} segments");
    assert!(engine.take_background_error().is_none());
    drop(engine);
    let (engine, _) = open(&path).unwrap();
    (0..number).for_each(|number| {
        let row = engine.begin().get(TREE, &(1_000_000 + number).to_be_bytes()).unwrap();
        assert_eq!(row, Some(vec![3; 200]), "{number}");
    });
    drop(engine);
    std::fs::remove_dir_all(&path).unwrap();
}

/// A database is made until it is whole, however often its maker is killed. Then it is never
/// touched.
#[test]
fn a_database_whose_making_was_killed_is_made_anew() {
    let making = "HEADWORKS_TEST_MAKES_IN";
    if let Ok(path) = std::env::var(making) {
        let made = Engine::create_in(Path::new(&path), config(), PAGES, &[false]);
        std::process::exit(if made.is_ok() { 0 } else { 1 });
    }
    let (mut killed, mut whole) = (0, 0);
    for round in 0..12u64 {
        let path = scratch("made");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_database_whose_making_was_killed_is_made_anew"])
            .env(making, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Wherever that is in the making.
        std::thread::sleep(std::time::Duration::from_millis(round * 2));
        child.kill().unwrap();
        child.wait().unwrap();
        let engine = match Engine::create_in(&path, config(), PAGES, &[false]) {
            Ok(engine) => {
                killed += 1;
                engine
            }
            Err(EngineError::Exists) => {
                whole += 1;
                Engine::open_in(&path, config()).unwrap().0
            }
            Err(error) => panic!("round {round}: {error}"),
        };
        put(&engine, 7);
        drop(engine);
        let again = Engine::create_in(&path, config(), PAGES, &[false]).err().unwrap();
        assert!(matches!(again, EngineError::Exists), "{again}");
        let (engine, _) = Engine::open_in(&path, config()).unwrap();
        assert_eq!(number_at(&engine, 7), 7);
    }
    println!("{killed} were made again, {whole} were whole");
}

/// Each step of the making, if it was the last.
#[test]
fn a_half_made_database_is_known_at_every_step() {
    for step in 0..5 {
        let path = scratch("half");
        let log = path.join("log");
        if step == 0 {
            std::fs::create_dir_all(&log).unwrap();
            std::fs::write(log.join("0000000000000000.log"), "").unwrap();
        } else {
            drop(FileLog::create(&log, FileLog::SEGMENT_BYTES).unwrap());
        }
        if step > 1 {
            drop(FileStorage::create(&path.join("copies"), 128, options()).unwrap());
        }
        if step > 2 {
            drop(FileStorage::create(&path.join("pages"), PAGES, options()).unwrap());
        }
        if step > 3 {
            // Records that were to make it, and a page.
            std::fs::write(log.join("0000000000000000.log"), [7; 300]).unwrap();
            let pages = FileStorage::open(&path.join("pages"), options()).unwrap();
            let pool = config().pool;
            let pool = headworks_bufferpool::BufferPool::new(
                pool,
                Arc::new(pages),
                Arc::new(headworks_bufferpool::NoWal),
                None,
            )
            .unwrap();
            let page = headworks_bufferpool::PageId(64);
            let lsn = headworks_bufferpool::Lsn(1 << 40);
            pool.create(page, lsn).unwrap().set_lsn(lsn);
            pool.close().unwrap();
        }
        let refused = Engine::open_in(&path, config()).err().unwrap();
        let is_told = matches!(refused, EngineError::NotMade | EngineError::LogFiles(_));
        assert!(is_told, "step {step}: {refused}");
        let engine = Engine::create_in(&path, config(), PAGES, &[false]).unwrap();
        (0..300).for_each(|number| put(&engine, number));
        drop(engine);
        let (engine, _) = Engine::open_in(&path, config()).unwrap();
        assert_eq!(number_at(&engine, 299), 299, "step {step}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_damaged_or_foreign_log_is_refused() {
    let path = scratch("damaged");
    let log = path.join("log");
    let kind = |log: &Path| FileLog::open(log, SEGMENT_BYTES).err().unwrap().kind();
    assert_eq!(kind(&path), std::io::ErrorKind::InvalidData, "no log");
    let engine = create(&path);
    (0..200).for_each(|number| put(&engine, number));
    assert_eq!(kind(&log), std::io::ErrorKind::ResourceBusy, "it is in use");
    drop(engine);
    let again = FileLog::create(&log, SEGMENT_BYTES).err().unwrap();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    let all = segments(&path);
    for gone in [&all[1], &all[0]] {
        std::fs::remove_file(gone).unwrap();
        assert_eq!(kind(&log), std::io::ErrorKind::InvalidData, "a segment is missing");
    }
    for (start, told) in [
        ("headworks-log 2\n0000000000000010\n00000000\n", "does not say where"),
        ("headworks-log 1\n0000000000000010\n00000000\n", "another version made this log"),
    ] {
        std::fs::write(log.join("start"), start).unwrap();
        let error = FileLog::open(&log, SEGMENT_BYTES).err().unwrap();
        assert!(error.to_string().contains(told), "{error}");
    }
    std::fs::remove_file(log.join("start")).unwrap();
    let error = FileLog::create(&log, SEGMENT_BYTES).err().unwrap();
    assert!(error.to_string().contains("nothing says where"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
}
