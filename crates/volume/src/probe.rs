//! Measuring a real device, for [`crate::model::calibrate`]: a few closed loops of threads, each
//! with one request at a time.
//!
//! Requests are synchronous and bypass the page cache. That is enough for depths up to some tens.
//! The machine's own cost is part of the measurement. A device that is faster than this machine's
//! requests is measured as fast as these.

use crate::buffer::{ALIGN_BYTES, Buffer};
use crate::clock;
use crate::model::calibrate::{Mixed, Probes};
use headworks_policy::Nanos;
use headworks_policy::random::Random;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The device that is measured. Calls come from many threads at once.
pub trait Target: Sync {
    /// Bytes that may be read and, if anything is written, overwritten.
    fn size_bytes(&self) -> u64;
    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes `from` at `offset`.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;
    /// Everything written becomes durable.
    fn flush(&self) -> io::Result<()>;
}

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Time of each measurement. Default 2 s; longer is more exact. Sustained writes take three
    /// times as long, of which the last third counts.
    pub span: Duration,
    /// Size of the random requests in bytes.
    pub block_bytes: u32,
    /// Depth of the deep measurements.
    pub depth: u16,
    /// Commands that the device takes at a time. This cannot be measured from outside.
    pub queue_depth: u32,
    /// The device is a disk: its seeks are measured too.
    pub rotational: bool,
    /// Revolutions a minute, of a disk.
    pub rpm: Option<f64>,
    /// Seed of the places.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            span: Duration::from_secs(2),
            block_bytes: 16_384,
            depth: 32,
            queue_depth: 32,
            rotational: false,
            rpm: None,
            seed: 1,
        }
    }
}

/// Size of a sequential request.
const SEQUENTIAL_BYTES: u32 = 1 << 20;
/// Depth of the sequential measurements.
const SEQUENTIAL_DEPTH: u16 = 8;
/// Pause between single writes, in which a drive empties its cache.
const REST: Duration = Duration::from_millis(20);
/// Percent of the mixed load that are reads.
const MIXED_READS_PERCENT: u8 = 66;
/// Access times are measured over these parts of the span.
const DISTANCES: [f64; 8] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Accesses at each distance, back and forth.
const ACCESSES: usize = 60;

/// A load.
#[derive(Clone, Copy)]
struct Load {
    reads_percent: u8,
    sequential: bool,
    block_bytes: u32,
    depth: u16,
    /// First byte and bytes.
    range: (u64, u64),
    warm_up: Duration,
    time: Duration,
    /// Between requests of one thread.
    rest: Duration,
    /// A flush follows each write, and the flush is timed.
    flush: bool,
}

/// What came of a load.
struct Found {
    per_second: f64,
    /// In the order of size.
    latencies_ns: Vec<u64>,
}

impl Found {
    fn mean_us(&self) -> f64 {
        // Sums of a few seconds are far below 2^53.
        let sum: u64 = self.latencies_ns.iter().sum();
        sum as f64 / 1e3 / (self.latencies_ns.len() as f64).max(1.0)
    }

    fn median_us(&self) -> f64 {
        self.latencies_ns.get(self.latencies_ns.len() / 2).map_or(0.0, |ns| *ns as f64 / 1e3)
    }
}

/// The steps' names, each with its time in spans, for a progress display.
pub fn steps(plan: &Plan) -> Vec<(&'static str, f64)> {
    let mut steps = vec![
        ("filling what is measured", 2.0),
        ("sequential reads", 1.2),
        ("random reads, one at a time", 1.0),
        ("random reads, many at a time", 1.2),
        ("single writes", 1.0),
        ("flushes", 1.0),
        ("sequential writes, sustained", 3.0),
        ("random writes, sustained", 3.0),
    ];
    if plan.rotational {
        steps.push(("seeks", 4.0));
    } else {
        steps.push(("reads and writes together", 3.0));
    }
    steps
}

/// Measures `target`, whose bytes are overwritten. `tell` is called when a step of [`steps`]
/// begins.
///
/// # Errors
/// Those of the target: the first one ends the measurement.
pub fn measure(
    target: &dyn Target,
    plan: &Plan,
    mut tell: impl FnMut(usize),
) -> io::Result<Probes> {
    let whole =
        (0, target.size_bytes() / u64::from(SEQUENTIAL_BYTES) * u64::from(SEQUENTIAL_BYTES));
    if whole.1 < 16 * u64::from(SEQUENTIAL_BYTES) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "less than 16 MiB cannot be measured",
        ));
    }
    let span = plan.span;
    let random = Load {
        reads_percent: 100,
        sequential: false,
        block_bytes: plan.block_bytes,
        depth: 1,
        range: whole,
        warm_up: Duration::ZERO,
        time: span,
        rest: Duration::ZERO,
        flush: false,
    };
    let deep = Load { depth: plan.depth, warm_up: span / 5, ..random };
    let sequential = Load {
        sequential: true,
        block_bytes: SEQUENTIAL_BYTES,
        depth: SEQUENTIAL_DEPTH,
        warm_up: span / 5,
        ..random
    };
    let sustained = |load| Load { reads_percent: 0, warm_up: 2 * span, ..load };
    let single = Load { reads_percent: 0, rest: REST, ..random };
    let run = |load: &Load| run(target, load, plan.seed);
    let mb_per_s = |found: &Found| found.per_second * f64::from(SEQUENTIAL_BYTES) / 1e6;

    tell(0);
    fill(target, whole.1)?;
    tell(1);
    let read_in_sequence = run(&sequential)?;
    tell(2);
    let read = run(&random)?;
    tell(3);
    let reads = run(&deep)?;
    tell(4);
    let write = run(&single)?;
    tell(5);
    let flush = run(&Load { flush: true, ..single })?;
    tell(6);
    let written_in_sequence = run(&sustained(sequential))?;
    tell(7);
    let writes = run(&sustained(deep))?;
    tell(8);
    let (mut mixed, mut seeks, mut inner) = (None, Vec::new(), None);
    if plan.rotational {
        seeks = distances(target, plan)?;
        let last = whole.1 / 16 / u64::from(SEQUENTIAL_BYTES) * u64::from(SEQUENTIAL_BYTES);
        inner = Some(mb_per_s(&run(&Load { range: (whole.1 - last, last), ..sequential })?));
    } else {
        let found = run(&Load { reads_percent: MIXED_READS_PERCENT, ..sustained(deep) })?;
        mixed = Some(Mixed { reads_percent: MIXED_READS_PERCENT, iops: found.per_second });
    }
    target.flush()?;
    Ok(Probes {
        block_bytes: plan.block_bytes,
        depth: plan.depth,
        queue_depth: plan.queue_depth,
        read_us: read.mean_us(),
        read_iops: reads.per_second,
        write_us: write.median_us(),
        write_iops: writes.per_second,
        sequential_read_mb_per_s: mb_per_s(&read_in_sequence),
        sequential_write_mb_per_s: mb_per_s(&written_in_sequence),
        flush_us: flush.median_us(),
        cache_kib: None,
        mixed,
        inner_read_mb_per_s: inner,
        rpm: plan.rpm,
        seeks,
    })
}

/// Bytes that a drive cannot compress.
fn noise(len: u32, seed: u64) -> Buffer {
    let mut buffer = Buffer::new(len as usize);
    let mut random = Random::new(seed);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    buffer
}

/// Writes all of it once: sectors that were never written are not read from the medium.
fn fill(target: &dyn Target, len: u64) -> io::Result<()> {
    let next = AtomicU64::new(0);
    let threads = |_| {
        let next = &next;
        move || -> io::Result<()> {
            let data = noise(SEQUENTIAL_BYTES, 5);
            loop {
                let at = next.fetch_add(u64::from(SEQUENTIAL_BYTES), Ordering::Relaxed);
                if at >= len {
                    return Ok(());
                }
                target.write(at, &data)?;
            }
        }
    };
    together(SEQUENTIAL_DEPTH, threads)?;
    target.flush()
}

/// Runs `count` threads and returns the first error.
fn together<F: FnOnce() -> io::Result<()> + Send>(
    count: u16,
    make: impl Fn(u16) -> F,
) -> io::Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(make(number))).collect();
        let mut first = Ok(());
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a probe panicked")));
            first = first.and(ended);
        }
        first
    })
}

fn run(target: &dyn Target, load: &Load, seed: u64) -> io::Result<Found> {
    let began = clock::now();
    let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let from = began + nanos(load.warm_up);
    let until = from + nanos(load.time);
    let block = u64::from(load.block_bytes);
    let blocks = (load.range.1 / block).max(1);
    let (next, all) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    together(load.depth, |number| {
        let (next, all) = (&next, &all);
        move || {
            let mut random = Random::new(seed.wrapping_mul(1_000).wrapping_add(u64::from(number)));
            let mut buffer = noise(load.block_bytes, u64::from(number));
            let mut own = Vec::new();
            loop {
                let place = if load.sequential {
                    next.fetch_add(1, Ordering::Relaxed) % blocks
                } else {
                    random.below(blocks)
                };
                let at = load.range.0 + place * block;
                let reads = random.below(100) < u64::from(load.reads_percent);
                let mut start = clock::now();
                if reads {
                    target.read(at, &mut buffer)?;
                } else {
                    target.write(at, &buffer)?;
                }
                if load.flush {
                    start = clock::now();
                    target.flush()?;
                }
                let end = clock::now();
                if end > until {
                    break;
                }
                if end >= from {
                    own.push(end.since(start).0);
                }
                if load.rest > Duration::ZERO {
                    std::thread::sleep(load.rest);
                }
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            Ok(())
        }
    })?;
    let mut latencies_ns = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    latencies_ns.sort_unstable();
    // Counts of a few seconds are far below 2^53.
    Ok(Found { per_second: latencies_ns.len() as f64 / load.time.as_secs_f64(), latencies_ns })
}

/// Mean access times over some distances, back and forth from random positions.
fn distances(target: &dyn Target, plan: &Plan) -> io::Result<Vec<(f64, f64)>> {
    let block = u64::from(plan.block_bytes);
    let span = target.size_bytes() / block * block - 2 * block;
    let mut random = Random::new(plan.seed);
    let mut buffer = Buffer::new(plan.block_bytes as usize);
    let mut access = |at: u64| -> io::Result<f64> {
        let start = clock::now();
        target.read(at / ALIGN_BYTES as u64 * ALIGN_BYTES as u64, &mut buffer)?;
        Ok(clock::now().since(start).0 as f64 / 1e6)
    };
    let mut list = Vec::new();
    for part in DISTANCES {
        // A part of the span, in bytes.
        let distance = (span as f64 * part) as u64;
        let mut sum_ms = 0.0;
        access(0)?;
        for _ in 0..ACCESSES / 2 {
            let from = random.below(span - distance + 1);
            access(from)?;
            sum_ms += access(from + distance)?;
            sum_ms += access(from)?;
        }
        list.push((part, sum_ms / (ACCESSES / 2 * 2) as f64));
    }
    Ok(list)
}
