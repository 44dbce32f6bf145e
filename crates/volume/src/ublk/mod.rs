//! The front end for kernels with ublk (Linux 6.0 and later, module `ublk_drv`): a block device whose
//! requests come through io_uring, without a file system and a loop device between.
//!
//! Built from the kernel's interface (`linux/ublk_cmd.h`, and what its driver checks); **tried against
//! absence only, on machines without ublk**. What needs no driver is tested: the layouts against the
//! installed header, requests and answers, and the queue against a stand-in for the kernel. That the
//! real driver takes it is not.
//!
//! | file | is |
//! | --- | --- |
//! | `abi` | the header: layouts and numbers |
//! | `request` | what is asked and answered, the device's parameters; pure |
//! | `queue` | the thread between the kernel and the engine |
//! | `ring` | the queue's commands and the shared descriptors |
//! | `control` | the driver's commands |
//! | `device` | a device from its adding to its removal, and what crashed ones left |
//!
//! A device has one queue of 128 tags with a buffer of 256 KiB each: 32 MiB, all of it resident.
//!
//! # After a crash
//! The kernel takes the block device away when its server is gone, but keeps the number. A device
//! carries its volume's [`Mark`] in a field that the driver leaves to servers: what has the mark is
//! the volume's, whatever its number.

mod abi;
mod control;
mod device;
mod queue;
mod request;
mod ring;
#[cfg(test)]
mod tests;

pub use device::{Device, Mark, block_device, list, remove};

use std::io;

/// Why there is no ublk here.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no driver.
    #[error(
        "/dev/ublk-control is missing: this kernel has no ublk, or its module is not loaded\n  \
         load it: modprobe ublk_drv   # Linux 6.0 or later"
    )]
    Missing,
    /// The driver's node cannot be opened.
    #[error("cannot open /dev/ublk-control: {0}\n  it is root's: run this command as root")]
    Refused(io::Error),
    /// There is no io_uring.
    #[error("ublk needs io_uring: {0}\n  allow it: sysctl kernel.io_uring_disabled=0")]
    Ring(io::Error),
}

impl Unavailable {
    /// Why, on one line.
    pub fn reason(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}

/// Whether a device could be made here; makes none.
///
/// # Errors
/// Why not.
pub fn look() -> Result<(), Unavailable> {
    control::Control::open().map(|_| ())
}
