//! Whether the path through the kernel keeps up with a device's model.
//!
//! A model may promise more requests a second than FUSE, the loop device and the machine's
//! processors can carry. Programs then see their speed and not the device's. Both are found when
//! the device is mounted: what the model does in simulated time, and what arrives in a short run of
//! the same requests.

use crate::buffer::Buffer;
use crate::config::{ConfigError, VolumeConfig};
use crate::model::Device;
use crate::sim::{self, Job};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, SECTOR_BYTES, SchedulerKind};
use headworks_policy::random::Random;
use io_uring::{IoUring, opcode, types};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests that are outstanding, as many as the published rates of drives are measured with.
const DEPTH: u16 = 32;

/// Simulated time, after a fifth of it as warm-up.
const SIMULATED: Nanos = Nanos::from_millis(50);

/// How long the device is read, after a third of it as warm-up.
const READ: Duration = Duration::from_millis(60);

/// Every path through the kernel carries so many requests a second: slower models are not measured.
const CARRIED_PER_S: f64 = 15_000.0;

/// Part of the model's rate below which programs do not see the model.
const ENOUGH: f64 = 0.9;

/// Random reads of 16 KiB a second, 32 at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// What the model does.
    pub model_per_s: f64,
    /// What arrived.
    pub arrived_per_s: f64,
}

impl Reach {
    /// Measures a volume's block device, which nothing else uses. `None` if there is no model, if
    /// it is slow, or if layers decide about requests.
    ///
    /// # Errors
    /// If the description is wrong, the device cannot be read, or there is no io_uring.
    pub fn measure(config: &VolumeConfig, device: &Path) -> io::Result<Option<Reach>> {
        if !config.layers.is_empty() {
            return Ok(None);
        }
        let Some(model_per_s) = promised(config).map_err(io::Error::other)? else {
            return Ok(None);
        };
        if model_per_s < CARRIED_PER_S {
            return Ok(None);
        }
        let arrived_per_s = arriving(device, config.size_bytes)?;
        Ok(Some(Reach { model_per_s, arrived_per_s }))
    }

    /// What arrived, as a part of what the model does.
    pub fn part(&self) -> f64 {
        self.arrived_per_s / self.model_per_s
    }

    /// Whether programs see another speed than the model's.
    pub fn falls_short(&self) -> bool {
        self.part() < ENOUGH
    }
}

/// Reads a second that the model does behind the volume's scheduler. `None` without a model.
fn promised(config: &VolumeConfig) -> Result<Option<f64>, ConfigError> {
    let device = config.find_device()?;
    let block = u64::from(Job::random(Operation::Read, DEPTH, 0).block_bytes);
    if device == Device::Raw || config.size_bytes < block {
        return Ok(None);
    }
    let job = Job::random(Operation::Read, DEPTH, config.size_bytes / SECTOR_BYTES);
    let mut scheduler =
        config.scheduler.parse::<SchedulerKind>()?.build_for(device.is_rotational());
    let mut model = device.model(config.size_bytes, config.seed);
    let warm_up = Nanos(SIMULATED.0 / 5);
    let outcomes = sim::run(&mut *scheduler, &mut *model, &[job], warm_up, SIMULATED, config.seed);
    Ok(outcomes.first().map(sim::Outcome::iops))
}

/// Reads a second from a block device of this size.
fn arriving(device: &Path, size_bytes: u64) -> io::Result<f64> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device)?;
    let block = Job::random(Operation::Read, DEPTH, 0).block_bytes;
    let blocks = size_bytes / u64::from(block);
    let mut random = Random::new(1);
    // Before the ring: it goes last, after the kernel is done with them.
    let mut buffers: Vec<Buffer> = (0..DEPTH).map(|_| Buffer::new(block as usize)).collect();
    let mut ring = IoUring::new(u32::from(DEPTH))?;
    let mut outstanding = 0_usize;
    let mut idle: Vec<usize> = (0..buffers.len()).collect();
    let began = Instant::now();
    let (mut counted, mut counts_from, mut failed) = (0_u64, began, None);
    loop {
        let open = began.elapsed() < READ && failed.is_none();
        while open && let Some(at) = idle.pop() {
            let target = types::Fd(file.as_raw_fd());
            let read = opcode::Read::new(target, buffers[at].as_mut_ptr(), block)
                .offset(random.below(blocks) * u64::from(block))
                .build()
                .user_data(at as u64);
            // SAFETY: the buffer is used by this read alone until its completion is taken below.
            // The loop ends only when none is outstanding.
            unsafe { ring.submission().push(&read) }.map_err(io::Error::other)?;
            outstanding += 1;
        }
        if outstanding == 0 {
            break;
        }
        wait(&ring);
        for entry in ring.completion() {
            outstanding -= 1;
            // The index that was given above.
            idle.push(entry.user_data() as usize);
            counted += 1;
            if entry.result() < 0 {
                failed = Some(io::Error::from_raw_os_error(-entry.result()));
            }
        }
        if counts_from == began && began.elapsed() > READ / 3 {
            (counted, counts_from) = (0, Instant::now());
        }
    }
    match failed {
        Some(error) => Err(error),
        // A run counts thousands.
        None => Ok(counted as f64 / counts_from.elapsed().as_secs_f64().max(1e-3)),
    }
}

/// Submits what was pushed and waits for one completion. Reads in flight write into our memory, so
/// a ring that fails ends the process.
fn wait(ring: &IoUring) {
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM)
                ) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => {
                eprintln!("headworks: the kernel refuses a ring that it gave: {error}");
                std::process::abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(model_per_s: f64, arrived_per_s: f64) -> Reach {
        Reach { model_per_s, arrived_per_s }
    }

    #[test]
    fn a_tenth_less_than_the_model_is_no_longer_the_model() {
        assert!(!reach(100_000.0, 91_000.0).falls_short());
        assert!(reach(100_000.0, 89_000.0).falls_short());
        assert!(!reach(100_000.0, 130_000.0).falls_short());
    }

    #[test]
    fn a_models_promise_is_its_published_rate() {
        let mut config = VolumeConfig::new(1 << 30, crate::config::MEMORY);
        assert_eq!(promised(&config).unwrap(), None);
        config.device = "ssd-c".to_owned();
        let per_s = promised(&config).unwrap().unwrap();
        // LRU-C, Table 1. A short run over a small part of the drive.
        assert!((per_s / 39_860.0 - 1.0).abs() < 0.1, "{per_s}");
    }

    #[test]
    fn slow_models_and_layers_are_not_measured() {
        let mut config = VolumeConfig::new(1 << 30, crate::config::MEMORY);
        let nowhere = Path::new("/nonexistent");
        config.device = "hdd".to_owned();
        assert_eq!(Reach::measure(&config, nowhere).unwrap(), None);
        config.device = "ssd-a".to_owned();
        Reach::measure(&config, nowhere).unwrap_err();
        config.layers = vec!["delay:ms=1".to_owned()];
        assert_eq!(Reach::measure(&config, nowhere).unwrap(), None);
    }
}
