//! A recorded diagram simulates: how far each point is from what was measured.

use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use crate::server::{self, Clients};
use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::infer;
use headworks_record::trace::Trace;
use headworks_record::truth::Server;
use std::io::BufReader;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Clients at which it is recorded.
const AT: usize = 4;

fn per_s(server: &Server, count: usize, time: Duration) -> f64 {
    let clients = Clients::start(server.port, count, Duration::ZERO);
    std::thread::sleep(Duration::from_millis(300));
    let (before, begun) = (clients.answered.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(time);
    let per_s =
        (clients.answered.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    clients.end();
    per_s
}

fn record(server: &Server) -> Trace {
    let raw = scratch(&format!("simulated-{}.ndjson", server.port));
    let clients = Clients::start(server.port, AT, Duration::ZERO);
    std::thread::sleep(Duration::from_millis(300));
    let output = recorder()
        .args(["record", "--pid", &server.pid().to_string(), "--for", "3s"])
        .args(["--budget", "100%", "--raw"])
        .arg(&raw)
        .arg("-o")
        .arg(raw.with_extension("toml"))
        .output()
        .expect("the recorder");
    clients.end();
    assert!(output.status.success(), "{}", said(&output));
    Trace::read(BufReader::new(std::fs::File::open(raw).expect("a recording"))).expect("one")
}

#[test]
fn a_recording_simulates_at_the_load_that_was_recorded() {
    if !can_record() {
        return;
    }
    let server = server::start(3, &["named"]);
    let trace = record(&server);
    let found = infer(&trace, &Hints::default());
    let mut drawn = draw::draw(&trace, &found, "three");
    drawn.calibrate();
    let Some(load) = drawn.loads.first() else {
        panic!("no load in {:?}: requests {:?}", trace.head, found.requests)
    };
    let (simulated, _) = load.simulated.expect("a simulation");
    // A wide bound: the figures are in the experiment below.
    assert!((simulated / load.per_s - 1.0).abs() < 0.5, "{load:?}");
}

/// The experiment: `HEADWORKS_SEEDS=601..611 cargo test -p headworks-record --test live --
/// --ignored --nocapture random_systems_simulate`.
#[test]
#[ignore = "takes minutes: an experiment"]
fn random_systems_simulate() {
    if !can_record() {
        return;
    }
    let seeds = std::env::var("HEADWORKS_SEEDS").unwrap_or_else(|_| "1..6".to_owned());
    let (first, last) = seeds.split_once("..").expect("a range");
    let seeds = first.parse::<u64>().expect("a number")..last.parse().expect("a number");
    let mut off: Vec<(usize, f64)> = Vec::new();
    for seed in seeds {
        let server = server::start(seed, &["named"]);
        let counts = [1, AT, 16];
        let measured = counts.map(|count| per_s(&server, count, Duration::from_millis(1_500)));
        if measured.iter().any(|per_s| *per_s < 20.0) {
            println!("seed {seed}: too slow to judge: {measured:?}");
            continue;
        }
        let trace = record(&server);
        if let Ok(folder) = std::env::var("HEADWORKS_RECORDINGS") {
            let file = format!("{folder}/{seed}-simulated.ndjson");
            trace.write(&mut std::fs::File::create(file).expect("a file"), u64::MAX).expect("one");
        }
        let found = infer(&trace, &Hints::default());
        let mut drawn = draw::draw(&trace, &found, "random");
        drawn.calibrate();
        if drawn.scenario.is_none() {
            println!("seed {seed}: no load was seen");
            continue;
        }
        let each: Vec<String> = counts
            .iter()
            .zip(measured)
            .map(|(&count, measured)| {
                let ratio = drawn.simulated(count as u32).expect("a load") / measured - 1.0;
                off.push((count, ratio.abs()));
                format!("{count}: {measured:.0}/s {:+.0} %", ratio * 100.0)
            })
            .collect();
        println!("seed {seed}: {}", each.join(", "));
    }
    for count in [1, AT, 16] {
        let mut own: Vec<f64> =
            off.iter().filter(|(at, _)| *at == count).map(|(_, off)| *off).collect();
        own.sort_by(f64::total_cmp);
        let within = own.iter().filter(|off| **off <= 0.15).count();
        println!(
            "{count} clients: median off by {:.0} %, within 15 %: {within} of {}",
            own.get(own.len() / 2).copied().unwrap_or(0.0) * 100.0,
            own.len()
        );
    }
}
