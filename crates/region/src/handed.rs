//! A region's descriptor, for a process that cannot open the region's file: it runs as another
//! user, or sees other directories.
//!
//! It asks the daemon, by an abstract Unix socket that a chroot does not hide. A token in the
//! environment says that it belongs to the instance. An inherited descriptor would do the same, but
//! would also be open in every program in between, and in their children.
//!
//! One message each way: what is wanted and the token; then one byte, with the descriptor if it is
//! granted.

use crate::clock;
use crate::file::{Descriptor, RegionError, errno};
use crate::process::Process;
use core::mem::{offset_of, size_of_val, zeroed};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;

/// Variable of the environment with the process that `headworks run` became, and the token.
pub const VARIABLE: &core::ffi::CStr = c"HEADWORKS_ASK";

/// Bytes of a token: hexadecimal digits. The first half of them names the socket, and each user of
/// the machine may see it there.
pub const TOKEN: usize = 32;

/// A process waits for the daemon for so long in all, however often it asks.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// How long to wait before a look at whether the daemon can answer.
const STEP: Nanos = Nanos::from_millis(20);

/// How long this process has waited for it.
static WAITED_NS: AtomicU64 = AtomicU64::new(0);

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The gate's region, by a program that starts: granted to servers that a profile knows.
    GateAtStart = b's' as isize,
    /// The gate's region, by a process that a client can reach.
    Gate = b'g' as isize,
    /// The region of the I/O scheduler.
    Io = b'i' as isize,
}

/// A question: what is wanted, and the token.
pub type Question = [u8; 1 + TOKEN];

impl Wanted {
    /// What a question asks for, if it has this token.
    pub fn of(question: &Question, token: &[u8; TOKEN]) -> Option<Wanted> {
        let [wanted, theirs @ ..] = question;
        let all = [Wanted::GateAtStart, Wanted::Gate, Wanted::Io];
        all.into_iter().find(|each| *each as u8 == *wanted && theirs == token)
    }
}

/// The address of the daemon's socket, and its length.
pub fn address(token: &[u8; TOKEN]) -> (libc::sockaddr_un, libc::socklen_t) {
    const PREFIX: &[u8] = b"\0headworks-";
    let name = PREFIX.iter().chain(&token[..TOKEN / 2]);
    // SAFETY: made of integers, for which zero bytes are valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    address.sun_path.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte as _);
    let length = offset_of!(libc::sockaddr_un, sun_path) + PREFIX.len() + TOKEN / 2;
    (address, length as libc::socklen_t)
}

/// Asks for a region. All by system calls, as the functions may be our own hooks. Does not
/// allocate.
pub(crate) fn ask(token: &[u8; TOKEN], wanted: Wanted) -> Result<Descriptor, RegionError> {
    let begun = clock::now();
    let patience = PATIENCE.since(Nanos(WAITED_NS.load(Relaxed)));
    if patience < STEP {
        return Err(RegionError::System("the daemon does not answer", libc::ETIMEDOUT));
    }
    let answer = ask_until(begun + patience, token, wanted);
    WAITED_NS.fetch_add(clock::now().since(begun).0, Relaxed);
    answer
}

fn ask_until(until: Nanos, token: &[u8; TOKEN], wanted: Wanted) -> Result<Descriptor, RegionError> {
    let failed = |what| Err(RegionError::System(what, errno()));
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return failed("cannot make a socket");
    }
    let socket = Descriptor(fd as i32);
    let (address, length) = address(token);
    let limits = [(libc::SO_SNDTIMEO, until.since(clock::now())), (libc::SO_RCVTIMEO, STEP)];
    // SAFETY: all that is pointed to outlives the calls, and has the lengths that are given.
    let connected = unsafe {
        for (option, limit) in limits {
            // Zero would be no limit, and a second is not so many microseconds.
            let tv_usec = (limit.0 / 1_000).clamp(1, 999_999) as libc::suseconds_t;
            let limit = libc::timeval { tv_sec: 0, tv_usec };
            let (level, bytes) = (libc::SOL_SOCKET, size_of_val(&limit));
            libc::syscall(libc::SYS_setsockopt, fd, level, option, &raw const limit, bytes);
        }
        libc::syscall(libc::SYS_connect, fd, &raw const address, length)
    };
    if connected < 0 {
        return failed("cannot reach the daemon");
    }
    let daemon = trusted(&socket).ok_or(RegionError::NoRegion)?;
    let mut question = [wanted as u8; 1 + TOKEN];
    question[1..].copy_from_slice(token);
    let (to, bytes) = (question.as_ptr(), question.len());
    // SAFETY: the message outlives the call, and has this length.
    let sent = unsafe {
        let none = core::ptr::null::<u8>();
        libc::syscall(libc::SYS_sendto, fd, to, bytes, libc::MSG_NOSIGNAL, none, 0)
    };
    if sent != bytes as libc::c_long {
        return failed("cannot ask the daemon");
    }
    loop {
        match receive(&socket) {
            Err(RegionError::System(_, libc::EAGAIN | libc::EINTR))
                if clock::now() < until && !is_stopped(daemon) => {}
            answer => return answer,
        }
    }
}

/// A stopped daemon does not answer, and each program of a script would wait for it.
fn is_stopped(daemon: u32) -> bool {
    Process::of(daemon).is_some_and(|process| process.stopped)
}

/// The process that made the socket, if it is root's or this process's own user's. Each user may
/// take the name of a daemon's socket once the daemon has ended.
fn trusted(socket: &Descriptor) -> Option<u32> {
    // SAFETY: made of integers, for which zero bytes are valid.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the call fills what it is given, and both outlive it.
    unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let (to, length) = (&raw mut peer, &raw mut length);
        let got = libc::syscall(libc::SYS_getsockopt, socket.0, level, option, to, length);
        let own = libc::syscall(libc::SYS_geteuid) as u32;
        (got == 0 && (peer.uid == 0 || peer.uid == own)).then_some(peer.pid as u32)
    }
}

/// The descriptor in the answer.
fn receive(socket: &Descriptor) -> Result<Descriptor, RegionError> {
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Aligned as the kernel's header is.
    let mut control = [0u64; 4];
    // SAFETY: all zero bytes are a valid header. It points to what outlives the call. What the
    // kernel wrote is read within the length that it gave.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        // No room for a second one, which would stay open.
        message.msg_controllen = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
        let flags = libc::MSG_CMSG_CLOEXEC;
        let got = libc::syscall(libc::SYS_recvmsg, socket.0, &raw mut message, flags);
        if got < 0 {
            return Err(RegionError::System("the daemon does not answer", errno()));
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if got == 1 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            return Ok(Descriptor(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()));
        }
    }
    Err(RegionError::Refused)
}
