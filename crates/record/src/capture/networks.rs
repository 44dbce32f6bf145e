//! Sockets of the network namespaces of recorded processes. Each look reads a namespace once.
//!
//! The kernel is asked by `sock_diag`, as `ss` does, for sockets that listen and for open ones.
//! `/proc/net/tcp` lists closed connections in TIME_WAIT, too. With 90,000 of these and many new
//! ones, reading it took all of a processor for ten seconds. Of Unix sockets, `/proc/net/unix`
//! lists open ones alone.

use anyhow::{Context, Result, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// Sockets by network namespace.
#[derive(Default)]
pub struct Networks {
    tcp: BTreeMap<PathBuf, Network>,
    unix: BTreeMap<PathBuf, Unix>,
}

/// Unix sockets.
#[derive(Default)]
struct Unix {
    /// Sockets that listen: number and path.
    listening: Vec<(String, String)>,
    /// Connections by the path at which they were made.
    open: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Network {
    /// Sockets that listen: number and port.
    listening: Vec<(String, u16)>,
    /// Open connections by the port at this end.
    open: BTreeMap<u16, usize>,
    /// Those of them that were not accepted yet.
    waiting: BTreeMap<u16, usize>,
}

impl Networks {
    fn of(&mut self, pid: u32) -> Option<&Network> {
        Some(self.tcp.entry(namespace(pid)?).or_insert_with(|| {
            // The kernel may lack sock_diag, or this user the right to enter the namespace.
            Network::asked(pid).unwrap_or_else(|_| Network::listed(pid))
        }))
    }

    /// TCP ports on which a process listens.
    pub fn listens(&mut self, pid: u32) -> Vec<u16> {
        let sockets = sockets(pid);
        let all = self.of(pid).map_or(&[][..], |network| &network.listening);
        let own = all.iter().filter(|(socket, _)| sockets.contains(socket));
        own.map(|(_, port)| *port).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Open connections to these ports of a process's network, those that others accepted included.
    pub fn open(&mut self, pid: u32, ports: &[u16]) -> usize {
        if ports.is_empty() {
            return 0;
        }
        let open = self.of(pid).map(|network| &network.open);
        ports.iter().filter_map(|port| open?.get(port)).sum()
    }

    /// Those of them that are not accepted yet.
    pub fn waiting(&mut self, pid: u32, ports: &[u16]) -> usize {
        let waiting = self.of(pid).map(|network| &network.waiting);
        ports.iter().filter_map(|port| waiting?.get(port)).sum()
    }

    fn unix(&mut self, pid: u32) -> Option<&Unix> {
        Some(self.unix.entry(namespace(pid)?).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/unix"));
            Unix::read(&text.unwrap_or_default())
        }))
    }

    /// Paths of Unix sockets on which a process listens.
    pub fn listens_unix(&mut self, pid: u32) -> Vec<String> {
        let sockets = sockets(pid);
        let all = self.unix(pid).map_or(&[][..], |unix| &unix.listening);
        let own = all.iter().filter(|(socket, _)| sockets.contains(socket));
        own.map(|(_, path)| path.clone()).collect()
    }

    /// Open connections to these paths, those that others accepted included.
    pub fn open_unix(&mut self, pid: u32, paths: &[String]) -> usize {
        if paths.is_empty() {
            return 0;
        }
        let open = self.unix(pid).map(|unix| &unix.open);
        paths.iter().filter_map(|path| open?.get(path)).sum()
    }
}

fn namespace(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

impl Unix {
    fn read(table: &str) -> Unix {
        const ACCEPTS: &str = "00010000";
        // Those that were not accepted yet, and those that were.
        const CONNECTED: [&str; 2] = ["02", "03"];
        let mut unix = Unix::default();
        for line in table.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // Ends that connected, and pairs of sockets, have no path.
            let &[_, _, _, flags, _, state, number, ref path @ ..] = &words[..] else { continue };
            if path.is_empty() {
                continue;
            }
            let path = path.join(" ");
            match (flags, state) {
                (ACCEPTS, _) => unix.listening.push((number.to_owned(), path)),
                (_, state) if CONNECTED.contains(&state) => {
                    *unix.open.entry(path).or_default() += 1
                }
                _ => {}
            }
        }
        unix
    }
}

/// How long the kernel has for a part of its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// States of a socket.
const ESTABLISHED: u8 = 1;
const LISTENING: u8 = 10;
/// Bytes of a message's head, and of a socket in an answer (`struct nlmsghdr`, `struct
/// inet_diag_msg`).
const HEAD: usize = 16;
const SOCKET: usize = 72;

impl Network {
    /// `received` is what waits in it: of one that listens, connections.
    fn add(&mut self, state: u8, port: u16, socket: &str, received: u32) {
        match state {
            ESTABLISHED => *self.open.entry(port).or_default() += 1,
            LISTENING => {
                self.listening.push((socket.to_owned(), port));
                *self.waiting.entry(port).or_default() += received as usize;
            }
            _ => {}
        }
    }

    /// Asks in the namespace of a process. A thread that is made for it enters another namespace.
    fn asked(pid: u32) -> Result<Network> {
        let own = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
        if own("self")? == own(&pid.to_string())? {
            return Network::answered();
        }
        let there = File::open(format!("/proc/{pid}/ns/net"))?;
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))?;
            Network::answered()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Asks for the sockets of the network in which this thread is (`sock_diag(7)`).
    fn answered() -> Result<Network> {
        const BY_FAMILY: u16 = 20;
        const REQUEST_AND_DUMP: u16 = 0x301;
        const TCP: u8 = 6;
        let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
        let socket = socket_with(kind.0, kind.1, kind.2, Some(netlink::SOCK_DIAG))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let mut network = Network::default();
        let mut part = vec![0; 1 << 16];
        for family in [libc::AF_INET, libc::AF_INET6] {
            let states = 1u32 << ESTABLISHED | 1 << LISTENING;
            let mut wish = vec![HEAD as u8 + 56, 0, 0, 0];
            wish.extend([BY_FAMILY, REQUEST_AND_DUMP].map(u16::to_ne_bytes).concat());
            wish.extend([0; 8]);
            wish.extend([family as u8, TCP, 0, 0]);
            wish.extend(states.to_ne_bytes());
            wish.resize(HEAD + 56, 0);
            send(&socket, &wish, SendFlags::empty())?;
            while {
                let (bytes, _) = recv(&socket, &mut part[..], RecvFlags::empty())?;
                network.take(&part[..bytes])?
            } {}
        }
        Ok(network)
    }

    /// Takes a part of an answer. Returns whether more follow.
    fn take(&mut self, mut part: &[u8]) -> Result<bool> {
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        let number = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_ne_bytes)
        };
        while !part.is_empty() {
            let length = number(part, 0).context("half a message")? as usize;
            let kind = number(part, 4).context("half a message")? as u16;
            if kind == DONE {
                return Ok(false);
            }
            if kind == ERROR || length < HEAD || length > part.len() {
                bail!("the kernel does not tell sockets");
            }
            if let Some(socket) = part[HEAD..length].get(..SOCKET) {
                let port = u16::from_be_bytes([socket[4], socket[5]]);
                let inode = number(socket, SOCKET - 4).context("half a socket")?;
                let received = number(socket, SOCKET - 16).context("half a socket")?;
                self.add(socket[1], port, &inode.to_string(), received);
            }
            part = &part[length.next_multiple_of(4).min(part.len())..];
        }
        Ok(true)
    }

    /// Reads `/proc/PID/net/tcp` and `tcp6`.
    fn listed(pid: u32) -> Network {
        let mut network = Network::default();
        for table in ["tcp", "tcp6"] {
            if let Ok(file) = File::open(format!("/proc/{pid}/net/{table}")) {
                network.read(BufReader::new(file));
            }
        }
        network
    }

    fn read(&mut self, mut table: impl BufRead) {
        let mut line = String::new();
        while table.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            // Number, ends, state, and further on the socket's number.
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, state) = (words.next(), words.nth(1));
            let port = local.and_then(|end| end.rsplit(':').next());
            let port = port.and_then(|port| u16::from_str_radix(port, 16).ok());
            let state = state.and_then(|state| u8::from_str_radix(state, 16).ok());
            let queues = words.next().and_then(|queues| queues.split_once(':'));
            let received = queues.and_then(|(_, queue)| u32::from_str_radix(queue, 16).ok());
            if let (Some(port), Some(state), Some(socket)) = (port, state, words.nth(4)) {
                self.add(state, port, socket, received.unwrap_or(0));
            }
            line.clear();
        }
    }
}

/// Numbers of a process's sockets.
fn sockets(pid: u32) -> BTreeSet<String> {
    let mut sockets = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy();
        let number = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        if let Some(number) = number {
            sockets.insert(number.to_owned());
        }
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_and_what_is_open_is_read_from_a_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0\n\
                     1: 0100007F:1F90 0100007F:C35A 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4\n\
                     2: 0100007F:1F90 0100007F:C35B 06 00000000:00000000 03:00001234 00000000     0        0 0 3 0\n\
                     3: half a li";
        let mut network = Network::default();
        network.read(table.as_bytes());
        assert_eq!(network.listening, [("4711".to_owned(), 0x1F90)]);
        assert_eq!(network.open, BTreeMap::from([(0x1F90, 1)]));
    }

    #[test]
    fn the_kernel_answers_what_its_table_lists() {
        let own = std::process::id();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // There may be no second family.
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let address = listener.local_addr().expect("bound");
            let port = address.port();
            let _clients = [0; 3].map(|_| std::net::TcpStream::connect(address).expect("queued"));
            for network in [Network::asked(own).expect("an answer"), Network::listed(own)] {
                let mut networks = Networks::default();
                networks.tcp.insert(namespace(own).expect("a network"), network);
                assert!(networks.listens(own).contains(&port), "{address}");
                assert_eq!(networks.open(own, &[port]), 3, "{address}");
                assert_eq!(networks.waiting(own, &[port]), 3, "{address}");
            }
        }
    }

    #[test]
    fn connections_of_a_unix_socket_are_counted_at_its_path() {
        let own = std::process::id();
        let folder = std::env::temp_dir().join(format!("headworks unix {own}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let connect = |_| std::os::unix::net::UnixStream::connect(&path).expect("queued");
        let _clients = [0; 3].map(connect);
        let _one = listener.accept().expect("a connection");
        let _pair = std::os::unix::net::UnixStream::pair().expect("two sockets");
        let mut networks = Networks::default();
        let paths = networks.listens_unix(own);
        let _ = std::fs::remove_dir_all(&folder);
        assert!(paths.contains(&path.to_string_lossy().into_owned()), "{paths:?}");
        // Those that are not accepted yet wait, too.
        assert_eq!(networks.open_unix(own, &[path.to_string_lossy().into_owned()]), 3);
    }

    #[test]
    fn half_an_answer_is_none() {
        let mut network = Network::default();
        assert!(network.take(&[9, 0, 0]).is_err());
        assert!(network.take(&[200, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let error = [16, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(network.take(&error).is_err());
        let done = [16, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(!network.take(&done).expect("the end") && network.open.is_empty());
    }
}
