//! Recovery by redo.

use crate::apply::apply;
use crate::error::EngineError;
use crate::log::{FIRST, Log};
use crate::logdev::LogDevice;
use crate::record::{Change, Origin, Record, Write};
use crate::store::Store;
use headworks_bufferpool::{Lsn, PageId};
use std::collections::{BTreeMap, HashSet};

/// What recovery found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whole records from the last checkpoint on.
    pub records: u64,
    /// Page changes that were repeated: their pages lacked them.
    pub redone: u64,
    /// Writes of commits that had not been carried out.
    pub completed: u64,
    /// Torn pages that the doublewrite area mended.
    pub mended: u64,
}

/// The log of a database that was in use: its records since the checkpoint, and its end.
pub(crate) struct Tail {
    start: u64,
    records: Vec<(u64, Record)>,
    pub(crate) end: u64,
}

impl Tail {
    /// Reads the log up to what is no whole record.
    pub(crate) fn read(device: &dyn LogDevice) -> Result<Tail, EngineError> {
        let damaged = |error| EngineError::Damaged { what: format!("the log ({error})") };
        let start = device.start().map_err(damaged)? + FIRST;
        let (records, end) = Log::read(device, start)?;
        let sealed = device.sealed().map_err(damaged)?;
        if end - FIRST < sealed {
            let what = format!("the log at offset {}, and it goes on to {sealed},", end - FIRST);
            return Err(EngineError::Damaged { what });
        }
        Ok(Tail { start, records, end })
    }

    /// From where on the pages may lack what is in the log.
    pub(crate) fn start(&self) -> Lsn {
        Lsn(self.start)
    }

    /// Brings the pages to the state of the log's end.
    pub(crate) fn replay(self, store: &Store) -> Result<RecoveryReport, EngineError> {
        let mut report =
            RecoveryReport { records: self.records.len() as u64, ..Default::default() };
        let mut commits: BTreeMap<u64, Vec<Write>> = BTreeMap::new();
        let mut carried_out: HashSet<(u64, u32)> = HashSet::new();
        let mut before = self.start;
        for (lsn, record) in self.records {
            match record {
                Record::Commit(writes) => drop(commits.insert(lsn, writes)),
                Record::Mini { origin, changes } => {
                    carried_out.extend(origin.map(|origin| (origin.commit, origin.index)));
                    report.redone += redo(store, Lsn(before), Lsn(lsn), changes, Lsn(self.end))?;
                }
            }
            before = lsn;
        }
        within(Lsn(self.end), store.load_allocation()?)?;
        // What follows is no record, and no page knows of it. New records take its place.
        let cut = store.log.device().truncate(self.end - FIRST);
        cut.map_err(|error| EngineError::Damaged { what: format!("the log ({error})") })?;
        let left: Vec<(Origin, &Write)> = commits
            .iter()
            .flat_map(|(&commit, writes)| {
                (0..).zip(writes).map(move |(index, write)| (Origin { commit, index }, write))
            })
            .filter(|(origin, _)| !carried_out.contains(&(origin.commit, origin.index)))
            .collect();
        // A crash in the middle of this must not lose the pages that the rest needs.
        let _reserved = store.reserve_for_recovery(left.iter().map(|(_, write)| *write))?;
        for (origin, write) in left {
            store.carry_out(write, origin)?;
            report.completed += 1;
        }
        Ok(report)
    }
}

/// A page is written when the log is durable up to its last change: if the log ends before that, a part of it is gone.
fn within(end: Lsn, lsn: Lsn) -> Result<(), EngineError> {
    if lsn > end {
        let what =
            format!("the log: it ends at {}, and a page has a change from {}; it", end.0, lsn.0);
        return Err(EngineError::Damaged { what });
    }
    Ok(())
}

/// Repeats a mini-transaction on the pages that lack it.
fn redo(
    store: &Store,
    rec_lsn: Lsn,
    lsn: Lsn,
    changes: Vec<(PageId, Change)>,
    end: Lsn,
) -> Result<u64, EngineError> {
    let mut by_page: BTreeMap<PageId, Vec<Change>> = BTreeMap::new();
    for (page, change) in changes {
        by_page.entry(page).or_default().push(change);
    }
    let mut redone = 0;
    for (page, changes) in by_page {
        let mut guard = store.pool.write_or_zero(page)?;
        within(end, guard.lsn())?;
        if guard.lsn() < lsn {
            let bytes = guard.change(rec_lsn);
            changes.iter().for_each(|change| apply(bytes, change));
            guard.set_lsn(lsn);
            redone += 1;
        }
    }
    Ok(redone)
}
