//! Questions to a Java virtual machine, by HotSpot's own protocol.
//!
//! These are the questions that `jcmd` asks. That is a program in Java: each start of it takes some
//! tenths of a second of a processor, from the server that is recorded.
//!
//! A machine that can be asked listens at the socket `.java_pidN` in its `/tmp`. It begins to when
//! it finds the file `.attach_pidN` and gets a SIGQUIT. A question is the protocol's version, a
//! command and three words, each with a zero byte behind it. An answer is a number, which is zero if
//! all went well, a new line, and text (`attachListener.cpp` of OpenJDK).

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A virtual machine that does not answer is left alone after this.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look for the machine's socket.
const LOOK: Duration = Duration::from_millis(2);

/// What a machine answers to a diagnostic command, such as `Thread.print`, with its options.
pub fn ask(pid: u32, words: &[&str]) -> Option<String> {
    let until = Instant::now() + PATIENCE;
    let status = Status::of(pid)?;
    let folder = PathBuf::from(format!("/proc/{pid}/root/tmp"));
    let own = status.inner().unwrap_or(pid);
    let socket = folder.join(format!(".java_pid{own}"));
    let open = || open(&socket, status.user(), until);
    let wish = folder.join(format!(".attach_pid{own}"));
    let stream = open().or_else(|| knock(pid, &status, &wish, until, open))?;
    answer(stream, &words.join(" "), until)
}

/// The number that a process or a thread has in its container, if it is in one.
pub fn inner(pid: u32) -> Option<u32> {
    Status::of(pid)?.inner()
}

/// What `/proc/PID/status` tells of a process.
struct Status(String);

impl Status {
    fn of(pid: u32) -> Option<Status> {
        std::fs::read_to_string(format!("/proc/{pid}/status")).ok().map(Status)
    }

    fn field(&self, name: &str) -> impl Iterator<Item = &str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        line.split_ascii_whitespace()
    }

    fn inner(&self) -> Option<u32> {
        self.field("NSpid:").skip(1).last()?.parse().ok()
    }

    /// The user and the group whose rights it has.
    fn user(&self) -> Option<(u32, u32)> {
        let of = |name: &str| self.field(name).nth(1)?.parse().ok();
        of("Uid:").zip(of("Gid:"))
    }

    fn catches_quit(&self) -> bool {
        let caught = self.field("SigCgt:").next().map(|mask| u64::from_str_radix(mask, 16));
        caught.is_some_and(|mask| mask.is_ok_and(|mask| mask >> (libc::SIGQUIT - 1) & 1 == 1))
    }
}

/// A connection to the machine, if this user made the socket: anyone may make one in `/tmp`.
fn open(socket: &Path, user: Option<(u32, u32)>, until: Instant) -> Option<UnixStream> {
    let file = socket.symlink_metadata().ok().filter(|file| file.file_type().is_socket())?;
    if file.uid() != 0 && Some(file.uid()) != user.map(|(user, _)| user) {
        return None;
    }
    let flags = SocketFlags::CLOEXEC;
    let own = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    // It bounds connecting, too: a machine that hangs takes no connections.
    set_socket_timeout(&own, Timeout::Send, Some(left(until)?)).ok()?;
    connect(&own, &SocketAddrUnix::new(socket).ok()?).ok()?;
    Some(own.into())
}

/// Time that is left, if there is any.
fn left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

/// Asks the machine to listen, and connects.
fn knock(
    pid: u32,
    status: &Status,
    wish: &Path,
    until: Instant,
    open: impl Fn() -> Option<UnixStream>,
) -> Option<UnixStream> {
    // A process that does not catch the signal would end by it, and that of another make would write
    // a dump.
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    if !status.catches_quit() || maps.contains("/libj9vm") {
        return None;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(wish) {
        // A machine heeds files of its own user.
        Ok(file) => {
            let (user, group) = status.user().unzip();
            let _ = fchown(&file, user, group);
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(_) => return None,
    }
    let mut stream = None;
    if kill_process(Pid::from_raw(pid.cast_signed())?, Signal::QUIT).is_ok() {
        while stream.is_none() && Instant::now() < until {
            std::thread::sleep(LOOK);
            stream = open();
        }
    }
    let _ = std::fs::remove_file(wish);
    stream
}

fn answer(mut stream: UnixStream, command: &str, until: Instant) -> Option<String> {
    stream.write_all(format!("1\0jcmd\0{command}\0\0\0").as_bytes()).ok()?;
    let (mut said, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        stream.set_read_timeout(Some(left(until)?)).ok()?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
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

    /// A machine that says this to one question, and then the question.
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

    /// Asks a machine of this user.
    fn asked(path: &Path, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        let own = Status::of(std::process::id()).expect("a process").user();
        answer(open(path, own, until)?, "Thread.print", until)
    }

    #[test]
    fn an_answer_is_taken_if_its_number_says_that_all_went_well() {
        for (says, wanted) in [
            ("0\n\"main\" #1\nmore\n", Some("\"main\" #1\nmore\n")),
            ("1\njava.lang.IllegalArgumentException\n", None),
            ("", None),
        ] {
            let (path, thread) = machine("answer", says);
            assert_eq!(asked(&path, PATIENCE).as_deref(), wanted, "{says}");
            assert_eq!(thread.join().expect("asked"), "1\0jcmd\0Thread.print\0\0\0");
            assert_eq!(asked(&path, PATIENCE), None, "it has ended, and the file is left");
            std::fs::remove_file(&path).expect("it is ours");
        }
    }

    /// It takes no connection. When enough wait for that, a further one is not even queued.
    #[test]
    fn a_machine_that_hangs_is_left_alone() {
        const SHORT: Duration = Duration::from_millis(20);
        let path = std::env::temp_dir().join(format!("headworks-hangs-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        rustix::net::listen(&listener, 1).expect("it listens");
        let waiting = [0; 4].map(|_| open(&path, None, Instant::now() + SHORT));
        let own = std::fs::metadata(&path).expect("it is there").uid();
        // Sockets of root are taken from any machine.
        assert_eq!(waiting[0].is_some(), own == 0);
        let until = Instant::now() + SHORT;
        let queued = [0; 4].map(|_| open(&path, Some((own, own)), until));
        assert!(queued[3].is_none(), "{queued:?}");
        assert_eq!(asked(&path, SHORT), None);
        drop(listener);
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_process_that_would_end_by_the_signal_is_not_asked() {
        let mut sleep = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        assert_eq!(ask(sleep.id(), &["Thread.print"]), None);
        assert_eq!(sleep.try_wait().expect("it is ours"), None, "it lives");
        sleep.kill().expect("it lives");
        sleep.wait().expect("it ended");
    }

    #[test]
    fn a_status_tells_numbers_users_and_signals() {
        let text = "Name:\tjava\nNSpid:\t4711\t131\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
                    SigCgt:\t2000000181005ccf\n";
        let status = Status(text.to_owned());
        assert_eq!((status.inner(), status.user()), (Some(131), Some((2, 6))));
        assert!(status.catches_quit());
        let status = Status("NSpid:\t4711\nSigCgt:\t0000000000004002\n".to_owned());
        assert_eq!((status.inner(), status.user(), status.catches_quit()), (None, None, false));
    }
}
