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
    /// Reads the log and cuts off what is no whole record.
    pub(crate) fn read(device: &dyn LogDevice) -> Result<Tail, EngineError> {
        let damaged = |error| EngineError::Damaged { what: format!("the log ({error})") };
        let start = device.start().map_err(damaged)? + FIRST;
        let (records, end) = Log::read(device, start)?;
        device.truncate(end - FIRST).map_err(damaged)?;
        Ok(Tail { start, records, end })
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
                    report.redone += redo(store, Lsn(before), Lsn(lsn), changes)?;
                }
            }
            before = lsn;
        }
        store.load_allocation()?;
        for (commit, writes) in commits {
            for (index, write) in (0..).zip(&writes) {
                if !carried_out.contains(&(commit, index)) {
                    store.carry_out(write, Origin { commit, index })?;
                    report.completed += 1;
                }
            }
        }
        Ok(report)
    }
}

/// Repeats a mini-transaction on the pages that lack it.
fn redo(
    store: &Store,
    rec_lsn: Lsn,
    lsn: Lsn,
    changes: Vec<(PageId, Change)>,
) -> Result<u64, EngineError> {
    let mut by_page: BTreeMap<PageId, Vec<Change>> = BTreeMap::new();
    for (page, change) in changes {
        by_page.entry(page).or_default().push(change);
    }
    let mut redone = 0;
    for (page, changes) in by_page {
        let mut guard = store.pool.write_or_zero(page)?;
        if guard.lsn() < lsn {
            let bytes = guard.change(rec_lsn);
            changes.iter().for_each(|change| apply(bytes, change));
            guard.set_lsn(lsn);
            redone += 1;
        }
    }
    Ok(redone)
}
