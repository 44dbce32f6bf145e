//! The directory below which instances live: which one it is, who may write to it, and what becomes
//! of it at logout.

use crate::process::{Running, all_running};
use anyhow::{Context, Result, bail};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory below which instances live: `HEADWORKS_RUN_DIR`, or one in memory, because the
/// region is written all the time and must not reach a disk.
pub fn run_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("HEADWORKS_RUN_DIR") {
        // The daemon has another working directory.
        return std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(dir));
    }
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    let mut choices = Vec::new();
    if uid == 0 {
        choices.push(PathBuf::from("/run/headworks"));
    } else if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR") {
        choices.push(PathBuf::from(dir).join("headworks"));
    }
    choices.push(PathBuf::from(format!("/dev/shm/headworks-{uid}")));
    let in_memory = |dir: &&PathBuf| dir.parent().is_some_and(is_in_memory);
    choices
        .iter()
        .find(in_memory)
        .cloned()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("headworks-{uid}")))
}

/// Where this user's commands look for instances: the user's own directory first. Root also looks
/// into those in which other users' programs start theirs.
pub(super) fn run_dirs() -> Vec<PathBuf> {
    let own = run_dir();
    // SAFETY: geteuid has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut all = vec![own.clone()];
    if is_root && std::env::var_os("HEADWORKS_RUN_DIR").is_none() {
        let theirs = users_dirs(Path::new("/dev/shm"), Path::new("/run/user"));
        all.extend(theirs.into_iter().filter(|dir| *dir != own));
    }
    all
}

/// Directories `headworks-UID` in `memory` and `UID/headworks` in `runtime` that belong to that
/// user. Another user cannot put an instance there.
fn users_dirs(memory: &Path, runtime: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let in_memory = entries(memory).filter_map(|entry| {
        let name = entry.file_name();
        Some((name.to_str()?.strip_prefix("headworks-")?.parse().ok()?, entry.path()))
    });
    let at_runtime = entries(runtime).filter_map(|entry| {
        Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("headworks")))
    });
    let belongs = |(uid, dir): &(u32, PathBuf)| {
        dir.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == *uid)
    };
    in_memory.chain(at_runtime).filter(belongs).map(|(_, dir)| dir).collect()
}

fn is_in_memory(dir: &Path) -> bool {
    let Ok(path) = CString::new(dir.as_os_str().as_bytes()) else { return false };
    // SAFETY: all zero bytes are a valid buffer, and the path is a C string.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &raw mut stat) == 0 && stat.f_type == libc::TMPFS_MAGIC
    }
}

/// How to keep the directory of a user's instances at logout.
pub const KEEP_RUN_DIR: &str = "logind removes XDG_RUNTIME_DIR when its user logs out; to keep it: loginctl enable-linger\n  \
     or choose another directory: HEADWORKS_RUN_DIR=… headworks run …";

/// The daemons of this run directory whose own directory was removed: name, process, and where it
/// was.
fn unreachable() -> Vec<(String, u32, PathBuf)> {
    let run = run_dir();
    let look = |process: Running| {
        let is_daemon = process.args.get(1).is_some_and(|word| word == "daemon");
        let at = process.args.iter().position(|word| word == "--name").filter(|_| is_daemon)?;
        let name = process.args.get(at + 1)?.clone();
        let dir = process.variable("HEADWORKS_RUN_DIR")?;
        let dir = (Path::new(dir) == run).then(|| Path::new(dir).join(&name))?;
        (!dir.join("region").exists()).then_some((name, process.pid, dir))
    };
    all_running().filter_map(look).collect()
}

/// Says why an instance is not found although its daemon runs.
pub(super) fn refuse_unreachable(name: Option<&str>) -> Result<()> {
    let found = unreachable().into_iter().find(|(found, ..)| name.is_none_or(|name| name == found));
    let Some((name, pid, dir)) = found else { return Ok(()) };
    bail!(
        "instance `{name}` runs (its daemon is process {pid}), but {} was removed: no command reaches it\n  \
         the gate goes on as it is; restart the database to reach it again\n  {KEEP_RUN_DIR}",
        dir.display()
    )
}

/// Whether logind removes the directory when this user logs out.
pub fn goes_at_logout(dir: &Path) -> bool {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: the entry is read before the next call overwrites it, and its name is a C string.
    let name = unsafe {
        libc::getpwuid(uid)
            .as_ref()
            .map(|entry| std::ffi::CStr::from_ptr(entry.pw_name).to_string_lossy().into_owned())
    };
    let lingers = name.is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists());
    dir.starts_with(format!("/run/user/{uid}")) && !lingers
}

pub(super) const CHOOSE_RUN_DIR: &str =
    "choose a directory you may write to: HEADWORKS_RUN_DIR=… headworks run …";

/// No other process starts or replaces an instance while this is held; `exec` releases it.
#[derive(Debug)]
pub struct StartLock {
    _held: std::fs::File,
}

impl StartLock {
    /// Makes the run directory if needed, and waits until no other process starts an instance
    /// there.
    pub fn take() -> Result<StartLock> {
        let dir = run_dir();
        make_run_dir(&dir)?;
        let file = std::fs::File::open(&dir)
            .with_context(|| format!("cannot open {}\n  {CHOOSE_RUN_DIR}", dir.display()))?;
        file.lock().with_context(|| format!("cannot lock {}", dir.display()))?;
        Ok(StartLock { _held: file })
    }
}

/// Makes the directory for instances if needed. All users of instances may enter it.
pub(super) fn make_run_dir(dir: &Path) -> Result<()> {
    if !dir.exists() {
        std::fs::create_dir_all(dir)
            // Whatever the umask is: the daemon enters it as the database's user.
            .and_then(|()| std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot make {}\n  {CHOOSE_RUN_DIR}", dir.display()))?;
    }
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    // Checks both the name and, if it is a link, its target.
    for meta in [std::fs::symlink_metadata(dir), std::fs::metadata(dir)] {
        let meta =
            meta.with_context(|| format!("cannot use {}\n  {CHOOSE_RUN_DIR}", dir.display()))?;
        let trusted = meta.uid() == 0 || meta.uid() == own;
        let closed = !meta.is_dir() || meta.mode() & 0o022 == 0 || meta.mode() & libc::S_ISVTX != 0;
        if !(trusted && closed) {
            bail!(
                "other users could replace what lies in {}\n  {CHOOSE_RUN_DIR}\n  \
                 or make it yours alone: chown and chmod go-w {}",
                dir.display(),
                dir.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_other_users_are_looked_for_where_only_they_can_write() {
        let root = std::env::temp_dir().join(format!("headworks-users-{}", std::process::id()));
        let (memory, runtime) = (root.join("shm"), root.join("run"));
        // SAFETY: geteuid has no preconditions.
        let uid = unsafe { libc::geteuid() };
        let (first, second) =
            (memory.join(format!("headworks-{uid}")), runtime.join(format!("{uid}/headworks")));
        let others = [
            memory.join(format!("headworks-{}", uid + 1)),
            memory.join("headworks-rig-7"),
            runtime.join(format!("{}/headworks", uid + 1)),
        ];
        for dir in others.iter().chain([&first, &second]) {
            std::fs::create_dir_all(dir).unwrap();
        }
        assert_eq!(users_dirs(&memory, &runtime), [first.clone(), second]);
        std::fs::remove_dir(&first).unwrap();
        std::os::unix::fs::symlink(&root, &first).unwrap();
        assert!(!users_dirs(&memory, &runtime).contains(&first), "a link is no directory");
        assert!(users_dirs(Path::new("/nowhere"), Path::new("/nowhere")).is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
