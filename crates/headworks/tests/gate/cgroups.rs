//! Threads get processor time by the weights of their users' classes, and nothing is left of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use headworks_rig::{ConnectOptions, DATABASE};

use crate::common::{DEADLINE, Gate, Setup, User, wait_until};

const GOLD: &str =
    "[[class]]\nname = \"gold\"\nweight = 3\n[[rule]]\naccount = \"gold\"\nclass = \"gold\"\n";

/// A gate with groups, three gold users and five others; `None`, with a printed reason, where there
/// is no server or no group can be made.
fn start() -> Option<(Gate, Vec<User>)> {
    let gate = Setup::places(4).key("cpu_weights", true).sections(GOLD).start()?;
    gate.sql("CREATE USER gold");
    gate.sql("GRANT ALL ON rig.* TO gold");
    let gold = ConnectOptions::new(gate.server.tcp(), "gold").database(DATABASE);
    let mut users: Vec<User> = (0..3).map(|_| gate.user_with("gold", gold.clone())).collect();
    users.extend((0..5).map(|_| gate.user("plain")));
    for user in &mut users {
        user.run("DO 1");
    }
    wait_until("the groups are there or refused", DEADLINE, || {
        gate.status().0["cgroup"]["state"] != "starting"
    });
    let status = gate.status();
    if status.0["cgroup"]["state"] == "off" {
        println!("skipped: {}", status.0["cgroup"]["reason"]);
        // Fail open: the gate itself is closed, and users are served.
        assert_eq!(status.0["gate"], "closed");
        return None;
    }
    Some((gate, users))
}

/// Class, directory, weight and threads of each group.
fn groups(gate: &Gate) -> BTreeMap<String, (PathBuf, u64, u64)> {
    let status = gate.status();
    let groups = status.0["cgroup"]["groups"].as_array().cloned().unwrap_or_default();
    groups
        .iter()
        .map(|group| {
            let text = |key: &str| group[key].as_str().unwrap().to_owned();
            let number = |key: &str| group[key].as_u64().unwrap();
            let found = (text("directory").into(), number("cpu_weight"), number("threads"));
            (text("class"), found)
        })
        .collect()
}

/// Waits until every thread is in its group, and returns the groups' directories.
fn placed(gate: &Gate) -> Vec<PathBuf> {
    wait_until("three threads of gold and five others are in their groups", DEADLINE, || {
        let found = groups(gate);
        let threads = |class: &str| found.get(class).map_or(0, |group| group.2);
        threads("gold") == 3 && threads("default") == 5
    });
    groups(gate).into_values().map(|group| group.0).collect()
}

/// Ids in the file of a group that lists threads, whichever version it has.
fn threads(group: &Path) -> Vec<u32> {
    let text = ["tasks", "cgroup.threads"].map(|file| fs::read_to_string(group.join(file)));
    let text = text.into_iter().flatten().next().unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn threads_are_in_the_groups_of_their_classes_and_the_groups_weigh_what_the_classes_do() {
    let Some((mut gate, mut users)) = start() else { return };
    placed(&gate);
    let found = groups(&gate);
    // P = 4, so as much as 4 threads: 400 · 9/14 and 400 · 5/14.
    assert_eq!((found["gold"].1, found["default"].1), (257, 143));
    let tasks = PathBuf::from(format!("/proc/{}/task", gate.server.pid()));
    for (directory, _, _) in found.values() {
        assert!(threads(directory).iter().all(|thread| tasks.join(thread.to_string()).exists()));
        let file =
            ["cpu.shares", "cpu.weight"].map(|file| fs::read_to_string(directory.join(file)));
        let weight: u64 = file.into_iter().flatten().next().unwrap().trim().parse().unwrap();
        // 100 of version 2 are 1024 of version 1.
        assert!([257, 143, 257 * 1024 / 100, 143 * 1024 / 100].contains(&weight), "{weight}");
    }
    users.truncate(3);
    wait_until("the others' group is empty", DEADLINE, || {
        groups(&gate).get("default").is_none_or(|group| group.2 == 0)
    });
    users[0].run("DO 1");
    gate.server.stop(DEADLINE).unwrap();
    wait_until("the groups are gone with the server", DEADLINE, || {
        found.values().all(|group| !group.0.exists())
    });
}

#[test]
fn a_killed_daemon_or_server_leaves_no_group() {
    let Some((mut gate, mut users)) = start() else { return };
    let directories = placed(&gate);
    let daemon = gate.status().number("daemon_pid");
    // SAFETY: the process is a daemon that this test has started.
    unsafe { libc::kill(daemon as i32, libc::SIGKILL) };
    wait_until("the groups are gone with the daemon", DEADLINE, || {
        directories.iter().all(|directory| !directory.exists())
    });
    users[0].run("DO 1");
    gate.order(&["daemon"]);
    let directories = placed(&gate);
    gate.server.kill().unwrap();
    wait_until("the groups are gone with the server", DEADLINE, || {
        directories.iter().all(|directory| !directory.exists())
    });
}

#[test]
fn without_the_setting_there_is_no_group() {
    let Some(gate) = Setup::places(4).start() else { return };
    gate.user("plain").run("DO 1");
    assert!(gate.status().0["cgroup"].is_null());
}
