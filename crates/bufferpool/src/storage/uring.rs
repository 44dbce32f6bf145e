//! Batches of writes through io_uring.

use super::PageWrite;
use crate::error::StorageError;
use crate::ids::PageId;
use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;
use std::os::fd::RawFd;

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

    /// Writes a batch at most `depth` at a time; returns when every write has ended.
    pub(super) fn write_batch(
        &self,
        fd: RawFd,
        offset_of: &dyn Fn(PageId) -> u64,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let ring = self.idle.lock().pop();
        let mut ring = match ring.map_or_else(|| IoUring::new(self.depth), Ok) {
            Ok(ring) => ring,
            Err(error) => {
                for (at, write) in writes.iter().enumerate() {
                    done(at, Err(StorageError::from_io("write", write.page, &error)));
                }
                return;
            }
        };
        let (mut next, mut under_way) = (0, 0);
        while next < writes.len() || under_way > 0 {
            while next < writes.len() && under_way < self.depth {
                let write = &writes[next];
                // A page is at most a few MiB long.
                let length = write.bytes.len() as u32;
                let entry = opcode::Write::new(types::Fd(fd), write.bytes.as_ptr(), length)
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
            loop {
                match ring.submit_and_wait(1) {
                    Ok(_) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => break,
                    Err(error) => panic!("the kernel refuses a ring it gave: {error}"),
                }
            }
            let ended: Vec<(u64, i32)> =
                ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (index, result) in ended {
                under_way -= 1;
                // It is the index that was given above.
                let at = index as usize;
                done(at, outcome(&writes[at], result));
            }
            std::mem::forget(abort);
        }
        self.idle.lock().push(ring);
    }
}

fn outcome(write: &PageWrite<'_>, result: i32) -> Result<(), StorageError> {
    if result < 0 {
        let error = std::io::Error::from_raw_os_error(-result);
        return Err(StorageError::from_io("write", write.page, &error));
    }
    if result as usize != write.bytes.len() {
        // A device that takes part of a page has no room for the rest.
        return Err(StorageError::NoSpace { page: write.page });
    }
    Ok(())
}

/// Ends the process if it is dropped: unwinding would free buffers that the kernel still reads.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}
