//! A small pool, and pages with one byte that counts.

use headworks_bufferpool::storage::{FaultStorage, MemStorage};
use headworks_bufferpool::{BufferPool, Lsn, NoWal, PageId, PoolConfig, PoolError, StrategyKind};
use std::sync::Arc;
use std::time::Duration;

pub const PAGE_SIZE: usize = 4096;

pub const STRATEGIES: [StrategyKind; 8] = [
    StrategyKind::Vanilla,
    StrategyKind::InnoDb56,
    StrategyKind::CfLru { window: 16 },
    StrategyKind::War { buffer_pages: 8 },
    StrategyKind::LRU_C_BASIC,
    StrategyKind::LRU_C_DYNAMIC,
    StrategyKind::LRU_C,
    StrategyKind::LRU_C_EAGER,
];

pub fn config(strategy: StrategyKind) -> PoolConfig {
    PoolConfig {
        frames: 32,
        page_size: PAGE_SIZE,
        strategy,
        flush_interval: Duration::from_millis(5),
        exhausted_after: Duration::from_millis(200),
        ..PoolConfig::default()
    }
}

/// A pool without a log on storage that fails when it is told to.
pub fn faulty(pages: u64, strategy: StrategyKind) -> (Arc<FaultStorage>, BufferPool) {
    let storage = Arc::new(FaultStorage::new(Arc::new(MemStorage::new(PAGE_SIZE, pages))));
    let pool = BufferPool::new(config(strategy), storage.clone(), Arc::new(NoWal), None).unwrap();
    (storage, pool)
}

pub fn put(pool: &BufferPool, page: u64, value: u8) -> Result<(), PoolError> {
    pool.create(PageId(page), Lsn(1))?.change(Lsn(1))[100] = value;
    Ok(())
}

pub fn get(pool: &BufferPool, page: u64) -> Result<u8, PoolError> {
    Ok(pool.read(PageId(page))?[100])
}
