//! Devices of different speed and asymmetry.

use headworks_bufferpool::StrategyKind;

use super::device::DeviceKind;
use super::figure::{Claim, Figure, SLOWED, Sweep, tpcc};
use crate::sweep::panel::Panel;

const VANILLA: &str = "Vanilla";
const INNODB: &str = "InnoDB 5.6";
const WAR: &str = "WAR";
const FULL: &str = "LRU-C";
/// Not of the paper: the pool's default.
const EAGER: &str = "+ eager flusher";
const KEY: &str = "throughput_per_s";
const SSD: [(f64, &str); 4] = [(1.0, "SSD-A"), (2.0, "SSD-B"), (3.0, "SSD-C"), (4.0, "SSD-D")];
const HDD: f64 = 5.0;

const SWEEP: Sweep = Sweep {
    name: "devices",
    axis: ("device", "device"),
    categories: &["", "SSD-A", "SSD-B", "SSD-C", "SSD-D", "HDD"],
    arms: &[
        tpcc(VANILLA, StrategyKind::Vanilla),
        tpcc(INNODB, StrategyKind::InnoDb56),
        tpcc(WAR, StrategyKind::WAR),
        tpcc(FULL, StrategyKind::LRU_C),
        tpcc(EAGER, StrategyKind::LRU_C_EAGER),
    ],
    points: &[1.0, 2.0, 3.0, 4.0, HDD],
    quick_points: &[1.0, 3.0, HDD],
    at: |at, setup| {
        // Points are small whole numbers.
        setup.device = match at as u32 {
            1 => DeviceKind::slowed("ssd-a", SLOWED),
            2 => DeviceKind::slowed("ssd-b", SLOWED),
            3 => DeviceKind::slowed("ssd-c", SLOWED),
            4 => DeviceKind::slowed("ssd-d", SLOWED),
            // At an eighth of its speed a disk would do 35 reads a second.
            _ => DeviceKind::slowed("hdd", 1.0),
        };
    },
    rounds: 1,
};

pub(super) const FIG_11: Figure = Figure {
    id: "lruc-devices",
    title: "Throughput on four flash drives and a disk",
    figure: "Figures 11 and 13",
    about: "TPC-C on the drives of the paper's Table 1 as models; flash with times eight times as long, the disk as it \
            is.",
    sweep: &SWEEP,
    claims: &[
        Claim::new("LRU-C is faster than Vanilla on every flash drive")
            .paper("1.7 x to 5.4 x (Figure 11)")
            .ours("ratio of throughput, lowest of the drives", |seed| {
                let drives = seed.all(FULL, KEY);
                let ratios = SSD
                    .iter()
                    .filter(|_| !drives.is_empty())
                    .map(|&(at, _)| seed.get(FULL, at, KEY) / seed.get(VANILLA, at, KEY));
                ratios.filter(|ratio| !ratio.is_nan()).fold(f64::INFINITY, f64::min)
            })
            .at_least(1.7),
        Claim::new("on a disk there is nothing to gain")
            .paper("almost no gap (Figure 13)")
            .ours("ratio of throughput", |seed| {
                seed.get(FULL, HDD, KEY) / seed.get(VANILLA, HDD, KEY)
            })
            .between(0.85, 1.25),
    ],
    panels: || {
        let bars = |title: &str, unit: &str, key: &str, drives: &[(f64, &str)]| {
            let mut panel = Panel::bars(title, unit);
            for &(at, name) in drives {
                for arm in [VANILLA, INNODB, WAR, FULL, EAGER] {
                    panel = panel.bar(name, arm, arm, at, key);
                }
            }
            panel
        };
        vec![
            bars("Throughput on flash", "transactions/s", KEY, &SSD),
            bars("Throughput on a disk", "transactions/s", KEY, &[(HDD, "HDD")]),
        ]
    },
};
