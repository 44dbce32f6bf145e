//! The databases that the arms run on: loaded once, and the same at the beginning of every run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use headworks_bufferpool::storage::{IoTag, MemStorage, Storage, SubStorage};
use headworks_bufferpool::{PageId, PoolConfig, StorageError, StrategyKind};
use headworks_engine::{Engine, EngineConfig, MemLog, linkbench, tpcc};
use parking_lot::RwLock;

/// Pages of 4 KiB stand for the paper's 16 KiB. So an instance has as many frames as one of the
/// paper's eight, in a quarter of the memory.
pub(super) const PAGE_BYTES: usize = 4096;

/// Frames while a database is loaded.
const LOAD_FRAMES: usize = 200_000;

/// Which database, and how large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Database {
    /// So many warehouses, each with a tenth of the standard's rows.
    Tpcc(u32),
    /// So many nodes.
    LinkBench(u32),
}

impl Database {
    /// Pages to set aside for it, with room to grow.
    fn pages(self) -> u64 {
        match self {
            Database::Tpcc(warehouses) => u64::from(warehouses) * 4_000 + 60_000,
            Database::LinkBench(nodes) => u64::from(nodes) / 2 + 60_000,
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Database::Tpcc(warehouses) => {
                format!("TPC-C, {warehouses} warehouses with a tenth of the rows")
            }
            Database::LinkBench(nodes) => format!("LinkBench, {nodes} nodes"),
        }
    }
}

/// A loaded database.
#[derive(Clone)]
pub(super) struct Data {
    pub(super) database: Database,
    storage: Arc<MemStorage>,
    /// Pages in use after loading.
    pub(super) used: u64,
}

/// Databases that are kept in memory side by side, each of 3 GB in a full run.
const KEPT_MAX: usize = 2;

static KEPT: Mutex<Vec<Data>> = Mutex::new(Vec::new());

/// Gives the memory back.
pub(super) fn forget() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The database, loaded if no earlier run had it.
///
/// `tick` is called now and then; an error of it ends the loading.
pub(super) fn get(database: Database, tick: &mut dyn FnMut() -> Result<()>) -> Result<Data> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(data) = kept.iter().find(|data| data.database == database) {
        return Ok(data.clone());
    }
    if kept.len() == KEPT_MAX {
        kept.remove(0);
    }
    let data = load(database, tick)?;
    kept.push(data.clone());
    Ok(data)
}

fn load(database: Database, tick: &mut dyn FnMut() -> Result<()>) -> Result<Data> {
    let storage = Arc::new(MemStorage::new(PAGE_BYTES, database.pages()));
    let config = EngineConfig {
        pool: PoolConfig {
            frames: LOAD_FRAMES,
            page_size: PAGE_BYTES,
            strategy: StrategyKind::LRU_C_EAGER,
            flush_interval: Duration::from_millis(200),
            ..PoolConfig::default()
        },
        ..EngineConfig::default()
    };
    let heaps: &[bool] = match database {
        Database::Tpcc(_) => &tpcc::HEAPS,
        Database::LinkBench(_) => &linkbench::HEAPS,
    };
    let log = Arc::new(MemLog::default());
    let engine = Engine::create(config, Arc::clone(&storage) as _, log, None, heaps)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let loader = scope.spawn(|| {
            let loaded = match database {
                Database::Tpcc(warehouses) => {
                    tpcc::load(&engine, tpcc::Scale::tenth(warehouses), 1)
                }
                Database::LinkBench(nodes) => linkbench::load(&engine, nodes),
            };
            done.store(true, Ordering::Release);
            loaded
        });
        let mut stopped = Ok(());
        while !done.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(200));
            // The log must not grow as large as the database.
            engine.flush()?;
            if stopped.is_ok() {
                stopped = tick();
            }
        }
        loader.join().map_err(|_| anyhow!("the loader panicked"))??;
        stopped
    })?;
    engine.flush()?;
    Ok(Data { database, used: engine.pages_used(), storage })
}

impl Data {
    /// Pages that a run can use.
    pub(super) fn pages(&self) -> u64 {
        self.database.pages()
    }

    /// The database as it was loaded, for one run, with `extra` empty pages behind it.
    pub(super) fn fresh(&self, extra: u64) -> Arc<dyn Storage> {
        let changed = (0..SHARDS).map(|_| RwLock::default()).collect();
        let pages = self.pages() + extra;
        Arc::new(Overlay { base: Arc::clone(&self.storage), pages, changed })
    }

    /// A stretch of a run's storage.
    pub(super) fn stretch(
        &self,
        storage: &Arc<dyn Storage>,
        first: u64,
        pages: u64,
    ) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(SubStorage::new(Arc::clone(storage), PageId(first), pages)?))
    }
}

const SHARDS: usize = 256;

/// Pages that were written since the overlay was made.
type Written = HashMap<PageId, Box<[u8]>>;

/// A storage that keeps what is written to it beside the storage below.
struct Overlay {
    base: Arc<MemStorage>,
    pages: u64,
    changed: Box<[RwLock<Written>]>,
}

impl Overlay {
    fn shard(&self, page: PageId) -> &RwLock<Written> {
        // The remainder is below the number of shards.
        &self.changed[(page.0 % SHARDS as u64) as usize]
    }
}

impl Storage for Overlay {
    fn page_size(&self) -> usize {
        self.base.page_size()
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        if let Some(changed) = self.shard(page).read().get(&page) {
            bytes.copy_from_slice(changed);
            return Ok(());
        }
        if page.0 < self.base.pages() {
            return self.base.read(page, bytes, tag);
        }
        if page.0 >= self.pages {
            return Err(StorageError::OutOfRange { page, pages: self.pages });
        }
        bytes.fill(0);
        Ok(())
    }

    fn write(&self, page: PageId, bytes: &[u8], _tag: IoTag) -> Result<(), StorageError> {
        if page.0 >= self.pages {
            return Err(StorageError::OutOfRange { page, pages: self.pages });
        }
        match self.shard(page).write().entry(page) {
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                entry.get_mut().copy_from_slice(bytes);
            }
            std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(bytes.into())),
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_bufferpool::storage::IoKind;

    #[test]
    fn a_run_leaves_the_database_as_it_was() {
        let tag = IoTag::of(IoKind::Other);
        let base = Arc::new(MemStorage::new(PAGE_BYTES, 100_000));
        base.write(PageId(3), &[1; PAGE_BYTES], tag).unwrap();
        let data = Data { database: Database::Tpcc(10), storage: base, used: 4 };
        let first = data.fresh(2);
        first.write(PageId(3), &[2; PAGE_BYTES], tag).unwrap();
        first.write(PageId(100_001), &[3; PAGE_BYTES], tag).unwrap();
        assert!(first.write(PageId(100_002), &[3; PAGE_BYTES], tag).is_err());
        let read = |storage: &Arc<dyn Storage>, page| {
            let mut bytes = [9; PAGE_BYTES];
            storage.read(PageId(page), &mut bytes, tag).map(|()| bytes[77])
        };
        assert_eq!(read(&first, 3).unwrap(), 2);
        assert_eq!(read(&first, 100_001).unwrap(), 3);
        assert_eq!(read(&data.fresh(2), 3).unwrap(), 1);
        assert_eq!(read(&data.fresh(2), 100_001).unwrap(), 0);
        assert!(read(&first, 100_002).is_err());
    }
}
