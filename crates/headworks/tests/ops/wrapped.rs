//! Servers that a wrapper or a script starts.

use std::fs;

use headworks_rig::{Server, find_program, mariadb_or_skip};

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::{RunDir, is_root, program, wait_until};

/// A directory of profiles: `mine` knows the echo server, and `other` its copy with that name. Gone
/// when dropped.
struct Home(std::path::PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let home = std::env::temp_dir().join(format!("headworks-{name}-{}", std::process::id()));
        let profiles = home.join("headworks/profiles");
        fs::create_dir_all(&profiles).unwrap();
        let profile = "name = \"mine\"\nframing = \"mysql\"\n[programs]\nservers = [\"echo\"]\n\
            [calls]\naccept = [\"accept\"]\nreceive = [\"recv\"]\nsend = [\"send\"]\n";
        fs::write(profiles.join("mine.toml"), profile).unwrap();
        let other = profile.replace("mine", "other").replace("echo", "other");
        fs::write(profiles.join("other.toml"), other.replace("mysql", "generic")).unwrap();
        Home(home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn behind_a_wrapper_the_servers_own_profile_is_taken() {
    let home = Home::new("wrapped");
    for wrapper in [
        &["taskset", "-c", "0"][..],
        &["numactl", "--localalloc"],
        &["nice", "-n", "1"],
        &["ionice", "-c", "2"],
        &["env", "A=b"],
        &["stdbuf", "-oL"],
        &["chrt", "-o", "0"],
        &["setpriv", "--no-new-privs"],
        &["sh", "-c", "exec \"$0\" \"$@\""],
        &["sh", "-c", "true; \"$0\" \"$@\"; true"],
        &["sh", "-c", "exec nice env taskset -c 0 \"$0\" \"$@\""],
    ] {
        if find_program(wrapper[0]).is_none() {
            println!("skipped: no {}", wrapper[0]);
            continue;
        }
        let options: Vec<&str> = ["--"].iter().chain(wrapper).copied().collect();
        let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
        let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
        // The profile is in force before the server's first instruction.
        assert_eq!(echo.run.status(NAME)["protocol"], "mysql", "{wrapper:?}");
        let mut client = echo.client();
        client.send("hello");
        assert_eq!(client.answer(), "ok hello");
        assert_eq!(echo.run.counter(NAME, "opaque_unknown"), 1, "{wrapper:?}");
        let note = fs::read_to_string(echo.run.instance(NAME).join("instance.json")).unwrap();
        assert!(note.contains("\"profile\": \"mine\""), "{wrapper:?}: {note}");
    }
}

#[test]
fn a_link_with_the_servers_name_counts_too() {
    let home = Home::new("linked");
    // Debian's `redis-server` is such a link.
    let options =
        ["--", "sh", "-c", "mv \"$0\" \"$0.other\"; ln -s \"$0.other\" \"$0\"; exec \"$0\" \"$@\""];
    let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
    let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
    assert_eq!(echo.run.status(NAME)["protocol"], "mysql");
}

/// A script that first starts the echo server under another name, and waits until it listens.
fn after_another(name: &str) -> String {
    format!(
        "mkdir \"$0\".d; cp \"$0\" \"$0\".d/{name}; \"$0\".d/{name} threads none >\"$0\".said & \
         until [ -s \"$0\".said ]; do sleep 0.05; done; exec \"$0\" \"$@\""
    )
}

#[test]
fn a_second_server_of_another_profile_is_named_and_not_followed() {
    let home = Home::new("second");
    let script = after_another("other");
    let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
    let options = ["--", "sh", "-c", &script];
    let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
    let mut client = echo.client();
    client.send("hello");
    assert_eq!(client.answer(), "ok hello");
    let status = echo.run.status(NAME);
    assert_eq!((&status["protocol"], &status["users"]), (&"generic".into(), &0.into()));
    assert_eq!(echo.run.counter(NAME, "opaque_unknown"), 0);
    let beside = status["beside"].as_str().expect("it is named");
    assert!(beside.contains("(echo)") && beside.contains("the profile other"), "{beside}");
    let shown = echo.run.ok(["status", "--name", NAME]);
    let doctor = crate::support::text(&echo.run.headworks(["doctor"]).output().unwrap());
    assert!(shown.contains(beside) && doctor.contains(beside), "{shown}{doctor}");
}

#[test]
fn a_helper_that_listens_first_does_not_choose_the_profile() {
    let home = Home::new("helper");
    let script = after_another("helper");
    let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
    let options = ["--", "sh", "-c", &script];
    let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
    assert_eq!(echo.run.status(NAME)["protocol"], "mysql");
    assert_eq!(echo.run.status(NAME)["beside"], serde_json::Value::Null);
}

/// A script may first ask the server for its version, or let it make its tables.
#[test]
fn the_server_that_listens_gives_the_settings() {
    if !mariadb_or_skip() {
        return;
    }
    let run = RunDir::new();
    let extra = headworks_rig::free_port().unwrap();
    let script = "\"$0\" --no-defaults --version >/dev/null; exec \"$0\" \"$@\"";
    let server = Server::builder()
        .prefix([program().to_str().unwrap(), "run", "--name", NAME, "--", "sh", "-c", script])
        .env("HEADWORKS_RUN_DIR", run.path())
        .option(format!("--extra-port={extra}"))
        .option("--innodb-buffer-pool-size=16M")
        .remove_when_orphaned(run.path())
        .start()
        .unwrap();
    let note = fs::read_to_string(run.instance(NAME).join("instance.json")).unwrap();
    assert!(note.contains(&format!("\"extra_port\": {extra}")), "{note}");
    assert_eq!(run.status(NAME)["protocol"], "mysql");
    drop(server);
}

#[test]
fn the_instance_stays_with_a_server_whose_wrapper_ends() {
    let home = Home::new("left");
    let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
    let options = ["--", "sh", "-c", "\"$0\" \"$@\" & sleep 1"];
    let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
    let shell = echo.run.figure(NAME, "server_pid");
    let mut client = echo.client();
    client.send("hello");
    assert_eq!(client.answer(), "ok hello");
    wait_until("the shell has ended", || echo.run.figure(NAME, "server_pid") != shell);
    let server = echo.run.figure(NAME, "server_pid") as u32;
    let name = fs::read_to_string(format!("/proc/{server}/comm")).unwrap();
    assert_eq!((name.trim(), &echo.run.status(NAME)["gate"]), ("echo", &"closed".into()));
    let log = fs::read_to_string(echo.run.instance(NAME).join("daemon.log")).unwrap();
    assert!(log.contains("goes on behind the gate"), "{log}");
    crate::support::signal(server, libc::SIGKILL);
    wait_until("the instance goes with the server", || echo.run.instances().is_empty());
}

#[test]
fn a_profile_that_was_asked_for_stays() {
    let home = Home::new("asked");
    let options = ["--profile", "generic", "--", "env"];
    let environment = [("XDG_CONFIG_HOME", home.0.as_os_str())];
    let Some(echo) = Echo::with("threads", PATIENT, &options, &environment) else { return };
    assert_eq!(echo.run.status(NAME)["protocol"], "generic");
}

#[test]
fn a_server_that_becomes_another_user_is_governed() {
    if !is_root() {
        println!("skipped: not root, who could become another user");
        return;
    }
    let options = ["--", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let Some(echo) = Echo::start("threads", PATIENT, &options) else { return };
    let (mut one, mut two) = (echo.client(), echo.client());
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    two.send("next");
    echo.run.wait_for_held(NAME, 1);
    echo.go();
    assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
    assert_eq!(echo.run.status(NAME)["gate"], "closed");
}

#[test]
fn a_server_that_the_library_does_not_reach_is_named() {
    for (wrapper, why, root) in [
        (&["env", "-u", "LD_PRELOAD"][..], "has cleared LD_PRELOAD", false),
        (
            // The variable has to go before the user changes.
            &["env", "-u", "HEADWORKS_ASK", "setpriv", "--reuid=65534", "--clear-groups"],
            "its user cannot open the gate's region",
            true,
        ),
        (&["sh", "-c", "env -u LD_PRELOAD \"$0\" \"$@\"; true"], "has cleared LD_PRELOAD", false),
        (
            &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
            "in another PID namespace",
            true,
        ),
    ] {
        if root && !is_root() {
            println!("skipped: not root, who could become another user");
            continue;
        }
        let options: Vec<&str> = ["--"].iter().chain(wrapper).copied().collect();
        let Some(echo) = Echo::start("threads", PATIENT, &options) else { return };
        let status = echo.run.status(NAME);
        assert_eq!(status["gate"], "ungoverned", "{wrapper:?}");
        let outside = status["outside"].as_str().unwrap();
        assert!(outside.contains("(echo) serves without the gate") && outside.contains(why));
        let doctor = crate::support::text(&echo.run.headworks(["doctor"]).output().unwrap());
        assert!(doctor.contains(outside), "{doctor}");
    }
}

#[test]
fn a_wrapper_is_not_said_to_hide_its_requests() {
    let home = Home::new("words");
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "words", "--", "nice", "true"]);
    let output = command.env("XDG_CONFIG_HOME", &home.0).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("(profile generic until it starts a server"), "{said}");
    assert!(!said.contains("itself calls"), "{said}");
}

#[test]
fn the_doctor_names_a_few_of_the_calls_that_a_program_makes() {
    let Some(bash) = find_program("bash") else { return };
    let output = RunDir::new().headworks(["doctor"]).arg(bash).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.contains("it calls ")).expect("its calls");
    assert!(line.contains(" others") && line.len() < 120, "{line}");
}
