//! A private Redis, memcached or server of MongoDB's protocol: servers that take all their connections by an event loop.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::guard::Guard;
use crate::programs::find_program;
use crate::{Stopped, template};

const START_DEADLINE: Duration = Duration::from_secs(30);
const DROP_DEADLINE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// Redis, without persistence unless a setting asks for it.
    Redis,
    /// memcached.
    Memcached,
    /// mongo-java-server, under a JVM.
    MongoJava,
}

impl LoopKind {
    /// Its program.
    pub fn program(self) -> &'static str {
        match self {
            LoopKind::Redis => "redis-server",
            LoopKind::Memcached => "memcached",
            LoopKind::MongoJava => "java",
        }
    }

    fn arguments(self, port: u16, directory: &Path) -> Vec<OsString> {
        let port = port.to_string();
        let words: &[&str] = match self {
            LoopKind::Redis => &[
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ],
            LoopKind::Memcached => &["-p", &port, "-l", "127.0.0.1", "-U", "0", "-c", "4096"],
            LoopKind::MongoJava => {
                &["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
            }
        };
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        match self {
            LoopKind::Redis => words.push(directory.into()),
            // It refuses to run as root.
            LoopKind::Memcached => words.extend(["-u".into(), "nobody".into()]),
            LoopKind::MongoJava => {
                words.extend([java_class_path(), "MongoServer".into(), port.as_str().into()]);
            }
        }
        words
    }

    /// Whether it is installed; prints why a test is skipped when it is not.
    pub fn is_here_or_skip(self) -> bool {
        let found = find_program(self.program()).is_some();
        if self == LoopKind::MongoJava {
            let found = found && java_directory().join("classes/MongoServer.class").exists();
            if !found {
                println!(
                    "skipped: there is no JVM, or no server to run under it (scripts/setup java)"
                );
            }
            return found;
        }
        if !found {
            println!("skipped: {0} is not installed (apt-get install {0})", self.program());
        }
        found
    }
}

/// Where `scripts/setup java` puts libraries (`jars`) and programs (`classes`), unless `HEADWORKS_CONFORMANCE_JAVA` says
/// another place.
pub fn java_directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/conformance/java");
    std::env::var_os("HEADWORKS_CONFORMANCE_JAVA").map_or_else(default, PathBuf::from)
}

/// The class path of the programs there.
pub fn java_class_path() -> OsString {
    let directory = java_directory();
    let mut path = directory.join("classes").into_os_string();
    path.push(":");
    path.push(directory.join("jars/*"));
    path
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct LoopBuilder {
    kind: LoopKind,
    program: Option<PathBuf>,
    arguments: Vec<OsString>,
    prefix: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    removed_when_orphaned: Vec<PathBuf>,
}

impl LoopBuilder {
    /// More arguments, behind the rig's own.
    #[must_use]
    pub fn arguments<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Starts this program instead of the kind's own. Its first argument is the port.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Puts a command in front of the server's own, such as `["headworks", "run", "--"]`. It has to end by executing
    /// the server in its own place.
    #[must_use]
    pub fn prefix<T: Into<OsString>>(mut self, prefix: impl IntoIterator<Item = T>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable. `LD_PRELOAD` is removed anyway.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A directory that is removed, with everything in it, if this process ends without having stopped the server.
    #[must_use]
    pub fn remove_when_orphaned(mut self, directory: impl Into<PathBuf>) -> Self {
        self.removed_when_orphaned.push(directory.into());
        self
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&self) -> Result<LoopServer> {
        let directory = template::fresh_directory(&std::env::temp_dir())?;
        let server = self.start_in(&directory);
        if server.is_err() {
            let _ = fs::remove_dir_all(&directory);
        }
        server
    }

    fn start_in(&self, directory: &Path) -> Result<LoopServer> {
        let name = self.kind.program();
        let own = || find_program(name).with_context(|| format!("{name} is not installed"));
        let program = self.program.clone().map_or_else(own, Ok)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = directory.join("log");
        let output = File::create(&log)?;
        let mut line = self.prefix.clone();
        line.push(program.into());
        match self.program {
            Some(_) => line.push(port.to_string().into()),
            None => line.extend(self.kind.arguments(port, directory)),
        }
        line.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(directory)
            .env_remove("LD_PRELOAD")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(&line[0]).display()))?;
        let mut temporary = vec![directory];
        temporary.extend(self.removed_when_orphaned.iter().map(PathBuf::as_path));
        let guard = Guard::new(child.id(), directory, &temporary)?;
        let directory = directory.to_owned();
        let mut server =
            LoopServer { child, status: None, guard: Some(guard), port, log, directory };
        let begun = Instant::now();
        while TcpStream::connect(server.address()).is_err() {
            if begun.elapsed() > START_DEADLINE || !server.is_running() {
                bail!("{name} does not start; its log:\n{}", server.log());
            }
            sleep(LOOK_EVERY);
        }
        Ok(server)
    }
}

/// A running server. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct LoopServer {
    child: Child,
    status: Option<ExitStatus>,
    guard: Option<Guard>,
    port: u16,
    log: PathBuf,
    directory: PathBuf,
}

impl LoopServer {
    /// A server to be configured.
    pub fn builder(kind: LoopKind) -> LoopBuilder {
        LoopBuilder {
            kind,
            program: None,
            arguments: Vec::new(),
            prefix: Vec::new(),
            environment: Vec::new(),
            removed_when_orphaned: Vec::new(),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its own directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether a library whose path contains `part` is mapped into it.
    pub fn has_mapped(&self, part: &str) -> Result<bool> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid()))?;
        Ok(maps.lines().any(|line| line.contains(part)))
    }

    /// Processor time that it has used, all threads together, in ticks of a hundredth of a second.
    pub fn cpu_ticks(&self) -> Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let after_name = stat.rsplit_once(')').context("no name in stat")?.1;
        let field = |at: usize| after_name.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
        field(11).zip(field(12)).map(|(user, system)| user + system).context("no times in stat")
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.poll(), Ok(None))
    }

    /// Sends it a signal and waits for its end.
    pub fn end(&mut self, signal: i32, deadline: Duration) -> Result<Stopped> {
        let begun = Instant::now();
        if self.poll()?.is_none() {
            // SAFETY: the child has not been waited for, so its process id is still its own.
            unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        }
        loop {
            if let Some(status) = self.poll()? {
                return Ok(Stopped { took: begun.elapsed(), status });
            }
            if begun.elapsed() > deadline {
                bail!("not ended after {deadline:?}; the log:\n{}", self.log());
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

impl Drop for LoopServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        if self.is_running() && self.end(libc::SIGTERM, DROP_DEADLINE).is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.guard = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}
