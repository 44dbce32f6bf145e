//! What must not outlive this process: servers, and volumes with their mounts.
//!
//! `PR_SET_PDEATHSIG` is not enough for a server. The kernel clears it when the server changes its
//! user. It also fires when the *thread* that started the server ends, which for a test is too
//! early. Instead, a small shell waits at the end of a pipe that only this process holds open.
//! However this process ends, the pipe closes, and the shell cleans up.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Checks that the process id still belongs to the server (whose working directory is its data
/// directory), kills it, and waits for its end. Then it removes the directories named after that.
const END_SERVER: &str = r#"
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

/// Unmounts a volume as soon as what used it has ended, forgets it, and removes its directory if
/// nothing is mounted there any more.
const END_VOLUME: &str = r#"
headworks=$1; name=$2; home=$3
export HEADWORKS_STATE_DIR="$home/state" HEADWORKS_RUN_DIR="$home/run"
read -r forever
n=0
while [ -e "$home/run/volumes/$name" ] && [ $n -lt 300 ]; do
    "$headworks" volume umount "$name" || "$headworks" volume doctor
    sleep 0.2
    n=$((n + 1))
done
"$headworks" volume rm "$name" --with-backing || "$headworks" volume rm "$name"
grep -q " $home" /proc/self/mounts || rm -rf -- "$home"
"#;

/// Cleans up when this process is gone.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
    _pipe: Option<ChildStdin>,
}

impl Guard {
    /// Watches over the process `pid`, whose working directory is `home`, and over `temporary`
    /// directories.
    pub(crate) fn of_server(pid: u32, home: &Path, temporary: &[&Path]) -> io::Result<Self> {
        let pid = pid.to_string();
        let arguments = [pid.as_ref(), home.as_os_str()].into_iter();
        Self::start(END_SERVER, arguments.chain(temporary.iter().map(|path| path.as_os_str())))
    }

    /// Watches over the volume `name` of the program `headworks`, whose state and run directories
    /// are those below `home`.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn of_volume(headworks: &Path, name: &str, home: &Path) -> io::Result<Self> {
        Self::start(END_VOLUME, [headworks.as_os_str(), name.as_ref(), home.as_os_str()])
    }

    fn start<'a>(script: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script, "headworks-rig-guard"])
            .args(arguments)
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
    /// All was ended properly: the guard ends without acting.
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
