//! System calls for processes: pipes, signals, the end of other processes.

use anyhow::{Context, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends. Only the reading end is closed on exec.
    unsafe {
        if libc::pipe(ends.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot make a pipe");
        }
        libc::fcntl(ends[0], libc::F_SETFD, libc::FD_CLOEXEC);
        use std::os::fd::FromRawFd;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

pub fn wait_readable(fd: &OwnedFd, timeout_ms: i32) {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
}

/// Blocks the signals that the daemon reads from a descriptor, which it returns.
pub fn block_signals() -> Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot read signals");
    }
    // SAFETY: a descriptor that was just made, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn read_signal(signals: &OwnedFd) -> Option<i32> {
    // SAFETY: reads one structure into a buffer of its size; all zero bytes are a valid one.
    unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let read = libc::read(signals.as_raw_fd(), (&raw mut info).cast(), size);
        (read == size as isize).then_some(info.ssi_signo as i32)
    }
}

/// Closes standard error, which may be a pipe whose reader waits for its end.
pub fn release_stderr() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
}

/// Opens a descriptor that becomes readable when the process ends.
pub fn watch(pid: u32) -> Result<OwnedFd> {
    // SAFETY: asks for a descriptor of a process; a negative result is looked at.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if pidfd < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot watch the database's process");
    }
    // SAFETY: a descriptor that was just made, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// The process that a thread belongs to.
pub fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Children of a process that it has not waited for.
pub fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = |text: String| {
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    texts.flat_map(numbers).collect()
}

/// A process that runs, as its own user or root may read it.
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// Its command line, the program first.
    pub args: Vec<String>,
    environment: Vec<String>,
}

impl Running {
    /// The value of a variable of its environment, as it was at its start.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

/// All processes that this user may read, except this one.
pub fn all_running() -> impl Iterator<Item = Running> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|pid| *pid != std::process::id()).filter_map(|pid| {
        let words = |file: &str| -> Option<Vec<String>> {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
            let words = bytes.split(|&byte| byte == 0);
            Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
        };
        Some(Running { pid, args: words("cmdline")?, environment: words("environ")? })
    })
}

/// Gives up root's rights for good.
pub fn become_user(uid: u32, gid: u32) -> Result<()> {
    // SAFETY: the entry is read before the next look-up. Its name is a C string. The user comes
    // last, as it takes the right to change the others.
    let done = unsafe {
        let groups = match libc::getpwuid(uid).as_ref() {
            Some(entry) => libc::initgroups(entry.pw_name, gid),
            None => libc::setgroups(0, std::ptr::null()),
        };
        groups == 0 && libc::setgid(gid) == 0 && libc::setuid(uid) == 0
    };
    if done {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
        .with_context(|| format!("cannot become the owner of the server's data (user {uid})"))
}

/// User and group ids on the command line.
pub fn parse_ids(text: &str) -> Result<(u32, u32), String> {
    let ids =
        text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    ids.ok_or_else(|| "two numbers with a colon in between".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_two_numbers() {
        assert_eq!(parse_ids("65534:0"), Ok((65534, 0)));
        for bad in ["", "1", "1:", ":1", "a:b", "1:2:3", "-1:0"] {
            assert!(parse_ids(bad).is_err(), "{bad}");
        }
    }
}
