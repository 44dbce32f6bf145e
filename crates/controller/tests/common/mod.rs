//! What tests of the program share: controllers, nodes, an etcd.
#![allow(dead_code)] // each test program uses a part of it

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const LONGEST: Duration = Duration::from_secs(60);

pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        let path =
            std::env::temp_dir().join(format!("hw-controller-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address that no other test has: each process has a loopback address.
pub fn own_address(number: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    (std::net::Ipv4Addr::new(127, 64 | high, middle, low), 7_700 + number).into()
}

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headworks-controller"))
}

pub fn serve(dir: &Dir, name: &str, config: &str) -> Process {
    let file = dir.0.join(name);
    std::fs::write(&file, config).unwrap();
    let mut command = program();
    command.args(["serve", "--config", file.to_str().unwrap()]).stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "not after {LONGEST:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn ask(at: &[SocketAddr], words: &[&str]) -> Output {
    let mut command = program();
    command.args(words);
    for address in at {
        command.args(["--controller", &address.to_string()]);
    }
    command.output().unwrap()
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// A node that says hello and hears.
pub struct Node {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Node {
    pub fn come(at: SocketAddr, token: &str) -> Node {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        let mut node = Node { stream, lines };
        node.say(&format!("hello 1 regionserver {token} rs 1\n"));
        node
    }

    /// One that has heard this fence.
    pub fn heard(at: SocketAddr, fence: u64) -> Node {
        let mut node = Node::come(at, "-");
        node.say(&format!("fence {fence}\n"));
        node
    }

    /// The fence of the controller.
    pub fn fence(&mut self) -> u64 {
        self.hears("fence ")["fence ".len()..].parse().unwrap()
    }

    pub fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lines up to one that begins so.
    pub fn hears(&mut self, begin: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the connection ended before: {begin}");
            if line.starts_with(begin) {
                return line;
            }
        }
    }
}

/// An etcd of a test.
pub struct Store {
    process: Process,
    directory: PathBuf,
    client: SocketAddr,
    peer: SocketAddr,
}

impl Store {
    /// None where it is not installed.
    pub fn start(dir: &Dir, client: SocketAddr, peer: SocketAddr) -> Option<Store> {
        let has = |name: &str| {
            let mut command = Command::new(name);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        if !has("etcd") || !has("etcdctl") {
            eprintln!("skipped: etcd is not installed (apt-get install etcd-server etcd-client)");
            return None;
        }
        let directory = dir.0.join("etcd");
        Some(Store { process: Store::process(&directory, client, peer), directory, client, peer })
    }

    fn process(directory: &std::path::Path, client: SocketAddr, peer: SocketAddr) -> Process {
        let url = |address: SocketAddr| format!("http://{address}");
        let etcd = Command::new("etcd")
            .args(["--data-dir", directory.to_str().unwrap(), "--listen-client-urls", &url(client)])
            .args(["--advertise-client-urls", &url(client), "--listen-peer-urls", &url(peer)])
            .args(["--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process(etcd);
        until("etcd answers", || TcpStream::connect(client).is_ok());
        process
    }

    /// It stands still.
    pub fn stops(&self) {
        let pid = self.process.0.id().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    }

    /// It has lost everything.
    pub fn is_emptied(&mut self) {
        let _ = self.process.0.kill();
        let _ = self.process.0.wait();
        std::fs::remove_dir_all(&self.directory).unwrap();
        self.process = Store::process(&self.directory, self.client, self.peer);
    }

    /// Has etcdctl do something.
    pub fn ctl(&self, words: &[&str]) -> String {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.client.to_string()]);
        text(&command.args(words).output().unwrap())
    }

    /// Leases end: a controller that was killed no longer holds anything.
    pub fn end_leases(&self) {
        for lease in self.ctl(&["lease", "list"]).lines().skip(1) {
            self.ctl(&["lease", "revoke", lease.trim()]);
        }
    }
}
