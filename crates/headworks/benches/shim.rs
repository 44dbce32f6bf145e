//! What the gate costs: nanoseconds added to an intercepted call below P, and admissions a second.
//!
//! Started plainly, it starts itself again behind the gate (`headworks run`). There, one thread
//! plays a server that speaks as MariaDB does, and its client, over a loopback connection. Each
//! call is made in turn through the hook and directly, in the same process and in small batches,
//! so that whatever disturbs the machine disturbs both. Once warm, as in a loop, and once cold,
//! as in a server: before each call the caches are filled with something else.

#[path = "shim/evict.rs"]
mod evict;
#[allow(dead_code)] // each measurement uses a part of it
mod harness;

use core::ffi::{c_int, c_void};
use evict::Evictor;
use harness::symbol;
use headworks_policy::Nanos;
use headworks_policy::gate::{Gate, Next};
use headworks_region::control::Settings;
use headworks_region::{Entered, Mapping, clock, futex};
use std::ffi::CString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BATCH: usize = 200;
const BATCHES: usize = 400;
/// Requests of the cold measurement: each of its calls is preceded by much other work.
const COLD_REQUESTS: usize = 1500;

type Recv = unsafe extern "C" fn(c_int, *mut c_void, usize, c_int) -> isize;
type Send = unsafe extern "C" fn(c_int, *const c_void, usize, c_int) -> isize;
type Poll = unsafe extern "C" fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int;
type Accept = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;

/// The calls of a server, hooked or direct.
#[derive(Clone, Copy)]
struct Calls {
    accept: Accept,
    recv: Recv,
    send: Send,
    poll: Poll,
}

fn hooked() -> Calls {
    Calls { accept: libc::accept, recv: libc::recv, send: libc::send, poll: libc::poll }
}

fn direct() -> Calls {
    // SAFETY: the C library's functions of these names have these types.
    unsafe {
        Calls {
            accept: std::mem::transmute::<*mut c_void, Accept>(symbol(c"accept")),
            recv: std::mem::transmute::<*mut c_void, Recv>(symbol(c"recv")),
            send: std::mem::transmute::<*mut c_void, Send>(symbol(c"send")),
            poll: std::mem::transmute::<*mut c_void, Poll>(symbol(c"poll")),
        }
    }
}

/// The answer to a point select: one column, one row.
const ROW: [u8; 55] = *b"\x01\0\0\x01\x01\
    \x16\0\0\x02\x03def\0\0\0\x01c\0\x0c\x3f\0\x0a\0\0\0\x03\x81\0\0\0\
    \x05\0\0\x03\xfe\0\0\x02\0\
    \x02\0\0\x04\x01\x37\
    \x05\0\0\x05\xfe\0\0\x02\0";

/// One connection, seen from both ends by one thread.
struct Line {
    calls: Calls,
    client: TcpStream,
    server: c_int,
}

/// Nanoseconds spent in each kind of call.
#[derive(Clone, Copy, Default)]
struct Spent {
    nothing: u64,
    poll: u64,
    header: u64,
    body: u64,
    send: u64,
}

impl Line {
    fn open(calls: Calls) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let null = std::ptr::null_mut();
        // SAFETY: the listener is open; no address is asked for.
        let server = unsafe { (calls.accept)(listener.as_raw_fd(), null, null.cast()) };
        let mut line = Line { calls, client, server };
        // Greeting: protocol 10, version, thread, salt, capabilities (protocol 4.1, secure).
        let mut greeting = vec![10];
        greeting.extend_from_slice(b"10.11.0-bench\0\x01\0\0\0saltsalt\0");
        greeting.extend_from_slice(&[0x00, 0x82, 8, 2, 0, 0, 0, 21]);
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"moresaltmore\0");
        line.answer(0, &greeting);
        let mut login = vec![0x00, 0x82, 0, 0, 0, 0, 0, 1, 8];
        login.extend_from_slice(&[0; 23]);
        login.extend_from_slice(b"bench\0\0");
        line.ask(1, &login);
        line.take();
        line.answer(2, &[0, 0, 0, 2, 0, 0, 0]);
        line.drain();
        line
    }

    fn ask(&mut self, sequence: u8, body: &[u8]) {
        let mut packet = (body.len() as u32).to_le_bytes().to_vec();
        packet[3] = sequence;
        packet.extend_from_slice(body);
        self.client.write_all(&packet).unwrap();
    }

    fn drain(&mut self) {
        let mut header = [0; 4];
        self.client.read_exact(&mut header).unwrap();
        let mut body = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        self.client.read_exact(&mut body).unwrap();
    }

    fn recv(&self, into: &mut [u8]) -> isize {
        // SAFETY: the buffer has that length.
        unsafe {
            (self.calls.recv)(self.server, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT)
        }
    }

    fn take(&self) {
        let mut header = [0; 4];
        assert_eq!(self.recv(&mut header), 4);
        let mut body = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        assert_eq!(self.recv(&mut body), body.len() as isize);
    }

    fn answer(&self, sequence: u8, body: &[u8]) {
        let mut packet = (body.len() as u32).to_le_bytes().to_vec();
        packet[3] = sequence;
        packet.extend_from_slice(body);
        // SAFETY: the buffer has that length.
        let sent =
            unsafe { (self.calls.send)(self.server, packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(sent, packet.len() as isize);
    }

    /// The five calls of one request, as MariaDB makes them; `before` runs before each of them.
    fn request(&mut self, text: &[u8], spent: &mut Spent, before: &mut dyn FnMut()) {
        let mut header = [0; 4];
        let mut body = [0; 256];
        let mut timed = |sum: &mut u64, call: &mut dyn FnMut() -> isize| {
            before();
            let start = clock::now();
            let result = call();
            *sum += clock::now().since(start).0;
            result
        };
        timed(&mut spent.nothing, &mut || self.recv(&mut header));
        self.ask(0, text);
        let mut fds = libc::pollfd { fd: self.server, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        timed(&mut spent.poll, &mut || unsafe { (self.calls.poll)(&raw mut fds, 1, 1000) }
            as isize);
        assert_eq!(timed(&mut spent.header, &mut || self.recv(&mut header)), 4);
        let length = text.len();
        assert_eq!(timed(&mut spent.body, &mut || self.recv(&mut body[..length])), length as isize);
        timed(&mut spent.send, &mut || {
            // SAFETY: the buffer has that length.
            unsafe { (self.calls.send)(self.server, ROW.as_ptr().cast(), ROW.len(), 0) }
        });
        let mut answer = [0; ROW.len()];
        self.client.read_exact(&mut answer).unwrap();
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Spent {
    fn columns(self) -> [u64; 5] {
        [self.nothing, self.poll, self.header, self.body, self.send]
    }
}

/// The text of every request.
const TEXT: &[u8] = b"\x03SELECT c FROM sbtest1 WHERE id=125037";

/// Compares the calls of `samples` samples of `requests` requests each.
fn interception(title: &str, samples: usize, requests: usize, mut before: impl FnMut()) {
    let mut gated = Line::open(hooked());
    let mut plain = Line::open(direct());
    let mut differences: [Vec<f64>; 5] = Default::default();
    let mut plains: [Vec<f64>; 5] = Default::default();
    for _ in 0..samples {
        let (mut with, mut without) = (Spent::default(), Spent::default());
        for _ in 0..requests {
            gated.request(TEXT, &mut with, &mut before);
            plain.request(TEXT, &mut without, &mut before);
        }
        for (at, (with, without)) in with.columns().into_iter().zip(without.columns()).enumerate() {
            differences[at].push((with as f64 - without as f64) / requests as f64);
            plains[at].push(without as f64 / requests as f64);
        }
    }
    println!("interception below P, {title} ({samples} samples of {requests} requests, medians)");
    println!("  {:<34} {:>10} {:>10}", "call", "plain ns", "added ns");
    let names = [
        "recv, nothing there (request ends)",
        "poll, ready",
        "recv, header",
        "recv, statement (admission)",
        "send, answer",
    ];
    let mut sum = 0.0;
    for (at, name) in names.iter().enumerate() {
        let added = median(&mut differences[at]);
        sum += added;
        println!("  {:<34} {:>10.0} {:>10.0}", name, median(&mut plains[at]), added);
    }
    println!("  {:<34} {:>10} {:>10.0}", "the whole request", "", sum);
    println!("  {:<34} {:>10} {:>10.0}", "mean of the five calls", "", sum / 5.0);
}

/// What a turn costs the policy while `users` users wait: to choose the next, to account for it, to
/// queue it again.
fn policy(users: u32) {
    let mut gate = Box::new(Gate::new());
    for user in 0..users {
        gate.wrr.arrive(user);
    }
    let mut times = Vec::with_capacity(1_000_000);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        for _ in 0..1000 {
            let began = Instant::now();
            let Some(Next::Admit(turn)) = gate.decide() else { unreachable!("they always wait") };
            gate.wrr.end_turn(turn.session, 1);
            gate.wrr.arrive(turn.session);
            times.push(began.elapsed().as_nanos() as u64);
        }
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |quantile: f64| times[(times.len() as f64 * quantile) as usize];
    println!(
        "  {:<58} {:>6.2} million/s, median {} ns, p99 {} ns",
        format!("decisions of the policy, {users} users waiting"),
        rate / 1e6,
        at(0.5),
        at(0.99)
    );
}

/// Threads that enter and leave as fast as they can, `requests` to a turn.
fn admissions(
    region: &'static headworks_region::Region,
    threads: u32,
    parallelism: u32,
    requests: u32,
) -> f64 {
    region.apply(&Settings { parallelism, zeta: requests * threads, ..Settings::default() });
    let (stop, count, passed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let user =
                    region.register(std::process::id(), clock::now()).expect("there is room");
                let slot = region.session(user).expect("it was registered");
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) {
                    if matches!(region.enter(user, clock::now()), Entered::Passed(_)) {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                    own += 1;
                    while region.spend(slot) {
                        own += 1;
                    }
                    region.leave(user);
                }
                count.fetch_add(own, Ordering::Relaxed);
                region.unregister(user);
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        region.set_off(true);
    });
    let rate = count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    region.set_off(false);
    // Those that waited when the gate was opened at the end, one a thread.
    assert!(passed.load(Ordering::Relaxed) <= u64::from(threads) * 2, "the gate did not hold");
    rate
}

/// Hand-overs between two threads that wake each other and sleep, with nothing in between: what
/// the kernel allows.
fn kernel_limit() -> f64 {
    let turns = [AtomicU32::new(0), AtomicU32::new(1)];
    let stop = AtomicBool::new(false);
    let (count, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (turns, stop, count) = (&turns, &stop, &count);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    while turns[me].load(Ordering::Acquire) == 0 && !stop.load(Ordering::Relaxed) {
                        futex::wait(&turns[me], 0, Nanos::from_millis(50));
                    }
                    turns[me].store(0, Ordering::Relaxed);
                    turns[1 - me].store(1, Ordering::Release);
                    futex::wake(&turns[1 - me], 1);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn child(path: std::ffi::OsString) {
    interception("warm", BATCHES, BATCH, || ());
    let mut evictor = Evictor::new();
    interception("cold", COLD_REQUESTS, 1, || evictor.run());
    let path = CString::new(path.into_vec()).unwrap();
    let region = Mapping::open(&path).expect("the region is there").region();
    println!("admissions");
    policy(256);
    policy(10_000);
    let limit = kernel_limit();
    println!(
        "  {:<58} {:>6.2} million/s",
        "two threads that only wake each other: the kernel's limit",
        limit / 1e6
    );
    for (threads, parallelism, requests, what) in [
        (2, 8, 1, "2 threads, P = 8: no thread waits"),
        (64, 2, 1, "64 threads, P = 2: each admission wakes a sleeping thread"),
        (64, 2, 8, "64 threads, P = 2, 8 requests to a turn"),
        (64, 2, 32, "64 threads, P = 2, 32 requests to a turn"),
    ] {
        let rate = admissions(region, threads, parallelism, requests);
        println!("  {what:<58} {:>6.2} million/s", rate / 1e6);
    }
}

fn main() {
    if let Some(path) = std::env::var_os("HEADWORKS_REGION") {
        return child(path);
    }
    // `headworks run` asks a MariaDB for its defaults first.
    if std::env::args().any(|arg| arg == "--test" || arg == "--print-defaults") {
        return;
    }
    let status = Command::new(env!("CARGO_BIN_EXE_headworks"))
        .args(["run", "--name", "bench-shim", "--profile", "mariadb", "--parallelism", "16", "--"])
        .arg(std::env::current_exe().unwrap())
        .status()
        .expect("headworks can be started");
    assert!(status.success(), "the measurement failed");
}
