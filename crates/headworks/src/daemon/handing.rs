//! Gives descriptors of an instance's regions to processes of the instance that cannot open them:
//! they run as another user, or see other directories ([`headworks_region::handed`]).
//!
//! A descriptor that may write may also truncate, and each process that has mapped the region would
//! then end by SIGBUS. So the files are opened by a thread that has forbidden itself to truncate
//! (Landlock, Linux 6.2). The kernel keeps that with the descriptor, in any process that gets it.
//!
//! Files of all programs of a job are governed, and any user may run one. The gate has one server,
//! and so one user besides the region's own.

use crate::instance::{Instance, Note, started_ticks};
use crate::log;
use anyhow::{Context, Result};
use headworks_region::Mapping;
use headworks_region::handed::{Question, TOKEN, Wanted, address};
use headworks_region::known_servers::UNKNOWN;
use std::fs::{File, OpenOptions};
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// See [`headworks_region::handed::VARIABLE`].
pub const VARIABLE: &str = "HEADWORKS_ASK";

/// Most connections that have not asked yet. The oldest ones are closed.
const PENDING_MAX: usize = 64;

/// Programs that may begin to ask while the daemon stands still. Any other one waits for it.
const BACKLOG: i32 = 4_096;

/// A token for a new instance.
pub fn new_token() -> Result<String> {
    let mut bytes = [0u8; TOKEN / 2];
    // SAFETY: the buffer has this length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    anyhow::ensure!(got == bytes.len() as isize, "no random numbers: {}", Error::last_os_error());
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Answers from here on, in another thread, if the instance has a token.
pub fn start(instance: &Instance, note: &Note, region: Mapping) -> Result<()> {
    let Some(token) = note.token.as_deref().and_then(|token| token.as_bytes().try_into().ok())
    else {
        return Ok(());
    };
    let socket = listen(&token).context("cannot make the socket that gives out regions")?;
    let (gate, io) = (instance.region_path(), instance.io_path());
    let opened = std::thread::spawn(move || {
        let whole = forbid_truncation();
        (whole, open(&gate), open(&io))
    });
    let (stays_whole, gate, io) =
        opened.join().map_err(|_| anyhow::anyhow!("a thread has failed"))?;
    let gate = gate?;
    let owner = gate.metadata()?.uid();
    let hands = Hands { token, region, gate, io: io.ok(), stays_whole, owner, holder: None };
    let thread = std::thread::Builder::new().name("hw-hand".to_owned());
    thread.spawn(move || hands.serve(&socket)).context("cannot start a thread")?;
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

/// Forbids this thread to truncate files, also by descriptors that it opens from here on. False if
/// the kernel cannot.
fn forbid_truncation() -> bool {
    const TRUNCATE: u64 = 1 << 14;
    let handled = TRUNCATE;
    let size = size_of_val(&handled);
    // SAFETY: the rules outlive the call, and have this size. The descriptor is ours.
    unsafe {
        let rules = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size, 0);
        if rules < 0 {
            return false;
        }
        let rules = OwnedFd::from_raw_fd(rules as i32);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) == 0
    }
}

fn listen(token: &[u8; TOKEN]) -> Result<OwnedFd> {
    let (address, length) = address(token);
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the address outlives the call, and has this length. The descriptor is ours.
    let (socket, failed) = unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        let failed = socket < 0
            || libc::bind(socket, (&raw const address).cast(), length) != 0
            || libc::listen(socket, BACKLOG) != 0;
        ((socket >= 0).then(|| OwnedFd::from_raw_fd(socket)), failed)
    };
    socket.filter(|_| !failed).ok_or_else(|| Error::last_os_error().into())
}

/// A process that was given the gate, although the region's file is not its user's.
struct Holder {
    uid: u32,
    pid: u32,
    started: Option<u64>,
    /// A profile knows its program.
    known: bool,
}

struct Hands {
    token: [u8; TOKEN],
    region: Mapping,
    gate: File,
    /// `None` if files are not scheduled.
    io: Option<File>,
    /// Who gets a descriptor cannot truncate the region by it.
    stays_whole: bool,
    /// Whose the regions' files are.
    owner: u32,
    holder: Option<Holder>,
}

impl Hands {
    fn serve(mut self, socket: &OwnedFd) {
        let mut pending: Vec<OwnedFd> = Vec::new();
        loop {
            let all = std::iter::once(socket).chain(&pending);
            let mut polled: Vec<libc::pollfd> = all
                .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
                .collect();
            // SAFETY: the array and its length belong together.
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
            let mut ready = polled.iter().skip(1).map(|entry| entry.revents != 0);
            pending.retain(|client| {
                let asks = ready.next() == Some(true);
                if asks {
                    self.answer(client);
                }
                !asks
            });
            if polled[0].revents != 0 {
                match accept(socket) {
                    Some(client) => pending.push(client),
                    // Perhaps no descriptor is free.
                    None => std::thread::sleep(std::time::Duration::from_millis(10)),
                }
            }
            let surplus = pending.len().saturating_sub(PENDING_MAX);
            pending.drain(..surplus);
        }
    }

    fn answer(&mut self, client: &OwnedFd) {
        let mut question: Question = [0; 1 + TOKEN];
        // SAFETY: the buffer has this length.
        let got = unsafe {
            libc::recv(client.as_raw_fd(), question.as_mut_ptr().cast(), question.len(), 0)
        };
        let wanted = Wanted::of(&question, &self.token).filter(|_| got == question.len() as isize);
        // The number is zero for a process of another PID namespace, which could not use a region.
        let peer = peer(client).filter(|&(pid, _)| pid != 0);
        if let (Some(wanted), Some((pid, uid))) = (wanted, peer) {
            let granted = self.is_granted(wanted, pid, uid);
            let file = if wanted == Wanted::Io { self.io.as_ref() } else { Some(&self.gate) };
            send(client, file.filter(|_| granted));
        }
    }

    fn is_granted(&mut self, wanted: Wanted, pid: u32, uid: u32) -> bool {
        let is_own = uid == 0 || uid == self.owner;
        if wanted == Wanted::Io {
            return is_own || self.stays_whole;
        }
        let known = self.is_known(pid);
        // Most programs that a script starts are no servers.
        (known || wanted == Wanted::Gate) && (is_own || self.becomes_holder(pid, uid, known))
    }

    /// Whether this process may have the gate of a server that is another user's. The first user
    /// has it as long as its server lives. A server that a profile knows comes before programs that
    /// none knows.
    fn becomes_holder(&mut self, pid: u32, uid: u32, known: bool) -> bool {
        let serving = self.region.known_servers.serving();
        let serving = serving.filter(|server| uid_of(server.pid).is_some_and(|its| its != uid));
        let has_served = serving.map(|server| (server.pid, server.place != UNKNOWN));
        let holder = self.holder.as_ref().filter(|holder| {
            holder.uid != uid
                && holder.started.is_some()
                && started_ticks(holder.pid) == holder.started
        });
        let mut others =
            has_served.into_iter().chain(holder.map(|holder| (holder.pid, holder.known)));
        if let Some((other, _)) = others.find(|(_, is_known)| *is_known || !known) {
            log::line(&format!(
                "process {pid} of user {uid} does not get the gate: it is that of process {other}, another user's"
            ));
            return false;
        }
        self.holder = Some(Holder { uid, pid, started: started_ticks(pid), known });
        true
    }

    /// Whether the program of a process has the name of a server that a profile knows.
    fn is_known(&self, pid: u32) -> bool {
        let servers = &self.region.known_servers;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program
            .as_deref()
            .and_then(Path::file_name)
            .map(|name| name.as_encoded_bytes().to_vec());
        let called = std::fs::read(format!("/proc/{pid}/comm")).ok();
        let called = called.map(|name| name.trim_ascii_end().to_vec());
        [program, called].into_iter().flatten().any(|name| servers.find(&name).is_some())
    }
}

fn uid_of(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid())
}

fn accept(socket: &OwnedFd) -> Option<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: no address is asked for. The descriptor is ours.
    unsafe {
        let client = libc::accept4(socket.as_raw_fd(), none, none.cast(), flags);
        (client >= 0).then(|| OwnedFd::from_raw_fd(client))
    }
}

/// Process and user of a client, when it connected.
fn peer(client: &OwnedFd) -> Option<(u32, u32)> {
    // SAFETY: made of integers, for which zero bytes are valid.
    let mut peer: libc::ucred = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let to = (&raw mut peer).cast();
    // SAFETY: the call fills what it is given, and both outlive it.
    let got = unsafe { libc::getsockopt(client.as_raw_fd(), level, option, to, &raw mut length) };
    (got == 0).then_some((peer.pid as u32, peer.uid))
}

/// Answers a client, with this file if there is one. One that has gone meanwhile does no harm.
fn send(client: &OwnedFd, file: Option<&File>) {
    let mut byte = u8::from(file.is_some());
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: all zero bytes are a valid header. It points to what outlives the call, and the
    // buffer has room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if let Some(file) = file {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        }
        libc::sendmsg(client.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_a_thread_that_must_not_truncate_cannot() {
        let path = Path::new("/dev/shm").join(format!("headworks-whole-{}", std::process::id()));
        std::fs::write(&path, "12345678").unwrap();
        let of_thread = path.clone();
        let opened = std::thread::spawn(move || (forbid_truncation(), open(&of_thread).unwrap()));
        let (stays_whole, file) = opened.join().unwrap();
        if stays_whole {
            assert!(file.set_len(0).is_err() && file.set_len(16).is_err());
        } else {
            println!("skipped: no Landlock that knows of truncation (Linux 6.2)");
        }
        // Only that thread's.
        open(&path).unwrap().set_len(4).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_gate_is_for_one_user_and_first_for_servers_that_a_profile_knows() {
        let path = format!("/dev/shm/headworks-hands-{}", std::process::id());
        let region = Mapping::create(&std::ffi::CString::new(path.clone()).unwrap(), None).unwrap();
        let gate = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut hands = Hands {
            token: [b'0'; TOKEN],
            region,
            gate,
            io: None,
            stays_whole: false,
            owner: 7,
            holder: None,
        };
        let own = std::process::id();
        assert!(hands.is_granted(Wanted::Gate, own, 7) && hands.is_granted(Wanted::Io, own, 7));
        assert!(hands.holder.is_none() && !hands.is_granted(Wanted::Io, own, 1_001));
        assert!(!hands.is_granted(Wanted::GateAtStart, own, 1_001), "no profile knows it");
        assert!(hands.is_granted(Wanted::Gate, own, 1_001));
        assert!(!hands.is_granted(Wanted::Gate, own, 1_002), "the first one lives");
        assert!(hands.becomes_holder(own, 1_002, true), "a server comes first");
        assert!(!hands.becomes_holder(own, 1_001, true));
        hands.holder =
            Some(Holder { uid: 1_002, pid: u32::MAX - 1, started: Some(1), known: true });
        assert!(hands.is_granted(Wanted::Gate, own, 1_001), "the last one has ended");
    }
}
