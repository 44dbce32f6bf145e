//! One run: users on a database behind a modelled device, and what was counted. Nothing here judges
//! a number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use headworks_bufferpool::storage::{
    Fifo, HostQueue, IoKind, IoQueue, IoScheduler, QueuedStorage, SimDevice, SimStats, Storage,
};
use headworks_bufferpool::{Doublewrite, PoolConfig, PoolStats, StrategyKind, attribution};
use headworks_engine::{Engine, EngineConfig, EngineError, MemLog, TreeLatch, linkbench, tpcc};
use headworks_policy::block::{SECTOR_BYTES, SchedulerKind};

use super::data::{Data, Database, PAGE_BYTES};
use super::device::DeviceKind;
use super::queues::{PolicyQueue, by_user, foreground_first};
use headworks_policy::metrics::percentile;

/// A sync of the log, which has a separate device, as in the paper. A SATA drive's, with nothing
/// else to do.
const LOG_SYNC: Duration = Duration::from_micros(500);

/// A page, in sectors.
const PAGE_SECTORS: u32 = (PAGE_BYTES as u64 / SECTOR_BYTES) as u32;

/// Where the log of a run begins: after every position that the loaded pages carry.
const LOG_START: u64 = 1 << 44;

/// Longest wait for a row lock.
const LOCK_LIMIT: Duration = Duration::from_secs(50);

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setup {
    pub(super) strategy: StrategyKind,
    pub(super) frequency: bool,
    pub(super) device: DeviceKind,
    pub(super) mix: tpcc::Mix,
    pub(super) threads: usize,
    /// Frames in percent of the loaded database's pages.
    pub(super) buffer_percent: f64,
    pub(super) instances: usize,
    /// Pages that a miss looks at, and pages of a flusher's round.
    pub(super) scan_depth: usize,
    /// From one round of the flusher to the next.
    pub(super) flush_interval: Duration,
    pub(super) doublewrite: bool,
    /// Batches of doublewrite that can be under way at a time. InnoDB up to 8.0.19 has one.
    pub(super) doublewrite_batches: usize,
    pub(super) queue: QueueOrder,
    pub(super) tree_latch: TreeLatch,
}

/// What is between the pool and the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum QueueOrder {
    /// Nothing.
    Straight,
    /// A queue in the order of arrival.
    Arrival,
    /// A queue that serves requests with a waiting thread first.
    ForegroundFirst,
    /// A queue in which every user gets as much of the device, for its misses and the writes of its
    /// pages.
    ByUser,
}

/// Places of such a queue.
const PLACES: usize = 32;

/// Reads as which a write of a page is charged. On the paper's NVMe drives a write takes five times
/// as long (Table 1), and so does its doublewrite copy.
const WRITE_COST: u32 = 10;

impl QueueOrder {
    fn before(self, device: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let scheduler: Box<dyn IoScheduler> = match self {
            QueueOrder::Straight => return device,
            QueueOrder::Arrival => Box::new(Fifo::default()),
            QueueOrder::ForegroundFirst => {
                let cfq = SchedulerKind::Cfq.build_for(false);
                Box::new(PolicyQueue::new(cfq, foreground_first, PAGE_SECTORS))
            }
            QueueOrder::ByUser => {
                let afq = SchedulerKind::Afq.build_for(false);
                let queue = PolicyQueue::new(afq, by_user(|_| 0), PAGE_SECTORS);
                Box::new(queue.charging_writes(WRITE_COST))
            }
        };
        Arc::new(QueuedStorage::new(device, Arc::new(IoQueue::new(scheduler, PLACES))))
    }
}

impl Setup {
    /// For the record.
    pub(super) fn describe(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("strategy", format!("{:?}", self.strategy)),
            ("frequency", self.frequency.to_string()),
            ("device", self.device.describe()),
            ("threads", self.threads.to_string()),
            ("buffer_percent", self.buffer_percent.to_string()),
            ("instances", self.instances.to_string()),
            ("scan_depth", self.scan_depth.to_string()),
            ("flush_interval_ms", setup_ms(self.flush_interval)),
            ("doublewrite", self.doublewrite.to_string()),
            ("doublewrite_batches", self.doublewrite_batches.to_string()),
            ("mix", format!("{:?}", self.mix)),
            ("queue", format!("{:?}", self.queue)),
            ("tree_latch", format!("{:?}", self.tree_latch)),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

fn setup_ms(time: Duration) -> String {
    (time.as_secs_f64() * 1e3).to_string()
}

/// Lengths of a run's parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time {
    /// With a device that takes no time, until the pool is full of what users want.
    pub(super) fill_s: f64,
    /// With the device, until queues and regions are as they stay.
    pub(super) settle_s: f64,
    pub(super) window_s: f64,
}

impl Time {
    pub(super) fn total_s(self) -> f64 {
        self.fill_s + self.settle_s + self.window_s
    }
}

/// Users count what they do only in the window.
const WARMING: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// What users did in the window.
#[derive(Default)]
struct Done {
    latencies_us: Vec<u32>,
    timeouts: u64,
}

/// Interval at which Ctrl-C is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A sleep that is longer than intended by this much means that the process or machine was stopped.
const STOPPED: Duration = Duration::from_millis(900);

/// The process stood still during a run: the device's clock went on, and nothing that was counted
/// means anything.
#[derive(Debug, thiserror::Error)]
#[error(
    "the process stood still for {0:?}: was it stopped, or is the machine out of processor time?"
)]
pub(super) struct Stopped(Duration);

/// Counters at one moment.
struct Moment {
    at: Instant,
    pool: PoolStats,
    device: SimStats,
    cpu: Duration,
}

/// Runs users as `setup` says, each with a random sequence that follows from `seed`.
///
/// `tick` is called now and then; an error of it ends the run.
pub(super) fn run(
    setup: &Setup,
    data: &Data,
    time: Time,
    seed: u64,
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<BTreeMap<String, f64>> {
    let batches = setup.doublewrite_batches;
    let area_pages = Doublewrite::AREA_PAGES * batches as u64;
    let timing = setup.device.timing(data.pages() + area_pages)?;
    let device =
        Arc::new(SimDevice::with_timing(data.fresh(area_pages), timing, HostQueue::default()));
    device.set_free(true);
    let whole = setup.queue.before(Arc::clone(&device) as _);
    let area = data.stretch(&whole, data.pages(), area_pages)?;
    let area = setup.doublewrite.then(|| Doublewrite::with_batches(area, batches).map(Arc::new));
    let area = area.transpose()?;
    let log = Arc::new(MemLog::starting_at(LOG_SYNC, LOG_START));
    let config = EngineConfig {
        pool: pool_config(setup, data),
        lock_limit: LOCK_LIMIT,
        tree_latch: setup.tree_latch,
        // Nothing recovers here, and its syncs would be one more difference between rounds.
        checkpoint_log_bytes: u64::MAX,
    };
    let pages = data.stretch(&whole, 0, data.pages())?;
    let (engine, _) = Engine::open(config, pages, log, area)?;
    let phase = AtomicU8::new(WARMING);
    let failed = AtomicBool::new(false);
    let (moments, done) = std::thread::scope(|scope| -> Result<_> {
        let users: Vec<_> = (0..setup.threads)
            .map(|user| {
                let (engine, phase, failed) = (&engine, &phase, &failed);
                scope.spawn(move || {
                    let done = user_loop(engine, setup, data.database, user, seed, phase);
                    failed.fetch_or(done.is_err(), Ordering::Relaxed);
                    done
                })
            })
            .collect();
        let mut longest = Duration::ZERO;
        let mut wait = |seconds: f64| -> Result<()> {
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            while let left = until.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !failed.load(Ordering::Relaxed)
            {
                tick()?;
                let asleep = Instant::now();
                std::thread::sleep(left.min(POLL_INTERVAL));
                longest = longest.max(asleep.elapsed());
            }
            Ok(())
        };
        let moment = || Moment {
            at: Instant::now(),
            pool: engine.pool().stats(),
            device: device.stats(),
            cpu: cpu_time(),
        };
        let mut moments = Vec::new();
        let measured = (|| -> Result<()> {
            // While the device takes no time, misses are many times what they will be. The flusher
            // could not keep up in its seconds, and the device would begin with a backlog.
            let filled = Instant::now() + Duration::from_secs_f64(time.fill_s);
            while Instant::now() < filled && !failed.load(Ordering::Relaxed) {
                engine.pool().flush_round()?;
                wait(0.02)?;
            }
            engine.pool().flush_round()?;
            device.set_free(false);
            wait(time.settle_s)?;
            moments.push(moment());
            phase.store(COUNTING, Ordering::Release);
            wait(time.window_s)?;
            moments.push(moment());
            Ok(())
        })();
        phase.store(OVER, Ordering::Release);
        // What is left to do need not take the device's time.
        device.set_free(true);
        let mut all = Done::default();
        for user in users {
            let done = user.join().map_err(|_| anyhow!("a user panicked"))??;
            all.latencies_us.extend(done.latencies_us);
            all.timeouts += done.timeouts;
        }
        measured?;
        if longest > POLL_INTERVAL + STOPPED {
            bail!(Stopped(longest));
        }
        Ok((moments, all))
    })?;
    let [before, after] =
        <[Moment; 2]>::try_from(moments).map_err(|_| anyhow!("the run ended before its window"))?;
    numbers(setup, data, &before, &after, done)
}

fn pool_config(setup: &Setup, data: &Data) -> PoolConfig {
    // Frames are far below 2^52; a fraction of one is none.
    let frames = (data.used as f64 * setup.buffer_percent / 100.0) as usize;
    PoolConfig {
        frames,
        page_size: PAGE_BYTES,
        instances: setup.instances,
        strategy: setup.strategy,
        frequency: setup.frequency,
        scan_depth: setup.scan_depth,
        flush_batch: setup.scan_depth,
        flush_interval: setup.flush_interval,
        io_batch: 1024,
        exhausted_after: Duration::from_secs(120),
        ..PoolConfig::default()
    }
}

fn user_loop(
    engine: &Engine,
    setup: &Setup,
    database: Database,
    user: usize,
    seed: u64,
    phase: &AtomicU8,
) -> Result<Done, EngineError> {
    // Users are few: their numbers fit into 32 bits.
    let own_seed = seed.wrapping_mul(1 << 20).wrapping_add(user as u64 + 1);
    let mut step: Box<dyn FnMut() -> Result<(), EngineError>> = match database {
        Database::Tpcc(warehouses) => {
            let scale = tpcc::Scale::tenth(warehouses);
            let mut client = tpcc::Client::new(engine, scale, own_seed).with_mix(setup.mix);
            Box::new(move || client.step().map(drop).map_err(|(_, error)| error))
        }
        Database::LinkBench(nodes) => {
            let mut client = linkbench::Client::new(engine, nodes, user as u32, own_seed);
            Box::new(move || client.step().map(drop).map_err(|(_, error)| error))
        }
    };
    let mut done = Done::default();
    loop {
        let begun_in = phase.load(Ordering::Acquire);
        if begun_in == OVER {
            return Ok(done);
        }
        let start = Instant::now();
        // Cause 0 means none.
        let result = attribution::with(user as u32 + 1, &mut step);
        // A transaction counts where it ends: one that lasts long must not go uncounted.
        let counts = phase.load(Ordering::Acquire) == COUNTING;
        match result {
            Ok(()) if counts => {
                // A transaction takes less than an hour.
                done.latencies_us.push(start.elapsed().as_micros() as u32);
            }
            Ok(()) | Err(EngineError::Rollback(_)) => {}
            Err(EngineError::LockTimeout { .. }) => done.timeouts += u64::from(counts),
            Err(error) => return Err(error),
        }
    }
}

/// Time that all threads of this process have run.
fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid rusage, and getrusage only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        // The kernel's times are not negative.
        Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn numbers(
    setup: &Setup,
    data: &Data,
    before: &Moment,
    after: &Moment,
    done: Done,
) -> Result<BTreeMap<String, f64>> {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let pool = after.pool.since(&before.pool);
    let mut latencies_us = done.latencies_us;
    latencies_us.sort_unstable();
    let quantile =
        |part: f64| percentile(&latencies_us, part).map_or(f64::NAN, |us| f64::from(us) / 1000.0);
    // Counts of a run are far below 2^52.
    let count = latencies_us.len() as f64;
    let mean_ms = latencies_us.iter().map(|&us| f64::from(us)).sum::<f64>() / count / 1000.0;
    let per_s = |count: u64| count as f64 / seconds;
    let each = |sum: u64, count: u64| sum as f64 / (count as f64).max(1.0);
    let of_users = |ns: u64| 100.0 * ns as f64 / 1e9 / seconds / setup.threads as f64;
    let reads_per_s = per_s(after.device.reads - before.device.reads);
    let writes_per_s = per_s(pool.pages_written());
    let copies_per_s = per_s(pool.writes[IoKind::Doublewrite.index()]);
    let random_per_s = reads_per_s + writes_per_s;
    let reads_fraction = reads_per_s / random_per_s.max(1e-9);
    // A percentage.
    let reads_percent = (reads_fraction * 100.0).round() as u8;
    let depth = u16::try_from(setup.threads).context("too many threads for a device's queue")?;
    let limit_iops = setup.device.limit_iops(data.pages(), depth, reads_percent.min(99))?;
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let cpu_s = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    let pairs = [
        ("throughput_per_s", count / seconds),
        ("latency_mean_ms", mean_ms),
        ("latency_p50_ms", quantile(0.5)),
        ("latency_p95_ms", quantile(0.95)),
        ("latency_p99_ms", quantile(0.99)),
        ("latency_max_ms", quantile(1.0)),
        ("timeouts_per_s", per_s(done.timeouts)),
        ("read_stall_percent", 100.0 * pool.stall_ratio()),
        ("read_stalls", pool.read_stalls as f64),
        ("read_stall_mean_ms", each(pool.read_stall_ns, pool.read_stalls) / 1e6),
        ("frame_wait_percent", 100.0 * each(pool.frame_waits, pool.misses)),
        ("buffer_wait_percent", 100.0 * each(pool.buffer_waits, pool.misses)),
        ("lru_mutex_wait_mean_us", each(pool.lru_mutex_wait_ns, pool.lru_mutex_acquired) / 1e3),
        ("lru_mutex_wait_ms_per_s", per_s(pool.lru_mutex_wait_ns) / 1e6),
        ("read_mean_ms", each(pool.read_ns, pool.reads[IoKind::Miss.index()]) / 1e6),
        // Of what users have in hand, who are always in a transaction.
        ("in_reads_percent", of_users(pool.read_ns)),
        ("in_stalls_percent", of_users(pool.read_stall_ns)),
        ("in_frame_waits_percent", of_users(pool.frame_wait_ns + pool.buffer_wait_ns)),
        ("in_lru_mutex_percent", of_users(pool.lru_mutex_wait_ns)),
        ("device_syncs_per_s", per_s(after.device.syncs - before.device.syncs)),
        ("scanned_per_miss", each(pool.scanned, pool.misses)),
        ("miss_percent", 100.0 * pool.miss_ratio()),
        ("hits_per_transaction", pool.hits as f64 / count),
        ("reads_per_transaction", reads_per_s * seconds / count),
        ("dirty_region_hits_per_s", per_s(pool.dirty_region_hits)),
        ("dirty_pages_percent", 100.0 * each(pool.dirty_pages, data.used)),
        ("flush_rounds", pool.rounds as f64),
        ("read_pages_per_s", reads_per_s),
        ("written_pages_per_s", writes_per_s),
        ("copied_pages_per_s", copies_per_s),
        ("reads_to_writes", reads_per_s / writes_per_s.max(1e-9)),
        ("device_limit_iops", limit_iops),
        ("device_limit_fraction", random_per_s / limit_iops),
        ("device_limit_fraction_with_copies", (random_per_s + copies_per_s) / limit_iops),
        ("cpu_percent", 100.0 * cpu_s / seconds / cores),
    ];
    Ok(pairs.map(|(key, value)| (key.to_owned(), value)).into())
}
