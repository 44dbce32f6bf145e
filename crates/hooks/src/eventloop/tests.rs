//! Event loops without a server: the tests make its calls, and let another thread use a connection
//! for as long as they want.

use super::connection::{self, LoopConnection, QueueState};
use super::control::{Registration, created, prepare, settled};
use super::turn::{accepted, close, received, sent};
use super::wait::{Sleep, after_wait, before_wait};
use super::{closing_set, waits};
use crate::conn::{self, Conn};
use crate::mysql::Opaque;
use crate::process;
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;
use headworks_region::control::Settings;
use headworks_region::session::SessionSlot;
use headworks_region::{Mapping, Protocol, Region, State, clock};
use libc::epoll_event;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const IN: u32 = libc::EPOLLIN as u32;

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";

/// The region of this process, which has a daemon's heartbeat from here on.
fn region() -> &'static Region {
    static REGION: OnceLock<&'static Region> = OnceLock::new();
    REGION.get_or_init(|| {
        let path = format!("/dev/shm/headworks-loops-{}", std::process::id());
        let mapping = Mapping::create(&std::ffi::CString::new(path.as_str()).unwrap(), None);
        std::fs::remove_file(&path).unwrap();
        let region = mapping.unwrap().region();
        region.set_protocol(Protocol::Redis);
        process::attach(region);
        std::thread::spawn(|| {
            loop {
                // Of the future, so that a busy machine may pause for a second.
                let ahead = clock::now() + Nanos::from_millis(500);
                region.heartbeat.alive_ns.store(ahead.0, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        while region.heartbeat.stale(clock::now()) {
            std::thread::yield_now();
        }
        region
    })
}

/// An epoll set, as far as the hooks know it, of a server behind the gate.
struct Loop {
    region: &'static Region,
    set: i32,
    // One after the other: they share the permits.
    _alone: MutexGuard<'static, ()>,
}

impl Loop {
    fn start(parallelism: u32) -> Loop {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let region = region();
        region.set_pooled(true);
        let long = Nanos::from_millis(900_000);
        let settings = Settings { hold_max: long, idle_limit: long, ..Settings::default() };
        region.apply(&Settings { parallelism, ..settings });
        // SAFETY: takes a number.
        let set = unsafe { libc::epoll_create1(0) };
        assert!(set >= 0);
        created(set);
        waits(set);
        Loop { region, set, _alone: alone }
    }

    fn add(&self, fd: i32) -> Option<Registration> {
        let registration = prepare(self.set, libc::EPOLL_CTL_ADD, fd, Some((IN, 7)))?;
        settled(registration, true);
        Some(registration)
    }

    fn client(&self) -> Client {
        let (client, server) = UnixStream::pair().unwrap();
        let fd = server.as_raw_fd();
        accepted(fd, Protocol::Redis);
        assert!(self.add(fd).unwrap().real.is_some());
        let connection = connection::client(fd).unwrap();
        Client {
            client,
            server,
            fd,
            connection,
            slot: self.region.session(connection.session_id().unwrap()).unwrap(),
        }
    }

    fn sleep(&self) -> Sleep {
        before_wait(self.set, clock::now())
    }

    /// How many events the server is told if the kernel tells of these clients.
    fn told(&self, ready: &[&Client]) -> usize {
        let mut events = [epoll_event { events: IN, u64: 0 }; 8];
        for (event, client) in events.iter_mut().zip(ready) {
            event.u64 = client.connection.tag(client.fd);
        }
        after_wait(self.set, &mut events, ready.len())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        closing_set(self.set);
        // SAFETY: the set is ours.
        unsafe { libc::close(self.set) };
    }
}

struct Client {
    client: UnixStream,
    server: UnixStream,
    fd: i32,
    connection: &'static LoopConnection,
    slot: &'static SessionSlot,
}

impl Client {
    fn asks(&mut self) {
        self.client.write_all(GET).unwrap();
    }

    /// The server reads what was sent.
    fn is_read(&mut self) {
        let mut bytes = [0; 64];
        let count = self.server.read(&mut bytes).unwrap();
        received(self.connection, &bytes[..count]);
    }

    fn is(&self) -> (QueueState, State) {
        (self.connection.queue_state(), self.slot.state())
    }

    fn commands(&self) -> u32 {
        self.connection.try_use().unwrap().inner().unwrap().framing.commands().0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        close(self.fd, self.connection);
    }
}

const SERVED: (QueueState, State) = (QueueState::Served, State::Running);
const HELD: (QueueState, State) = (QueueState::Held, State::Queued);
const OUT: (QueueState, State) = (QueueState::Out, State::Idle);

#[test]
fn a_turn_ends_although_another_thread_was_at_it_when_the_loop_came_back() {
    let it = Loop::start(1);
    let (mut one, mut other) = (it.client(), it.client());
    one.asks();
    assert_eq!(it.told(&[&one]), 1);
    one.is_read();
    let busy = one.connection.try_use().unwrap();
    assert_eq!((it.told(&[]), one.is()), (0, SERVED));
    // Not at once: the other thread needs the processor, too.
    assert_eq!((it.sleep(), one.is()), (Sleep::AtMost(Nanos::from_millis(1)), SERVED));
    // Also while another session waits for the permit.
    other.asks();
    assert_eq!((it.told(&[&other]), other.is()), (0, HELD));
    assert_eq!((it.sleep(), one.is()), (Sleep::AtMost(Nanos::from_millis(1)), SERVED));
    drop(busy);
    assert_eq!((it.sleep(), one.is()), (Sleep::None, SERVED));
    assert_eq!((it.told(&[]), one.is(), other.is()), (1, OUT, SERVED));
    other.is_read();
    assert_eq!((it.told(&[]), other.is()), (0, OUT));
}

#[test]
fn a_user_is_held_on_although_another_thread_was_at_it_when_the_loop_looked() {
    let it = Loop::start(1);
    let (mut one, mut other) = (it.client(), it.client());
    one.asks();
    other.asks();
    assert_eq!((it.told(&[&one, &other]), other.is()), (1, HELD));
    one.is_read();
    // The transaction keeps the permit: client and server are known to be slow.
    one.slot.gap_us.store(60_000, Ordering::Relaxed);
    one.slot.run_us.store(60_000, Ordering::Relaxed);
    received(one.connection, b"MULTI\r\n");
    sent(one.connection, b"$-1\r\n+OK\r\n");
    assert_eq!((it.told(&[]), one.is()), (0, (QueueState::Kept, State::Running)));
    let busy = other.connection.try_use().unwrap();
    assert_eq!((it.sleep(), other.is()), (Sleep::AtMost(Nanos::from_millis(1)), HELD));
    assert_eq!((it.told(&[]), other.is()), (0, HELD));
    drop(busy);
    assert_eq!((it.told(&[]), other.is()), (0, HELD));
    assert_eq!((it.told(&[&one]), one.is()), (1, SERVED));
    received(one.connection, b"EXEC\r\n");
    sent(one.connection, b"*0\r\n");
    // Not passed: its turn has come.
    assert_eq!((it.told(&[]), one.is(), other.is()), (1, OUT, SERVED));
}

#[test]
fn whose_bytes_could_not_be_followed_is_left_alone_and_has_no_place() {
    let it = Loop::start(1);
    let (mut one, mut other) = (it.client(), it.client());
    one.asks();
    other.asks();
    assert_eq!(it.told(&[&one, &other]), 1);
    let busy = one.connection.try_use().unwrap();
    one.is_read();
    assert!(one.connection.is_left_alone());
    assert_eq!(one.is(), (QueueState::Served, State::Idle));
    drop(busy);
    // The kernel tells of the other again: its turn came while no thread was in the loop.
    assert_eq!((it.told(&[&other]), one.is(), other.is()), (1, OUT, SERVED));
    other.is_read();
    // It passes from here on.
    one.asks();
    assert_eq!(it.told(&[&one]), 1);
    // The thread that used it has given it a permit in that very moment.
    one.slot.set_state(State::Running);
    one.is_read();
    assert_eq!((it.told(&[]), one.is()), (0, OUT));
}

#[test]
fn who_is_at_a_connection_for_longer_is_waited_for() {
    let it = Loop::start(1);
    // On a busy machine it may be for too long.
    let followed = (0..20).any(|_| {
        let mut one = it.client();
        one.asks();
        it.told(&[&one]);
        let busy = one.connection.try_use().unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            drop(busy);
        });
        one.is_read();
        other.join().unwrap();
        !one.connection.is_left_alone() && one.commands() == 1
    });
    assert!(followed);
}

/// A connection of a server whose threads are followed by `threads`.
struct Accepted {
    _client: UnixStream,
    server: UnixStream,
    conn: &'static Conn,
}

impl Accepted {
    fn new(it: &Loop) -> Accepted {
        let (_client, server) = UnixStream::pair().unwrap();
        let conn = conn::find_or_make(server.as_raw_fd()).unwrap();
        let session_id = it.region.register(std::process::id(), clock::now()).unwrap();
        conn.try_use().unwrap().begin(session_id);
        Accepted { _client, server, conn }
    }

    fn is_greeted(&self) {
        let mut greeting = b"\x0a10.11.0\0\x01\0\0\0saltsalt\0".to_vec();
        greeting.extend_from_slice(&[0x00, 0x8a, 8, 2, 0, 0, 0, 21]);
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"moresaltmore\0");
        self.conn.try_use().unwrap().session.server_bytes(&packet(0, &greeting));
    }

    fn says(&self, sequence: u8, body: &[u8]) {
        self.conn.try_use().unwrap().session.client_bytes(&packet(sequence, body));
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        if let Some(connection) = connection::client(self.server.as_raw_fd()) {
            close(self.server.as_raw_fd(), connection);
        }
        self.conn.end(|session_id| region().unregister(session_id));
    }
}

fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![body.len() as u8, 0, 0, sequence];
    packet.extend_from_slice(body);
    packet
}

/// A handshake response, or as much of it as comes before TLS.
fn login(capabilities: u8, rest: &[u8]) -> Vec<u8> {
    let mut login = vec![0x00, capabilities, 0, 0, 0, 0, 0, 1, 8];
    login.extend_from_slice(&[0; 23]);
    login.extend_from_slice(rest);
    login
}

#[test]
fn a_pool_holds_only_those_who_have_logged_in() {
    let it = Loop::start(1);
    let one = Accepted::new(&it);
    let fd = one.server.as_raw_fd();
    // As the sockets of a cluster, whose bytes are not seen, or are none of the protocol.
    assert!(it.add(fd).is_none());
    let other = Accepted::new(&it);
    other.is_greeted();
    other.says(9, b"no login");
    assert!(other.conn.try_use().unwrap().session.opaque().is_some());
    assert!(it.add(other.server.as_raw_fd()).is_none());
    // The same one as a client.
    one.is_greeted();
    assert!(it.add(fd).is_none());
    one.says(1, &login(0x82, b"app\0\0"));
    // Of a server without a pool.
    it.region.set_pooled(false);
    assert!(it.add(fd).is_none());
    it.region.set_pooled(true);
    assert!(it.add(fd).unwrap().real.is_some());
    assert!(connection::client(fd).unwrap().is_elsewhere());
}

#[test]
fn a_pool_has_clients_whose_login_nobody_can_read() {
    let it = Loop::start(1);
    let one = Accepted::new(&it);
    one.is_greeted();
    one.says(1, &login(0x8a, b""));
    assert_eq!(one.conn.try_use().unwrap().session.opaque(), Some(Opaque::Tls));
    assert!(it.add(one.server.as_raw_fd()).is_some());
}
