//! A private MariaDB: own directory, own port, own socket, gone without a trace when it is dropped.

mod builder;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

pub use builder::ServerBuilder;

use crate::client::{Address, Client, ClientError, ConnectOptions};
use crate::guard::Guard;

/// How often the server's state is looked at while waiting for it to start or stop.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long [`Drop`] waits for an orderly end.
const DROP_DEADLINE: Duration = Duration::from_secs(20);

/// The account without a password, with all rights and from any address, that every server of the rig has.
pub const ACCOUNT: &str = "app";

/// The empty database that every server of the rig has.
pub const DATABASE: &str = "rig";

/// How a server ended.
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    /// From the signal until the process was gone.
    pub took: Duration,
    /// Its exit status.
    pub status: ExitStatus,
}

/// A running MariaDB. Dropping it stops it and removes its temporary files.
#[derive(Debug)]
pub struct Server {
    child: Child,
    status: Option<ExitStatus>,
    guard: Option<Guard>,
    port: u16,
    socket: PathBuf,
    log: PathBuf,
    run_directory: PathBuf,
    data_directory: PathBuf,
}

impl Server {
    /// A server to be configured.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// A server with the rig's defaults and temporary data.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The process id of the database.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The TCP address.
    pub fn tcp(&self) -> Address {
        Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
    }

    /// The Unix socket.
    pub fn unix(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    /// The path of the Unix socket, shorter than the 108 bytes that a socket address holds.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where the data is.
    pub fn data_directory(&self) -> &Path {
        &self.data_directory
    }

    /// The file that takes the server's standard output and error.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Everything the server has logged.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether a library whose path contains `part` is mapped into the server: how a test knows that a preloaded
    /// library is there, or is not.
    pub fn has_mapped(&self, part: &str) -> Result<bool> {
        let path = format!("/proc/{}/maps", self.pid());
        let maps = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(maps.lines().any(|line| line.contains(part)))
    }

    /// Connects as the administrator over the Unix socket.
    pub fn admin(&self) -> Result<Client, ClientError> {
        ConnectOptions::new(self.unix(), "root").connect()
    }

    /// Connects as the ordinary account [`ACCOUNT`] over TCP, with the database [`DATABASE`].
    pub fn connect(&self) -> Result<Client, ClientError> {
        self.options().connect()
    }

    /// The options that [`connect`](Self::connect) uses, to be changed.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.tcp(), ACCOUNT).database(DATABASE)
    }

    /// Runs one statement as the administrator.
    pub fn sql(&self, sql: &str) -> Result<crate::Answer> {
        let mut admin = self.admin().context("cannot connect as the administrator")?;
        let answer = admin.query(sql).with_context(|| format!("statement: {sql}"))?;
        admin.quit()?;
        Ok(answer)
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

    /// Asks the server to stop (SIGTERM) and waits. A server that is not gone in time is an error, and keeps running.
    pub fn stop(&mut self, deadline: Duration) -> Result<Stopped> {
        self.end(libc::SIGTERM, deadline)
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) -> Result<Stopped> {
        self.end(libc::SIGKILL, Duration::from_secs(10))
    }

    /// Waits until the server has ended by itself.
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
            sleep(LOOK_EVERY);
        }
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    fn end(&mut self, signal: i32, deadline: Duration) -> Result<Stopped> {
        let begun = Instant::now();
        self.signal(signal)?;
        let status = self.wait(deadline)?;
        Ok(Stopped { took: begun.elapsed(), status })
    }

    fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_some() {
            // From here on the process id may belong to somebody else; what is left to do is removing files.
            self.guard = None;
        }
        Ok(self.status)
    }

    fn wait_until_it_greets(&mut self, deadline: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.poll()? {
                bail!(
                    "the server ended while starting ({status}); its log ends with:\n{}",
                    self.log_tail()
                );
            }
            match self.greets() {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > deadline => {
                    return Err(anyhow!(error)).with_context(|| {
                        format!(
                            "the server does not greet after {deadline:?}; its log ends with:\n{}",
                            self.log_tail()
                        )
                    });
                }
                Err(_) => sleep(LOOK_EVERY),
            }
        }
    }

    /// A refusal in the protocol's own words counts: the server is there.
    fn greets(&self) -> Result<(), ClientError> {
        for address in [self.unix(), self.tcp()] {
            match ConnectOptions::new(address, "root")
                .read_timeout(Duration::from_secs(5))
                .connect()
            {
                Ok(client) => client.quit()?,
                Err(ClientError::Server { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Anonymous accounts go, because one at `localhost` would be preferred to an account at any address.
    fn furnish(&self) -> Result<()> {
        self.sql(&format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))?;
        self.sql("DELETE FROM mysql.global_priv WHERE User = ''")?;
        self.sql(&format!("CREATE OR REPLACE USER '{ACCOUNT}'@'%'"))?;
        self.sql(&format!("GRANT ALL ON *.* TO '{ACCOUNT}'@'%' WITH GRANT OPTION"))?;
        self.sql("FLUSH PRIVILEGES")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log ends with:\n{}", self.log_tail());
        }
        if self.is_running() && self.stop(DROP_DEADLINE).is_err() {
            let _ = self.kill();
        }
        self.guard = None;
        if !self.run_directory.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.run_directory);
        }
    }
}
