//! Where on the device the dirty pages of governed files lie.
//!
//! # Problem
//! Data reaches a device by threads of the kernel: the flusher, the journal's, a loop device's. A
//! queue below the file system cannot tell whose a write is, nor whether a client waits for it
//! (Split, section 2.3.1).
//!
//! # The primitive
//! A volume says that it [watches](Places::watch). From then on each write that makes pages dirty
//! [marks](Places::mark) where they lie on the device, for which the kernel is asked. The volume
//! looks its requests up by their place ([`Places::of`]). Whether a client waits for them may
//! change at any moment: [`super::IoRegion::critical_files`].
//!
//! # Invariants
//! A mark is one word, so that it is never torn. Marks overwrite each other, and outlive the file
//! that they name. Wrong knowledge costs performance and nothing else.
//!
//! # Memory
//! 8 bytes for 16 KiB of the device, 512 KiB in all: 1 GiB of places. Two places overwrite each
//! other's marks if they are a multiple of that apart.

use super::tally::FILES;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_policy::split::{ACCOUNTS, Account};

/// Bytes that a mark covers.
const PLACE_BYTES: u64 = 16 << 10;

const MARKS: usize = 1 << 16;

/// A volume that said nothing for so long is gone.
const GONE_AFTER: Nanos = Nanos::from_millis(3_000);

const ACCOUNT_BITS: u32 = ACCOUNTS.trailing_zeros();
const FILE_BITS: u32 = FILES.trailing_zeros();
const _: () = assert!(ACCOUNTS.is_power_of_two() && FILES.is_power_of_two());
/// Places that can be told apart: a petabyte and more.
const PLACES: u64 = 1 << (64 - ACCOUNT_BITS - FILE_BITS);

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct Places {
    /// Number of the device, as `stat(2)` has it.
    device: AtomicU64,
    /// When the volume was last heard of.
    watched_ns: AtomicU64,
    /// Number of the place plus one, file, account; zero: unused.
    marks: [AtomicU64; MARKS],
}

headworks_policy::layout!(Places { device, watched_ns, marks });

/// Whose pages a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Who made clean pages there dirty last.
    pub account: Account,
    /// The file's slot.
    pub file: u16,
}

impl Places {
    /// A volume with this device number looks for marks. To be repeated each second. False if
    /// another one does.
    pub fn watch(&self, now: Nanos, device: u64) -> bool {
        if self.watched(|| now).is_some_and(|watched| watched != device) {
            return false;
        }
        self.device.store(device, Relaxed);
        self.watched_ns.store(now.0, Relaxed);
        true
    }

    /// The device for which places are to be marked, if a volume watches.
    #[inline]
    pub fn watched(&self, now: impl FnOnce() -> Nanos) -> Option<u64> {
        let since = self.watched_ns.load(Relaxed);
        let watched = since != 0 && now().since(Nanos(since)) < GONE_AFTER;
        watched.then(|| self.device.load(Relaxed))
    }

    /// Bytes of the device hold dirty pages of this owner.
    pub fn mark(&self, offset: u64, bytes: u64, owner: Owner) {
        let (first, last) = (offset / PLACE_BYTES, (offset + bytes.max(1) - 1) / PLACE_BYTES);
        for place in first..=last.min(first + MARKS as u64) {
            if place + 1 >= PLACES {
                return;
            }
            let word = ((place + 1) << FILE_BITS | u64::from(owner.file)) << ACCOUNT_BITS
                | u64::from(owner.account);
            self.marks[slot_of(place)].store(word, Relaxed);
        }
    }

    /// Whose pages lie in these bytes of the device: those of the first place with a mark.
    pub fn of(&self, offset: u64, bytes: u64) -> Option<Owner> {
        let (first, last) = (offset / PLACE_BYTES, (offset + bytes.max(1) - 1) / PLACE_BYTES);
        (first..=last.min(first + 64)).find_map(|place| {
            let word = self.marks[slot_of(place)].load(Relaxed);
            let found = word >> (ACCOUNT_BITS + FILE_BITS) == place + 1;
            found.then_some(Owner {
                // Masked to what fits.
                account: (word & (ACCOUNTS as u64 - 1)) as Account,
                file: (word >> ACCOUNT_BITS & (FILES as u64 - 1)) as u16,
            })
        })
    }
}

/// Neighbours have neighbouring marks.
fn slot_of(place: u64) -> usize {
    // Below MARKS.
    (place % MARKS as u64) as usize
}

/// Files for which clients wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriticalFiles {
    files: [u64; FILES / 64],
    any: bool,
}

impl Default for CriticalFiles {
    fn default() -> Self {
        CriticalFiles { files: [0; FILES / 64], any: false }
    }
}

impl CriticalFiles {
    /// These files.
    pub fn of(files: impl IntoIterator<Item = u16>) -> Self {
        let mut critical = CriticalFiles::default();
        for file in files {
            critical.insert(file.into());
        }
        critical
    }

    pub(super) fn insert(&mut self, file: usize) {
        self.any = true;
        // A call without a file concerns the journal.
        if let Some(word) = self.files.get_mut(file / 64) {
            *word |= 1 << (file % 64);
        }
    }

    /// Whether clients wait for this one.
    pub fn has(&self, file: u16) -> bool {
        let file = usize::from(file);
        self.files.get(file / 64).is_some_and(|word| word >> (file % 64) & 1 != 0)
    }

    /// Whether clients wait for any.
    pub fn any(&self) -> bool {
        self.any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Box<Places> {
        // SAFETY: made of integers, for which zero bytes are valid.
        Box::new(unsafe { core::mem::zeroed() })
    }

    #[test]
    fn a_request_is_of_whoever_marked_its_place() {
        let places = places();
        let owner = |account, file| Owner { account, file };
        places.mark(1 << 20, 8192, owner(40, 7));
        places.mark((1 << 20) + (16 << 10), 100 << 10, owner(1023, 4095));
        assert_eq!(places.of(1 << 20, 4096), Some(owner(40, 7)));
        assert_eq!(places.of((1 << 20) + (100 << 10), 512), Some(owner(1023, 4095)));
        assert_eq!(places.of((1 << 20) - (64 << 10), 1 << 20), Some(owner(40, 7)), "the first one");
        assert_eq!(places.of(0, 1 << 20), None);
        // A later one in the same place.
        places.mark(1 << 20, 1, owner(41, 8));
        assert_eq!(places.of((1 << 20) + 4096, 4096), Some(owner(41, 8)));
        // One that shares its mark.
        places.mark((1 << 20) + MARKS as u64 * PLACE_BYTES, 1, owner(42, 9));
        assert_eq!(places.of(1 << 20, 4096), None);
        places.mark(u64::MAX - 1, 1, owner(1, 1));
        assert_eq!(places.of(u64::MAX - 1, 1), None);
    }

    #[test]
    fn marks_are_wanted_while_a_volume_watches() {
        let places = places();
        let now = Nanos::from_millis(10_000);
        assert_eq!(places.watched(|| now), None);
        assert!(places.watch(now, 0x700) && !places.watch(now, 0x701));
        assert_eq!(places.watched(|| now + Nanos::from_millis(2_000)), Some(0x700));
        assert_eq!(places.watched(|| now + GONE_AFTER), None);
        assert!(places.watch(now + GONE_AFTER, 0x701), "the other one is gone");
    }
}
