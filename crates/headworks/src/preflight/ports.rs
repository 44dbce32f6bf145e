//! Which process listens where a server wants to listen.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

pub use super::sockets::socket_in_use;

/// A process that already listens on a port or a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process; `None` if this user may not see it.
    pub pid: Option<u32>,
    /// That process's program.
    pub program: Option<String>,
}

impl fmt::Display for Owner {
    /// Continues a sentence that ends in "in use".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.as_deref().unwrap_or("a process");
        match self.pid {
            Some(pid) => write!(f, " by {program} (pid {pid})"),
            None => write!(f, " by a process of another user; its name: sudo ss -lxntp"),
        }
    }
}

impl Owner {
    /// The process with this id.
    pub(super) fn of(pid: Option<u32>) -> Owner {
        Owner { pid, program: pid.and_then(program_of) }
    }
}

/// Name of a process's program.
fn program_of(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The process that listens on a TCP port at an address of `bind` (with commas in between; `None`
/// and `*` mean all). `None` if it is free, and for port zero, which means no TCP.
pub fn port_in_use(bind: Option<&str>, port: u16) -> Option<Owner> {
    if port == 0 {
        return None;
    }
    let hosts = bind.unwrap_or("*").split(',').map(str::trim);
    let taken = hosts.flat_map(|host| addresses(host, port)).any(is_taken);
    taken.then(|| Owner::of(listener(port)))
}

/// Addresses as a server binds them: all of IPv6 includes all of IPv4 where both exist.
fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    let host = if matches!(host, "*" | "") { "::" } else { host };
    let mut found: Vec<_> = (host, port).to_socket_addrs().into_iter().flatten().collect();
    if host == "::" {
        found.push(SocketAddr::from(([0, 0, 0, 0], port)));
    }
    found
}

/// Binds the address as the server will, with `SO_REUSEADDR`, but does not listen. So two checks at
/// once do not take each other for a server.
fn is_taken(address: SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let asked = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .and_then(|socket| set_socket_reuseaddr(&socket, true).map(|()| socket))
        .and_then(|socket| bind(&socket, &address));
    asked == Err(Errno::ADDRINUSE)
}

/// The process that listens on a port.
fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: Vec<u64> = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    process_with(&inodes)
}

/// Inodes of the sockets in a table of `/proc/net` that listen on a port.
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = columns.get(1)?.rsplit_once(':')?;
        let fits = u16::from_str_radix(local, 16) == Ok(port) && *columns.get(3)? == LISTEN;
        columns.get(9).filter(|_| fits)?.parse().ok()
    };
    table.lines().filter_map(row).collect()
}

/// The first process that has one of these sockets open. Only sees processes of this user, unless
/// this is root.
fn process_with(inodes: &[u64]) -> Option<u32> {
    if inodes.is_empty() {
        return None;
    }
    let wanted: Vec<PathBuf> =
        inodes.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let has_one = |pid: u32| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok();
        let mut links = descriptors
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.any(|link| wanted.contains(&link))
    };
    let processes = std::fs::read_dir(Path::new("/proc")).ok()?.flatten();
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .find(|&pid| has_one(pid))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn two_who_ask_at_once_do_not_take_each_other_for_a_server() {
        // A free port that the system does not hand out while it lingers.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        assert_eq!(port_in_use(Some("127.0.0.1"), port), None);
                    }
                });
            }
        });
    }

    #[test]
    fn a_free_port_is_free_and_a_taken_one_names_its_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for bind in [Some("127.0.0.1"), None, Some("*"), Some("127.0.0.1, ::1")] {
            let owner = port_in_use(bind, port).unwrap_or_else(|| panic!("{bind:?}"));
            assert_eq!(owner.pid, Some(std::process::id()));
            let text = owner.to_string();
            assert!(
                text.starts_with(" by ")
                    && text.ends_with(&format!("(pid {})", std::process::id())),
                "{text}"
            );
        }
        drop(listener);
        // A child that another test forks has it for a moment, too.
        let begun = std::time::Instant::now();
        while port_in_use(Some("127.0.0.1"), port).is_some() {
            assert!(begun.elapsed().as_secs() < 20, "it is taken for ever");
        }
    }

    #[test]
    fn no_tcp_needs_no_port() {
        assert_eq!(port_in_use(None, 0), None);
    }

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 12345 1 0\n\
             1: 0100007F:0CEA 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   104        0 99 1 0\n";
        assert_eq!(listening_inodes(table, 3306), [12345]);
        assert!(listening_inodes(table, 3307).is_empty());
    }
}
