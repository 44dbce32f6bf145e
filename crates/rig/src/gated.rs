//! A server behind the gate: its start, the gate's status, and commands.
//!
//! All of it is done by the program `headworks`, as an operator would do it. An [`Instance`] is its
//! name and directory; [`Gated`] is a server in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::builder::{Builder, Kind};
use crate::process::Process;

/// The preloaded library's name in a server's memory map.
pub const LIBRARY: &str = "libheadworks";

/// How often the status is polled while waiting for a change.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Timeout for the daemon to remove its own part of a run directory.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// A private directory that other accounts may enter, in memory if possible; removed when dropped.
#[derive(Debug)]
pub struct RunDirectory(PathBuf);

impl RunDirectory {
    /// Makes one.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        for _ in 0..1000 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("headworks-rig-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    // The server's account must be able to enter; it is not ours if root starts the
                    // server.
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                    return Ok(Self(path));
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(format!("cannot make {}", path.display())),
            }
        }
        bail!("too many directories {}/headworks-rig-*: remove them", parent.display())
    }
}

impl Deref for RunDirectory {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for RunDirectory {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // The daemon removes its own part at the same time.
        let begun = Instant::now();
        while fs::remove_dir_all(&self.0).is_err()
            && self.0.exists()
            && begun.elapsed() < REMOVAL_TIMEOUT
        {
            sleep(POLL_INTERVAL);
        }
    }
}

/// One instance of the gate.
#[derive(Debug)]
pub struct Instance {
    program: PathBuf,
    name: String,
    directory: Option<RunDirectory>,
}

impl Instance {
    /// In its own run directory. `program` is the program `headworks`.
    pub fn private(program: impl Into<PathBuf>, name: &str) -> Result<Self> {
        let directory = Some(RunDirectory::new()?);
        Ok(Self { program: program.into(), name: name.to_owned(), directory })
    }

    /// In the machine's run directory, where its name must be unique.
    pub fn shared(program: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { program: program.into(), name: name.into(), directory: None }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its run directory, if it is private.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The prefix of a server's command: `headworks run` with these options.
    pub fn prefix<T: Into<OsString>>(&self, options: impl IntoIterator<Item = T>) -> Vec<OsString> {
        let run = ["run", "--name", &self.name].map(OsString::from);
        std::iter::once(self.program.clone().into())
            .chain(run)
            .chain(options.into_iter().map(Into::into))
            .chain(["--".into()])
            .collect()
    }

    /// The same with a configuration, which is written to `path`.
    pub fn prefix_with_config(
        &self,
        path: &Path,
        config: &str,
        options: &[&str],
    ) -> Result<Vec<OsString>> {
        fs::write(path, config).with_context(|| format!("cannot write {}", path.display()))?;
        let options = options.iter().map(OsString::from);
        Ok(self.prefix(["--config".into(), path.into()].into_iter().chain(options)))
    }

    /// Puts the gate in front of a server, with these options of `headworks run`.
    #[must_use]
    pub fn before<K: Kind, T: Into<OsString>>(
        &self,
        builder: Builder<K>,
        options: impl IntoIterator<Item = T>,
    ) -> Builder<K> {
        let builder = builder.prefix(self.prefix(options));
        match &self.directory {
            Some(directory) => builder
                .env("HEADWORKS_RUN_DIR", directory)
                .remove_when_orphaned(directory.to_path_buf()),
            None => builder,
        }
    }

    /// A command of headworks for this instance.
    pub fn command<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--name", &self.name]).stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.env("HEADWORKS_RUN_DIR", directory);
        }
        command
    }

    /// Runs a command of headworks for this instance.
    pub fn headworks(&self, arguments: &[&str]) -> Result<Output> {
        let output = self.command(arguments).output();
        output.with_context(|| format!("cannot run {}", self.program.display()))
    }

    /// Runs a command of headworks that must succeed; returns its output. On a busy machine the
    /// daemon may answer too late: it is asked up to ten times.
    pub fn order(&self, arguments: &[&str]) -> Result<String> {
        let late = |output: &Output| {
            String::from_utf8_lossy(&output.stderr).contains("did not answer within")
        };
        let mut output = self.headworks(arguments)?;
        for _ in 1..10 {
            if output.status.success() || !late(&output) {
                break;
            }
            output = self.headworks(arguments)?;
        }
        ensure!(
            output.status.success(),
            "`headworks {}` fails: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same with `--json`.
    pub fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let answer = self.order(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&answer)
            .with_context(|| format!("`headworks {}` printed no valid JSON", arguments.join(" ")))
    }

    /// The gate's status.
    pub fn status(&self) -> Result<Status> {
        self.ask(&["status"]).map(Status)
    }

    /// The same for a gate that must hold sessions. A gate that does not would invalidate a
    /// measurement.
    pub fn enforcing_status(&self) -> Result<Status> {
        let status = self.status()?;
        let (mode, gate) = (&status.0["mode"], &status.0["gate"]);
        ensure!(
            mode == "enforce" && gate == "closed",
            "the gate is {gate} in mode {mode}: it holds no request"
        );
        Ok(status)
    }

    /// Waits until the status is as wanted.
    pub fn wait(
        &self,
        what: &str,
        deadline: Duration,
        wanted: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let begun = Instant::now();
        loop {
            let status = self.status()?;
            if wanted(&status) {
                return Ok(status);
            }
            let late = begun.elapsed() > deadline;
            ensure!(!late, "not within {deadline:?}: {what}; status {:#}", status.0);
            sleep(POLL_INTERVAL);
        }
    }
}

/// A server behind the gate.
#[derive(Debug)]
pub struct Gated<S> {
    // Dropped first: the server stops while its instance still exists.
    /// The server.
    pub server: S,
    /// Its gate.
    pub instance: Instance,
}

impl<K: Kind> Gated<Process<K>> {
    /// Starts a server behind a gate, with these options of `headworks run`.
    pub fn start<T: Into<OsString>>(
        instance: Instance,
        builder: Builder<K>,
        options: impl IntoIterator<Item = T>,
    ) -> Result<Self> {
        let server = instance.before(builder, options).start()?;
        server.ensure_gated(true)?;
        Ok(Self { server, instance })
    }
}

impl<S> Deref for Gated<S> {
    type Target = Instance;
    fn deref(&self) -> &Instance {
        &self.instance
    }
}

/// States of a session, as named in the status.
pub mod state {
    /// Between two requests.
    pub const IDLE: &str = "idle";
    /// Queued.
    pub const WAITING: &str = "waiting";
    /// Admitted.
    pub const INSIDE: &str = "inside";
    /// Not governed.
    pub const PASSING: &str = "passing";
    /// In a transaction, between two requests.
    pub const THINKING: &str = "thinking";
    /// Not there.
    pub const GONE: &str = "";
}

/// The output of `headworks status --json`. A missing number is a panic.
#[derive(Debug)]
pub struct Status(pub Value);

impl Status {
    /// A number of the whole gate.
    pub fn number(&self, key: &str) -> u64 {
        self.0[key]
            .as_u64()
            .unwrap_or_else(|| panic!("the status has no number `{key}`: {:#}", self.0))
    }

    /// A counter of the gate.
    pub fn counter(&self, name: &str) -> u64 {
        self.0["counters"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("the status has no counter `{name}`: {:#}", self.0))
    }

    /// Whether no session is admitted or queued.
    pub fn is_empty(&self) -> bool {
        self.number("inside") == 0 && self.number("waiting") == 0
    }

    /// The state of an application's session; [`state::GONE`] if it is not connected.
    pub fn state(&self, application: &str) -> &str {
        self.text_of(application, "state")
    }

    /// Why it is in that state.
    pub fn reason(&self, application: &str) -> &str {
        self.text_of(application, "reason")
    }

    /// What it holds, joined by blanks.
    pub fn holding(&self, application: &str) -> String {
        let names = self.session(application).and_then(|session| session["holding"].as_array());
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(" ")
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> &Value {
        let mut classes = self.0["classes"].as_array().into_iter().flatten();
        classes
            .find(|class| class["name"] == name)
            .unwrap_or_else(|| panic!("the status has no class `{name}`: {:#}", self.0))
    }

    fn text_of(&self, application: &str, key: &str) -> &str {
        self.session(application).map_or("", |session| session[key].as_str().unwrap_or_default())
    }

    fn session(&self, application: &str) -> Option<&Value> {
        let mut sessions = self.0["connections"].as_array()?.iter();
        sessions.find(|session| session["application"] == application)
    }
}
