//! Governed files: which slot each has, what its rules say, and for which of them clients wait.

use super::layout::{FREE, IoRegion, PASSED, RUNNING};
use super::places::CriticalFiles;
use super::tally;
use crate::clock;
use crate::text::TEXT_BYTES;
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::split::{CallKind, Criticality};

/// A file, looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its slot.
    pub slot: u16,
    /// Which file of that slot it is.
    pub generation: u32,
    /// Pages of it that are known to be dirty.
    pub pages: u64,
    /// It is mapped, shared and writable.
    pub mapped: bool,
}

impl IoRegion {
    /// A file's slot and what is known of it. `path` is asked for the first time. `None` if there
    /// is no room: the file is not governed.
    pub fn file(
        &self,
        device: u64,
        inode: u64,
        path: impl FnOnce(&mut [u8; 256]) -> usize,
    ) -> Option<Found> {
        let now = clock::now();
        let version = self.rules.version();
        let found = self.locked(|guarded| {
            let (at, fresh) = guarded.tally.file(device, inode, now)?;
            let state = guarded.tally.state(at)?;
            let generation = state.generation;
            let stale = fresh || state.rules != version;
            self.generations[at].store(generation, Relaxed);
            if fresh && guarded.split.scheduler().trusts(now, at as u32).is_some() {
                // That was another file.
                guarded.split.scheduler().guessed(now, at as u32, false);
            }
            let found = Found {
                slot: at as u16,
                generation,
                pages: state.pages,
                mapped: state.mapped != 0,
            };
            Some((at, stale, found))
        })?;
        let Some((at, stale, found)) = found else {
            self.control.files_full.fetch_add(1, Relaxed);
            return None;
        };
        if stale {
            self.set_file(at, found.generation, version, path);
        }
        Some(found)
    }

    /// What rules say of the file is in force.
    #[cold]
    #[inline(never)]
    fn set_file(
        &self,
        at: usize,
        generation: u32,
        version: u32,
        path: impl FnOnce(&mut [u8; 256]) -> usize,
    ) {
        let mut text = [0; 256];
        let length = path(&mut text).min(256);
        let deadline = self.rules.deadline(&text[..length]);
        self.names[at].set(&text[length.saturating_sub(TEXT_BYTES)..length]);
        self.locked(|guarded| {
            if let Some(state) = guarded.tally.state_mut(at)
                && state.generation == generation
            {
                (state.deadline, state.rules) = (deadline, version);
            }
        });
    }

    /// A file's last name was removed. Its dirty pages count as given up, also if it is still open:
    /// then the charge for them is lost.
    pub fn removed(&self, device: u64, inode: u64) {
        let Some(at) = self.locked(|guarded| guarded.tally.find_file(device, inode)).flatten()
        else {
            return;
        };
        self.freed(at as u16, 0, u64::MAX);
        self.locked(|guarded| {
            guarded.tally.give_up(at);
            let generation = guarded.tally.state(at).map_or(0, |state| state.generation);
            self.generations[at].store(generation, Relaxed);
        });
    }

    /// A file has another name: other rules may be its own when it is next looked up.
    pub fn renamed(&self, device: u64, inode: u64) {
        self.locked(|guarded| {
            let at = guarded.tally.find_file(device, inode)?;
            guarded.tally.state_mut(at)?.rules = u32::MAX;
            Some(())
        });
    }

    /// Whether the slot is still that file's.
    pub fn is_current(&self, file: u16, generation: u32) -> bool {
        self.generations
            .get(usize::from(file))
            .is_some_and(|current| current.load(Relaxed) == generation)
    }

    /// What the tally knows of a file, for tests and `io top`.
    pub fn file_state(&self, file: u16) -> Option<tally::FileState> {
        self.locked(|guarded| guarded.tally.state(usize::from(file)).copied())?
    }

    /// A file was mapped, shared and writable.
    pub fn mapped(&self, file: u16) {
        self.locked(|guarded| {
            if let Some(state) = guarded.tally.state_mut(usize::from(file))
                && state.mapped == 0
            {
                state.mapped = 1;
                self.unheld.mapped_files.fetch_add(1, Relaxed);
            }
        });
    }

    /// Files for which clients wait at this moment, one bit for each slot, with `rcp`: they write
    /// them or make them durable. A call that passed counts as a client's, and so does one whose
    /// thread inherits. Does not lock.
    pub fn critical_files(&self) -> CriticalFiles {
        let mut critical = CriticalFiles::default();
        let now = clock::now();
        let inherits = |account: u32| {
            let account = self.accounts.get(account as usize);
            account.is_some_and(|account| account.inherits_until_ns.load(Relaxed) > now.0)
        };
        for slot in &self.tasks {
            let state = slot.state();
            if state == FREE {
                continue;
            }
            let writes = matches!(
                CallKind::from_word(slot.kind.load(Relaxed)),
                CallKind::Write
                    | CallKind::WriteDirect
                    | CallKind::Fsync
                    | CallKind::Commit
                    | CallKind::Create
                    | CallKind::MakeDirectory
            );
            let criticality = Criticality::from_word(slot.criticality.load(Relaxed));
            let goes_on = state == RUNNING && inherits(slot.account.load(Relaxed));
            if writes && (state == PASSED || criticality == Criticality::Critical || goes_on) {
                critical.insert(slot.file.load(Relaxed) as usize);
            }
        }
        critical
    }
}
