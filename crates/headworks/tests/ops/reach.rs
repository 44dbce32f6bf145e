//! What programs that a script starts can reach of the gate and of the scheduler of files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::{RunDir, is_root, text, wait_until};

const ATTEMPTS: &str = include_str!("reaches.py");

/// Any user may run it, unlike one in a home directory.
const PYTHON: &str = "/usr/bin/python3";

/// The users 5 and 65534 have nothing to do with each other.
const STRANGER: &str = "setpriv --reuid=5 --regid=60 --clear-groups";
const SERVERS_USER: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

fn can_try() -> bool {
    let can = is_root() && Path::new(PYTHON).exists();
    if !can {
        println!("skipped: needs root and {PYTHON} (apt-get install python3)");
    }
    can
}

/// A directory that all may write to; gone when dropped.
struct Open(PathBuf);

impl Open {
    fn new(name: &str) -> Open {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("headworks-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(dir.join("reaches.py"), ATTEMPTS).unwrap();
        Open(dir)
    }

    /// The command that tries, and writes its report below this name.
    fn tries(&self, report: &str, more: &str) -> String {
        let dir = self.0.display();
        format!("{STRANGER} {PYTHON} {dir}/reaches.py {dir}/{report} {more}")
    }

    fn report(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_stranger_gets_no_part_of_a_gate_that_has_its_server() {
    if !can_try() {
        return;
    }
    let open = Open::new("stranger");
    let go = open.0.join("go");
    let script = format!(
        "(while [ ! -e {} ]; do sleep 0.1; done; {}) & exec {SERVERS_USER} \"$0\" \"$@\"",
        go.display(),
        open.tries("report", "write")
    );
    let Some(echo) = Echo::start("threads", PATIENT, &["--", "sh", "-c", &script]) else { return };
    let mut client = echo.client();
    client.send("first");
    assert_eq!(client.answer(), "ok first");
    fs::write(&go, "").unwrap();
    wait_until("it has tried", || open.report("report").contains("end"));
    assert_eq!(open.report("report"), "end\n");
    assert_eq!(echo.run.status(NAME)["gate"], "closed");
    let log = fs::read_to_string(echo.run.instance(NAME).join("daemon.log")).unwrap();
    assert!(log.contains("of user 5 does not get the gate"), "{log}");
    client.send("second");
    assert_eq!(client.answer(), "ok second");
}

/// Programs of a job that run as another user are governed, so they may write into the region of
/// the scheduler. That is all: they end no other program of the job.
#[test]
fn what_a_program_of_a_job_does_to_the_regions_ends_no_other() {
    if !can_try() {
        return;
    }
    let open = Open::new("job");
    let dir = open.0.display();
    // The numbers are those of a program's own, of which ours must not take any.
    let own =
        format!("exec 3>{dir}/own; bash -c 'exec 1000>&3 1001>&3; echo mine >&1000'; exec 3>&-");
    let flush = |name: &str| {
        format!("dd if=/dev/zero of={dir}/{name} bs=4k count=64 conv=fsync status=none")
    };
    let script = format!(
        "set -e; {own}; ls -l /proc/self/fd >{dir}/governed\n\
         env -u LD_PRELOAD ls -l /proc/self/fd >{dir}/plain\n\
         {}\n{} && {} && {STRANGER} {}\n{}\n{} && echo went on",
        flush("before"),
        open.tries("report", ""),
        flush("between"),
        flush("strangers"),
        open.tries("written", "write"),
        flush("after"),
    );
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "job", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("went on"), "{}", text(&output));
    let attempts = "truncate refused\ngrow refused\nopen refused\n";
    assert_eq!(open.report("report"), format!("got g\n{attempts}got i\n{attempts}end\n"));
    assert!(open.report("written").contains("overwritten"));
    assert_eq!(open.report("own"), "mine\n");
    for listed in ["governed", "plain"] {
        let listed = open.report(listed);
        assert!(!listed.contains(&run.path().display().to_string()), "{listed}");
    }
}

/// A region that another user's program could not open is given again by the next daemon.
#[test]
fn the_next_daemon_gives_regions_too() {
    if !can_try() {
        return;
    }
    let open = Open::new("again");
    let run = RunDir::new();
    let program = crate::support::program().display();
    let script = format!(
        "exec 2>&1; unset LD_PRELOAD\n\
         pid=$({program} status --json --name job | sed -n 's/.*\"daemon_pid\": \\([0-9]*\\).*/\\1/p')\n\
         kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done\n\
         {program} daemon --name job && {}",
        open.tries("report", ""),
    );
    let mut command = run.headworks(["run", "--name", "job", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    assert!(open.report("report").contains("got i\n"), "{}", text(&output));
}
