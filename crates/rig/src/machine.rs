//! The machine and its load, as context of a measurement.

use std::fs;
use std::hint::black_box;
use std::io;
use std::num::NonZero;
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The machine, as far as it matters for a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Main memory in MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub distribution: String,
}

impl Machine {
    /// Describes this machine; what cannot be read is `unknown` or 0.
    pub fn describe() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu_model: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(0, NonZero::get),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal", ':')
                .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
                .unwrap_or_default()
                / 1024,
            kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned())
                .filter(|release| !release.is_empty())
                .unwrap_or_else(unknown),
            distribution: field(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .map_or_else(unknown, |name| name.trim_matches('"').to_owned()),
        }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The value of the first line `name<separator>value`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// One resource's pressure stall information.
///
/// *some*: at least one task waited for the resource; *full*: all of them did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Share of the last ten seconds in which some task waited, in percent.
    pub some_avg10_percent: f64,
    /// Time in which some task waited, since boot, in µs.
    pub some_total_us: u64,
    /// Share of the last ten seconds in which all tasks waited, in percent.
    pub full_avg10_percent: f64,
    /// Time in which all tasks waited, since boot, in µs.
    pub full_total_us: u64,
}

/// How busy the machine is at one moment. A kernel without pressure stall information reports
/// zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Runnable and blocked tasks, averaged over one minute.
    pub load_average_1min: f64,
    /// Pressure on the processors.
    pub cpu: Pressure,
    /// Pressure on storage.
    pub io: Pressure,
    /// Pressure on memory.
    pub memory: Pressure,
    /// How long a fixed piece of work took, in ms; `None` if it was not done, because other work
    /// was running. Neighbours on the same host use caches and hyper-threads without any pressure
    /// that a guest can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<f64>,
}

impl Load {
    /// Reads the machine's load, and measures its speed, while no other work of ours is running.
    pub fn at_rest() -> Self {
        Self { work_ms: Some(work_ms()), ..Self::read() }
    }

    /// Reads the machine's load.
    pub fn read() -> Self {
        let pressure = |name: &str| {
            let text: io::Result<String> = fs::read_to_string(format!("/proc/pressure/{name}"));
            text.map(|text| parse_pressure(&text)).unwrap_or_default()
        };
        let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            load_average_1min: average
                .split(' ')
                .next()
                .and_then(|first| first.parse().ok())
                .unwrap_or_default(),
            cpu: pressure("cpu"),
            io: pressure("io"),
            memory: pressure("memory"),
            work_ms: None,
        }
    }
}

/// Words of the walk in [`work_ms`]: 16 MiB, larger than the nearer caches, smaller than a host's
/// last one.
const WALK: usize = 1 << 21;

/// Steps of it, about 15 ms.
const STEPS: usize = 200_000;

/// Tries, of which the fastest counts: interruptions seldom hit all.
const TRIES: u32 = 5;

/// How long a fixed piece of work takes, in ms: a walk through memory in which each step gives the
/// next. It is typical of a database, and neighbours on a host slow it down first.
fn work_ms() -> f64 {
    // x -> a x + c modulo 2^n visits everything if a - 1 is divisible by 4 and c is odd (Hull and
    // Dobell, 1962).
    let next = |at: usize| (at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) % WALK;
    let walk: Vec<u64> = (0..WALK).map(|at| next(at) as u64).collect();
    let walk = black_box(walk);
    let mut at = 0;
    let mut once = || {
        let begun = Instant::now();
        for _ in 0..STEPS {
            at = walk[at] as usize;
        }
        black_box(at);
        begun.elapsed().as_secs_f64() * 1e3
    };
    (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn parse_pressure(text: &str) -> Pressure {
    let value = |line: &str, key: &str| -> f64 {
        line.split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
            .unwrap_or_default()
    };
    let line = |kind: &str| text.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
    let (some, full) = (line("some"), line("full"));
    Pressure {
        some_avg10_percent: value(some, "avg10"),
        some_total_us: value(some, "total") as u64,
        full_avg10_percent: value(full, "avg10"),
        full_total_us: value(full, "total") as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pressure_lines() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.00 total=5030203\nfull avg10=0.25 avg60=0.0 avg300=0.0 total=7\n";
        let expected = Pressure {
            some_avg10_percent: 1.5,
            some_total_us: 5_030_203,
            full_avg10_percent: 0.25,
            full_total_us: 7,
        };
        assert_eq!(parse_pressure(text), expected);
        assert_eq!(parse_pressure("garbage"), Pressure::default());
    }

    #[test]
    fn a_fixed_piece_of_work_takes_time_and_is_only_done_at_rest() {
        assert!(Load::at_rest().work_ms.is_some_and(|ms| ms > 0.0 && ms.is_finite()));
        assert_eq!(Load::read().work_ms, None);
    }

    #[test]
    fn describes_this_machine() {
        let machine = Machine::describe();
        assert!(machine.cores >= 1);
        assert!(machine.memory_mib > 0);
        assert!(!machine.kernel.is_empty());
    }
}
