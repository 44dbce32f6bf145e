//! Batches of writes through io_uring.

use super::PageWrite;
use crate::error::StorageError;
use crate::ids::PageId;
use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Before the kernel is asked again.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(1);

/// Rings that wait for their next batch: one batch uses one ring.
pub(super) struct Rings {
    depth: u32,
    idle: Mutex<Vec<IoUring>>,
}

impl Rings {
    /// # Errors
    /// If the kernel has no io_uring, or does not let this process use it.
    pub(super) fn new(depth: u32) -> std::io::Result<Self> {
        let ring = IoUring::new(depth)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Write::CODE) {
            return Err(std::io::Error::from_raw_os_error(libc::ENOSYS));
        }
        Ok(Self { depth, idle: Mutex::new(vec![ring]) })
    }

    /// A ring for a batch; `None` if there is none and the kernel gives no more.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let idle = self.idle.lock().pop();
        let ring = idle.or_else(|| IoUring::new(self.depth).ok())?;
        Some(Taken { rings: self, ring })
    }
}

/// A ring for one batch.
pub(super) struct Taken<'r> {
    rings: &'r Rings,
    ring: IoUring,
}

impl Taken<'_> {
    /// Writes a batch at most `depth` at a time; returns when every write has ended.
    pub(super) fn write_batch(
        mut self,
        file: &File,
        offset_of: &dyn Fn(PageId) -> u64,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let (ring, depth) = (&mut self.ring, self.rings.depth);
        let (mut next, mut under_way) = (0, 0);
        while next < writes.len() || under_way > 0 {
            while next < writes.len() && under_way < depth {
                let write = &writes[next];
                // A page is at most a few MiB long.
                let length = write.bytes.len() as u32;
                let target = types::Fd(file.as_raw_fd());
                let entry = opcode::Write::new(target, write.bytes.as_ptr(), length)
                    .offset(offset_of(write.page))
                    .build()
                    .user_data(next as u64);
                // SAFETY: the bytes are borrowed by `writes` for the whole call, and the call does
                // not return, nor unwind, before the kernel has reported the end of every entry
                // (see `Abort` below); the kernel only reads them.
                if unsafe { ring.submission().push(&entry) }.is_err() {
                    break;
                }
                next += 1;
                under_way += 1;
            }
            let abort = Abort;
            submit_and_wait(ring);
            let ended: Vec<(u64, i32)> =
                ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (index, result) in ended {
                under_way -= 1;
                // It is the index that was given above.
                let at = index as usize;
                let write = &writes[at];
                let outcome = finish(file, offset_of(write.page), write.bytes, result);
                done(
                    at,
                    outcome.map_err(|error| StorageError::from_io("write", write.page, &error)),
                );
            }
            std::mem::forget(abort);
        }
        self.rings.idle.lock().push(self.ring);
    }
}

/// Gives the kernel what was pushed, and waits until something has ended.
fn submit_and_wait(ring: &mut IoUring) {
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Full of what has ended, or short of memory for a moment: what has ended is taken first.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM)
                ) =>
            {
                if !ring.completion().is_empty() {
                    return;
                }
                std::thread::sleep(SHORT_OF_MEMORY);
            }
            Err(error) => panic!("the kernel refuses a ring it gave: {error}"),
        }
    }
}

/// What became of a write. One that was cut short says nothing of the reason: who writes the rest hears of it.
fn finish(file: &File, offset: u64, bytes: &[u8], result: i32) -> std::io::Result<()> {
    let written = match usize::try_from(result) {
        Ok(written) => written,
        Err(_) => return Err(Error::from_raw_os_error(-result)),
    };
    match bytes.get(written..) {
        Some([]) => Ok(()),
        Some(rest) => file.write_all_at(rest, offset + written as u64),
        None => Err(Error::other("the kernel wrote more than it was given")),
    }
}

/// Ends the process if it is dropped: unwinding would free buffers that the kernel still reads.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}
