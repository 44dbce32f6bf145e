//! A volume of Headworks under the data directory: a block device that behaves like an SSD. The
//! kernel's queue before it can have any scheduler. Everything of it is gone when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::Guard;
use headworks_volume::kernel_queue;

/// Name of the volume; its descriptions lie in a directory of the experiment's own.
const NAME: &str = "apples";

/// A mounted volume.
#[derive(Debug)]
pub(super) struct Volume {
    headworks: PathBuf,
    /// Where descriptions, sockets, backing file and mount point lie.
    home: PathBuf,
    device: PathBuf,
    _guard: Guard,
}

impl Volume {
    /// Makes and mounts one of `size_bytes`, behaving like `model`.
    pub(super) fn mount(
        headworks: &Path,
        home: &Path,
        model: &str,
        size_bytes: u64,
    ) -> Result<Volume> {
        // SAFETY: geteuid has no preconditions.
        let root = unsafe { libc::geteuid() } == 0;
        ensure!(root, "this experiment mounts block devices and needs root: run it with sudo");
        let mut volume = Volume {
            headworks: headworks.to_owned(),
            home: home.to_owned(),
            device: PathBuf::new(),
            _guard: Guard::of_volume(headworks, NAME, home)?,
        };
        fs::create_dir_all(volume.directory())?;
        let backing = home.join("backing.img");
        let backing = backing
            .to_str()
            .context("the working directory's name is not UTF-8: choose another")?;
        let size = size_bytes.to_string();
        volume.headworks(&[
            "create",
            NAME,
            "--size",
            &size,
            "--backing",
            backing,
            "--device",
            model,
        ])?;
        let directory = volume.directory();
        let directory = directory
            .to_str()
            .context("the working directory's name is not UTF-8: choose another")?;
        volume.headworks(&["mount", NAME, directory])?;
        let stat = volume.headworks(&["stat", NAME, "--json"])?;
        let stat: serde_json::Value = serde_json::from_str(&stat)?;
        let device = stat["note"]["device"].as_str().or_else(|| stat["device"].as_str());
        volume.device = device.context("`headworks volume stat` names no device")?.into();
        Ok(volume)
    }

    /// Where it is mounted.
    pub(super) fn directory(&self) -> PathBuf {
        self.home.join("mount")
    }

    /// Schedulers that this kernel has for the device.
    pub(super) fn offered(&self) -> Result<Vec<String>> {
        Ok(names(&self.queue("scheduler")?))
    }

    /// Chooses one, and makes sure of it.
    pub(super) fn choose(&self, scheduler: &str) -> Result<()> {
        kernel_queue::set_scheduler(&self.device, scheduler, None).with_context(|| {
            format!("cannot give {} the scheduler {scheduler}", self.device.display())
        })?;
        let found = chosen(&self.device)?;
        ensure!(found == scheduler, "{} has the scheduler {found}", self.device.display());
        Ok(())
    }

    fn queue(&self, file: &str) -> Result<String> {
        let path = kernel_queue::file(&self.device, file);
        let text = fs::read_to_string(&path);
        Ok(text.with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned())
    }

    fn headworks(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.headworks)
            .arg("volume")
            .args(arguments)
            .env("HEADWORKS_STATE_DIR", self.home.join("state"))
            .env("HEADWORKS_RUN_DIR", self.home.join("run"))
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("`headworks volume {}` failed: {said}", arguments.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        for arguments in [&["umount", NAME][..], &["rm", NAME, "--with-backing"]] {
            if let Err(error) = self.headworks(arguments) {
                eprintln!("headworks: {error:#}\n  clean up: headworks volume doctor");
            }
        }
    }
}

/// The scheduler in force: the one in brackets.
fn chosen(device: &Path) -> Result<String> {
    let path = kernel_queue::file(device, "scheduler");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(chosen.with_context(|| format!("{} names no active scheduler", path.display()))?.to_owned())
}

/// All names in a line of `/sys/block/*/queue/scheduler`.
fn names(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_are_named_without_brackets() {
        assert_eq!(names("none [mq-deadline] bfq \n"), ["none", "mq-deadline", "bfq"]);
    }
}
