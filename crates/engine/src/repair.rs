//! A damaged log: where the damage is, what is lost, and how to skip it.

use crate::error::EngineError;
use crate::log::{FIRST, Log};
use crate::logdev::LogDevice;
use crate::record::Record;
use crate::scan::{self, Damage, Found};
use std::fmt::{Display, Formatter};

/// Bytes of a log that were durable once and are not records now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// File and offset.
    pub place: String,
    /// LSN of the first byte.
    pub lsn: u64,
    /// Number of damaged bytes, whose contents are lost.
    pub bytes: u64,
    /// Complete records after it.
    pub records: u64,
    /// Commits among them.
    pub commits: u64,
}

impl Display for LogDamage {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { place, lsn, bytes, records, commits } = self;
        write!(
            f,
            "{place} (LSN {lsn}): {bytes} bytes are no record, and {records} whole ones follow, {commits} of \
             them commits"
        )
    }
}

impl LogDamage {
    pub(crate) fn list(damage: &[Self]) -> String {
        damage.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn of(device: &dyn LogDevice, found: &Found) -> Vec<Self> {
        let describe = |it: &Damage| {
            let later = &found.records[it.after..];
            let is_commit = |(_, record): &&(u64, Record)| matches!(record, Record::Commit(_));
            Self {
                place: device.place(it.from - FIRST),
                lsn: it.from,
                bytes: it.to - it.from,
                records: later.len() as u64,
                commits: later.iter().filter(is_commit).count() as u64,
            }
        };
        found.damage.iter().map(describe).collect()
    }
}

/// Finds the damage in a log. Changes nothing. A torn end is not damage: the next open cuts it off.
///
/// # Errors
/// The device's.
pub fn examine_log(device: &dyn LogDevice) -> Result<Vec<LogDamage>, EngineError> {
    let found = Log::read(device, device.start()? + FIRST)?;
    Ok(LogDamage::of(device, &found))
}

/// Skips the damage in a log, so that the database opens again. Returns the damage.
///
/// Complete records after the damage are kept. The contents of the damaged bytes are given up: a
/// commit in them is lost, except for writes that later records apply. A page with changes in them
/// is out of service, unless a later part of the log has its whole contents, or storage has the
/// changes. Nine bytes of each damage are overwritten, and everything after the last complete
/// record is cut off. Copy the log first.
///
/// # Errors
/// The device's; the call may be repeated.
pub fn repair_log(device: &dyn LogDevice) -> Result<Vec<LogDamage>, EngineError> {
    let start = device.start()? + FIRST;
    let found = Log::read(device, start)?;
    let bytes = device.read_from(start - FIRST)?;
    for &damage in &found.damage {
        // Both lie in the bytes that were read.
        let range = (damage.from - start) as usize..(damage.to - start) as usize;
        match scan::pass_over(damage, &bytes[range]) {
            Some(over) if damage.after < found.records.len() => {
                device.overwrite(damage.from - FIRST, &over)?;
            }
            _ => device.truncate(damage.from - FIRST)?,
        }
    }
    device.sync()?;
    Ok(LogDamage::of(device, &found))
}
