//! Servers with a planted bottleneck: it is found, and what its mend gains is predicted.

use crate::conserve::example;
use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use crate::server::Clients;
use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::infer;
use headworks_record::limits::{Kind, Limit, limits};
use headworks_record::trace::Trace;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;

struct Planted {
    child: Child,
    port: u16,
}

impl Planted {
    fn start(kind: &str, fixed: bool) -> Planted {
        let peer = if kind == "peer" {
            peer(if fixed { 4 } else { 2 }).to_string()
        } else {
            String::new()
        };
        let words = [kind, if fixed { "fixed" } else { "" }, &peer];
        let mut child = Command::new(example("bottleneck"))
            .args(words.iter().filter(|word| !word.is_empty()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("ready ").expect("ready").parse().expect("a port");
        Planted { child, port }
    }

    /// Requests a second over some time.
    fn per_s(&self, clients: &Clients, time: Duration) -> f64 {
        let (before, begun) = (clients.answered.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(time);
        (clients.answered.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64()
    }

    fn record(&self) -> Trace {
        let raw = scratch(&format!("planted-{}.ndjson", self.port));
        let output = recorder()
            .args(["record", "--pid", &self.child.id().to_string(), "--for", "3s"])
            .args(["--budget", "100%", "--raw"])
            .arg(&raw)
            .arg("-o")
            .arg(raw.with_extension("toml"))
            .output()
            .expect("the recorder");
        assert!(output.status.success(), "{}", said(&output));
        let file = std::fs::File::open(raw).expect("a recording");
        Trace::read(BufReader::new(file)).expect("a recording")
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that does so many requests at a time, each for a millisecond.
fn peer(at_a_time: u32) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let left = Arc::new((Mutex::new(at_a_time), Condvar::new()));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            client.set_nodelay(true).expect("an option");
            let left = left.clone();
            std::thread::spawn(move || {
                while client.read_exact(&mut [0]).is_ok() {
                    let mut free = left.0.lock().expect("no panic");
                    while *free == 0 {
                        free = left.1.wait(free).expect("no panic");
                    }
                    *free -= 1;
                    drop(free);
                    std::thread::sleep(Duration::from_millis(1));
                    *left.0.lock().expect("no panic") += 1;
                    left.1.notify_one();
                    let _ = client.write_all(b"y");
                }
            });
        }
    });
    port
}

/// The limits of a planted server, its throughput, and that of a simulation of it.
fn found(kind: &str, seconds: f64) -> (Vec<Limit>, f64, f64) {
    let server = Planted::start(kind, false);
    let clients = Clients::start(server.port, CLIENTS, Duration::ZERO);
    let per_s = server.per_s(&clients, Duration::from_secs_f64(seconds));
    let trace = server.record();
    drop(server);
    clients.end();
    let found = infer(&trace, &Hints::default());
    let mut drawn = draw::draw(&trace, &found, kind);
    drawn.calibrate();
    let mut scenario = drawn.scenario.expect("requests");
    scenario.duration_ns = 3_000_000_000;
    scenario.warmup_ns = 500_000_000;
    let limits = limits(&drawn.tad, &scenario, &mut |_| {}).expect("a simulation");
    (limits.limits, per_s, limits.per_s)
}

fn right(kind: &str, limit: &Limit) -> bool {
    let is = |of: Kind, name: &str| limit.kind == of && limit.name.contains(name);
    match kind {
        "lock" | "locks" => is(Kind::Lock, "narrow"),
        "permits" => is(Kind::Lock, "permits"),
        "pool" => is(Kind::Threads, "worker"),
        "full" => is(Kind::Threads, "sink"),
        "log" => is(Kind::Threads, "log-writer"),
        "loop" => is(Kind::Threads, "event-loop"),
        "disk" => is(Kind::Disk, "io"),
        "peer" => is(Kind::Server, "other-servers"),
        "cpu" => is(Kind::Processors, "cpu"),
        other => panic!("no kind {other}"),
    }
}

/// Some 3,000 waits a second for one lock beside a thread that sleeps ten seconds at a time.
#[test]
fn the_lock_limits_and_who_sleeps_long_does_not() {
    if !can_record() {
        return;
    }
    let (limits, ..) = found("lock", 0.2);
    let first = limits.first().expect("a limit");
    assert!(right("lock", first), "{limits:?}");
    assert!(first.gain > 0.5, "{limits:?}");
    assert!(limits.iter().all(|limit| !limit.name.contains("sleeper")), "{limits:?}");
}

/// The experiment: `cargo test -p headworks-record --test live -- --ignored --nocapture planted`.
#[test]
#[ignore = "takes minutes: an experiment"]
fn planted_bottlenecks() {
    if !can_record() {
        return;
    }
    let kinds = ["lock", "locks", "permits", "pool", "full", "log", "loop", "disk", "peer", "cpu"];
    let chosen = std::env::var("HEADWORKS_KINDS").unwrap_or_else(|_| kinds.join(","));
    let (mut first, mut near, mut all) = (0, 0, 0);
    for kind in chosen.split(',') {
        let (limits, per_s, simulated) = found(kind, 1.5);
        let fixed = Planted::start(kind, true);
        let clients = Clients::start(fixed.port, CLIENTS, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(200));
        let fixed_per_s = fixed.per_s(&clients, Duration::from_secs_f64(1.5));
        drop(fixed);
        clients.end();
        let real = fixed_per_s / per_s - 1.0;
        let is_first = limits.first().is_some_and(|limit| right(kind, limit));
        let predicted = limits.iter().find(|limit| right(kind, limit)).map(|limit| limit.gain);
        let off = predicted.map(|gain| (1.0 + gain) / (1.0 + real) - 1.0);
        all += 1;
        first += usize::from(is_first);
        near += usize::from(predicted.is_some_and(|gain| (gain / real - 1.0).abs() <= 0.2));
        println!(
            "{kind}: first {is_first}; measured {per_s:.0}/s, simulated {simulated:.0}; mended \
             {fixed_per_s:.0}/s, gain {:.0} %, predicted {}, throughput off by {}",
            real * 100.0,
            predicted.map_or("nothing".to_owned(), |gain| format!("{:.0} %", gain * 100.0)),
            off.map_or("-".to_owned(), |off| format!("{:+.0} %", off * 100.0)),
        );
        for limit in limits.iter().take(4) {
            println!(
                "    {:?} {}: {}, +{:.0} %, busy {:.0} %",
                limit.kind,
                limit.name,
                limit.change,
                limit.gain * 100.0,
                limit.busy * 100.0
            );
        }
    }
    println!("{first} of {all} first; predicted gain within 20 % of the real one: {near} of {all}");
}
