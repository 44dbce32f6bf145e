//! A fresh disk for each run: a volume in memory that behaves like a device, with a file system on
//! it.

use anyhow::{Result, ensure};
use headworks_rig::Guard;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Requests that the kernel's queue holds. Loop devices have 128, which a slow device never fills,
/// so that the scheduler would have no say.
const QUEUE: &str = "32";

/// The device of a stack without a volume: a directory on the machine's own disk.
pub(super) const OWN: &str = "own";

/// What is between a file system and its device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    /// Model of the device, as `headworks volume create --device` has it, or [`OWN`].
    pub device: &'static str,
    /// The kernel's scheduler.
    pub kernel: &'static str,
    /// The scheduler of the volume's own queue.
    pub volume: &'static str,
    /// Whether that learns from the instance [`LINKED`] whose the writes are.
    pub linked: bool,
    /// The file system, as `headworks volume create --fs` has it.
    pub file_system: &'static str,
    /// Whether the kernel's writeback throttle (WBT) has its default setting. Else it is off.
    pub throttle: bool,
}

/// A mounted volume or a directory, which goes with everything on it when it is dropped.
pub(super) struct Disk {
    program: PathBuf,
    work: PathBuf,
    /// Without one there is no volume.
    guard: Option<Guard>,
}

const NAME: &str = "split";

/// The instance of the run, as the volume finds it.
pub(super) const LINKED: &str = "linked";

impl Disk {
    pub(super) fn new(program: &Path, work: &Path, stack: Stack) -> Result<Disk> {
        let (program, work) = (program.to_owned(), work.to_owned());
        let mut disk = Disk { program, work, guard: None };
        fs::create_dir_all(disk.dir())?;
        if stack.device == OWN {
            return Ok(disk);
        }
        disk.guard = Some(Guard::of_volume(&disk.program, NAME, &disk.work)?);
        let create = [
            "create",
            NAME,
            "--size",
            "6G",
            "--backing",
            "memory",
            "--device",
            stack.device,
            "--scheduler",
            stack.volume,
            "--fs",
            stack.file_system,
            "--kernel-scheduler",
            stack.kernel,
            "--kernel-requests",
            QUEUE,
        ];
        let throttle: &[&str] = if stack.throttle { &[] } else { &["--kernel-throttle", "0"] };
        disk.volume(&[&create[..], throttle].concat())?;
        let dir = disk.dir().display().to_string();
        let io: &[&str] = if stack.linked { &["--io", LINKED] } else { &[] };
        disk.volume(&[&["mount", NAME, &dir], io].concat())?;
        Ok(disk)
    }

    /// Where its files are.
    pub(super) fn dir(&self) -> PathBuf {
        self.work.join("mnt")
    }

    fn volume(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .arg("volume")
            .args(arguments)
            .env("HEADWORKS_RUN_DIR", self.work.join("run"))
            .env("HEADWORKS_STATE_DIR", self.work.join("state"))
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`headworks volume {}` failed: {said}",
            arguments.join(" ")
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.guard.is_none() {
            let _ = fs::remove_dir_all(self.dir());
            return;
        }
        for arguments in [&["umount", NAME][..], &["rm", NAME]] {
            let _ = self.volume(arguments);
        }
    }
}
