//! `headworks tad record`

use crate::cli::Record;
use crate::{hosts, output};
use anyhow::{Context, Result, bail};
use headworks_record::capture::{self, Options, Progress};
use headworks_record::trace::{Trace, TraceError};
use std::fs::File;
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ctrl-C was pressed: what was seen until then is written.
pub static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stopped(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Ctrl-C ends the recording, and a second one the program.
pub fn stop_on_signals() {
    // SAFETY: the handler stores to an atomic, which is allowed in a signal handler. The second
    // signal has its default action again.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stopped as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}

/// A command that is recorded ends with the recording.
struct Started(Option<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // SAFETY: kill takes any number; the child is not reaped before `wait` below.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            // It had its time to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// See the module.
pub fn record(args: &Record) -> Result<ExitCode> {
    output::check(&args.results)?;
    let here = !args.pid.is_empty() || !args.command.is_empty();
    let here = here || args.cgroup.is_some() && args.hosts.is_empty();
    if !here && args.hosts.is_empty() {
        bail!(
            "nothing to record: name processes with --pid, a control group with --cgroup, or a \
             command after --\n  for example: headworks tad record --pid $(pidof mariadbd) -o mariadb.toml"
        );
    }
    let mut raw = args.raw.as_deref().map(output::private).transpose()?;
    if let Some(path) = &args.timeline {
        output::writable(path)?;
    }
    stop_on_signals();
    let remotes = hosts::start(args)?;
    let mut trace = here.then(|| record_here(args)).transpose()?;
    for remote in remotes {
        let recorded = remote.end(args)?;
        match &mut trace {
            Some(trace) => trace.join(recorded)?,
            None => trace = Some(recorded),
        }
    }
    let trace = trace.unwrap_or_default();
    if args.send {
        trace.write(&mut std::io::stdout().lock(), args.limit).context("cannot send it")?;
        return Ok(ExitCode::SUCCESS);
    }
    let kept = match (&mut raw, &args.raw) {
        (Some(file), Some(path)) => keep(&trace, file, path, args.limit),
        _ => Ok(()),
    };
    // A diagram is worth having although the recording cannot be kept.
    let written = output::write(&trace, &args.results);
    kept.and(written)
}

fn record_here(args: &Record) -> Result<Trace> {
    let started = Started(start(&args.command)?);
    let mut pids = args.pid.clone();
    pids.extend(started.0.as_ref().map(Child::id));
    let options = Options {
        pids,
        follow: args.follow || !args.command.is_empty(),
        cgroup: args.cgroup.clone().filter(|_| args.hosts.is_empty()),
        hints: output::hints(&args.results)?,
        length: args.length,
        budget: args.budget,
        attach: !args.no_attach,
        agent: args.agent.as_deref(),
        jfr: args.jfr,
        plain: args.proc,
        inject: args.inject,
        probes: !args.no_probes,
        timeline: args.timeline.as_deref().map(|path| (path, args.limit)),
        keep_stacks: if args.keep_stacks { args.limit / 2 } else { 0 },
        stop: &STOP,
    };
    let mut shown = Shown { due: Instant::now() + Duration::from_secs(1) };
    let trace = capture::record(&options, &mut |progress| shown.show(progress));
    shown.clear();
    drop(started);
    trace
}

fn keep(trace: &Trace, file: &mut File, path: &Path, limit: u64) -> Result<()> {
    let mut out = std::io::BufWriter::new(file);
    let kept = trace.write(&mut out, limit).and_then(|()| Ok(out.flush()?));
    kept.map_err(|error| {
        output::remove_part(path);
        match error {
            TraceError::Io(error) => output::cannot(path, error),
            other => anyhow::Error::from(other).context(format!("cannot write {}", path.display())),
        }
    })
}

fn start(command: &[String]) -> Result<Option<Child>> {
    let [program, arguments @ ..] = command else { return Ok(None) };
    let child = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).spawn();
    Ok(Some(child.with_context(|| format!("cannot start {program}"))?))
}

/// Progress: one line on a terminal, else a line now and then.
struct Shown {
    due: Instant,
}

impl Shown {
    fn show(&mut self, progress: &Progress) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        let line = format!(
            "{:.0} %, {} threads of {} processes, {} stacks, counted for {:.1} s at {:.2} % of the processors",
            progress.done * 100.0,
            progress.threads,
            progress.processes,
            progress.stacks,
            progress.counted_s,
            progress.taken * 100.0
        );
        if stderr().is_terminal() {
            self.due = now + Duration::from_millis(200);
            eprint!("\r\x1b[Kheadworks: {line}");
        } else {
            self.due = now + Duration::from_secs(10);
            eprintln!("headworks: {line}");
        }
    }

    fn clear(&self) {
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}
