//! Pages and log together, the basis of trees and heaps.

use crate::apply::apply;
use crate::error::EngineError;
use crate::frames::{self, Frames, ReservedFrames};
use crate::health::Health;
use crate::log::{FIRST, Log};
use crate::mtr::Mini;
use crate::node;
use crate::record::{Change, Origin, PageChange, Record, Write};
use crate::{btree, heap};
use headworks_bufferpool::{BufferPool, Lsn, PageId, PoolError, ReadGuard, Wal, WriteGuard};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A table's number: a tree or a heap file. Its root is always page 1 + the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TableId(pub u32);

/// What is latched on the way to a leaf, besides its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TreeLatch {
    /// Nothing: page latches are coupled.
    #[default]
    Coupled,
    /// The whole tree, as in InnoDB before 5.7: shared until the leaf is latched, exclusively while
    /// a page splits. A split waits for all reads and read stalls in progress in the tree, and
    /// everything else waits for it.
    Whole,
}

/// Tables that a database can have.
pub(crate) const MAX_TABLES: u32 = 63;
/// Page 0 records how far pages are allocated; it changes once for this many.
const EXTENT: u64 = 64;
pub(crate) const META: PageId = PageId(0);

#[derive(Default)]
struct Allocation {
    next: u64,
    /// Pages up to here are recorded as allocated: after a crash the unused ones are lost.
    limit: u64,
    /// Pages beyond it that are reserved for commits in progress.
    reserved: u64,
}

/// A page's bytes, a log position before all changes in them, and its LSN.
type Rebuilt = (Vec<u8>, Lsn, Lsn);

/// Pages and frames that are reserved for a commit, so that it can be applied, now or by recovery.
pub(crate) struct Reserved<'s> {
    store: &'s Store,
    pages: u64,
    _frames: Option<ReservedFrames<'s>>,
}

/// The most that a commit could need.
struct Needs {
    pages: u64,
    /// Pinned at the same time.
    frames: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.store.allocation.lock().reserved -= self.pages;
    }
}

pub(crate) struct Store {
    pub(crate) pool: BufferPool,
    pub(crate) log: Arc<Log>,
    pub(crate) health: Health,
    frames: Frames,
    pages: u64,
    allocation: Mutex<Allocation>,
    /// One for each tree, by its root; empty if trees are not latched as a whole. A tree's latch is
    /// taken before those of its pages.
    trees: Box<[RwLock<()>]>,
}

pub(crate) fn root_of(table: u32) -> PageId {
    PageId(1 + u64::from(table))
}

impl Store {
    pub(crate) fn new(pool: BufferPool, log: Arc<Log>, pages: u64, latch: TreeLatch) -> Self {
        let roots = if latch == TreeLatch::Whole { MAX_TABLES + 1 } else { 0 };
        let trees = (0..roots).map(|_| RwLock::default()).collect();
        let health = Health::new(pages);
        let frames = Frames::default();
        Self { pool, log, health, frames, pages, allocation: Mutex::default(), trees }
    }

    /// A page under its shared latch.
    ///
    /// # Errors
    /// [`EngineError::OutOfService`]; those of the pool that concern more than one page.
    pub(crate) fn read(&self, page: PageId) -> Result<ReadGuard<'_>, EngineError> {
        match self.pool.read(page) {
            Ok(guard) if self.health.is_current(page, guard.lsn()) => Ok(guard),
            other => {
                self.mend(page, other.map(|guard| (guard.to_vec(), guard.lsn())))?;
                Ok(self.pool.read(page)?)
            }
        }
    }

    /// A page under its exclusive latch.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub(crate) fn write(&self, page: PageId) -> Result<WriteGuard<'_>, EngineError> {
        match self.pool.write(page) {
            Ok(guard) if self.health.is_current(page, guard.lsn()) => Ok(guard),
            other => {
                self.mend(page, other.map(|guard| (guard.to_vec(), guard.lsn())))?;
                Ok(self.pool.write(page)?)
            }
        }
    }

    /// Rebuilds an unreadable or outdated page, if its history is in the log.
    ///
    /// The page is not in the pool, or is there unchanged: all of its changes were durable before
    /// it was written.
    #[cold]
    fn mend(
        &self,
        page: PageId,
        found: Result<(Vec<u8>, Lsn), PoolError>,
    ) -> Result<(), EngineError> {
        if let Some(reason) = self.health.why_lost(page) {
            return Err(EngineError::OutOfService { page, reason });
        }
        let latest = self.health.latest(page);
        let reason = match &found {
            Ok((_, lsn)) => too_old(*lsn, latest),
            Err(PoolError::Storage(error)) => {
                // The next attempt may succeed.
                return Err(EngineError::of_page(page, PoolError::Storage(error.clone())));
            }
            Err(error) => match EngineError::of_page(page, error.clone()) {
                EngineError::OutOfService { reason, .. } => reason,
                other => return Err(other),
            },
        };
        let stale = found.ok();
        let Ok(known) = self.as_logged(page, stale.as_ref()) else {
            // The log was being cut, or fails: the next attempt may succeed.
            return Err(EngineError::OutOfService { page, reason });
        };
        let Some((bytes, rec_lsn, lsn)) = known.filter(|&(.., lsn)| lsn >= latest) else {
            self.health.lose(page, reason.clone());
            if stale.is_some() {
                // The next open has no other way to know.
                self.health.need_log_from(self.log.end_lsn());
                self.log.append(&Record::Newest { page, lsn: latest });
            }
            return Err(EngineError::OutOfService { page, reason });
        };
        let mut guard = self.pool.write_unread(page)?;
        // Another thread may have been faster, and may have changed it since.
        if guard.lsn() < lsn {
            guard.change(rec_lsn)[node::FIRST_BYTE..].copy_from_slice(&bytes[node::FIRST_BYTE..]);
            guard.set_lsn(lsn);
            self.health.changed(page, lsn);
        }
        Ok(())
    }

    /// A page rebuilt from the log, starting from a complete image or from storage's version.
    fn as_logged(
        &self,
        page: PageId,
        stale: Option<&(Vec<u8>, Lsn)>,
    ) -> std::io::Result<Option<Rebuilt>> {
        let start = self.log.device().start()? + FIRST;
        let mut before = Lsn(start);
        let mut known: Option<Rebuilt> = None;
        for (lsn, record) in Log::read(self.log.device(), start)?.records {
            if let Record::Mini { changes, .. } = record {
                let changes: Vec<_> = changes.into_iter().filter(|it| it.page == page).collect();
                if let Some(image) = whole_image(&changes) {
                    let mut bytes = vec![0; self.pool.config().page_size];
                    apply(&mut bytes, image);
                    known = Some((bytes, before, Lsn(lsn)));
                } else if let Some(first) = changes.first() {
                    let base = stale.filter(|base| known.is_none() && base.1 == first.before);
                    known = known.or(base.map(|(bytes, lsn)| (bytes.clone(), before, *lsn)));
                    if let Some((bytes, _, end)) = &mut known {
                        if first.before != *end {
                            return Ok(None);
                        }
                        changes.iter().for_each(|it| apply(bytes, &it.change));
                        *end = Lsn(lsn);
                    }
                }
            }
            before = Lsn(lsn);
        }
        Ok(known)
    }

    /// Latches the tree with this root to search for a leaf; `None` if trees are not latched.
    pub(crate) fn tree_shared(&self, root: PageId) -> Option<RwLockReadGuard<'_, ()>> {
        // Roots are below 64.
        self.trees.get(root.0 as usize).map(RwLock::read)
    }

    /// The same to split pages.
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

    /// Reads the start of the free pages from page 0. Pages that were allocated but not used are
    /// lost.
    pub(crate) fn load_allocation(&self) -> Result<(), EngineError> {
        let next = match self.read(META) {
            Ok(meta) => node::link(&meta).0,
            Err(EngineError::OutOfService { .. }) => self.remake_allocation()?,
            Err(other) => return Err(other),
        };
        *self.allocation.lock() = Allocation { next, limit: next, reserved: 0 };
        Ok(())
    }

    /// Page 0 records only the allocation, which the pages show too: free pages begin after the
    /// last written one. Changes in the log are in the pool already.
    fn remake_allocation(&self) -> Result<u64, EngineError> {
        let first = u64::from(MAX_TABLES) + 1;
        let written = |&page: &u64| {
            !matches!(self.pool.read(PageId(page)), Err(PoolError::NeverWritten { .. }))
        };
        let next = (first..self.pages).rev().find(written).map_or(first, |page| page + 1);
        let mut mini = Mini::new(self);
        let meta = mini.add(self.pool.write_unread(META)?);
        mini.rewrite(meta, |page| {
            node::init(page, node::HEAP, 0);
            node::set_link(page, PageId(next));
        });
        self.health.regain(META);
        mini.finish(None);
        Ok(next)
    }

    /// Reserves frames to look for a leaf, or to add a row to a heap file.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`].
    pub(crate) fn frames_to_descend(
        &self,
        root: PageId,
    ) -> Result<ReservedFrames<'_>, EngineError> {
        self.frames.reserve(&self.pool, frames::DESCENT, root)
    }

    /// Reserves frames to set a row of the tree with this root outside a commit.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`]; those of reading the root.
    pub(crate) fn frames_to_put(&self, root: PageId) -> Result<ReservedFrames<'_>, EngineError> {
        let level = u64::from(node::level(&self.read(root)?));
        self.frames.reserve(&self.pool, frames::of_put(level), root)
    }

    /// Reserves as many pages and frames as these writes could need, so that every logged commit
    /// can be applied. Rows loaded outside commits ignore the pages.
    ///
    /// # Errors
    /// [`EngineError::Full`] if there are too few pages, [`PoolError::Exhausted`] if there are too
    /// few frames; the pool's.
    pub(crate) fn reserve(&self, writes: &[Write]) -> Result<Reserved<'_>, EngineError> {
        let Needs { pages, frames } = self.needs(writes.iter())?;
        let held = self.frames.reserve(&self.pool, frames, META)?;
        let mut allocation = self.allocation.lock();
        if allocation.reserved + pages > self.pages.saturating_sub(allocation.limit) {
            return Err(EngineError::Full { pages: self.pages });
        }
        allocation.reserved += pages;
        Ok(Reserved { store: self, pages, _frames: Some(held) })
    }

    /// The same for writes that are already logged: reserves as many pages as they could need, if
    /// there are enough. No other thread pins frames then.
    pub(crate) fn reserve_for_recovery<'w>(
        &self,
        writes: impl Iterator<Item = &'w Write>,
    ) -> Result<Reserved<'_>, EngineError> {
        // Those of a table whose root is unusable are not applied now.
        let usable = writes.filter(|write| match write {
            Write::Put { table, .. } => self.read(root_of(*table)).is_ok(),
            Write::Append { .. } => true,
        });
        let pages = self.needs(usable)?.pages;
        self.allocation.lock().reserved += pages;
        Ok(Reserved { store: self, pages, _frames: None })
    }

    /// What these writes could need: each may split every level of its tree, whose root may rise
    /// twice meanwhile.
    fn needs<'w>(&self, writes: impl Iterator<Item = &'w Write>) -> Result<Needs, EngineError> {
        let mut levels: BTreeMap<u32, u64> = BTreeMap::new();
        let mut needs = Needs { pages: 0, frames: frames::DESCENT };
        for write in writes {
            let table = match write {
                Write::Put { value: None, .. } => continue,
                Write::Append { .. } => {
                    needs.pages += 1;
                    continue;
                }
                Write::Put { table, .. } => *table,
            };
            let level = match levels.entry(table) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    needs.pages += 2;
                    let root = self.read(root_of(table))?;
                    *unknown.insert(u64::from(node::level(&root)))
                }
            };
            needs.pages += level + 1;
            needs.frames = needs.frames.max(frames::of_put(level));
        }
        Ok(needs)
    }

    /// Allocates a page, all zeroes, latched and dirty.
    pub(crate) fn new_page(&self) -> Result<WriteGuard<'_>, EngineError> {
        let mut allocation = self.allocation.lock();
        if allocation.next == allocation.limit {
            let left = self.pages.saturating_sub(allocation.limit);
            if left == 0 {
                return Err(EngineError::Full { pages: self.pages });
            }
            // A crash may lose the rest of an extent; the last pages are allocated one by one.
            let limit =
                allocation.limit + if left > EXTENT + allocation.reserved { EXTENT } else { 1 };
            let mut mini = Mini::new(self);
            let meta = mini.add(self.write(META)?);
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

    /// Applies one write of a commit.
    pub(crate) fn carry_out(&self, write: &Write, origin: Origin) -> Result<(), EngineError> {
        match write {
            Write::Put { table, key, value } => {
                btree::put(self, root_of(*table), key, value.as_deref(), Some(origin))
            }
            Write::Append { table, row } => heap::append(self, root_of(*table), row, Some(origin)),
        }
    }

    /// As [`Store::carry_out`]. An unusable page is out of service from here on, and is returned
    /// with the reason: its changes wait in the log, and it must not be seen without them.
    pub(crate) fn carry_out_if_usable(
        &self,
        write: &Write,
        origin: Origin,
    ) -> Result<Option<EngineError>, EngineError> {
        match self.carry_out(write, origin) {
            Ok(()) => Ok(None),
            Err(EngineError::OutOfService { page, reason }) => {
                self.health.lose(page, reason.clone());
                Ok(Some(EngineError::OutOfService { page, reason }))
            }
            Err(other) => Err(other),
        }
    }
}

/// The change with the complete page, if there is one among a mini-transaction's changes to it.
pub(crate) fn whole_image(changes: &[PageChange]) -> Option<&Change> {
    // It is logged last, and includes the others.
    let whole = |change: &&Change| matches!(change, Change::Image { .. });
    changes.iter().map(|it| &it.change).rfind(whole)
}

/// Message for an outdated version of a page.
pub(crate) fn too_old(found: Lsn, wanted: Lsn) -> String {
    format!(
        "storage gave it back as it was at LSN {}, and it was changed at {}: a write was lost",
        found.0, wanted.0
    )
}
