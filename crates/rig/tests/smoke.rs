//! The rig against a real MariaDB: every promise that a test built on it relies on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headworks_rig::wire::{capability, command, packet};
use headworks_rig::{Server, mariadb_or_skip};

const STOP: Duration = Duration::from_secs(30);

#[test]
fn a_server_starts_answers_and_leaves_nothing_behind() {
    if !mariadb_or_skip() {
        return;
    }
    let mut server = Server::start().unwrap();
    assert!(server.socket().as_os_str().len() < 108);
    assert_eq!(server.sql("SELECT 1 + 1").unwrap().value(), Some("2"));
    assert_eq!(
        server.sql("SELECT @@port").unwrap().value(),
        Some(server.port().to_string().as_str())
    );
    assert!(!server.has_mapped("libheadworks").unwrap());
    let local = headworks_rig::ConnectOptions::new(server.unix(), headworks_rig::ACCOUNT)
        .connect()
        .unwrap();
    local.quit().unwrap();
    let (pid, socket) = (server.pid(), server.socket().to_owned());
    let stopped = server.stop(STOP).unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!socket.parent().unwrap().exists());
}

#[test]
fn a_server_keeps_named_data_over_a_kill() {
    if !mariadb_or_skip() {
        return;
    }
    let home = std::env::temp_dir().join(format!("headworks-rig-test-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let builder = Server::builder().data_directory(home.join("data"));
    let mut server = builder.start().unwrap();
    server.sql("CREATE TABLE rig.t (a INT) ENGINE=InnoDB").unwrap();
    server.sql("INSERT INTO rig.t VALUES (42)").unwrap();
    assert!(!server.kill().unwrap().status.success());
    drop(server);
    let server = builder.start().unwrap();
    assert_eq!(server.sql("SELECT a FROM rig.t").unwrap().value(), Some("42"));
    drop(server);
    std::fs::remove_dir_all(&home).unwrap();
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    if !mariadb_or_skip() {
        return;
    }
    let error = Server::builder().option("--no-such-option=1").start().unwrap_err();
    assert!(format!("{error:#}").contains("unknown variable 'no-such-option=1'"), "{error:#}");
    let error = Server::builder().prefix(["/no/such/program", "--"]).start().unwrap_err();
    assert!(format!("{error:#}").contains("/no/such/program"), "{error:#}");
}

#[test]
fn a_prefix_is_put_in_front_and_becomes_the_server() {
    if !mariadb_or_skip() {
        return;
    }
    let server = Server::builder().prefix(["/usr/bin/env", "HELLO=1"]).start().unwrap();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", server.pid())).unwrap();
    assert_eq!(name.trim(), "mariadbd");
}

#[test]
fn the_client_reads_what_the_server_says() {
    if !mariadb_or_skip() {
        return;
    }
    let server = Server::start().unwrap();
    for flags in [0, capability::DEPRECATE_EOF] {
        let mut client =
            server.options().capabilities(flags | capability::MULTI_STATEMENTS).connect().unwrap();
        assert!(
            client
                .query("CREATE OR REPLACE TABLE t (a INT, b VARCHAR(9))")
                .unwrap()
                .columns
                .is_empty()
        );
        assert!(client.query("BEGIN").unwrap().in_transaction());
        assert_eq!(client.query("INSERT INTO t VALUES (-7, NULL), (8, 'x')").unwrap().affected, 2);
        let rows = client.query("SELECT a, b FROM t ORDER BY a").unwrap();
        assert!(rows.in_transaction());
        assert_eq!(rows.columns, ["a", "b"]);
        let expected =
            vec![vec![Some("-7".into()), None], vec![Some("8".into()), Some("x".into())]];
        assert_eq!(rows.rows, expected);
        assert!(!client.query("COMMIT").unwrap().in_transaction());

        let statement = client.prepare("SELECT a, b FROM t ORDER BY a").unwrap();
        assert_eq!((statement.parameters, statement.columns), (0, 2));
        assert_eq!(client.execute(statement).unwrap().rows, expected);
        client.close_statement(statement).unwrap();

        let answers = client.query_all("SELECT 1; DO 1; SELECT 2").unwrap();
        assert_eq!(
            answers.iter().map(|a| a.value()).collect::<Vec<_>>(),
            [Some("1"), None, Some("2")]
        );
        assert_eq!(client.query("SELECT * FROM nowhere").unwrap_err().code(), Some(1146));
        client.ping().unwrap();
        client.quit().unwrap();
    }
}

#[test]
fn the_client_controls_its_bytes() {
    if !mariadb_or_skip() {
        return;
    }
    let server = Server::start().unwrap();
    let mut client = server.connect().unwrap();
    let bytes = packet(command::QUERY, b"SELECT 'split'");
    client.send_split(&bytes, &[2, 3, 4], Duration::from_millis(5)).unwrap();
    assert_eq!(client.read_answer().unwrap().value(), Some("split"));

    client.send_query("SELECT SLEEP(3)").unwrap();
    assert!(!client.readable_within(Duration::from_millis(50)).unwrap());
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(client.read_answer().unwrap_err().is_timeout());

    let id = client.connection_id();
    drop(client);
    let begun = Instant::now();
    let gone = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    while server.sql(&gone).unwrap().value() != Some("0") {
        assert!(begun.elapsed() < STOP, "the server did not notice that its client went");
    }
}

#[test]
fn the_client_sends_a_local_file_and_attributes() {
    if !mariadb_or_skip() {
        return;
    }
    let server = Server::builder()
        .option("--local-infile=1")
        .option("--performance-schema=ON")
        .start()
        .unwrap();
    let options =
        server.options().capabilities(capability::LOCAL_FILES).attribute("program_name", "a-name");
    let mut client = options.connect().unwrap();
    client.set_local_file(b"1\n2\n3\n");
    client.query("CREATE TABLE t (a INT)").unwrap();
    assert_eq!(client.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t").unwrap().affected, 3);
    let attribute = "SELECT attr_value FROM performance_schema.session_connect_attrs \
                     WHERE processlist_id = CONNECTION_ID() AND attr_name = 'program_name'";
    assert_eq!(client.query(attribute).unwrap().value(), Some("a-name"));
}

/// Set for the process that the next test starts: the same test, which then only starts a server
/// and waits.
const VICTIM: &str = "HEADWORKS_RIG_TEST_VICTIM";

#[test]
fn a_killed_process_takes_its_server_along() {
    if !mariadb_or_skip() {
        return;
    }
    if std::env::var_os(VICTIM).is_some() {
        let server = Server::start().unwrap();
        println!("\nserver {} {}", server.pid(), server.socket().parent().unwrap().display());
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_takes_its_server_along", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line =
        lines.find_map(|line| line.unwrap().strip_prefix("server ").map(str::to_owned)).unwrap();
    let (pid, directory) = line.split_once(' ').unwrap();
    let process = format!("/proc/{pid}/cwd");
    assert!(Path::new(directory).exists() && std::fs::read_link(&process).is_ok());
    victim.kill().unwrap();
    victim.wait().unwrap();
    let begun = Instant::now();
    while Path::new(directory).exists() || std::fs::read_link(&process).is_ok() {
        assert!(
            begun.elapsed() < STOP,
            "the server {pid} or its directory {directory} is still there"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
