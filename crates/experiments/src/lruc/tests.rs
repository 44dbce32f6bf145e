//! The figures as data, and one run as a whole.

use std::collections::BTreeSet;

use headworks_bufferpool::StrategyKind;

use super::data::{self, Database};
use super::drive::{self, QueueOrder, Setup, Time};
use super::figure::usual;
use super::{EXPERIMENTS, device::DeviceKind};

#[test]
fn names_are_unique_and_times_are_promised() {
    let ids: BTreeSet<_> = EXPERIMENTS.iter().map(|e| e.id).collect();
    assert_eq!(ids.len(), EXPERIMENTS.len());
    assert!(EXPERIMENTS.iter().all(|e| e.id.starts_with("lruc-")));
    assert!(EXPERIMENTS.iter().all(|e| e.expected_quick_s < 150 && e.expected_s < 3600));
}

const WINDOW_S: f64 = 1.0;

fn short(strategy: StrategyKind) -> std::collections::BTreeMap<String, f64> {
    let data = data::get(Database::Tpcc(2), &mut || Ok(())).unwrap();
    let setup = Setup {
        threads: 16,
        device: DeviceKind::slowed("ssd-a", 2.0),
        buffer_percent: 20.0,
        queue: QueueOrder::ForegroundFirst,
        ..usual(strategy, true)
    };
    let time = Time { fill_s: 0.3, settle_s: 0.3, window_s: WINDOW_S };
    drive::run(&setup, &data, time, 1, &mut || Ok(())).unwrap()
}

/// Counts must agree with each other: what users did needs what the pool and the device did.
#[test]
fn a_run_counts_what_users_pool_and_device_did() {
    for strategy in [StrategyKind::InnoDb56, StrategyKind::LRU_C] {
        let numbers = short(strategy);
        let of = |key: &str| numbers[key];
        assert!(of("throughput_per_s") > 0.0, "{numbers:?}");
        assert!(of("latency_p50_ms") <= of("latency_p95_ms"));
        assert!(of("latency_p95_ms") <= of("latency_max_ms"));
        // Little's law: users are always in a transaction, but for those that were rolled back. Of
        // those that lie across an edge of the window one counts as a whole or not at all.
        let inside = of("throughput_per_s") * of("latency_mean_ms") / 1000.0;
        let edge = of("latency_max_ms") / 1000.0 / WINDOW_S;
        let bounds = 8.0 * (1.0 - edge)..=17.0 + 16.0 * edge;
        assert!(bounds.contains(&inside), "{inside} of 16 users, {edge}");
        assert!(of("read_pages_per_s") > 0.0 && of("device_limit_iops") > 1000.0);
        assert!((0.0..=100.0).contains(&of("miss_percent")));
        assert!(of("device_limit_fraction") < 1.5);
    }
}
