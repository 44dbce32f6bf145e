//! Figure 2.22: the two threads of Figure 2.16 in separate virtual machines.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, sibling};
use super::tokens::{ALONE, LOADS, READ_MEMORY, SCS, SPLIT, WRITE_MEMORY, distance};
use crate::running;
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use anyhow::{Context, Result, ensure};
use headworks_rig::find_program;
use headworks_workload::files::{self, Pattern, Task};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The only program of a guest.
const SOURCE: &str = include_str!("guest.c");

/// Its first disk in memory, as the kernel unpacks it.
const INITRD: &str = "initrd";

/// Bytes of a guest's disk: more than its memory of 256 MB.
const DISK_BYTES: u64 = 1 << 30;

/// B's limit.
const LIMIT_MB_PER_S: f64 = 5.0;

/// Emulated machines need some seconds to start.
const STARTED: Duration = Duration::from_secs(120);

/// What the guest's program calls B's loads, in the order of [`LOADS`].
const NAMES: [&str; 6] = [
    "read-random",
    "read-sequential",
    "read-memory",
    "write-random",
    "write-sequential",
    "write-memory",
];

/// Debian's kernel, which `make setup-bench` fetches.
fn kernel() -> Result<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest/vmlinuz");
    let kernel = std::env::var_os("HEADWORKS_GUEST_KERNEL").map_or(fetched, PathBuf::from);
    ensure!(
        kernel.exists(),
        "there is no kernel for guests at {}: make setup-bench",
        kernel.display()
    );
    Ok(kernel)
}

fn qemu() -> Result<PathBuf> {
    find_program("qemu-system-x86_64").context("QEMU is missing: make setup-bench")
}

/// Compiles the guest's program, and packs it.
fn template(work: &Path) -> Result<PathBuf> {
    kernel()?;
    qemu()?;
    fs::write(work.join("guest.c"), SOURCE)?;
    let packed = Command::new("sh")
        .args(["-e", "-c"])
        .arg(format!(
            "cc -O2 -static -o init guest.c; echo init | cpio --quiet -o -H newc > {INITRD}"
        ))
        .current_dir(work)
        .status()?;
    ensure!(packed.success(), "cannot make the guest's program: make setup-bench");
    Ok(work.join(INITRD))
}

/// A virtual machine. It ends when it is dropped.
struct Guest {
    process: Child,
    console: PathBuf,
}

impl Guest {
    fn start(mut command: Command, plan: &Plan<'_>, disk: &Path, load: &str) -> Result<Guest> {
        let name = disk.file_name().context("the disk has no name")?.to_string_lossy();
        let console = plan.work.join(format!("console-{name}"));
        let drive = format!("file={},if=none,id=disk,format=raw,cache=none", disk.display());
        let started = command
            .args(["-accel", "tcg", "-m", "256", "-display", "none", "-serial", "stdio"])
            .args(["-nodefaults", "-no-user-config", "-no-reboot", "-kernel"])
            .args([&kernel()?, Path::new("-initrd"), &plan.template])
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 load={load}")])
            // Threads have the name of the process.
            .args(["-name", &format!("{name},process={name}")])
            .args(["-drive", &drive, "-device", "nvme,drive=disk,serial=1"])
            .stdin(Stdio::null())
            .stdout(File::create(&console)?)
            .stderr(File::create(console.with_extension("log"))?)
            .spawn();
        Ok(Guest { process: started.context("cannot start QEMU")?, console })
    }

    /// Bytes that the guest's program says it has read or written; `None` before it says anything.
    fn bytes(&self) -> Result<Option<u64>> {
        let said = fs::read(&self.console)?;
        let said = String::from_utf8_lossy(&said);
        // The last line may not be whole.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let last = whole.lines().rev().find_map(|line| line.trim().strip_prefix("bytes "));
        Ok(last.and_then(|bytes| bytes.parse().ok()))
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.bytes()?.is_none() {
            let ended = self.process.try_wait()?.is_some();
            ensure!(
                !ended && begun.elapsed() < STARTED,
                "the guest does not start: {}{}",
                fs::read_to_string(self.console.with_extension("log"))?,
                String::from_utf8_lossy(&fs::read(&self.console)?)
            );
            running::pause(Duration::from_millis(50))?;
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One run: both guests on the fresh disk.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let load = *NAMES.get(at as usize).context("no such load")?;
    let path = |name: &str| disk.dir().join(name);
    let content = |name| Task::new(name, Pattern::ReadSequential, path(name), DISK_BYTES);
    files::prepare(&[content("a"), content("b")])?;
    let program = qemu()?;
    let a =
        Guest::start(plan.command(arm, &program, "qemu")?, plan, &path("a"), "read-sequential")?;
    let mut guests = vec![a];
    guests[0].wait()?;
    if arm.only.is_empty() {
        // The processors are A's when it wants them: what they share is the disk.
        let mut b = sibling(guests[0].process.id(), Path::new("nice"))?;
        b.args([&OsString::from("-n"), &OsString::from("19"), program.as_os_str()]);
        guests.push(Guest::start(b, plan, &path("b"), load)?);
    }
    let mut read = || -> Result<Vec<f64>> {
        let bytes = guests.iter_mut().map(|guest| {
            guest.wait()?;
            Ok(guest.bytes()?.unwrap_or(0) as f64)
        });
        bytes.collect()
    };
    read()?;
    running::pause(Duration::from_secs(plan.warm_up_s))?;
    let (begun, before) = (Instant::now(), read()?);
    running::pause(Duration::from_secs(plan.window_s))?;
    let seconds = begun.elapsed().as_secs_f64();
    let rates =
        read()?.into_iter().zip(before).map(|(after, before)| (after - before) / 1e6 / seconds);
    let named_rates = rates.zip(["a_mb_per_s", "b_mb_per_s"]);
    Ok(named_rates.map(|(rate, name)| (name.to_owned(), rate)).collect())
}

/// B's rate in memory, against that under scs-token.
fn of_scs(seed: &Seed<'_>, at: f64) -> f64 {
    seed.get(SPLIT, at, "b_mb_per_s") / seed.get(SCS, at, "b_mb_per_s")
}

pub(super) const FIG_22: Figure = Figure {
    id: "split-qemu",
    title: "A throttled virtual machine beside another one that reads",
    paper: "Split and Maat",
    figure: "Figure 2.22",
    about: "Two emulated machines with 256 MB, disks of 1 GiB as files of one disk, cache=none. A reads in sequence; B \
        is throttled to 5 MB/s of normalized I/O. 0: reads at random; 1: in sequence; 2: cached; 3: writes at random; \
        4: in sequence; 5: over the same 4 MiB.",
    axis: "B's load",
    categories: &[
        "reads at random",
        "reads",
        "cached",
        "writes at random",
        "writes",
        "written over",
    ],
    times: [(10, 30, 3), (8, 10, 1)],
    around_s: 20,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").only(&["a"]),
        Arm::new(SCS, "hdd", "mq-deadline").io("scs-token"),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-token"),
    ],
    points: LOADS,
    quick_points: &[WRITE_MEMORY],
    work: Work::Database { template, one },
    rules: "[[io.thread]]\nname = \"b\"\nbytes_per_s = 5000000\n",
    claims: &[
        Claim::new("A is where it should be in all six cases")
            .paper("always well isolated; major slowdowns with SCS when B does random I/O")
            .ours("largest distance from the target, percent", |seed| {
                distance(seed, SPLIT, LIMIT_MB_PER_S)
            })
            .at_most(5.0),
        Claim::new("nearer than by system calls")
            .paper("as above")
            .ours("scs-token's largest distance / largest distance", |seed| {
                distance(seed, SCS, LIMIT_MB_PER_S) / distance(seed, SPLIT, LIMIT_MB_PER_S)
            })
            .at_least(1.0),
        Claim::new("the guest's cache is not throttled: reads")
            .paper("equal to SCS")
            .ours("B's MB/s / those under scs-token", |seed| of_scs(seed, READ_MEMORY))
            .at_least(0.9),
        Claim::new("the guest's cache is not throttled: writes")
            .paper("equal to SCS")
            .ours("B's MB/s / those under scs-token", |seed| of_scs(seed, WRITE_MEMORY))
            .at_least(0.9),
    ],
    panels: || {
        vec![
            Panel::sweep("A", "MB/s").lines([ALONE, SCS, SPLIT], "a_mb_per_s"),
            Panel::sweep("B", "MB/s").lines([SCS, SPLIT], "b_mb_per_s"),
        ]
    },
};
