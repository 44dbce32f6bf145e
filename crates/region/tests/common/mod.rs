//! A region of its own for each test, with a daemon's sign of life.

use headworks_policy::Nanos;
use headworks_region::control::Settings;
use headworks_region::{Mapping, Region, clock};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// One sign of life that lasts for the test.
pub fn beat(region: &Region) {
    // An hour ahead: the tests that want a stale one set it themselves.
    let future = clock::now() + Nanos::from_millis(3_600_000);
    region.beat.alive_ns.store(future.0, Ordering::Relaxed);
}

/// A user of this process.
pub fn user(region: &Region) -> u32 {
    region.register(std::process::id(), clock::now()).expect("there is room")
}
