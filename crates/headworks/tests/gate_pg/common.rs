//! A PostgreSQL behind the gate, and its users.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use headworks_rig::{PostgreSql, PostgresServer, postgres_or_skip};
use postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use crate::gated::{self, HELD, state};
pub use crate::gated::{DEADLINE, wait_until};

/// How a gated PostgreSQL is to be started.
pub type Setup = gated::Setup<PostgreSql>;

/// A PostgreSQL behind the gate.
pub type Gate = gated::Gate<PostgreSql>;

impl Setup {
    /// P permits; see [`gated::Setup::new`]. The administrator of the tests is never held.
    pub fn places(parallelism: u32) -> Setup {
        Setup::new(PostgresServer::builder(), parallelism).bypassing("boss")
    }

    /// A setting of the server.
    pub fn setting(self, name: &str, value: impl Display) -> Setup {
        self.server(|builder| builder.setting(name, &value.to_string()))
    }

    /// Another library that the server preloads, behind ours.
    pub fn preload(self, library: PathBuf) -> Setup {
        self.server(|builder| builder.env("LD_PRELOAD", library))
    }

    /// Starts the server; `None`, with a printed reason, if there is no PostgreSQL here.
    pub fn start(self) -> Option<Gate> {
        if !postgres_or_skip() {
            return None;
        }
        let gate = self.launch();
        let mut first = gate.user("first");
        first.run("CREATE ROLE boss SUPERUSER LOGIN; CREATE TABLE t(a int)");
        drop(first);
        gate.wait_for_nobody();
        Some(gate)
    }
}

/// A client with a name that is its own, by which the status knows it.
pub struct User {
    pub name: String,
    pub client: Client,
    /// Process id of its backend.
    pub pid: i32,
}

/// A statement that was sent and may be held.
pub struct Sent {
    pub name: String,
    pub pid: i32,
    answer: Receiver<Result<Option<String>, Error>>,
    thread: JoinHandle<User>,
    early: Option<Result<Option<String>, Error>>,
}

/// First value of the first row of an answer.
fn value(messages: &[SimpleQueryMessage]) -> Option<String> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

impl User {
    /// Runs a statement that cannot fail.
    pub fn run(&mut self, sql: &str) -> Option<String> {
        value(&self.client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {error}")))
    }

    /// Sends a statement without waiting for its answer.
    pub fn send(mut self, sql: &str) -> Sent {
        let (sender, answer) = channel();
        let (name, pid, sql) = (self.name.clone(), self.pid, sql.to_owned());
        let thread = std::thread::spawn(move || {
            let result = self.client.simple_query(&sql).map(|messages| value(&messages));
            let _ = sender.send(result);
            self
        });
        Sent { name, pid, answer, thread, early: None }
    }
}

impl Sent {
    /// Whether the answer has come, or comes within this time.
    pub fn answered_within(&mut self, time: Duration) -> bool {
        if self.early.is_none() {
            self.early = self.answer.recv_timeout(time).ok();
        }
        self.early.is_some()
    }

    /// Waits for the answer.
    pub fn result(mut self) -> (User, Result<Option<String>, Error>) {
        assert!(self.answered_within(DEADLINE), "{} got no answer", self.name);
        (self.thread.join().unwrap(), self.early.unwrap())
    }

    /// Waits for the answer, which is no error.
    pub fn value(self) -> (User, String) {
        let (user, result) = self.result();
        (user, result.unwrap().unwrap_or_default())
    }
}

impl Gate {
    /// How an ordinary user connects.
    pub fn config(&self, name: &str) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.server.port()).user("app").dbname("postgres");
        config.application_name(name);
        config
    }

    /// An ordinary user.
    pub fn user(&self, role: &str) -> User {
        let name = self.fresh_name(role);
        self.connect(&self.config(&name), name)
    }

    fn connect(&self, config: &Config, name: String) -> User {
        let client = config.connect(NoTls).unwrap();
        // Asked by the administrator: the user itself might be held.
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'");
        let pid = self.try_sql(&sql).and_then(|pid| pid.parse().ok()).unwrap_or(0);
        User { name, client, pid }
    }

    /// The administrator, whom no gate holds.
    pub fn boss(&self) -> User {
        let mut config = self.config("boss");
        let client = config.user("boss").connect(NoTls).unwrap();
        User { name: "boss".to_owned(), client, pid: 0 }
    }

    /// Runs one statement as the administrator.
    pub fn sql(&self, sql: &str) -> String {
        self.boss().run(sql).unwrap_or_default()
    }

    /// `None` before there is an administrator.
    fn try_sql(&self, sql: &str) -> Option<String> {
        let mut config = self.config("boss");
        let mut client = config.user("boss").connect(NoTls).ok()?;
        value(&client.simple_query(sql).unwrap())
    }

    /// A command of PostgreSQL that connects as an ordinary user.
    pub fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(headworks_rig::postgres_program(name).unwrap());
        command
            .args(["-h", "127.0.0.1", "-U", "app", "-p"])
            .arg(self.server.port().to_string())
            .env_remove("LD_PRELOAD");
        command
    }

    /// Whether the gate holds what was sent.
    pub fn is_held(&self, sent: &mut Sent) -> bool {
        !sent.answered_within(HELD) && self.status().state(&sent.name) == state::WAITING
    }

    /// A user that runs a statement without an end: it has a place until [`Gate::release`].
    pub fn occupy(&self) -> Sent {
        let sent = self.user("occupant").send("SELECT pg_sleep(600)");
        self.wait_state(&sent.name, state::INSIDE);
        sent
    }

    /// Ends the statement of an occupant, so that its place is free.
    pub fn release(&self, mut occupant: Sent) {
        wait_until("the occupant's statement ends", DEADLINE, || {
            self.sql(&format!("SELECT pg_cancel_backend({})", occupant.pid));
            occupant.answered_within(HELD)
        });
        assert!(occupant.result().1.is_err());
    }
}
