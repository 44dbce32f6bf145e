//! The working directory of an experiment: on a real disk, with room, and gone afterwards.

use std::env;
use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail, ensure};

use crate::experiment::RunOptions;

/// A directory that is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Work(PathBuf);

impl Work {
    /// Makes the directory where the options say. Else it goes into the output directory or among
    /// the temporary files: the first of them that is on a real disk and that the server can reach.
    pub(crate) fn new(options: &RunOptions, needed_bytes: u64) -> Result<Self> {
        let name = format!("work-{}", process::id());
        let path = match &options.work {
            Some(parent) => {
                fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
                parent.join(name)
            }
            None => [options.out.clone(), env::temp_dir(), PathBuf::from("/var/tmp")]
                .into_iter()
                .map(|parent| parent.join(format!("headworks-{name}")))
                .find(|path| headworks_rig::server_can_reach(path) && !is_in_memory(path))
                .context("no directory on a real disk that the server's account can enter; name one for the work")?,
        };
        let path = std::path::absolute(path)?;
        if !headworks_rig::server_can_reach(&path) {
            bail!(
                "the server's unprivileged account cannot enter a parent directory of {}",
                path.display()
            );
        }
        DirBuilder::new()
            .mode(0o755)
            .create(&path)
            .with_context(|| format!("cannot create the working directory {}", path.display()))?;
        let work = Self(path);
        let free_bytes = free_bytes(work.path())?;
        ensure!(
            free_bytes >= needed_bytes,
            "{} has {} MB free, {} MB are needed",
            work.path().display(),
            free_bytes / 1_000_000,
            needed_bytes / 1_000_000
        );
        Ok(work)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a path (or, if it does not exist yet, its parent) lies on a file system without a disk.
fn is_in_memory(path: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    let Some(existing) = path.ancestors().find(|ancestor| ancestor.exists()) else {
        return false;
    };
    let Ok(name) = CString::new(existing.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: all-zero is a valid statfs; `name` is a NUL-terminated string; both live through the
    // call.
    let kind = unsafe {
        let mut found: libc::statfs = mem::zeroed();
        if libc::statfs(name.as_ptr(), &raw mut found) != 0 {
            return false;
        }
        found.f_type as i64
    };
    kind == TMPFS || kind == RAMFS
}

fn free_bytes(path: &Path) -> Result<u64> {
    let name = CString::new(path.as_os_str().as_bytes()).context("a path with a NUL byte")?;
    // SAFETY: all-zero is a valid statvfs; `name` is a NUL-terminated string; both live through the
    // call.
    let found = unsafe {
        let mut found: libc::statvfs = mem::zeroed();
        if libc::statvfs(name.as_ptr(), &raw mut found) != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot ask for free space");
        }
        found
    };
    Ok(found.f_bavail as u64 * found.f_frsize as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_goes_with_its_owner() {
        let out = env::temp_dir().join(format!("headworks-work-test-{}", process::id()));
        let options = RunOptions { work: Some(out.clone()), ..RunOptions::new(&out) };
        let work = Work::new(&options, 1).unwrap();
        let path = work.path().to_owned();
        assert!(path.is_dir());
        drop(work);
        assert!(!path.exists());
        let error = Work::new(&options, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("needed"), "{error}");
        fs::remove_dir(&out).unwrap();
    }
}
