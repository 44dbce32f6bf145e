//! Unmounting a volume that others still use.

use crate::life::noise;
use crate::rig::{Rig, can_mount_or_skip};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program in another mount namespace, which has the mounts of this rig, too. Those of other
/// tests it gives back.
struct Elsewhere(Child);

const SCRIPT: &str = "cut -d ' ' -f 2 /proc/self/mounts | grep /volume- | grep -v \"^$0/\" | tac | \
while read -r dir; do umount -l \"$dir\"; done; exec sleep 1000";

impl Elsewhere {
    fn start(rig: &Rig) -> Elsewhere {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", SCRIPT]).arg(&rig.dir).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        let own = fs::read_link("/proc/self/ns/mnt").unwrap();
        let namespace = || fs::read_link(format!("/proc/{}/ns/mnt", child.id())).unwrap();
        let runs = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
        until("it has its namespace", || namespace() != own && runs().trim() == "sleep");
        Elsewhere(child)
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.end();
    }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn state(rig: &Rig, name: &str) -> String {
    let listed: serde_json::Value = serde_json::from_str(&rig.ok(&["list", "--json"])).unwrap();
    let all = listed.as_array().unwrap();
    let volume = all.iter().find(|volume| volume["name"] == name).unwrap();
    volume["state"].as_str().unwrap().to_owned()
}

#[test]
fn nothing_is_lost_while_another_mount_namespace_has_the_volume() {
    if !can_mount_or_skip() {
        return;
    }
    for crashes in [false, true] {
        let rig = Rig::new();
        let image = rig.image("v");
        rig.ok(&["create", "v", "--size", "200M", "--backing", &image]);
        rig.mount("v");
        let written = noise(20_000_000, 8);
        fs::write(rig.mnt().join("file"), &written).unwrap();
        let mut elsewhere = Elsewhere::start(&rig);
        let said = rig.refused(&["umount", "v"]);
        let who = format!("process {} (sleep) has it mounted on", elsewhere.0.id());
        assert!(said.contains("goes on") && said.contains(&who), "{said}");
        assert_eq!(state(&rig, "v"), "running");
        // It answers all the time, and the same.
        let again = rig.refused(&["umount", "v"]);
        assert!(again.contains(&who), "{again}");
        let pid = rig.stat("v")["pid"].as_u64().unwrap();
        if crashes {
            // SAFETY: sends a signal to the process of this test's volume.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
            elsewhere.end();
            until("it is gone", || state(&rig, "v") != "running");
            rig.run(&["doctor"]);
        } else {
            elsewhere.end();
            until("it ends with its last user", || state(&rig, "v") == "stopped");
            rig.assert_sound(&image);
        }
        rig.mount("v");
        assert!(fs::read(rig.mnt().join("file")).unwrap() == written, "crashes: {crashes}");
        rig.umount("v");
    }
}

#[test]
fn a_program_that_has_the_device_open_is_named() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "r", "--size", "16M", "--backing", "memory", "--raw"]);
    rig.ok(&["mount", "r"]);
    let device = rig.stat("r")["device"].as_str().unwrap().to_owned();
    let file = fs::File::open(device).unwrap();
    let said = rig.refused(&["umount", "r"]);
    assert!(said.contains(&format!("process {} (", std::process::id())), "{said}");
    drop(file);
    until("it ends with its last user", || state(&rig, "r") == "stopped");
}

#[test]
fn a_device_that_is_another_volumes_by_now_is_neither_named_nor_unmounted() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    for name in ["a", "b"] {
        rig.ok(&["create", name, "--size", "16M", "--backing", "memory", "--fs", "ext4"]);
    }
    rig.mount("a");
    let other = rig.dir.join("other");
    fs::create_dir(&other).unwrap();
    rig.ok(&["mount", "b", other.to_str().unwrap()]);
    let note = |name: &str| rig.dir.join(format!("run/volumes/{name}/note.json"));
    let own = fs::read_to_string(note("a")).unwrap();
    let device = |name: &str| rig.stat(name)["device"].as_str().map(str::to_owned);
    let [first, second] = ["a", "b"].map(|name| device(name).unwrap());
    fs::write(note("a"), own.replace(&first, &second)).unwrap();
    assert_eq!(device("a"), None);
    assert!(!rig.ok(&["list"]).lines().any(|line| line.starts_with('a') && line.contains("/dev/")));
    // It waits for the end of a volume whose device it does not know.
    let mut child = rig.spawn(&["umount", "a"]);
    std::thread::sleep(Duration::from_secs(2));
    let _ = child.kill();
    let _ = child.wait();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(mounts.contains(&format!("{second} {}", other.display())), "{mounts}");
    fs::write(note("a"), own).unwrap();
    rig.umount("a");
    rig.umount("b");
}
