//! Watching processes: by eBPF, or by `/proc` alone.

mod activity;
mod attach;
mod budget;
mod clients;
mod hung;
mod inject;
mod java;
mod jfr;
mod kernel;
mod layout;
mod networks;
mod procfs;
mod quota;
mod registry;
mod sampled;
mod session;
mod stacks;
mod sums;
mod timeline;
mod young;

use crate::hints::Hints;
use crate::trace::Trace;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use procfs::{alive, tree};

/// What to record, and how.
#[derive(Debug)]
pub struct Options<'o> {
    /// Processes.
    pub pids: Vec<u32>,
    /// Their descendants, too.
    pub follow: bool,
    /// And the processes of this control group (a folder below /sys/fs/cgroup).
    pub cgroup: Option<PathBuf>,
    /// What the user knows of stages: threads that a hint tells apart are counted apart.
    pub hints: Hints,
    /// How long.
    pub length: Duration,
    /// Fraction of the processors that it may take.
    pub budget: f64,
    /// Virtual machines may be asked for names.
    pub attach: bool,
    /// Agent that counts hand-overs in virtual machines (`agents/jvm`).
    pub agent: Option<&'o Path>,
    /// Virtual machines' flight recorders are asked, too.
    pub jfr: bool,
    /// `/proc` alone, although eBPF could be used.
    pub plain: bool,
    /// Stops threads for moments, to confirm that others wait for them.
    pub inject: bool,
    /// Probes calls that take a lock for a moment, if a stage looks for its work itself.
    pub probes: bool,
    /// Where the time line of each thread goes, and its most bytes.
    pub timeline: Option<(&'o Path, u64)>,
    /// Most bytes of copied stacks that are kept: these may hold data of requests.
    pub keep_stacks: u64,
    /// Ends it early.
    pub stop: &'o AtomicBool,
}

impl<'o> Options<'o> {
    /// These processes alone, with no virtual machine asked and no thread stopped.
    pub fn of(pids: Vec<u32>, length: Duration, budget: f64, stop: &'o AtomicBool) -> Self {
        Options {
            pids,
            follow: false,
            cgroup: None,
            hints: Hints::default(),
            length,
            budget,
            attach: false,
            agent: None,
            jfr: false,
            plain: false,
            inject: false,
            probes: true,
            timeline: None,
            keep_stacks: 0,
            stop,
        }
    }
}

/// How far it is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Of the length, 0 to 1.
    pub done: f64,
    /// Threads that are known.
    pub threads: usize,
    /// Processes that are known.
    pub processes: usize,
    /// Stacks that were copied.
    pub stacks: u64,
    /// Fraction of the processors that the kernel's side took.
    pub taken: f64,
    /// Seconds in which events were counted.
    pub counted_s: f64,
}

/// Records. Without the right to load eBPF it samples `/proc`, and the recording says so.
pub fn record(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Trace> {
    check(options)?;
    let mut trace = by_best_means(options, progress)?;
    if !options.follow {
        trace.head.missing.extend(children_left_out(&options.pids, &trace));
    }
    Ok(trace)
}

fn by_best_means(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Trace> {
    let why = if options.plain {
        "only /proc was asked for".to_owned()
    } else {
        match kernel::Kernel::load() {
            Ok(kernel) => return session::record(kernel, options, progress),
            Err(error) => in_one_line(&error),
        }
    };
    sampled::record(options, why, progress)
}

/// Why eBPF cannot be used here, if it cannot.
pub fn refusal() -> Option<String> {
    kernel::Kernel::load().err().map(|error| in_one_line(&error))
}

/// The kernel's reason may have hundreds of lines.
fn in_one_line(error: &anyhow::Error) -> String {
    // Without the right, all that follows says the same.
    let right = error.root_cause().to_string().contains("Operation not permitted");
    let text = if right { error.to_string() } else { format!("{error:#}") };
    text.lines().next().unwrap_or_default().trim_end_matches([':', ' ']).to_owned()
}

/// Says what cannot be recorded, and what can.
fn check(options: &Options) -> Result<()> {
    for &pid in &options.pids {
        if !alive(pid) {
            bail!("there is no process {pid}\n  which there are: ps -e -o pid,comm");
        }
        if procfs::of_kernel(pid) {
            bail!(
                "process {pid} is a thread of the kernel: it runs no program\n  which programs \
                 there are: ps --ppid 2 -p 2 -N -o pid,comm"
            );
        }
        if let Some(process) = procfs::process_of(pid).filter(|process| *process != pid) {
            bail!("{pid} is a thread of process {process}\n  record that: --pid {process}");
        }
    }
    let Some(group) = &options.cgroup else { return Ok(()) };
    let found = procfs::of_cgroup(group).map_err(|error| {
        anyhow::anyhow!(
            "cannot read the control group {}: {error}\n  which there are: systemd-cgls, or find \
             /sys/fs/cgroup -name cgroup.procs",
            group.display()
        )
    })?;
    if found.is_empty() && options.pids.is_empty() {
        bail!(
            "the control group {} has no process: its service may not run\n  which groups have \
             any: systemd-cgls",
            group.display()
        );
    }
    Ok(())
}

/// What is missing of a process of another user.
fn hidden(pid: u32) -> Option<String> {
    procfs::hidden(pid).then(|| {
        format!(
            "what threads of process {pid} sleep in, and their functions: the process is another \
             user's (sudo headworks tad record … shows them)"
        )
    })
}

/// Children of recorded processes that were not recorded. Many a server's first process only starts
/// those that work.
fn children_left_out(pids: &[u32], trace: &Trace) -> Option<String> {
    /// Names that are shown.
    const SHOWN: usize = 3;
    let mut left: Vec<u32> =
        pids.iter().copied().flat_map(tree).filter(|pid| alive(*pid)).collect();
    left.retain(|pid| !trace.processes.contains_key(pid) && *pid != std::process::id());
    left.sort_unstable();
    left.dedup();
    // A gate's daemon is started by the database's process.
    left.retain(|pid| procfs::name(*pid, *pid).is_some_and(|name| !name.starts_with("headworks")));
    let names: BTreeSet<String> = left.iter().filter_map(|pid| procfs::name(*pid, *pid)).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    let names: Vec<String> = names.into_iter().take(SHOWN).collect();
    let processes = if left.len() == 1 { "process" } else { "processes" };
    let (n, names) = (left.len(), names.join(", "));
    (n > 0).then(|| {
        format!(
            "{n} {processes} that the recorded ones started ({names}{more}): --follow records them"
        )
    })
}

/// Processes that are to be recorded at this time.
fn wanted(options: &Options) -> Vec<u32> {
    let mut pids: Vec<u32> = options.pids.iter().copied().filter(|pid| alive(*pid)).collect();
    if options.follow {
        pids = pids.into_iter().flat_map(tree).collect();
    }
    if let Some(group) = &options.cgroup {
        // A group that is gone has no process any more, which ends the recording.
        pids.extend(procfs::of_cgroup(group).unwrap_or_default());
    }
    pids.retain(|pid| !procfs::of_kernel(*pid));
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Name and kernel of this machine.
fn machine() -> (String, String) {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    (read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/osrelease"))
}

/// Seconds since 1970.
fn unix_time() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Processor time of this process.
fn own_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time that the machine's processors were idle, all together, since it was started.
fn idle() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    // user, nice, system, idle, iowait, ...
    let words = text.lines().next()?.split_ascii_whitespace().skip(4).take(2);
    let ticks: u64 = words.map(|word| word.parse::<u64>().unwrap_or(0)).sum();
    // SAFETY: it has no preconditions.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    Some(Duration::from_secs_f64(ticks as f64 / per_s))
}

/// Processors that were idle on average since `begun`, when they had been idle for `before`.
fn idle_since(begun: Instant, before: Option<Duration>) -> Option<f64> {
    let idle = idle()?.saturating_sub(before?);
    Some(idle.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9))
}

fn processors() -> u32 {
    // SAFETY: it has no preconditions.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u32
}
