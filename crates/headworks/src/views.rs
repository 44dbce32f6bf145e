//! Snapshots and regions for tests.

use headworks_policy::Nanos;
use headworks_policy::histogram::BUCKETS;
use headworks_region::control::Settings;
use headworks_region::session::Encryption;
use headworks_region::snapshot::{ClassView, SessionView, Snapshot, Totals};
use headworks_region::{Mapping, Mode, Protocol, State};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's process and its main thread.
pub const SERVER: u32 = 500;

/// An idle session that has asked for nothing.
pub fn session(number: u32, class: u32) -> SessionView {
    SessionView {
        session: number,
        generation: 1,
        state: State::Idle,
        class,
        class_epoch: 1,
        bypass: false,
        holding: 0,
        used: 0,
        pass_reason: None,
        thread: (SERVER, 0),
        identity: Default::default(),
        local_port: 0,
        behind: (Default::default(), 0),
        encryption: Encryption::from_word(0),
        connected: Nanos(0),
        arrived: Nanos(0),
        admitted: Nanos(0),
        pause: Default::default(),
        totals: Totals::default(),
        latency_ms: (0.0, 0.0),
        wait_max: Nanos(0),
        latency_max: Nanos(0),
    }
}

/// A class each of whose sessions has the weight.
pub fn class(class: u32, name: &str, weight: f64) -> ClassView {
    ClassView {
        class,
        name: name.to_owned(),
        weight,
        shared: false,
        target: None,
        sessions: 0,
        inside: 0,
        waiting: 0,
        totals: Totals::default(),
        wait: Box::new([0; BUCKETS]),
        latency: Box::new([0; BUCKETS]),
    }
}

/// A gate that holds, with four places.
pub fn snapshot(sessions: Vec<SessionView>, classes: Vec<ClassView>) -> Snapshot {
    Snapshot {
        now: Nanos(0),
        settings: Settings { mode: Mode::Enforce, parallelism: 4, ..Settings::default() },
        protocol: Protocol::MySql,
        bonus: 0,
        stale: false,
        daemon: 1,
        server: SERVER,
        ungoverned: false,
        sessions,
        classes,
        counters: Vec::new(),
    }
}

/// A region of one's own, in which a gate holds. It has no name in the file system.
pub fn region() -> Mapping {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("headworks-views-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let c_path = CString::new(path.to_str().unwrap()).unwrap();
    let region = Mapping::create(&c_path, None).unwrap();
    std::fs::remove_file(path).unwrap();
    region.apply(&Settings { parallelism: 4, ..Settings::default() });
    region
}
