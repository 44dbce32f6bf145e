//! Children that do not outlive this process.
//!
//! `PR_SET_PDEATHSIG` is not enough for a server. The kernel clears it when the server changes its
//! user. It also fires when the *thread* that started the server ends, which for a test is too
//! early. Instead, a small shell waits at the end of a pipe that only this process holds open.
//! However this process ends, the pipe closes, and the shell kills the server and removes its
//! directories.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The shell waits for the end of its input. It checks that the process id still belongs to the
/// server (whose working directory is its data directory), kills it, and waits for its end. Then it
/// removes the directories named after that.
const SCRIPT: &str = r#"
pid=$1; home=$2; shift 2
read -r forever
n=0
while [ "$(readlink "/proc/$pid/cwd")" = "$home" ] && [ $n -lt 100 ]; do
    kill -KILL "$pid" 2>/dev/null
    sleep 0.1
    n=$((n + 1))
done
[ $# -eq 0 ] || rm -rf -- "$@"
"#;

/// Kills one server when this process is gone.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    _pipe: Option<ChildStdin>,
}

impl Guard {
    /// Watches over the process `pid`, whose working directory is `home`, and over `temporary`
    /// directories.
    pub(crate) fn new(pid: u32, home: &Path, temporary: &[&Path]) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "headworks-rig-guard"])
            .arg(pid.to_string())
            .arg(home)
            .args(temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .env_remove("LD_PRELOAD")
            // A Ctrl-C at the terminal is meant for us; the guard has to stay.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, _pipe: pipe })
    }
}

impl Drop for Guard {
    /// The server was stopped properly: the guard ends without acting.
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
