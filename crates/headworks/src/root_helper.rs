//! The part of a daemon that needs root: it removes the instance's directory at the end.
//!
//! A daemon runs as the database's user, not as root, so that a fault in it gives an attacker no
//! rights. It can empty its instance's directory. But it cannot remove it from the run directory,
//! which belongs to root. So the process that root starts splits. The child drops its rights and is
//! the daemon. The parent waits for its end and removes the directory if it is empty. A later
//! instance's directory never is.
//!
//! If processor time follows weights, the parent also manages the control groups, which belong to
//! root too (see [`crate::cgroup`]). From the region it reads only which thread serves which
//! session, and it moves only threads of the server.

use crate::cgroup::{Companion, Reporter, Reports, Worker};
use crate::instance::Instance;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Interval at which the daemon's life is checked while there are groups to manage.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Splits, and returns only in the daemon's process, which belongs to this user and group. Returns
/// who manages control groups. To be called before there are threads.
pub fn split(
    instance: &Instance,
    ready: Option<&File>,
    (uid, gid): (u32, u32),
) -> Result<Companion> {
    let (read, write) = match instance.note()?.cpu_weights {
        true => crate::process::pipe().map(|(read, write)| (Some(read), Some(write)))?,
        false => (None, None),
    };
    // SAFETY: there is one thread, so the child may go on as any process would.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()).context("cannot fork"),
        0 => {
            drop(write);
            give_up_rights(uid, gid).context("cannot become the database's user")?;
            Ok(read.map_or(Companion::None, |pipe| Companion::Janitor(Reports::new(pipe))))
        }
        daemon => {
            drop(read);
            if let Some(ready) = ready {
                // SAFETY: the child has its own copy, and this process ends without using it again.
                unsafe { libc::close(ready.as_raw_fd()) };
            }
            crate::process::release_stderr();
            // SAFETY: the name is a C string; it tells people which of the two this is.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"hw-janitor".as_ptr()) };
            if let Some(pipe) = write {
                care(instance, daemon, pipe);
            }
            // SAFETY: waits for our own child; no status is wanted.
            while unsafe { libc::waitpid(daemon, std::ptr::null_mut(), 0) } < 0
                && Error::last_os_error().raw_os_error() == Some(libc::EINTR)
            {}
            let _ = std::fs::remove_dir(&instance.dir);
            std::process::exit(0)
        }
    }
}

/// Manages control groups until the daemon ends, and then removes them.
fn care(instance: &Instance, daemon: i32, pipe: OwnedFd) {
    // The daemon may end first.
    // SAFETY: sets a disposition; this process has one thread.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let Ok(region) = instance.open_region() else { return };
    let (mut worker, mut reporter) = (Worker::new(&instance.name), Reporter::new(pipe));
    // SAFETY: all zero bytes are a valid structure.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        worker.tick(&region);
        reporter.tell(worker.status());
        std::thread::sleep(POLL_INTERVAL);
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // The child is not reaped here. It is ours, so its number is not negative. SAFETY: the
        // structure outlives the call.
        let asked = unsafe { libc::waitid(libc::P_PID, daemon as u32, &raw mut ended, how) };
        // SAFETY: waitid has filled the structure, or left it as zeros.
        if asked != 0 || unsafe { ended.si_pid() } != 0 {
            return;
        }
    }
}

fn give_up_rights(uid: u32, gid: u32) -> Result<(), Error> {
    // SAFETY: the list of groups is empty; the rest takes numbers. The user comes last, as it
    // takes the right to change the others.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(gid) == 0
            && libc::setuid(uid) == 0
    };
    if done { Ok(()) } else { Err(Error::last_os_error()) }
}
