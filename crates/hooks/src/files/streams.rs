//! Streams: reads of a descriptor that follow each other, ahead of which the kernel reads.

use super::descriptors::File;
use super::kernel;
use crate::conn::DESCRIPTORS;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_region::io::CallKind;
use headworks_region::thread;
use libc::c_int;

/// A read that takes longer may have come from the device: the kernel is asked.
const DEVICE_READ: Nanos = Nanos::from_micros(60);

/// Where each descriptor's next read would be in sequence, in pages.
static NEXT_READ: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// A read has returned `bytes`: notes what it says of its descriptor. Returns whether the device
/// read for it.
pub(super) fn note(file: File, fd: c_int, offset: Option<i64>, bytes: u64, took: Nanos) -> bool {
    let mut slow = bytes > 0 && took >= DEVICE_READ;
    if slow || file.streams {
        // A slow call without a read of the device was preempted, or copied much. A quick call may
        // have made the kernel read ahead.
        slow = reads_from_device().unwrap_or(slow);
    }
    let in_sequence =
        file.region.control.hears(CallKind::ReadStream) && is_in_sequence(fd, offset, bytes);
    if slow != file.missed || file.streams {
        file.word.update(|known| known.after_read(slow, in_sequence, bytes));
    }
    slow
}

/// Whether a device has read anything for the calling thread since the thread last asked.
fn reads_from_device() -> Option<bool> {
    let blocks = kernel::blocks_read()?;
    Some(thread::with(|words| words.blocks_read.replace(blocks)) != blocks)
}

/// Whether a read began where the last one of its descriptor ended. A read at the file's own
/// position is taken for one in sequence.
fn is_in_sequence(fd: c_int, offset: Option<i64>, bytes: u64) -> bool {
    let (Some(offset), Ok(at)) = (offset, usize::try_from(fd)) else { return true };
    let Some(next) = NEXT_READ.get(at) else { return false };
    let offset = u64::try_from(offset).unwrap_or(0);
    // A few bytes more or less are the same page.
    let page = |byte: u64| (byte / 4096) as u32;
    let expected = next.load(Relaxed);
    next.store(page(offset + bytes), Relaxed);
    expected == page(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_in_sequence_where_the_last_one_ended() {
        let fd = DESCRIPTORS as c_int - 1;
        assert!(!is_in_sequence(fd, Some(8 << 20), 8192));
        assert!(is_in_sequence(fd, Some((8 << 20) + 8192), 100));
        assert!(is_in_sequence(fd, Some((8 << 20) + 8292), 100), "the same page");
        assert!(!is_in_sequence(fd, Some(0), 100));
        assert!(is_in_sequence(fd, None, 100), "at the file's own position");
    }
}
