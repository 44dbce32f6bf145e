//! Which pages are usable, and how recent they must be.

use headworks_bufferpool::{Lsn, PageId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages whose LSNs share one allocation.
const CHUNK: u64 = 4096;
/// Larger than the LSN of any page.
const OUT_OF_SERVICE: u64 = u64::MAX;

/// The last known change of each page, to detect old versions from storage (lost writes), and the
/// pages that are out of service.
pub(crate) struct Health {
    /// Made when a page of the chunk is changed: a storage may have far more pages than are used.
    latest: Box<[OnceLock<Box<[AtomicU64]>>]>,
    lost: Mutex<BTreeMap<PageId, String>>,
    /// The log is kept from here on, for pages out of service.
    log_from: AtomicU64,
}

impl Health {
    pub(crate) fn new(pages: u64) -> Self {
        // A storage whose chunks exceed memory was refused before.
        let chunks = pages.div_ceil(CHUNK) as usize;
        Self {
            latest: (0..chunks).map(|_| OnceLock::new()).collect(),
            lost: Mutex::default(),
            log_from: AtomicU64::new(u64::MAX),
        }
    }

    fn chunk(&self, page: PageId) -> Option<&OnceLock<Box<[AtomicU64]>>> {
        self.latest.get((page.0 / CHUNK) as usize)
    }

    /// The position of the last known change of a page; 0 for a page without one.
    pub(crate) fn latest(&self, page: PageId) -> Lsn {
        let chunk = self.chunk(page).and_then(OnceLock::get);
        let known = chunk.map(|chunk| chunk[(page.0 % CHUNK) as usize].load(Ordering::Acquire));
        Lsn(known.unwrap_or(0))
    }

    fn set(&self, page: PageId, lsn: u64) {
        let made = || (0..CHUNK).map(|_| AtomicU64::new(0)).collect();
        let chunk = self.chunk(page).map(|chunk| chunk.get_or_init(made));
        if let Some(chunk) = chunk {
            chunk[(page.0 % CHUNK) as usize].store(lsn, Ordering::Release);
        }
    }

    /// A page was changed. The caller holds its exclusive latch.
    pub(crate) fn changed(&self, page: PageId, lsn: Lsn) {
        self.set(page, lsn.0);
    }

    /// Whether a version of a page is recent enough, and the page is in service.
    pub(crate) fn is_current(&self, page: PageId, lsn: Lsn) -> bool {
        lsn >= self.latest(page)
    }

    /// From here on the page is unusable until the database is opened again.
    pub(crate) fn lose(&self, page: PageId, reason: String) {
        self.lost.lock().entry(page).or_insert(reason);
        self.set(page, OUT_OF_SERVICE);
    }

    /// The page is intact again: its next version counts, whatever its LSN.
    pub(crate) fn regain(&self, page: PageId) {
        self.lost.lock().remove(&page);
        self.set(page, 0);
    }

    /// Why a page is out of service, if it is.
    pub(crate) fn why_lost(&self, page: PageId) -> Option<String> {
        self.lost.lock().get(&page).cloned()
    }

    /// Pages out of service need the log from here on, while the database is open.
    pub(crate) fn need_log_from(&self, position: Lsn) {
        self.log_from.fetch_min(position.0, Ordering::AcqRel);
    }

    /// From where on the log is needed for pages out of service.
    pub(crate) fn log_needed_from(&self) -> u64 {
        self.log_from.load(Ordering::Acquire)
    }

    /// All pages out of service.
    pub(crate) fn lost(&self) -> Vec<(PageId, String)> {
        self.lost.lock().iter().map(|(&page, reason)| (page, reason.clone())).collect()
    }
}
