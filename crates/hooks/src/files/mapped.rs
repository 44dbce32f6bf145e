//! Shared writable mappings: writes that no hook sees, until `msync` makes them durable.
//!
//! At `msync(MS_SYNC)`, which is treated as an `fsync` of its range, `cachestat` tells what a
//! mapping dirtied. A mapping that `mremap` moved, or that found all slots in use, is not known:
//! its `msync` passes.

use super::descriptors::{governed, governed_after_check};
use super::kernel::cache_state;
use super::{Call, CallKind};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use headworks_policy::split::PAGE_BYTES;
use headworks_region::thread::keeping_errno;
use libc::c_int;

/// Most mappings that are known at a time.
const MAPPINGS: usize = 64;

/// One mapping. A length of zero marks an unused slot.
#[derive(Debug)]
struct Mapping {
    start: AtomicUsize,
    bytes: AtomicUsize,
    offset: AtomicUsize,
    fd: AtomicUsize,
    slot: AtomicUsize,
}

static MADE: [Mapping; MAPPINGS] = [const {
    Mapping {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        offset: AtomicUsize::new(0),
        fd: AtomicUsize::new(0),
        slot: AtomicUsize::new(0),
    }
}; MAPPINGS];

/// The slot for the next mapping.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Where a range of memory lies in a file: descriptor, slot, offset.
fn find(start: usize) -> Option<(c_int, u16, u64)> {
    if NEXT.load(Acquire) == 0 {
        return None;
    }
    MADE.iter().find_map(|made| {
        let inside = start.checked_sub(made.start.load(Relaxed))?;
        (inside < made.bytes.load(Acquire)).then(|| {
            let offset = made.offset.load(Relaxed) + inside;
            (made.fd.load(Relaxed) as c_int, made.slot.load(Relaxed) as u16, offset as u64)
        })
    })
}

/// A file was mapped, shared and writable.
pub fn mapped(fd: c_int, start: usize, bytes: usize, offset: i64) {
    for made in &MADE {
        let (from, len) = (made.start.load(Relaxed), made.bytes.load(Relaxed));
        // Earlier mappings of this range are gone.
        if len > 0 && from < start.saturating_add(bytes) && start < from.saturating_add(len) {
            made.bytes.store(0, Release);
        }
    }
    let Some((file, _)) = governed_after_check(fd) else { return };
    let at = NEXT.fetch_add(1, Relaxed);
    let free = MADE.iter().find(|made| made.bytes.load(Relaxed) == 0);
    let made = free.unwrap_or(&MADE[at % MAPPINGS]);
    made.bytes.store(0, Release);
    made.start.store(start, Relaxed);
    made.offset.store(usize::try_from(offset).unwrap_or(0), Relaxed);
    made.fd.store(fd as usize, Relaxed);
    made.slot.store(file.slot.into(), Relaxed);
    made.bytes.store(bytes, Release);
    file.region.mapped(file.slot);
}

/// A range of memory is about to be made durable.
pub fn before_msync(start: usize, bytes: usize, place: &mut Option<Call>) {
    let Some((fd, slot, offset)) = find(start) else { return };
    // The descriptor may have been closed since, and belong to another file.
    let Some(file) = governed(fd).filter(|file| file.slot == slot) else { return };
    let dirty = keeping_errno(|| cache_state(fd, offset, bytes as u64));
    let call = place.insert(Call::of(file));
    call.bytes = dirty.map_or(0, |cache| cache.nr_dirty * PAGE_BYTES);
    let bytes = call.bytes;
    call.enter(CallKind::Fsync, fd, bytes);
}

/// It has returned.
pub fn after_msync(call: &mut Call, start: usize, result: c_int) {
    if result == 0
        && call.bytes > 0
        && let (Some(file), Some((_, _, offset))) = (call.file, find(start))
    {
        call.region.wrote_through(call.account, file.slot, offset, call.bytes);
    }
    super::leave(call);
}
