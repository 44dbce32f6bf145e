//! `volume doctor`: removes the remains of crashed volumes.
//!
//! Only what lies below our run directory is ours: a FUSE file system of our kind, a loop device
//! over its `disk`, and mounts of that device. It is stale if no process holds the volume's lock,
//! and none serves the volume without a lock because its files were removed. Nothing else is
//! touched; what crashed volumes of other run directories left is named.

use super::state::{self, Named};
use super::system::{self, Mounted};
use crate::cli;
use crate::process::all_running;
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
    let servers = servers();
    for (volume, pid) in without_lock(&servers) {
        failed = true;
        println!(
            "volume `{}` runs (process {pid}), but its files in {} were removed: no command reaches it\n  \
             unmount what is on it, then end it in order: kill {pid}",
            volume.name,
            volume.file("").display()
        );
    }
    let stale = remains(&servers);
    if stale.is_empty() {
        println!("nothing is left of crashed volumes");
    }
    for dir in elsewhere(&servers, &system::mounts()) {
        println!(
            "a crashed volume of another run directory left something\n  \
             clean it up: HEADWORKS_RUN_DIR={} headworks volume doctor",
            dir.display()
        );
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
    remains(&servers()).iter().map(Stale::text).collect()
}

fn remains(servers: &[Server]) -> Vec<Stale> {
    let mut dead: Vec<Named> =
        state::all_run().into_iter().filter(|volume| !volume.is_running()).collect();
    let alive: Vec<String> =
        without_lock(servers).into_iter().map(|(volume, _)| volume.name).collect();
    dead.retain(|volume| !alive.contains(&volume.name));
    find(&dead, &system::mounts(), &loop_device::list())
}

/// A process that `volume mount` started.
struct Server {
    pid: u32,
    name: String,
    run_dir: PathBuf,
}

fn servers() -> Vec<Server> {
    let server = |process: crate::process::Running| {
        let serves = process.args.get(1..3).is_some_and(|words| words == ["volume", "serve"]);
        let name = process.args.get(3).filter(|_| serves)?.clone();
        let run_dir = PathBuf::from(process.variable("HEADWORKS_RUN_DIR")?);
        Some(Server { pid: process.pid, name, run_dir })
    };
    all_running().filter_map(server).collect()
}

/// Volumes of our run directory that are served although the file that is their lock was removed,
/// as by a cleaner of old files.
fn without_lock(servers: &[Server]) -> Vec<(Named, u32)> {
    let ours = crate::instance::run_dir();
    let found = servers.iter().filter(|server| server.run_dir == ours);
    found
        .filter_map(|server| Some((Named::new(&server.name).ok()?, server.pid)))
        .filter(|(volume, _)| !volume.is_running())
        .collect()
}

/// Run directories of others below which a FUSE file system of ours has no server.
fn elsewhere(servers: &[Server], mounts: &[Mounted]) -> Vec<PathBuf> {
    let ours = crate::instance::run_dir();
    let run_dir = |mounted: &Mounted| {
        let name = mounted.source.to_str()?.strip_prefix("headworks-")?;
        let within = Path::new(crate::instance::VOLUMES).join(name).join("front");
        let is_front = mounted.kind.starts_with("fuse") && mounted.dir.ends_with(&within);
        let run_dir = mounted.dir.ancestors().nth(3).filter(|_| is_front)?;
        let serves = |server: &Server| server.name == name && server.run_dir == run_dir;
        (run_dir != ours && !servers.iter().any(serves)).then(|| run_dir.to_owned())
    };
    let mut found: Vec<PathBuf> = mounts.iter().filter_map(run_dir).collect();
    found.sort();
    found.dedup();
    found
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
    fn a_file_system_of_another_run_directory_is_named_if_no_process_serves_it() {
        let front = |dir: &str| {
            let name = dir.rsplit('/').nth(1).unwrap();
            mounted(&format!("headworks-{name}"), Path::new(dir), "fuse")
        };
        let mounts = [
            front("/srv/run/volumes/gone/front"),
            front("/srv/other/volumes/alive/front"),
            mounted("headworks-ours", &Named::new("ours").unwrap().front_dir(), "fuse"),
            mounted("sshfs", Path::new("/srv/x/volumes/sshfs/front"), "fuse.sshfs"),
        ];
        let alive = Server { pid: 1, name: "alive".into(), run_dir: "/srv/other".into() };
        assert_eq!(elsewhere(&[alive], &mounts), [PathBuf::from("/srv/run")]);
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
