//! A running server: the part that all kinds share.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::builder::{Kind, Place};
use crate::gated::LIBRARY;
use crate::guard::Guard;

/// How often the server's state is polled while it starts or stops.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Timeout of [`Drop`] for an orderly end.
const DROP_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout for the end of a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// How a server ended.
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    /// From the signal until the process was gone.
    pub took: Duration,
    /// Its exit status.
    pub status: ExitStatus,
}

/// A running server of one kind. Dropping it stops it and removes its temporary files.
#[derive(Debug)]
pub struct Process<K: Kind> {
    child: Child,
    status: Option<ExitStatus>,
    guard: Option<Guard>,
    port: u16,
    log: PathBuf,
    run_directory: PathBuf,
    data_directory: PathBuf,
    kind: K,
}

impl<K: Kind> Process<K> {
    pub(crate) fn new(child: Child, guard: Guard, log: PathBuf, place: &Place, kind: K) -> Self {
        Self {
            child,
            status: None,
            guard: Some(guard),
            port: place.port,
            log,
            run_directory: place.run_directory.clone(),
            data_directory: place.data_directory.clone(),
            kind,
        }
    }

    /// The process id of the server that was started.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its own directory, with log and socket, which is removed with it.
    pub fn directory(&self) -> &Path {
        &self.run_directory
    }

    /// Where the data is.
    pub fn data_directory(&self) -> &Path {
        &self.data_directory
    }

    /// Everything the server has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// Whether a library whose path contains `part` is mapped into the server.
    pub fn has_mapped(&self, part: &str) -> Result<bool> {
        let path = format!("/proc/{}/maps", self.pid());
        let maps = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(maps.lines().any(|line| line.contains(part)))
    }

    /// An error if the gate's library is not in the server although it should be, or the reverse.
    pub fn ensure_gated(&self, gated: bool) -> Result<()> {
        ensure!(
            self.has_mapped(LIBRARY)? == gated,
            "{LIBRARY}.so is{} mapped into the server; its log ends with:\n{}",
            if gated { " not" } else { "" },
            self.log_tail()
        );
        Ok(())
    }

    /// Processor time of all its threads, in ticks of a hundredth of a second.
    pub fn cpu_ticks(&self) -> Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let after_name = stat.rsplit_once(')').context("no name in stat")?.1;
        let field = |at: usize| after_name.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
        field(11).zip(field(12)).map(|(user, system)| user + system).context("no times in stat")
    }

    /// Whether the server still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.poll(), Ok(None))
    }

    /// Sends the server any signal.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        if self.poll()?.is_some() {
            return Ok(());
        }
        // SAFETY: the child has not been waited for, so its process id is still its own.
        match unsafe { libc::kill(self.child.id() as libc::pid_t, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks the server to stop in good order, and waits. A server that does not end in time is an
    /// error, and keeps running.
    pub fn stop(&mut self, deadline: Duration) -> Result<Stopped> {
        self.end(K::STOP_SIGNALS[0], deadline)
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) -> Result<Stopped> {
        self.end(libc::SIGKILL, KILL_TIMEOUT)
    }

    /// Sends a signal and waits for the end.
    pub fn end(&mut self, signal: i32, deadline: Duration) -> Result<Stopped> {
        let begun = Instant::now();
        self.signal(signal)?;
        let status = self.wait(deadline)?;
        Ok(Stopped { took: begun.elapsed(), status })
    }

    /// Waits until the server has ended without a signal from here.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            if begun.elapsed() > deadline {
                bail!(
                    "the server has not ended after {deadline:?}; its log ends with:\n{}",
                    self.log_tail()
                );
            }
            sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn wait_until_ready(&mut self, deadline: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.poll()? {
                bail!(
                    "the server ended while starting ({status}); its log ends with:\n{}",
                    self.log_tail()
                );
            }
            match self.kind.ready(self) {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > deadline => {
                    let tail = self.log_tail();
                    return Err(error.context(format!(
                        "the server is not ready after {deadline:?}; its log ends with:\n{tail}"
                    )));
                }
                Err(_) => sleep(POLL_INTERVAL),
            }
        }
    }

    /// Kills a server that failed to start. Its directory is kept for the next attempt.
    pub(crate) fn abandon(mut self) {
        self.run_directory = PathBuf::new();
        let _ = self.kill();
    }

    fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_some() {
            // From here on the process id may belong to another process; only files are left to
            // remove.
            self.guard = None;
        }
        Ok(self.status)
    }
}

impl<K: Kind> Drop for Process<K> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log ends with:\n{}", self.log_tail());
        }
        for &signal in K::STOP_SIGNALS.iter().chain(&[libc::SIGKILL]) {
            if !self.is_running() || self.end(signal, DROP_TIMEOUT).is_ok() {
                break;
            }
        }
        self.guard = None;
        if !self.run_directory.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.run_directory);
        }
    }
}
