//! Whose requests are: what a volume learns from the I/O scheduler of the programs on it.
//!
//! The kernel's requests come by its own threads: the flusher's, the journal's, the loop device's.
//! The I/O region of an instance tells whose pages lie where
//! ([`headworks_region::io::places`]), and for which files clients wait. Whether the instance runs
//! before the volume, or is started again, does not matter: it is looked for each second.

use crate::instance::Instance;
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES};
use headworks_policy::split::SplitKind;
use headworks_region::clock;
use headworks_region::io::{Awaited, IoMapping};
use headworks_volume::engine::Causes;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What clients wait for is looked up so often at most.
const LOOK_EVERY: Nanos = Nanos::from_micros(200);

/// The cause of writes without a mark: those of the journal and of new blocks.
const JOURNAL: u32 = u32::MAX;

/// What `volume stat` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the instance.
    pub instance: String,
    /// Whether it runs, with a scheduler.
    pub attached: bool,
    /// Writes whose owner was known, and others.
    pub known: u64,
    /// See `known`.
    pub unknown: u64,
    /// Writes for which clients waited when they came.
    pub awaited: u64,
}

struct State {
    instance: Instance,
    /// Number of the block device; zero before it is there.
    device: u64,
    /// The region, and the inode of its file.
    region: Option<(IoMapping, u64)>,
    looked: Nanos,
    awaited: Awaited,
    figures: Figures,
}

/// The link to an instance. Clones share it.
#[derive(Clone)]
pub struct Link(Arc<Mutex<State>>);

impl Link {
    /// To an instance that may run or not, for a volume whose block device has this number.
    pub fn new(instance: Instance, device: u64) -> Link {
        let figures = Figures { instance: instance.name.clone(), ..Figures::default() };
        let (region, looked, awaited) = (None, Nanos(0), Awaited::default());
        let link = Link(Arc::new(Mutex::new(State {
            instance,
            device,
            region,
            looked,
            awaited,
            figures,
        })));
        link.look();
        link
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the instance, and tells it that a volume watches. To be called each second.
    pub fn look(&self) {
        let mut state = self.state();
        let inode = std::fs::metadata(state.instance.io_path()).map(|meta| meta.ino()).ok();
        if state.region.as_ref().map(|(_, known)| *known) != inode {
            if let Some((gone, _)) = state.region.take() {
                // SAFETY: nobody else has it, and it is used under the lock only.
                unsafe { gone.unmap() };
            }
            state.region =
                inode.zip(state.instance.open_io().ok()).map(|(inode, region)| (region, inode));
        }
        if let Some((region, _)) = &state.region {
            region.places.watch(clock::now(), state.device);
        }
        state.figures.attached = state.region.is_some();
    }

    /// Figures so far.
    pub fn figures(&self) -> Figures {
        self.state().figures.clone()
    }
}

impl State {
    /// The region while its scheduler is on.
    fn region(&self) -> Option<IoMapping> {
        self.region.as_ref().map(|(region, _)| *region).filter(|region| region.control.is_on())
    }

    /// Looks up what clients wait for. Returns whether that has changed.
    fn refresh(&mut self, now: Nanos) -> bool {
        if now.since(self.looked) < LOOK_EVERY {
            return false;
        }
        self.looked = now;
        let awaited = self.region().map(|region| region.awaited()).unwrap_or_default();
        let changed = awaited != self.awaited;
        self.awaited = awaited;
        changed
    }

    /// Whether clients wait for writes of this cause.
    fn is_awaited(&self, cause: u32) -> bool {
        match cause {
            JOURNAL => self.awaited.any(),
            // Below FILES.
            file => file > 0 && self.awaited.has((file - 1) as u16),
        }
    }
}

impl Causes for Link {
    fn complete(&mut self, now: Nanos, request: &mut Request) {
        let mut state = self.state();
        state.refresh(now);
        let Some(region) = state.region() else { return };
        if request.operation != Operation::Write {
            return;
        }
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let owner = region.places.of(request.sector * SECTOR_BYTES, bytes);
        let is_rcp = region.control.kind() == SplitKind::Rcp;
        match owner {
            Some(owner) => {
                state.figures.known += 1;
                request.cause =
                    if is_rcp { u32::from(owner.file) + 1 } else { owner.account.into() };
                request.level = region.level(owner.account);
            }
            None => {
                state.figures.unknown += 1;
                request.cause = if is_rcp { JOURNAL } else { 0 };
            }
        }
        if is_rcp {
            request.sync = state.is_awaited(request.cause);
            state.figures.awaited += u64::from(request.sync);
        }
    }

    fn have_changed(&mut self, now: Nanos) -> bool {
        self.state().refresh(now)
    }

    fn is_urgent(&self, cause: u32) -> bool {
        self.state().is_awaited(cause)
    }
}
