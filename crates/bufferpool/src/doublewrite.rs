//! The doublewrite area: a page is written elsewhere before it is written in place. So after a
//! power cut during a write one copy is intact.
//!
//! As in InnoDB up to 8.0.19, the area has room for a batch of the flusher and a few slots for
//! single pages. A read stall waits for a slot if all are taken.
//!
//! A batch costs two flushes of the device's cache, one after the other. It must not overwrite
//! copies of pages that are not yet durable in place. With room for one batch, a flusher waits for
//! flushes most of its time, however much it has to write. As in InnoDB from 8.0.20 on, an area can
//! have room for several batches ([`Doublewrite::with_batches`]): these overlap and share flushes.

use crate::error::{PoolError, StorageError};
use crate::ids::{Lsn, PageId};
use crate::memory::AlignedBuffer;
use crate::page::{HeadworksFormat, PageFormat};
use crate::storage::{IoKind, IoTag, PageWrite, Storage};
use crate::sync_state::SyncState;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// InnoDB's default of `innodb_doublewrite_batch_size`.
const BATCH_PAGES: u64 = 120;
/// What is left of InnoDB's 128 pages.
const SINGLE_SLOTS: u64 = 8;

/// The area, and its free slots.
pub struct Doublewrite {
    area: Arc<dyn Storage>,
    batch_pages: u64,
    batches: usize,
    /// First pages of the batch slots that are free.
    places: Slots,
    /// Slots for single pages.
    singles: Slots,
    /// Syncs of both the area and the pages' storage. Both often lie on one device, which reports a
    /// failed write only once, to either.
    syncs: SyncState,
    format: Arc<dyn PageFormat>,
}

/// Slots of the area: parts that can be written.
struct Slots {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    free: Vec<PageId>,
    /// Slots in use that will be given back.
    taken: usize,
    /// Slots with the only intact copy of a page that is torn in place, by page.
    kept: BTreeMap<PageId, PageId>,
}

impl Slots {
    fn new(free: Vec<PageId>) -> Self {
        Self { inside: Mutex::new(Inside { free, ..Inside::default() }), changed: Condvar::new() }
    }

    /// Takes a slot, and waits for one if needed. `None`: all are kept, and none will be given
    /// back.
    fn take(&self) -> Option<PageId> {
        let mut inside = self.inside.lock();
        loop {
            if let Some(slot) = inside.free.pop() {
                inside.taken += 1;
                return Some(slot);
            }
            if inside.taken == 0 {
                return None;
            }
            self.changed.wait(&mut inside);
        }
    }

    /// Gives a slot back, unless it has copies of pages that are `torn`.
    fn give_back(&self, slot: PageId, torn: &[PageId]) {
        let mut inside = self.inside.lock();
        inside.taken -= 1;
        // Copies from earlier attempts are useless by now.
        for &page in torn {
            inside.kept.insert(page, slot).inspect(|&older| inside.let_go(older));
        }
        inside.let_go(slot);
        self.changed.notify_all();
    }

    /// These pages are intact and durable in place.
    fn mended(&self, pages: impl Iterator<Item = PageId>) {
        let mut inside = self.inside.lock();
        if inside.kept.is_empty() {
            return;
        }
        for page in pages {
            inside.kept.remove(&page).inspect(|&slot| inside.let_go(slot));
        }
        self.changed.notify_all();
    }
}

impl Inside {
    /// Frees a slot, unless a page needs it.
    fn let_go(&mut self, slot: PageId) {
        if !self.kept.values().any(|&kept| kept == slot) && !self.free.contains(&slot) {
            self.free.push(slot);
        }
    }
}

impl Doublewrite {
    /// Pages that an area of the usual size takes.
    pub const AREA_PAGES: u64 = BATCH_PAGES + SINGLE_SLOTS;

    /// Uses `area`: its last 8 pages for single pages, the rest for batches.
    ///
    /// [`Doublewrite::AREA_PAGES`] is InnoDB's size. A larger area costs fewer syncs per page: a
    /// batch has two, however long it is.
    ///
    /// # Errors
    /// [`PoolError::Config`] if the area has fewer than [`Doublewrite::AREA_PAGES`] pages.
    pub fn new(area: Arc<dyn Storage>) -> Result<Self, PoolError> {
        Self::with_batches(area, 1)
    }

    /// Uses `area` for this many batches at a time. For each batch its last 8 pages are for single
    /// pages; the rest is divided equally among the batches.
    ///
    /// More batches keep the device busy while others wait for its flushes; each costs memory for a
    /// batch's pages and a thread while it is written.
    ///
    /// # Errors
    /// [`PoolError::Config`] if there are no batches, or fewer than [`Doublewrite::AREA_PAGES`]
    /// pages for each.
    pub fn with_batches(area: Arc<dyn Storage>, batches: usize) -> Result<Self, PoolError> {
        let wrong = |reason| Err(PoolError::Config { setting: "doublewrite area", reason });
        let Some(each) = area.pages().checked_div(batches as u64) else {
            return wrong("no batches, at least 1 is needed".into());
        };
        if each < Self::AREA_PAGES {
            return wrong(format!(
                "{} pages, at least {} are needed",
                area.pages(),
                // A number that is too large for any area need not be exact.
                Self::AREA_PAGES.saturating_mul(batches as u64)
            ));
        }
        let batch_pages = each - SINGLE_SLOTS;
        let first_single = area.pages() - SINGLE_SLOTS * batches as u64;
        let places = (0..batches as u64).map(|at| PageId(at * batch_pages)).collect();
        let singles = (first_single..area.pages()).map(PageId).collect();
        Ok(Self {
            area,
            batch_pages,
            batches,
            places: Slots::new(places),
            singles: Slots::new(singles),
            syncs: SyncState::default(),
            format: Arc::new(HeadworksFormat),
        })
    }

    /// The same for pages with another header, which is the pool's too
    /// ([`crate::Builder::format`]).
    #[must_use]
    pub fn with_format(self, format: Arc<dyn PageFormat>) -> Self {
        Self { format, ..self }
    }

    /// Batches that can be written at a time.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }

    /// Most pages of one batch.
    pub(crate) fn batch_pages(&self) -> usize {
        // An area larger than memory has no use.
        usize::try_from(self.batch_pages).unwrap_or(usize::MAX)
    }

    /// Writes one page: copy, sync, in place, sync.
    pub(crate) fn write_single(
        &self,
        storage: &dyn Storage,
        write: PageWrite<'_>,
    ) -> Result<(), StorageError> {
        let Some(slot) = self.singles.take() else { return Err(Self::no_room(write.page)) };
        let copy = IoTag { kind: IoKind::Doublewrite, ..write.tag };
        // After a failed sync no copy may be overwritten: its page may be torn.
        let copied = self
            .syncs
            .check()
            .and_then(|()| self.area.write(slot, write.bytes, copy))
            .and_then(|()| self.syncs.of_page(&*self.area));
        if copied.is_err() {
            self.singles.give_back(slot, &[]);
            return copied;
        }
        let in_place = storage.write(write.page, write.bytes, write.tag);
        if in_place.is_err() && self.is_torn(storage, write.page) {
            self.singles.give_back(slot, &[write.page]);
            return in_place;
        }
        let written = in_place.and_then(|()| self.syncs.of_page(storage));
        self.singles.give_back(slot, &[]);
        if written.is_ok() {
            self.mended([write.page].into_iter());
        }
        written
    }

    /// Whether a page whose write failed is neither in its old nor in its new state, so that its
    /// copy is needed.
    fn is_torn(&self, storage: &dyn Storage, page: PageId) -> bool {
        let mut there = AlignedBuffer::new(storage.page_size());
        let read = storage.read(page, &mut there, IoTag::of(IoKind::Other));
        read.is_err()
            || matches!(self.format.verify(&there, page), Err(error) if !matches!(error, PoolError::NeverWritten { .. }))
    }

    fn mended(&self, pages: impl Iterator<Item = PageId> + Clone) {
        self.singles.mended(pages.clone());
        self.places.mended(pages);
    }

    fn no_room(page: PageId) -> StorageError {
        let message = "no room for a copy: the doublewrite area holds copies of pages that storage has torn and does not \
                       take";
        StorageError::Io { operation: "write", page, errno: None, message: message.into() }
    }

    /// Fails if any sync has failed: nothing is written then.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.syncs.check()
    }

    /// Writes a batch: `bytes` holds the pages of `writes` one after another.
    ///
    /// # Errors
    /// The last sync of the batch failed; `done` does not get this error. The pages are in place,
    /// and it is unknown whether they are durable.
    pub(crate) fn write_batch(
        &self,
        storage: &dyn Storage,
        bytes: &[u8],
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) -> Result<(), StorageError> {
        let Some(place) = self.places.take() else {
            // Slots of pages that storage accepts again are given back.
            for (at, write) in writes.iter().enumerate() {
                done(at, self.write_single(storage, *write));
            }
            return Ok(());
        };
        let copy = IoTag::of(IoKind::Doublewrite);
        let copied = self
            .syncs
            .check()
            .and_then(|()| self.area.write_run(place, bytes, copy))
            .and_then(|()| self.syncs.of_page(&*self.area));
        if let Err(error) = copied {
            self.places.give_back(place, &[]);
            for at in 0..writes.len() {
                done(at, Err(error.clone()));
            }
            return Ok(());
        }
        // A page counts as written once it is in place; its copy is kept until the sync below.
        let mut failed = Vec::new();
        storage.write_batch(writes, &mut |at, result| {
            if result.is_err() {
                failed.push(writes[at].page);
            }
            done(at, result);
        });
        // On failure it is unknown which pages are durable, and their frames may hold other pages
        // already. So the failure is remembered.
        let synced = self.syncs.of_page(storage);
        // Only now: the copies were needed until the sync.
        let torn: Vec<_> =
            failed.iter().copied().filter(|&page| self.is_torn(storage, page)).collect();
        self.places.give_back(place, &torn);
        if synced.is_ok() {
            let pages = writes.iter().map(|write| write.page);
            self.mended(pages.filter(|page| !failed.contains(page)));
        }
        synced
    }

    /// Syncs the pages' storage for a checkpoint. Fails if that fails, or if any sync has failed
    /// before.
    ///
    /// Then no checkpoint may rely on the pages: recovery from the last one must write them again.
    pub(crate) fn sync_all(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        self.syncs.of_checkpoint(storage)
    }

    /// Erases all copies, for an area that served another page file before. Otherwise
    /// [`Doublewrite::recover`] would take its old copies for copies of new pages.
    ///
    /// # Errors
    /// Those of the area.
    pub fn clear(&self) -> Result<(), StorageError> {
        let nothing = AlignedBuffer::new(self.area.page_size());
        for slot in (0..self.area.pages()).map(PageId) {
            self.area.write(slot, &nothing, IoTag::of(IoKind::Other))?;
        }
        self.area.sync()
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> usize {
        self.area.page_size()
    }

    /// Replaces torn pages by intact copies. Call it before the log is replayed from `replay_from`.
    /// Returns the repaired pages.
    ///
    /// A power cut tears only pages that were changed after `replay_from`. Older copies of a
    /// damaged page lack changes that no replay restores. So they are not used, and the damage is
    /// reported.
    ///
    /// Without a log, that is with `Lsn(0)`, the age of copies is unknown: a torn or unreadable
    /// page may become an older version. Changes without [`crate::WriteGuard::set_lsn`] since
    /// `replay_from` look like old ones too. A torn page whose last change was such a one is not
    /// repaired.
    ///
    /// # Errors
    /// Those of writes and syncs. A page that is torn or unreadable in both places is left for the
    /// pool to report.
    pub fn recover(
        &self,
        storage: &dyn Storage,
        replay_from: Lsn,
    ) -> Result<Vec<PageId>, PoolError> {
        let tag = IoTag::of(IoKind::Other);
        let mut copy = AlignedBuffer::new(storage.page_size());
        let mut there = AlignedBuffer::new(storage.page_size());
        // A page may have copies in several slots: only the latest is not a step back.
        let mut latest: BTreeMap<PageId, (Lsn, PageId)> = BTreeMap::new();
        for slot in (0..self.area.pages()).map(PageId) {
            // A copy that is unreadable after a power cut was being written, and does not count.
            if self.area.read(slot, &mut copy, tag).is_err() {
                continue;
            }
            let Some(home) = self.format.identify(&copy) else { continue };
            let lsn = self.format.lsn(&copy);
            let outdated = replay_from > Lsn(0) && lsn <= replay_from;
            let newest = latest.get(&home).is_none_or(|&(best, _)| best < lsn);
            if home.0 < storage.pages() && newest && !outdated {
                latest.insert(home, (lsn, slot));
            }
        }
        let mut mended = Vec::new();
        for (home, (_, slot)) in latest {
            let read = storage.read(home, &mut there, tag);
            if read.is_err() || self.format.identify(&there) != Some(home) {
                self.area.read(slot, &mut copy, tag)?;
                storage.write(home, &copy, tag)?;
                mended.push(home);
            }
        }
        storage.sync()?;
        Ok(mended)
    }
}
