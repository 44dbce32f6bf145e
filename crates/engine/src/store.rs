//! Pages and log together: what trees and heaps are built on.

use crate::error::EngineError;
use crate::log::Log;
use crate::mtr::Mini;
use crate::node;
use crate::record::{Change, Origin, Write};
use crate::{btree, heap};
use headworks_bufferpool::{BufferPool, Lsn, PageId, Wal, WriteGuard};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A table's number: a tree or a heap file. Its root is page 1 + the number, for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TableId(pub u32);

/// What is latched on the way to a leaf, beside its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TreeLatch {
    /// Nothing: pages' latches are coupled.
    #[default]
    Coupled,
    /// The whole tree, as in InnoDB before 5.7: shared until the leaf is latched, exclusively while a page splits.
    /// Whoever splits waits for all reads and read stalls that are under way in the tree, and everybody else for it.
    Whole,
}

/// Tables that a database can have.
pub(crate) const MAX_TABLES: u32 = 63;
/// Page 0 says up to where pages were given out; it is changed once for so many.
const EXTENT: u64 = 64;
const META: PageId = PageId(0);

#[derive(Default)]
struct Allocation {
    next: u64,
    /// Up to here pages are noted as given out: after a crash those that were not are lost.
    limit: u64,
    /// Pages beyond that are kept for commits that are under way.
    reserved: u64,
}

/// Pages that are kept for a commit: it can be carried out, now or by recovery.
pub(crate) struct Reserved<'s> {
    store: &'s Store,
    pages: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.store.allocation.lock().reserved -= self.pages;
    }
}

pub(crate) struct Store {
    pub(crate) pool: BufferPool,
    pub(crate) log: Arc<Log>,
    pages: u64,
    allocation: Mutex<Allocation>,
    /// One for each tree, by its root; empty if trees are not latched as a whole. A latch of a tree is taken before
    /// those of its pages.
    trees: Box<[RwLock<()>]>,
}

pub(crate) fn root_of(table: u32) -> PageId {
    PageId(1 + u64::from(table))
}

impl Store {
    pub(crate) fn new(pool: BufferPool, log: Arc<Log>, pages: u64, latch: TreeLatch) -> Self {
        let roots = if latch == TreeLatch::Whole { MAX_TABLES + 1 } else { 0 };
        let trees = (0..roots).map(|_| RwLock::default()).collect();
        Self { pool, log, pages, allocation: Mutex::default(), trees }
    }

    /// Of the tree with this root, for whoever looks for a leaf; `None` if trees are not latched.
    pub(crate) fn tree_shared(&self, root: PageId) -> Option<RwLockReadGuard<'_, ()>> {
        // Roots are below 64.
        self.trees.get(root.0 as usize).map(RwLock::read)
    }

    /// The same for whoever splits pages.
    pub(crate) fn tree_exclusive(&self, root: PageId) -> Option<RwLockWriteGuard<'_, ()>> {
        self.trees.get(root.0 as usize).map(RwLock::write)
    }

    /// Makes the first pages of an empty database with these tables (true: a heap file).
    pub(crate) fn format(&self, heaps: &[bool]) -> Result<(), EngineError> {
        let first = u64::from(MAX_TABLES) + 1;
        let mut mini = Mini::new(self);
        let meta = mini.add(self.pool.create(META, self.log.end_lsn())?);
        mini.rewrite(meta, |page| {
            node::init(page, node::HEAP, 0);
            node::set_link(page, PageId(first));
        });
        mini.finish(None);
        for (table, &heap) in (0..).zip(heaps) {
            let mut mini = Mini::new(self);
            let root = mini.add(self.pool.create(root_of(table), self.log.end_lsn())?);
            let kind = if heap { node::HEAP } else { node::LEAF };
            mini.rewrite(root, |page| node::init(page, kind, 0));
            mini.finish(None);
        }
        *self.allocation.lock() = Allocation { next: first, limit: first, reserved: 0 };
        Ok(())
    }

    /// Reads from page 0 where free pages begin. Pages given out but not used are lost. Returns when that was changed last.
    pub(crate) fn load_allocation(&self) -> Result<Lsn, EngineError> {
        let meta = self.pool.read(META)?;
        let next = node::link(&meta).0;
        *self.allocation.lock() = Allocation { next, limit: next, reserved: 0 };
        Ok(meta.lsn())
    }

    /// Keeps as many pages as these writes could need at most, so that what the log promises can be carried out. Rows that
    /// are loaded outside of commits do not heed it.
    ///
    /// # Errors
    /// [`EngineError::Full`] if there are not so many; the pool's.
    pub(crate) fn reserve(&self, writes: &[Write]) -> Result<Reserved<'_>, EngineError> {
        let pages = self.pages_at_most(writes.iter())?;
        let mut allocation = self.allocation.lock();
        if allocation.reserved + pages > self.pages.saturating_sub(allocation.limit) {
            return Err(EngineError::Full { pages: self.pages });
        }
        allocation.reserved += pages;
        Ok(Reserved { store: self, pages })
    }

    /// The same for writes that are promised already: as many as they could need are kept if there are so many.
    pub(crate) fn reserve_for_recovery<'w>(
        &self,
        writes: impl Iterator<Item = &'w Write>,
    ) -> Result<Reserved<'_>, EngineError> {
        let pages = self.pages_at_most(writes)?;
        self.allocation.lock().reserved += pages;
        Ok(Reserved { store: self, pages })
    }

    /// Pages that these writes could need: each may split every level of its tree, whose root may grow twice meanwhile.
    fn pages_at_most<'w>(
        &self,
        writes: impl Iterator<Item = &'w Write>,
    ) -> Result<u64, EngineError> {
        let mut levels: BTreeMap<u32, u64> = BTreeMap::new();
        let mut pages = 0;
        for write in writes {
            let table = match write {
                Write::Put { value: None, .. } => continue,
                Write::Append { .. } => {
                    pages += 1;
                    continue;
                }
                Write::Put { table, .. } => *table,
            };
            let level = match levels.entry(table) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    pages += 2;
                    let root = self.pool.read(root_of(table))?;
                    *unknown.insert(u64::from(node::level(&root)))
                }
            };
            pages += level + 1;
        }
        Ok(pages)
    }

    /// Gives out a page, all zeroes, latched and dirty.
    pub(crate) fn new_page(&self) -> Result<WriteGuard<'_>, EngineError> {
        let mut allocation = self.allocation.lock();
        if allocation.next == allocation.limit {
            let left = self.pages.saturating_sub(allocation.limit);
            if left == 0 {
                return Err(EngineError::Full { pages: self.pages });
            }
            // Of a whole extent the rest may be lost in a crash; the last pages are given out one by one.
            let limit =
                allocation.limit + if left > EXTENT + allocation.reserved { EXTENT } else { 1 };
            let mut mini = Mini::new(self);
            let meta = mini.add(self.pool.write(META)?);
            mini.change(meta, Change::Link { to: PageId(limit) });
            mini.finish(None);
            allocation.limit = limit;
        }
        let page = PageId(allocation.next);
        allocation.next += 1;
        drop(allocation);
        Ok(self.pool.create(page, self.log.end_lsn())?)
    }

    /// Pages given out so far.
    pub(crate) fn pages_used(&self) -> u64 {
        self.allocation.lock().next
    }

    /// Carries out one write of a commit.
    pub(crate) fn carry_out(&self, write: &Write, origin: Origin) -> Result<(), EngineError> {
        match write {
            Write::Put { table, key, value } => {
                btree::put(self, root_of(*table), key, value.as_deref(), Some(origin))
            }
            Write::Append { table, row } => heap::append(self, root_of(*table), row, Some(origin)),
        }
    }
}
