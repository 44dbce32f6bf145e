//! Batches of requests through io_uring.

use super::{PageRead, PageWrite};
use crate::error::StorageError;
use crate::ids::PageId;
use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Pause before the kernel is called again.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(1);

/// Rings for the next batches: one batch uses one ring.
pub(super) struct Rings {
    depth: u32,
    idle: Mutex<Vec<IoUring>>,
}

impl Rings {
    /// # Errors
    /// If the kernel has no io_uring, or denies it to this process.
    pub(super) fn new(depth: u32) -> std::io::Result<Self> {
        let ring = IoUring::new(depth)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE].iter().all(|&code| probe.is_supported(code)) {
            return Err(std::io::Error::from_raw_os_error(libc::ENOSYS));
        }
        Ok(Self { depth, idle: Mutex::new(vec![ring]) })
    }

    /// A ring for a batch; `None` if none is free and no more can be made.
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
    /// Writes a batch; returns when every write has ended.
    pub(super) fn write_batch(
        self,
        file: &File,
        offset_of: &dyn Fn(PageId) -> u64,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let target = types::Fd(file.as_raw_fd());
        let entry = |at: usize| {
            let write = &writes[at];
            // A page is at most a few MiB long.
            opcode::Write::new(target, write.bytes.as_ptr(), write.bytes.len() as u32)
                .offset(offset_of(write.page))
                .build()
        };
        let mut end = |at: usize, result| {
            let write = &writes[at];
            let outcome = finish(file, offset_of(write.page), write.bytes, result);
            done(at, outcome.map_err(|error| StorageError::from_io("write", write.page, &error)));
        };
        // SAFETY: `writes` borrows the bytes for the whole call, and the kernel only reads them.
        unsafe { self.run(writes.len(), &entry, &mut end) }
    }

    /// Reads a batch. Returns when every read has ended, with which of them are complete.
    pub(super) fn read_batch(
        self,
        file: &File,
        offset_of: &dyn Fn(PageId) -> u64,
        reads: &mut [PageRead<'_>],
    ) -> Vec<bool> {
        let target = types::Fd(file.as_raw_fd());
        let parts: Vec<(*mut u8, usize, PageId)> =
            reads.iter_mut().map(|it| (it.bytes.as_mut_ptr(), it.bytes.len(), it.page)).collect();
        let entry = |at: usize| {
            let (start, length, page) = parts[at];
            // A page is at most a few MiB long.
            opcode::Read::new(target, start, length as u32).offset(offset_of(page)).build()
        };
        let mut whole = vec![false; parts.len()];
        let mut end = |at: usize, result| whole[at] = usize::try_from(result) == Ok(parts[at].1);
        // SAFETY: `reads` borrows the bytes exclusively for the whole call, and no code looks at
        // them before it returns.
        unsafe { self.run(parts.len(), &entry, &mut end) };
        whole
    }

    /// Runs `count` requests in the kernel, at most `depth` at a time. `end` gets a request's index
    /// and its result, a number of bytes or a negated error number.
    ///
    /// # Safety
    /// The bytes of every entry stay where they are until this returns. The caller does not change
    /// bytes that the kernel reads, or touch those that it writes, before `end` was called for
    /// them.
    unsafe fn run(
        mut self,
        count: usize,
        entry: &dyn Fn(usize) -> squeue::Entry,
        end: &mut dyn FnMut(usize, i32),
    ) {
        let (ring, depth) = (&mut self.ring, self.rings.depth);
        let (mut next, mut under_way) = (0, 0);
        let abort = Abort;
        while next < count || under_way > 0 {
            while next < count && under_way < depth {
                let entry = entry(next).user_data(next as u64);
                // SAFETY: as the caller promises; this does not return, nor unwind, before the
                // kernel has reported the end of every entry (see `Abort` below).
                if unsafe { ring.submission().push(&entry) }.is_err() {
                    break;
                }
                next += 1;
                under_way += 1;
            }
            submit_and_wait(ring);
            let ended: Vec<(u64, i32)> =
                ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (index, result) in ended {
                under_way -= 1;
                // The index that was given above.
                end(index as usize, result);
            }
        }
        std::mem::forget(abort);
        self.rings.idle.lock().push(self.ring);
    }
}

/// Submits the pushed entries, and waits until at least one has ended.
fn submit_and_wait(ring: &mut IoUring) {
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The completion queue is full, or memory is short for a moment: completions are taken
            // first.
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

/// The result of a write. A short write has no reason in it: the write of the rest returns the
/// error.
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

/// Ends the process if it is dropped: unwinding would free buffers that the kernel still uses.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}
