//! The causes of requests: what a volume learns from the I/O scheduler of the programs on it.
//!
//! The kernel's requests come by its own threads: the flusher's, the journal's, the loop device's.
//! The I/O region of an instance tells whose pages lie where ([`headworks_region::io::places`]),
//! and for which files clients wait. The volume looks for the instance each second, so it may start
//! before the volume or after it.
//!
//! What the queue is told depends on its scheduler. `rcp` learns for which file a write is, and
//! whether clients wait for it, if the instance has `rcp`, too. `afq` learns who is charged. `sfq`
//! and `quanta` learn of which application a request is, as the instance's rules say. Others learn
//! nothing.
//!
//! If a storage server holds the volume's bytes, it is told the applications, too: each request has
//! its rule's number as a tag, and the server hears the names once.
//!
//! # Locks
//! The queue asks under its own lock, so no answer may wait for a disk. The region stays in memory.
//! [`Link::look`] makes system calls, and holds no lock that the queue takes.

use crate::instance::Instance;
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES, SchedulerKind};
use headworks_region::clock;
use headworks_region::io::{CriticalFiles, IoMapping, RULES};
use headworks_volume::engine::Causes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What clients wait for is looked up so often at most.
const LOOK_EVERY: Nanos = Nanos::from_micros(200);

/// The cause of writes without a mark: of the journal, of new blocks, direct ones, those of
/// mappings and of programs that are not governed.
const UNMARKED: u32 = u32::MAX;

/// What `volume stat` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the instance.
    pub instance: String,
    /// Why nothing is learned from it at this moment, if so.
    pub trouble: Option<String>,
    /// Writes whose owner was known.
    pub known: u64,
    /// Other writes.
    pub unknown: u64,
    /// Writes for which clients waited when they came.
    pub critical: u64,
    /// Reads and writes whose application was known.
    #[serde(default)]
    pub tagged: u64,
    /// Applications by their tags.
    #[serde(default)]
    pub applications: BTreeMap<u16, String>,
}

#[derive(Default)]
struct State {
    region: Option<IoMapping>,
    looked: Nanos,
    critical: CriticalFiles,
    /// `critical` has changed since the queue last asked.
    changed: bool,
    figures: Figures,
}

/// The link to an instance. Clones share it.
#[derive(Clone)]
pub struct Link {
    instance: Instance,
    /// Number of the block device.
    device: u64,
    scheduler: SchedulerKind,
    /// The region that is mapped, and the inode of its file.
    mapped: Arc<Mutex<Option<(IoMapping, u64)>>>,
    state: Arc<Mutex<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// To an instance that may run or not, for a volume with this scheduler, whose block device has
    /// this number.
    pub fn new(instance: Instance, device: u64, scheduler: SchedulerKind) -> Link {
        let figures = Figures { instance: instance.name.clone(), ..Figures::default() };
        let state = Arc::new(Mutex::new(State { figures, ..State::default() }));
        let link = Link { instance, device, scheduler, mapped: Arc::default(), state };
        link.look();
        link
    }

    /// Looks for the instance, and tells it that a volume watches. To be called each second.
    pub fn look(&self) {
        let found = self.attach(&mut lock(&self.mapped));
        let mut state = lock(&self.state);
        state.region = found.as_ref().ok().copied();
        state.figures.trouble = found.err();
    }

    fn attach(&self, mapped: &mut Option<(IoMapping, u64)>) -> Result<IoMapping, String> {
        let path = self.instance.io_path();
        let inode = std::fs::metadata(&path).map(|meta| meta.ino()).ok();
        if let Some((gone, _)) = mapped.take_if(|(_, known)| Some(*known) != inode) {
            lock(&self.state).region = None;
            // SAFETY: the state had the only other copy.
            unsafe { gone.unmap() };
        }
        let region = match (*mapped, inode) {
            (Some((region, _)), _) => region,
            (None, None) => {
                return Err(format!("it does not run with --io: no {}", path.display()));
            }
            (None, Some(inode)) => {
                let region = self.instance.open_io().map_err(|error| format!("{error:#}"))?;
                region.stay_in_memory();
                *mapped = Some((region, inode));
                region
            }
        };
        region.tidy();
        let name = |tag: u16| {
            let name = region.application(tag)?;
            Some((tag, String::from_utf8_lossy(name.bytes()).into_owned()))
        };
        // As many as there are rules.
        lock(&self.state).figures.applications = (1..=RULES as u16).filter_map(name).collect();
        if region.places.watch(clock::now(), self.device) {
            Ok(region)
        } else {
            Err("another volume learns from it".to_owned())
        }
    }

    /// Figures so far.
    pub fn figures(&self) -> Figures {
        lock(&self.state).figures.clone()
    }
}

impl State {
    /// The region while its scheduler is on.
    fn region(&self) -> Option<IoMapping> {
        self.region.filter(|region| region.control.is_on())
    }

    /// Looks up what clients wait for.
    fn refresh(&mut self, now: Nanos) {
        if now.since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            let region = self.region().filter(|region| region.control.kind().puts_clients_first());
            self.see(region.map(|region| region.critical_files()).unwrap_or_default());
        }
    }

    fn see(&mut self, critical: CriticalFiles) {
        self.changed |= critical != self.critical;
        self.critical = critical;
    }

    /// Whether clients wait for writes of this cause.
    fn is_critical(&self, cause: u32) -> bool {
        match cause {
            UNMARKED => self.critical.any(),
            // Below FILES.
            file => file > 0 && self.critical.has((file - 1) as u16),
        }
    }
}

impl Causes for Link {
    fn complete(&mut self, now: Nanos, request: &mut Request) -> u16 {
        let mut state = lock(&self.state);
        state.refresh(now);
        let Some(region) = state.region() else { return 0 };
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return 0;
        }
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let owner = region.places.of(request.sector * SECTOR_BYTES, bytes);
        let tag = owner.map_or(0, |owner| region.tag(owner.account));
        state.figures.tagged += u64::from(tag != 0);
        if matches!(self.scheduler, SchedulerKind::Sfq | SchedulerKind::Quanta) {
            request.cause = tag.into();
        }
        if request.operation != Operation::Write {
            return tag;
        }
        let count =
            if owner.is_some() { &mut state.figures.known } else { &mut state.figures.unknown };
        *count += 1;
        match self.scheduler {
            SchedulerKind::Rcp if region.control.kind().puts_clients_first() => {
                request.cause = owner.map_or(UNMARKED, |owner| u32::from(owner.file) + 1);
                request.sync = state.is_critical(request.cause);
                state.figures.critical += u64::from(request.sync);
            }
            SchedulerKind::Afq => {
                if let Some(owner) = owner {
                    request.cause = owner.account.into();
                    request.level = region.level(owner.account);
                }
            }
            _ => {}
        }
        tag
    }

    fn have_changed(&mut self, now: Nanos) -> bool {
        let mut state = lock(&self.state);
        state.refresh(now);
        std::mem::take(&mut state.changed)
    }

    fn is_critical(&self, cause: u32) -> bool {
        lock(&self.state).is_critical(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_a_request_has_seen_is_still_told() {
        let mut state = State::default();
        let critical = CriticalFiles::of([7]);
        state.see(critical);
        assert!(state.is_critical(8) && !state.is_critical(7) && state.is_critical(UNMARKED));
        state.see(critical);
        assert!(std::mem::take(&mut state.changed));
        state.see(critical);
        assert!(!state.changed);
        state.see(CriticalFiles::default());
        assert!(state.changed && !state.is_critical(8) && !state.is_critical(UNMARKED));
    }
}
