//! Recovery by redo.

use crate::apply::apply;
use crate::error::EngineError;
use crate::log::{FIRST, Log};
use crate::logdev::LogDevice;
use crate::record::{Origin, PageChange, Record, Write};
use crate::repair::LogDamage;
use crate::scan::Found;
use crate::store::{META, Store, too_old, whole_image};
use headworks_bufferpool::{Lsn, PageId};
use std::collections::{BTreeMap, HashSet};

/// Findings and actions of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Complete records since the last checkpoint.
    pub records: u64,
    /// Page changes that were repeated: their pages lacked them.
    pub redone: u64,
    /// Writes of commits that had not been applied.
    pub completed: u64,
    /// Torn pages that the doublewrite area repaired.
    pub mended: u64,
    /// Damaged or outdated pages that were rebuilt from the log.
    pub rebuilt: u64,
    /// Pages out of service although the log has changes for them: see
    /// [`crate::Engine::out_of_service`].
    pub out_of_service: u64,
    /// Writes of commits that wait for pages out of service. The log is kept for them.
    pub waiting: u64,
    /// Bytes at the end of the log that are not complete records: remains of commits that were
    /// never acknowledged.
    pub torn_bytes: u64,
}

/// The log of a database that was in use: its records since the checkpoint, and its end.
pub(crate) struct Tail {
    start: u64,
    found: Found,
}

/// Unusable pages so far: the position of the first change that each lacks, and the reason.
type Unusable = BTreeMap<PageId, (u64, String)>;

impl Tail {
    /// Reads the log up to the torn end.
    pub(crate) fn read(device: &dyn LogDevice) -> Result<Tail, EngineError> {
        let start = device.start()? + FIRST;
        if start == FIRST {
            return Err(EngineError::NotMade);
        }
        // A killed process may have left records that can be read but are not durable.
        device.sync()?;
        let found = Log::read(device, start)?;
        if !found.damage.is_empty() {
            return Err(EngineError::LogDamaged(LogDamage::of(device, &found)));
        }
        Ok(Tail { start, found })
    }

    /// The position from which pages may lack changes in the log.
    pub(crate) fn start(&self) -> Lsn {
        Lsn(self.start)
    }

    pub(crate) fn end(&self) -> u64 {
        self.found.end
    }

    /// Brings the pages to the state at the log's end.
    pub(crate) fn replay(self, store: &Store) -> Result<RecoveryReport, EngineError> {
        let Found { records, end, torn_bytes, .. } = self.found;
        let mut report =
            RecoveryReport { records: records.len() as u64, torn_bytes, ..Default::default() };
        // With the position before each.
        let mut commits: BTreeMap<u64, (u64, Vec<Write>)> = BTreeMap::new();
        let mut carried_out: HashSet<(u64, u32)> = HashSet::new();
        let mut unusable = Unusable::new();
        let mut before = self.start;
        for (lsn, record) in records {
            match record {
                Record::Commit(writes) => drop(commits.insert(lsn, (before, writes))),
                Record::Mini { origin, changes } => {
                    carried_out.extend(origin.map(|origin| (origin.commit, origin.index)));
                    let at = At { before: Lsn(before), lsn: Lsn(lsn), end: Lsn(end) };
                    at.redo(store, changes, &mut unusable, &mut report)?;
                }
                Record::Gap => {}
                Record::Newest { page, lsn } => {
                    if let Some(reason) = lacks(store, page, lsn) {
                        unusable.entry(page).or_insert((before, reason));
                    }
                }
            }
            before = lsn;
        }
        if let Ok(meta) = store.pool.read(META) {
            within(Lsn(end), meta.lsn())?;
        }
        // The bytes after it are not records, and no page depends on them. New records replace
        // them.
        store.log.device().truncate(end - FIRST)?;
        store.load_allocation()?;
        report.out_of_service = unusable.len() as u64;
        for (page, (position, reason)) in unusable {
            store.health.lose(page, reason);
            store.health.need_log_from(Lsn(position));
        }
        let left: Vec<(u64, Origin, &Write)> = commits
            .iter()
            .flat_map(|(&commit, (before, writes))| {
                (0..)
                    .zip(writes)
                    .map(move |(index, write)| (*before, Origin { commit, index }, write))
            })
            .filter(|(_, origin, _)| !carried_out.contains(&(origin.commit, origin.index)))
            .collect();
        // A crash during this must not lose pages that the rest needs.
        let _reserved = store.reserve_for_recovery(left.iter().map(|(.., write)| *write))?;
        for (before, origin, write) in left {
            if store.carry_out_if_usable(write, origin)?.is_none() {
                report.completed += 1;
            } else {
                report.waiting += 1;
                store.health.need_log_from(Lsn(before));
            }
        }
        Ok(report)
    }
}

/// A page is written only once the log is durable up to its last change. If the log ends before
/// that, a part of it is missing.
fn within(end: Lsn, lsn: Lsn) -> Result<(), EngineError> {
    if lsn > end {
        let what =
            format!("the log: it ends at {}, and a page has a change from {}; it", end.0, lsn.0);
        return Err(EngineError::Damaged { what });
    }
    Ok(())
}

/// Why a page still lacks a change that storage once lost.
fn lacks(store: &Store, page: PageId, lsn: Lsn) -> Option<String> {
    store.health.changed(page, lsn);
    match store.pool.read(page) {
        Ok(guard) if guard.lsn() >= lsn => None,
        Ok(guard) => Some(too_old(guard.lsn(), lsn)),
        Err(error) => Some(error.to_string()),
    }
}

/// A mini-transaction's position in the log.
struct At {
    before: Lsn,
    lsn: Lsn,
    end: Lsn,
}

impl At {
    /// Repeats a mini-transaction on the pages that lack it. Unusable pages are noted.
    fn redo(
        &self,
        store: &Store,
        changes: Vec<PageChange>,
        unusable: &mut Unusable,
        report: &mut RecoveryReport,
    ) -> Result<(), EngineError> {
        let mut by_page: BTreeMap<PageId, Vec<PageChange>> = BTreeMap::new();
        for change in changes {
            by_page.entry(change.page).or_default().push(change);
        }
        for (page, changes) in by_page {
            match self.redo_page(store, page, &changes)? {
                Redo::Has => {}
                Redo::Done { rebuilt } => {
                    report.redone += 1;
                    let was = unusable.remove(&page);
                    report.rebuilt += u64::from(rebuilt || was.is_some());
                }
                Redo::Cannot(reason) => {
                    unusable.entry(page).or_insert((self.before.0, reason));
                }
            }
        }
        Ok(())
    }

    fn redo_page(
        &self,
        store: &Store,
        page: PageId,
        changes: &[PageChange],
    ) -> Result<Redo, EngineError> {
        let image = whole_image(changes);
        let guard = store.pool.write_or_zero(page);
        let guard = guard.map_err(|error| EngineError::of_page(page, error));
        let (mut guard, mut rebuilt) = match (guard, image) {
            (Ok(guard), _) => (guard, false),
            (Err(EngineError::OutOfService { .. }), Some(_)) => {
                (store.pool.write_unread(page)?, true)
            }
            (Err(EngineError::OutOfService { reason, .. }), None) => {
                return Ok(Redo::Cannot(reason));
            }
            (Err(other), _) => return Err(other),
        };
        let there = guard.lsn();
        within(self.end, there)?;
        if there >= self.lsn {
            store.health.changed(page, there);
            return Ok(Redo::Has);
        }
        // All changes of one record need the page as it was before the record.
        let wanted = changes.first().map_or(there, |change| change.before);
        if image.is_none() && there != wanted {
            return Ok(Redo::Cannot(if there < wanted {
                too_old(there, wanted)
            } else {
                format!("it has a change from LSN {}, of which the log knows nothing", there.0)
            }));
        }
        rebuilt |= there < wanted;
        let bytes = guard.change(self.before);
        match image {
            Some(image) => apply(bytes, image),
            None => changes.iter().for_each(|it| apply(bytes, &it.change)),
        }
        guard.set_lsn(self.lsn);
        store.health.changed(page, self.lsn);
        Ok(Redo::Done { rebuilt })
    }
}

/// Result of a record's changes to a page.
enum Redo {
    /// The page has them.
    Has,
    /// They were repeated, or the lost page was rebuilt.
    Done { rebuilt: bool },
    /// The changes cannot be applied to the page.
    Cannot(String),
}
