//! A server of MongoDB's protocol behind the gate, and its users.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use headworks_rig::{LoopKind, LoopServer};

use crate::compile::Workshop;
use crate::directory::RunDirectory;
use crate::mongo_support::{MORE_TO_COME, Value, body, message, metadata, raw, statement};
use crate::status::{Status, state};

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How long somebody must have got no answer to count as held.
const HELD: Duration = Duration::from_millis(300);

const NAME: &str = "gate";

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// mongo-java-server, by event loops.
    Jvm,
    /// `victims/mongod.c`, a thread for each connection.
    Threads,
    /// `victims/mongolate.c`, an event loop whose answers come from other threads.
    Late,
}

pub const BOTH: [Kind; 2] = [Kind::Threads, Kind::Jvm];

/// A server behind the gate.
pub struct Gate {
    // Dropped first: the server stops while its instance is still there.
    pub server: LoopServer,
    directory: RunDirectory,
    _workshop: Option<Workshop>,
}

impl Gate {
    /// P places. Nobody passes by itself: the limits on holds, stalls and idling are out of reach. `None`, with a printed
    /// reason, if the server is not here.
    pub fn start(kind: Kind, parallelism: u32) -> Option<Gate> {
        let mut builder = LoopServer::builder(LoopKind::MongoJava);
        let mut workshop = None;
        let mut profile = "mongodb-loops";
        match kind {
            Kind::Jvm if !LoopKind::MongoJava.is_here_or_skip() => return None,
            Kind::Jvm => {}
            Kind::Threads | Kind::Late => {
                let made = workshop.insert(Workshop::open()?);
                let late = kind == Kind::Late;
                let source = if late { "mongolate.c" } else { "mongod.c" };
                // Its port is not said in mongod's way. Without one the default would be looked at, by many at once, who take
                // each other for its server.
                builder = builder.program(made.compile(source, &[])).arguments(["--port=0"]);
                profile = if late { profile } else { "mongodb" };
            }
        }
        let directory = RunDirectory::new();
        let config = directory.0.join("headworks.toml");
        let limits = "hold_ms_max = 900000\nidle_in_transaction_ms = 600000\nstall_ms = 600000\ncount = \"admitted\"\n";
        fs::write(&config, format!("[gate]\nparallelism = {parallelism}\n{limits}")).unwrap();
        let server = builder
            .prefix([
                Path::new(env!("CARGO_BIN_EXE_headworks")).as_os_str(),
                "run".as_ref(),
                "--name".as_ref(),
                NAME.as_ref(),
                "--profile".as_ref(),
                profile.as_ref(),
                "--config".as_ref(),
                config.as_os_str(),
                "--".as_ref(),
            ])
            .env("HEADWORKS_RUN_DIR", &directory.0)
            .remove_when_orphaned(&directory.0)
            .start()
            .unwrap();
        assert!(server.has_mapped("libheadworks").unwrap());
        let gate = Gate { server, directory, _workshop: workshop };
        gate.wait("the first connection is gone", |status| status.number("users") == 0);
        Some(gate)
    }

    /// A connection that has said nothing.
    pub fn wire(&self) -> Wire {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire { stream, request: 0 }
    }

    /// A connection with an application's name, by which the status knows it.
    pub fn user(&self, application: &'static str) -> Wire {
        let mut wire = self.wire();
        wire.ask(&[("hello", Value::Int(1)), metadata(application), ("$db", Value::Text("admin"))]);
        wire
    }

    /// A user in a transaction, which has a place until [`Gate::release`].
    pub fn occupy(&self, application: &'static str) -> Wire {
        let mut wire = self.user(application);
        wire.tell_bytes(&statement(1, "find", 9, 1, true));
        wire.answer();
        self.wait_state(application, state::INSIDE);
        wire
    }

    /// Ends an occupant's transaction, so that its place is free.
    pub fn release(&self, mut occupant: Wire) {
        occupant.tell_bytes(&statement(2, "commitTransaction", 9, 1, false));
        occupant.answer();
    }

    fn headworks(&self, arguments: &[&str]) -> std::process::Output {
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
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a user is in this state.
    pub fn wait_state(&self, application: &str, state: &str) {
        let what = format!("{application} is `{state}`");
        self.wait(&what, |status| status.state(application) == state);
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
}

/// A client that sends what no driver would.
pub struct Wire {
    pub stream: TcpStream,
    request: i32,
}

impl Wire {
    /// Sends a command without waiting for its answer.
    pub fn tell(&mut self, fields: &[(&'static str, Value)]) {
        self.request += 1;
        self.tell_bytes(&message(self.request, fields));
    }

    /// Sends a command that wants no answer.
    pub fn mention(&mut self, fields: &[(&'static str, Value)]) {
        self.tell_bytes(&raw(77, 0, 2013, &body(MORE_TO_COME, fields)));
    }

    pub fn tell_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// A read that asks for data.
    pub fn tell_find(&mut self) {
        let filter = Value::Document(vec![]);
        let find = [("find", Value::Text("c")), ("filter", filter), ("$db", Value::Text("shop"))];
        self.tell(&find);
    }

    /// Reads one answer.
    #[track_caller]
    pub fn answer(&mut self) -> Vec<u8> {
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("an answer in time");
        let mut rest = vec![0; u32::from_le_bytes(length) as usize - 4];
        self.stream.read_exact(&mut rest).expect("the rest of it");
        rest
    }

    #[track_caller]
    pub fn ask(&mut self, fields: &[(&'static str, Value)]) {
        self.tell(fields);
        self.answer();
    }

    /// Whether nothing comes for so long that the user must be held.
    pub fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(HELD)).unwrap();
        match self.stream.peek(&mut [0; 1]) {
            Ok(_) => false,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}
