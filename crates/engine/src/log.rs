//! The write-ahead log: records with checksums ([`scan`]), and group commit.
//!
//! The LSN of a record is the offset of its end, plus [`FIRST`], so that no record has LSN 0.

use crate::logdev::LogDevice;
use crate::record::Record;
use crate::scan::{self, Found};
use headworks_bufferpool::{Lsn, Wal, WalError};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// LSN of the log's beginning.
pub(crate) const FIRST: u64 = 16;

struct Tail {
    /// Records that are not at the device yet.
    pending: Vec<u8>,
    end: u64,
    durable: u64,
    /// A thread is writing for all.
    flushing: bool,
    /// The device failed: anything that was not durable then never will be.
    failed: Option<String>,
}

pub(crate) struct Log {
    device: Arc<dyn LogDevice>,
    tail: Mutex<Tail>,
    flushed: Condvar,
}

impl Log {
    /// The log from `end` on; earlier parts are durable on the device.
    pub(crate) fn new(device: Arc<dyn LogDevice>, end: u64) -> Self {
        let tail = Tail { pending: Vec::new(), end, durable: end, flushing: false, failed: None };
        Self { device, tail: Mutex::new(tail), flushed: Condvar::new() }
    }

    pub(crate) fn device(&self) -> &dyn LogDevice {
        &*self.device
    }

    /// Appends a record; returns its LSN.
    pub(crate) fn append(&self, record: &Record) -> Lsn {
        let payload = record.encode();
        let sum = crc32c::crc32c(&payload);
        let mut tail = self.tail.lock();
        // A flush takes all pending records, once the previous flush is synced.
        let begins_flush = tail.pending.is_empty();
        let header = scan::header(payload.len(), sum, tail.end, begins_flush);
        tail.pending.extend(header);
        tail.pending.extend(&payload);
        tail.end += (header.len() + payload.len()) as u64;
        Lsn(tail.end)
    }

    /// Reads the device's log from LSN `start` on.
    pub(crate) fn read(device: &dyn LogDevice, start: u64) -> std::io::Result<Found> {
        let bytes = device.read_from(start - FIRST)?;
        Ok(scan::read(&bytes, start, device.sealed()? + FIRST))
    }
}

impl Wal for Log {
    fn end_lsn(&self) -> Lsn {
        Lsn(self.tail.lock().end)
    }

    fn flushed_lsn(&self) -> Lsn {
        Lsn(self.tail.lock().durable)
    }

    /// Group commit: if no other thread is writing, this one writes all pending records, for all
    /// that wait.
    fn flush_to(&self, lsn: Lsn) -> Result<(), WalError> {
        let mut tail = self.tail.lock();
        loop {
            if tail.durable >= lsn.0 {
                return Ok(());
            }
            if lsn.0 > tail.end {
                let message = format!("the log ends at {}", tail.end);
                return Err(WalError { wanted: lsn, message });
            }
            if let Some(message) = &tail.failed {
                return Err(WalError { wanted: lsn, message: message.clone() });
            }
            if tail.flushing {
                self.flushed.wait(&mut tail);
                continue;
            }
            tail.flushing = true;
            let bytes = std::mem::take(&mut tail.pending);
            let end = tail.end;
            drop(tail);
            let written = self.device.append(&bytes).and_then(|()| self.device.sync());
            tail = self.tail.lock();
            tail.flushing = false;
            match written {
                Ok(()) => tail.durable = end,
                Err(error) => tail.failed = Some(error.to_string()),
            }
            self.flushed.notify_all();
        }
    }
}
