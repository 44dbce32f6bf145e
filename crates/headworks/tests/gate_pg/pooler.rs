//! PgBouncer in front: its server connections are the users, known by account and application name.
//! And the Unix socket, whose users have no address.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use headworks_rig::find_program;
use postgres::NoTls;

use crate::common::{DEADLINE, Gate, Setup, wait_until};

/// Killed when dropped.
struct Pooler {
    child: Child,
    port: u16,
}

impl Pooler {
    fn start(gate: &Gate, pool: u32) -> Option<Pooler> {
        let Some(program) = find_program("pgbouncer") else {
            println!("skipped: no pgbouncer (apt-get install pgbouncer)");
            return None;
        };
        let port = headworks_rig::free_port().unwrap();
        let file = std::env::temp_dir().join(format!("headworks-pgbouncer-{port}.ini"));
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = {pool}\n",
            gate.server.port(),
            file.with_extension("users").display()
        );
        fs::write(&file, settings).unwrap();
        fs::write(file.with_extension("users"), "\"app\" \"\"\n\"shop\" \"\"\n").unwrap();
        let mut command = Command::new(program);
        command.arg("-q").arg(&file).env_remove("LD_PRELOAD").current_dir("/");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            command.uid(65_534).gid(65_534);
        }
        let child = command.spawn().unwrap();
        wait_until("the pooler listens", DEADLINE, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        let _ = fs::remove_file(file.with_extension("users"));
        let _ = fs::remove_file(file);
        Some(Pooler { child, port })
    }

    fn client(&self, account: &str, application: &str) -> postgres::Client {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.port).user(account).dbname("postgres");
        config.application_name(application).connect(NoTls).unwrap()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn behind_a_pooler_classes_are_told_by_account_and_application_name() {
    let sections = "[[class]]\nname = \"reports\"\n[[class]]\nname = \"shop\"\n\
         [[rule]]\napplication = \"report*\"\nclass = \"reports\"\n\
         [[rule]]\naccount = \"shop\"\nclass = \"shop\"\n";
    let Some(gate) = Setup::places(4).sections(sections).start() else { return };
    gate.sql("CREATE ROLE shop LOGIN");
    // One server connection for each account, which its clients share.
    let Some(pooler) = Pooler::start(&gate, 1) else { return };
    let mut report = pooler.client("app", "report-weekly");
    let mut web = pooler.client("app", "web");
    let mut shop = pooler.client("shop", "till");
    let requests = |class: &str| gate.status().class(class)["requests"].as_u64().unwrap();
    let users = |class: &str| gate.status().class(class)["users"].as_u64().unwrap();
    shop.simple_query("SELECT 1").unwrap();
    wait_until("the account decides", DEADLINE, || users("shop") == 1 && requests("shop") >= 1);
    // The pooler tells the server of each client's name before its transaction.
    for _ in 0..3 {
        report.simple_query("SELECT 1").unwrap();
        wait_until("it is a report", DEADLINE, || users("reports") == 1);
        web.simple_query("SELECT 1").unwrap();
        wait_until("it is none", DEADLINE, || users("reports") == 0 && users("default") >= 1);
    }
    let status = gate.status();
    for counter in ["opaque_unknown", "hold_limit", "panic"] {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
}

#[test]
fn a_pooler_that_is_held_goes_on_in_turn_and_keeps_transactions() {
    let Some(gate) = Setup::places(1).start() else { return };
    let Some(pooler) = Pooler::start(&gate, 2) else { return };
    let mut one = pooler.client("app", "one");
    let mut transaction = one.transaction().unwrap();
    transaction.simple_query("SELECT 1").unwrap();
    let mut two = pooler.client("app", "two");
    let second = std::thread::spawn(move || two.simple_query("SELECT 2").map(|_| two));
    gate.wait("the other server connection waits", |status| status.number("waiting") == 1);
    transaction.simple_query("INSERT INTO t VALUES (1)").unwrap();
    assert!(!second.is_finished(), "the transaction has the place");
    transaction.commit().unwrap();
    second.join().unwrap().unwrap();
    gate.wait_empty();
}

#[test]
fn rules_know_the_unix_socket() {
    let sections = "[[class]]\nname = \"near\"\n[[rule]]\naddress = \"local\"\nclass = \"near\"\n";
    let Some(gate) = Setup::places(2).sections(sections).start() else { return };
    let mut config = postgres::Config::new();
    config.host_path(gate.server.directory()).port(gate.server.port());
    let mut near = config.user("app").dbname("postgres").connect(NoTls).unwrap();
    near.simple_query("SELECT 1").unwrap();
    let mut far = gate.user("far");
    far.run("SELECT 1");
    // The administrator who was asked for a process id may still be leaving.
    gate.wait("one is near, and one is not", |status| {
        status.class("near")["users"] == 1 && status.class("default")["users"] == 1
    });
}
