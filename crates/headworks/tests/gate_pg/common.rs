//! A PostgreSQL behind the gate, and its users.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headworks_rig::{PostgresServer, postgres_or_skip};
use postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use crate::directory::RunDirectory;
use crate::status::{Status, state};

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How long somebody must have got no answer to count as held.
const HELD: Duration = Duration::from_millis(300);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Name of the instance; each has a run directory of its own.
pub const NAME: &str = "gate";

/// Waits until `condition` holds; panics, saying `what` did not happen, when it takes too long.
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < deadline, "not within {deadline:?}: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How a gated server is to be started.
pub struct Setup {
    keys: BTreeMap<&'static str, String>,
    sections: String,
    settings: Vec<(&'static str, String)>,
    preload: Option<PathBuf>,
}

impl Setup {
    /// P permits. The limits on holds, stalls and idling are out of reach of a test. A session that
    /// sleeps or idles keeps its permit.
    pub fn places(parallelism: u32) -> Setup {
        let (keys, settings) = (BTreeMap::new(), Vec::new());
        let setup = Setup { keys, sections: String::new(), settings, preload: None };
        setup
            .key("parallelism", parallelism)
            .key("hold_ms_max", 900_000)
            .key("idle_in_transaction_ms", 600_000)
            .key("stall_ms", 600_000)
            .key("count", "\"admitted\"")
    }

    /// A key of the section `[gate]`.
    pub fn key(mut self, key: &'static str, value: impl Display) -> Setup {
        self.keys.insert(key, value.to_string());
        self
    }

    /// As by default: sessions that do not work lend their permit.
    pub fn working(self) -> Setup {
        self.key("count", "\"working\"")
    }

    /// Classes and rules.
    pub fn sections(mut self, text: &str) -> Setup {
        self.sections = text.to_owned();
        self
    }

    /// A setting of the server.
    pub fn setting(mut self, name: &'static str, value: impl Display) -> Setup {
        self.settings.push((name, value.to_string()));
        self
    }

    /// Another library that the server preloads, behind ours.
    pub fn preload(mut self, library: PathBuf) -> Setup {
        self.preload = Some(library);
        self
    }

    /// Starts the server; `None`, with a printed reason, if there is no PostgreSQL here.
    pub fn start(self) -> Option<Gate> {
        if !postgres_or_skip() {
            return None;
        }
        let headworks = Path::new(env!("CARGO_BIN_EXE_headworks"));
        let directory = RunDirectory::new();
        let config = directory.0.join("headworks.toml");
        let mut text = "[gate]\n".to_owned();
        for (key, value) in &self.keys {
            text += &format!("{key} = {value}\n");
        }
        text += &self.sections;
        // The administrator of the tests is never held.
        text += "\n[[rule]]\naccount = \"boss\"\nbypass = true\n";
        fs::write(&config, text).unwrap();
        let mut builder = PostgresServer::builder()
            .prefix([
                headworks.as_os_str(),
                "run".as_ref(),
                "--name".as_ref(),
                NAME.as_ref(),
                "--config".as_ref(),
                config.as_os_str(),
                "--".as_ref(),
            ])
            .env("HEADWORKS_RUN_DIR", &directory.0)
            .remove_when_orphaned(&directory.0);
        if let Some(library) = &self.preload {
            builder = builder.env("LD_PRELOAD", library);
        }
        for (name, value) in &self.settings {
            builder = builder.setting(name, value);
        }
        let server = builder.start().unwrap();
        assert!(server.has_mapped("libheadworks").unwrap());
        let gate = Gate { server, directory, users: AtomicU32::new(0) };
        let mut first = gate.user("first");
        first.run("CREATE ROLE boss SUPERUSER LOGIN; CREATE TABLE t(a int)");
        drop(first);
        gate.wait("the first user is gone", |status| status.number("users") == 0);
        Some(gate)
    }
}

/// A server behind the gate.
pub struct Gate {
    // Dropped first: the server stops while its instance is still there.
    pub server: PostgresServer,
    directory: RunDirectory,
    users: AtomicU32,
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
        let number = self.users.fetch_add(1, Ordering::Relaxed);
        let name = format!("{role}-{number}");
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

    /// A directory for the test's own files.
    pub fn scratch(&self) -> PathBuf {
        self.directory.0.clone()
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
