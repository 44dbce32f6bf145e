//! Configuration and start of a server, for all kinds.

use std::env;
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::guard::Guard;
use crate::process::Process;
use crate::template::{self, Owner};

/// Attempts to start a server on a free port, which another process may take before the server
/// binds it.
const PORT_ATTEMPTS: usize = 4;

/// The differences between kinds of servers.
pub trait Kind: Clone + Debug {
    /// Signals that stop it, the gentlest first. SIGKILL follows.
    const STOP_SIGNALS: &'static [i32] = &[libc::SIGTERM];

    /// Whether it refuses to run as root, so that another account must own its files.
    const REFUSES_ROOT: bool = false;

    /// The server's program.
    fn program(&self) -> Result<PathBuf>;

    /// The directory of data that are removed with the server.
    fn temporary_data(&self, run_directory: &Path) -> PathBuf {
        run_directory.join("data")
    }

    /// Makes the data directory if there is none; returns whether it did.
    fn initialise(&self, place: &Place) -> Result<bool>;

    /// The rig's own arguments.
    fn arguments(&self, place: &Place) -> Vec<OsString>;

    /// Further settings of the command. `prefixed`: another program starts the server.
    fn prepare(&self, _command: &mut Command, _place: &Place, _prefixed: bool) {}

    /// Fails until the server accepts connections.
    fn ready(&self, server: &Process<Self>) -> Result<()>;

    /// Sets up a server with fresh data.
    fn furnish(&self, _server: &Process<Self>) -> Result<()> {
        Ok(())
    }
}

/// Where a server runs.
#[derive(Debug)]
pub struct Place {
    pub(crate) run_directory: PathBuf,
    pub(crate) data_directory: PathBuf,
    pub(crate) port: u16,
    pub(crate) owner: Option<Owner>,
}

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Builder<K> {
    pub(crate) kind: K,
    program: Option<PathBuf>,
    data_directory: Option<PathBuf>,
    options: Vec<OsString>,
    prefix: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    start_deadline: Duration,
    removed_when_orphaned: Vec<PathBuf>,
}

impl<K: Kind> Builder<K> {
    pub(crate) fn new(kind: K) -> Self {
        Self {
            kind,
            program: None,
            data_directory: None,
            options: Vec::new(),
            prefix: Vec::new(),
            environment: vec![("LD_PRELOAD".into(), None)],
            start_deadline: Duration::from_secs(60),
            removed_when_orphaned: Vec::new(),
        }
    }

    /// What is to be started.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// Starts this program instead of the kind's own. Its first argument is the port; the rig's
    /// other arguments are left out.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Keeps the data in this directory. It is initialised if it does not exist, and stays when the
    /// server stops. Without it the data is temporary.
    #[must_use]
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// Appends an option to the server's command line.
    #[must_use]
    pub fn option(self, option: impl Into<OsString>) -> Self {
        self.options([option])
    }

    /// Appends options to the server's command line.
    #[must_use]
    pub fn options<T: Into<OsString>>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Puts a command in front of the server's own, such as `["headworks", "run", "--"]`. It must
    /// end by executing the server in its own process, because that process is taken for the
    /// database. Where the server refuses to run as root, it must give up root's rights itself.
    #[must_use]
    pub fn prefix<T: Into<OsString>>(mut self, prefix: impl IntoIterator<Item = T>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// The same where the prefix may be empty. Then not even a setting of ours reaches the server.
    #[must_use]
    pub fn behind(mut self, prefix: &[OsString]) -> Self {
        if !prefix.is_empty() {
            return self.prefix(prefix);
        }
        let ours = env::vars_os().map(|(name, _)| name);
        let ours = ours.filter(|name| name.to_string_lossy().starts_with("HEADWORKS"));
        self.environment.extend(ours.map(|name| (name, None)));
        self
    }

    /// Sets an environment variable. `LD_PRELOAD` is removed unless it is set here.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// A directory that is removed with its contents if this process ends without stopping the
    /// server, even by SIGKILL. The server's temporary files are removed in any case.
    #[must_use]
    pub fn remove_when_orphaned(mut self, directory: impl Into<PathBuf>) -> Self {
        self.removed_when_orphaned.push(directory.into());
        self
    }

    /// Timeout for the server to accept connections. Default 60 s.
    #[must_use]
    pub fn start_deadline(mut self, deadline: Duration) -> Self {
        self.start_deadline = deadline;
        self
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&self) -> Result<Process<K>> {
        let run_directory = template::fresh_directory(&env::temp_dir())?;
        let server = self.start_in(&run_directory);
        if server.is_err() {
            let _ = fs::remove_dir_all(&run_directory);
        }
        server
    }

    fn start_in(&self, run_directory: &Path) -> Result<Process<K>> {
        let program = self.program.clone().map_or_else(|| self.kind.program(), Ok)?;
        let owner = if K::REFUSES_ROOT { Owner::for_servers()? } else { None };
        if let Some(owner) = owner {
            owner.take(run_directory)?;
        }
        let data_directory = match &self.data_directory {
            Some(directory) => std::path::absolute(directory)?,
            None => self.kind.temporary_data(run_directory),
        };
        let run_directory = run_directory.to_owned();
        let mut place = Place { run_directory, data_directory, port: 0, owner };
        let fresh = self.kind.initialise(&place)?;
        for _ in 0..PORT_ATTEMPTS {
            place.port = free_port()?;
            match self.launch(&program, &place) {
                Err(error) if format!("{error:#}").contains("Address already in use") => {}
                Ok(server) => {
                    if fresh {
                        self.kind.furnish(&server)?;
                    }
                    return Ok(server);
                }
                Err(error) => return Err(error),
            }
        }
        bail!("no free TCP port for the server on 127.0.0.1");
    }

    fn launch(&self, program: &Path, place: &Place) -> Result<Process<K>> {
        let mut line: Vec<OsString> = self.prefix.clone();
        line.push(program.into());
        match self.program {
            Some(_) => line.push(place.port.to_string().into()),
            None => line.extend(self.kind.arguments(place)),
        }
        line.extend(self.options.iter().cloned());
        let log = place.run_directory.join("log");
        let output =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(&place.data_directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // A Ctrl-C at the terminal is for the process that started the server, which stops it.
            .process_group(0);
        self.kind.prepare(&mut command, place, !self.prefix.is_empty());
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(&line[0]).display()))?;
        let mut temporary = vec![place.run_directory.as_path()];
        temporary.extend(self.removed_when_orphaned.iter().map(PathBuf::as_path));
        let guard = Guard::of_server(child.id(), &place.data_directory, &temporary)
            .context("cannot start /bin/sh")?;
        let mut server = Process::new(child, guard, log, place, self.kind.clone());
        match server.wait_until_ready(self.start_deadline) {
            Ok(()) => Ok(server),
            Err(error) => {
                server.abandon();
                Err(error)
            }
        }
    }
}

/// A TCP port of 127.0.0.1 on which no program listens. The kernel gives higher ones to
/// connections, and another process that looks for a port begins at another one.
///
/// # Errors
/// If 10,000 ports are taken.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static TRIES: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id().wrapping_mul(211) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = TRIES.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (own + step) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("all TCP ports of 127.0.0.1 from {FIRST} to {} are taken", FIRST + COUNT - 1)
}
