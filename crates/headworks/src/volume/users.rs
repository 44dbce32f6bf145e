//! Who has a volume's block device: programs that have it open, and mount namespaces in which it is
//! mounted. A container that was given the directory has such a mount. `fuser` does not show it.

use super::system::{self, Mounted};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A user of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pid: u32,
    name: String,
    /// Where it is mounted for this process; none if it has the device open.
    dir: Option<PathBuf>,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let User { pid, name, dir } = self;
        match dir {
            Some(dir) => write!(
                f,
                "process {pid} ({name}) has it mounted on {0} in its mount namespace: nsenter -t {pid} -m umount {0}",
                dir.display()
            ),
            None => write!(f, "process {pid} ({name}) has it open"),
        }
    }
}

impl User {
    /// Makes durable what its mount holds.
    pub fn sync(&self) {
        if let Some(dir) = &self.dir {
            let within = dir.strip_prefix("/").unwrap_or(dir);
            // It may leave meanwhile, which does the same.
            let _ = system::sync(&PathBuf::from(format!("/proc/{}/root", self.pid)).join(within));
        }
    }
}

/// Who uses a device, as far as this user may see: of each mount namespace one process.
pub fn of(device: &Path) -> Vec<User> {
    let number = std::fs::metadata(device).map_or(0, |found| found.rdev());
    let number = format!("{}:{}", libc::major(number), libc::minor(number));
    let mut users = Vec::new();
    let mut namespaces: BTreeSet<OsString> = BTreeSet::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in numbers {
        let path = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
        let name = || {
            let name = std::fs::read_to_string(path("comm")).unwrap_or_default();
            crate::render::printable(name.trim_end())
        };
        let files = std::fs::read_dir(path("fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == device)
        {
            users.push(User { pid, name: name(), dir: None });
        }
        let Ok(namespace) = std::fs::read_link(path("ns/mnt")) else { continue };
        if namespaces.insert(namespace.into_os_string()) {
            let mounted = system::mounts_of(pid, &number);
            users.extend(mounted.into_iter().map(|Mounted { dir, .. }| User {
                pid,
                name: name(),
                dir: Some(dir),
            }));
        }
    }
    users
}
