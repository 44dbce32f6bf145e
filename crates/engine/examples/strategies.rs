//! Throughput of TPC-C or LinkBench under each replacement strategy, on a modelled SSD.
//!
//! ```text
//! cargo run --release -p headworks-engine --example strategies -- \
//!     [--workload tpcc|linkbench] [--warehouses 256] [--nodes 3000000] [--threads 64] [--seconds 20]
//!     [--buffer-percent 10] [--device ssd-a|ssd-c] [--slow 1] [--instances 1] [--doublewrite on,off]
//!     [--area-pages 128]
//!     [--interval-ms 1000] [--scan-depth 1024] [--flush-batch 1024] [--window 4096] [--war-pages 512] [--strategies vanilla,cflru,war,basic,dynamic,lruc,eager]
//! ```
//!
//! A warehouse has a tenth of the standard's rows, so that 64 users have 256 warehouses on a
//! database of 2 to 3 GB. The database is loaded once; the arms run on it one after another, each
//! with an empty pool, five seconds of warm-up, and as many seconds of measurement as asked for.

use headworks_bufferpool::storage::{
    DeviceModel, IoKind, MemStorage, SimDevice, Storage, SubStorage,
};
use headworks_bufferpool::{Doublewrite, PageId, PoolConfig, PoolStats, StrategyKind};
use headworks_engine::{Engine, EngineConfig, EngineError, MemLog, linkbench, tpcc};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE_SIZE: usize = 16 * 1024;
const WARM_UP: Duration = Duration::from_secs(5);
/// A separate log device, as in the paper: what its sync takes.
const LOG_SYNC: Duration = Duration::from_micros(200);

/// Arms so far: each has its own positions in the log.
static EPOCH: AtomicU64 = AtomicU64::new(1);

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options(HashMap<String, String>);

impl Options {
    fn read() -> Result<Self, Failure> {
        let mut options = HashMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("{word}: an option begins with --"))?;
            let value = words.next().ok_or_else(|| format!("--{name} wants a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Self(options))
    }

    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        match self.0.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name} {text}: no number").into()),
        }
    }
}

#[derive(Clone, Copy)]
enum Workload {
    Tpcc(tpcc::Scale),
    LinkBench(u32),
}

struct Setup {
    workload: Workload,
    threads: u64,
    seconds: u64,
    pool: PoolConfig,
    model: DeviceModel,
    doublewrite: bool,
    area_pages: u64,
}

struct Outcome {
    per_s: f64,
    latencies_us: Vec<u64>,
    pool: PoolStats,
    utilization: f64,
    reads_per_s: f64,
    writes_per_s: f64,
    timeouts: u64,
}

fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let warehouses = options.number("warehouses", 256u32)?;
    let nodes = options.number("nodes", 3_000_000u32)?;
    let (workload, pages) = match options.text("workload", "tpcc") {
        "tpcc" => {
            (Workload::Tpcc(tpcc::Scale::tenth(warehouses)), u64::from(warehouses) * 1000 + 20_000)
        }
        "linkbench" => (Workload::LinkBench(nodes), u64::from(nodes) / 8 + 20_000),
        other => return Err(format!("--workload {other}: tpcc or linkbench").into()),
    };
    let model = match options.text("device", "ssd-c") {
        "ssd-a" => DeviceModel::ssd_a(),
        "ssd-c" => DeviceModel::ssd_c(),
        other => return Err(format!("--device {other}: ssd-a or ssd-c").into()),
    };
    let area_pages = options.number("area-pages", Doublewrite::AREA_PAGES)?;
    let storage = Arc::new(MemStorage::new(PAGE_SIZE, pages + area_pages));
    let start = Instant::now();
    let used = load(workload, Arc::clone(&storage), pages)?;
    let frames = usize::try_from(used * options.number("buffer-percent", 10u64)? / 100)?;
    println!(
        "{used} pages ({} MB) loaded in {:.0} s; pool of {frames} frames",
        used * PAGE_SIZE as u64 / 1_000_000,
        start.elapsed().as_secs_f64()
    );
    for doublewrite in options.text("doublewrite", "on").split(',') {
        for interval_ms in options.text("interval-ms", "1000").split(',') {
            let setup = Setup {
                workload,
                threads: options.number("threads", 64)?,
                seconds: options.number("seconds", 20)?,
                pool: PoolConfig {
                    frames,
                    page_size: PAGE_SIZE,
                    instances: options.number("instances", 1)?,
                    scan_depth: options.number("scan-depth", 1024)?,
                    flush_batch: options.number("flush-batch", 1024)?,
                    flush_interval: Duration::from_millis(interval_ms.parse()?),
                    io_batch: 1024,
                    exhausted_after: Duration::from_secs(60),
                    ..PoolConfig::default()
                },
                model: model.slowed(options.number("slow", 1.0)?),
                doublewrite: doublewrite == "on",
                area_pages,
            };
            println!("doublewrite {doublewrite}, flusher every {interval_ms} ms");
            compare(&options, &setup, &storage, pages)?;
        }
    }
    Ok(())
}

fn compare(
    options: &Options,
    setup: &Setup,
    storage: &Arc<MemStorage>,
    pages: u64,
) -> Result<(), Failure> {
    println!(
        "{:<8} {:>8} {:>6} {:>7} {:>7} {:>7} {:>9} {:>10} {:>7} {:>7} {:>8} {:>8} {:>6} {:>8} {:>6}",
        "strategy",
        "tx/s",
        "x",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "stalls %",
        "stall ms",
        "mtx us",
        "mtx %",
        "reads/s",
        "writes/s",
        "miss %",
        "device %",
        "retry"
    );
    let war_pages = options.number("war-pages", 512)?;
    let window = options.number("window", 4096)?;
    let mut first = None;
    for name in options.text("strategies", "vanilla,cflru,war,basic,dynamic,lruc,eager").split(',')
    {
        let strategy = match name {
            "vanilla" => StrategyKind::Vanilla,
            "cflru" => StrategyKind::CfLru { window },
            "war" => StrategyKind::War { buffer_pages: war_pages },
            "basic" => StrategyKind::LRU_C_BASIC,
            "dynamic" => StrategyKind::LRU_C_DYNAMIC,
            "lruc" => StrategyKind::LRU_C,
            "eager" => StrategyKind::LRU_C_EAGER,
            other => return Err(format!("--strategies {other}: unknown").into()),
        };
        let outcome = run(setup, strategy, Arc::clone(storage), pages)?;
        report(name, &outcome, setup, *first.get_or_insert(outcome.per_s));
    }
    Ok(())
}

fn load(workload: Workload, storage: Arc<MemStorage>, pages: u64) -> Result<u64, Failure> {
    let config = EngineConfig {
        pool: PoolConfig { frames: 60_000, page_size: PAGE_SIZE, ..PoolConfig::default() },
        ..EngineConfig::default()
    };
    let data = Arc::new(SubStorage::new(storage, PageId(0), pages)?);
    let log = Arc::new(MemLog::default());
    let heaps: &[bool] = match workload {
        Workload::Tpcc(_) => &tpcc::HEAPS,
        Workload::LinkBench(_) => &linkbench::HEAPS,
    };
    let engine = Engine::create(config, data, log, None, heaps)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The log must not grow as large as the database.
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(500));
                if let Err(error) = engine.flush() {
                    println!("checkpoint: {error}");
                }
            }
        });
        let loaded = match workload {
            Workload::Tpcc(scale) => tpcc::load(&engine, scale, 1),
            Workload::LinkBench(nodes) => linkbench::load(&engine, nodes),
        };
        done.store(true, Ordering::Release);
        loaded
    })?;
    engine.flush()?;
    Ok(engine.pages_used())
}

fn run(
    setup: &Setup,
    strategy: StrategyKind,
    storage: Arc<MemStorage>,
    pages: u64,
) -> Result<Outcome, Failure> {
    let device = Arc::new(SimDevice::new(storage, setup.model));
    let data: Arc<dyn Storage> = Arc::new(SubStorage::new(device.clone(), PageId(0), pages)?);
    let area = SubStorage::new(device.clone(), PageId(pages), setup.area_pages)?;
    let area = Arc::new(Doublewrite::new(Arc::new(area))?);
    let config = EngineConfig {
        pool: PoolConfig { strategy, ..setup.pool },
        lock_limit: Duration::from_secs(5),
        checkpoint_log_bytes: u64::MAX,
        ..EngineConfig::default()
    };
    // The log is new for each arm: the database was flushed. A page's LSN may be beyond the log's
    // end, which the pool must not wait for, so the log begins after all of them.
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed);
    let log = Arc::new(MemLog::starting_at(LOG_SYNC, epoch << 44));
    let doublewrite = setup.doublewrite.then_some(area);
    let (engine, _) = Engine::open(config, data, log, doublewrite)?;
    let stop = AtomicBool::new(false);
    let measuring = AtomicBool::new(false);
    let (mut latencies_us, mut timeouts, mut utilization) = (Vec::new(), 0, 0.0);
    let (mut pool, mut seconds, mut device_stats) = (PoolStats::default(), 0.0, (0, 0));
    std::thread::scope(|scope| -> Result<(), Failure> {
        let users: Vec<_> = (0..setup.threads)
            .map(|user| {
                let (engine, stop, measuring) = (&engine, &stop, &measuring);
                scope.spawn(move || user_loop(engine, setup.workload, user, stop, measuring))
            })
            .collect();
        std::thread::sleep(WARM_UP);
        let (before, start) = (engine.pool().stats(), Instant::now());
        let device_before = device.stats();
        measuring.store(true, Ordering::Release);
        while start.elapsed() < Duration::from_secs(setup.seconds) {
            std::thread::sleep(Duration::from_secs(1).min(Duration::from_secs(setup.seconds)));
        }
        measuring.store(false, Ordering::Release);
        seconds = start.elapsed().as_secs_f64();
        pool = engine.pool().stats().since(&before);
        let after = device.stats();
        device_stats = (
            after.reads - device_before.reads,
            after.writes + after.runs - device_before.writes - device_before.runs,
        );
        let busy = (after.busy_ns - device_before.busy_ns) as f64;
        utilization = busy / (seconds * 1e9 * f64::from(setup.model.units));
        stop.store(true, Ordering::Release);
        for user in users {
            let (latencies, failed) = user.join().map_err(|_| "a user panicked")??;
            latencies_us.extend(latencies);
            timeouts += failed;
        }
        latencies_us.sort_unstable();
        Ok(())
    })?;
    engine.flush()?;
    Ok(Outcome {
        per_s: latencies_us.len() as f64 / seconds,
        latencies_us,
        pool,
        utilization,
        reads_per_s: device_stats.0 as f64 / seconds,
        writes_per_s: device_stats.1 as f64 / seconds,
        timeouts,
    })
}

type UserResult = Result<(Vec<u64>, u64), EngineError>;

fn user_loop(
    engine: &Engine,
    workload: Workload,
    user: u64,
    stop: &AtomicBool,
    measuring: &AtomicBool,
) -> UserResult {
    let mut step: Box<dyn FnMut() -> Result<(), EngineError>> = match workload {
        Workload::Tpcc(scale) => {
            let mut client = tpcc::Client::new(engine, scale, user + 1);
            Box::new(move || client.step().map(drop).map_err(|(_, error)| error))
        }
        Workload::LinkBench(nodes) => {
            // Users are few.
            let mut client = linkbench::Client::new(engine, nodes, user as u32, 1);
            Box::new(move || client.step().map(drop).map_err(|(_, error)| error))
        }
    };
    let (mut latencies, mut timeouts) = (Vec::new(), 0);
    while !stop.load(Ordering::Acquire) {
        let start = Instant::now();
        match step() {
            Ok(()) => {
                if measuring.load(Ordering::Acquire) {
                    // Below 584 million years.
                    latencies.push(start.elapsed().as_micros() as u64);
                }
            }
            Err(EngineError::Rollback(_)) => {}
            Err(EngineError::LockTimeout { .. }) => timeouts += 1,
            Err(error) => {
                stop.store(true, Ordering::Release);
                return Err(error);
            }
        }
    }
    Ok((latencies, timeouts))
}

fn report(name: &str, outcome: &Outcome, setup: &Setup, first: f64) {
    let percentile = |share: f64| {
        let last = outcome.latencies_us.len().saturating_sub(1);
        // A position in the list.
        let at = (last as f64 * share) as usize;
        outcome.latencies_us.get(at).copied().unwrap_or(0) as f64 / 1000.0
    };
    let pool = &outcome.pool;
    let per = |sum: u64, count: u64| sum as f64 / (count as f64).max(1.0);
    let thread_ns = setup.threads as f64 * setup.seconds as f64 * 1e9;
    println!(
        "{name:<8} {:>8.0} {:>6.2} {:>7.1} {:>7.1} {:>7.1} {:>9.2} {:>10.2} {:>7.1} {:>7.3} {:>8.0} {:>8.0} {:>6.2} {:>8.0} {:>6}",
        outcome.per_s,
        outcome.per_s / first,
        percentile(0.5),
        percentile(0.95),
        percentile(0.99),
        100.0 * pool.stall_ratio(),
        per(pool.read_stall_ns, pool.read_stalls) / 1e6,
        per(pool.lru_mutex_wait_ns, pool.lru_mutex_acquired) / 1e3,
        100.0 * pool.lru_mutex_wait_ns as f64 / thread_ns,
        outcome.reads_per_s,
        outcome.writes_per_s,
        100.0 * pool.miss_ratio(),
        100.0 * outcome.utilization,
        outcome.timeouts,
    );
    let kinds = [IoKind::StallFlush, IoKind::LruFlush, IoKind::CheckpointFlush];
    let written: Vec<String> =
        kinds.iter().map(|kind| format!("{kind:?} {}", pool.writes[kind.index()])).collect();
    println!(
        "         written: {}; buffer waits {} ({:.1} ms each), frame waits {} \
         ({:.1} ms each); pages back from behind the pointer {}",
        written.join(", "),
        pool.buffer_waits,
        per(pool.buffer_wait_ns, pool.buffer_waits) / 1e6,
        pool.frame_waits,
        per(pool.frame_wait_ns, pool.frame_waits) / 1e6,
        pool.dirty_region_hits,
    );
}
