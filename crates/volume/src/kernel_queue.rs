//! The kernel's own queue of a block device, above ours.

use std::io;
use std::path::{Path, PathBuf};

/// A file of a device's queue in `/sys`, for example `scheduler`.
pub fn file(device: &Path, name: &str) -> PathBuf {
    let device = device.file_name().unwrap_or_default();
    Path::new("/sys/block").join(device).join("queue").join(name)
}

/// Sets the kernel's own scheduler for a device of ours. The devices have 128 tags, so on a slow
/// one all requests leave the scheduler at once. So with any scheduler but `none` the tags are cut
/// to 32, which takes effect only if `none` is set first.
///
/// # Errors
/// If the kernel does not have it.
pub fn set_scheduler(device: &Path, scheduler: &str) -> io::Result<()> {
    std::fs::write(file(device, "scheduler"), "none")?;
    if scheduler != "none" {
        std::fs::write(file(device, "nr_requests"), "32")?;
        std::fs::write(file(device, "scheduler"), scheduler)?;
    }
    Ok(())
}
