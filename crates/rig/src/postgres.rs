//! A private PostgreSQL: own directory, own port, own socket, gone without a trace when it is dropped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, io};

use anyhow::{Context, Result, bail};

use crate::guard::Guard;
use crate::programs::find_program;
use crate::server::Stopped;
use crate::template::{self, Owner};

/// What a test prints when it skips because there is no PostgreSQL on the machine.
pub const POSTGRES_SKIPPED: &str =
    "skipped: postgres is not installed (apt-get install postgresql)";

/// The superuser that every PostgreSQL of the rig has, without a password.
pub const SUPERUSER: &str = "app";

const LOOK_EVERY: Duration = Duration::from_millis(5);
const START_DEADLINE: Duration = Duration::from_secs(60);
const DROP_DEADLINE: Duration = Duration::from_secs(20);

/// One of PostgreSQL's programs, as Debian or the `PATH` has it: the newest version.
pub fn postgres_program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .filter(|(_, path)| path.join("bin").join(name).is_file())
        .max();
    newest.map(|(_, path)| path.join("bin").join(name)).or_else(|| find_program(name))
}

/// Whether PostgreSQL is installed; prints why a test is skipped when it is not.
pub fn postgres_or_skip() -> bool {
    let found = postgres_program("postgres").is_some() && postgres_program("initdb").is_some();
    if !found {
        println!("{POSTGRES_SKIPPED}");
    }
    found
}

/// How a PostgreSQL is to be started.
#[derive(Debug, Clone, Default)]
pub struct PostgresBuilder {
    data_directory: Option<PathBuf>,
    settings: Vec<(String, String)>,
    prefix: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    removed_when_orphaned: Vec<PathBuf>,
}

impl PostgresBuilder {
    /// Keeps the data in this directory, which is initialised if it does not exist and stays when the server goes.
    #[must_use]
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// A setting of the server, as `-c name=value`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a command in front of the server's own, such as `["headworks", "run", "--"]`. It has to end by executing
    /// the server in its own place, and is not given up root's rights: it does that itself.
    #[must_use]
    pub fn prefix<T: Into<OsString>>(mut self, prefix: impl IntoIterator<Item = T>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Removes an environment variable. `LD_PRELOAD` is removed anyway.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// A directory that is removed, with everything in it, if this process ends without having stopped the server.
    #[must_use]
    pub fn remove_when_orphaned(mut self, directory: impl Into<PathBuf>) -> Self {
        self.removed_when_orphaned.push(directory.into());
        self
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&self) -> Result<PostgresServer> {
        let owner = Owner::for_servers()?;
        let run_directory = template::fresh_directory(&env::temp_dir())?;
        let server = self.start_in(owner, &run_directory);
        if server.is_err() {
            let _ = fs::remove_dir_all(&run_directory);
        }
        server
    }

    fn start_in(&self, owner: Option<Owner>, run_directory: &Path) -> Result<PostgresServer> {
        let initdb = postgres_program("initdb").context(POSTGRES_SKIPPED)?;
        let postgres = postgres_program("postgres").context(POSTGRES_SKIPPED)?;
        if let Some(owner) = owner {
            owner.take(run_directory)?;
        }
        let data_directory = match &self.data_directory {
            Some(directory) => std::path::absolute(directory)?,
            None => run_directory.join("data"),
        };
        if !data_directory.exists() {
            let mut command = Command::new(initdb);
            command
                .args(["-U", SUPERUSER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
                .arg("-D")
                .arg(&data_directory)
                .env_remove("LD_PRELOAD")
                .current_dir("/");
            if let Some(owner) = owner {
                if let Some(parent) = data_directory.parent() {
                    owner.take(parent)?;
                }
                owner.run_as(&mut command);
            }
            let output = command.output().context("initdb")?;
            if !output.status.success() {
                bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = run_directory.join("log");
        let output = File::create(&log)?;
        let mut line = self.prefix.clone();
        line.push(postgres.into());
        line.extend(["-D".into(), data_directory.clone().into()]);
        line.extend(["-k".into(), run_directory.into(), "-p".into(), port.to_string().into()]);
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=500"] {
            line.extend(["-c".into(), setting.into()]);
        }
        for (name, value) in &self.settings {
            line.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir("/")
            .env("TZ", "UTC")
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        if let Some(owner) = owner.filter(|_| self.prefix.is_empty()) {
            owner.run_as(&mut command);
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(&line[0]).display()))?;
        let mut temporary = vec![run_directory];
        temporary.extend(self.removed_when_orphaned.iter().map(PathBuf::as_path));
        let guard = Guard::new(child.id(), &data_directory, &temporary)?;
        let mut server = PostgresServer {
            child,
            status: None,
            guard: Some(guard),
            port,
            log,
            run_directory: run_directory.to_owned(),
        };
        let begun = Instant::now();
        while !server.log().contains("database system is ready to accept connections") {
            let late = begun.elapsed() > START_DEADLINE;
            if late || !server.is_running() {
                bail!("PostgreSQL does not start; its log ends with:\n{}", server.log_tail());
            }
            sleep(LOOK_EVERY);
        }
        Ok(server)
    }
}

/// A running PostgreSQL. Dropping it stops it and removes its temporary files.
#[derive(Debug)]
pub struct PostgresServer {
    child: Child,
    status: Option<ExitStatus>,
    guard: Option<Guard>,
    port: u16,
    log: PathBuf,
    run_directory: PathBuf,
}

impl PostgresServer {
    /// A server to be configured.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// The process id of the postmaster.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port, on 127.0.0.1 and of the socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its Unix socket.
    pub fn socket_directory(&self) -> &Path {
        &self.run_directory
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
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid()))?;
        Ok(maps.lines().any(|line| line.contains(part)))
    }

    /// Whether the server still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.poll(), Ok(None))
    }

    /// Sends the postmaster any signal.
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

    /// Sends a signal and waits for the end: SIGTERM waits for clients to leave, SIGINT ends their sessions, SIGQUIT
    /// leaves a crash to be recovered from.
    pub fn end(&mut self, signal: i32, deadline: Duration) -> Result<Stopped> {
        let begun = Instant::now();
        self.signal(signal)?;
        loop {
            if let Some(status) = self.poll()? {
                return Ok(Stopped { took: begun.elapsed(), status });
            }
            if begun.elapsed() > deadline {
                bail!("not ended after {deadline:?}; the log ends with:\n{}", self.log_tail());
            }
            sleep(LOOK_EVERY);
        }
    }

    fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_some() {
            self.guard = None;
        }
        Ok(self.status)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log ends with:\n{}", self.log_tail());
        }
        if self.is_running() && self.end(libc::SIGINT, DROP_DEADLINE).is_err() {
            let _ = self.end(libc::SIGQUIT, DROP_DEADLINE);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.guard = None;
        let _ = fs::remove_dir_all(&self.run_directory);
    }
}
