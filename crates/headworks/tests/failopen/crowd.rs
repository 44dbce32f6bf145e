//! A server whose only place is taken, with a crowd in front of it.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headworks_rig::gated::Instance;
use headworks_rig::{Client, Server, ServerBuilder, mariadb_or_skip};

use crate::support::{PATIENCE, RunDir, program, wait_until};

/// P = 1, no request passes because it waited long or because nothing completes, and the
/// administrator never waits.
pub const STRICT: &str = "[gate]\nparallelism = 1\ncount = \"admitted\"\nhold_ms_max = 3600000\nstall_ms = 3000000\n\
     [[rule]]\naccount = \"root\"\nbypass = true\n";

/// Far less than any limit of a hold here. It takes a second where the machine is not starved.
pub const SOON: Duration = Duration::from_secs(20);

/// Servers one after the other, on a machine of any size.
pub fn alone() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    mariadb_or_skip().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// How to start a server behind the gate.
pub fn gated(run: &RunDir, name: &str, config: &Path) -> ServerBuilder {
    let builder = Server::builder()
        .option("--innodb-buffer-pool-size=16M")
        .env("HEADWORKS_RUN_DIR", run.path())
        .remove_when_orphaned(run.path());
    Instance::shared(program(), name).before(builder, ["--config".as_ref(), config.as_os_str()])
}

/// A gated server with a sleeper inside and users held.
#[derive(Debug)]
pub struct Crowd {
    pub held: Vec<Client>,
    sleeper: Client,
}

impl Crowd {
    /// Takes the only permit with a statement that never ends unless it is killed, and has `users`
    /// wait.
    pub fn gather(server: &Server, run: &RunDir, name: &str, users: usize) -> Crowd {
        let mut sleeper = server.connect().expect("a connection");
        sleeper.send_query("SELECT SLEEP(3600)").expect("a request");
        wait_until("the place is taken", || run.figure(name, "inside") == 1);
        let mut held: Vec<Client> =
            (0..users).map(|_| server.connect().expect("a connection")).collect();
        for client in &mut held {
            client.send_query("SELECT 42").expect("a request");
        }
        run.wait_for_held(name, users as u64);
        assert_eq!(answered(&held, Duration::ZERO), 0);
        Crowd { held, sleeper }
    }

    /// Time from `begun` until all have an answer.
    pub fn all_answered(&mut self, begun: Instant) -> Duration {
        while answered(&self.held, Duration::from_millis(1)) < self.held.len() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {} passed",
                answered(&self.held, Duration::ZERO),
                self.held.len()
            );
        }
        let took = begun.elapsed();
        for client in &mut self.held {
            assert_eq!(client.read_answer().expect("an answer").value(), Some("42"));
        }
        took
    }

    /// Ends the sleeper's statement.
    pub fn wake_sleeper(&mut self, server: &Server) {
        server.sql(&format!("KILL QUERY {}", self.sleeper.connection_id())).expect("KILL QUERY");
        // Whether the statement ends with a row or as an error is the server's choice.
        const INTERRUPTED: u16 = 1317;
        let answer = self.sleeper.read_answer();
        let code = answer.as_ref().err().map(|error| error.code());
        assert!(matches!(code, None | Some(Some(INTERRUPTED))), "{answer:?}");
    }

    /// Has one of them held again, and lets it through by ending the sleeper's statement.
    pub fn assert_closed_again(&mut self, server: &Server, run: &RunDir, name: &str) {
        let client = &mut self.held[0];
        client.send_query("SELECT 42").expect("a request");
        run.wait_for_held(name, 1);
        assert!(!client.readable_within(Duration::ZERO).expect("a socket"));
        self.wake_sleeper(server);
        let client = &mut self.held[0];
        assert_eq!(client.read_answer().expect("an answer").value(), Some("42"));
    }
}

/// How many have an answer to read, after at most `patience`.
fn answered(clients: &[Client], patience: Duration) -> usize {
    let ready = |client: &&Client| client.readable_within(Duration::ZERO).expect("a socket");
    let count = clients.iter().filter(ready).count();
    if count < clients.len() && !patience.is_zero() {
        std::thread::sleep(patience);
    }
    count
}
