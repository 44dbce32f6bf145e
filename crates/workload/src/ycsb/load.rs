//! The load phase: fills a store with records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::record::{Key, Record};
use super::store::Address;
use crate::db::{DbError, ErrorKind};

/// Records sent at a time: some 100 KB.
const BATCH: u64 = 100;

/// How often the observer is called.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Adds records 0 to `records` − 1. They are the same for the same seed, however many connections
/// add them. From time to time `observer` gets how many there are. It may return false to give up,
/// which is not an error.
pub fn load(
    address: &Address,
    records: u64,
    seed: u64,
    connections: usize,
    observer: &mut dyn FnMut(u64) -> bool,
) -> Result<(), DbError> {
    let (next, there) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> Result<(), DbError> {
        let mut store = address.connect()?;
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= records {
                return Ok(());
            }
            let numbers = first..records.min(first + BATCH);
            let batch: Vec<Record> =
                numbers.clone().map(|number| Record::loaded(seed, number)).collect();
            let batch: Vec<(Key, &Record)> = numbers.map(Key::of).zip(&batch).collect();
            store.insert(&batch)?;
            there.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections.max(1)).map(|_| scope.spawn(work)).collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(TELL_EVERY);
            if !observer(there.load(Ordering::Relaxed)) {
                // The other threads find no further batch.
                next.store(records, Ordering::Relaxed);
            }
        }
        for thread in threads {
            thread.join().map_err(|_| DbError::new(ErrorKind::Usage, "a loader panicked"))??;
        }
        Ok(())
    })
}
