//! Transactions.

use crate::btree;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::heap;
use crate::lock::RowKey;
use crate::node::{self, MAX_KEY};
use crate::record::{Origin, Record, Write};
use crate::store::{TableId, root_of};
use headworks_bufferpool::{Lsn, Wal};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// A transaction: dropped without [`Transaction::commit`] it has no effect.
///
/// Reads see the data committed at that moment (read committed), and the transaction's own writes
/// to the row. Rows that are written, or read by [`Transaction::get_for_update`], stay locked until
/// the end.
pub struct Transaction<'e> {
    engine: &'e Shared,
    id: u64,
    writes: Vec<Write>,
    /// Where a row's write is.
    index: HashMap<RowKey, usize>,
    locks: Vec<RowKey>,
    /// The latest change of a page that was read; its commit may not be durable yet.
    seen: Cell<Lsn>,
}

impl<'e> Transaction<'e> {
    pub(crate) fn new(engine: &'e Shared, id: u64) -> Self {
        Self {
            engine,
            id,
            writes: Vec::new(),
            index: HashMap::new(),
            locks: Vec::new(),
            seen: Cell::new(Lsn(0)),
        }
    }

    /// Locks a row; false if the transaction had locked it already.
    fn lock(&mut self, row: RowKey) -> Result<bool, EngineError> {
        let is_new = self.engine.locks.lock(&row, self.id)?;
        if is_new {
            self.locks.push(row);
        }
        Ok(is_new)
    }

    /// The row of a key.
    ///
    /// # Errors
    /// [`EngineError::OutOfService`], the pool's.
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        if let Some(&at) = self.index.get(&(table.0, key.to_vec()))
            && let Write::Put { value, .. } = &self.writes[at]
        {
            return Ok(value.clone());
        }
        let _frames = self.engine.store.frames_to_descend(root_of(table.0))?;
        btree::get(&self.engine.store, root_of(table.0), key, &self.seen)
    }

    /// Locks the row of a key, whether it exists or not, and reads it.
    ///
    /// # Errors
    /// [`EngineError::LockTimeout`], [`EngineError::OutOfService`], the pool's.
    pub fn get_for_update(
        &mut self,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        self.lock((table.0, key.to_vec()))?;
        self.get(table, key)
    }

    /// Visits committed rows with `from` ≤ key < `to` in order, until `visit` returns false. The
    /// transaction's own writes are not included.
    ///
    /// A page is latched while its rows are visited: `visit` must not use the transaction.
    ///
    /// # Errors
    /// [`EngineError::OutOfService`], the pool's.
    pub fn scan(
        &self,
        table: TableId,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        let _frames = self.engine.store.frames_to_descend(root_of(table.0))?;
        btree::scan(&self.engine.store, root_of(table.0), from, to, &self.seen, visit)
    }

    /// Sets the row of a key.
    ///
    /// # Errors
    /// [`EngineError::LockTimeout`], [`EngineError::TooLong`], [`EngineError::OutOfService`].
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.check(key.len(), MAX_KEY)?;
        self.check(value.len(), self.engine.max_value())?;
        self.write(table, key, Some(value.to_vec()))
    }

    /// Removes the row of a key, if there is one.
    ///
    /// # Errors
    /// [`EngineError::LockTimeout`], [`EngineError::OutOfService`].
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), EngineError> {
        self.write(table, key, None)
    }

    /// Adds a row to a heap file.
    ///
    /// # Errors
    /// [`EngineError::TooLong`], [`EngineError::OutOfService`].
    pub fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), EngineError> {
        self.check(row.len(), self.engine.max_value())?;
        heap::probe(&self.engine.store, root_of(table.0))?;
        self.writes.push(Write::Append { table: table.0, row: row.to_vec() });
        Ok(())
    }

    fn check(&self, bytes: usize, limit: usize) -> Result<(), EngineError> {
        if bytes > limit { Err(EngineError::TooLong { bytes, limit }) } else { Ok(()) }
    }

    fn write(
        &mut self,
        table: TableId,
        key: &[u8],
        value: Option<Vec<u8>>,
    ) -> Result<(), EngineError> {
        let row = (table.0, key.to_vec());
        if self.lock(row.clone())? {
            // Before the commit is logged. A row that was already locked was also read then.
            let _frames = self.engine.store.frames_to_descend(root_of(table.0))?;
            btree::probe(&self.engine.store, root_of(table.0), key)?;
        }
        let write = Write::Put { table: table.0, key: row.1.clone(), value };
        match self.index.get(&row) {
            Some(&at) => self.writes[at] = write,
            None => {
                self.index.insert(row, self.writes.len());
                self.writes.push(write);
            }
        }
        Ok(())
    }

    /// Applies the writes. Returns when they and all data that were read are durable.
    ///
    /// # Errors
    /// [`EngineError::Full`], [`EngineError::Poisoned`], and [`EngineError::Pool`] if too few
    /// frames come free: the transaction had no effect.
    /// [`EngineError::Wal`]: recovery will show whether it had an effect.
    /// [`EngineError::Unfinished`]: it was committed, but only recovery can complete it. If a page
    /// was unusable, only that page is out of service from then on; after any other error no more
    /// changes are made.
    pub fn commit(mut self) -> Result<(), EngineError> {
        let writes = std::mem::take(&mut self.writes);
        let engine = self.engine;
        if writes.is_empty() {
            // Other transactions' writes are visible before they are durable.
            return engine.make_durable(self.seen.get());
        }
        if engine.poisoned.load(Ordering::Acquire) {
            return Err(EngineError::Poisoned);
        }
        let reserved = engine.store.reserve(&writes)?;
        // A checkpoint must not pass the commit record before its writes are applied.
        let applying = {
            let mut applying = engine.applying.lock();
            let entry = (engine.store.log.end_lsn().0, self.id);
            applying.insert(entry);
            entry
        };
        let record = Record::Commit(writes);
        let lsn = engine.store.log.append(&record);
        let Record::Commit(writes) = record else { return Ok(()) };
        let mut unfinished = None;
        for (index, write) in (0..).zip(&writes) {
            let origin = Origin { commit: lsn.0, index };
            match engine.store.carry_out_if_usable(write, origin) {
                Ok(None) => {}
                Ok(Some(waits)) => drop(unfinished.get_or_insert(waits)),
                Err(error) => {
                    engine.poisoned.store(true, Ordering::Release);
                    engine.make_durable(lsn)?;
                    return Err(EngineError::Unfinished(error.to_string()));
                }
            }
        }
        if let Some(waits) = unfinished {
            // It stays in the set of commits being applied: no checkpoint frees its record.
            engine.make_durable(lsn)?;
            return Err(EngineError::Unfinished(waits.to_string()));
        }
        engine.applying.lock().remove(&applying);
        // Others need not wait for the log.
        drop(reserved);
        // A transaction that sees the writes from here on commits later in the log.
        self.release();
        engine.make_durable(lsn)
    }

    fn release(&mut self) {
        for row in self.locks.drain(..) {
            self.engine.locks.unlock(&row);
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Longest value in pages of this size: four fit into one.
pub(crate) fn max_value(page_size: usize) -> usize {
    (page_size - 64) / 4 - node::needed(MAX_KEY, 0)
}
