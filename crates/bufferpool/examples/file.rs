//! A pool on a real file: write pages, close, open again, read them. Prints what the pool counted.
//!
//! `cargo run -p headworks-bufferpool --example file [PATH]`

use headworks_bufferpool::storage::{FileOptions, FileStorage};
use headworks_bufferpool::{BufferPool, Lsn, NoWal, PAGE_HEADER_BYTES, PageId, PoolConfig};
use std::path::PathBuf;
use std::sync::Arc;

const PAGES: u64 = 4_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let path =
        given.clone().unwrap_or_else(|| std::env::temp_dir().join("headworks-example.pages"));
    // A file that an earlier run left behind may be replaced.
    let options = FileOptions { replace: given.is_none(), ..FileOptions::default() };
    // A quarter of the pages fit: the rest goes to the file and comes back.
    let config = PoolConfig { frames: 1_000, ..PoolConfig::default() };

    let storage = FileStorage::create(&path, PAGES, options)?;
    println!(
        "{}: O_DIRECT {}, io_uring {}",
        path.display(),
        storage.is_direct(),
        storage.uses_uring()
    );
    let pool = BufferPool::new(config, Arc::new(storage), Arc::new(NoWal), None)?;
    for page in 0..PAGES {
        let mut guard = pool.create(PageId(page), Lsn(1))?;
        guard.change(Lsn(1))[PAGE_HEADER_BYTES..][..8].copy_from_slice(&page.to_le_bytes());
    }
    println!("written: {:?}", pool.stats());
    pool.close()?;

    let pool = BufferPool::new(
        config,
        Arc::new(FileStorage::open(&path, options)?),
        Arc::new(NoWal),
        None,
    )?;
    for page in 0..PAGES {
        let guard = pool.read(PageId(page))?;
        assert_eq!(guard[PAGE_HEADER_BYTES..][..8], page.to_le_bytes());
    }
    println!("read: {} misses, {} hits", pool.stats().misses, pool.stats().hits);
    pool.close()?;
    std::fs::remove_file(&path)?;
    Ok(())
}
