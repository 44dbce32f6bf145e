//! A server with an event loop behind the gate, and its users.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use headworks_rig::{LoopKind, LoopServer};

pub use crate::gated::DEADLINE;
use crate::gated::{self, HELD, state};

/// Ends the loops of other threads, also if a test fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server with an event loop behind the gate.
pub type Gate = gated::Gate<LoopKind>;

/// How it is to be started.
pub type Setup = gated::Setup<LoopKind>;

/// The framing of a server's protocol, and its program.
fn framing(kind: LoopKind) -> (&'static str, &'static str) {
    if kind == LoopKind::Redis { ("redis", "redis-server") } else { ("memcached", "memcached") }
}

impl Setup {
    /// P permits; see [`gated::Setup::new`].
    pub fn places(kind: LoopKind, parallelism: u32) -> Setup {
        Setup::new(LoopServer::builder(kind), parallelism).profile(framing(kind).0)
    }

    pub fn redis(parallelism: u32) -> Setup {
        Setup::places(LoopKind::Redis, parallelism)
    }

    /// A profile of one's own, with words that take and release a lock of the session.
    pub fn locks(self, acquire: &str, release: &str) -> Setup {
        let (framing, server) = framing(*self.builder.kind());
        self.own_profile(format!(
            "name = \"own\"\nframing = \"{framing}\"\nserved_by = \"event-loops\"\n\
             [programs]\nservers = [\"{server}\"]\n\
             [locks]\nacquire = [{acquire:?}]\nrelease = [{release:?}]\n"
        ))
    }

    /// Starts the server; `None`, with a printed reason, if it is not here.
    pub fn start(self) -> Option<Gate> {
        self.builder.kind().is_here_or_skip().then(|| self.launched())
    }

    /// Starts this program in the place of the server, whose profile it gets. Its first argument is
    /// the port.
    pub fn start_other(self, program: PathBuf) -> Gate {
        self.server(|builder| builder.program(program)).launched()
    }

    fn launched(self) -> Gate {
        let gate = self.launch();
        gate.wait_for_nobody();
        gate
    }
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

    /// Speaks over a connection that the caller has made.
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

    /// The socket, for tests that break it.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
