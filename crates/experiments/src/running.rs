//! Programs that an experiment runs: load generators, poolers. None outlives it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt::{self, monotonic_us};
use crate::progress::Progress;

/// Interval at which a running program is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A program that runs. It is killed with its process group when this is dropped, and alone by the
/// kernel when our thread ends.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it prints goes to the file `log`.
    pub(crate) fn spawn(name: &'static str, mut command: Command, log: &Path) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        end_with_us(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the clock reads `until_us`; a program that ends before is an error.
    pub(crate) fn wait_until(&mut self, until_us: u64, progress: &Progress) -> Result<()> {
        loop {
            let left = Duration::from_micros(until_us.saturating_sub(monotonic_us()));
            if left.is_zero() {
                return Ok(());
            }
            self.check()?;
            progress.tick();
            sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Waits until it ends with success.
    pub(crate) fn wait(&mut self, deadline: Duration, progress: &Progress) -> Result<()> {
        let begun = Instant::now();
        loop {
            interrupt::check()?;
            progress.tick();
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} failed ({status}):\n{}", self.name, self.log_tail()),
                None if begun.elapsed() > deadline => {
                    bail!("{} has not ended after {deadline:?}:\n{}", self.name, self.log_tail())
                }
                None => sleep(POLL_INTERVAL),
            }
        }
    }

    /// A program that has ended is an error.
    pub(crate) fn check(&mut self) -> Result<()> {
        interrupt::check()?;
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended too early ({status}):\n{}", self.name, self.log_tail()),
            None => Ok(()),
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// The kernel kills the program when the thread that starts it ends.
fn end_with_us(command: &mut Command) {
    // SAFETY: prctl with PR_SET_PDEATHSIG only sets a field of the calling process, and may be
    // called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// Runs a program to its end, with what it says. It is killed if the experiment is to end.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    end_with_us(command);
    let name = command.get_program().display().to_string();
    let started =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start {name}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (status, stdout, stderr) = scope(|scope| {
        let (out, err) = (scope.spawn(|| all(out)), scope.spawn(|| all(err)));
        let status = loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(error),
            }
            if interrupt::check().is_err() {
                let _ = child.kill();
            }
            sleep(POLL_INTERVAL);
        };
        let read = |said: std::thread::ScopedJoinHandle<'_, io::Result<Vec<u8>>>| {
            said.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (status, read(out), read(err))
    });
    interrupt::check()?;
    Ok(Output { status: status?, stdout: stdout?, stderr: stderr? })
}

fn all(from: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes))?;
    Ok(bytes)
}

/// Sleeps, unless the experiment is to end.
pub(crate) fn pause(length: Duration) -> Result<()> {
    let end = Instant::now() + length;
    loop {
        interrupt::check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        sleep(left.min(POLL_INTERVAL));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What it started, too: a script's servers would stay.
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: kill has no preconditions. The child leads its own group, and is not reaped,
            // so the number is still that group's.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_started_ends_with_it() {
        let log = std::env::temp_dir().join(format!("headworks-running-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let running = Running::spawn("a script", command, &log).unwrap();
        let begun = Instant::now();
        let started = loop {
            let said = fs::read_to_string(&log).unwrap();
            if let Ok(number) = said.trim().parse::<u32>() {
                break number;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{said}");
            sleep(POLL_INTERVAL);
        };
        drop(running);
        let begun = Instant::now();
        // It may be a zombie until its next parent has reaped it.
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while runs() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it runs on");
            sleep(POLL_INTERVAL);
        }
        fs::remove_file(&log).unwrap();
    }
}
