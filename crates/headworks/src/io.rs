//! `headworks io`: shows and changes the scheduler of a program's files while it runs.

use crate::cli::{IoCommand, IoDevice, IoSet, IoTop};
use crate::config::{self, io::IoConfig};
use crate::instance::Instance;
use crate::profile::{GENERIC, Profile};
use anyhow::Result;
use headworks_console::Ink;
use headworks_region::io::IoMapping;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

mod picture;
mod state;
mod unheld;
mod unseen;
pub mod waits;
pub use picture::sheet;
pub use state::{Account, Files};
pub use unheld::report as unheld;

/// Rows that are shown.
const ROWS: usize = 20;

/// Whether the device under a path is a disk; false if the kernel does not tell.
pub fn rotational(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    // SAFETY: both only take a number apart.
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let device = format!("/sys/dev/block/{major}:{minor}");
    // A partition's queue is that of its disk.
    [format!("{device}/queue/rotational"), format!("{device}/../queue/rotational")]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .is_some_and(|text| text.trim() == "1")
}

/// Makes the region of the scheduler for the files of a server of this profile. Where the
/// configuration does not name the device, it is that of `data`.
pub fn prepare(
    instance: &Instance,
    owner: Option<(u32, u32)>,
    config: &IoConfig,
    profile: &Profile,
    data: &Path,
) -> Result<()> {
    let region = instance.create_io(owner)?;
    config.apply(&region, rotational(data));
    follow(&region, config, profile);
    Ok(())
}

/// Writes the rules of a server's profile into its region.
pub fn follow(region: &IoMapping, config: &IoConfig, profile: &Profile) {
    // The file's own sections decide first.
    let mut rules = config.rules.clone();
    rules.extend(profile.io.iter().copied());
    config::io::set_rules(region, &rules);
    // Without calls by which it receives, a program has no clients. A program that no profile knows
    // shows by its first answer that it has some.
    let tells = ["threads", "processes"].contains(&profile.served_by.as_str())
        && profile.name != GENERIC
        && !profile.calls.receive.is_empty();
    if tells {
        region.control.gate_learns();
    }
}

/// The scheduler that holds calls on files of an instance; none if there is none.
pub fn holds(instance: &Instance) -> Option<&'static str> {
    let region = instance.io_path().exists().then(|| instance.open_io().ok())??;
    region.control.is_on().then(|| region.control.kind().name())
}

/// Runs `headworks io`.
pub fn run(command: &IoCommand) -> Result<()> {
    match command {
        IoCommand::Top(args) => top(args),
        IoCommand::Waits(args) => waits::run(args),
        IoCommand::Set(args) => set(args),
    }
}

fn top(args: &IoTop) -> Result<()> {
    let instance = Instance::find(args.select.name.as_deref())?;
    let region = instance.open_io()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&Files::of(&instance, &region))?);
        return Ok(());
    }
    let mut before = Files::of(&instance, &region);
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        std::thread::sleep(Duration::from_secs_f64(args.delay.clamp(0.1, 3_600.0)));
        let now = Files::of(&instance, &region);
        let text = sheet(&before, &now).text(ROWS, usize::MAX, Ink { color: false });
        let mut out = std::io::stdout().lock();
        if out.is_terminal() {
            write!(out, "\x1b[H\x1b[2J")?;
        }
        writeln!(out, "{text}")?;
        before = now;
        shown += 1;
        if !instance.is_running() {
            writeln!(out, "the program has ended")?;
            break;
        }
    }
    Ok(())
}

fn set(args: &IoSet) -> Result<()> {
    let instance = Instance::find(args.select.name.as_deref())?;
    let region = instance.open_io()?;
    let device = args.device.map(|device| device == IoDevice::Disk);
    let rotational = device.unwrap_or(region.control.rotational());
    if device.is_some() {
        region.control.learn_device(false);
    }
    match &args.config {
        Some(path) => {
            let mut io = config::load(path)?.io;
            io.kind = args.scheduler.unwrap_or(io.kind);
            io.rotational = device.or(io.rotational);
            io.rules.extend(Profile::noted(&instance.note()?)?.io);
            io.apply(&region, rotational);
        }
        None => region.start(args.scheduler.unwrap_or(region.control.kind()), rotational),
    }
    region.control.set_off(false);
    println!(
        "instance `{}`: {} for a {}",
        instance.name,
        region.control.kind(),
        if region.control.rotational() { "disk" } else { "flash drive" }
    );
    Ok(())
}
