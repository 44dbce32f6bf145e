//! `headworks io`, and what is said of files.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{RunDir, signal, text, wait_until};

/// A program that is killed with its children at the end, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: its process group, which it leads.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

const PROFILE: &str = "name = \"own\"\ntitle = \"a program\"\nframing = \"generic\"\nserved_by = \"threads\"\n\
    [programs]\nservers = []\n[calls]\naccept = []\nreceive = []\nsend = []\nsleep = []\n\
    [preflight]\nsettings = \"none\"\nrun_as = \"caller\"\nchecks = []\n[stop]\nsignal = \"SIGTERM\"\n\
    [[threads]]\nname = \"*\"\npriority = 1\n";

const SETTINGS: &str =
    "[io]\nscheduler = \"afq\"\n[[io.thread]]\nname = \"nobody\"\npriority = 6\n";

/// The file's own sections decide first, and those of the profile stay in force, as at the start.
#[test]
fn new_settings_keep_the_rules_of_the_profile() {
    let run = RunDir::new();
    let (profile, settings) = (run.file("profile.toml", PROFILE), run.file("toml", SETTINGS));
    let file = std::env::temp_dir().join(format!("headworks-io-set-{}", std::process::id()));
    let writes = format!(
        "while :; do dd if=/dev/zero of={} bs=4k count=1 conv=notrunc,fsync; sleep 0.05; done",
        file.display()
    );
    let profile = profile.to_str().unwrap();
    let mut command = run.headworks(["run", "--name", "set", "--io", "afq", "--profile", profile]);
    command.args(["--", "sh", "-c", &writes]).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = Running(command.process_group(0).spawn().unwrap());
    let priorities = || -> Vec<u64> {
        let output = run.headworks(["io", "top", "--json", "--name", "set"]).output().unwrap();
        let state: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let accounts = state["accounts"].as_array().cloned().unwrap_or_default();
        let writers = accounts.iter().filter(|account| account["fsyncs"] != 0);
        writers.filter_map(|account| account["priority"].as_u64()).collect()
    };
    wait_until("it writes", || priorities().len() > 2);
    let settings = settings.to_str().unwrap();
    let said = run.ok(["io", "set", "--name", "set", "--config", settings]);
    assert!(said.contains("afq"), "{said}");
    let before = priorities().len();
    wait_until("others write", || priorities().len() > before + 2);
    assert!(priorities().iter().all(|priority| *priority == 1), "{:?}", priorities());
    fs::remove_file(file).unwrap();
}

/// Calls on files need no daemon. Who says that nothing is held would mislead.
#[test]
fn files_are_held_after_the_daemons_death_and_doctor_says_so() {
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "left", "--io", "afq", "--", "sleep", "600"]);
    let _running = Running(command.stderr(Stdio::null()).process_group(0).spawn().unwrap());
    wait_until("its daemon serves", || run.listens("left"));
    // The directory in which volumes run.
    fs::create_dir_all(run.path().join("volumes/disk")).unwrap();
    let doctor = || text(&run.headworks(["doctor", "sh"]).output().unwrap());
    assert!(doctor().contains("runs, and its daemon listens"), "{}", doctor());
    signal(run.daemon("left"), libc::SIGKILL);
    wait_until("it is gone", || !run.listens("left"));
    assert!(doctor().contains("afq still holds them"), "{}", doctor());
    assert!(!doctor().contains("rm -r"), "{}", doctor());
    wait_until("it is missed", || run.status("left")["gate"] == "stale");
    let status = run.ok(["status", "--name", "left"]);
    assert!(status.contains("afq still holds them"), "{status}");
    let refusal = run.refused(["run", "--name", "volumes", "--", "true"]);
    assert!(refusal.contains("where volumes run"), "{refusal}");
    run.ok(["io", "set", "--name", "left", "--scheduler", "noop"]);
    assert!(doctor().contains("all requests pass") && !doctor().contains("still holds"));
}
