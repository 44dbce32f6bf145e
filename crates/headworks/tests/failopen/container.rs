//! A server that is a container's command. However its daemon ends, the server goes on, and from
//! outside the container looks like the server.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use headworks_rig::{
    LoopKind, LoopServer, PostgresServer, Server, mariadb_or_skip, postgres_or_skip,
};

use crate::support::{PATIENCE, RunDir, is_root, lives, program, signal, text, wait_until};

const NAME: &str = "db";

/// An unprivileged user and group.
const UNPRIVILEGED: u32 = 65_534;

/// Deaths that are not by the daemon's own will.
const DEATHS: [i32; 3] = [libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT];

/// As whom `headworks run` is process 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum As {
    Root,
    Unprivileged,
}

const BOTH: [As; 2] = [As::Unprivileged, As::Root];

/// Whether namespaces can be made here; prints why a test is skipped when not.
fn can_be_made() -> bool {
    let made = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    let can = is_root() && made.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: no PID namespace can be made here (unshare --pid, as root)");
    }
    can
}

/// What stands in front of a server's command: a namespace whose first process is `headworks run`.
fn prefix(run: &RunDir, whose: As) -> Vec<OsString> {
    let mut line: Vec<OsString> =
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"].map(Into::into).to_vec();
    if whose == As::Unprivileged {
        std::os::unix::fs::chown(run.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        let ids = [format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}")];
        line.push("setpriv".into());
        line.extend(ids.map(Into::into));
        line.push("--clear-groups".into());
    }
    line.push(program().into());
    line.extend(["run", "--name", NAME, "--"].map(Into::into));
    line
}

/// The processes whose parent this is.
fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The first process of the namespace that an `unshare` has made.
fn first_of(unshare: u32) -> u32 {
    let mut first = None;
    wait_until("the namespace has a process", || {
        first = children(unshare).first().copied();
        first.is_some()
    });
    first.unwrap()
}

/// A command inside the namespace whose first process this is.
fn inside(first: u32, run: &RunDir, args: &[&str]) -> Output {
    let target = first.to_string();
    Command::new("nsenter")
        .args(["--target", &target, "--pid", "--mount"])
        .arg(program())
        .args(args)
        .env("HEADWORKS_RUN_DIR", run.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Kills the daemon in each way, starts it again from inside, and looks at the server after each.
fn outlive_daemons(run: &RunDir, first: u32, mut check: impl FnMut(&str)) {
    for death in DEATHS {
        let what = format!("signal {death}");
        wait_until("there is a daemon", || run.daemons().len() == 1);
        let daemon = run.daemons()[0];
        // Twice, as the handler of the language's runtime takes a fault that is none once.
        for _ in 0..2 {
            // SAFETY: kill takes any numbers; the process was found to be the daemon.
            unsafe { libc::kill(daemon as libc::pid_t, death) };
            std::thread::sleep(Duration::from_millis(20));
        }
        wait_until("the daemon is gone", || !lives(daemon));
        check(&what);
        let again = inside(first, run, &["daemon", "--name", NAME]);
        assert!(again.status.success(), "after {what}: {}", text(&again));
        check(&what);
    }
}

/// Ends the namespace by a signal to its first process, which passes it on.
fn end(first: u32, unshare: u32, with: i32) {
    signal(first, with);
    wait_until("the container ends", || !lives(first) && !lives(unshare));
}

#[test]
fn a_postgres_keeps_its_sessions() {
    if !can_be_made() || !postgres_or_skip() {
        return;
    }
    for whose in BOTH {
        let run = RunDir::new();
        let server = PostgresServer::builder()
            .prefix(prefix(&run, whose))
            .env("HEADWORKS_RUN_DIR", run.path())
            .remove_when_orphaned(run.path())
            .start()
            .unwrap();
        let first = first_of(server.pid());
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(server.port()).user("app").dbname("postgres");
        let mut session = config.connect(postgres::NoTls).unwrap();
        let mut backend = || -> i32 {
            let row = session.query_one("SELECT pg_backend_pid()", &[]).expect("the session lives");
            row.get(0)
        };
        let before = backend();
        outlive_daemons(&run, first, |what| {
            assert_eq!(backend(), before, "{whose:?}: after {what}");
            let log = server.log();
            for word in ["terminated by signal", "untracked child", "exited with exit code"] {
                assert!(!log.contains(word), "{whose:?}: after {what}: {log}");
            }
        });
        end(first, server.pid(), libc::SIGINT);
        assert!(server.log().contains("database system is shut down"), "{}", server.log());
        run.assert_nothing_left("the container ended");
    }
}

#[test]
fn a_mariadb_keeps_its_sessions() {
    if !can_be_made() || !mariadb_or_skip() {
        return;
    }
    for whose in BOTH {
        let run = RunDir::new();
        let server = Server::builder()
            .prefix(prefix(&run, whose))
            .env("HEADWORKS_RUN_DIR", run.path())
            .option("--innodb-buffer-pool-size=16M")
            .remove_when_orphaned(run.path())
            .start()
            .unwrap();
        let first = first_of(server.pid());
        let mut session = server.connect().unwrap();
        outlive_daemons(&run, first, |what| {
            let answer = session.query("SELECT 7");
            let answer = answer.unwrap_or_else(|error| panic!("{whose:?}: {what}: {error}"));
            assert_eq!(answer.value(), Some("7"));
        });
        end(first, server.pid(), libc::SIGTERM);
        run.assert_nothing_left("the container ended");
    }
}

/// One line to a server with an event loop, and its answer.
fn ask(mut stream: &TcpStream, line: &str, answer: &str) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut bytes = vec![0; answer.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), answer);
}

fn event_loop_keeps_its_sessions(kind: LoopKind, line: &str, answer: &str) {
    if !can_be_made() || !kind.is_here_or_skip() {
        return;
    }
    for whose in BOTH {
        let run = RunDir::new();
        // It starts in a directory of the rig's, which it writes to.
        let mut command: Vec<OsString> =
            ["/bin/sh", "-c", "chown 65534 . && exec \"$@\"", "sh"].map(Into::into).to_vec();
        command.extend(prefix(&run, whose));
        let server = LoopServer::builder(kind)
            .prefix(command)
            .env("HEADWORKS_RUN_DIR", run.path())
            .remove_when_orphaned(run.path())
            .start()
            .unwrap();
        let first = first_of(server.pid());
        let address: SocketAddr = server.address();
        let session = TcpStream::connect(address).unwrap();
        outlive_daemons(&run, first, |_| ask(&session, line, answer));
        end(first, server.pid(), libc::SIGTERM);
        run.assert_nothing_left("the container ended");
    }
}

#[test]
fn a_redis_keeps_its_sessions() {
    event_loop_keeps_its_sessions(LoopKind::Redis, "PING", "+PONG\r\n");
}

#[test]
fn a_memcached_keeps_its_sessions() {
    event_loop_keeps_its_sessions(LoopKind::Memcached, "get nothing", "END\r\n");
}

/// A shell as a container's command behind the gate; `ready` is a file that it makes.
fn shell(run: &RunDir, script: &str) -> std::process::Child {
    let line = prefix(run, As::Root);
    Command::new(&line[0])
        .args(&line[1..])
        .args(["sh", "-c", script])
        .env("HEADWORKS_RUN_DIR", run.path())
        .env("READY", run.path().with_extension("ready"))
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn the_container_ends_with_the_servers_code() {
    if !can_be_made() {
        return;
    }
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let run = RunDir::new();
        let mut child = shell(&run, script);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{script}");
        run.assert_nothing_left(script);
    }
}

#[test]
fn signals_reach_the_server_if_it_handles_them() {
    if !can_be_made() {
        return;
    }
    let run = RunDir::new();
    let script = "trap 'exit 5' TERM; : >$READY; while :; do sleep 0.05; done";
    let mut child = shell(&run, script);
    wait_until("it is ready", || run.path().with_extension("ready").exists());
    let first = first_of(child.id());
    // It would end by this one, and as process 1 it would not hear of it.
    signal(first, libc::SIGUSR1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None);
    signal(first, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    run.assert_nothing_left("the server ended");
}

#[test]
fn from_another_namespace_nobody_is_taken_for_dead() {
    if !can_be_made() {
        return;
    }
    let run = RunDir::new();
    let mut child = shell(&run, ": >$READY; sleep 600");
    wait_until("it is ready", || run.path().with_extension("ready").exists());
    let first = first_of(child.id());
    let region = run.instance(NAME).join("region");
    let of = |file: &std::path::Path| std::fs::metadata(file).map(|meta| meta.ino()).unwrap();
    let before = of(&region);
    // The daemon may be asked from anywhere.
    assert_eq!(run.status(NAME)["gate"], "closed");
    let refused = |args: &[&str]| {
        let said = run.refused(args.iter().copied().chain(["--name", NAME]));
        for word in ["another PID namespace", "docker exec", "nsenter --target"] {
            assert!(said.contains(word), "{args:?}: {word}: {said}");
        }
    };
    refused(&["set", "--parallelism", "3"]);
    refused(&["off"]);
    refused(&["daemon"]);
    for args in
        [["run", "--name", NAME, "--", "true"], ["attend", "--name", NAME, "--profile", "generic"]]
    {
        let said = run.refused(args);
        assert!(said.contains("runs already, in another PID namespace"), "{said}");
    }
    let doctor = || text(&run.headworks(["doctor"]).output().unwrap());
    assert!(doctor().contains("runs in another PID namespace"), "{}", doctor());
    // Without a daemon the region is read, and the doctor does not say that it was left behind.
    let daemon = run.daemons()[0];
    signal(daemon, libc::SIGKILL);
    wait_until("the daemon is gone", || !lives(daemon));
    wait_until("the gate is open", || run.status(NAME)["gate"] == "stale");
    refused(&["daemon"]);
    assert!(!doctor().contains("left behind"), "{}", doctor());
    assert_eq!(of(&region), before, "it is still the same region");
    let again = inside(first, &run, &["daemon", "--name", NAME]);
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(run.status(NAME)["gate"], "closed");
    signal(first, libc::SIGKILL);
    child.wait().unwrap();
    // What a container that was killed has left does not stop the next one.
    assert!(region.exists());
    let after = run.headworks(["run", "--name", NAME, "--", "true"]).output().unwrap();
    assert!(after.status.success(), "{}", text(&after));
    run.assert_nothing_left("the next one ended");
}
