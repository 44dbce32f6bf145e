//! A separate region for each test, with a daemon's heartbeat.

use headworks_policy::Nanos;
use headworks_region::control::Settings;
use headworks_region::{Mapping, Region, clock};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fresh region in memory; its file is unlinked at once.
pub fn region() -> &'static Region {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = format!("/dev/shm/headworks-test-{}-{number}", std::process::id());
    let c_path = CString::new(path.as_str()).unwrap();
    let mapping = Mapping::create(&c_path, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    beat(mapping.region());
    mapping.region()
}

/// A region that enforces P.
pub fn enforcing(parallelism: u32) -> &'static Region {
    let region = region();
    region.apply(&Settings { parallelism, ..Settings::default() });
    region
}

/// Regions that get a heartbeat.
static ALIVE: Mutex<Vec<&'static Region>> = Mutex::new(Vec::new());

/// A heartbeat. It is of the future, so that a busy machine may pause for a second.
fn beat_once(region: &Region) {
    let ahead = clock::now() + Nanos::from_millis(500);
    region.heartbeat.alive_ns.store(ahead.0, Ordering::Relaxed);
}

/// Sends a region heartbeats from here on, as the daemon does.
pub fn beat(region: &'static Region) {
    static BEATER: Once = Once::new();
    beat_once(region);
    ALIVE.lock().unwrap().push(region);
    BEATER.call_once(|| {
        std::thread::spawn(|| {
            loop {
                for region in ALIVE.lock().unwrap().iter() {
                    beat_once(region);
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
    });
}

/// The daemon of this region dies.
pub fn stop_beating(region: &Region) {
    ALIVE.lock().unwrap().retain(|alive| !std::ptr::eq(*alive, region));
    region.heartbeat.alive_ns.store(clock::now().0, Ordering::Relaxed);
}

/// A session of this process.
pub fn session(region: &Region) -> u32 {
    region.register(std::process::id(), clock::now()).expect("there is room")
}
