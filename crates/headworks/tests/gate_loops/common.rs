//! A server with an event loop behind the gate, and its users.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headworks_rig::{LoopKind, LoopServer};

use crate::directory::RunDirectory;
use crate::status::{Status, state};

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How long somebody must have got no answer to count as held.
const HELD: Duration = Duration::from_millis(300);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Name of the instance; each has a run directory of its own.
pub const NAME: &str = "gate";

/// Ends the loops of other threads, also if a test fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a gated server is to be started.
pub struct Setup {
    kind: LoopKind,
    keys: BTreeMap<&'static str, String>,
    sections: String,
    arguments: Vec<String>,
    program: Option<PathBuf>,
    locks: Option<String>,
}

impl Setup {
    /// P places. Nobody passes by itself: the limits on holds, stalls and idling are out of reach.
    pub fn places(kind: LoopKind, parallelism: u32) -> Setup {
        let setup = Setup {
            kind,
            keys: BTreeMap::new(),
            sections: String::new(),
            arguments: Vec::new(),
            program: None,
            locks: None,
        };
        setup
            .key("parallelism", parallelism)
            .key("hold_ms_max", 900_000)
            .key("idle_in_transaction_ms", 600_000)
            .key("stall_ms", 600_000)
            .key("count", "\"admitted\"")
    }

    pub fn redis(parallelism: u32) -> Setup {
        Setup::places(LoopKind::Redis, parallelism)
    }

    /// A key of the section `[gate]`.
    pub fn key(mut self, key: &'static str, value: impl Display) -> Setup {
        self.keys.insert(key, value.to_string());
        self
    }

    /// Classes and rules.
    pub fn sections(mut self, text: &str) -> Setup {
        self.sections = text.to_owned();
        self
    }

    /// More arguments of the server.
    pub fn arguments(mut self, arguments: &[&str]) -> Setup {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Starts this program in the place of the server, whose profile it gets. Its first argument is the port.
    pub fn program(mut self, program: PathBuf) -> Setup {
        self.program = Some(program);
        self
    }

    /// A profile of one's own, with words that take and release a lock of the session.
    pub fn locks(mut self, acquire: &str, release: &str) -> Setup {
        self.locks = Some(format!("acquire = [{acquire:?}]\nrelease = [{release:?}]\n"));
        self
    }

    /// Starts the server; `None`, with a printed reason, if it is not here.
    pub fn start(self) -> Option<Gate> {
        if self.program.is_none() && !self.kind.is_here_or_skip() {
            return None;
        }
        let directory = RunDirectory::new();
        let config = directory.0.join("headworks.toml");
        let mut text = "[gate]\n".to_owned();
        for (key, value) in &self.keys {
            text += &format!("{key} = {value}\n");
        }
        text += &self.sections;
        fs::write(&config, text).unwrap();
        let redis = self.kind == LoopKind::Redis;
        let (framing, server) =
            if redis { ("redis", "redis-server") } else { ("memcached", "memcached") };
        let mut profile = PathBuf::from(framing);
        if let Some(locks) = self.locks {
            profile = directory.0.join("own.toml");
            let text = format!(
                "name = \"own\"\nframing = \"{framing}\"\nserved_by = \"event-loops\"\n\
                 [programs]\nservers = [\"{server}\"]\n[locks]\n{locks}"
            );
            fs::write(&profile, text).unwrap();
        }
        let mut builder = LoopServer::builder(self.kind);
        if let Some(program) = self.program {
            builder = builder.program(program);
        }
        let server = builder
            .prefix([
                Path::new(env!("CARGO_BIN_EXE_headworks")).as_os_str(),
                "run".as_ref(),
                "--name".as_ref(),
                NAME.as_ref(),
                "--profile".as_ref(),
                profile.as_os_str(),
                "--config".as_ref(),
                config.as_os_str(),
                "--".as_ref(),
            ])
            .env("HEADWORKS_RUN_DIR", &directory.0)
            .remove_when_orphaned(&directory.0)
            .arguments(&self.arguments)
            .start()
            .unwrap();
        assert!(server.has_mapped("libheadworks").unwrap());
        let gate = Gate { server, directory };
        gate.wait("the first connection is gone", |status| status.number("users") == 0);
        Some(gate)
    }
}

/// A server behind the gate.
pub struct Gate {
    // Dropped first: the server stops while its instance is still there.
    pub server: LoopServer,
    directory: RunDirectory,
}

impl Gate {
    /// A connection that has said nothing.
    pub fn wire(&self) -> Wire {
        Wire::connect(&self.server)
    }

    /// A connection with a name, by which the status knows it.
    pub fn user(&self, name: &str) -> Wire {
        let mut wire = self.wire();
        wire.ask(&["CLIENT", "SETNAME", name], "+OK\r\n");
        wire
    }

    /// Runs a command of headworks for this instance.
    pub fn headworks(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_headworks"))
            .args(arguments)
            .args(["--name", NAME])
            .env("HEADWORKS_RUN_DIR", &self.directory.0)
            .output()
            .unwrap()
    }

    /// What the gate says of itself.
    pub fn status(&self) -> Status {
        let output = self.headworks(&["status", "--json"]);
        assert!(output.status.success(), "{output:?}");
        Status(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until the status is as wanted.
    pub fn wait(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if condition(&status) {
                return;
            }
            let late = begun.elapsed() > DEADLINE;
            assert!(!late, "not within {DEADLINE:?}: {what}: {:#}", status.0);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until a user is in this state.
    pub fn wait_state(&self, name: &str, state: &str) {
        self.wait(&format!("{name} is `{state}`"), |status| status.state(name) == state);
    }

    /// Waits until nobody is inside and nobody waits.
    pub fn wait_empty(&self) {
        self.wait("nobody is inside and nobody waits", |status| {
            status.number("inside") == 0 && status.number("waiting") == 0
        });
    }

    /// Process id of the daemon.
    pub fn daemon(&self) -> i32 {
        self.status().0["daemon_pid"].as_i64().expect("a daemon") as i32
    }

    /// A user in a transaction: it has a place until [`Gate::release`].
    pub fn occupy(&self, name: &str) -> Wire {
        let mut wire = self.user(name);
        wire.ask(&["MULTI"], "+OK\r\n");
        self.wait_state(name, state::INSIDE);
        wire
    }

    /// Ends an occupant's transaction, so that its place is free.
    pub fn release(&self, occupant: Wire) {
        self.release_with(occupant, "*0\r\n");
    }

    /// The same where the transaction's answer is this.
    pub fn release_with(&self, mut occupant: Wire, answer: &str) {
        occupant.ask(&["EXEC"], answer);
    }
}

/// A client that sends what no driver would.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A command in RESP.
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

impl Wire {
    pub fn connect(server: &LoopServer) -> Wire {
        Wire::over(TcpStream::connect(server.address()).unwrap())
    }

    /// Speaks over a connection that somebody else has made.
    pub fn over(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).unwrap();
        Wire { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a command without waiting for its answer.
    pub fn tell(&mut self, words: &[&str]) {
        self.send(&command(words));
    }

    /// Whether these are the next bytes of the server; leaves the rest for later.
    #[track_caller]
    pub fn expect(&mut self, answer: &str) {
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        while self.buffer.len() < answer.len() {
            let mut chunk = [0; 65536];
            let count = self.stream.read(&mut chunk).expect("an answer in time");
            assert!(
                count > 0,
                "the server hung up after {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
            self.buffer.extend(&chunk[..count]);
        }
        let got: Vec<u8> = self.buffer.drain(..answer.len()).collect();
        assert_eq!(String::from_utf8_lossy(&got), answer);
    }

    #[track_caller]
    pub fn ask(&mut self, words: &[&str], answer: &str) {
        self.tell(words);
        self.expect(answer);
    }

    /// Reads a line.
    pub fn line(&mut self) -> String {
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            let mut chunk = [0; 65536];
            let count = self.stream.read(&mut chunk).expect("an answer in time");
            assert!(count > 0, "the server hung up");
            self.buffer.extend(&chunk[..count]);
        }
    }

    /// Whether nothing comes for so long that the user must be held.
    pub fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(HELD)).unwrap();
        let mut chunk = [0; 65536];
        match self.stream.read(&mut chunk) {
            Ok(count) => {
                self.buffer.extend(&chunk[..count]);
                false
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Whether the server has hung up, or does so in time.
    pub fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut chunk = [0; 65536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// The socket, for whoever wants to break it.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
