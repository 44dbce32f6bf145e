//! Bad storage and bad input: typed errors, a usable pool, no dirty page dropped.

use crate::small::{PAGE_SIZE, STRATEGIES, config, faulty, get, put};
use headworks_bufferpool::storage::{Fault, IoKind, IoTag, MemStorage, Storage};
use headworks_bufferpool::{
    BufferPool, Doublewrite, NoWal, PageId, PoolConfig, PoolError, StorageError, StrategyKind,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pushes page after page through the pool until `page` is out.
fn push_out(pool: &BufferPool, page: u64) {
    for other in (100..1000).cycle().take(5000) {
        if !pool.contains(PageId(page)) {
            return;
        }
        drop(pool.write_or_zero(PageId(other)).unwrap());
    }
    panic!("page {page} does not leave the pool");
}

#[test]
fn a_read_error_is_reported_and_passes() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(1000, strategy);
        put(&pool, 1, 11).unwrap();
        pool.flush_all().unwrap();
        push_out(&pool, 1);
        storage.inject(Fault::ReadError(PageId(1)));
        let error = get(&pool, 1).unwrap_err();
        let is_eio = matches!(
            error,
            PoolError::Storage(StorageError::Io { operation: "read", errno: Some(libc::EIO), .. })
        );
        assert!(is_eio, "{error:?}");
        storage.heal();
        assert_eq!(get(&pool, 1).unwrap(), 11);
    }
}

/// Readers that meet at a page while its read fails get the error or the page, never another one.
#[test]
fn readers_of_a_failing_page_never_see_another() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(200, strategy);
        for page in 0..200 {
            put(&pool, page, page as u8).unwrap();
        }
        let (failed, served) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (storage, pool, failed, served) = (&storage, &pool, &failed, &served);
                scope.spawn(move || {
                    for step in 0..4000u64 {
                        match step % 40 + thread {
                            20 => (0..200).step_by(2).for_each(|page| {
                                storage.inject(Fault::ReadError(PageId(page)));
                            }),
                            0 | 40 => storage.heal(),
                            _ => {}
                        }
                        // The readers go through the same pages at about the same time.
                        let page = step / 4 * 37 % 200;
                        match get(pool, page) {
                            Ok(value) => {
                                assert_eq!(u64::from(value), page, "reader {thread}");
                                served.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(PoolError::Storage(StorageError::Io { .. })) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{strategy:?}: {error}"),
                        }
                    }
                });
            }
        });
        assert!(failed.into_inner() > 10 && served.into_inner() > 1000, "{strategy:?}");
        storage.heal();
        (0..200).for_each(|page| assert_eq!(u64::from(get(&pool, page).unwrap()), page));
    }
}

#[test]
fn damage_on_storage_is_told_apart() {
    let (storage, pool) = faulty(1000, StrategyKind::LRU_C);
    put(&pool, 1, 11).unwrap();
    put(&pool, 2, 22).unwrap();
    pool.flush_all().unwrap();
    push_out(&pool, 1);
    push_out(&pool, 2);
    storage.inject(Fault::FlippedBit(PageId(1)));
    assert!(matches!(get(&pool, 1), Err(PoolError::Checksum { page: PageId(1), .. })));
    storage.inject(Fault::Misdirected(PageId(2), PageId(1)));
    assert!(matches!(get(&pool, 2), Err(PoolError::Misplaced { page: PageId(2), .. })));
    assert!(matches!(get(&pool, 3), Err(PoolError::NeverWritten { page: PageId(3) })));
    assert!(matches!(
        get(&pool, 1000),
        Err(PoolError::Storage(StorageError::OutOfRange { pages: 1000, .. }))
    ));
    storage.heal();
    assert_eq!((get(&pool, 1).unwrap(), get(&pool, 2).unwrap()), (11, 22));
}

/// While no write succeeds the pool fills with dirty pages, refuses more, and keeps every one; once
/// storage is well again everything arrives there.
#[test]
fn no_dirty_page_is_dropped_while_writes_fail() {
    for strategy in STRATEGIES {
        for fault in [Fault::AllWrites, Fault::Full] {
            let (storage, pool) = faulty(1000, strategy);
            storage.inject(fault);
            let mut accepted = Vec::new();
            let error = loop {
                let page = accepted.len() as u64;
                match put(&pool, page, page as u8 + 1) {
                    Ok(()) => accepted.push(page),
                    Err(error) => break error,
                }
            };
            assert!(accepted.len() >= 32, "{strategy:?}: {} pages fit", accepted.len());
            assert!(matches!(error, PoolError::Unwritable { .. }), "{strategy:?}: {error:?}");
            assert!(!error.to_string().contains("pinned"), "{error}");
            let cause = if fault == Fault::Full { "no space left" } else { "write of page" };
            assert!(error.to_string().contains(cause), "{error}");
            let closed = pool.close().unwrap_err();
            let pool = closed.pool;
            assert!(matches!(closed.error, PoolError::Storage(_)), "{:?}", closed.error);
            assert!(pool.stats().write_errors > 0);
            storage.heal();
            for &page in &accepted {
                assert_eq!(get(&pool, page).unwrap(), page as u8 + 1, "{strategy:?}");
            }
            pool.close().unwrap();
            let mut bytes = vec![0; PAGE_SIZE];
            for &page in &accepted {
                storage.read(PageId(page), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
                assert_eq!(bytes[100], page as u8 + 1, "{strategy:?}");
            }
        }
    }
}

#[test]
fn one_bad_page_does_not_stop_the_others() {
    for strategy in STRATEGIES {
        let (storage, pool) = faulty(1000, strategy);
        put(&pool, 0, 77).unwrap();
        storage.inject(Fault::WriteError(PageId(0)));
        for page in 1..500 {
            put(&pool, page, 5).unwrap();
        }
        assert!(pool.stats().write_errors > 0, "{strategy:?} tried");
        assert_eq!(get(&pool, 0).unwrap(), 77, "{strategy:?} kept it");
        storage.heal();
        pool.close().unwrap();
        let mut bytes = vec![0; PAGE_SIZE];
        storage.read(PageId(0), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
        assert_eq!(bytes[100], 77);
    }
}

/// A page that could never be written is refused before it is dirty.
#[test]
fn a_page_without_a_place_in_storage_is_not_made() {
    let (_, pool) = faulty(100, StrategyKind::LRU_C);
    for page in [100, 1 << 40, PageId::NONE.0] {
        let error = put(&pool, page, 1).unwrap_err();
        let beyond =
            matches!(error, PoolError::Storage(StorageError::OutOfRange { pages: 100, .. }));
        assert!(beyond, "{error}");
    }
    put(&pool, 99, 1).unwrap();
    pool.close().unwrap();
}

#[test]
fn a_pool_of_pinned_pages_says_so_and_recovers() {
    for strategy in STRATEGIES {
        let (_storage, pool) = faulty(1000, strategy);
        for page in 0..64 {
            put(&pool, page, 1).unwrap();
        }
        let pins: Vec<_> = (0..32).map(|page| pool.pin(PageId(page)).unwrap()).collect();
        let error = get(&pool, 40).unwrap_err();
        assert!(
            matches!(error, PoolError::Exhausted { pinned: 32, frames: 32, .. }),
            "{strategy:?}: {error}"
        );
        drop(pins);
        assert_eq!(get(&pool, 40).unwrap(), 1);
    }
}

/// A pool that cannot shrink because pages are in use says so, serves on, and shrinks when asked
/// again.
#[test]
fn a_pool_that_cannot_shrink_says_so_and_goes_on() {
    let (_, pool) = faulty(1000, StrategyKind::LRU_C);
    (0..32).for_each(|page| put(&pool, page, page as u8).unwrap());
    let pins: Vec<_> = (0..32).map(|page| pool.pin(PageId(page)).unwrap()).collect();
    let error = pool.resize(16).unwrap_err();
    assert!(matches!(error, PoolError::ShrinkIncomplete { left: 16 }), "{error}");
    drop(pins);
    pool.resize(16).unwrap();
    (0..32).for_each(|page| assert_eq!(u64::from(get(&pool, page).unwrap()), page));
    let in_memory = (0..1000).filter(|&page| pool.contains(PageId(page))).count();
    assert!(in_memory <= 16, "{in_memory} pages in 16 frames");
}

/// Memory that was given up is the system's, and pages come back when it is taken again; who
/// resizes at the same time waits.
#[test]
fn a_pool_that_shrinks_gives_memory_back() {
    const FRAMES: usize = 32_768;
    let resident = || {
        let all = std::fs::read_to_string("/proc/self/statm").unwrap();
        all.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let large = PoolConfig { frames: FRAMES, instances: 2, ..config(StrategyKind::LRU_C) };
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, FRAMES as u64));
    let pool = BufferPool::new(large, storage, Arc::new(NoWal), None).unwrap();
    (0..1000).for_each(|page| put(&pool, page, page as u8).unwrap());
    pool.flush_all().unwrap();
    (1000..30_000).for_each(|page| put(&pool, page, page as u8).unwrap());
    let before = resident();
    std::thread::scope(|scope| {
        for frames in [64, 128, 256] {
            let pool = &pool;
            scope.spawn(move || pool.resize(frames).unwrap());
        }
    });
    // Storage has them now, in its own memory.
    pool.resize(64).unwrap();
    let written = pool.stats().pages_written() as usize * PAGE_SIZE;
    let freed = (before + written).saturating_sub(resident());
    assert!(freed > 64 << 20, "{freed} bytes");
    pool.resize(FRAMES).unwrap();
    assert_eq!(pool.prefetch((0..30_000).map(PageId)).map_err(|error| error.to_string()), Ok(()));
    (0..30_000).for_each(|page| assert_eq!(get(&pool, page).unwrap(), page as u8));
}

#[test]
fn impossible_settings_are_refused() {
    let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_SIZE, 10));
    let new = |config| {
        BufferPool::new(config, Arc::clone(&storage), Arc::new(NoWal), None).err().unwrap()
    };
    let good = config(StrategyKind::LRU_C);
    let refused = |error| matches!(error, PoolError::Config { .. });
    assert!(refused(new(PoolConfig { frames: 8, ..good })));
    assert!(refused(new(PoolConfig { page_size: 8192, ..good })));
    assert!(refused(new(PoolConfig { instances: 0, ..good })));
    assert!(refused(new(PoolConfig { io_batch: 0, ..good })));
    let area = Doublewrite::new(Arc::new(MemStorage::new(8192, 128))).unwrap();
    assert!(refused(
        BufferPool::new(good, Arc::clone(&storage), Arc::new(NoWal), Some(Arc::new(area)))
            .err()
            .unwrap()
    ));
    let pool = BufferPool::new(good, Arc::clone(&storage), Arc::new(NoWal), None).unwrap();
    for page in [10, u64::MAX - 1, u64::MAX] {
        let nowhere = |result: Result<(), PoolError>| {
            matches!(result, Err(PoolError::Storage(StorageError::OutOfRange { .. })))
        };
        assert!(nowhere(pool.pin(PageId(page)).map(drop)));
        assert!(nowhere(pool.prefetch([PageId(page)])));
    }
    let huge = PoolConfig { frames: 1 << 31, ..good };
    assert!(matches!(new(huge), PoolError::TooLarge { .. }));
    for buffer_pages in [1 << 40, usize::MAX] {
        let beside = PoolConfig { strategy: StrategyKind::War { buffer_pages }, ..good };
        assert!(matches!(new(beside), PoolError::TooLarge { .. }));
    }
}
