//! Carries out one request on the store, with its fault if it has one.

use super::Submission;
use crate::buffer::Buffer;
use crate::layer::Fault;
use crate::store::{Store, tag};
use headworks_policy::block::{Operation, SECTOR_BYTES};
use std::io;

/// Does what the submission asks, unless its connection is over; afterwards its buffer holds the
/// data.
pub(super) fn perform(
    store: &dyn Store,
    submission: &mut Submission,
    fault: Option<Fault>,
) -> io::Result<()> {
    let fence = submission.fence.clone();
    let inside = fence.as_ref().map(|fence| fence.enter());
    if matches!(inside, Some(None)) {
        return Err(io::Error::from_raw_os_error(libc::ESHUTDOWN));
    }
    tag::with(submission.tag, || faulted(store, submission, fault))
}

/// The same if the store need not wait for a device; else nothing is done, and the answer is none.
pub(super) fn perform_at_once(
    store: &dyn Store,
    submission: &mut Submission,
) -> Option<io::Result<()>> {
    let fence = submission.fence.clone();
    let inside = fence.as_ref().map(|fence| fence.enter());
    if matches!(inside, Some(None)) {
        return Some(Err(io::Error::from_raw_os_error(libc::ESHUTDOWN)));
    }
    let (offset, piece) = submission.piece_bytes();
    let done = match submission.request.operation {
        Operation::Read => store.try_read(offset, &mut data_read(submission)[piece]),
        Operation::Write if !submission.request.fua => {
            store.try_write(offset, &submission.data[piece])
        }
        _ => return None,
    };
    match done {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

/// Where a read puts its data.
fn data_read(submission: &mut Submission) -> &mut Buffer {
    let len = submission.len_bytes();
    if submission.data.len() as u64 != len {
        // Reads are limited by TRANSFER_BYTES_MAX, far below the size of memory.
        submission.data = Buffer::new(len as usize);
    }
    &mut submission.data
}

fn faulted(store: &dyn Store, submission: &mut Submission, fault: Option<Fault>) -> io::Result<()> {
    match fault {
        None => plain(store, submission),
        Some(Fault::Error(errno)) => Err(io::Error::from_raw_os_error(errno)),
        Some(Fault::Torn { sectors }) => {
            if submission.request.operation == Operation::Write {
                let whole = submission.data.len();
                let part = (u64::from(sectors) * SECTOR_BYTES).min(whole as u64) as usize;
                store.write(submission.offset_bytes(), &submission.data[..part], false)?;
            }
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
        Some(Fault::Flip { byte, bit }) => flipped(store, submission, byte, bit),
    }
}

fn plain(store: &dyn Store, submission: &mut Submission) -> io::Result<()> {
    let (offset, piece) = submission.piece_bytes();
    let len = submission.len_bytes();
    match submission.request.operation {
        Operation::Read => store.read(offset, &mut data_read(submission)[piece]),
        Operation::Write => store.write(offset, &submission.data[piece], submission.request.fua),
        Operation::Flush => store.flush_at(offset),
        Operation::Discard => store.discard(offset, len),
        Operation::WriteZeroes => {
            store.write_zeroes(offset, len, submission.request.fua, submission.unmap)
        }
    }
}

fn flipped(store: &dyn Store, submission: &mut Submission, byte: u32, bit: u8) -> io::Result<()> {
    let flip = |data: &mut [u8]| {
        if let Some(byte) = data.get_mut(byte as usize) {
            *byte ^= 1 << (bit & 7);
        }
    };
    match submission.request.operation {
        Operation::Read => {
            plain(store, submission)?;
            flip(&mut submission.data);
            Ok(())
        }
        Operation::Write => {
            flip(&mut submission.data);
            let done = plain(store, submission);
            // The submitter gets its own bytes back.
            flip(&mut submission.data);
            done
        }
        _ => plain(store, submission),
    }
}
