//! The kernel's own queue of a block device, above ours.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of a device's queue in `/sys`, for example `scheduler`.
pub fn file(device: &Path, name: &str) -> PathBuf {
    let device = device.file_name().unwrap_or_default();
    Path::new("/sys/block").join(device).join("queue").join(name)
}

fn set(device: &Path, name: &str, value: &str) -> io::Result<()> {
    // Never made: `/sys` gives no sensible error for that.
    OpenOptions::new().write(true).open(file(device, name))?.write_all(value.as_bytes())
}

/// Sets the kernel's own scheduler for a device of ours, and how many requests it sends to the
/// device at a time.
///
/// The devices have 128 tags, so on a slow one all requests leave the scheduler at once. So with
/// any scheduler but `none` the tags are cut to 32, unless `requests` says otherwise. They are cut
/// only if `none` is set first. They are always set: a loop device keeps them for its next user.
///
/// # Errors
/// If the kernel does not have the scheduler, or refuses the number.
pub fn set_scheduler(device: &Path, scheduler: &str, requests: Option<u32>) -> io::Result<()> {
    let usual = if scheduler == "none" { 128 } else { 32 };
    set(device, "scheduler", "none")?;
    set(device, "nr_requests", &requests.unwrap_or(usual).to_string())?;
    // Even the same one once more would undo it.
    if scheduler == "none" { Ok(()) } else { set(device, "scheduler", scheduler) }
}

/// Sets the latency that the kernel's writeback throttle aims at, in microseconds; 0 switches it
/// off. Without a number the kernel's default comes back: a loop device keeps the last one.
///
/// # Errors
/// If there is a number, and the kernel refuses it or has no throttle.
pub fn set_throttle(device: &Path, latency_us: Option<u32>) -> io::Result<()> {
    let value = latency_us.map_or("-1".to_owned(), |latency_us| latency_us.to_string());
    match set(device, "wbt_lat_usec", &value) {
        // A kernel without the throttle needs not be told.
        Err(_) if latency_us.is_none() => Ok(()),
        Err(error) if latency_us == Some(0) && error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Tells the kernel, and programs that ask it, whether a device of ours is a disk.
///
/// # Errors
/// If `/sys` cannot be written.
pub fn set_rotational(device: &Path, yes: bool) -> io::Result<()> {
    std::fs::write(file(device, "rotational"), if yes { "1" } else { "0" })
}
