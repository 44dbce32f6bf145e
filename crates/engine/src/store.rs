//! Pages and log together: what trees and heaps are built on.

use crate::error::EngineError;
use crate::log::Log;
use crate::mtr::Mini;
use crate::node;
use crate::record::{Change, Origin, Write};
use crate::{btree, heap};
use headworks_bufferpool::{BufferPool, PageId, Wal, WriteGuard};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
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
    limit: u64,
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
        *self.allocation.lock() = Allocation { next: first, limit: first };
        Ok(())
    }

    /// Reads from page 0 where free pages begin. Pages given out but not used are lost.
    pub(crate) fn load_allocation(&self) -> Result<(), EngineError> {
        let next = node::link(&self.pool.read(META)?).0;
        *self.allocation.lock() = Allocation { next, limit: next };
        Ok(())
    }

    /// Gives out a page, all zeroes, latched and dirty.
    pub(crate) fn new_page(&self) -> Result<WriteGuard<'_>, EngineError> {
        let mut allocation = self.allocation.lock();
        if allocation.next == allocation.limit {
            let limit = (allocation.limit + EXTENT).min(self.pages);
            if limit == allocation.limit {
                return Err(EngineError::Full { pages: self.pages });
            }
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
