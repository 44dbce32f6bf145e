//! An answer that is sent in parts is one answer.

use crate::conserve::example;
use crate::random::can_record;
use headworks_record::capture::{self, Options};
use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::infer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends one request after another until it is to stop.
fn ask(port: u16, stop: &AtomicBool) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
    server.set_nodelay(true).expect("an option");
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
    while !stop.load(Ordering::Relaxed) {
        server.write_all(b"x").expect("a request");
        server.read_exact(&mut [0; 2]).expect("an answer");
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn an_answer_that_is_sent_in_two_parts_is_one() {
    if !can_record() {
        return;
    }
    let started = Command::new(example("parts")).stdout(Stdio::piped()).spawn();
    let mut server = Server(started.expect("the example"));
    let mut line = String::new();
    let out = server.0.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let port = line.trim().strip_prefix("ready ").and_then(|port| port.parse().ok());
    let (port, stop) = (port.expect("a port"), AtomicBool::new(false));
    let trace = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| ask(port, &stop));
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
