//! A fresh disk for each run: a volume in memory that behaves like a device, with a file system on
//! it.

use crate::running;
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
pub(crate) struct Stack {
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

impl Stack {
    /// A disk under ext4 and mq-deadline, without the writeback throttle.
    pub(crate) const fn disk() -> Self {
        Stack::of("hdd", "mq-deadline")
    }

    pub(super) const fn of(device: &'static str, kernel: &'static str) -> Self {
        Stack {
            device,
            kernel,
            volume: "noop",
            linked: false,
            file_system: "ext4",
            throttle: false,
        }
    }
}

/// A mounted volume or a directory, which goes with everything on it when it is dropped.
pub(crate) struct Disk {
    program: PathBuf,
    work: PathBuf,
    /// Without one there is no volume.
    guard: Option<Guard>,
}

const NAME: &str = "split";

/// The instance of the run, as the volume finds it.
pub(super) const LINKED: &str = "linked";

impl Disk {
    pub(crate) fn new(program: &Path, work: &Path, stack: Stack) -> Result<Disk> {
        let (program, work) = (program.to_owned(), work.to_owned());
        let mut disk = Disk { program, work, guard: None };
        fs::create_dir_all(disk.dir())?;
        fs::create_dir_all(disk.work.join("run"))?;
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

    /// A file system on an export of an NBD server, without another queue.
    pub(crate) fn on(program: &Path, work: &Path, uri: &str, size: &str) -> Result<Disk> {
        let (program, work) = (program.to_owned(), work.to_owned());
        let mut disk = Disk { program, work, guard: None };
        fs::create_dir_all(disk.dir())?;
        disk.guard = Some(Guard::of_volume(&disk.program, NAME, &disk.work)?);
        disk.volume(&["create", NAME, "--size", size, "--backing", uri])?;
        disk.volume(&["mount", NAME, &disk.dir().display().to_string()])?;
        Ok(disk)
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> PathBuf {
        self.work.join("mnt")
    }

    /// Copies a database's data to the disk. Nothing but the server's own writes is on its way to
    /// the device then.
    pub(crate) fn copy(&self, template: &Path, name: &str) -> Result<PathBuf> {
        let data = self.dir().join(name);
        let copied = running::output(Command::new("cp").arg("-a").arg(template).arg(&data))?;
        ensure!(copied.status.success(), "cannot copy the data to {}", data.display());
        let synced = running::output(Command::new("sync").arg("-f").arg(&data))?;
        ensure!(synced.status.success(), "cannot write the data to the disk");
        Ok(data)
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
