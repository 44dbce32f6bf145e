//! `headworks io`: shows and changes the scheduler of a program's files while it runs.

use crate::cli::{IoCommand, IoDevice, IoSet, IoTop};
use crate::config::{self, io::IoConfig};
use crate::instance::Instance;
use crate::profile::{GENERIC, Profile};
use anyhow::Result;
use headworks_policy::split::SplitKind;
use headworks_region::io::criticality::BLOCKER_NAMES;
use headworks_region::io::{IoMapping, RULES};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

mod unheld;
mod unseen;
pub mod waits;
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
    // Without calls by which it receives, a program has no clients. One that nobody knows shows by
    // its first answer that it has.
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

/// Counters of an account.
#[derive(Clone, Debug, Default, Serialize)]
struct Account {
    thread: u32,
    name: String,
    priority: u32,
    limited: bool,
    writes: u64,
    written_bytes: u64,
    fsyncs: u64,
    fsync_ns: u64,
    reads: u64,
    read_bytes: u64,
    held: u64,
    held_ns: u64,
    written_back_pieces: u64,
    /// With `rcp`: calls that a client waited for, and others.
    critical: u64,
    background: u64,
    /// With `rcp`: times a client waited for something that this thread held.
    inherited: u64,
}

impl Account {
    fn since(&self, before: &Account) -> Account {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        Account {
            name: self.name.clone(),
            writes: less(self.writes, before.writes),
            written_bytes: less(self.written_bytes, before.written_bytes),
            fsyncs: less(self.fsyncs, before.fsyncs),
            fsync_ns: less(self.fsync_ns, before.fsync_ns),
            reads: less(self.reads, before.reads),
            read_bytes: less(self.read_bytes, before.read_bytes),
            held: less(self.held, before.held),
            held_ns: less(self.held_ns, before.held_ns),
            written_back_pieces: less(self.written_back_pieces, before.written_back_pieces),
            critical: less(self.critical, before.critical),
            background: less(self.background, before.background),
            inherited: less(self.inherited, before.inherited),
            ..*self
        }
    }
}

/// What the region tells.
#[derive(Clone, Debug, Serialize)]
struct State {
    instance: String,
    scheduler: String,
    on: bool,
    disk: bool,
    waiting: usize,
    /// Calls that passed, and why.
    lock_busy: u64,
    tasks_full: u64,
    hold_limit: u64,
    files_full: u64,
    accounts_full: u64,
    restarted: u64,
    panics: u64,
    /// With `rcp`: which waits passed on a client's urgency.
    inheritance: Inheritance,
    /// What clients waited for, by cause.
    waits: BTreeMap<&'static str, waits::Sum>,
    /// What cannot be held.
    rings: Vec<unheld::Rings>,
    /// Processes whose writes no hook sees.
    unseen: Vec<unseen::Unseen>,
    mapped_files: u64,
    accounts: Vec<Account>,
}

/// What clients waited for.
#[derive(Clone, Debug, Default, Serialize)]
struct Inheritance {
    /// Times a thread inherited urgency, by the cause of the wait.
    by_cause: BTreeMap<&'static str, u64>,
    /// Held calls that went on because a client waited for them.
    promoted: u64,
    longest_chain: u32,
}

impl Inheritance {
    fn of(region: &IoMapping) -> Self {
        let counts = &region.inheritance;
        let by_cause = BLOCKER_NAMES
            .iter()
            .zip(&counts.by_blocker)
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, count)| (*name, count.load(Relaxed)))
            .collect();
        Inheritance {
            by_cause,
            promoted: counts.promoted.load(Relaxed),
            longest_chain: counts.longest_chain.load(Relaxed),
        }
    }

    /// One line: rates per second, by cause.
    fn line(&self, before: &Inheritance, seconds: f64) -> String {
        let per = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds.max(1e-3);
        let causes: Vec<String> = self
            .by_cause
            .iter()
            .map(|(name, count)| (name, per(*count, *before.by_cause.get(name).unwrap_or(&0))))
            .filter(|(_, rate)| *rate > 0.0)
            .map(|(name, rate)| format!("{name} {rate:.1}"))
            .collect();
        format!(
            "  inherited/s: {}; {:.1} held calls/s went on; longest chain {}\n",
            if causes.is_empty() { "none".to_owned() } else { causes.join(", ") },
            per(self.promoted, before.promoted),
            self.longest_chain,
        )
    }
}

fn state(instance: &Instance, region: &IoMapping) -> State {
    let control = &region.control;
    let accounts = region.accounts.iter().skip(RULES + 1).filter_map(|slot| {
        let thread = slot.tid.load(Relaxed);
        (thread != 0).then(|| Account {
            thread,
            name: slot.name.get().to_display(),
            priority: slot.level.load(Relaxed),
            limited: slot.group.load(Relaxed) != 0,
            writes: slot.writes.load(Relaxed),
            written_bytes: slot.written_bytes.load(Relaxed),
            fsyncs: slot.fsyncs.load(Relaxed),
            fsync_ns: slot.fsync_ns.load(Relaxed),
            reads: slot.reads.load(Relaxed),
            read_bytes: slot.read_bytes.load(Relaxed),
            held: slot.held.load(Relaxed),
            held_ns: slot.held_ns.load(Relaxed),
            written_back_pieces: slot.written_back.load(Relaxed),
            critical: slot.critical.load(Relaxed),
            background: slot.background.load(Relaxed),
            inherited: slot.inherited.load(Relaxed),
        })
    });
    State {
        instance: instance.name.clone(),
        scheduler: control.kind().name().to_owned(),
        on: control.is_on(),
        disk: control.rotational(),
        waiting: region.waiting(),
        lock_busy: control.lock_busy.load(Relaxed),
        tasks_full: control.tasks_full.load(Relaxed),
        hold_limit: control.hold_limit.load(Relaxed),
        files_full: control.files_full.load(Relaxed),
        accounts_full: control.accounts_full.load(Relaxed),
        restarted: control.restarted.load(Relaxed),
        panics: control.panics.load(Relaxed),
        inheritance: Inheritance::of(region),
        waits: waits::sums(region),
        rings: unheld::rings(instance, region),
        unseen: unseen::processes(instance, region),
        mapped_files: region.unheld.mapped_files.load(Relaxed),
        accounts: accounts.collect(),
    }
}

fn top(args: &IoTop) -> Result<()> {
    let instance = Instance::find(args.select.name.as_deref())?;
    let region = instance.open_io()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&state(&instance, &region))?);
        return Ok(());
    }
    let mut before = state(&instance, &region);
    let mut since = Instant::now();
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        std::thread::sleep(Duration::from_secs_f64(args.delay.clamp(0.1, 3_600.0)));
        let now = state(&instance, &region);
        let text = picture(&now, &before, since.elapsed().as_secs_f64());
        since = Instant::now();
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

fn picture(now: &State, before: &State, seconds: f64) -> String {
    let mut rows: Vec<Account> = now
        .accounts
        .iter()
        .map(|account| {
            let earlier = before.accounts.iter().find(|b| b.thread == account.thread);
            account.since(&earlier.cloned().unwrap_or_default())
        })
        .filter(|account| account.writes + account.fsyncs + account.reads + account.held > 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.written_bytes + row.read_bytes, row.fsyncs)));
    let more = rows.len().saturating_sub(ROWS);
    let mut text = format!(
        "{}: {}{} for a {}, {} calls wait\n",
        now.instance,
        now.scheduler,
        if now.on || now.scheduler == "noop" { "" } else { " (off)" },
        if now.disk { "disk" } else { "flash drive" },
        now.waiting,
    );
    for (count, what) in [
        (now.hold_limit, "calls passed after the longest hold"),
        (now.lock_busy, "calls passed because the lock was busy"),
        (now.tasks_full, "calls passed because the table of calls was full"),
        (now.files_full, "times a file was not governed because the table of files was full"),
        (now.accounts_full, "times threads shared an account because all were in use"),
        (now.restarted, "times the scheduler was reset because a thread died inside"),
        (now.panics, "processes whose files are not governed after an internal error"),
    ] {
        if count > 0 {
            text += &format!("  {count} {what}\n");
        }
    }
    for line in unheld::lines(&now.rings, &now.unseen, now.mapped_files) {
        text += &format!("  {line}\n");
    }
    if let Some(line) = waits::line(&now.waits, &before.waits, seconds) {
        text += &format!("  {line}\n");
    }
    let rcp = now.scheduler == SplitKind::Rcp.name();
    if rcp {
        text += &now.inheritance.line(&before.inheritance, seconds);
    }
    text += &format!(
        "{:>8} {:<24} {:>4} {:>9} {:>9} {:>8} {:>9} {:>8} {:>9} {:>9}",
        "thread",
        "name",
        "prio",
        "write/s",
        "MB/s",
        "fsync/s",
        "fsync ms",
        "read/s",
        "held ms",
        "back/s"
    );
    if rcp {
        text += &format!(" {:>7} {:>7} {:>7}", "crit/s", "backg/s", "inher/s");
    }
    text.push('\n');
    let per = |count: u64| count as f64 / seconds.max(1e-3);
    let mean = |ns: u64, count: u64| ns as f64 / 1e6 / count.max(1) as f64;
    for row in rows.iter().take(ROWS) {
        text += &format!(
            "{:>8} {:<24.24} {:>4} {:>9.0} {:>9.2} {:>8.1} {:>9.2} {:>8.1} {:>9.2} {:>9.1}",
            row.thread,
            row.name,
            row.priority,
            per(row.writes),
            per(row.written_bytes) / 1e6,
            per(row.fsyncs),
            mean(row.fsync_ns, row.fsyncs),
            per(row.reads),
            mean(row.held_ns, row.held),
            per(row.written_back_pieces),
        );
        if rcp {
            let counts = [row.critical, row.background, row.inherited];
            text.extend(counts.map(|count| format!(" {:>7.1}", per(count))));
        }
        text.push('\n');
    }
    if more > 0 {
        text += &format!("  and {more} more threads\n");
    }
    text
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
