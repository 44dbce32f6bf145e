//! A server of MongoDB's protocol behind the gate, and its users.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use headworks_rig::{LoopKind, LoopServer};

use crate::compile::Workshop;
use crate::gated::{self, DEADLINE, HELD, Setup, state};
use crate::mongo_support::{MORE_TO_COME, Value, body, message, metadata, raw, statement};

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
pub type Gate = gated::Gate<LoopKind>;

impl Gate {
    /// P permits; see [`Setup::new`]. `None`, with a printed reason, if the server is not here.
    pub fn start(kind: Kind, parallelism: u32) -> Option<Gate> {
        let mut builder = LoopServer::builder(LoopKind::MongoJava);
        let mut workshop = None;
        match kind {
            Kind::Jvm if !LoopKind::MongoJava.is_here_or_skip() => return None,
            Kind::Jvm => {}
            Kind::Threads | Kind::Late => {
                let made = workshop.insert(Workshop::open()?);
                let late = kind == Kind::Late;
                let source = if late { "mongolate.c" } else { "mongod.c" };
                // Its port is not said in mongod's way. Without one the default would be looked at,
                // by many at once, who take each other for its server.
                builder = builder.program(made.compile(source, &[])).option("--port=0");
            }
        }
        let profile = if kind == Kind::Threads { "mongodb" } else { "mongodb-loops" };
        let mut gate = Setup::new(builder, parallelism).profile(profile).launch();
        gate.kept = workshop.map(|workshop| Box::new(workshop) as _);
        gate.wait_for_nobody();
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
