//! What happens when the library is loaded.

use crate::real;
use headworks_hooks::barrier::{Of, guarded_keeping_errno, say};
use headworks_hooks::{backend, files, locks, process, server};
use headworks_region::io::{IoMapping, parent};
use headworks_region::{Mapping, RegionError, lock};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destruct;

/// Runs when the process ends by `exit`, after what the program itself does then.
extern "C" fn destruct() {
    guarded_keeping_errno(Of::Process, backend::exiting);
}

/// Runs before `main`: the region is mapped here, while the process may still have the rights
/// that a server drops later.
extern "C" fn construct() {
    real::resolve_all();
    attach_files();
    // SAFETY: the name is a C string, and no other thread exists yet that could change the
    // environment.
    let path = unsafe { libc::getenv(c"HEADWORKS_REGION".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: `getenv` returned a C string.
    let path = unsafe { core::ffi::CStr::from_ptr(path) };
    match Mapping::open(path).or_else(|error| inherited().unwrap_or(Err(error))) {
        Ok(mapping) => {
            server::starts(mapping.region());
            std::panic::set_hook(Box::new(|_| {}));
            // SAFETY: the handler only stores to a static and to a thread-local without destructor.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            process::attach(mapping.region());
        }
        Err(RegionError::PidNamespace { .. }) => tell(
            b"headworks: the region named by HEADWORKS_REGION was made in another PID namespace; the database runs \
              without the gate. Run both in one, for example with: docker run --pid=container:NAME\n",
        ),
        Err(_) => tell(
            b"headworks: cannot use the region named by HEADWORKS_REGION; the database runs without \
              the gate. Start it through: headworks run\n",
        ),
    }
}

/// The region by the descriptor that `headworks run` left open: the server may run as a user that
/// cannot open the file.
fn inherited() -> Option<Result<Mapping, RegionError>> {
    // SAFETY: the name is a C string, and no other thread exists yet that could change the
    // environment.
    let number = unsafe { libc::getenv(c"HEADWORKS_REGION_FD".as_ptr()) };
    if number.is_null() {
        return None;
    }
    // SAFETY: `getenv` returned a C string.
    let number = unsafe { core::ffi::CStr::from_ptr(number) }.to_str().ok()?;
    Some(Mapping::inherited(number.parse().ok()?))
}

unsafe extern "C" fn forked() {
    process::forked();
}

unsafe extern "C" fn child_begins() {
    lock::forget_thread_id();
    locks::forked();
    parent::forked();
}

/// Maps the region of the I/O scheduler, if there is one.
fn attach_files() {
    // SAFETY: the name is a C string, and no other thread exists yet that could change the
    // environment.
    let path = unsafe { libc::getenv(c"HEADWORKS_IO".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: `getenv` returned a C string.
    match IoMapping::open(unsafe { core::ffi::CStr::from_ptr(path) }) {
        Ok(_) if !may_call(libc::SYS_statx) => {
            tell(b"headworks: a seccomp filter forbids statx: files are not governed\n");
        }
        Ok(mapping) => {
            // Also without a gate, a child must not be taken for its parent's thread.
            // SAFETY: the handler only stores to a thread-local without destructor.
            unsafe { libc::pthread_atfork(None, None, Some(child_begins)) };
            if !may_call(files::SYS_CACHESTAT) {
                files::avoid_cachestat();
                tell(b"headworks: a seccomp filter forbids cachestat: early writeback is not waited for, and reads are \
                       not held\n");
            }
            files::attach(mapping.region());
        }
        Err(RegionError::Layout { .. } | RegionError::Size { .. }) => tell(
            b"headworks: the region named by HEADWORKS_IO was made by another version of Headworks; \
              files are not governed. Restart the program through: headworks run --io SCHEDULER\n",
        ),
        Err(_) => {
            tell(b"headworks: cannot use the region named by HEADWORKS_IO; files are not governed. \
              Start the program through: headworks run --io SCHEDULER\n")
        }
    }
}

/// Writes a message to standard error. systemd names the service's own stream in `JOURNAL_STREAM`.
/// If standard error is another one, a script may read it, and nothing is written.
fn tell(line: &[u8]) {
    // SAFETY: as above.
    let stream = unsafe { libc::getenv(c"JOURNAL_STREAM".as_ptr()) };
    // SAFETY: `getenv` returned a C string.
    let stream = (!stream.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(stream) });
    if stream.is_none_or(|stream| is_stderr(stream.to_bytes())) {
        say(line);
    }
}

/// Whether this is the device and inode of standard error, as `JOURNAL_STREAM` has it.
fn is_stderr(stream: &[u8]) -> bool {
    // SAFETY: made of integers, for which zero bytes are valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the call fills what it is given.
    if unsafe { libc::fstat(2, &raw mut stat) } != 0 {
        return false;
    }
    stream == format!("{}:{}", stat.st_dev, stat.st_ino).as_bytes()
}

/// Whether a system call with an invalid descriptor returns. A filter (seccomp) may kill the
/// process for it, so a child tries. Called while the process has one thread.
fn may_call(number: libc::c_long) -> bool {
    const FILTERED: i32 = 2;
    // SAFETY: only asks.
    if unsafe { libc::prctl(libc::PR_GET_SECCOMP) } != FILTERED {
        return true;
    }
    // SAFETY: as `fork`, without a signal to the parent when the child ends. The child makes system
    // calls only: the first keeps it from leaving a core file.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if child == 0 {
            libc::syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::syscall(number, -1, 0, 0, 0);
            libc::syscall(libc::SYS_exit_group, 0);
        }
        let mut status = 0;
        while child > 0 && libc::waitpid(child as i32, &raw mut status, libc::__WALL) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                return false;
            }
        }
        child > 0 && libc::WIFEXITED(status)
    }
}
