//! Questions to a Java virtual machine, by HotSpot's own protocol.
//!
//! These are the questions that `jcmd` asks. `jcmd` is a program in Java: each start of it takes
//! some tenths of a second of a processor, from the server that is recorded.
//!
//! A machine that can be asked listens at the socket `.java_pidN` in its `/tmp`. It starts to
//! listen when it finds the file `.attach_pidN` and gets a SIGQUIT. A question is the protocol's
//! version, a command and three words, each with a zero byte behind it. An answer is a number,
//! which is zero if all went well, a new line, and text (`attachListener.cpp` of OpenJDK).

use super::procfs::{self, Status};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a machine has for the answer to one question.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look for the machine's socket.
const LOOK: Duration = Duration::from_millis(2);
/// Most bytes of an answer. A machine that sends more gives no answer.
const LONGEST: usize = 64 << 20;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// The machine cannot be asked yet: it has just been started.
    Yet,
    /// It refused, or did not answer in time. It is not asked again.
    Refuses,
}

/// What a machine answers to a diagnostic command, such as `Thread.print`, with its options.
///
/// # Errors
/// Why it does not.
pub fn ask(pid: u32, words: &[&str]) -> Result<String, Silent> {
    let until = Instant::now() + PATIENCE;
    let folder = folder(pid).map_err(|_| Silent::Refuses)?;
    let own = procfs::inner(pid).unwrap_or(pid);
    let open = || open(&within(&folder, &format!(".java_pid{own}")), pid, until);
    let stream = match open() {
        Err(Closed::Absent) => {
            knock(pid, &within(&folder, &format!(".attach_pid{own}")), open, until)?
        }
        other => other.map_err(|_| Silent::Refuses)?,
    };
    answer(stream, &words.join(" "), until).ok_or(Silent::Refuses)
}

/// Opens the machine's own `/tmp`, which may be that of a container. The descriptor stays valid if
/// the path is changed later.
pub fn folder(pid: u32) -> std::io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(format!("/proc/{pid}/root/tmp"))
}

/// The path of a file in a folder that is open.
pub fn within(folder: &File, name: &str) -> PathBuf {
    let (own, folder) = (std::process::id(), folder.as_raw_fd());
    PathBuf::from(format!("/proc/{own}/fd/{folder}/{name}"))
}

/// Why there is no connection.
#[derive(Debug)]
enum Closed {
    /// There is no socket, or nothing listens at it.
    Absent,
    /// It takes no connection in time, or another process made it: anyone may make one in `/tmp`.
    Wrong,
}

/// A connection to the machine.
fn open(socket: &Path, pid: u32, until: Instant) -> Result<UnixStream, Closed> {
    let file = socket.symlink_metadata().map_err(|_| Closed::Absent)?;
    let left = left(until).filter(|_| file.file_type().is_socket()).ok_or(Closed::Wrong)?;
    let wrong = |_| Closed::Wrong;
    let flags = SocketFlags::CLOEXEC;
    let own = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(wrong)?;
    // The timeout bounds connecting, too: a machine that hangs accepts no connections.
    set_socket_timeout(&own, Timeout::Send, Some(left)).map_err(wrong)?;
    let address = SocketAddrUnix::new(socket).map_err(wrong)?;
    connect(&own, &address).map_err(|error| match error {
        Errno::CONNREFUSED | Errno::NOENT => Closed::Absent,
        _ => Closed::Wrong,
    })?;
    let peer = socket_peercred(&own).map_err(wrong)?.pid;
    if peer.as_raw_nonzero().get().cast_unsigned() == pid {
        Ok(own.into())
    } else {
        Err(Closed::Wrong)
    }
}

/// Time that is left, if there is any.
fn left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

/// Whether SIGQUIT is safe: the process is a plain `java` program, and HotSpot's signal thread
/// handles the signal. Other programs end by it, or shut down.
fn heeds_quit(pid: u32) -> bool {
    /// The name of HotSpot's signal thread, as the kernel cuts it.
    const WAITS: &str = "Signal Dispatch";
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let program = ["/libjvm.so", "/libjli.so"].iter().all(|library| maps.contains(library));
    let named = |tid: u32| procfs::name(pid, tid).is_some_and(|name| name == WAITS);
    program
        && !maps.contains("/libj9vm")
        && Status::of(pid).is_some_and(|status| status.catches(libc::SIGQUIT))
        && procfs::threads(pid).into_iter().any(named)
}

/// Asks the machine to listen, and connects.
fn knock(
    pid: u32,
    wish: &Path,
    open: impl Fn() -> Result<UnixStream, Closed>,
    until: Instant,
) -> Result<UnixStream, Silent> {
    // The descriptor names this process even if its number is used again.
    let process = Pid::from_raw(pid.cast_signed()).ok_or(Silent::Refuses)?;
    let process = pidfd_open(process, PidfdFlags::empty()).map_err(|_| Silent::Refuses)?;
    if !heeds_quit(pid) {
        return Err(Silent::Yet);
    }
    let user = Status::of(pid).and_then(|status| status.user());
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(wish) {
        // HotSpot ignores the file of another user.
        Ok(file) => {
            let (user, group) = user.unzip();
            let _ = fchown(&file, user, group);
        }
        // A recorder that was killed may have left it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let owner = wish.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
            let owner = owner.map(|file| file.uid());
            if owner.is_none() || owner != user.map(|(user, _)| user) {
                return Err(Silent::Refuses);
            }
        }
        Err(_) => return Err(Silent::Refuses),
    }
    let mut stream = Err(Closed::Absent);
    if pidfd_send_signal(&process, Signal::QUIT).is_ok() {
        while matches!(stream, Err(Closed::Absent)) && Instant::now() < until {
            std::thread::sleep(LOOK);
            stream = open();
        }
    }
    let _ = std::fs::remove_file(wish);
    stream.map_err(|_| Silent::Refuses)
}

fn answer(mut stream: UnixStream, command: &str, until: Instant) -> Option<String> {
    stream.write_all(format!("1\0jcmd\0{command}\0\0\0").as_bytes()).ok()?;
    let (mut said, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        stream.set_read_timeout(Some(left(until)?)).ok()?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) if said.len() + n <= LONGEST => said.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
    let said = String::from_utf8_lossy(&said);
    let (code, text) = said.split_once('\n')?;
    (code == "0").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Starts a machine that gives one answer. The thread returns the question.
    fn machine(name: &str, says: &'static str) -> (PathBuf, std::thread::JoinHandle<String>) {
        let name = format!("headworks-attach-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut asked = [0; 64];
            let n = stream.read(&mut asked).expect("a question");
            stream.write_all(says.as_bytes()).expect("it listens");
            String::from_utf8_lossy(&asked[..n]).into_owned()
        });
        (path, thread)
    }

    /// Asks a machine that listens in this process.
    fn asked(path: &Path, patience: Duration) -> Result<Option<String>, Closed> {
        let until = Instant::now() + patience;
        Ok(answer(open(path, std::process::id(), until)?, "Thread.print", until))
    }

    #[test]
    fn an_answer_is_taken_if_its_number_says_that_all_went_well() {
        for (says, wanted) in [
            ("0\n\"main\" #1\nmore\n", Some("\"main\" #1\nmore\n")),
            ("1\njava.lang.IllegalArgumentException\n", None),
            ("", None),
        ] {
            let (path, thread) = machine("answer", says);
            assert_eq!(asked(&path, PATIENCE).expect("it listens").as_deref(), wanted, "{says}");
            assert_eq!(thread.join().expect("asked"), "1\0jcmd\0Thread.print\0\0\0");
            // It has ended, and its socket is left.
            assert!(matches!(asked(&path, PATIENCE), Err(Closed::Absent)));
            std::fs::remove_file(&path).expect("it is ours");
            assert!(matches!(asked(&path, PATIENCE), Err(Closed::Absent)));
        }
    }

    /// The machine accepts no connections. Once its queue is full, connecting blocks.
    #[test]
    fn a_machine_that_hangs_is_left_alone_and_so_is_a_socket_of_another_process() {
        const SHORT: Duration = Duration::from_millis(20);
        let (path, own) = (
            std::env::temp_dir().join(format!("headworks-hangs-{}", std::process::id())),
            std::process::id(),
        );
        let listener = UnixListener::bind(&path).expect("a socket");
        rustix::net::listen(&listener, 1).expect("it listens");
        assert!(matches!(open(&path, own + 1, Instant::now() + SHORT), Err(Closed::Wrong)));
        let queued = [0; 4].map(|_| open(&path, own, Instant::now() + SHORT));
        assert!(queued[0].is_ok() && matches!(queued[3], Err(Closed::Wrong)), "{queued:?}");
        assert!(matches!(asked(&path, SHORT), Err(Closed::Wrong)));
        std::fs::remove_file(&path).expect("it is ours");
    }

    /// A server may catch the signal to shut down.
    #[test]
    fn a_process_that_is_no_virtual_machine_gets_no_signal() {
        for command in ["sleep 60", "trap 'exit 3' QUIT; while :; do sleep 0.01; done"] {
            let mut shell = std::process::Command::new("bash");
            let mut child = shell.args(["-c", command]).spawn().expect("a process");
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(ask(child.id(), &["Thread.print"]), Err(Silent::Yet));
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(child.try_wait().expect("it is ours"), None, "it lives: {command}");
            child.kill().expect("it lives");
            child.wait().expect("it ended");
        }
    }
}
