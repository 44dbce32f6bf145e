//! Fits a model to a few measurements of a device.
//!
//! # What is measured
//! Random reads and writes of one size at depth 1 and at depth N, sequential bandwidth, a flush
//! after a single write; for a disk, access times over some distances. A measurement of a real
//! device fills in [`Probes`]. [`Probes::of`] measures a model, for comparison.
//!
//! # What follows
//! *Flash.* Sequential reading gives the link. Latency at depth 1 is the sum of controller, die,
//! channel and link. Dies are added until they serve N random reads, and the sequential ones, fast
//! enough; what they could do beyond that is limited by the controller, whose time for each command
//! is found by bisection on the model itself. Sequential writing gives the time of a program, and
//! sustained random writing what cleaning adds to it. How long a die is busy with one program
//! cannot be told from that: four dies that take 1 ms write as fast as eight that take 2 ms. A
//! mixed load tells it, because reads wait for programs.
//! *Disks.* The seek curve is the least-squares fit of `a + b·√d + c·d` to the access times, less
//! half a revolution. What the queue gains is `ln(T₁ / T_N) / ln N` of the times to position; what
//! sorting gains for cached writes is their share of T₁.
//!
//! What cannot be measured from outside is assumed: pages of 16 KiB, channels of 1.2 GB/s, a power
//! of two of dies, and four fifths of the time before a transfer on the die. Dies are assumed to
//! switch from programs to reads in no time: the loss in a mixed load is attributed to the number
//! of dies.

use super::{Device, Model, hdd, ssd};
use crate::sim::{Job, Outcome, Pattern, run};
use headworks_policy::Nanos;
use headworks_policy::block::{Noop, Operation, Request, SECTOR_BYTES};

/// A mixed load at depth N.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    /// Percent of the requests that are reads, 1 to 99.
    pub reads_percent: u8,
    /// Reads and writes a second together, in the steady state.
    pub iops: f64,
}

/// Measurements of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// Size of the random requests in bytes.
    pub block_bytes: u32,
    /// N: depth of the deep measurements.
    pub depth: u16,
    /// Commands that the device takes at a time.
    pub queue_depth: u32,
    /// Mean latency of a random read at depth 1.
    pub read_us: f64,
    /// Random reads a second at depth N.
    pub read_iops: f64,
    /// Mean latency of a random write at depth 1 in a burst that the cache holds.
    pub write_us: f64,
    /// Random writes a second at depth N, in the steady state.
    pub write_iops: f64,
    /// Sequential reading at the first sectors, in requests of 1 MiB.
    pub sequential_read_mb_per_s: f64,
    /// The same for writing, sustained.
    pub sequential_write_mb_per_s: f64,
    /// Median time of a flush after a single random write.
    pub flush_us: f64,
    /// Writes that were acknowledged quickly before they became slow, if that was measured.
    pub cache_kib: Option<u32>,
    /// Random reads beside random writes, if that was measured. Flash only.
    pub mixed: Option<Mixed>,
    /// Sequential reading at the last sectors, if that was measured. Disks only.
    pub inner_read_mb_per_s: Option<f64>,
    /// Revolutions a minute, if known. Disks only.
    pub rpm: Option<f64>,
    /// Access times of random reads at depth 1: distance as a fraction of the span, mean time in
    /// milliseconds. None for flash.
    pub seeks: Vec<(f64, f64)>,
}

/// Why measurements fit no device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// A figure that must be above zero is not.
    #[error("the probe `{0}` is {1}: it must be above zero; measure it again on an idle device")]
    NotPositive(&'static str, f64),
    /// The deep measurements are not deep enough.
    #[error("the deep probes were made at depth {0}: use at least 8, better 32")]
    Shallow(u16),
    /// A seek curve needs more points.
    #[error(
        "{0} distances are too few for a seek curve: probe at least 3, spread from 0.01 to 1 of the \
         span"
    )]
    FewSeeks(usize),
}

/// Fits a device to measurements.
pub fn fit(probes: &Probes) -> Result<Device, CalibrateError> {
    let positive = [
        ("block_bytes", f64::from(probes.block_bytes)),
        ("read_us", probes.read_us),
        ("read_iops", probes.read_iops),
        ("write_us", probes.write_us),
        ("write_iops", probes.write_iops),
        ("sequential_read_mb_per_s", probes.sequential_read_mb_per_s),
        ("sequential_write_mb_per_s", probes.sequential_write_mb_per_s),
    ];
    for (name, value) in positive {
        // Also refuses NaN.
        if !matches!(value.partial_cmp(&0.0), Some(std::cmp::Ordering::Greater)) {
            return Err(CalibrateError::NotPositive(name, value));
        }
    }
    if probes.depth < 8 {
        return Err(CalibrateError::Shallow(probes.depth));
    }
    if probes.seeks.is_empty() {
        return Ok(Device::Ssd(fit_ssd(probes)));
    }
    fit_hdd(probes).map(Device::Hdd)
}

const PAGE_BYTES: f64 = 16_384.0;
const CHANNEL_MB_PER_S: f64 = 1_200.0;
/// A slower link is SATA, on which reads and writes share a wire.
const SATA_MB_PER_S: f64 = 700.0;

fn fit_ssd(probes: &Probes) -> ssd::Parameters {
    let block = f64::from(probes.block_bytes);
    // One byte in a microsecond is 1 MB/s.
    let read_mb_per_s = probes.read_iops * block / 1e6;
    let link_bound = read_mb_per_s >= 0.97 * probes.sequential_read_mb_per_s;
    let link_mb_per_s = if link_bound { read_mb_per_s } else { probes.sequential_read_mb_per_s };
    let moved_us = block / link_mb_per_s + block.min(PAGE_BYTES) / CHANNEL_MB_PER_S;
    let before_us = (probes.read_us - moved_us).max(1.0);
    let with = |dies: u32| {
        let channels = dies.min(16);
        let mut parameters = ssd::Parameters::from_numbers(|key| {
            let fields = ssd::Parameters::FIELDS.iter();
            let default = fields.filter(|field| field.key == key).find_map(|field| field.default);
            default.unwrap_or(0.0)
        });
        parameters.queue_depth = probes.queue_depth.clamp(1, 1024);
        parameters.channels = channels;
        parameters.ways = dies / channels;
        parameters.channel_mb_per_s = CHANNEL_MB_PER_S;
        parameters.link_mb_per_s = link_mb_per_s;
        parameters.half_duplex = link_mb_per_s < SATA_MB_PER_S;
        parameters.read_us = 0.8 * before_us;
        parameters.controller_us = 0.2 * before_us;
        parameters.cache_kib = probes.cache_kib.unwrap_or(4_096).max(16);
        parameters
    };
    // A link or a bisection may fall short by half a percent.
    let goal = if link_bound { 0.995 * probes.read_iops } else { probes.read_iops };
    let iops = |parameters: &ssd::Parameters| {
        deep(&Device::Ssd(*parameters), Operation::Read, probes, Nanos::from_millis(150))
    };
    let page_us = 0.8 * before_us + PAGE_BYTES / CHANNEL_MB_PER_S;
    let enough = |dies: &u32| {
        let in_sequence = f64::from(*dies) * PAGE_BYTES / page_us;
        in_sequence >= probes.sequential_read_mb_per_s && iops(&with(*dies)) >= goal
    };
    let dies = (1..=9).map(|power| 1 << power).find(enough).unwrap_or(512);
    let mut parameters = with(dies);
    if !link_bound {
        parameters.command_us = bisect(0.0, 1e6 / goal, |command_us| {
            iops(&ssd::Parameters { command_us, ..parameters }) >= goal
        });
    }
    fit_writes(&mut parameters, probes);
    if let Some(mixed) = probes.mixed {
        parameters = fit_mixed(parameters, probes, mixed);
    }
    parameters
}

/// More dies with longer programs: the same writes a second, but reads that come meanwhile wait
/// longer.
fn fit_mixed(parameters: ssd::Parameters, probes: &Probes, mixed: Mixed) -> ssd::Parameters {
    let least = parameters.ways;
    let with = |ways: u32| {
        let mut more = ssd::Parameters { ways, ..parameters };
        fit_writes(&mut more, probes);
        more
    };
    let off = |ways: u32| {
        let job = Job {
            reads_percent: mixed.reads_percent,
            block_bytes: probes.block_bytes,
            ..Job::random(Operation::Write, probes.depth, SPAN_SECTORS)
        };
        let (warm_up, time) = (Nanos::from_millis(1_500), Nanos::from_millis(1_000));
        probe(&Device::Ssd(with(ways)), job, warm_up, time).iops() - mixed.iops
    };
    let (mut low, mut high) = (least, 64.max(least));
    while high - low > 1 {
        let middle = (low + high) / 2;
        if off(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    with(if off(low).abs() <= off(high).abs() { low } else { high })
}

fn fit_writes(parameters: &mut ssd::Parameters, probes: &Probes) {
    let dies = f64::from(parameters.channels * parameters.ways);
    let pages_per_us = probes.write_iops * f64::from(probes.block_bytes) / PAGE_BYTES / 1e6;
    let page_us = dies / pages_per_us;
    let sequential_us = dies * PAGE_BYTES / probes.sequential_write_mb_per_s;
    parameters.program_us = sequential_us.min(page_us);
    parameters.clean_us = (page_us - parameters.program_us) * f64::from(parameters.clean_pages);
    let moved_us = f64::from(probes.block_bytes) / parameters.link_mb_per_s;
    parameters.write_us = (probes.write_us - moved_us).max(0.0);
    // A flush faster than a program did not wait for one: the cache is durable.
    parameters.power_loss_protected = probes.flush_us < 0.5 * parameters.program_us;
    // Between single writes the drive has time to clean, so a flush waits only for the program.
    let program_us = (parameters.program_us - probes.write_us).max(0.0);
    let waited_us = if parameters.power_loss_protected { 0.0 } else { program_us };
    parameters.flush_us = (probes.flush_us - waited_us).max(0.0);
}

/// The largest value for which `enough` holds; it must hold up to some point and not beyond.
fn bisect(mut low: f64, mut high: f64, enough: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        if enough(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn fit_hdd(probes: &Probes) -> Result<hdd::Parameters, CalibrateError> {
    let mut distances: Vec<f64> = probes.seeks.iter().map(|(distance, _)| *distance).collect();
    distances.sort_unstable_by(f64::total_cmp);
    distances.dedup();
    if distances.len() < 3 {
        return Err(CalibrateError::FewSeeks(distances.len()));
    }
    let mut parameters = hdd::Parameters::from_numbers(|key| {
        let fields = hdd::Parameters::FIELDS.iter();
        let default = fields.filter(|field| field.key == key).find_map(|field| field.default);
        default.unwrap_or(0.0)
    });
    parameters.queue_depth = probes.queue_depth.clamp(1, 1024);
    parameters.rpm = probes.rpm.unwrap_or(7_200.0);
    parameters.cache_kib = probes.cache_kib.unwrap_or(16_384);
    parameters.outer_mb_per_s = probes.sequential_read_mb_per_s;
    parameters.inner_mb_per_s =
        probes.inner_read_mb_per_s.unwrap_or(probes.sequential_read_mb_per_s / 2.0);
    let block = f64::from(probes.block_bytes);
    let moved_ms = block / 1e3 * mean_inverse(parameters.outer_mb_per_s, parameters.inner_mb_per_s);
    let fixed_ms = moved_ms + parameters.controller_us / 1e3;
    let [settle, root, linear] = least_squares(&probes.seeks);
    parameters.seek_settle_ms = (settle - fixed_ms - 30e3 / parameters.rpm).max(0.0);
    parameters.seek_sqrt_ms = root.max(0.0);
    parameters.seek_linear_ms = linear.max(0.0);
    let alone_ms = (probes.read_us / 1e3 - fixed_ms).max(0.01);
    let queued_ms = (1e3 / probes.read_iops - moved_ms).max(0.001);
    parameters.queue_gain =
        ((alone_ms / queued_ms).ln() / f64::from(probes.depth).ln()).clamp(0.0, 1.0);
    let written_ms = (1e3 / probes.write_iops - moved_ms).max(0.0);
    parameters.write_gain = (written_ms / alone_ms).clamp(0.0, 1.0);
    let link_us = block / parameters.link_mb_per_s;
    parameters.write_us = (probes.write_us - link_us).max(0.0);
    let waited_us = written_ms * 1e3 + moved_ms * 1e3 - probes.write_us;
    parameters.flush_us = (probes.flush_us - waited_us).max(0.0);
    Ok(parameters)
}

/// Mean time of a megabyte, in seconds, over tracks whose speed falls linearly.
fn mean_inverse(outer: f64, inner: f64) -> f64 {
    if outer - inner < 1e-6 { 1.0 / outer } else { (outer / inner).ln() / (outer - inner) }
}

/// a, b, c with the least Σ (a + b·√d + c·d − t)², by Cramer's rule on the normal equations. Points
/// that lie on fewer than three distances have no unique answer; then b, c or both are 0.
fn least_squares(points: &[(f64, f64)]) -> [f64; 3] {
    let mut matrix = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (distance, time) in points {
        let row = [1.0, distance.max(0.0).sqrt(), *distance];
        for i in 0..3 {
            for j in 0..3 {
                matrix[i][j] += row[i] * row[j];
            }
            right[i] += row[i] * time;
        }
    }
    let determinant = |m: &[[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = determinant(&matrix);
    let mut answer = [0.0; 3];
    if whole.abs() < 1e-12 {
        answer[0] = right[0] / matrix[0][0].max(1.0);
        return answer;
    }
    for (column, value) in answer.iter_mut().enumerate() {
        let mut replaced = matrix;
        for row in 0..3 {
            replaced[row][column] = right[row];
        }
        *value = determinant(&replaced) / whole;
    }
    answer
}

/// Size of the volume on which models are probed, in sectors: 256 GiB.
const SPAN_SECTORS: u64 = 256 << 21;
const SEED: u64 = 7;

fn probe(device: &Device, job: Job, warm_up: Nanos, time: Nanos) -> Outcome {
    let mut model = device.model(SPAN_SECTORS * SECTOR_BYTES, SEED);
    let mut noop = Box::new(Noop::default());
    run(noop.as_mut(), model.as_mut(), &[job], warm_up, time, SEED).swap_remove(0)
}

fn deep(device: &Device, operation: Operation, probes: &Probes, time: Nanos) -> f64 {
    let block_bytes = probes.block_bytes;
    let job = Job { block_bytes, ..Job::random(operation, probes.depth, SPAN_SECTORS) };
    probe(device, job, Nanos(time.0 / 5), time).iops()
}

impl Probes {
    /// Measures a model, in simulated time.
    pub fn of(device: &Device, block_bytes: u32, depth: u16) -> Probes {
        let slow = device.is_rotational();
        let second = Nanos::from_millis(1_000);
        let time = if slow { Nanos(60 * second.0) } else { second };
        let random =
            |operation, depth| Job { block_bytes, ..Job::random(operation, depth, SPAN_SECTORS) };
        let sequential = |operation| Job {
            pattern: Pattern::Sequential,
            block_bytes: 1 << 20,
            ..Job::random(operation, 8, SPAN_SECTORS)
        };
        // The cache of every drive fills within this time of sustained writing.
        let filled = Nanos(if slow { 120 * second.0 } else { 2 * second.0 });
        let measure = |job, warm_up, time| probe(device, job, warm_up, time);
        let writes = measure(random(Operation::Write, depth), filled, time);
        let burst = Job { think: Nanos(time.0 / 50), ..random(Operation::Write, 1) };
        let flushed = Job { flush_every: 1, think: Nanos(0), ..burst };
        let one = Nanos(0);
        Probes {
            block_bytes,
            depth,
            queue_depth: device.model(SPAN_SECTORS * SECTOR_BYTES, SEED).depth(),
            read_us: measure(random(Operation::Read, 1), one, time).mean().0 as f64 / 1e3,
            read_iops: measure(random(Operation::Read, depth), Nanos(time.0 / 5), time).iops(),
            write_us: measure(burst, one, time).latency(0.5).0 as f64 / 1e3,
            write_iops: writes.iops(),
            sequential_read_mb_per_s: measure(sequential(Operation::Read), one, second).mb_per_s(),
            sequential_write_mb_per_s: measure(sequential(Operation::Write), second, second)
                .mb_per_s(),
            flush_us: median_us(&measure(flushed, one, time).flushes_ns),
            cache_kib: None,
            mixed: None,
            inner_read_mb_per_s: slow.then(|| inner(device)),
            rpm: None,
            seeks: if slow { seeks(device, block_bytes) } else { Vec::new() },
        }
    }
}

fn median_us(sorted_ns: &[u64]) -> f64 {
    sorted_ns.get(sorted_ns.len() / 2).map_or(0.0, |ns| *ns as f64 / 1e3)
}

/// Sequential reading at the last sectors, in MB/s.
fn inner(device: &Device) -> f64 {
    let sectors = 2 << 21;
    let job = Job {
        pattern: Pattern::Sequential,
        block_bytes: 1 << 20,
        first_sector: SPAN_SECTORS - sectors,
        ..Job::random(Operation::Read, 8, sectors)
    };
    probe(device, job, Nanos::from_millis(500), Nanos::from_millis(1_000)).mb_per_s()
}

/// Mean access times over some distances, back and forth.
fn seeks(device: &Device, block_bytes: u32) -> Vec<(f64, f64)> {
    let mut model = device.model(SPAN_SECTORS * SECTOR_BYTES, SEED);
    let sectors = u64::from(block_bytes) / SECTOR_BYTES;
    let mut now = Nanos(0);
    let mut access = |model: &mut dyn Model, sector| {
        // A block has far fewer sectors than the type holds.
        let command = Request::new(Operation::Read, sector, sectors as u32);
        let done = model.start(now, &command);
        let took = done.since(now);
        now = done + Nanos(1);
        took
    };
    let times = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0].map(|part| {
        // A part of the span, in whole sectors.
        let distance = ((SPAN_SECTORS - 2 * sectors) as f64 * part) as u64;
        let mut sum = Nanos(0);
        for _ in 0..500 {
            sum += access(model.as_mut(), 0);
            sum += access(model.as_mut(), distance + sectors);
        }
        (part, sum.0 as f64 / 1e6 / 1_000.0)
    });
    times.to_vec()
}
