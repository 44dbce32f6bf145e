//! Which process listens on a Unix socket.

use super::ports::Owner;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The process that listens on a Unix socket. `None` if no process listens, even if the file
/// exists.
pub fn socket_in_use(path: &Path) -> Option<Owner> {
    match connect(path)? {
        Answer::Connected(socket) => Some(Owner::of(listener(&socket))),
        Answer::Full => Some(Owner::of(None)),
    }
}

enum Answer {
    Connected(OwnedFd),
    /// A process listens, and its queue of connections is full.
    Full,
}

/// Connects without waiting; `None` if no process listens.
fn connect(path: &Path) -> Option<Answer> {
    let name = path.as_os_str().as_bytes();
    // SAFETY: all zero bytes are a valid address of this type.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // One byte stays zero as the end of the name; no socket can have a longer one.
    if name.is_empty() || name.len() >= address.sun_path.len() {
        return None;
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointer is passed.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is open, and no other value owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is initialized and `length` bytes long.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 {
        return Some(Answer::Connected(socket));
    }
    let full = std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
    full.then_some(Answer::Full)
}

/// The process that called `listen` on the other end.
fn listener(socket: &OwnedFd) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for `length` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    u32::try_from(peer.pid).ok().filter(|&pid| result == 0 && pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_is_in_use_while_somebody_listens_and_not_because_its_file_is_there() {
        let path =
            std::env::temp_dir().join(format!("headworks-socket-{}.sock", std::process::id()));
        assert_eq!(socket_in_use(&path), None);
        let listener = UnixListener::bind(&path).unwrap();
        let owner = socket_in_use(&path).unwrap();
        assert_eq!(owner.pid, Some(std::process::id()));
        drop(listener);
        assert!(path.exists());
        // A child that another test forks has it for a moment, too.
        let begun = std::time::Instant::now();
        while socket_in_use(&path).is_some() {
            assert!(begun.elapsed().as_secs() < 20, "it is in use for ever");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(socket_in_use(Path::new(&"x".repeat(200))), None);
    }
}
