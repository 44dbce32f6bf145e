//! A region's descriptor, for a process that cannot open the region's file: it runs as another
//! user, or sees other directories.
//!
//! It asks the daemon, by an abstract Unix socket that a chroot does not hide. A token in the
//! environment says that it belongs to the instance. An inherited descriptor would do the same, but
//! would also be open in every program in between, and in their children.
//!
//! One message each way: what is wanted and the token; then one byte, with the descriptor if it is
//! granted.

use crate::file::{Descriptor, RegionError, errno};
use core::mem::{offset_of, size_of_val, zeroed};

/// Variable of the environment with the process that `headworks run` became, and the token.
pub const VARIABLE: &core::ffi::CStr = c"HEADWORKS_ASK";

/// Bytes of a token: hexadecimal digits. The first half of them names the socket, and each user of
/// the machine may see it there.
pub const TOKEN: usize = 32;

/// How long to wait for the daemon's answer.
const TIMEOUT_MS: libc::suseconds_t = 1_000;

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
    let failed = |what| Err(RegionError::System(what, errno()));
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return failed("cannot make a socket");
    }
    let socket = Descriptor(fd as i32);
    let (address, length) = address(token);
    let limit = libc::timeval { tv_sec: 0, tv_usec: TIMEOUT_MS * 1_000 - 1 };
    // SAFETY: all that is pointed to outlives the calls, and has the lengths that are given.
    let connected = unsafe {
        for option in [libc::SO_SNDTIMEO, libc::SO_RCVTIMEO] {
            let (level, bytes) = (libc::SOL_SOCKET, size_of_val(&limit));
            libc::syscall(libc::SYS_setsockopt, fd, level, option, &raw const limit, bytes);
        }
        libc::syscall(libc::SYS_connect, fd, &raw const address, length)
    };
    if connected < 0 {
        return failed("cannot reach the daemon");
    }
    if !is_trusted(&socket) {
        return Err(RegionError::NoRegion);
    }
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
    receive(&socket)
}

/// Whether the socket that answers is root's or this process's own user's. Each user may take the
/// name of a daemon's socket once the daemon has ended.
fn is_trusted(socket: &Descriptor) -> bool {
    // SAFETY: made of integers, for which zero bytes are valid.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the call fills what it is given, and both outlive it.
    unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let (to, length) = (&raw mut peer, &raw mut length);
        let got = libc::syscall(libc::SYS_getsockopt, socket.0, level, option, to, length);
        got == 0 && (peer.uid == 0 || peer.uid == libc::syscall(libc::SYS_geteuid) as u32)
    }
}

/// The descriptor in the answer.
fn receive(socket: &Descriptor) -> Result<Descriptor, RegionError> {
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Room for one descriptor, aligned as the kernel's header is.
    let mut control = [0u64; 4];
    // SAFETY: all zero bytes are a valid header. It points to what outlives the call. What the
    // kernel wrote is read within the length that it gave.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
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
