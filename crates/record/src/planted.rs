//! Small servers with a planted bottleneck: what `headworks tad limits` is measured on.
//!
//! [`serve`] is such a server, as a program. [`find`] records it under load, asks which limit is
//! first, and compares the gain that is predicted with that of the real mend.

mod java;
mod program;

pub use program::serve;

use crate::capture::{self, Options};
use crate::compiled::Classes;
use crate::draw::draw;
use crate::hints::Hints;
use crate::infer::infer;
use crate::limits::{self, Kind, Limit};
use crate::trace::Trace;
use crate::truth::Clients;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its word.
    pub word: &'static str,
    /// What is planted, for people.
    pub about: &'static str,
    /// How the limit is called that is the true one: its kind, and a part of its name.
    limit: (Kind, &'static str),
    /// Clients under which it is recorded.
    clients: usize,
}

const fn planted(
    word: &'static str,
    about: &'static str,
    limit: (Kind, &'static str),
    clients: usize,
) -> Planted {
    Planted { word, about, limit, clients }
}

/// The server of some thousand short waits a second for one lock, beside a thread that sleeps ten
/// seconds at a time.
pub const WAITS: &str = "waits";

/// All of them.
pub const ALL: [Planted; 13] = [
    planted("lock", "one lock, held 300 us", (Kind::Lock, "narrow"), 16),
    planted("locks", "the same beside a lock that is taken more often", (Kind::Lock, "narrow"), 16),
    planted(WAITS, "one lock of two threads, beside a long sleeper", (Kind::Lock, "narrow"), 2),
    planted("permits", "two permits of a semaphore", (Kind::Lock, "permits"), 16),
    planted("pool", "a pool of two threads", (Kind::Threads, "worker"), 16),
    planted("full", "a full queue before a pool of three", (Kind::Threads, "sink"), 16),
    planted("log", "one thread that writes a log in order", (Kind::Threads, "log-writer"), 16),
    planted("group", "a log whose thread syncs what waits at once", (Kind::Disk, "io"), 16),
    planted("loop", "one thread that serves all connections", (Kind::Threads, "event-loop"), 16),
    planted("disk", "writes with a sync to disk", (Kind::Disk, "io"), 16),
    planted("peer", "another server that does two at a time", (Kind::Server, "other-servers"), 16),
    planted("cpu", "processors", (Kind::Processors, "cpu"), 16),
    planted("heap", "a Java virtual machine with a small heap", (Kind::Collector, ""), 16),
];

impl Planted {
    /// By its word.
    pub fn of(word: &str) -> Option<&'static Planted> {
        ALL.iter().find(|planted| planted.word == word)
    }

    /// Whether a limit is the planted one.
    pub fn is(&self, limit: &Limit) -> bool {
        limit.kind == self.limit.0 && limit.name.contains(self.limit.1)
    }
}

/// What a recording of a server says, and what its mend gains.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Limits, the first one first.
    pub limits: Vec<Limit>,
    /// Requests a second: measured as it is, simulated, and measured with the mend.
    pub per_s: f64,
    /// See there.
    pub simulated_per_s: f64,
    /// See there.
    pub mended_per_s: f64,
    /// Waits a second for the lock with the most waits, and their mean, in microseconds.
    pub waits: (f64, f64),
}

impl Found {
    /// Place of the true limit, from one.
    pub fn place(&self, planted: &Planted) -> Option<usize> {
        self.limits.iter().position(|limit| planted.is(limit)).map(|at| at + 1)
    }

    /// More throughput by the true limit's change, as it is predicted.
    pub fn predicted(&self, planted: &Planted) -> Option<f64> {
        self.limits.iter().find(|limit| planted.is(limit)).map(|limit| limit.gain)
    }

    /// And as the real mend gives.
    pub fn measured(&self) -> f64 {
        self.mended_per_s / self.per_s.max(1e-9) - 1.0
    }
}

const SETTLES: Duration = Duration::from_millis(200);
const LENGTH: Duration = Duration::from_secs(3);
/// Windows with and without the mend, by turns.
const WINDOWS: usize = 3;

/// Records a server, which `command` starts with these words, and measures it with and without its
/// mend in windows of this length.
///
/// # Errors
/// The program or the recorder fails.
pub fn find(
    planted: &Planted,
    command: &dyn Fn(&[String]) -> Command,
    window: Duration,
) -> Result<Found> {
    let mut found = recorded(planted, command)?;
    let (mut plain, mut mended) = (Vec::new(), Vec::new());
    let (server, better) =
        (Server::start(planted, false, command)?, Server::start(planted, true, command)?);
    for _ in 0..WINDOWS {
        plain.push(server.per_s(window));
        mended.push(better.per_s(window));
    }
    found.per_s = middle(plain);
    found.mended_per_s = middle(mended);
    Ok(found)
}

/// Records a server, and asks what limits it.
///
/// # Errors
/// The program or the recorder fails.
pub fn recorded(planted: &Planted, command: &dyn Fn(&[String]) -> Command) -> Result<Found> {
    let trace = {
        let server = Server::start(planted, false, command)?;
        let clients = Clients::start(server.port, planted.clients, Duration::ZERO);
        std::thread::sleep(SETTLES);
        let stop = AtomicBool::new(false);
        let options = Options::of(vec![server.child.id()], LENGTH, 1.0, &stop);
        let trace = capture::record(&options, &mut |_| {});
        drop(server);
        clients.end();
        trace?
    };
    limits_of(planted, &trace)
}

fn limits_of(planted: &Planted, trace: &Trace) -> Result<Found> {
    let architecture = infer(trace, &Hints::default());
    let most = architecture.locks.iter().max_by_key(|lock| lock.n());
    let counted_s = trace.head.counted_s.max(1e-9);
    let waits = most.map_or((0.0, 0.0), |lock| {
        (lock.n() as f64 / counted_s, lock.off_ns() as f64 / 1e3 / lock.n().max(1) as f64)
    });
    let mut drawn = draw(trace, &architecture, planted.word);
    drawn.calibrate();
    let mut scenario = drawn.scenario.context("no request was seen")?;
    scenario.duration_ns = 3_000_000_000;
    scenario.warmup_ns = 500_000_000;
    let limits = limits::limits(&drawn.tad, &scenario, &drawn.paused, &mut |_| {})?;
    let simulated_per_s = limits.per_s;
    Ok(Found { limits: limits.limits, simulated_per_s, waits, ..Found::default() })
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A server that runs. It is killed when this is dropped.
struct Server {
    child: Child,
    port: u16,
    clients: usize,
    /// Its program, if that was made for it.
    _classes: Option<Classes>,
}

impl Server {
    fn start(
        planted: &Planted,
        mended: bool,
        command: &dyn Fn(&[String]) -> Command,
    ) -> Result<Server> {
        let mut words = vec![planted.word.to_owned()];
        words.extend(mended.then(|| "fixed".to_owned()));
        if planted.limit.0 == Kind::Server {
            words.push(peer(if mended { 4 } else { 2 })?.to_string());
        }
        let classes = (planted.limit.0 == Kind::Collector).then(java::compile).transpose()?;
        let mut command = match &classes {
            Some(classes) => java::command(classes, mended),
            None => command(&words),
        };
        let child = command.stdout(Stdio::piped()).spawn().context("cannot start the server")?;
        let mut server = Server { child, port: 0, clients: planted.clients, _classes: classes };
        let mut line = String::new();
        let out = server.child.stdout.take().context("no pipe")?;
        BufReader::new(out).read_line(&mut line)?;
        let port = line.trim().strip_prefix("ready ");
        server.port = port.with_context(|| format!("the server said: {line}"))?.parse()?;
        Ok(server)
    }

    /// Requests a second over some time.
    fn per_s(&self, time: Duration) -> f64 {
        let clients = Clients::start(self.port, self.clients, Duration::ZERO);
        std::thread::sleep(SETTLES);
        let (before, begun) = (clients.answered.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(time);
        let answered = clients.answered.load(Ordering::Relaxed) - before;
        let per_s = answered as f64 / begun.elapsed().as_secs_f64();
        clients.end();
        per_s
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server in this process that does so many requests at a time, each for a millisecond.
fn peer(at_a_time: u32) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let left = Arc::new((Mutex::new(at_a_time), Condvar::new()));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.set_nodelay(true);
            let left = left.clone();
            std::thread::spawn(move || {
                while client.read_exact(&mut [0]).is_ok() {
                    let free = left.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let free = left.1.wait_while(free, |free| *free == 0);
                    *free.unwrap_or_else(PoisonError::into_inner) -= 1;
                    std::thread::sleep(Duration::from_millis(1));
                    *left.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    left.1.notify_one();
                    let _ = client.write_all(b"y");
                }
            });
        }
    });
    Ok(port)
}
