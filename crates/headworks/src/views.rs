//! Snapshots for tests.

use headworks_policy::Nanos;
use headworks_policy::histogram::BUCKETS;
use headworks_region::control::Settings;
use headworks_region::snapshot::{ClassView, Snapshot, Totals, UserView};
use headworks_region::user::Encryption;
use headworks_region::{Mode, Protocol, State};

/// The server's process and its main thread.
pub const SERVER: u32 = 500;

/// An idle user that has asked for nothing.
pub fn user(number: u32, class: u32) -> UserView {
    UserView {
        user: number,
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
        totals: Totals::default(),
        latency_ms: (0.0, 0.0),
        wait_max: Nanos(0),
        latency_max: Nanos(0),
    }
}

/// A class each of whose users has the weight.
pub fn class(class: u32, name: &str, weight: f64) -> ClassView {
    ClassView {
        class,
        name: name.to_owned(),
        weight,
        shared: false,
        target: None,
        users: 0,
        inside: 0,
        waiting: 0,
        totals: Totals::default(),
        wait: Box::new([0; BUCKETS]),
        latency: Box::new([0; BUCKETS]),
    }
}

/// A gate that holds, with four places.
pub fn snapshot(users: Vec<UserView>, classes: Vec<ClassView>) -> Snapshot {
    Snapshot {
        now: Nanos(0),
        settings: Settings { mode: Mode::Enforce, parallelism: 4, ..Settings::default() },
        protocol: Protocol::MySql,
        bonus: 0,
        stale: false,
        daemon: 1,
        server: SERVER,
        users,
        classes,
        counters: Vec::new(),
    }
}
