//! A MariaDB behind the gate, and its users.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use headworks_rig::wire::capability;
use headworks_rig::{Client, ConnectOptions, MariaDb, Server, mariadb_or_skip};

use crate::gated::{self, HELD, state};
pub use crate::gated::{DEADLINE, wait_until};

/// How a gated MariaDB is to be started.
pub type Setup = gated::Setup<MariaDb>;

/// A MariaDB behind the gate.
pub type Gate = gated::Gate<MariaDb>;

impl Setup {
    /// P permits; see [`gated::Setup::new`]. The administrator of the tests is never held: `root`,
    /// over the Unix socket.
    pub fn places(parallelism: u32) -> Setup {
        let builder = Server::builder()
            .option("--innodb-flush-log-at-trx-commit=0")
            .options(crate::POOL.then_some("--thread-handling=pool-of-threads"));
        Setup::new(builder, parallelism).bypassing("root")
    }

    /// A permit is lent out as soon as its owner idles for a moment.
    pub fn lending(self) -> Setup {
        self.key("idle_in_transaction_ms", 50)
    }

    /// An option of the server.
    pub fn option(self, option: impl Into<String>) -> Setup {
        self.options([option.into()])
    }

    /// Starts the server; `None`, with a printed reason, if there is no MariaDB here.
    pub fn start(self) -> Option<Gate> {
        mariadb_or_skip().then(|| self.launch())
    }
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

impl AsRef<str> for User {
    fn as_ref(&self) -> &str {
        &self.name
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
    /// An ordinary user.
    pub fn user(&self, role: &str) -> User {
        self.user_with(role, self.server.options())
    }

    /// A user that connects as the options say.
    pub fn user_with(&self, role: &str, options: ConnectOptions) -> User {
        let name = self.fresh_name(role);
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
