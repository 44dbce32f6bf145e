//! Listening, the connections' threads, and their end.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};

use super::connection;
use super::directory::{Directory, Origin, Unserved};
use super::link::Link;

/// Send buffer of a Unix socket.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Limits for each client and for all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections. Each may hold about 72 MiB of payloads (32 MiB of requests in flight, one
    /// more in each direction, and buffers) and two threads. More connections are hung up at once.
    /// Default 64. An eighth more are kept for places (a user of this machine, an address) that
    /// have less than an eighth.
    pub connections: usize,
    /// Most requests in flight on one connection. More wait in its socket. Default 256.
    pub requests: u32,
    /// How long a handshake may take. Default 10 s.
    pub handshake: Duration,
    /// How long a client may leave a request unfinished, or its replies unread, before it is hung
    /// up. Between requests it may be silent for ever. Default 30 s.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 64,
            requests: 256,
            handshake: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

/// Figures of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections, including those in the handshake.
    pub connections: usize,
    /// Connections since the start.
    pub accepted: u64,
    /// Connections over the limit, which were hung up at once.
    pub turned_away: u64,
    /// Requests in flight.
    pub requests: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

/// Stops a server, and reads its figures, from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<StopInner>);

#[derive(Debug)]
struct StopInner {
    stopping: AtomicBool,
    wake: OwnedFd,
    links: Mutex<Links>,
    ended: Condvar,
}

#[derive(Default)]
struct Links {
    next: u64,
    /// All connections; those in the transmission phase have a link.
    all: BTreeMap<u64, Entry>,
    /// How many come from each place.
    places: HashMap<Place, usize>,
    accepted: u64,
    turned_away: u64,
}

/// Whence connections come: a user of this machine, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Unix(u32),
    Tcp(IpAddr),
}

impl From<Origin> for Place {
    fn from(origin: Origin) -> Place {
        match origin {
            Origin::Unix { uid } => Place::Unix(uid),
            Origin::Tcp(address) => Place::Tcp(address.ip()),
        }
    }
}

/// A connection: its socket during the handshake, then its link.
enum Entry {
    Handshake(OwnedFd),
    Link(Arc<Link>),
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("open", &self.all.len()).finish()
    }
}

impl Stop {
    /// For a server that is about to start.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn new() -> io::Result<Stop> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop(Arc::new(StopInner {
            stopping: AtomicBool::new(false),
            wake,
            links: Mutex::default(),
            ended: Condvar::new(),
        })))
    }

    /// Ends the server: no new connections and no new requests; requests in flight are answered.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Release);
        // An eventfd's counter cannot overflow by a few additions of one.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    /// What goes on.
    pub fn counts(&self) -> Counts {
        let links = self.lock();
        let mut counts = Counts {
            connections: links.all.len(),
            accepted: links.accepted,
            turned_away: links.turned_away,
            requests: 0,
            bytes: 0,
        };
        for entry in links.all.values() {
            if let Entry::Link(link) = entry {
                let load = link.load();
                counts.requests += u64::from(load.requests);
                counts.bytes += load.bytes;
            }
        }
        counts
    }

    /// Hangs up the connections to exports of these names. When this returns, none of their
    /// requests is at the volume, and none will be. False if that took longer than `patience`.
    pub fn end_exports(&self, which: impl Fn(&str) -> bool, patience: Duration) -> bool {
        let mut ended = Vec::new();
        for entry in self.lock().all.values() {
            if let Entry::Link(link) = entry
                && which(&link.terms.export)
            {
                link.hang_up();
                ended.push(Arc::clone(link));
            }
        }
        ended.iter().all(|link| link.fence.close(patience))
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where clients come to.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    /// The inode tells at the end whether the file is still ours to remove.
    Unix(UnixListener, PathBuf, u64),
}

impl Listener {
    /// Listens on a TCP port; port 0 means any free one. NBD's port is 10809.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Listener> {
        Ok(Listener { kind: Kind::Tcp(TcpListener::bind(address)?) })
    }

    /// Listens on a Unix socket. A socket that a dead server left behind is replaced.
    ///
    /// # Errors
    /// A server is there already, the path is not a socket, or the directory is missing.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Listener> {
        let path = path.as_ref();
        if let Ok(found) = std::fs::symlink_metadata(path) {
            let refused = |words: &str| {
                let words = format!("cannot listen on {}: {words}", path.display());
                Err(io::Error::new(io::ErrorKind::AddrInUse, words))
            };
            if !found.file_type().is_socket() {
                return refused("it exists and is no socket; name another path");
            }
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                }
                _ => return refused("a server is there already; stop it or name another path"),
            }
        }
        let listener = UnixListener::bind(path)?;
        let inode = std::fs::symlink_metadata(path)?.ino();
        Ok(Listener { kind: Kind::Unix(listener, path.to_owned(), inode) })
    }

    /// The address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix(..) => None,
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // A client that is gone is noticed at its first read; the options are not
                // essential.
                let _ = stream.set_nodelay(true);
                // A peer whose machine has vanished is noticed after two minutes.
                let _ = sockopt::set_socket_keepalive(&stream, true);
                let _ = sockopt::set_tcp_keepidle(&stream, Duration::from_secs(60));
                let _ = sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(10));
                let _ = sockopt::set_tcp_keepcnt(&stream, 6);
                Ok(stream.into())
            }
            Kind::Unix(listener, ..) => {
                let (stream, _) = listener.accept()?;
                // Large replies go out in fewer pieces. The kernel caps the size, and TCP sockets
                // size themselves.
                let _ = sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                Ok(stream.into())
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(listener) => listener.set_nonblocking(true),
            Kind::Unix(listener, ..) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener, ..) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path, inode) = &self.kind
            && std::fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            // If it is gone already, that is fine.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What the threads of a server share.
pub(super) struct Shared {
    pub(super) directory: Box<dyn Directory>,
    pub(super) limits: Limits,
    stop: Stop,
}

impl Shared {
    pub(super) fn stopping(&self) -> bool {
        self.stop.0.stopping.load(Ordering::Acquire)
    }

    /// The connection goes on with another socket, in its handshake.
    pub(super) fn secured(&self, id: u64, socket: &OwnedFd) -> io::Result<()> {
        let copy = socket.try_clone()?;
        self.stop.lock().all.insert(id, Entry::Handshake(copy));
        Ok(())
    }

    /// The connection has begun its transmission phase. Earlier ones to the same export that are
    /// over give way to it. False if they do not in time, or if a later one is there already and
    /// this one is over, or of the same session: its client went on there.
    pub(super) fn register(&self, id: u64, link: &Arc<Link>) -> bool {
        let same = |other: &Link| other.terms.export == link.terms.export;
        let session = &link.terms.session;
        let mut earlier = Vec::new();
        {
            let mut links = self.stop.lock();
            for (at, entry) in &links.all {
                let Entry::Link(other) = entry else { continue };
                if *at < id && same(other) {
                    earlier.push(Arc::clone(other));
                }
                let same_session = !session.is_empty() && other.terms.session == *session;
                if *at > id && same(other) && (same_session || link.is_broken()) {
                    return false;
                }
            }
            links.all.insert(id, Entry::Link(link.clone()));
        }
        link.settle(&earlier);
        let broken = Link::broken(&earlier);
        earlier.iter().zip(broken).all(|(other, broken)| other.give_way(session, broken))
    }

    fn unregister(&self, id: u64, place: Place) {
        let mut links = self.stop.lock();
        links.all.remove(&id);
        if let hash_map::Entry::Occupied(mut count) = links.places.entry(place) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        drop(links);
        self.stop.0.ended.notify_all();
    }
}

/// Removes a connection, however its thread ends.
struct Registered<'a>(&'a Shared, u64, Place);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.unregister(self.1, self.2);
    }
}

/// Serves what `directory` offers to clients of `listener` until `stop` is set. On return every
/// request that was read is answered, and no thread of the server is left.
///
/// # Errors
/// The listener fails. Errors of a client end only its connection.
pub fn serve(
    listener: Listener,
    directory: impl Directory + 'static,
    limits: Limits,
    stop: &Stop,
) -> io::Result<()> {
    let directory = Box::new(directory);
    let shared = Arc::new(Shared { directory, limits, stop: stop.clone() });
    listener.set_nonblocking()?;
    let served = accept_all(&listener, &shared);
    drop(listener);
    end_all(&shared);
    served
}

fn accept_all(listener: &Listener, shared: &Arc<Shared>) -> io::Result<()> {
    loop {
        let wake = &shared.stop.0.wake;
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if shared.stopping() {
            return Ok(());
        }
        match listener.accept() {
            Ok(socket) => welcome(shared, socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => match error.raw_os_error() {
                // The listener is broken: nothing will ever come.
                Some(libc::EBADF | libc::ENOTSOCK | libc::EINVAL | libc::EOPNOTSUPP) => {
                    return Err(error);
                }
                Some(libc::ECONNABORTED | libc::EINTR) => {}
                // No descriptor or memory is free, or the network is down for that client. Some
                // connection will end; until then no client is accepted.
                _ => std::thread::sleep(Duration::from_millis(100)),
            },
        }
    }
}

/// Gives a client its thread, or refuses it.
fn welcome(shared: &Arc<Shared>, socket: OwnedFd) {
    // A client that is gone already has no address.
    let Ok(origin) = connection::origin(&socket) else { return };
    let place = Place::from(origin);
    let id = {
        let mut links = shared.stop.lock();
        links.accepted += 1;
        let has = links.places.get(&place).copied().unwrap_or(0);
        let most = shared.limits.connections;
        let few = (most / 8).max(1);
        let there_is_room = links.all.len() < most || has < few && links.all.len() < most + few;
        let copy = socket.try_clone();
        let (true, Ok(copy)) = (there_is_room, copy) else {
            links.turned_away += 1;
            drop(links);
            return shared.directory.unserved(Unserved::Full { origin, has });
        };
        links.next += 1;
        let id = links.next;
        links.all.insert(id, Entry::Handshake(copy));
        *links.places.entry(place).or_default() += 1;
        id
    };
    let thread_shared = shared.clone();
    let spawned = std::thread::Builder::new().name(format!("nbd-{id}")).spawn(move || {
        let _registered = Registered(&thread_shared, id, place);
        connection::serve(&thread_shared, id, socket);
    });
    if spawned.is_err() {
        // Without a thread there is no entry: the socket was closed with the closure.
        shared.unregister(id, place);
    }
}

/// Ends every connection. Answers still go out if the client reads them in time.
fn end_all(shared: &Shared) {
    let deadline = Instant::now() + shared.limits.patience;
    let mut links = shared.stop.lock();
    while !links.all.is_empty() {
        let late = Instant::now() >= deadline;
        for entry in links.all.values() {
            match entry {
                // A handshake can be cut.
                Entry::Handshake(socket) => {
                    let _ = shutdown(socket, Shutdown::Both);
                }
                Entry::Link(link) if late => link.hang_up(),
                Entry::Link(link) => link.stop_reading(),
            }
        }
        // A connection between handshake and transmission is closed in the next pass.
        let wait = Duration::from_millis(20);
        let waited = shared.stop.0.ended.wait_timeout(links, wait);
        links = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
