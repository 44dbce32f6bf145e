//! What happens when the library is loaded.

use crate::real;
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};
use headworks_hooks::barrier::{Of, guarded_keeping_errno, say};
use headworks_hooks::{backend, files, lifecycle, process, served, server};
use headworks_region::handed::{TOKEN, VARIABLE, Wanted};
use headworks_region::io::{IoMapping, gone};
use headworks_region::thread::keeping_errno;
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
    // A program begins with zero there.
    keeping_errno(begin);
}

fn begin() {
    real::resolve_all();
    std::panic::set_hook(Box::new(|_| {}));
    let asking = Asking::of_environment();
    attach_files(asking);
    let Some(path) = variable(c"HEADWORKS_REGION") else { return };
    // SAFETY: the handler only stores to a static and to a thread-local without destructor.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    // A job under `--io` starts many programs.
    let is_of_a_job = variable(c"HEADWORKS_IO").is_some();
    match asking {
        Some(asking) if !asking.is_first && is_of_a_job && LATER.note(path, &asking.token) => {}
        _ => match (attach_gate(path, asking, Wanted::GateAtStart), asking) {
            (Ok(()), _) => {}
            (Err(RegionError::System(..) | RegionError::Refused), Some(asking))
                if LATER.note(path, &asking.token) => {}
            (Err(error), _) => tell(why(error)),
        },
    }
}

/// Maps the gate's region, by its path or else by asking for it.
fn attach_gate(path: &CStr, asking: Option<Asking>, wanted: Wanted) -> Result<(), RegionError> {
    let found = Mapping::open(path).or_else(|error| {
        let asking = asking.filter(|_| is_hidden(error) && may_ask());
        Mapping::asked_for(&asking.ok_or(error)?.token, wanted)
    });
    let region = found?.region();
    #[cfg(target_arch = "x86_64")]
    if !crate::unwinder::load() {
        say(b"headworks: libgcc_s.so.1 cannot be loaded, and a fault of the gate could not be caught without it; the \
              database runs without the gate. Install it, on Debian: apt-get install libgcc-s1\n");
        return Ok(());
    }
    server::starts(region);
    process::attach(region);
    Ok(())
}

/// Whether the file of a region cannot be opened by this process, as its user or its directories
/// are others.
fn is_hidden(error: RegionError) -> bool {
    matches!(error, RegionError::System(..))
}

fn may_ask() -> bool {
    use libc::{SYS_close, SYS_connect, SYS_geteuid, SYS_getsockopt, SYS_openat, SYS_read};
    use libc::{SYS_recvmsg, SYS_sendto, SYS_setsockopt, SYS_socket};
    may_call(&[
        SYS_socket,
        SYS_setsockopt,
        SYS_connect,
        SYS_getsockopt,
        SYS_geteuid,
        SYS_sendto,
        SYS_recvmsg,
        SYS_openat,
        SYS_read,
        SYS_close,
    ])
}

fn why(error: RegionError) -> &'static [u8] {
    match error {
        RegionError::PidNamespace { .. } => {
            b"headworks: the region named by HEADWORKS_REGION was made in another PID namespace; the database \
              runs without the gate. Run both in one, for example with: docker run --pid=container:NAME\n"
        }
        _ => {
            b"headworks: cannot use the region named by HEADWORKS_REGION; the database runs without \
              the gate. Start it through: headworks run\n"
        }
    }
}

/// What a process needs to ask for regions that it cannot open itself.
#[derive(Clone, Copy)]
struct Asking {
    /// This is the program that `headworks run` started, and not one that this one started.
    is_first: bool,
    token: [u8; TOKEN],
}

impl Asking {
    fn of_environment() -> Option<Asking> {
        let text = variable(VARIABLE)?.to_str().ok()?;
        let (first, token) = text.split_once(' ')?;
        let first: u32 = first.parse().ok()?;
        Some(Asking {
            is_first: process::own_pid() == first,
            token: token.as_bytes().try_into().ok()?,
        })
    }
}

/// A variable of the environment.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string. Called by the constructor, before another thread or the
    // program itself could change the environment; nothing is kept of it.
    let text = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: `getenv` returned a C string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// The gate's region, for a process that attaches when a client can come. Most programs that a
/// script starts never have one.
static LATER: Later = Later {
    noted: AtomicBool::new(false),
    path: [const { AtomicU8::new(0) }; LONGEST_PATH],
    token: [const { AtomicU8::new(0) }; TOKEN],
};

const LONGEST_PATH: usize = 256;

struct Later {
    noted: AtomicBool,
    path: [AtomicU8; LONGEST_PATH],
    token: [AtomicU8; TOKEN],
}

impl Later {
    /// False if the path has no room.
    fn note(&self, path: &CStr, token: &[u8; TOKEN]) -> bool {
        let bytes = path.to_bytes_with_nul();
        let fits = bytes.len() <= LONGEST_PATH;
        if fits {
            self.path.iter().zip(bytes).for_each(|(to, byte)| to.store(*byte, Relaxed));
            self.token.iter().zip(token).for_each(|(to, byte)| to.store(*byte, Relaxed));
            self.noted.store(true, Relaxed);
        }
        fits
    }
}

/// A client can come from here on. Does not allocate.
#[inline]
pub(crate) fn client_can_come() {
    if LATER.noted.load(Relaxed) {
        attach_late();
    }
}

#[cold]
fn attach_late() {
    // One thread attaches. A client that another accepts meanwhile passes.
    if !LATER.noted.swap(false, Relaxed) {
        return;
    }
    let (mut path, mut token) = ([0; LONGEST_PATH], [0; TOKEN]);
    path.iter_mut().zip(&LATER.path).for_each(|(to, byte)| *to = byte.load(Relaxed));
    token.iter_mut().zip(&LATER.token).for_each(|(to, byte)| *to = byte.load(Relaxed));
    let asking = Asking { is_first: false, token };
    if let Ok(path) = CStr::from_bytes_until_nul(&path) {
        keeping_errno(|| match attach_gate(path, Some(asking), Wanted::Gate) {
            // A script may read what it starts. `status` tells of a server that was refused.
            Ok(()) | Err(RegionError::System(..) | RegionError::Refused) => {}
            Err(error) => say(why(error)),
        });
    }
}

unsafe extern "C" fn forked() {
    // What a child accepts for itself is not governed, as with a gate that its parent attached to.
    LATER.noted.store(false, Relaxed);
    lifecycle::forked();
}

unsafe extern "C" fn child_begins() {
    lock::forget_thread_id();
    served::forked();
    gone::forked();
}

/// Maps the region of the I/O scheduler, if there is one.
fn attach_files(asking: Option<Asking>) {
    let Some(path) = variable(c"HEADWORKS_IO") else { return };
    let found = IoMapping::open(path).or_else(|error| {
        let asking = asking.filter(|_| is_hidden(error) && may_ask());
        IoMapping::asked_for(&asking.ok_or(error)?.token)
    });
    match found {
        Ok(_) if !may_call(&[libc::SYS_statx, libc::SYS_sigaltstack]) => {
            tell(b"headworks: a seccomp filter forbids statx or sigaltstack: files are not governed\n");
        }
        Ok(mapping) => {
            // Also without a gate, a child must not be taken for its parent's thread.
            // SAFETY: the handler only stores to a thread-local without destructor.
            unsafe { libc::pthread_atfork(None, None, Some(child_begins)) };
            if !may_call(&[files::SYS_CACHESTAT]) {
                files::avoid_cachestat();
                tell(b"headworks: a seccomp filter forbids cachestat: early writeback is not waited for, and reads are \
                       not held\n");
            }
            files::attach(mapping.region());
        }
        // A script may read what it starts. `io top` tells of such programs.
        Err(_) if asking.is_some_and(|asking| !asking.is_first) => {}
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
    let stream = variable(c"JOURNAL_STREAM");
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

/// Whether these system calls with an invalid descriptor return. A filter (seccomp) may kill the
/// process for them, so a child tries.
fn may_call(numbers: &[libc::c_long]) -> bool {
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
            for number in numbers {
                libc::syscall(*number, -1, 0, 0, 0, 0, 0);
            }
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
