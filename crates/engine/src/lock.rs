//! Row locks: exclusive, held until the end of the transaction, with a timeout.

use crate::error::EngineError;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

const SHARDS: usize = 256;

pub(crate) type RowKey = (u32, Vec<u8>);

#[derive(Default)]
struct Shard {
    /// Owner and number of waiters of each locked row.
    rows: Mutex<HashMap<RowKey, (u64, u32)>>,
    freed: Condvar,
}

pub(crate) struct LockTable {
    shards: Box<[Shard]>,
    hasher: RandomState,
    limit: Duration,
}

impl LockTable {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::new(),
            limit,
        }
    }

    fn shard(&self, row: &RowKey) -> &Shard {
        // Truncation keeps the lower bits, which are all that is needed.
        &self.shards[self.hasher.hash_one(row) as usize % SHARDS]
    }

    /// Locks a row for `owner`. Returns false if it had the lock already.
    pub(crate) fn lock(&self, row: &RowKey, owner: u64) -> Result<bool, EngineError> {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let deadline = Instant::now() + self.limit;
        let mut waiting = false;
        loop {
            match rows.get_mut(row) {
                None => {
                    rows.insert(row.clone(), (owner, 0));
                    return Ok(true);
                }
                Some((holder, _)) if *holder == owner => return Ok(false),
                // The lock was released while others wait: the first to come takes it.
                Some((holder, waiters)) if *holder == 0 => {
                    *holder = owner;
                    *waiters -= u32::from(waiting);
                    return Ok(true);
                }
                Some((_, waiters)) => {
                    *waiters += u32::from(!waiting);
                    waiting = true;
                }
            }
            if shard.freed.wait_until(&mut rows, deadline).timed_out() {
                if let Some((holder, waiters)) = rows.get_mut(row) {
                    *waiters -= 1;
                    if *holder == 0 && *waiters == 0 {
                        rows.remove(row);
                    }
                }
                // Limits are far below 584 million years.
                let waited_ms = self.limit.as_millis() as u64;
                return Err(EngineError::LockTimeout { table: row.0, waited_ms });
            }
        }
    }

    pub(crate) fn unlock(&self, row: &RowKey) {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        match rows.get_mut(row) {
            Some((holder, waiters)) if *waiters > 0 => {
                *holder = 0;
                shard.freed.notify_all();
            }
            _ => drop(rows.remove(row)),
        }
    }
}
