//! Descriptors: what is known of each is one word.
//!
//! The first call on a descriptor finds out whether it is governed: a regular file on a file system
//! with storage. Later calls load the word, and see in the region that the file is still the same.
//!
//! The C library opens and closes descriptors without a hook (`popen`, `opendir`, `syslog`). So the
//! same number may soon be another file's. Each thread counts its calls, and after [`STEP`] of them
//! what is known of a descriptor is checked.

use super::{kernel, region, status};
use crate::conn::DESCRIPTORS;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use headworks_policy::split::PAGE_BYTES;
use headworks_region::io::{Found, IoRegion};
use headworks_region::thread::{self, keeping_errno};
use libc::c_int;

/// What is known of a descriptor: nothing (zero), or that it is not governed. Else the upper bits
/// are the slot and generation of its file, and the lower ones say how it was opened and what its
/// last reads found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known(u64);

impl Known {
    const NOTHING: Known = Known(0);
    const UNGOVERNED: Known = Known(Self::NOT_GOVERNED);
    /// A directory on storage: only its `fsync` is governed.
    const DIRECTORY: Known = Known(16 | Self::NOT_GOVERNED);

    const NOT_GOVERNED: u64 = 1;
    const GOVERNED: u64 = 2;
    /// Its last read missed the cache.
    const MISSED: u64 = 4;
    /// Opened with `O_DIRECT`.
    const DIRECT: u64 = 8;
    /// Of a governed file: opened with `O_DSYNC` or `O_SYNC`.
    const COMMITS: u64 = 16;
    /// The kernel reads ahead of it.
    const STREAMS: u64 = 32;
    /// Counts what a stream has read since the device last read for it, in units of `QUICK_BYTES`:
    /// the kernel reads ahead by less than 16 MiB.
    const QUICK: u64 = 64;
    const QUICK_MAX: u64 = 1023 * Self::QUICK;
    const QUICK_BYTES: u64 = 16 << 10;

    /// Of a governed file that was opened with these flags.
    fn of(slot: u16, generation: u32, flags: c_int) -> Known {
        let bit = |flag, bit| if flags & flag != 0 { bit } else { 0 };
        let place = u64::from(generation) << 32 | u64::from(slot) << 16;
        // `O_SYNC` contains `O_DSYNC`. A program may read each of many files once: the first read
        // asks whether it is a hit.
        let opened = bit(libc::O_DIRECT, Self::DIRECT) | bit(libc::O_DSYNC, Self::COMMITS);
        Known(place | opened | Self::MISSED | Self::GOVERNED)
    }

    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn is_ungoverned(self) -> bool {
        self.has(Self::NOT_GOVERNED)
    }

    /// Slot and generation of a governed file.
    fn place(self) -> Option<(u16, u32)> {
        let governed = self.has(Self::GOVERNED) && !self.is_ungoverned();
        governed.then_some(((self.0 >> 16) as u16, (self.0 >> 32) as u32))
    }

    /// After a read: whether the device read for it, and whether it is one of a stream.
    pub(super) fn after_read(self, slow: bool, in_sequence: bool, bytes: u64) -> Known {
        let units = (bytes / Self::QUICK_BYTES).clamp(1, Self::QUICK_MAX / Self::QUICK);
        let quick = (self.0 & Self::QUICK_MAX) + units * Self::QUICK;
        let rest = self.0 & !(Self::MISSED | Self::STREAMS | Self::QUICK_MAX);
        Known(match (in_sequence, slow) {
            (true, true) => rest | Self::MISSED | Self::STREAMS,
            (true, false) if self.has(Self::STREAMS) && quick <= Self::QUICK_MAX => {
                rest | Self::STREAMS | quick
            }
            (_, true) => rest | Self::MISSED,
            (_, false) => rest,
        })
    }
}

/// The word of a descriptor.
#[derive(Debug)]
pub(super) struct Word(AtomicU64);

static WORDS: [Word; DESCRIPTORS] = [const { Word(AtomicU64::new(0)) }; DESCRIPTORS];

impl Word {
    fn of(fd: c_int) -> Option<&'static Word> {
        WORDS.get(usize::try_from(fd).ok()?)
    }

    fn known(&self) -> Known {
        Known(self.0.load(Relaxed))
    }

    fn set(&self, known: Known) {
        self.0.store(known.0, Relaxed);
    }

    pub(super) fn update(&self, change: impl Fn(Known) -> Known) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |known| Some(change(Known(known)).0));
    }
}

/// A governed file of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub region: &'static IoRegion,
    pub slot: u16,
    pub word: &'static Word,
    /// The last read missed the cache.
    pub missed: bool,
    /// The kernel reads ahead of it.
    pub streams: bool,
    /// Its writes leave no dirty pages.
    pub direct: bool,
    /// They are durable when they return.
    pub commits: bool,
}

impl File {
    /// From what is known of its descriptor.
    fn of(region: &'static IoRegion, word: &'static Word, slot: u16, known: Known) -> Self {
        let commits = known.has(Known::COMMITS);
        File {
            region,
            slot,
            word,
            missed: known.has(Known::MISSED),
            streams: known.has(Known::STREAMS),
            direct: commits || known.has(Known::DIRECT),
            commits,
        }
    }
}

/// Whether reads and writes of a descriptor may be governed; false once they are known not to be.
#[inline]
pub fn may_be_governed(fd: c_int) -> bool {
    Word::of(fd).is_some_and(|word| !word.known().is_ungoverned()) && super::is_on()
}

#[inline]
pub(super) fn governed(fd: c_int) -> Option<File> {
    let region = region().filter(|region| region.control.is_on())?;
    let word = Word::of(fd)?;
    let known = word.known();
    if known.is_ungoverned() {
        return None;
    }
    match known.place() {
        Some((slot, generation)) if region.is_current(slot, generation) => {
            Some(File::of(region, word, slot, known))
        }
        _ => keeping_errno(|| find_out(region, fd, word)).map(|(file, _)| file),
    }
}

/// As [`governed`], but what is known is checked: `fopen` and `fclose` are not seen, so that the
/// descriptor may be another file's by now.
pub(super) fn governed_after_check(fd: c_int) -> Option<(File, Found)> {
    let region = region().filter(|region| region.control.is_on())?;
    let word = Word::of(fd)?;
    keeping_errno(|| find_out(region, fd, word))
}

/// Whether it was found to be a directory on storage.
pub(super) fn is_directory(fd: c_int) -> bool {
    Word::of(fd).is_some_and(|word| word.known() == Known::DIRECTORY)
}

#[cold]
fn find_out(region: &'static IoRegion, fd: c_int, word: &'static Word) -> Option<(File, Found)> {
    let Some(file) = status::of(fd) else {
        word.set(Known::NOTHING);
        return None;
    };
    if file.is_fuse() {
        // The calls of its clients wait where they are made. If those that it makes for them waited
        // too, it would be held behind its own clients.
        super::stand_aside();
        return None;
    }
    // A block device's node lies in memory, and what is written to it does not.
    let has_storage = file.is_block_device() || kernel::has_storage(fd)?;
    if !(file.is_regular() || file.is_block_device()) || !has_storage {
        let directory = file.kind == libc::S_IFDIR && has_storage;
        word.set(if directory { Known::DIRECTORY } else { Known::UNGOVERNED });
        return None;
    }
    let found = region.file(file.device, file.inode, |path| kernel::path_of(fd, path));
    let Some(found) = found else {
        word.set(Known::UNGOVERNED);
        return None;
    };
    let mut known = word.known();
    if known.place() != Some((found.slot, found.generation)) {
        known = Known::of(found.slot, found.generation, kernel::open_flags(fd));
        word.set(known);
    }
    Some((File::of(region, word, found.slot, known), found))
}

/// So many calls of a thread, or calls that move so many pages, pass between two checks: 1 MiB.
const STEP: u16 = 256;

/// A call has moved so many bytes. Says whether its descriptor is to be checked.
#[inline]
fn is_due(bytes: isize) -> bool {
    let pages = (bytes.max(0) as u64 / PAGE_BYTES).min(STEP.into()) as u16;
    thread::with(|words| {
        let uses = words.uses.get().saturating_add(1 + pages);
        words.uses.set(if uses >= STEP { 0 } else { uses });
        uses >= STEP
    })
}

/// A call on a descriptor that is not governed has returned.
#[inline]
pub fn passed(fd: c_int, result: isize) {
    if super::is_on() && is_due(result) {
        forget(fd);
    }
}

/// A call on a governed file has returned.
#[inline]
pub(super) fn used(fd: c_int, result: isize) {
    if is_due(result) {
        governed_after_check(fd);
    }
}

/// A descriptor was opened or closed: what was known of it no longer holds.
#[inline]
pub fn forget(fd: c_int) {
    if let Some(word) = Word::of(fd)
        && word.known() != Known::NOTHING
    {
        word.set(Known::NOTHING);
    }
}

/// Descriptors from `first` to `last` were closed.
pub fn forget_range(first: c_int, last: c_int) {
    let first = usize::try_from(first).unwrap_or(0).min(DESCRIPTORS);
    let last = usize::try_from(last).map_or(0, |last| last.saturating_add(1)).min(DESCRIPTORS);
    for word in &WORDS[first..last.max(first)] {
        word.set(Known::NOTHING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_sequence_for_which_the_device_reads_now_and_then() {
        let own = Known::of(3, 7, 0).after_read(false, false, 0);
        let stream = own.after_read(true, true, 8192);
        assert_eq!(stream, Known(own.0 | Known::MISSED | Known::STREAMS));
        let mut word = stream;
        for _ in 0..1_000 {
            word = word.after_read(false, true, 8192);
            assert!(word.has(Known::STREAMS) && !word.has(Known::MISSED));
            assert_eq!(word.0 & !Known::QUICK_MAX & !Known::STREAMS, own.0);
        }
        assert_eq!(word.after_read(true, true, 8192), stream, "it goes on");
        assert_eq!(word.after_read(false, false, 8192), own, "somewhere else");
        assert_eq!(word.after_read(true, false, 8192), Known(own.0 | Known::MISSED));
        for _ in 0..64 {
            word = word.after_read(false, true, 256 << 10);
        }
        assert_eq!(word, own, "16 MiB without the device: it is all in the cache");
    }
}
