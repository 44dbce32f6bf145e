//! A server whose answers have two parts: these are one answer, also where each client has many
//! connections.

use crate::conserve::example;
use crate::random::can_record;
use headworks_record::capture::{self, Options};
use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::infer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Server(Child);

impl Server {
    /// A server, and its port.
    fn start() -> (Server, u16) {
        let started = Command::new(example("parts")).stdout(Stdio::piped()).spawn();
        let mut server = Server(started.expect("the example"));
        let mut line = String::new();
        let out = server.0.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("ready ").and_then(|port| port.parse().ok());
        (server, port.expect("a port"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection to an address of this machine. For each address the client may use all ports.
fn connect(address: u8, port: u16) -> TcpStream {
    let to = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, address), port);
    let server = TcpStream::connect(to).expect("the server");
    server.set_nodelay(true).expect("an option");
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
    server
}

fn ask(server: &mut TcpStream) {
    server.write_all(b"x").expect("a request");
    server.read_exact(&mut [0; 2]).expect("an answer");
}

#[test]
fn an_answer_that_is_sent_in_two_parts_is_one() {
    if !can_record() {
        return;
    }
    let (server, port) = Server::start();
    let stop = AtomicBool::new(false);
    let trace = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut server = connect(1, port);
                while !stop.load(Ordering::Relaxed) {
                    ask(&mut server);
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
        }
        let never = AtomicBool::new(false);
        let options = Options::of(vec![server.0.id()], Duration::from_secs(2), 1.0, &never);
        let trace = capture::record(&options, &mut |_| {});
        stop.store(true, Ordering::Relaxed);
        trace.expect("a recording")
    });
    let sum = |sends: bool| {
        let own = trace.sockets.iter().filter(|socket| socket.sends == sends);
        own.fold((0, 0), |sum, socket| (sum.0 + socket.n, sum.1 + socket.turns))
    };
    let ((parts, answers), (_, requests)) = (sum(true), sum(false));
    assert!(requests >= 100, "{:?}", trace.sockets);
    // A window may cut some.
    assert!(parts * 10 >= answers * 18, "{parts} parts of {answers} answers");
    assert!(answers * 10 >= requests * 9 && answers * 9 <= requests * 10, "{answers} {requests}");
    let drawn = draw::draw(&trace, &infer(&trace, &Hints::default()), "parts");
    let load = drawn.loads.first().expect("a load");
    let recorded = load.per_s * trace.head.counted_s;
    // Each part as an answer would be twice as many.
    assert!(recorded < 1.6 * requests as f64, "{recorded} of {requests}: {load:?}");
}

/// More connections than the kernel's table has room for, some at a time.
#[test]
fn connections_that_come_and_go_are_counted_together() {
    const CLIENTS: u8 = 4;
    const EACH: u64 = 7_000;
    if !can_record() {
        return;
    }
    let ((server, port), stop) = (Server::start(), AtomicBool::new(false));
    let trace = std::thread::scope(|scope| {
        let stop = &stop;
        let clients = move || {
            std::thread::scope(|scope| {
                for client in 1..=CLIENTS {
                    let ask = move || {
                        for _ in 0..EACH {
                            ask(&mut connect(client, port));
                            // So that the recorder has a processor, too.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    };
                    scope.spawn(ask);
                }
            });
            stop.store(true, Ordering::Relaxed);
        };
        let mut clients = Some(clients);
        let options = Options::of(vec![server.0.id()], Duration::from_secs(120), 1.0, stop);
        // They come once the programs are loaded.
        let mut begin = |_: &_| _ = clients.take().map(|clients| scope.spawn(clients));
        capture::record(&options, &mut begin).expect("a recording")
    });
    assert!(!trace.losses.iter().any(|loss| loss.what.contains("socket")), "{:?}", trace.losses);
    let together = trace.sockets.iter().filter(|socket| socket.remote.ends_with(":65535"));
    let own = format!(":{port}");
    let crowd: Vec<_> = together.filter(|socket| socket.local.ends_with(&own)).collect();
    assert!(!crowd.is_empty(), "{} sockets, {:?}", trace.sockets.len(), trace.head);
    let missing = &trace.head.missing;
    assert!(missing.iter().any(|what| what.starts_with("single connections")), "{missing:?}");
    let received = trace.sockets.iter().filter(|socket| !socket.sends);
    let requests: u64 = received.map(|socket| socket.turns).sum();
    let all = u64::from(CLIENTS) * EACH;
    // Between windows nothing is counted. A close is no request.
    assert!(requests > all / 3 && requests <= all, "{requests} of {all}");
    // Clients are as many as were open at one time. Those that are about to close count, too.
    let open = trace.processes[&server.0.id()].open;
    assert!((1..=1_000).contains(&open), "{open}");
}
