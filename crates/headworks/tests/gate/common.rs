//! A MariaDB behind the gate, and its users.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use headworks_rig::wire::capability;
use headworks_rig::{Client, ConnectOptions, Server};

use crate::setup::{RunDirectory, Setup};
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

/// A server behind the gate.
pub struct Gate {
    // Dropped first: the server stops while its instance is still there.
    pub server: Server,
    directory: RunDirectory,
    config: PathBuf,
    setup: Setup,
    users: AtomicU32,
}

/// A client with a name that is its own, by which the status knows it.
pub struct User {
    pub name: String,
    client: Client,
}

impl Deref for User {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for User {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl User {
    /// Says goodbye properly.
    pub fn quit(self) {
        self.client.quit().unwrap();
    }

    /// Runs a statement that cannot fail.
    pub fn run(&mut self, sql: &str) {
        self.client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Reads an answer and returns its first value.
    pub fn value(&mut self) -> String {
        let answer = self.client.read_answer().unwrap();
        answer.value().unwrap_or("NULL").to_owned()
    }
}

impl Gate {
    /// What [`Setup::start`] has started.
    pub fn new(server: Server, directory: RunDirectory, config: PathBuf, setup: Setup) -> Gate {
        Gate { server, directory, config, setup, users: AtomicU32::new(0) }
    }

    /// An ordinary user.
    pub fn user(&self, role: &str) -> User {
        self.user_with(role, self.server.options())
    }

    /// A user that connects as the options say.
    pub fn user_with(&self, role: &str, options: ConnectOptions) -> User {
        let number = self.users.fetch_add(1, Ordering::Relaxed);
        let name = format!("{role}-{number}");
        let client = options
            .attribute("program_name", &name)
            .capabilities(capability::MULTI_STATEMENTS)
            .connect()
            .unwrap();
        User { name, client }
    }

    /// Runs one statement as the administrator, whom no gate holds.
    pub fn sql(&self, sql: &str) {
        self.server.sql(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
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

    /// Runs a command of headworks that has to succeed.
    pub fn order(&self, arguments: &[&str]) -> String {
        let output = self.headworks(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same for a command that is to fail; returns what it says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.headworks(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Says a line to the daemon's control socket; what it answers.
    pub fn tell(&self, line: &str) -> serde_json::Value {
        use std::io::{BufRead, Write};
        let socket = self.directory.0.join(NAME).join("control.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::BufReader::new(stream).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Writes the configuration anew, with other classes and rules.
    pub fn rewrite_config(&mut self, sections: &str) {
        self.setup.sections = sections.to_owned();
        fs::write(&self.config, self.setup.text()).unwrap();
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
    pub fn wait_state(&self, user: &User, state: &str) {
        self.wait(&format!("{} is `{state}`", user.name), |status| {
            status.state(&user.name) == state
        });
    }

    /// Waits until nobody is inside and nobody waits.
    pub fn wait_empty(&self) {
        self.wait("nobody is inside and nobody waits", |status| {
            status.number("inside") == 0 && status.number("waiting") == 0
        });
    }

    /// Whether the gate holds the request that this user has sent: no answer comes, and the status
    /// says that it waits.
    pub fn is_held(&self, user: &User) -> bool {
        !user.readable_within(HELD).unwrap() && self.waits(user)
    }

    /// Whether the gate holds the user at this moment.
    pub fn waits(&self, user: &User) -> bool {
        self.status().state(&user.name) == state::WAITING
            && !user.readable_within(Duration::ZERO).unwrap()
    }

    /// A user that runs a statement without an end: it has a place until [`Gate::release`].
    pub fn occupy(&self) -> User {
        let mut occupant = self.user("occupant");
        occupant.send_query("SELECT SLEEP(600)").unwrap();
        self.wait("the occupant is inside", |status| {
            [state::INSIDE, state::PASSING].contains(&status.state(&occupant.name))
        });
        occupant
    }

    /// Ends the statement of an occupant, so that its place is free.
    pub fn release(&self, mut occupant: User) {
        // A KILL that comes before the statement has begun would kill nothing.
        wait_until("the occupant's statement ends", DEADLINE, || {
            self.sql(&format!("KILL QUERY {}", occupant.connection_id()));
            occupant.readable_within(HELD).unwrap()
        });
        let answer = occupant.read_answer();
        assert!(answer.is_ok() || answer.as_ref().unwrap_err().code() == Some(1317), "{answer:?}");
        occupant.quit();
    }
}
