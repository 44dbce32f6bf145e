//! A store in a process, in a folder that goes with it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder with a configuration, and perhaps the store that runs by it.
pub struct Rig {
    pub dir: PathBuf,
    child: Option<Child>,
}

impl Rig {
    /// With this configuration behind the `listen` line.
    pub fn new(config: &str) -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hw-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let rig = Rig { dir, child: None };
        rig.configure(config);
        rig
    }

    /// A store that runs.
    pub fn start(config: &str) -> Rig {
        let mut rig = Rig::new(config);
        rig.serve();
        rig
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    /// `DIR` stands for the rig's folder.
    pub fn configure(&self, config: &str) {
        let dir = self.dir.display().to_string();
        let listen = if config.contains("listen =") {
            String::new()
        } else {
            format!("listen = [\"unix:{dir}/socket\"]\n")
        };
        std::fs::write(self.dir.join("store.toml"), listen + &config.replace("DIR", &dir)).unwrap();
    }

    pub fn serve(&mut self) {
        let mut command = self.command(&["serve"]);
        let log = std::fs::File::options().create(true).append(true).open(self.dir.join("log"));
        let mut child = command.stdout(Stdio::piped()).stderr(log.unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("volumes are served"), "{line}{}", self.log());
        self.child = Some(child);
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and its end.
    pub fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        let pid = child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(child.wait().unwrap().success());
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headworks-store"));
        command.args(words).arg("--config").arg(self.dir.join("store.toml"));
        command
    }

    pub fn ask(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// A command that succeeds.
    pub fn ok(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output)
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["status", "--json"])).unwrap()
    }

    /// The state of one application.
    pub fn app(&self, name: &str) -> serde_json::Value {
        let status = self.status();
        let apps = status["applications"].as_array().unwrap();
        apps.iter().find(|app| app["name"] == name).unwrap().clone()
    }
}

/// An address that no other test has: each process has a loopback address. The kernel gives such
/// ports to no connection.
pub fn own_address() -> std::net::SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(9_100);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    (std::net::Ipv4Addr::new(127, 64 | high, middle, low), port).into()
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Whether a program is there; says that a test is skipped if not.
pub fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| Path::new(&dir).join(program).exists());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A program that must succeed within a minute.
pub fn run(program: &str, words: &[&str]) -> String {
    // Debian's Python has Debian's modules.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    let output = command.arg("60").arg(program).args(words).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", text(&output));
    text(&output)
}

/// Waits until it is so, a minute at most.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Resident memory of a process, in MiB.
pub fn resident_mib(pid: u32) -> u64 {
    of_status(pid, "VmRSS:") / 1024
}

/// A number of a process's status file.
pub fn of_status(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Numbers that look random, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        let Random(state) = self;
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % limit
    }
}

/// How often something is done: as the variable says, or the usual number.
pub fn times(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is a number")),
        Err(_) => usual,
    }
}
