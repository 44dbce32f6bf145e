//! Encrypted connections are held, followed and let go on like any other.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::certificate::Certificate;
use crate::common::{DEADLINE, Gate, Setup, wait_until};
use crate::compile::Workshop;
use crate::gated::{SOON, state};
use crate::script::Script;

/// A server with TLS and what else it needs.
struct Encrypted {
    gate: Gate,
    _certificate: Certificate,
}

fn start(setup: Setup) -> Option<Encrypted> {
    let certificate = Certificate::make()?;
    let gate = setup
        .setting("ssl", "on")
        .setting("ssl_key_file", certificate.key())
        .setting("ssl_cert_file", certificate.certificate())
        .start()?;
    Some(Encrypted { gate, _certificate: certificate })
}

impl Encrypted {
    fn command(&self, name: &str) -> Command {
        let mut psql = self.gate.tool("psql");
        psql.args(["-X", "-At", "-q", "postgres"]);
        psql.env("PGSSLMODE", "require").env("PGAPPNAME", name);
        psql
    }

    /// A user whose connection is known to be encrypted.
    fn user(&self, name: &str) -> Script {
        let mut user = Script::start(self.command(name));
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid();";
        assert_eq!(user.value(sql), "t");
        let status = self.gate.status();
        let all = status.0["connections"].as_array().unwrap();
        let own = all.iter().find(|user| user["application"] == name).expect("known by name");
        assert_eq!((&own["tls"], &own["account"]), (&"tls".into(), &"app".into()));
        user
    }

    fn state(&self, name: &str) -> String {
        self.gate.status().state(name).to_owned()
    }
}

#[test]
fn an_encrypted_user_is_held_and_goes_on_in_turn() {
    let Some(it) = start(Setup::places(1)) else { return };
    let mut user = it.user("held");
    assert_eq!(it.gate.status().counter("opaque_tls"), 0);
    let occupant = it.gate.occupy();
    user.send("SELECT 7;");
    assert!(user.is_silent());
    assert_eq!(it.state("held"), state::WAITING);
    // No client is held before its login is over.
    let mut other = Script::start(it.command("other"));
    other.send("SELECT 8;");
    it.gate.wait("both wait", |status| status.number("waiting") == 2);
    assert!(other.is_silent());
    it.gate.release(occupant);
    assert_eq!((user.line(), other.line()), ("7".to_owned(), "8".to_owned()));
    let status = it.gate.status();
    for counter in ["opaque_unknown", "opaque_tls", "tls_unread", "panic", "hold_limit"] {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
    it.gate.wait_empty();
}

#[test]
fn an_encrypted_user_that_is_held_hears_of_its_end_and_of_cancellation() {
    let Some(it) = start(Setup::places(1)) else { return };
    let (mut cancelled, mut ended) = (it.user("cancelled"), it.user("ended"));
    let pid = |name: &str| {
        it.gate.sql(&format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'"))
    };
    let (one, two) = (pid("cancelled"), pid("ended"));
    let occupant = it.gate.occupy();
    cancelled.send("SELECT 7;");
    ended.send("SELECT 8;");
    it.gate.wait("both wait", |status| status.number("waiting") == 2);
    it.gate.sql(&format!("SELECT pg_cancel_backend({one})"));
    it.gate.sql(&format!("SELECT pg_terminate_backend({two})"));
    wait_until("the one that was to end is gone", DEADLINE, || it.state("ended") == state::GONE);
    assert_eq!(it.state("cancelled"), state::WAITING, "an idle session has nothing to cancel");
    it.gate.release(occupant);
    assert_eq!(cancelled.line(), "7", "the bytes that were kept come back");
    it.gate.wait_empty();
}

#[test]
fn who_owns_a_transaction_inside_tls_is_never_held() {
    let Some(it) = start(Setup::places(1)) else { return };
    let mut owner = it.user("owner");
    assert_eq!(owner.value("BEGIN; SELECT 1;"), "1");
    let mut held = it.gate.user("held").send("SELECT 5");
    assert!(it.gate.is_held(&mut held), "the transaction keeps its place");
    owner.send("INSERT INTO t VALUES (4);");
    assert_eq!(owner.value("SELECT a FROM t;"), "4");
    assert_eq!(it.state("owner"), state::INSIDE);
    assert!(!held.answered_within(Duration::from_millis(100)));
    owner.send("COMMIT;");
    assert_eq!(held.value().1, "5");
    // An advisory lock, and its end by disconnection.
    owner.send("SELECT pg_advisory_lock(9);");
    it.gate.wait("the lock is known", |status| status.holding("owner") == "advisory-lock");
    let mut held = it.gate.user("held").send("SELECT 6");
    assert!(it.gate.is_held(&mut held));
    drop(owner);
    assert_eq!(held.value().1, "6");
    it.gate.wait_empty();
}

#[test]
fn bytes_are_the_same_inside_tls_however_long() {
    let Some(it) = start(Setup::places(1)) else { return };
    let mut user = it.user("bytes");
    let long = "y".repeat(3_000_000);
    let sum = user.value(&format!("SELECT md5('{long}');"));
    assert_eq!(sum, it.gate.sql("SELECT md5(repeat('y', 3000000))"));
    assert_eq!(user.value("SELECT repeat('x', 20000000);"), "x".repeat(20_000_000));
    // A request of many records that is held: its first part is kept, and the rest comes after it.
    let occupant = it.gate.occupy();
    user.send(&format!("SELECT md5('{long}');"));
    it.gate.wait_state("bytes", state::WAITING);
    assert!(user.is_silent());
    it.gate.release(occupant);
    assert_eq!(user.line(), sum);
    it.gate.wait_empty();
}

#[test]
fn who_is_held_where_nobody_knows_the_socket_goes_on_in_turn() {
    let Some(workshop) = Workshop::open() else { return };
    let library = workshop.compile("nofd.c", &["-shared", "-fPIC"]);
    let Some(it) = start(Setup::places(1).preload(library)) else { return };
    // It is followed inside TLS: its account and its name are known.
    let mut user = it.user("held");
    assert_eq!(it.gate.status().counter("tls_unread"), 0);
    let occupant = it.gate.occupy();
    user.send("SELECT 7;");
    it.gate.wait_state("held", state::WAITING);
    // Longer than any step of a wait.
    std::thread::sleep(Duration::from_secs(1));
    assert!(user.is_silent());
    let released = Instant::now();
    it.gate.release(occupant);
    assert_eq!(user.line(), "7");
    assert!(released.elapsed() < SOON, "only something else has woken it");
    assert_eq!(user.value("SELECT 8;"), "8");
    drop(user);
    it.gate.wait_empty();
}

#[test]
fn an_encrypted_user_passes_when_the_daemon_is_killed() {
    let Some(it) = start(Setup::places(1)) else { return };
    let mut user = it.user("user");
    let occupant = it.gate.occupy();
    user.send("SELECT 7;");
    it.gate.wait_state("user", state::WAITING);
    let daemon = it.gate.status().number("daemon_pid") as libc::pid_t;
    // SAFETY: the daemon of this test's instance.
    assert_eq!(unsafe { libc::kill(daemon, libc::SIGKILL) }, 0);
    assert_eq!(user.line(), "7");
    assert_eq!(user.value("SELECT 8;"), "8");
    it.gate.release(occupant);
}
