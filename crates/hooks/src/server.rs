//! Which process is the server, and which program, where `headworks run` did not start it.
//!
//! A wrapper or a script may stand between `headworks run` and the server. The profile is then
//! chosen when the server starts ([`starts`]), and is final when it listens ([`listens`]).
//!
//! A service's gate exists before its server, and the process that accepts a connection is the
//! server. But the library is preloaded into every program that the server starts. A helper with
//! its own socket may accept first. So the claim goes to the oldest process that accepts. The
//! server is older than its helper, and takes the claim over with its first connection.

use crate::process;
use crate::room::Room;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use headworks_policy::Nanos;
use headworks_region::clock;
use headworks_region::known_servers::{KnownServers, Server, UNKNOWN};
use headworks_region::layout::Region;
use headworks_region::lock::thread_exists;
use headworks_region::process::Process;

/// How long a server waits for its profile at its start. The daemon looks ten times a second.
const PROFILE_TIMEOUT: Nanos = Nanos::from_millis(2_000);

/// How long before it looks at whether the daemon can do it.
const LOOK_AFTER: Nanos = Nanos::from_millis(200);

/// How often it checks.
const PROFILE_POLL_INTERVAL: Nanos = Nanos::from_millis(2);

/// [`listens`] has decided for this process.
static LISTENS: AtomicBool = AtomicBool::new(false);

/// The place of this program's name among those that profiles know. Valid once [`starts`] has run.
static PLACE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// A program starts behind a gate. If the profile depends on which server starts, and this is one,
/// waits until its profile is in force. Called before the program's first instruction: no client
/// waits for this.
pub fn starts(region: &Region) {
    let known = &region.known_servers;
    if !known.expected() {
        return;
    }
    let Some(mut path) = Room::<[u8; libc::PATH_MAX as usize]>::make() else { return };
    // A link may have the server's name, or lead to it.
    let names = [called_as(), own_program(&mut *path)];
    let Some(place) = names.into_iter().flatten().find_map(|name| known.find(name)) else {
        return;
    };
    PLACE.store(place, Ordering::Relaxed);
    let is_alike = |server: Server| known.is_alike(server.place, place);
    if known.answered().is_none_or(|server| !is_alike(server)) && who_serves(known).is_none() {
        ask(region, Server { pid: process::own_pid(), place });
    }
}

/// Clients can come to this process from here on: its profile and its settings become those of the
/// gate. Another process that listens may have chosen the gate's profile. A process with another
/// profile then stays without the gate.
pub(crate) fn listens(region: &Region) {
    let known = &region.known_servers;
    LISTENS.store(true, Ordering::Relaxed);
    if !known.expected() {
        return;
    }
    let own = Server { pid: process::own_pid(), place: PLACE.load(Ordering::Relaxed) };
    let other = who_serves(known).filter(|other| other.pid != own.pid);
    match other {
        Some(other) if known.is_alike(other.place, own.place) => {}
        // A program that no profile knows makes room for a server.
        Some(other) if other.place != UNKNOWN => {
            if own.place != UNKNOWN {
                known.stays_beside(own.pid);
            }
            process::stand_aside();
        }
        _ => {
            let in_force = known.answered();
            let none_was = own.place == UNKNOWN && in_force.is_none();
            if !none_was && in_force != Some(own) {
                ask(region, own);
                process::profile_chosen(region);
            }
            known.serves(own);
        }
    }
}

/// The process that has chosen the profile by listening, if it lives.
fn who_serves(known: &KnownServers) -> Option<Server> {
    // /proc may be closed to this user.
    let lives = |pid| thread_exists(pid) && Process::of(pid).is_none_or(|process| !process.ended);
    known.serving().filter(|server| lives(server.pid))
}

/// Waits until the profile and the settings of this process are in force.
fn ask(region: &Region, own: Server) {
    let known = &region.known_servers;
    let begun = clock::now();
    while known.answered() != Some(own) {
        known.ask(own);
        let now = clock::now();
        // Without a daemon all requests pass.
        let waited = now.since(begun);
        let is_late = waited > PROFILE_TIMEOUT || region.heartbeat.stale(now);
        if is_late || (waited > LOOK_AFTER && is_stopped(region)) {
            return;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PROFILE_POLL_INTERVAL.0 as _ };
        // SAFETY: the time outlives the call. A signal ends the sleep early, which does no harm.
        unsafe {
            libc::syscall(libc::SYS_nanosleep, &raw const pause, core::ptr::null_mut::<u8>())
        };
    }
}

/// A stopped daemon puts no profile into force.
fn is_stopped(region: &Region) -> bool {
    let daemon = region.heartbeat.daemon.load(Ordering::Relaxed);
    Process::of(daemon).is_some_and(|process| process.stopped)
}

/// File name by which this process was executed.
fn called_as() -> Option<&'static [u8]> {
    // SAFETY: only asks.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const core::ffi::c_char;
    // SAFETY: the kernel puts a C string there, which lives as long as the process.
    let path = (!path.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(path) })?;
    path.to_bytes().rsplit(|&byte| byte == b'/').next()
}

/// File name of the program that this process runs.
fn own_program(path: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: the link's name is a C string, and the buffer has its length.
    let length = unsafe {
        let link = c"/proc/self/exe".as_ptr();
        libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, link, path.as_mut_ptr(), path.len())
    };
    path.get(..usize::try_from(length).ok()?)?.rsplit(|&byte| byte == b'/').next()
}

/// The server that this process has last compared itself with; the result holds for that one.
static JUDGED: AtomicU32 = AtomicU32::new(0);

/// This process has accepted a connection.
#[inline(never)] // what it copies is gone from the stack when it returns
pub(crate) fn accepts(region: &Region) {
    if !LISTENS.load(Ordering::Relaxed) {
        // By a socket that it inherited.
        listens(region);
    }
    let server = &region.heartbeat.server;
    let known = server.load(Ordering::Relaxed);
    if known != 0 && known == JUDGED.load(Ordering::Relaxed) {
        return;
    }
    let own = process::own_pid();
    if known == 0 || (known != own && is_older(own, known)) {
        let _ = server.compare_exchange(known, own, Ordering::Relaxed, Ordering::Relaxed);
    }
    JUDGED.store(server.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Whether a process started before another, which exists.
fn is_older(one: u32, other: u32) -> bool {
    let (Some(one_is), Some(other_is)) = (Process::of(one), Process::of(other)) else {
        return false;
    };
    // Start times are coarse.
    one_is.started < other_is.started
        || (one_is.started == other_is.started && other_is.parent == one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_knows_its_name() {
        let mut path = [0; 4096];
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().as_encoded_bytes();
        assert_eq!((own_program(&mut path), called_as()), (Some(name), Some(name)));
    }

    #[test]
    fn a_child_is_younger_than_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let own = process::own_pid();
        let (older, younger) = (is_older(own, child.id()), is_older(child.id(), own));
        assert_eq!(Process::of(child.id()).unwrap().parent, own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(older && !younger);
        assert!(!is_older(own, child.id()), "it is gone");
    }
}
