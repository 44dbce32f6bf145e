//! `volume mount` and `volume umount`.

use super::control::{self, Request, Response};
use super::show;
use super::state::{Description, FileSystem, Named, Note};
use super::system::{self, Contents};
use super::users::{self, User};
use super::waiting::Waiting;
use crate::cli;
use crate::instance::Instance;
use crate::process::{pipe, wait_readable};
use anyhow::{Context, Result, bail};
use headworks_volume::VolumeConfig;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a volume may take to start or to stop.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a device may stay in use after it was let go, before that is said.
const LEAVE: Duration = Duration::from_secs(5);

/// Starts a volume and mounts its file system.
pub fn mount(args: &cli::Mount) -> Result<()> {
    let (volume, description) = Named::existing(&args.name)?;
    system::can_serve()?;
    let target = target(args, &description)?;
    if volume.is_running() {
        bail!(
            "volume `{0}` runs already\n  look: headworks volume stat {0}; end it: headworks volume umount {0}",
            volume.name
        );
    }
    if let Some(name) = &args.io {
        learn_from(name, &description)?;
    }
    let device = start(&volume, args.io.as_deref())?;
    if let Ok(Response::Figures(figures)) = control::ask(&volume, Request::Stat) {
        for line in show::not_the_model(&volume.name, &figures) {
            println!("note: {line}");
        }
    }
    let Some((dir, kind)) = target else {
        println!("volume `{}` is {}", volume.name, device.display());
        return Ok(());
    };
    let what = (kind, &description.volume);
    match fill_and_mount(&volume, args.format, &device, &dir, what) {
        Ok(made) => {
            println!(
                "volume `{}` is {}, mounted on {}{}",
                volume.name,
                device.display(),
                dir.display(),
                if made { format!(" (new {})", kind.name()) } else { String::new() }
            );
            if description.volume.in_memory() {
                println!("  it lies in memory: what it holds is gone after umount");
            }
            Ok(())
        }
        Err(error) => {
            // A failed mount leaves nothing.
            if let Err(also) = stop(&volume) {
                eprintln!("headworks: {also:#}");
            }
            Err(error)
        }
    }
}

/// Checks whether a volume has something to learn from this instance.
fn learn_from(name: &str, description: &Description) -> Result<()> {
    let scheduler = &description.volume.scheduler;
    // A storage server learns whose the requests are from any queue.
    let passed_on = description.volume.is_nbd() && scheduler != "noop";
    if !["rcp", "afq", "sfq", "quanta"].contains(&scheduler.as_str()) && !passed_on {
        bail!(
            "its scheduler {scheduler} has no use for --io\n  \
             create the volume with --scheduler rcp or afq, or leave --io out; on a storage server \
             also with sfq"
        );
    }
    let path = Instance::named(name)?.io_path();
    if !path.exists() {
        println!(
            "instance `{name}` does not run with --io yet: looking for {} each second\n  \
             for that of another user, or elsewhere: HEADWORKS_RUN_DIR=DIRECTORY headworks volume mount …",
            path.display()
        );
    }
    Ok(())
}

/// Where the file system goes, if there is one.
fn target(args: &cli::Mount, description: &Description) -> Result<Option<(PathBuf, FileSystem)>> {
    let (dir, kind) = match (&args.dir, description.file_system) {
        (Some(dir), Some(kind)) => (dir, kind),
        (None, None) => return Ok(None),
        (Some(_), None) => bail!(
            "volume `{0}` has no file system, so it needs no directory: headworks volume mount {0}",
            args.name
        ),
        (None, Some(_)) => {
            bail!("say where it goes: headworks volume mount {} DIRECTORY", args.name)
        }
    };
    let dir = std::fs::canonicalize(dir)
        .with_context(|| format!("cannot mount on {0}\n  make it: mkdir -p {0}", dir.display()))?;
    if !dir.is_dir() {
        bail!("{} is no directory", dir.display());
    }
    if let Some(other) = system::mounts().into_iter().find(|mounted| mounted.dir == dir) {
        bail!(
            "{} is mounted on {} already\n  choose another directory, or: umount {1}",
            other.source.display(),
            dir.display()
        );
    }
    if !system::knows(kind.name()) {
        bail!(
            "this kernel has no {0}: modprobe {0}, or create the volume with another --fs",
            kind.name()
        );
    }
    Ok(Some((dir, kind)))
}

/// Makes a file system if there is none, and mounts it. Returns whether it made one.
fn fill_and_mount(
    volume: &Named,
    format: bool,
    device: &Path,
    dir: &Path,
    (kind, config): (FileSystem, &VolumeConfig),
) -> Result<bool> {
    let make = format
        || match system::contents(device)? {
            Contents::Empty => true,
            Contents::FileSystem(found) if found == kind => false,
            Contents::FileSystem(found) => bail!(
                "volume `{0}` holds {1}, not {2}\n  \
                 overwrite it: headworks volume mount --format {0} {3}",
                volume.name,
                found.name(),
                kind.name(),
                dir.display()
            ),
            Contents::Other => bail!(
                "volume `{0}` holds something that is no {1}\n  \
                 overwrite it: headworks volume mount --format {0} {2}",
                volume.name,
                kind.name(),
                dir.display()
            ),
        };
    if make {
        let _waiting = Waiting::new(format!("making {} on {}", kind.name(), device.display()));
        system::make_file_system(device, kind)?;
    }
    {
        // After a crash or a power cut the journal is replayed here.
        let _waiting = Waiting::new(format!("mounting {}", device.display()));
        system::mount(device, dir, kind, config)?;
    }
    let mut note = volume.note().unwrap_or_default();
    note.mounted_on = Some(dir.to_owned());
    if let Err(error) = volume.write_note(&note) {
        let _ = system::unmount(dir, false);
        return Err(error);
    }
    Ok(make)
}

/// Starts the process of a volume and waits until its device is there.
fn start(volume: &Named, io: Option<&str>) -> Result<PathBuf> {
    // Makes the directory, and reports another process that has the lock.
    if volume.lock()?.is_none() {
        bail!(
            "another process is starting volume `{0}`\n  wait for it, and look: headworks volume stat {0}",
            volume.name
        );
    }
    let log_path = volume.file("log");
    let log = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&log_path)
        .with_context(|| format!("cannot write {}", log_path.display()))?;
    let (ready, theirs) = pipe()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["volume", "serve", &volume.name, "--ready-fd"])
        .arg(theirs.as_raw_fd().to_string())
        .current_dir("/")
        .env_remove("LD_PRELOAD")
        .env("HEADWORKS_RUN_DIR", crate::instance::run_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    if let Some(instance) = io {
        command.args(["--io", instance]);
    }
    if let Some(dir) = super::state::state_dir().parent() {
        command.env("HEADWORKS_STATE_DIR", dir);
    }
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(|| {
            // In its own session: it outlives this command and its terminal.
            libc::setsid();
            match libc::fork() {
                -1 => Err(std::io::Error::last_os_error()),
                0 => Ok(()),
                _ => libc::_exit(0),
            }
        });
    }
    let _waiting = Waiting::new(format!("starting volume `{}`", volume.name));
    let mut child = command.spawn().context("cannot start the volume's process")?;
    drop(theirs);
    child.wait()?;
    wait_readable(&ready, TIMEOUT.as_millis() as i32);
    let mut line = [0; 256];
    let len = std::fs::File::from(ready).read(&mut line).unwrap_or(0);
    let line = String::from_utf8_lossy(&line[..len]);
    if let Some(device) = line.trim_end().strip_prefix("ready ") {
        return Ok(PathBuf::from(device));
    }
    let log = std::fs::read_to_string(&log_path).unwrap_or_default();
    volume.clear();
    let said = log.trim().trim_start_matches("headworks: ").to_owned();
    if said.is_empty() {
        bail!("the process of volume `{}` ended without a word", volume.name);
    }
    bail!("{said}")
}

/// Unmounts a volume and ends its process.
pub fn umount(args: &cli::Umount) -> Result<()> {
    let (volume, _) = Named::existing(&args.name)?;
    if !volume.is_running() {
        if volume.note().is_some() {
            bail!(
                "the process of volume `{}` is gone\n  clean up what it left: headworks volume doctor",
                volume.name
            );
        }
        bail!("volume `{}` is not mounted", volume.name);
    }
    if !matches!(volume.note(), Some(Note { device: Some(_), .. })) {
        bail!(
            "volume `{}` is served over NBD or replays a trace: stop that process (Ctrl-C)",
            volume.name
        );
    }
    let device = volume.device();
    // All places where it is mounted, the last one first.
    let mounts: Vec<PathBuf> = system::mounts()
        .into_iter()
        .filter(|mounted| Some(&mounted.source) == device.as_ref())
        .map(|mounted| mounted.dir)
        .collect();
    for dir in mounts.iter().rev() {
        let _waiting = Waiting::new(format!("unmounting {}", dir.display()));
        // Where another mount namespace has it, too, unmounting writes nothing.
        if let Err(error) = system::sync(dir) {
            eprintln!("headworks: not all of {} could be made durable: {error}", dir.display());
        }
        system::unmount(dir, false).with_context(|| {
            format!(
                "cannot unmount {0}: a program has a file or a directory there open\n  \
                 find it: fuser -vm {0}",
                dir.display()
            )
        })?;
    }
    stop(&volume)?;
    println!("volume `{}` is unmounted", volume.name);
    Ok(())
}

/// Says who still has a volume's device, and makes durable what they have written.
fn goes_on(volume: &Named, device: &Path) -> String {
    let users = users::of(device);
    users.iter().for_each(User::sync);
    let mut text = format!(
        "volume `{}` goes on until the last user of {} leaves: without it, what is written there \
         would be lost",
        volume.name,
        device.display()
    );
    if users.is_empty() {
        text += "\n  who that is cannot be seen from here: ls /sys/block/*/holders; look on the host, as root";
    }
    for user in users {
        text += &format!("\n  {user}");
    }
    text
}

/// Ends the process of a volume and waits until it is gone.
fn stop(volume: &Named) -> Result<()> {
    let _waiting = Waiting::new(format!("stopping volume `{}`", volume.name));
    let log = volume.file("log");
    let pid = volume.note().map_or(0, |note| note.pid);
    let begun = Instant::now();
    // It may be gone already, if it was told before and waited for its last user.
    let mut asked = control::ask(volume, Request::Stop).map(drop);
    while volume.is_running() {
        if begun.elapsed() > LEAVE {
            std::mem::replace(&mut asked, Ok(()))?;
        }
        if begun.elapsed() > LEAVE
            && let Some(device) = volume.device()
        {
            bail!("{}", goes_on(volume, &device));
        }
        if begun.elapsed() > TIMEOUT {
            bail!(
                "volume `{}` did not end within {} s\n  its messages: {}\n  end it, as if its power was cut: kill -9 {pid}",
                volume.name,
                TIMEOUT.as_secs(),
                log.display()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if volume.note().is_some() {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "volume `{}` did not end well: {}\n  clean up what it left: headworks volume doctor",
            volume.name,
            said.trim().trim_start_matches("headworks: ")
        );
    }
    Ok(())
}
