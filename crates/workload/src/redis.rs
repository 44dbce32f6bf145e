//! Many connections to a Redis, each with a number of commands in flight. The load is like that of
//! redis-benchmark, but counted for each connection and each group.
//!
//! A connection sends `pipeline` times `SET key value` and waits until all are answered; then it
//! repeats that, perhaps after a pause. The latency of a batch is that of its last answer.
//!
//! Each group has its own thread, as its account would have its own machine. An answer to one of
//! four connections must not wait in the client behind those to two hundred others. That would
//! count as the server's latency. For the same reason threads of groups that pause have priority
//! over the others, if the process may set it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};

use crate::priority;
use crate::random::Random;

/// The server's answer to each command.
const ANSWER: &[u8] = b"+OK\r\n";

/// Latencies above this count as this.
const LONGEST_US: u64 = 600_000_000;

/// Keys that connections choose from.
const KEYS: i64 = 100_000;

/// Longest sleep of a thread that may be asked to stop.
const TENTH: Duration = Duration::from_millis(100);

/// Connections of the same account with the same load.
#[derive(Debug, Clone)]
pub struct Group {
    /// Account to log in as, with any password; `None` for the default one.
    pub account: Option<String>,
    /// Connections.
    pub connections: usize,
    /// Commands that each has in flight.
    pub pipeline: usize,
    /// Mean pause of each between two batches, exponentially distributed; zero for none.
    pub pause: Duration,
}

/// How long to load the server.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Before anything counts.
    pub warm_up: Duration,
    /// What counts.
    pub window: Duration,
}

/// A group's results in the window.
#[derive(Debug)]
pub struct Served {
    /// Commands answered, for each connection.
    pub commands: Vec<u64>,
    /// Latencies of batches, in microseconds.
    pub latency_us: Histogram<u64>,
}

struct Connection {
    stream: TcpStream,
    batch: Vec<u8>,
    /// Bytes of the answer still to come.
    left: usize,
    begun: Instant,
    /// While it pauses: until when.
    pauses_until: Option<Instant>,
}

/// Loads the server at `address` until the time is over, or until `go_on` (called ten times a
/// second) returns false.
///
/// # Errors
/// Those of sockets, a connection that the server closes, and a wrong answer.
pub fn run(
    address: SocketAddr,
    groups: &[Group],
    time: Time,
    seed: u64,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<Vec<Served>> {
    // All are connected before any of them begins.
    let ready = Barrier::new(groups.len());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = groups
            .iter()
            .zip(seed..)
            .map(|(group, seed)| {
                let (ready, stop) = (&ready, &stop);
                scope.spawn(move || load(address, group, time, seed, ready, stop))
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            if !go_on() {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(TENTH);
        }
        let failed = |_| io::Error::other("a thread of the load panicked");
        threads.into_iter().map(|thread| thread.join().map_err(failed)?).collect()
    })
}

/// A histogram with fixed bounds. One that resizes itself does not do so for values that may
/// saturate: it counts them as the least.
fn latencies() -> io::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_US, 3).map_err(io::Error::other)
}

/// One group.
fn load(
    address: SocketAddr,
    group: &Group,
    time: Time,
    seed: u64,
    ready: &Barrier,
    stop: &AtomicBool,
) -> io::Result<Served> {
    if !group.pause.is_zero() {
        priority::go_ahead();
    }
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut random = Random::stream(seed, 0);
    let connected = connect(&set, address, group, &mut random);
    ready.wait();
    let mut connections = connected?;
    let latency_us = latencies()?;
    let mut served = Served { commands: vec![0; group.connections], latency_us };
    for connection in &mut connections {
        connection.begin(&mut random)?;
    }
    let from = Instant::now() + time.warm_up;
    let until = from + time.window;
    let mut events =
        vec![
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
            1024
        ];
    let mut answer = vec![0; ANSWER.len() * 64 * 16];
    loop {
        let due = connections.iter().filter_map(|connection| connection.pauses_until).min();
        let sleep = due.map_or(TENTH, |due| due.duration_since(Instant::now()).min(TENTH));
        // Less than a second.
        let sleep = Timespec { tv_sec: 0, tv_nsec: sleep.subsec_nanos().into() };
        let ready = match epoll::wait(&set, &mut events, Some(&sleep)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        if now >= until || stop.load(Ordering::Relaxed) {
            return Ok(served);
        }
        for event in events.iter().take(ready) {
            let at = usize::try_from(event.data.u64()).map_err(io::Error::other)?;
            let Some(connection) = connections.get_mut(at) else { continue };
            if !connection.receive(&mut answer)? {
                continue;
            }
            if now >= from && connection.begun >= from {
                served.commands[at] += group.pipeline as u64;
                // Saturates above any real batch.
                let us = u64::try_from(connection.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                served.latency_us.saturating_record(us);
            }
            if group.pause.is_zero() {
                connection.begin(&mut random)?;
            } else {
                let pause = random.exponential(group.pause.as_secs_f64());
                connection.pauses_until = Some(now + Duration::from_secs_f64(pause));
            }
        }
        if group.pause.is_zero() {
            continue;
        }
        for connection in &mut connections {
            if connection.pauses_until.is_some_and(|until| until <= Instant::now()) {
                connection.pauses_until = None;
                connection.begin(&mut random)?;
            }
        }
    }
}

fn connect(
    set: &OwnedFd,
    address: SocketAddr,
    group: &Group,
    random: &mut Random,
) -> io::Result<Vec<Connection>> {
    let mut connections = Vec::new();
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
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(set, &stream, data, epoll::EventFlags::IN)?;
        let batch = command(random).repeat(group.pipeline);
        let begun = Instant::now();
        connections.push(Connection { stream, batch, left: 0, begun, pauses_until: None });
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
        // The server has read everything sent before, so there is room for a batch.
        self.stream.write_all(&self.batch)
    }

    /// Reads what has come of the answer; returns whether that was all.
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
    fn a_long_latency_is_no_short_one() {
        let mut histogram = latencies().unwrap();
        histogram.saturating_record(5_000_000);
        assert!(histogram.equivalent(histogram.max(), 5_000_000), "{}", histogram.max());
    }

    #[test]
    fn every_connection_is_counted() {
        if !LoopKind::Redis.is_here_or_skip() {
            return;
        }
        let server = LoopServer::builder(LoopKind::Redis).start().unwrap();
        let group = |connections, pipeline| Group {
            account: None,
            connections,
            pipeline,
            pause: Duration::ZERO,
        };
        let time = Time { warm_up: Duration::from_millis(100), window: Duration::from_millis(400) };
        let groups = [group(5, 1), group(2, 16)];
        let served = run(server.address(), &groups, time, 1, || true).unwrap();
        assert_eq!((served[0].commands.len(), served[1].commands.len()), (5, 2));
        for (group, served) in groups.iter().zip(&served) {
            let sum: u64 = served.commands.iter().sum();
            assert!(served.commands.iter().all(|&count| count > 0), "{:?}", served.commands);
            assert_eq!(sum, served.latency_us.len() * group.pipeline as u64);
        }
        let rests = Group { pause: Duration::from_millis(5), ..group(2, 1) };
        let rested = run(server.address(), &[rests, group(2, 1)], time, 1, || true).unwrap();
        let [rested, busy] = [0, 1].map(|at: usize| rested[at].commands.iter().sum::<u64>());
        assert!((1..busy).contains(&rested), "{rested} with pauses, {busy} without");
        let unknown = Group { account: Some("unknown".to_owned()), ..group(1, 1) };
        assert!(run(server.address(), &[unknown], time, 1, || true).is_err());
    }
}
