//! Programs that an experiment runs: load generators, poolers. None outlives it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt::{self, monotonic_us};
use crate::progress::Progress;

/// Interval at which a running program is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A program that runs. It is killed when this is dropped, and by the kernel when our thread ends.
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
        // SAFETY: prctl with PR_SET_PDEATHSIG only sets a field of the calling process, and may be
        // called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Waits until the clock reads `until_us`; a program that ends before is an error.
    pub(crate) fn wait_until(&mut self, until_us: u64, progress: &Progress) -> Result<()> {
        loop {
            let left = Duration::from_micros(until_us.saturating_sub(monotonic_us()));
            if left.is_zero() {
                return Ok(());
            }
            interrupt::check()?;
            progress.tick();
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended too early ({status}):\n{}", self.name, self.log_tail());
            }
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

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
