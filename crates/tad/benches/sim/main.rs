//! Speed and truth of the simulator.
//!
//! ```text
//! make bench-tad
//! cargo bench -p headworks-tad --bench sim -- [--simpy PYTHON] [--repeats N] [--nodes N]… [--seconds N]
//! ```
//!
//! With a Python that has simpy, every case also runs in `reference/simpy_tad.py`, from tables that
//! are exported from the very same system and scenario: results must agree ([`TOLERANCE`]), and the
//! time that each takes for one consumption of a resource is compared. Both are measured in turns.
//! Without, only this simulator is measured. Then a large system: HBase with `--nodes` slaves, all
//! of whose disks are busy.

mod cases;
mod reference;

use cases::{CASES, Case};
use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::sim::{self, Outcome};
use headworks_tad::systems;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Seeds over which results are averaged before they are compared.
const SEEDS: u64 = 5;

/// How far the means of both may be apart, relative to the larger one; or else this many standard
/// errors, where nodes are drawn at random and a few seconds are not enough for a percent.
const TOLERANCE: f64 = 0.01;
const ERRORS: f64 = 3.0;

/// What is less than this (requests a second, milliseconds, parts of a resource) is not compared.
const SMALLEST: f64 = 0.001;

/// Ratio of the times for a consumption that is aimed at, and that must be.
const RATIO: (f64, f64) = (100.0, 50.0);

/// Simulated time of this simulator is so much longer than that of the slow one, so that both are
/// measured over about the same time.
const LONGER: u64 = 50;

struct Options {
    simpy: Option<String>,
    repeats: usize,
    nodes: Vec<u32>,
    seconds: f64,
    /// Internal: run one large system in this process and print its line.
    only: Option<u32>,
}

fn options() -> Options {
    let mut options = Options { simpy: None, repeats: 5, nodes: vec![], seconds: 60.0, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--simpy" => options.simpy = Some(value()),
            "--repeats" => options.repeats = value().parse().expect("a number"),
            "--nodes" => options.nodes.push(value().parse().expect("a number")),
            "--seconds" => options.seconds = value().parse().expect("a number"),
            "--only" => options.only = Some(value().parse().expect("a number")),
            // Cargo says this to every bench.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn main() -> ExitCode {
    let options = options();
    if let Some(nodes) = options.only {
        large(nodes, options.seconds);
        return ExitCode::SUCCESS;
    }
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        println!("load before: {}; {cores} cores\n", load.trim());
    }
    let mut fine = true;
    for case in CASES {
        fine &= compare(case, &options);
    }
    println!("\nHBase, uncached gets, every disk busy, {} simulated seconds:", options.seconds);
    let nodes = if options.nodes.is_empty() { vec![7, 100, 1000] } else { options.nodes };
    for nodes in nodes {
        // A separate process, so that its peak of memory is its own.
        let me = std::env::current_exe().expect("a path");
        let status = Command::new(me)
            .args(["--only", &nodes.to_string(), "--seconds", &options.seconds.to_string()])
            .status();
        fine &= status.is_ok_and(|status| status.success());
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Simulates a case for some time; gives what was found and the nanoseconds for a consumption.
fn measure(case: &Case, seed: u64, longer: u64) -> (Outcome, f64) {
    let (tad, mut scenario) = case.read();
    scenario.duration_ns *= longer;
    let began = Instant::now();
    let outcome = sim::run(&tad, &scenario, seed, &mut |_| {}).expect("a simulation");
    let ns = began.elapsed().as_nanos() as f64 / outcome.events as f64;
    (outcome, ns)
}

fn compare(case: &Case, options: &Options) -> bool {
    let Some(python) = &options.simpy else {
        let mut ns: Vec<f64> =
            (0..options.repeats as u64).map(|seed| measure(case, seed, LONGER).1).collect();
        println!("{:28} {:7.0} ns for a consumption", case.name, median(&mut ns));
        return true;
    };
    let export = reference::export(case);
    let runs = (options.repeats as u64).max(SEEDS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut our_ns, mut their_ns) = (Vec::new(), Vec::new());
    for seed in 0..runs {
        let slow = match reference::run(python, &export, seed) {
            Ok(slow) => slow,
            Err(error) => {
                println!("{}: {error}", case.name);
                return false;
            }
        };
        their_ns.push(slow.ns());
        our_ns.push(measure(case, seed, LONGER).1);
        ours.push(reference::numbers(&measure(case, seed, 1).0));
        theirs.push(slow.numbers());
    }
    // A temporary file that is not needed any more.
    let _ = std::fs::remove_file(&export);
    let (slow, fast) = (median(&mut their_ns), median(&mut our_ns));
    let ratio = slow / fast;
    let verdict = match ratio {
        _ if ratio >= RATIO.0 => "",
        _ if ratio >= RATIO.1 => "  (below the aim of 100)",
        _ => "  TOO SLOW",
    };
    println!("{:28} {slow:7.0} ns / {fast:4.0} ns = {ratio:4.0} times{verdict}", case.name);
    let mut fine = ratio >= RATIO.1;
    for (at, (name, _)) in ours[0].iter().enumerate() {
        let of = |all: &[Vec<(String, f64)>]| mean(all.iter().map(|run| run[at].1));
        let ((a, a_error), (b, b_error)) = (of(&ours), of(&theirs));
        let larger = a.abs().max(b.abs());
        if larger < SMALLEST {
            continue;
        }
        let (apart, error) = ((a - b).abs() / larger, a_error.hypot(b_error) / larger);
        let same = apart <= TOLERANCE.max(ERRORS * error);
        fine &= same;
        println!(
            "    {name:36} {a:10.4} {b:10.4} {:6.2} % (standard error {:.2} %){}",
            apart * 100.0,
            error * 100.0,
            if same { "" } else { "  DIFFERS" },
        );
    }
    fine
}

/// Mean and its standard error.
fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// HBase with so many slaves: uncached gets, 80 closed-loop threads for each node, so that every
/// disk has work at any time.
fn large(nodes: u32, seconds: f64) {
    let text = systems::text("hbase").expect("a system");
    let mut tad = read_tad("hbase", text).expect("a system").value;
    let slave = tad.nodes.iter().position(|node| node.name == "slave").expect("a node");
    tad.nodes[slave].count = nodes;
    let threads = nodes * 40;
    let warmup = seconds / 10.0;
    let text = format!(
        r#"
name = "large"
duration = "{seconds} s"
warmup = "{warmup} s"
client = [
    {{ name = "C1", load = [{{ request = "get", threads = {threads} }}] }},
    {{ name = "C2", load = [{{ request = "get", threads = {threads} }}] }},
]
"#
    );
    let scenario = read_scenario("large", &text, &tad).expect("a scenario").value;
    let began = Instant::now();
    let outcome = sim::run(&tad, &scenario, 1, &mut |_| {}).expect("a simulation");
    let took = began.elapsed().as_secs_f64();
    println!(
        "{nodes:5} nodes {:10} events in {took:7.2} s: {:9.0} events/s, {:4.0} ns/event; disks {:3.0} % busy; \
         {} requests in flight; peak memory {}",
        outcome.events,
        outcome.events as f64 / took,
        took * 1e9 / outcome.events as f64,
        outcome.resource("slave", "io").expect("a disk").utilization * 100.0,
        outcome.in_flight_max,
        peak_memory().unwrap_or_else(|| "unknown".to_owned()),
    );
}

/// The most memory that this process had, as the kernel says it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{:.1} MiB", kilobytes / 1024.0))
}
