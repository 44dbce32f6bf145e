//! The front ends of a volume's process, from their start to their end.

use super::state::{Description, Named};
use super::system;
use anyhow::{Context, Result, bail};
use headworks_volume::loop_device::LoopDevice;
use headworks_volume::nbd::{self, Export, Exports, Limits, Listener, Stop};
use headworks_volume::reach::Reach;
use headworks_volume::{Volume, fuse, kernel_queue};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Where a volume's requests come from.
pub trait Front {
    /// How much it takes of each request's modelled time.
    fn lead_us(&self) -> f64 {
        0.0
    }

    /// It spins for requests before it sleeps.
    fn looks(&self) -> bool {
        false
    }

    /// The kernel sends it requests by io_uring.
    fn has_ring(&self) -> bool {
        false
    }

    /// What the model promises and what arrives, if that was measured.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// Whether it ended without being stopped.
    fn has_ended(&self) -> bool;

    /// Takes no new users from now on. False as long as one is left: it must go on serving.
    fn let_go(&mut self) -> bool {
        true
    }

    /// Ends it; no request comes after that.
    fn stop(self: Box<Self>) -> Result<()>;
}

/// A server of NBD, on its thread.
pub struct Nbd {
    server: JoinHandle<std::io::Result<()>>,
    stop: Stop,
}

impl Nbd {
    /// Listens on `unix:PATH` or `tcp:HOST:PORT`.
    pub fn start(
        place: &str,
        named: &Named,
        volume: &Volume,
        description: &Description,
    ) -> Result<Nbd> {
        let rotational = description.volume.find_device()?.is_rotational();
        let export = Export::new(&named.name, Arc::new(Arc::clone(&volume.engine)));
        let exports = Exports::new(vec![export.rotational(rotational)])?;
        let listener = match place.split_once(':') {
            Some(("unix", path)) => Listener::unix(path),
            Some(("tcp", address)) => Listener::tcp(address),
            _ => bail!("write unix:PATH or tcp:HOST:PORT, not `{place}`"),
        }
        .with_context(|| format!("cannot listen on {place}"))?;
        let stop = Stop::new()?;
        let its_stop = stop.clone();
        let server = std::thread::Builder::new()
            .spawn(move || nbd::serve(listener, exports, Limits::default(), &its_stop))?;
        Ok(Nbd { server, stop })
    }
}

impl Front for Nbd {
    fn has_ended(&self) -> bool {
        self.server.is_finished()
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.stop.stop();
        match self.server.join() {
            Ok(served) => Ok(served?),
            Err(_) => bail!("the NBD server panicked"),
        }
    }
}

/// A block device of the kernel, and its source of requests.
pub struct Kernel {
    fuse: fuse::Front,
    device: LoopDevice,
    tuned: Tuned,
}

/// What was found when the device was there.
#[derive(Clone, Copy, Debug, Default)]
struct Tuned {
    lead_us: f64,
    looks: bool,
    reach: Option<Reach>,
}

impl Kernel {
    /// Starts it. On failure nothing is left.
    pub fn start(named: &Named, volume: &Volume, description: &Description) -> Result<Kernel> {
        let dir = named.front_dir();
        // A dead file system of a crashed process would be in the way.
        if system::mounts().iter().any(|mounted| mounted.dir == dir) {
            bail!(
                "{} is still mounted, of a process that is gone\n  clean it up: headworks volume doctor",
                dir.display()
            );
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let front = fuse::Front::mount(Arc::clone(&volume.engine), &named.name, &dir, threads)
            .with_context(|| format!("cannot mount a FUSE file system on {}", dir.display()))?;
        let attached = LoopDevice::attach(&named.disk(), description.volume.block_bytes)
            .context("cannot set up a loop device\n  see which are in use: losetup -l")
            .and_then(|device| {
                set_queue(&device.path, description)?;
                Ok(device)
            });
        match attached {
            Ok(device) => {
                let tuned = tune(volume, &front, &device, description)?;
                Ok(Kernel { fuse: front, device, tuned })
            }
            Err(error) => {
                let _ = front.end();
                Err(error)
            }
        }
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        self.device.path.clone()
    }
}

impl Front for Kernel {
    fn lead_us(&self) -> f64 {
        self.tuned.lead_us
    }

    fn looks(&self) -> bool {
        self.tuned.looks
    }

    fn has_ring(&self) -> bool {
        self.fuse.has_ring()
    }

    fn reach(&self) -> Option<Reach> {
        self.tuned.reach
    }

    fn has_ended(&self) -> bool {
        self.fuse.has_ended()
    }

    /// The kernel releases the device at its last close, by us or by another program. A mount in
    /// any mount namespace is a use: without this process it would lose what was written.
    fn let_go(&mut self) -> bool {
        if let Err(error) = self.device.let_go() {
            eprintln!("headworks: cannot take {} away: {error}", self.device.path.display());
        }
        !self.device.is_attached()
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.fuse.end().context("cannot unmount the file system under the loop device")
    }
}

fn set_queue(device: &Path, description: &Description) -> Result<()> {
    let kind = description.volume.find_device()?;
    if kind != headworks_volume::model::Device::Raw {
        // A program that cannot read it learns from the times that the model gives. The kernel's
        // throttle has another default for a disk.
        let _ = kernel_queue::set_rotational(device, kind.is_rotational());
    }
    let (scheduler, requests) = (&description.kernel_scheduler, description.kernel_requests);
    kernel_queue::set_scheduler(device, scheduler, requests).with_context(|| {
        format!(
            "the kernel does not have the scheduler {scheduler}, or not with so many requests; it has: {}",
            std::fs::read_to_string(kernel_queue::file(device, "scheduler"))
                .unwrap_or_default()
                .trim()
        )
    })?;
    kernel_queue::set_throttle(device, description.kernel_throttle_us).context(
        "the kernel refuses the latency of its writeback throttle, or has no throttle\n  \
         create the volume without --kernel-throttle",
    )
}

/// Users of a modelled device should see the model's times, so the latency of the path through the
/// kernel is subtracted; without a model that path should be short. No program uses the device yet,
/// so what is measured here is not counted.
fn tune(
    volume: &Volume,
    front: &fuse::Front,
    device: &LoopDevice,
    description: &Description,
) -> Result<Tuned> {
    let kind = description.volume.find_device()?;
    // If a backing cannot be read, the volume's users get the error.
    if kind == headworks_volume::model::Device::Raw {
        let looks = front.choose_to_look(&device.path).unwrap_or_default();
        return Ok(Tuned { looks, ..Tuned::default() });
    }
    let way = front.measure_way(&device.path).unwrap_or_default();
    volume.engine.set_lead(way);
    let reach = Reach::measure(&description.volume, &device.path).unwrap_or_default();
    volume.engine.drain();
    volume.engine.forget_counts();
    Ok(Tuned { lead_us: way.0 as f64 / 1e3, looks: false, reach })
}
