//! What a figure consists of. A figure is data: arms, points, what a point changes, and what must
//! hold.

use std::time::Duration;

use headworks_bufferpool::StrategyKind;
use headworks_engine::TreeLatch;
use headworks_engine::tpcc::Mix;

use super::data::Database;
use super::device::DeviceKind;
use super::drive::{QueueOrder, Setup, Time};
use crate::experiment::Experiment;
pub(super) use crate::sweep::Claim;
use crate::sweep::panel::Panel;

pub(super) const PAPER: &str = "LRU-C";

/// A figure or table of the LRU-C paper, on the engine and a modelled device.
pub(super) struct Figure {
    /// The experiment's id.
    pub(super) id: &'static str,
    /// One line that says what it shows.
    pub(super) title: &'static str,
    /// Numbers of the figures and tables.
    pub(super) figure: &'static str,
    /// What is run, in a few sentences.
    pub(super) about: &'static str,
    /// What is measured.
    pub(super) sweep: &'static Sweep,
    /// What must hold.
    pub(super) claims: &'static [Claim],
    /// The picture.
    pub(super) panels: fn() -> Vec<Panel>,
}

/// Arms at points. Several figures may look at one sweep: it is then run once for all of them.
pub(super) struct Sweep {
    /// Names it among the sweeps.
    pub(super) name: &'static str,
    /// Key and label of the horizontal axis.
    pub(super) axis: (&'static str, &'static str),
    /// What the points 0, 1, and so on are, if they are not numbers.
    pub(super) categories: &'static [&'static str],
    /// Who is compared with whom.
    pub(super) arms: &'static [Arm],
    /// Points of every arm.
    pub(super) points: &'static [f64],
    /// Points of a quick run.
    pub(super) quick_points: &'static [f64],
    /// What a point changes.
    pub(super) at: fn(f64, &mut Setup),
    pub(super) rounds: usize,
}

/// Who is compared with whom.
pub(super) struct Arm {
    /// Its name, by which claims and panels refer to it.
    pub(super) label: &'static str,
    pub(super) workload: Workload,
    pub(super) strategy: StrategyKind,
    /// What is used often stays, not what was used last.
    pub(super) frequency: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Workload {
    Tpcc,
    LinkBench,
}

pub(super) const fn tpcc(label: &'static str, strategy: StrategyKind) -> Arm {
    Arm { label, workload: Workload::Tpcc, strategy, frequency: false }
}

pub(super) const fn linkbench(label: &'static str, strategy: StrategyKind) -> Arm {
    Arm { label, workload: Workload::LinkBench, strategy, frequency: false }
}

/// TPC-C on the pool's default strategy, in the order of frequency.
pub(super) const fn by_frequency(label: &'static str) -> Arm {
    let strategy = StrategyKind::LRU_C_EAGER;
    Arm { label, workload: Workload::Tpcc, strategy, frequency: true }
}

/// Sizes of a full and of a quick run.
const WAREHOUSES: (u32, u32) = (350, 24);
const NODES: (u32, u32) = (3_000_000, 200_000);

impl Workload {
    pub(super) fn database(self, quick: bool) -> Database {
        match self {
            Workload::Tpcc => Database::Tpcc(if quick { WAREHOUSES.1 } else { WAREHOUSES.0 }),
            Workload::LinkBench => Database::LinkBench(if quick { NODES.1 } else { NODES.0 }),
        }
    }
}

/// A fraction of the paper's machine: one of its eight buffer pool instances, with an eighth of a
/// device.
pub(super) const SLOWED: f64 = 8.0;

/// The device of all figures that do not say another. SSD-A and SSD-B read and write at nearly the
/// same rates, but SSD-A's model has a cache that survives a power cut, so that its flushes cost
/// nothing. Even Vanilla then keeps the device busy all the time, and no order of requests can gain
/// anything.
const DEVICE: &str = "ssd-b";

/// Doublewrite batches at a time, as InnoDB has them from 8.0.20 on. With one batch at a time, a
/// device whose cache a flush must empty cannot follow: two flushes for 120 pages take longer than
/// users need to dirty them. The comparison would then not be one of buffer managers
/// (`lruc-doublewrite` shows both).
const DOUBLEWRITE_BATCHES: usize = 8;

/// What an arm runs with, unless its point says otherwise.
pub(super) fn usual(strategy: StrategyKind, quick: bool) -> Setup {
    Setup {
        strategy,
        frequency: false,
        device: DeviceKind::slowed(DEVICE, SLOWED),
        mix: Mix::STANDARD,
        threads: 64,
        buffer_percent: 10.0,
        instances: 1,
        // The instance of a quick run has a sixteenth of the frames, so lengths and intervals that
        // are counted in frames are a sixteenth, too.
        scan_depth: if quick { 64 } else { 1024 },
        flush_interval: Duration::from_micros(if quick { 62_500 } else { 1_000_000 }),
        doublewrite: true,
        doublewrite_batches: DOUBLEWRITE_BATCHES,
        queue: QueueOrder::Straight,
        tree_latch: TreeLatch::Coupled,
    }
}

/// Lengths of the parts of full and of quick runs.
pub(super) const TIME: Time = Time { fill_s: 8.0, settle_s: 20.0, window_s: 30.0 };
pub(super) const QUICK: Time = Time { fill_s: 1.5, settle_s: 1.5, window_s: 3.0 };

/// Seconds to load a database, in a full and in a quick run.
pub(super) const LOAD_S: (f64, f64) = (75.0, 4.0);

/// Seconds to begin and end a run.
pub(super) const AROUND_S: f64 = 1.0;

impl Sweep {
    pub(super) fn points(&self, quick: bool) -> &'static [f64] {
        if quick { self.quick_points } else { self.points }
    }

    /// Workloads in the order of the arms.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        let mut found = Vec::new();
        for arm in self.arms {
            if !found.contains(&arm.workload) {
                found.push(arm.workload);
            }
        }
        found
    }

    const fn expected_s(&self, quick: bool) -> u64 {
        let points = if quick { self.quick_points.len() } else { self.points.len() };
        let time = if quick { QUICK } else { TIME };
        let each = time.fill_s + time.settle_s + time.window_s + AROUND_S;
        let rounds = if quick { 1 } else { self.rounds };
        let load = if quick { LOAD_S.1 } else { LOAD_S.0 };
        // At most two databases.
        (each * (points * self.arms.len() * rounds) as f64 + 2.0 * load) as u64
    }
}

impl Figure {
    /// What the registry knows of it.
    pub(super) const fn experiment(&'static self) -> Experiment {
        Experiment {
            id: self.id,
            title: self.title,
            paper: PAPER,
            figure: self.figure,
            expected_s: self.sweep.expected_s(false),
            expected_quick_s: self.sweep.expected_s(true),
            needs: &["8 GB of memory"],
            bench: self,
        }
    }
}
