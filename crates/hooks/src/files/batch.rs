//! Batches: calls that hand several reads and writes to the kernel at once.
//!
//! # Problem
//! `io_submit` and its like return before their I/O is done, and perhaps only the program sees its
//! end. A batch must not be split or reordered, as the program may rely on either.
//!
//! # The primitive
//! Before it is made, the whole call waits until each of its parts may run ([`before`]). The turns
//! are given back at once, since no later event would do it. What the kernel accepted is charged
//! afterwards, by the device's model, to the submitting thread ([`after`]).

use super::descriptors::{File, governed, is_directory};
use super::writeback::wait;
use super::{account, leave};
use crate::process::own_pid;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_policy::split::SMALL_BYTES;
use headworks_region::io::{CallKind, IoRegion};
use headworks_region::thread::keeping_errno;
use libc::c_int;

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Write, read or `fsync`.
    pub kind: CallKind,
    /// On this descriptor,
    pub fd: c_int,
    /// from here on,
    pub offset: i64,
    /// so many bytes.
    pub bytes: u64,
    /// A write that is durable when it ends (`RWF_DSYNC`).
    pub commits: bool,
}

impl Part {
    /// The file of the part, if it is governed.
    fn file(&self) -> Option<File> {
        let file = governed(self.fd)?;
        Some(File {
            commits: file.commits || self.commits,
            direct: file.direct || self.commits,
            ..file
        })
    }

    /// If it is a commit, others are held for it from now on. Its end is not seen.
    fn commits(&self, file: File) -> bool {
        let kind = match self.kind {
            CallKind::Fsync => CallKind::Fsync,
            CallKind::Write if file.commits && self.bytes <= SMALL_BYTES => CallKind::Commit,
            _ => return false,
        };
        file.region.control.hears(kind)
            && file.region.commits_unseen(kind, account(file.region), file.slot, self.bytes)
    }
}

/// The parts are about to be submitted by one call. Together they are held for as long as one call
/// at the most.
pub fn before(parts: impl Iterator<Item = Part>) {
    let mut held = Nanos(0);
    for part in parts {
        let Some(file) = part.file() else {
            if part.kind == CallKind::Fsync && is_directory(part.fd) {
                let mut call = None;
                super::before_sync(&mut call);
                call.as_mut().map(leave);
            }
            continue;
        };
        if part.commits(file) {
            continue;
        }
        let kind = match part.kind {
            CallKind::Read if file.region.control.hears(CallKind::ReadCall) => CallKind::ReadCall,
            // Their ends are not seen, so that nothing can be paced by them.
            CallKind::Write if file.commits && part.bytes <= SMALL_BYTES => continue,
            CallKind::Write if file.direct => CallKind::WriteDirect,
            kind => kind,
        };
        if !file.region.control.hears(kind) {
            continue;
        }
        let own = account(file.region);
        let mut ticket = file.region.enter(kind, own, file.slot, part.bytes);
        if !file.region.is_admitted(&ticket) {
            keeping_errno(|| wait(file.region, &ticket, part.fd, file.slot));
            held += file.region.admitted(&mut ticket);
        }
        file.region.release(ticket);
        if held >= file.region.control.hold_max() {
            return;
        }
    }
}

/// The kernel has accepted them.
pub fn after(parts: impl Iterator<Item = Part>) {
    for part in parts {
        let Some(file) = part.file() else { continue };
        charge(file, &part);
    }
}

/// The parts are submitted by a ring, which nothing holds.
pub fn unheld(parts: impl Iterator<Item = Part>) {
    for part in parts {
        let Some(file) = part.file() else { continue };
        part.commits(file);
        charge(file, &part);
    }
}

fn charge(file: File, part: &Part) {
    let region: &IoRegion = file.region;
    let own = account(region);
    match part.kind {
        CallKind::Write => super::wrote(file, own, part.fd, part.offset, part.bytes),
        CallKind::Fsync => region.flushed(own, file.slot),
        _ => {
            let offset = u64::try_from(part.offset).unwrap_or(0);
            region.read_submitted(own, file.slot, offset, part.bytes);
        }
    }
}

/// Most rings that are charged at a time.
const RINGS: usize = 32;

/// Their addresses in this process.
static SEEN: [AtomicUsize; RINGS] = [const { AtomicUsize::new(0) }; RINGS];

fn ring_at(ring: usize) -> Option<&'static AtomicUsize> {
    SEEN.iter().find(|seen| seen.load(Relaxed) == ring)
}

/// Whether requests through this ring are charged.
pub fn is_seen(ring: usize) -> bool {
    ring != 0 && ring_at(ring).is_some()
}

/// This process made a ring whose entries can be read before they are submitted.
pub fn ring_made(ring: usize) {
    if let Some(region) = super::region()
        && !is_seen(ring)
        && let Some(free) = ring_at(0)
    {
        free.store(ring, Relaxed);
        region.unheld.ring_made(own_pid());
    }
}

/// A ring has its end.
pub fn ring_ended(ring: usize) {
    if let Some(seen) = ring_at(ring).filter(|_| ring != 0) {
        seen.store(0, Relaxed);
        if let Some(region) = super::region() {
            region.unheld.ring_ended(own_pid());
        }
    }
}
