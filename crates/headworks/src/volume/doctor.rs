//! `volume doctor`: removes the remains of crashed volumes.
//!
//! Only what lies below our run directory is ours: a FUSE file system of our kind, a loop device
//! over its `disk`, and mounts of that device. It is stale if no process holds the volume's lock.
//! Nothing else is touched.

use super::state::{self, Named};
use super::system::{self, Mounted};
use crate::cli;
use anyhow::Result;
use headworks_volume::loop_device::{self, Attached};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the kernel may take to release a device.
const LEAVE: Duration = Duration::from_secs(5);

/// Something stale, in the order of removal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stale {
    /// A file system on a device of ours.
    Mount(PathBuf),
    /// A loop device over a `disk` of ours.
    Loop(PathBuf),
    /// A FUSE file system of ours.
    Front(PathBuf),
    /// A directory of a volume that does not run.
    Run(String),
}

/// Cleans up, or lists what it would remove.
pub fn doctor(args: &cli::VolumeDoctor) -> Result<ExitCode> {
    let mut failed = false;
    if let Err(error) = system::can_serve() {
        println!("volumes cannot run here: {error:#}");
        failed = true;
    }
    for (program, package) in [("mkfs.ext4", "e2fsprogs"), ("mkfs.xfs", "xfsprogs")] {
        if !is_installed(program) {
            println!("{program} is not installed: apt-get install {package}");
        }
    }
    let stale = remains();
    if stale.is_empty() {
        println!("nothing is left of crashed volumes");
    }
    for item in stale {
        let what = item.text();
        if args.dry_run {
            println!("stale: {what}");
            continue;
        }
        match clean(&item) {
            Ok(()) => println!("cleaned up: {what}"),
            Err(error) => {
                failed = true;
                println!("cannot clean up {what}: {error}{}", hint(&item, &error));
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Stale {
    fn text(&self) -> String {
        match self {
            Stale::Mount(dir) => format!("the file system on {}", dir.display()),
            Stale::Loop(device) => format!("the loop device {}", device.display()),
            Stale::Front(dir) => format!("the FUSE file system on {}", dir.display()),
            Stale::Run(name) => format!("the run directory of `{name}`"),
        }
    }
}

/// What crashed volumes left, a text each.
pub fn left() -> Vec<String> {
    remains().iter().map(Stale::text).collect()
}

fn remains() -> Vec<Stale> {
    let dead: Vec<Named> =
        state::all_run().into_iter().filter(|volume| !volume.is_running()).collect();
    find(&dead, &system::mounts(), &loop_device::list())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|dir| dir.join(program).is_file())
}

/// Remains of volumes without a process, the uppermost first.
fn find(dead: &[Named], mounts: &[Mounted], loops: &[Attached]) -> Vec<Stale> {
    let mut list = Vec::new();
    for volume in dead {
        let (front, disk) = (volume.front_dir(), volume.disk());
        let ours = |attached: &&Attached| {
            let backing = attached.backing.trim_end_matches(" (deleted)");
            // A detached file system reports its files relative to its own root.
            Path::new(backing) == disk
        };
        let devices: Vec<&PathBuf> =
            loops.iter().filter(ours).map(|attached| &attached.path).collect();
        let upper = mounts.iter().rev().filter(|mounted| devices.contains(&&mounted.source));
        list.extend(upper.map(|mounted| Stale::Mount(mounted.dir.clone())));
        list.extend(devices.into_iter().cloned().map(Stale::Loop));
        let lower = mounts
            .iter()
            .rev()
            .filter(|mounted| mounted.dir == front && mounted.kind.starts_with("fuse"));
        list.extend(lower.map(|mounted| Stale::Front(mounted.dir.clone())));
        list.push(Stale::Run(volume.name.clone()));
    }
    list
}

fn clean(item: &Stale) -> std::io::Result<()> {
    match item {
        Stale::Mount(dir) => system::unmount(dir, false),
        Stale::Loop(device) => remove_loop(device),
        // It is useless, as its server is gone.
        Stale::Front(dir) => system::unmount(dir, true),
        Stale::Run(name) => {
            let Ok(volume) = Named::new(name) else { return Ok(()) };
            let fronts = system::mounts();
            if fronts.iter().any(|mounted| mounted.dir == volume.front_dir()) {
                return Err(std::io::Error::from_raw_os_error(libc::EBUSY));
            }
            volume.clear();
            Ok(())
        }
    }
}

/// Detaches a loop device; it may have gone with its last user.
fn remove_loop(device: &Path) -> std::io::Result<()> {
    let is_there = || loop_device::list().iter().any(|attached| attached.path == device);
    match loop_device::remove(device) {
        Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
        _ => {}
    }
    let deadline = Instant::now() + LEAVE;
    while is_there() {
        if Instant::now() > deadline {
            return Err(std::io::Error::from_raw_os_error(libc::EBUSY));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn hint(item: &Stale, error: &std::io::Error) -> String {
    match (item, error.raw_os_error()) {
        (Stale::Mount(dir), Some(libc::EBUSY)) => {
            format!("\n  a program has something there open; end it: fuser -vm {}", dir.display())
        }
        (Stale::Loop(device), Some(libc::EBUSY)) => {
            format!("\n  a program has it open; end it: fuser -v {}", device.display())
        }
        (_, Some(libc::EPERM | libc::EACCES)) => "\n  run this command as root".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(source: &str, dir: &Path, kind: &str) -> Mounted {
        Mounted { source: source.into(), dir: dir.to_owned(), kind: kind.to_owned() }
    }

    #[test]
    fn only_what_lies_below_our_directory_is_ours() {
        let dead = Named::new("gone").unwrap();
        let disk = dead.disk().display().to_string();
        let attached =
            |path: &str, backing: &str| Attached { path: path.into(), backing: backing.to_owned() };
        let loops = [
            attached("/dev/loop1", "/srv/images/disk"),
            attached("/dev/loop2", &disk),
            attached("/dev/loop3", &Named::new("alive").unwrap().disk().display().to_string()),
        ];
        let mounts = [
            mounted("/dev/loop1", Path::new("/mnt/theirs"), "ext4"),
            mounted("headworks-gone", &dead.front_dir(), "fuse"),
            mounted("/dev/loop2", Path::new("/mnt/ours"), "ext4"),
            mounted("/dev/loop3", Path::new("/mnt/alive"), "ext4"),
            mounted("sshfs", Path::new("/mnt/ssh"), "fuse.sshfs"),
        ];
        assert_eq!(
            find(std::slice::from_ref(&dead), &mounts, &loops),
            [
                Stale::Mount("/mnt/ours".into()),
                Stale::Loop("/dev/loop2".into()),
                Stale::Front(dead.front_dir()),
                Stale::Run("gone".to_owned()),
            ]
        );
    }
}
