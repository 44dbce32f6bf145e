//! Files where an operator looks.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use crate::metrics::scrape;
use crate::support::{RunDir, wait_until};

/// A program that is killed with its children at the end, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: its process group, which it leads.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// One look at files wherever an instance is looked at, and one switch for them and the gate.
#[test]
fn files_are_in_status_and_metrics_and_off_lets_their_calls_pass() {
    let run = RunDir::new();
    let file = std::env::temp_dir().join(format!("headworks-io-off-{}", std::process::id()));
    let writes = format!(
        "while :; do dd if=/dev/zero of={} bs=4k count=1 conv=notrunc,fsync; sleep 0.02; done",
        file.display()
    );
    let mut command =
        run.headworks(["run", "--name", "all", "--io", "afq", "--", "sh", "-c", &writes]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let _running = Running(command.spawn().unwrap());
    wait_until("its daemon serves", || run.listens("all"));
    let files = || run.status("all")["files"].clone();
    wait_until("it writes", || files()["accounts"].as_array().is_some_and(|all| all.len() > 2));
    assert_eq!((&files()["scheduler"], &files()["on"]), (&"afq".into(), &true.into()));

    let figures = || scrape(&run.instance("all").join("metrics.sock"));
    let value = |name: &str| -> f64 {
        let text = figures();
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("headworks_files_scheduled{"), 1.0);
    let fsyncs = "headworks_files_fsyncs_total{instance=\"all\",thread=\"dd\"}";
    let before = value(fsyncs);
    // Each dd is another thread, and the sum never falls.
    wait_until("more fsyncs are counted", || value(fsyncs) > before + 3.0);

    assert!(run.ok(["off", "--name", "all"]).contains("no call on a file"));
    assert_eq!(files()["on"], false);
    assert_eq!(value("headworks_files_scheduled{"), 0.0);
    assert!(run.ok(["on", "--name", "all"]).contains("afq schedules the files of `all` again"));
    assert_eq!(files()["on"], true);
    run.ok(["explain", "waits", "--name", "all"]);
    fs::remove_file(file).unwrap();
}
