//! Dirty pages that no hook saw being written.
//!
//! # Problem
//! `fwrite` and its like call the C library's own `write`. A mapping is written without a call, and
//! POSIX AIO writes by threads of the C library. Such pages would neither be written back before an
//! `fsync`, nor charged.
//!
//! # The primitive
//! What a thread puts into streams is counted. After each [`STEP`], the file is asked how far it
//! has come, and what lies between is treated as one write ([`streamed`]). Before an `fsync`, and
//! when a stream is closed, `cachestat` tells which pages are dirty ([`before_sync_of`],
//! [`closing`]). They are charged to the thread that calls.

use super::descriptors::{File, governed_after_check};
use super::kernel::{self, cache_state};
use super::{after_write, before_write, leave, places, status};
use crate::conn::DESCRIPTORS;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, PAGE_BYTES, PIECE_BYTES};
use headworks_region::clock;
use headworks_region::io::Found;
use headworks_region::thread::{self, keeping_errno};
use libc::c_int;

/// A thread may put so many bytes into streams before a file is asked.
const STEP: u32 = 64 << 10;

/// Dirty pages that no hook saw are searched for if a file has at least this many.
const UNSEEN_MIN: u64 = 64;

/// The search ends after this time: a huge file is not searched to its end.
const SEARCH_MAX: Nanos = Nanos::from_millis(5);

/// The kernel looks at each cached page of a file to count those that are dirty. In the foreground,
/// that may take one part in so many of a process's time.
const PART: u64 = 50;

/// Until then, nothing is looked for in the foreground of this process.
static NEXT_LOOK_NS: AtomicU64 = AtomicU64::new(0);

/// Where each descriptor's stream was when it was last asked: the file's slot (upper half) and the
/// page in it (lower half).
static REACHED: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

/// Before a call that makes a file durable. In the foreground, pages are looked for only if no
/// write of the file was seen since the last such call: else most were seen.
pub(super) fn before_sync_of(
    file: File,
    found: &Found,
    account: Account,
    fd: c_int,
    range: (u64, u64),
) {
    let background =
        file.region.control.kind().puts_clients_first() && file.region.is_background(account);
    if background {
        find(file, found, account, fd, range);
    } else if found.pages == 0 || found.mapped {
        look(file, found, account, fd);
    }
}

/// Looks for pages, for a small part of the time only.
fn look(file: File, found: &Found, account: Account, fd: c_int) -> bool {
    let began = clock::now();
    let next = Nanos(NEXT_LOOK_NS.load(Relaxed));
    // The clock of a process that was moved to another machine may be behind.
    if began < next && next.since(began) < Nanos::from_millis(10_000) {
        return false;
    }
    let any = find(file, found, account, fd, (0, u64::MAX));
    let now = clock::now();
    NEXT_LOOK_NS.store((now + Nanos(now.since(began).0.saturating_mul(PART))).0, Relaxed);
    any
}

/// Tells the region of dirty pages in a range of a file that no hook saw. Says whether there were
/// any.
fn find(file: File, found: &Found, account: Account, fd: c_int, (from, to): (u64, u64)) -> bool {
    let region = file.region;
    let bytes = if to == u64::MAX { 0 } else { to - from };
    let Some(all) = cache_state(fd, from, bytes) else { return false };
    if all.nr_dirty < found.pages + UNSEEN_MIN {
        return false;
    }
    let size = status::of(fd).map_or(0, |file| file.size);
    let (mut left, until) = (all.nr_dirty, clock::now() + SEARCH_MAX);
    let from = from - from % PIECE_BYTES;
    for offset in (from..size.min(to)).step_by(PIECE_BYTES as usize) {
        let dirty = cache_state(fd, offset, PIECE_BYTES).map_or(0, |cache| cache.nr_dirty);
        if dirty > 0 {
            let bytes = PIECE_BYTES.min(size - offset);
            region.dirtied_unseen(account, file.slot, offset, bytes);
            places::note(file, account, fd, offset, bytes);
        }
        left = left.saturating_sub(dirty);
        if left == 0 || clock::now() > until {
            break;
        }
    }
    true
}

/// The thread has put so many bytes into a stream. Says whether the stream's file is to be told by
/// [`streamed`].
#[inline]
pub fn counts(bytes: usize) -> bool {
    thread::with(|words| {
        let sum = words.streamed.get().saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        words.streamed.set(sum);
        sum >= STEP
    })
}

/// Some of what the thread has put into streams is in this descriptor's file: that counts as a
/// write, which waits its turn now.
pub fn streamed(fd: c_int) {
    let counted = thread::with(|words| words.streamed.replace(0));
    let Some((file, _)) = governed_after_check(fd).filter(|(file, _)| !file.direct) else { return };
    let Some(reached) = usize::try_from(fd).ok().and_then(|fd| REACHED.get(fd)) else { return };
    let Ok(at) = u64::try_from(kernel::position(fd)) else { return };
    let place = |at: u64| u64::from(file.slot) << 32 | (at / PAGE_BYTES) & u64::from(u32::MAX);
    let last = reached.swap(place(at), Relaxed);
    let from = match last.checked_sub(place(0)).map(|page| page * PAGE_BYTES) {
        Some(last) if last > 0 && last <= at => last,
        // Not known, or of another file: only what was counted is certain.
        _ => at.saturating_sub(u64::from(counted)),
    };
    let bytes = at - from;
    if bytes == 0 {
        return;
    }
    let mut call = None;
    before_write(fd, bytes as usize, false, &mut call);
    if let Some(call) = &mut call {
        after_write(call, fd, i64::try_from(from).ok(), bytes as isize);
    }
}

/// A stream that was written is about to be closed, by a call that no hook sees.
pub fn closing(fd: c_int) {
    if let Some((file, found)) = governed_after_check(fd).filter(|(file, _)| !file.direct)
        && keeping_errno(|| look(file, &found, super::account(file.region), fd))
    {
        let mut call = None;
        before_write(fd, 0, false, &mut call);
        call.as_mut().map(leave);
    }
}
