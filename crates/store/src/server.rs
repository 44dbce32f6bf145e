//! A store with its threads: its listeners, its seconds.

use crate::apps::Apps;
use crate::config::{self, Config, Device, Kind};
use crate::error::StoreError;
use crate::front::{Door, Front, Offer};
use crate::governor::Governor;
use crate::learner::Learner;
use crate::ledger::{Ledger, Watched};
use crate::membership::Membership;
use crate::note::Desk;
use crate::notices::Notices;
use crate::pool::Pool;
use crate::running::Running;
use crate::sim::array;
use crate::volumes::Volumes;
use crate::who;
use headworks_policy::Nanos;
use headworks_policy::block::cost::SeekCost;
use headworks_policy::block::{
    BlockScheduler, Buckets, Operation, Request, SchedulerKind, Sfq, bucket, sfq,
};
use headworks_policy::learn::{self, device::Price};
use headworks_volume::clock;
use headworks_volume::engine::{Engine, EngineConfig};
use headworks_volume::nbd::{self, Limits, Listener, Stop};
use headworks_volume::store::Store;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// A request as databases make them: of 16 KiB.
const ORDINARY_SECTORS: u32 = 32;

/// A store with its threads.
pub struct Server {
    /// What the threads share.
    pub running: Arc<Running>,
    listeners: Vec<JoinHandle<io::Result<()>>>,
    seconds: Vec<JoinHandle<()>>,
}

/// Requests that a device takes at a time.
pub fn depth(device: &Device) -> u32 {
    let usual = match device.kind {
        Kind::Disk => 4,
        Kind::Flash => 32,
        Kind::Array => 2 * device.disks,
    };
    device.depth.unwrap_or(usual).clamp(1, 256)
}

/// What a request, and a sector, costs a device by its kind, before it is learned.
const fn usual_cost(kind: Kind) -> (Nanos, Nanos) {
    match kind {
        Kind::Disk => (Nanos::from_millis(8), Nanos::from_micros(4)),
        Kind::Flash => (Nanos::from_micros(20), Nanos::from_micros(1)),
        Kind::Array => (Nanos(6_222_000), Nanos(55_556)),
    }
}

/// The same for who learns it.
fn guess(kind: Kind) -> learn::device::Device {
    let (request, transfer) = usual_cost(kind);
    let price = |request: Nanos, sector: Nanos| Price {
        request_ns: request.0 as f64,
        sector_ns: sector.0 as f64,
    };
    let usual = price(request, transfer);
    learn::device::Device::new([usual, usual, price(sfq::Settings::default().flush, Nanos(0))])
}

/// The scheduler of a device, and how it charges requests.
fn scheduler(device: &Device) -> (Box<dyn BlockScheduler>, SeekCost) {
    let (request, transfer) = usual_cost(device.kind);
    let cost = SeekCost::by_size(request, transfer);
    let ordinary = cost.of(&Request::new(Operation::Read, 0, ORDINARY_SECTORS));
    if device.scheduler == "bucket" {
        // Rates are far below 2^63.
        let bytes_per_s = (device.mib_per_s * f64::from(1 << 20)) as u64;
        return (Box::new(Buckets::new(bucket::Settings::new(bytes_per_s))), cost);
    }
    // The name was checked with the configuration.
    let kind = device.scheduler.parse().unwrap_or(SchedulerKind::Sfq);
    let scheduler: Box<dyn BlockScheduler> = match kind {
        SchedulerKind::Sfq => {
            let settings = match device.kind {
                Kind::Disk => sfq::Settings::default(),
                Kind::Flash => sfq::Settings::flash(),
                Kind::Array => sfq::Settings::array(device.disks, request, transfer),
            };
            let depth = depth(device);
            // As much as that many requests of ordinary size.
            let room = Nanos(u64::from(depth) * ordinary.0);
            Box::new(Sfq::new(sfq::Settings { depth, room, ..settings }))
        }
        // The others have no bound by cost.
        other => return (other.build_for(device.kind == Kind::Disk), cost),
    };
    (scheduler, cost)
}

/// The queue before all volumes.
fn engine(device: &Device, pool: &Arc<Pool>, ledger: &Arc<Ledger>) -> io::Result<Engine> {
    let (inner, cost) = scheduler(device);
    let mut watched = Watched::new(inner, Arc::clone(ledger), cost);
    watched.set_depth(depth(device), depth(device));
    let model = match device.model.as_deref() {
        Some("disks") => Some(array::Kind::Disks.model(1)),
        Some(_) => Some(array::Kind::Flash.model(1)),
        None => None,
    };
    Engine::start(EngineConfig {
        store: Arc::clone(pool) as Arc<dyn Store>,
        model,
        scheduler: Some(Box::new(watched)),
        layers: Vec::new(),
    })
}

/// The directory of what is learned. Without it the store runs, and learns again after a restart.
fn make_state(config: &Config) {
    let Some(dir) = &config.state else { return };
    let probe = dir.join("learned.new");
    let open = || OpenOptions::new().write(true).create(true).truncate(false).open(&probe);
    if let Err(error) = std::fs::create_dir_all(dir).and_then(|()| open()) {
        eprintln!(
            "headworks-store: what is learned is forgotten at a restart: cannot write in {0}: {error}\n  \
             make it: install -d -o $(id -un) {0}",
            dir.display()
        );
    }
}

impl Server {
    /// Starts a store by its configuration file.
    ///
    /// # Errors
    /// The file is wrong, a volume cannot be opened, a place cannot be listened on.
    pub fn start(path: &Path) -> Result<Server, StoreError> {
        let config = Arc::new(config::load(path)?);
        make_state(&config);
        let device = &config.device;
        let depth = depth(device);
        // The name was checked with the configuration.
        let learner = config.controller.parse().unwrap_or(Learner::Depth);
        let fast = config.volumes.iter().all(|volume| volume.path == "memory");
        let pool = Arc::new(Pool::new(fast));
        let ledger = Arc::new(Ledger::default());
        let engine = engine(device, &pool, &ledger)?;
        let front = Arc::new(Front {
            offer: Default::default(),
            engine: Arc::new(engine),
            apps: Arc::new(Apps::default()),
            desk: Arc::new(Desk::default()),
            notices: Notices::default(),
            rotational: device.kind != Kind::Flash,
        });
        let stop = Stop::new()?;
        let running = Arc::new(Running {
            front,
            volumes: Volumes::new(pool),
            ledger,
            governor: Mutex::new(Governor::new(depth, &learner, guess(device.kind))),
            said: Mutex::default(),
            standing: Mutex::default(),
            decreed: Mutex::default(),
            processors: Mutex::default(),
            changing: Mutex::default(),
            path: path.to_owned(),
            stop,
            ending: AtomicBool::new(false),
            started: Instant::now(),
            depth,
        });
        running.take(Arc::clone(&config), &Offer::default())?;
        if let Some(file) = running.state_file()
            && let Ok(text) = std::fs::read(&file)
            && let Ok(learned) = serde_json::from_slice(&text)
        {
            let apps = running.front.apps.list();
            let mut governor = running.governor.lock().unwrap_or_else(PoisonError::into_inner);
            governor.take_over(clock::now(), &apps, &learned);
        }
        // Shares are in force before the first client.
        running.second();
        let mut server = Server { running, listeners: Vec::new(), seconds: Vec::new() };
        for place in &config.listen {
            server.listen(place, config.connections)?;
        }
        who::open_sockets(&config, false);
        let running = Arc::clone(&server.running);
        let seconds = std::thread::Builder::new().name("store-seconds".to_owned());
        server.seconds.push(seconds.spawn(move || running.seconds())?);
        if let Some(etcd) = &config.etcd {
            let (membership, running) = (Membership::new(etcd), Arc::clone(&server.running));
            let thread = std::thread::Builder::new().name("store-etcd".to_owned());
            server.seconds.push(thread.spawn(move || running.membership(membership))?);
        }
        Ok(server)
    }

    fn listen(&mut self, place: &str, connections: usize) -> Result<(), StoreError> {
        let failed = |why| StoreError::Listen { place: place.to_owned(), why };
        let listener = match place.split_once(':') {
            Some(("unix", path)) => Listener::unix(path),
            Some((_, address)) => Listener::tcp(address),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        let listener = listener.map_err(failed)?;
        let limits = Limits { connections, ..Limits::default() };
        let stop = self.running.stop.clone();
        let door = Door(Arc::clone(&self.running.front));
        let thread = std::thread::Builder::new().name("store-listen".to_owned());
        self.listeners.push(thread.spawn(move || nbd::serve(listener, door, limits, &stop))?);
        Ok(())
    }

    /// Whether a listener has failed.
    pub fn has_ended(&self) -> bool {
        self.listeners.iter().any(JoinHandle::is_finished)
    }

    /// Ends it: requests that were read are answered, and what was learned is kept.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.running.stop.stop();
        for listener in self.listeners.drain(..) {
            if let Ok(Err(error)) = listener.join() {
                eprintln!("headworks-store: a listener failed: {error}");
            }
        }
        self.running.ending.store(true, Ordering::Release);
        for seconds in self.seconds.drain(..) {
            // It panics only by a bug of ours, which was reported then.
            let _ = seconds.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
