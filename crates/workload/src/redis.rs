//! Many connections to a Redis from one thread, each with a number of commands under way: a load like that of
//! redis-benchmark, but counted for each connection and each group of them.
//!
//! A connection sends `pipeline` times `SET key value` and waits until all are answered; then it begins anew. The latency
//! of a batch is that of its last answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};

use crate::random::Random;

/// What the server says to each command.
const ANSWER: &[u8] = b"+OK\r\n";

/// Keys that connections choose from.
const KEYS: i64 = 100_000;

/// Connections of the same account that do the same.
#[derive(Debug, Clone)]
pub struct Group {
    /// Account to log in as, with any password; `None` for the default one.
    pub account: Option<String>,
    /// Connections.
    pub connections: usize,
    /// Commands that each has under way.
    pub pipeline: usize,
}

/// How long to load the server.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Before anything counts.
    pub warm_up: Duration,
    /// What counts.
    pub window: Duration,
}

/// What a group was served in the window.
#[derive(Debug)]
pub struct Served {
    /// Commands answered, for each connection.
    pub commands: Vec<u64>,
    /// Latencies of batches, in microseconds.
    pub latency_us: Histogram<u64>,
}

struct Connection {
    stream: TcpStream,
    group: usize,
    number: usize,
    batch: Vec<u8>,
    /// Bytes of the answer still to come.
    left: usize,
    begun: Instant,
}

/// Loads the server at `address` until the time is over, or `go_on` (asked ten times a second) says no.
///
/// # Errors
/// What a socket says, a connection that the server closes, and an answer that is none.
pub fn run(
    address: SocketAddr,
    groups: &[Group],
    time: Time,
    seed: u64,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<Vec<Served>> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut random = Random::new(seed, 0);
    let mut connections = connect(&set, address, groups, &mut random)?;
    let mut served = groups
        .iter()
        .map(|group| {
            let latency_us = Histogram::new(3).map_err(io::Error::other)?;
            Ok(Served { commands: vec![0; group.connections], latency_us })
        })
        .collect::<io::Result<Vec<_>>>()?;
    for connection in &mut connections {
        connection.begin(&mut random)?;
    }
    let from = Instant::now() + time.warm_up;
    let until = from + time.window;
    let mut asked = Instant::now();
    let mut events =
        vec![
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
            1024
        ];
    let mut answer = vec![0; ANSWER.len() * 64 * 16];
    loop {
        let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let ready = match epoll::wait(&set, &mut events, Some(&tenth)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        if now >= until || (now.duration_since(asked) > Duration::from_millis(100) && !go_on()) {
            return Ok(served);
        }
        if now.duration_since(asked) > Duration::from_millis(100) {
            asked = now;
        }
        for event in events.iter().take(ready) {
            let at = usize::try_from(event.data.u64()).map_err(io::Error::other)?;
            let Some(connection) = connections.get_mut(at) else { continue };
            if !connection.receive(&mut answer)? {
                continue;
            }
            if now >= from && connection.begun >= from {
                let group = &mut served[connection.group];
                group.commands[connection.number] += groups[connection.group].pipeline as u64;
                // Saturates beyond what any batch takes.
                let us = u64::try_from(connection.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                group.latency_us.saturating_record(us);
            }
            connection.begin(&mut random)?;
        }
    }
}

fn connect(
    set: &OwnedFd,
    address: SocketAddr,
    groups: &[Group],
    random: &mut Random,
) -> io::Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for number in 0..group.connections {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            if let Some(account) = &group.account {
                let login =
                    format!("*3\r\n$4\r\nAUTH\r\n${}\r\n{account}\r\n$1\r\nx\r\n", account.len());
                stream.write_all(login.as_bytes())?;
                let mut answer = [0; ANSWER.len()];
                stream.read_exact(&mut answer)?;
                if answer != ANSWER {
                    return Err(io::Error::other(format!(
                        "the server refuses the account `{account}`"
                    )));
                }
            }
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(connections.len() as u64);
            epoll::add(set, &stream, data, epoll::EventFlags::IN)?;
            let batch = command(random).repeat(group.pipeline);
            let begun = Instant::now();
            connections.push(Connection { stream, group: at, number, batch, left: 0, begun });
        }
    }
    Ok(connections)
}

fn command(random: &mut Random) -> Vec<u8> {
    let key = random.within(0, KEYS - 1);
    format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:{key:08}\r\n$3\r\nxxx\r\n").into_bytes()
}

impl Connection {
    fn begin(&mut self, random: &mut Random) -> io::Result<()> {
        let one = command(random);
        let pipeline = self.batch.len() / one.len();
        self.batch[..one.len()].copy_from_slice(&one);
        self.left = pipeline * ANSWER.len();
        self.begun = Instant::now();
        // The server has read all that was sent before, so there is room for a batch.
        self.stream.write_all(&self.batch)
    }

    /// Takes what is there of the answer; whether that was all.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match self.stream.read(buffer) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
            Ok(count)
                if count <= self.left
                    && buffer[..count].iter().all(|byte| ANSWER.contains(byte)) =>
            {
                self.left -= count;
                Ok(self.left == 0)
            }
            Ok(count) => {
                let said = String::from_utf8_lossy(&buffer[..count.min(200)]).into_owned();
                Err(io::Error::other(format!("the server said: {said}")))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_rig::{LoopKind, LoopServer};

    #[test]
    fn every_connection_is_counted() {
        if !LoopKind::Redis.is_here_or_skip() {
            return;
        }
        let server = LoopServer::builder(LoopKind::Redis).start().unwrap();
        let group = |connections, pipeline| Group { account: None, connections, pipeline };
        let time = Time { warm_up: Duration::from_millis(100), window: Duration::from_millis(400) };
        let groups = [group(5, 1), group(2, 16)];
        let served = run(server.address(), &groups, time, 1, || true).unwrap();
        assert_eq!((served[0].commands.len(), served[1].commands.len()), (5, 2));
        for (group, served) in groups.iter().zip(&served) {
            let sum: u64 = served.commands.iter().sum();
            assert!(served.commands.iter().all(|&count| count > 0), "{:?}", served.commands);
            assert_eq!(sum, served.latency_us.len() * group.pipeline as u64);
        }
        let nobody = Group { account: Some("nobody".to_owned()), ..group(1, 1) };
        assert!(run(server.address(), &[nobody], time, 1, || true).is_err());
    }
}
