//! How a server is configured and started.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Server;
use crate::guard::Guard;
use crate::programs::Programs;
use crate::template::{self, Owner};

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    data_directory: Option<PathBuf>,
    cache: Option<PathBuf>,
    options: Vec<OsString>,
    prefix: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    start_deadline: Duration,
    removed_when_orphaned: Vec<PathBuf>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            data_directory: None,
            cache: None,
            options: Vec::new(),
            prefix: Vec::new(),
            environment: vec![("LD_PRELOAD".into(), None)],
            start_deadline: Duration::from_secs(60),
            removed_when_orphaned: Vec::new(),
        }
    }
}

impl ServerBuilder {
    /// Keeps the data in this directory, which is initialised if it does not exist and stays when the server goes.
    /// Without it the data is temporary.
    #[must_use]
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// Keeps the template of data directories here instead of among the temporary files.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    /// Appends an option to the server's command line, such as `--thread-handling=pool-of-threads`.
    #[must_use]
    pub fn option(mut self, option: impl Into<OsString>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Appends options to the server's command line.
    #[must_use]
    pub fn options<T: Into<OsString>>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Puts a command in front of the server's own, such as `["headworks", "run", "--"]`. It has to end by executing
    /// the server in its own place: the process started is taken for the database.
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

    /// A directory that is removed, with everything in it, if this process ends without having stopped the server,
    /// even by SIGKILL. The server's temporary files are removed in any case.
    #[must_use]
    pub fn remove_when_orphaned(mut self, directory: impl Into<PathBuf>) -> Self {
        self.removed_when_orphaned.push(directory.into());
        self
    }

    /// How long the server may take to greet. Default 60 s.
    #[must_use]
    pub fn start_deadline(mut self, deadline: Duration) -> Self {
        self.start_deadline = deadline;
        self
    }

    /// Starts the server and waits until it greets on its TCP port and on its socket.
    pub fn start(&self) -> Result<Server> {
        let programs = Programs::find()?;
        let owner = Owner::for_servers()?;
        let run_directory = template::fresh_directory(&env::temp_dir())?;
        let server = self.start_in(&programs, owner, &run_directory);
        if server.is_err() {
            let _ = fs::remove_dir_all(&run_directory);
        }
        server
    }

    fn start_in(
        &self,
        programs: &Programs,
        owner: Option<Owner>,
        run_directory: &Path,
    ) -> Result<Server> {
        if let Some(owner) = owner {
            owner.take(run_directory)?;
        }
        let data_directory = match &self.data_directory {
            Some(directory) => std::path::absolute(directory)?,
            None => run_directory.join("data"),
        };
        if owner.is_some_and(|owner| !owner.can_reach(&data_directory)) {
            bail!(
                "the server's unprivileged account cannot enter a parent directory of {}; choose another place",
                data_directory.display()
            );
        }
        let fresh = !data_directory.exists();
        if fresh {
            let cache = self.cache.clone().unwrap_or_else(template::default_cache);
            template::new_data_directory(programs, &cache, owner, &data_directory)?;
        }
        // A free port may be taken by somebody else before the server binds it.
        for _ in 0..4 {
            let port = free_port()?;
            let started = self.launch(programs, owner, run_directory, &data_directory, port);
            match started {
                Err(error) if format!("{error:#}").contains("Address already in use") => {}
                Ok(server) => {
                    if fresh {
                        server.furnish()?;
                    }
                    return Ok(server);
                }
                Err(error) => return Err(error),
            }
        }
        bail!("no free TCP port for the server on 127.0.0.1");
    }

    fn launch(
        &self,
        programs: &Programs,
        owner: Option<Owner>,
        run_directory: &Path,
        data_directory: &Path,
        port: u16,
    ) -> Result<Server> {
        let socket = run_directory.join("s");
        let log = run_directory.join("log");
        let temporary_tables = run_directory.join("tmp");
        if !temporary_tables.exists() {
            template::private_directory(&temporary_tables)?;
            owner.map_or(Ok(()), |owner| owner.take(&temporary_tables))?;
        }
        let mut line: Vec<OsString> = self.prefix.clone();
        line.push(programs.mariadbd.clone().into());
        line.push("--no-defaults".into());
        // A server that starts removes the temporary tables it finds, so no two may share a directory for them.
        let paths = [
            ("datadir", data_directory),
            ("socket", &socket),
            ("pid-file", &run_directory.join("pid")),
            ("tmpdir", &temporary_tables),
        ];
        for (name, path) in paths {
            let mut option = OsString::from(format!("--{name}="));
            option.push(path);
            line.push(option);
        }
        line.push(format!("--port={port}").into());
        line.extend(
            [
                "--bind-address=127.0.0.1",
                "--max-connections=2000",
                "--skip-log-bin",
                "--skip-name-resolve",
            ]
            .map(Into::into),
        );
        if let Some(owner) = owner {
            line.push(format!("--user={}", owner.name()).into());
        }
        line.extend(self.options.iter().cloned());

        let output =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(data_directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // A Ctrl-C at the terminal is for the process that started the server, which then stops it.
            .process_group(0);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(&line[0]).display()))?;
        let pid = child.id();
        let mut server = Server {
            child,
            status: None,
            guard: None,
            port,
            socket,
            log,
            run_directory: run_directory.to_owned(),
            data_directory: data_directory.to_owned(),
        };
        let mut temporary = vec![run_directory];
        temporary.extend(self.removed_when_orphaned.iter().map(PathBuf::as_path));
        server.guard =
            Some(Guard::new(pid, data_directory, &temporary).context("cannot start /bin/sh")?);
        let ready = server.wait_until_it_greets(self.start_deadline);
        if ready.is_err() {
            // The directory serves the next attempt, so the failed server must not take it along.
            server.run_directory = PathBuf::new();
            let _ = server.kill();
        }
        ready.map(|()| server)
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .context("cannot bind a TCP port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
