//! The gate of a service: there before its server, and after it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use headworks_rig::{LoopKind, LoopServer};

use crate::compile::Workshop;
use crate::echo::{Alone, PATIENT};
use crate::support::{RunDir, shim, signal, wait_until};

const NAME: &str = "service";

/// What the companion unit runs. Killed when dropped.
struct Companion(Child);

impl Companion {
    /// Returns once it has told the service manager that it is ready.
    fn start(run: &RunDir, profile: &str) -> Companion {
        Companion::with(run, profile, PATIENT)
    }

    fn with(run: &RunDir, profile: &str, config: &str) -> Companion {
        let config = run.file("toml", config);
        let address = run.path().with_extension("notify");
        let _ = std::fs::remove_file(&address);
        let manager = UnixDatagram::bind(&address).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let child = run
            .headworks(["attend", "--name", NAME, "--profile", profile, "--config"])
            .arg(config)
            .env("NOTIFY_SOCKET", &address)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut word = [0; 32];
        let count = manager.recv(&mut word).expect("it is ready");
        assert_eq!(&word[..count], b"READY=1");
        Companion(child)
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a unit's file sets for a server whose companion is [`NAME`].
fn environment(run: &RunDir) -> [(&'static str, String); 2] {
    let region = run.instance(NAME).join("region");
    [
        ("LD_PRELOAD", shim().display().to_string()),
        ("HEADWORKS_REGION", region.display().to_string()),
    ]
}

#[test]
fn a_service_finds_its_gate_ready_and_keeps_it_through_restarts() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let environment = environment(&run);
    // Without its companion, the service starts without the gate.
    let alone = Alone::start(&program, &go, &environment);
    let mut client = alone.client();
    client.send("one");
    assert_eq!(client.answer(), "ok one");
    drop(alone);

    let mut companion = Companion::start(&run, "generic");
    for round in 0..2 {
        let _ = std::fs::remove_file(&go);
        // What the server before has left is cleared away: its user must not be taken for one of
        // these.
        wait_until("no session is left", || run.figure(NAME, "users") == 0);
        let server = Alone::start(&program, &go, &environment);
        let (mut one, mut two) = (server.client(), server.client());
        wait_until("the server is known", || {
            run.figure(NAME, "server_pid") == u64::from(server.child.id())
        });
        one.send("wait");
        wait_until("one is inside", || run.figure(NAME, "inside") == 1);
        two.send("next");
        run.wait_for_held(NAME, 1);
        assert!(two.is_silent(), "round {round}");
        if round == 1 {
            // The companion dies; all requests pass. The next one takes the server's region over.
            companion.0.kill().unwrap();
            companion.0.wait().unwrap();
            assert_eq!(two.answer(), "ok next");
            companion = Companion::start(&run, "generic");
            wait_until("it knows the server", || {
                run.figure(NAME, "server_pid") == u64::from(server.child.id())
            });
            two.send("again");
            run.wait_for_held(NAME, 1);
            assert!(two.is_silent(), "closed again");
            std::fs::write(&go, "").unwrap();
            assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok again".to_owned()));
        } else {
            std::fs::write(&go, "").unwrap();
            assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
            // The server is killed with a user inside.
            let _ = std::fs::remove_file(&go);
            one.send("wait");
            wait_until("one is inside", || run.figure(NAME, "inside") == 1);
        }
    }
    wait_until("the server has gone", || run.figure(NAME, "server_pid") == 0);
    wait_until("its users have gone", || run.figure(NAME, "users") == 0);
    signal(companion.0.id(), libc::SIGTERM);
    assert!(companion.0.wait().unwrap().success());
    assert!(!run.instance(NAME).exists());
}

#[test]
fn a_service_keeps_the_scheduler_of_its_files_when_its_companion_dies() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let io = ("HEADWORKS_IO", run.instance(NAME).join("io").display().to_string());
    let environment = [&environment(&run)[..], &[io]].concat();
    let start = || Companion::with(&run, "generic", "[io]\nscheduler = \"split-deadline\"\n");
    let scheduler = || {
        let output = run.headworks(["io", "top", "--json", "--name", NAME]).output().unwrap();
        let top: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        top["scheduler"].as_str().unwrap().to_owned()
    };
    let mut companion = start();
    assert_eq!(scheduler(), "split-deadline");
    let server = Alone::start(&program, &go, &environment);
    let mut client = server.client();
    client.send("one");
    assert_eq!(client.answer(), "ok one");
    let set = ["io", "set", "--name", NAME, "--scheduler", "afq"];
    assert!(run.headworks(set).status().unwrap().success());
    companion.0.kill().unwrap();
    companion.0.wait().unwrap();
    let mut companion = start();
    assert_eq!(scheduler(), "afq", "the server uses the region as it is");
    drop((client, server));
    companion.0.kill().unwrap();
    companion.0.wait().unwrap();
    let _companion = start();
    assert_eq!(scheduler(), "split-deadline", "no server used it");
}

#[test]
fn programs_beside_a_server_of_a_service_say_nothing() {
    let run = RunDir::new();
    let told = |stream: Option<&str>| {
        let mut program = std::process::Command::new("true");
        program.envs(environment(&run)).env_remove("JOURNAL_STREAM");
        program.envs(stream.map(|stream| ("JOURNAL_STREAM", stream)));
        let output = program.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // There is no region. Debian's script takes any output of its checks for broken tables.
    assert_eq!(told(Some("8:4711")), "");
    assert!(told(None).contains("cannot use the region"));
}

#[test]
fn a_server_on_the_region_of_another_version_is_not_said_to_be_governed() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let region = run.instance(NAME).join("region");
    let environment = environment(&run);
    let start = || Alone::start(&program, &go, &environment);
    let known = |server: &Alone| run.figure(NAME, "server_pid") == u64::from(server.child.id());
    let mut companion = Companion::start(&run, "generic");
    let server = start();
    let mut client = server.client();
    client.send("one");
    assert_eq!(client.answer(), "ok one");
    wait_until("the server is known", || known(&server));
    assert_eq!(run.status(NAME)["gate"], "closed");
    // The companion is of another version from here on, as after an installation. Twice, as it
    // may be restarted again.
    let file = std::fs::OpenOptions::new().write(true).open(&region).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &77_u32.to_ne_bytes(), 8).unwrap();
    for _ in 0..2 {
        companion.0.kill().unwrap();
        companion.0.wait().unwrap();
        companion = Companion::start(&run, "generic");
        assert!(known(&server));
        assert_eq!(run.status(NAME)["gate"], "ungoverned");
        let words = run.ok(["status", "--name", NAME]);
        assert!(
            words.contains("another version") && words.contains("all requests pass"),
            "{words}"
        );
        let doctor = crate::support::text(&run.headworks(["doctor"]).output().unwrap());
        assert!(doctor.contains("started by another version"), "{doctor}");
        let log = std::fs::read_to_string(run.instance(NAME).join("daemon.log")).unwrap();
        assert!(log.contains("it runs without the gate"), "{log}");
        let metrics = crate::metrics::scrape(&run.instance(NAME).join("metrics.sock"));
        for line in [
            "headworks_server_ungoverned{instance=\"service\"} 1.0",
            "headworks_gate_closed{instance=\"service\"} 0.0",
        ] {
            assert!(metrics.contains(line), "{metrics}");
        }
        client.send("again");
        assert_eq!(client.answer(), "ok again");
    }
    drop((client, server));
    wait_until("the server has gone", || run.figure(NAME, "server_pid") == 0);
    let server = start();
    let mut client = server.client();
    client.send("one");
    assert_eq!(client.answer(), "ok one");
    wait_until("the next one is known", || known(&server));
    assert_eq!(run.status(NAME)["gate"], "closed");
    drop(companion);
}

#[test]
fn a_companion_restarted_before_the_first_client_governs_the_server_that_runs() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let region = run.instance(NAME).join("region");
    let environment = environment(&run);
    let mut companion = Companion::start(&run, "generic");
    let server = Alone::start(&program, &go, &environment);
    companion.0.kill().unwrap();
    companion.0.wait().unwrap();
    let mut companion = Companion::start(&run, "generic");
    let mut client = server.client();
    client.send("one");
    assert_eq!(client.answer(), "ok one");
    let known = || run.figure(NAME, "server_pid") == u64::from(server.child.id());
    wait_until("the server is known", known);
    assert_eq!(run.status(NAME)["gate"], "closed");
    drop((client, server));
    wait_until("the server has gone", || run.figure(NAME, "server_pid") == 0);

    // The same with a companion of another version: the status does not say that the server is
    // governed.
    let server = Alone::start(&program, &go, &environment);
    companion.0.kill().unwrap();
    companion.0.wait().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&region).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &77_u32.to_ne_bytes(), 8).unwrap();
    companion = Companion::start(&run, "generic");
    assert_eq!(run.figure(NAME, "server_pid"), u64::from(server.child.id()));
    assert_eq!(run.status(NAME)["gate"], "ungoverned");
    drop(companion);
}

#[test]
fn a_helper_that_accepts_first_is_not_the_server_for_long() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let environment = environment(&run);
    let _companion = Companion::start(&run, "generic");
    let server = Alone::start(&program, &go, &environment);
    // Starts are told apart by hundredths of a second.
    std::thread::sleep(Duration::from_millis(50));
    let helper = Alone::start(&program, &go, &environment);
    let known = |pid: u32| {
        wait_until("the server is known", || run.figure(NAME, "server_pid") == u64::from(pid));
    };
    let ask = |server: &Alone| {
        let mut client = server.client();
        client.send("one");
        assert_eq!(client.answer(), "ok one");
    };
    ask(&helper);
    known(helper.child.id());
    ask(&server);
    known(server.child.id());
    ask(&helper);
    // The daemon watches over the right one.
    drop(helper);
    ask(&server);
    assert_eq!(run.figure(NAME, "server_pid"), u64::from(server.child.id()));
    drop(server);
    known(0);
}

/// Directory and number of threads of each control group; `None`, with a printed reason, where none
/// can be made.
fn groups(run: &RunDir) -> Option<Vec<(PathBuf, u64)>> {
    let status = run.status(NAME);
    if status["cgroup"]["state"] == "off" {
        println!("skipped: {}", status["cgroup"]["reason"]);
        return None;
    }
    let groups = status["cgroup"]["groups"].as_array().cloned().unwrap_or_default();
    let group = |group: &serde_json::Value| {
        (group["directory"].as_str().unwrap().into(), group["threads"].as_u64().unwrap())
    };
    Some(groups.iter().map(group).collect())
}

#[test]
fn threads_of_each_server_that_comes_are_in_groups_of_their_own() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("echo.c", &[]);
    let run = RunDir::new();
    let go = run.path().with_extension("go");
    let environment = environment(&run);
    let config = PATIENT.replace("[gate]\n", "[gate]\ncpu_weights = true\n");
    let _companion = Companion::with(&run, "generic", &config);
    for _ in 0..2 {
        let server = Alone::start(&program, &go, &environment);
        let mut client = server.client();
        client.send("one");
        assert_eq!(client.answer(), "ok one");
        wait_until("its thread is in a group, or there are none", || {
            groups(&run).is_none_or(|groups| groups.iter().any(|group| group.1 == 1))
        });
        let Some(found) = groups(&run) else { return };
        for (directory, _) in &found {
            let name = directory.file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.contains(&format!(".{}.", server.child.id())), "{name}");
        }
        drop((client, server));
        wait_until("the groups are gone with the server", || {
            found.iter().all(|(directory, _)| !directory.exists())
        });
        wait_until("and it is known", || run.status(NAME)["cgroup"]["state"] == "waiting");
        wait_until("no session is left", || run.figure(NAME, "users") == 0);
    }
}

/// A client of a Redis.
struct Wire(TcpStream);

impl Wire {
    fn to(server: &LoopServer) -> Wire {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Wire(stream)
    }

    fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn expect(&mut self, answer: &str) {
        let mut bytes = vec![0; answer.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), answer);
    }
}

#[test]
fn a_service_with_an_event_loop_is_held_by_its_companion() {
    if !LoopKind::Redis.is_here_or_skip() {
        return;
    }
    let run = RunDir::new();
    let companion = Companion::start(&run, "redis");
    let server = LoopServer::builder(LoopKind::Redis)
        .env("LD_PRELOAD", shim())
        .env("HEADWORKS_REGION", run.instance(NAME).join("region"))
        .start()
        .unwrap();
    let (mut one, mut two) = (Wire::to(&server), Wire::to(&server));
    one.send("MULTI");
    one.expect("+OK\r\n");
    wait_until("one is inside", || run.figure(NAME, "inside") == 1);
    two.send("ECHO held");
    run.wait_for_held(NAME, 1);
    one.send("EXEC");
    one.expect("*0\r\n");
    two.expect("$4\r\nheld\r\n");
    drop((one, two));
    drop(server);
    wait_until("the server has gone", || run.figure(NAME, "server_pid") == 0);
    signal(companion.0.id(), libc::SIGTERM);
}
