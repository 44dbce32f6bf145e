//! Where a volume's description and its running state live.
//!
//! The description is a TOML file below the state directory and survives a reboot. A running volume
//! has a directory below the run directory. It holds the lock of the volume's process, the file
//! system with the `disk`, a control socket, a note of where it is mounted, and a log.

use anyhow::{Context, Result, bail};
use headworks_volume::{VolumeConfig, loop_device};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file system of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// With a journal.
    Ext4,
    /// XFS.
    Xfs,
}

impl FileSystem {
    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// The command that checks and mends it.
    pub fn check(self, image: &str) -> String {
        match self {
            FileSystem::Ext4 => format!("e2fsck -f {image}"),
            FileSystem::Xfs => format!("xfs_repair {image}"),
        }
    }
}

/// A volume's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The file system that `mount` makes; none for a raw device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// The kernel's scheduler of the loop device.
    pub kernel_scheduler: String,
    /// Requests that the kernel sends to the volume at a time; none for the usual number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_requests: Option<u32>,
    /// Latency that the kernel's writeback throttle aims at, in microseconds; 0 switches it off,
    /// none is its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_throttle_us: Option<u32>,
    /// The backing file was made by `create`.
    #[serde(default)]
    pub made_backing: bool,
    /// What it is made of.
    pub volume: VolumeConfig,
}

/// Facts about a running volume, beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its process.
    pub pid: u32,
    /// Its block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// Where it is served over NBD instead: `unix:PATH` or `tcp:HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<String>,
    /// Where its file system is mounted.
    pub mounted_on: Option<PathBuf>,
}

impl Note {
    /// Where clients find it.
    pub fn place(&self) -> String {
        match (&self.device, &self.nbd) {
            (Some(device), _) => device.display().to_string(),
            (None, Some(place)) => format!("over NBD on {place}"),
            (None, None) => "-".to_owned(),
        }
    }
}

/// A volume by its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name.
    pub name: String,
    /// Directory of what runs.
    pub dir: PathBuf,
}

/// Directory of the descriptions: below `HEADWORKS_STATE_DIR`, for root `/var/lib/headworks`, else
/// below the user's own.
pub fn state_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("HEADWORKS_STATE_DIR") {
        return std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(dir)).join("volumes");
    }
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        return PathBuf::from("/var/lib/headworks/volumes");
    }
    let own = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    own.unwrap_or_else(std::env::temp_dir).join("headworks/volumes")
}

/// Directory of what runs.
pub fn run_dir() -> PathBuf {
    crate::instance::run_dir().join(crate::instance::VOLUMES)
}

fn make_dir(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| {
        format!(
            "cannot make {}\n  choose others: HEADWORKS_STATE_DIR=… HEADWORKS_RUN_DIR=… headworks volume …",
            dir.display()
        )
    })
}

impl Named {
    /// The volume of this name, whether it exists or not.
    pub fn new(name: &str) -> Result<Named> {
        let plain = !name.is_empty()
            && name.len() <= 40
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !name.starts_with(['.', '-']);
        if !plain {
            bail!(
                "`{name}` is no name for a volume: up to 40 letters, digits, `-`, `_` and `.`, beginning with a letter or digit"
            );
        }
        Ok(Named { name: name.to_owned(), dir: run_dir().join(name) })
    }

    /// The volume of this name, which was created.
    pub fn existing(name: &str) -> Result<(Named, Description)> {
        let named = Named::new(name)?;
        if !named.path().exists() {
            let others: Vec<String> = all().into_iter().map(|volume| volume.name).collect();
            bail!(
                "there is no volume `{name}` in {}\n  {}",
                state_dir().display(),
                if others.is_empty() {
                    "create one: headworks volume create NAME --size 10G --backing FILE".to_owned()
                } else {
                    format!("there are: {}", others.join(", "))
                }
            );
        }
        let description = named.read()?;
        Ok((named, description))
    }

    /// The description's file.
    pub fn path(&self) -> PathBuf {
        state_dir().join(format!("{}.toml", self.name))
    }

    /// Reads the description.
    pub fn read(&self) -> Result<Description> {
        let path = self.path();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text)
            .with_context(|| format!("{} is damaged: mend it by hand", path.display()))
    }

    /// Writes a new description; fails if one exists.
    pub fn write_new(&self, description: &Description) -> Result<()> {
        make_dir(&state_dir())?;
        let path = self.path();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => anyhow::anyhow!(
                    "there is a volume `{0}` already\n  look: headworks volume stat {0}; remove it: headworks volume rm {0}",
                    self.name
                ),
                _ => anyhow::anyhow!("cannot write {}: {error}", path.display()),
            })?;
        let text = toml::to_string(description)?;
        std::io::Write::write_all(&mut file, text.as_bytes())
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// A file of what runs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the file system with the `disk` is mounted.
    pub fn front_dir(&self) -> PathBuf {
        self.file("front")
    }

    /// The file under the loop device.
    pub fn disk(&self) -> PathBuf {
        self.front_dir().join(headworks_volume::fuse::FILE_NAME)
    }

    /// Takes the lock that the serving process holds; none if another one has it.
    pub fn lock(&self) -> Result<Option<File>> {
        make_dir(&run_dir())?;
        make_dir(&self.dir)?;
        let path = self.file("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Whether a process serves it.
    pub fn is_running(&self) -> bool {
        // Reading does not create it: a volume that never ran has no directory.
        File::open(self.file("lock")).is_ok_and(|file| {
            matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
        })
    }

    /// The note from its start.
    pub fn note(&self) -> Option<Note> {
        serde_json::from_str(&std::fs::read_to_string(self.file("note.json")).ok()?).ok()
    }

    /// Its loop device, if the one that the note names is still its.
    pub fn device(&self) -> Option<PathBuf> {
        let device = self.note()?.device?;
        loop_device::is_over(&device, &self.disk()).then_some(device)
    }

    /// Notes what runs.
    pub fn write_note(&self, note: &Note) -> Result<()> {
        let path = self.file("note.json");
        let part = self.file("note.json.part");
        std::fs::write(&part, serde_json::to_string_pretty(note)?)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the directory of a volume that ran. Mounts below it are left alone.
    pub fn clear(&self) {
        let _ = std::fs::remove_dir(self.front_dir());
        for name in ["note.json", "note.json.part", "control.sock", "tunnel.sock", "log", "lock"] {
            let _ = std::fs::remove_file(self.file(name));
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// All volumes that were created, by name.
pub fn all() -> Vec<Named> {
    let Ok(entries) = std::fs::read_dir(state_dir()) else { return Vec::new() };
    let mut all: Vec<Named> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().strip_suffix(".toml")?.to_owned();
            Named::new(&name).ok()
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// All volumes that have a run directory, whether they still run or not.
pub fn all_run() -> Vec<Named> {
    let Ok(entries) = std::fs::read_dir(run_dir()) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: Vec<Named> = names.filter_map(|name| Named::new(&name).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_directory_or_look_like_an_option() {
        for bad in ["", "..", "a/b", ".hidden", "-x", "a b", &"x".repeat(41)] {
            assert!(Named::new(bad).is_err(), "{bad}");
        }
        assert!(Named::new("data-2.old").is_ok());
    }

    #[test]
    fn a_description_survives_its_file() {
        let mut volume = VolumeConfig::new(1 << 30, "/srv/data.img");
        volume.layers = vec!["stats".to_owned(), "powercut:seed=7".to_owned()];
        for file_system in [None, Some(FileSystem::Ext4), Some(FileSystem::Xfs)] {
            let description = Description {
                file_system,
                kernel_scheduler: "none".to_owned(),
                kernel_requests: Some(32),
                kernel_throttle_us: None,
                made_backing: true,
                volume: volume.clone(),
            };
            let text = toml::to_string(&description).unwrap();
            assert_eq!(toml::from_str::<Description>(&text).unwrap(), description, "{text}");
        }
        assert!(toml::from_str::<Description>("kernel_scheduler = 'none'\nsiez = 1").is_err());
    }
}
