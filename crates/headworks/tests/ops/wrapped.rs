//! Servers that a wrapper or a script starts.

use std::fs;

use headworks_rig::find_program;

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::{is_root, wait_until};

/// A directory of profiles with one that knows the echo server; gone when dropped.
struct Home(std::path::PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let home = std::env::temp_dir().join(format!("headworks-{name}-{}", std::process::id()));
        let profiles = home.join("headworks/profiles");
        fs::create_dir_all(&profiles).unwrap();
        let profile = "name = \"mine\"\nframing = \"mysql\"\n[programs]\nservers = [\"echo\"]\n\
            [calls]\naccept = [\"accept\"]\nreceive = [\"recv\"]\nsend = [\"send\"]\n";
        fs::write(profiles.join("mine.toml"), profile).unwrap();
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
            &["env", "-u", "HEADWORKS_KEPT", "setpriv", "--reuid=65534", "--clear-groups"],
            "its user cannot open the gate's region",
            true,
        ),
        (&["sh", "-c", "env -u LD_PRELOAD \"$0\" \"$@\"; true"], "has cleared LD_PRELOAD", false),
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
