//! What the tests of the command, of failing open and of the victims share: a private run
//! directory, the command itself, and patience.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use headworks_rig::gated::{RunDirectory, Status};
use serde_json::Value;

/// How long anything may take that is not what a test measures.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The command under test. Fails early if the library is not beside it.
pub fn program() -> &'static Path {
    let program = Path::new(env!("CARGO_BIN_EXE_headworks"));
    assert!(
        shim().exists(),
        "{} is missing: run `cargo build --workspace` first",
        shim().display()
    );
    program
}

/// The preloaded library.
pub fn shim() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_headworks")).with_file_name("libheadworks.so")
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Looks until `done`; fails with `what` when it takes too long.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process that the test started, directly or through the command.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill takes any numbers.
    let result = unsafe { libc::kill(pid as libc::pid_t, signal) };
    assert_eq!(result, 0, "kill({pid}, {signal}): {}", std::io::Error::last_os_error());
}

/// Whether a process is there, and is more than what its parent has not fetched yet.
pub fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap_or(0)..].starts_with(") Z"))
}

/// Output as text, for messages and searches.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A private directory for instances, with everything that runs in it; gone when dropped.
#[derive(Debug)]
pub struct RunDir {
    directory: RunDirectory,
}

impl RunDir {
    pub fn new() -> RunDir {
        RunDir { directory: RunDirectory::new().expect("a directory for instances") }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes a file beside the instances and says where.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        // Not in the directory itself, where there are only instances.
        let path = self.path().with_extension(name);
        fs::write(&path, content).expect("a file");
        path
    }

    /// Directory of an instance.
    pub fn instance(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Whether the instance's daemon listens. Its socket's file is there before.
    pub fn listens(&self, name: &str) -> bool {
        UnixStream::connect(self.instance(name).join("control.sock")).is_ok()
    }

    /// The command in this directory.
    pub fn headworks<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .env("HEADWORKS_RUN_DIR", self.path())
            .env_remove("HEADWORKS_SHIM")
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null());
        command
    }

    /// Runs the command, which must succeed, and returns what it says.
    pub fn ok<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.headworks(args).output().expect("the command");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs the command, which must fail, and returns what it says on standard error.
    pub fn refused<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.headworks(args).output().expect("the command");
        assert!(!output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// `status --json` of an instance.
    pub fn status(&self, name: &str) -> Value {
        let text = self.ok(["status", "--json", "--name", name]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// A number in the status.
    pub fn figure(&self, name: &str, key: &str) -> u64 {
        Status(self.status(name)).number(key)
    }

    /// A counter in the status.
    pub fn counter(&self, name: &str, key: &str) -> u64 {
        Status(self.status(name)).counter(key)
    }

    pub fn daemon(&self, name: &str) -> u32 {
        self.figure(name, "daemon_pid") as u32
    }

    /// Waits until so many users are held.
    pub fn wait_for_held(&self, name: &str, users: u64) {
        wait_until(&format!("{users} held users"), || self.figure(name, "waiting") == users);
    }

    /// Daemons of instances in this directory, without those who only clean up after them.
    pub fn daemons(&self) -> Vec<u32> {
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.processes().into_iter().filter(|pid| name(pid).trim() == "headworks").collect()
    }

    /// Everything that was started as a daemon in this directory.
    fn processes(&self) -> Vec<u32> {
        let wanted = format!("HEADWORKS_RUN_DIR={}", self.path().display());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_daemon = |pid: &u32| {
            let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let args = read("cmdline");
            args.split(|&byte| byte == 0).nth(1) == Some(b"daemon")
                && read("environ").split(|&byte| byte == 0).any(|line| line == wanted.as_bytes())
                && lives(*pid)
        };
        numbers.filter(is_daemon).collect()
    }

    /// Names in the directory.
    pub fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Fails unless no instance and no daemon is left, now or soon.
    pub fn assert_nothing_left(&self, after: &str) {
        let begun = Instant::now();
        while !(self.instances().is_empty() && self.processes().is_empty()) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{after}: left behind: {:?}, processes {:?}",
                self.instances(),
                self.processes()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        for pid in self.processes() {
            // SAFETY: kill takes any numbers; the process was found to be a daemon of this
            // directory.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        }
        let stem = self.path().file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
        let siblings = fs::read_dir(self.path().parent().unwrap_or(self.path()));
        for entry in siblings.into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&stem) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
