//! What an engine adds to the pool, and what it can rely on: a page header, repair of bad pages,
//! LSNs that stay, storage that grows while it is in use.

use crate::small::{PAGE_SIZE, STRATEGIES, config, faulty, get, put};
use headworks_bufferpool::storage::{FileOptions, FileStorage, IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{
    BadPage, BufferPool, Doublewrite, Lsn, PageFormat, PageId, PoolConfig, PoolError, StorageError,
    StrategyKind,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A header as PostgreSQL has it: the LSN first, a sum of 16 bits behind it, no page number.
struct Foreign;

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes[..8].iter().chain(&bytes[10..]);
    words.fold(1u16, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

impl PageFormat for Foreign {
    fn lsn(&self, bytes: &[u8]) -> Lsn {
        Lsn(u64::from_be_bytes(bytes[..8].try_into().unwrap()))
    }

    fn set_lsn(&self, bytes: &mut [u8], lsn: Lsn) {
        bytes[..8].copy_from_slice(&lsn.0.to_be_bytes());
    }

    fn stamp(&self, bytes: &mut [u8], _page: PageId) {
        let sum = sum(bytes).to_be_bytes();
        bytes[8..10].copy_from_slice(&sum);
    }

    fn verify(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError> {
        let (stored, computed) = (u16::from_be_bytes([bytes[8], bytes[9]]), sum(bytes));
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(PoolError::NeverWritten { page });
        }
        match stored == computed {
            true => Ok(()),
            false => {
                Err(PoolError::Checksum { page, stored: stored.into(), computed: computed.into() })
            }
        }
    }

    fn identify(&self, bytes: &[u8]) -> Option<PageId> {
        // The page's number stands in the engine's own part.
        let page = PageId(u64::from_be_bytes(bytes[16..24].try_into().unwrap()));
        self.verify(bytes, page).is_ok().then_some(page)
    }
}

#[test]
fn a_header_of_the_engines_own_is_all_that_is_on_a_page() {
    for strategy in STRATEGIES {
        let storage = Arc::new(MemStorage::new(PAGE_SIZE, 300));
        let area = Arc::new(MemStorage::new(PAGE_SIZE, Doublewrite::AREA_PAGES));
        let area = Doublewrite::new(area).unwrap().with_format(Arc::new(Foreign));
        let pool = BufferPool::builder(config(strategy), storage.clone())
            .doublewrite(Some(Arc::new(area)))
            .format(Arc::new(Foreign))
            .build()
            .unwrap();
        for page in 0..200u64 {
            let mut guard = pool.create(PageId(page), Lsn(1)).unwrap();
            let bytes = guard.change(Lsn(1));
            bytes[10..].fill(page as u8);
            bytes[16..24].copy_from_slice(&page.to_be_bytes());
            guard.set_lsn(Lsn(1_000 + page));
        }
        for page in 0..200u64 {
            let guard = pool.read(PageId(page)).unwrap();
            assert_eq!((guard.lsn(), guard[100]), (Lsn(1_000 + page), page as u8), "{strategy:?}");
        }
        pool.close().unwrap();
        let mut bytes = vec![0; PAGE_SIZE];
        storage.read(PageId(7), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
        assert_eq!((Foreign.lsn(&bytes), Foreign.identify(&bytes)), (Lsn(1_007), Some(PageId(7))));
    }
}

/// Knows what each page should have.
struct Mirror(AtomicU64);

impl BadPage for Mirror {
    fn mend(&self, page: PageId, bytes: &mut [u8], error: &PoolError) -> Option<Lsn> {
        assert!(matches!(error, PoolError::Checksum { .. }), "{error}");
        self.0.fetch_add(1, Ordering::SeqCst);
        if page.0 == 5 {
            return None; // It is not on the mirror.
        }
        bytes.fill(0);
        bytes[100] = page.0 as u8 + 1;
        Some(Lsn(1))
    }
}

#[test]
fn a_bad_page_is_mended_by_the_engine_and_written_again() {
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, 100));
    let mirror = Arc::new(Mirror(AtomicU64::new(0)));
    let open = || {
        let builder = BufferPool::builder(config(StrategyKind::LRU_C_EAGER), storage.clone());
        builder.bad_page(mirror.clone()).build().unwrap()
    };
    let pool = open();
    (0..10).for_each(|page| put(&pool, page, page as u8 + 1).unwrap());
    pool.close().unwrap();
    let tag = IoTag::of(IoKind::Other);
    for page in [3, 4, 5] {
        let mut bytes = vec![0; PAGE_SIZE];
        storage.read(PageId(page), &mut bytes, tag).unwrap();
        bytes[2_000] ^= 1;
        storage.write(PageId(page), &bytes, tag).unwrap();
    }
    let pool = open();
    assert_eq!(get(&pool, 3).unwrap(), 4);
    pool.prefetch([PageId(4)]).unwrap();
    assert_eq!(get(&pool, 4).unwrap(), 5);
    assert!(matches!(get(&pool, 5), Err(PoolError::Checksum { .. })));
    pool.close().unwrap();
    // Storage is well again, but for the page that could not be mended.
    let asked = mirror.0.load(Ordering::SeqCst);
    let pool = open();
    assert_eq!((get(&pool, 3).unwrap(), get(&pool, 4).unwrap()), (4, 5));
    assert_eq!(mirror.0.load(Ordering::SeqCst), asked);
}

#[test]
fn an_lsn_is_neither_overwritten_nor_set_back() {
    let (_storage, pool) = faulty(100, StrategyKind::LRU_C_EAGER);
    let mut guard = pool.create(PageId(1), Lsn(1)).unwrap();
    guard.set_lsn(Lsn(50));
    // An engine that clears a whole page.
    guard.change(Lsn(1)).fill(0xFF);
    drop(guard);
    assert_eq!(pool.read(PageId(1)).unwrap().lsn(), Lsn(50));
    let mut guard = pool.write(PageId(1)).unwrap();
    guard.change(Lsn(1));
    guard.set_lsn(Lsn(40));
    assert_eq!(guard.lsn(), Lsn(50));
    guard.set_lsn(Lsn(60));
    drop(guard);
    assert_eq!(pool.read(PageId(1)).unwrap().lsn(), Lsn(60));
    pool.close().unwrap();
}

#[test]
fn a_file_grows_while_its_pool_is_in_use() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("grows-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    let storage = Arc::new(FileStorage::create(&path, 10, options).unwrap());
    let pool =
        BufferPool::builder(config(StrategyKind::LRU_C_EAGER), storage.clone()).build().unwrap();
    put(&pool, 9, 9).unwrap();
    let beyond = put(&pool, 10, 10).unwrap_err();
    assert!(matches!(beyond, PoolError::Storage(StorageError::OutOfRange { .. })), "{beyond}");
    storage.extend(200).unwrap();
    (10..200).for_each(|page| put(&pool, page, page as u8).unwrap());
    storage.extend(100).unwrap();
    assert_eq!(storage.pages(), 200, "it does not shrink");
    pool.close().unwrap();
    drop(storage);
    let storage = Arc::new(FileStorage::open(&path, options).unwrap());
    let pool = BufferPool::builder(config(StrategyKind::LRU_C_EAGER), storage).build().unwrap();
    assert_eq!((get(&pool, 9).unwrap(), get(&pool, 199).unwrap()), (9, 199));
    pool.close().unwrap();
    std::fs::remove_file(&path).unwrap();
}

/// Pages are found by their numbers as by their hashes, also those beyond the array.
#[test]
fn pages_are_found_by_number_in_storage_that_grows() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("numbers-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    let storage = Arc::new(FileStorage::create(&path, 300, options).unwrap());
    for instances in [1, 2] {
        let by_number = PoolConfig {
            frames: 64,
            instances,
            by_number: true,
            ..config(StrategyKind::LRU_C_EAGER)
        };
        let pool = BufferPool::builder(by_number, storage.clone()).build().unwrap();
        (0..300).for_each(|page| put(&pool, page, page as u8).unwrap());
        storage.extend(2_000).unwrap();
        (300..2_000).for_each(|page| put(&pool, page, page as u8).unwrap());
        for page in (0..2_000).rev() {
            assert_eq!(get(&pool, page).unwrap(), page as u8, "page {page}");
        }
        pool.close().unwrap();
    }
    std::fs::remove_file(&path).unwrap();
}

/// A page that is used again and again survives a scan of pages that are used once.
#[test]
fn an_order_by_frequency_keeps_what_is_used_often() {
    let hits = |frequency: bool| {
        let storage = Arc::new(MemStorage::new(PAGE_SIZE, 20_000));
        let wide = PoolConfig {
            frames: 1_024,
            frequency,
            background: false,
            ..config(StrategyKind::LRU_C_EAGER)
        };
        let pool = BufferPool::builder(wide, storage).build().unwrap();
        (0..12_000).for_each(|page| put(&pool, page, 1).unwrap());
        pool.flush_all().unwrap();
        let mut hits = 0;
        for round in 0..20u64 {
            // 300 pages that matter, between 1,500 that are read once.
            for page in 0..300 {
                hits += u64::from(pool.contains(PageId(page)));
                get(&pool, page).unwrap();
            }
            let from = 300 + round % 7 * 1_500;
            (from..from + 1_500).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 1));
        }
        hits
    };
    let (recency, frequency) = (hits(false), hits(true));
    assert_eq!(recency, 0, "each scan is longer than the list");
    assert!(frequency > 10 * 300, "{frequency} of 6000");
}
