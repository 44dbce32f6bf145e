//! Encrypted connections are held, followed and let go on like any other.

use std::process::Command;

use headworks_rig::find_program;

use crate::certificate::Certificate;
use crate::common::{DEADLINE, Gate, Setup, wait_until};
use crate::gated::state;
use crate::script::Script;

/// A server with TLS and what else it needs.
struct Encrypted {
    gate: Gate,
    _certificate: Certificate,
}

fn start(setup: Setup) -> Option<Encrypted> {
    if find_program("mariadb").is_none() {
        println!("skipped: no mariadb client on this machine");
        return None;
    }
    let certificate = Certificate::make()?;
    let gate = setup
        .option(format!("--ssl-cert={}", certificate.certificate()))
        .option(format!("--ssl-key={}", certificate.key()))
        .start()?;
    Some(Encrypted { gate, _certificate: certificate })
}

impl Encrypted {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(find_program("mariadb").unwrap());
        command
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=app"])
            .args(["--batch", "--skip-column-names", "--unbuffered", "--max-allowed-packet=64M"])
            .args(["--ssl", "--skip-ssl-verify-server-cert"])
            .arg(format!("--port={}", self.gate.server.port()))
            .arg(format!("--init-command=SET @who = '{name}'"));
        command
    }

    /// Encrypted, and known by its number.
    fn user(&self, name: &str) -> (Script, u64) {
        let mut user = Script::start(self.command(name));
        let cipher = user.value("SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher';");
        assert!(cipher.contains('_') || cipher.contains('-'), "encrypted by {cipher}");
        let status = self.gate.status();
        let newest = status.0["connections"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|user| user["account"] == "app" && user["tls"] == "tls")
            .map(|user| user["user"].as_u64().unwrap())
            .max();
        (user, newest.expect("a user by TLS"))
    }

    fn state(&self, number: u64) -> String {
        let status = self.gate.status();
        let all = status.0["connections"].as_array().unwrap();
        let user = all.iter().find(|user| user["user"] == number).expect("the user");
        user["state"].as_str().unwrap().to_owned()
    }
}

#[test]
fn an_encrypted_user_is_held_and_goes_on_in_turn() {
    let Some(it) = start(Setup::places(1)) else { return };
    let (mut user, number) = it.user("held");
    assert_eq!(it.gate.status().counter("opaque_tls"), 0);
    let text = String::from_utf8(it.gate.headworks(&["status"]).stdout).unwrap();
    assert!(text.contains("1 (tls)"), "{text}");
    let occupant = it.gate.occupy();
    user.send("SELECT 7;");
    assert!(user.is_silent());
    assert_eq!(it.state(number), state::WAITING);
    // Others by TLS wait, too, from their first statement on.
    let mut other = Script::start(it.command("other"));
    other.send("SELECT 8;");
    it.gate.wait("both wait", |status| status.number("waiting") == 2);
    assert!(other.is_silent());
    it.gate.release(occupant);
    assert_eq!((user.line(), other.line()), ("7".to_owned(), "8".to_owned()));
    assert_eq!(it.gate.status().counter("opaque_unknown"), 0);
    it.gate.wait_empty();
}

#[test]
fn who_owns_a_transaction_inside_tls_is_never_held() {
    let Some(it) = start(Setup::places(1)) else { return };
    it.gate.sql("CREATE TABLE rig.t (a INT) ENGINE=InnoDB");
    let (mut owner, number) = it.user("owner");
    assert_eq!(owner.value("BEGIN; SELECT 1;"), "1");
    let mut held = it.gate.user("held");
    held.send_query("SELECT 5").unwrap();
    assert!(it.gate.is_held(&held), "the transaction keeps its place");
    assert_eq!(it.state(number), state::INSIDE);
    for sql in ["INSERT INTO rig.t VALUES (4); SELECT a FROM rig.t;", "SELECT a FROM rig.t;"] {
        assert_eq!(owner.value(sql), "4");
    }
    assert!(it.gate.waits(&held));
    owner.send("COMMIT;");
    assert_eq!(held.value(), "5");
    held.quit();
    // A session lock, and its end by disconnection.
    assert_eq!(owner.value("SELECT GET_LOCK('x', 0);"), "1");
    let mut held = it.gate.user("held");
    held.send_query("SELECT 6").unwrap();
    assert!(it.gate.is_held(&held));
    drop(owner);
    assert_eq!(held.value(), "6");
    held.quit();
    it.gate.wait_empty();
}

#[test]
fn bytes_are_the_same_inside_tls_however_long() {
    let Some(it) = start(Setup::places(2).option("--max-allowed-packet=64M")) else { return };
    let (mut user, _) = it.user("bytes");
    // Together below the length from which a text counts as taking anything.
    let long = "y".repeat(400_000);
    assert_eq!(user.value(&format!("SELECT MD5('{long}'), LENGTH('{long}');")), {
        let mut plain = it.gate.user("plain");
        let row = plain.query(&format!("SELECT CONCAT(MD5('{long}'), '\t', 400000)")).unwrap();
        row.value().unwrap().to_owned()
    });
    assert_eq!(user.value("SELECT REPEAT('x', 20000000);"), "x".repeat(20_000_000));
    assert_eq!(user.value("SELECT 9;"), "9");
    let status = it.gate.status();
    for counter in ["opaque_unknown", "opaque_tls", "tls_unread", "panic", "concurrent_use"] {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
    it.gate.wait_empty();
}

#[test]
fn an_encrypted_user_passes_when_the_daemon_is_killed() {
    let Some(it) = start(Setup::places(1)) else { return };
    let (mut user, number) = it.user("user");
    let occupant = it.gate.occupy();
    user.send("SELECT 7;");
    wait_until("it waits", DEADLINE, || it.state(number) == state::WAITING);
    let daemon = it.gate.status().number("daemon_pid") as libc::pid_t;
    // SAFETY: the daemon of this test's instance.
    assert_eq!(unsafe { libc::kill(daemon, libc::SIGKILL) }, 0);
    assert_eq!(user.line(), "7");
    assert_eq!(user.value("SELECT 8;"), "8");
    it.gate.release(occupant);
}

#[test]
fn many_encrypted_users_share_the_places_fairly() {
    let Some(it) = start(Setup::places(2)) else { return };
    let mut users: Vec<Script> = (0..8).map(|number| it.user(&format!("u{number}")).0).collect();
    let occupants = [it.gate.occupy(), it.gate.occupy()];
    for user in &mut users {
        user.send("SELECT 1;");
    }
    it.gate.wait("all of them wait", |status| status.number("waiting") == 8);
    occupants.into_iter().for_each(|occupant| it.gate.release(occupant));
    for user in &users {
        assert_eq!(user.line(), "1");
    }
    let threads: Vec<_> = users
        .into_iter()
        .map(|mut user| {
            std::thread::spawn(move || {
                for round in 0..20 {
                    let sql = format!("SELECT {round} FROM (SELECT SLEEP(0.01)) AS s;");
                    assert_eq!(user.value(&sql), round.to_string());
                }
                user
            })
        })
        .collect();
    let users: Vec<Script> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let status = it.gate.status();
    let all = status.0["connections"].as_array().unwrap();
    let held = all.iter().filter(|user| user["wait_ms_max"].as_f64().unwrap() > 5.0).count();
    assert!(held >= 6, "nearly all waited: {:#}", status.0);
    drop(users);
    it.gate.wait_empty();
}
