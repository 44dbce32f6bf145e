//! What a serial doublewrite costs: the same variants with batches that overlap.

use headworks_bufferpool::StrategyKind;

use super::figure::{Claim, Figure, Sweep, tpcc};
use crate::sweep::panel::Panel;

const VANILLA: &str = "Vanilla";
const INNODB: &str = "InnoDB 5.6";
const WAR: &str = "WAR";
const FULL: &str = "LRU-C";
const EAGER: &str = "+ eager flusher";
const KEY: &str = "throughput_per_s";
const ARMS: [&str; 5] = [VANILLA, INNODB, WAR, FULL, EAGER];
/// One batch at a time, as in InnoDB up to 8.0.19.
const SERIAL: f64 = 1.0;
const MANY: f64 = 8.0;

pub(super) const FIGURE: Figure = Figure {
    id: "lruc-doublewrite",
    title: "Throughput with doublewrite batches that overlap",
    figure: "beyond the paper",
    about: "TPC-C, 64 users, a buffer of a tenth of the database. A batch of 120 pages costs two flushes of the \
            device, one after the other. In InnoDB up to 8.0.19 (the paper's prototype is 5.6) the next batch waits \
            for them. With several places in the doublewrite area batches overlap and share flushes; read stalls \
            have as many times more slots.",
    sweep: &Sweep {
        name: "doublewrite",
        axis: ("batches", "doublewrite batches at a time"),
        categories: &[],
        arms: &[
            tpcc(VANILLA, StrategyKind::Vanilla),
            tpcc(INNODB, StrategyKind::InnoDb56),
            tpcc(WAR, StrategyKind::WAR),
            tpcc(FULL, StrategyKind::LRU_C),
            tpcc(EAGER, StrategyKind::LRU_C_EAGER),
        ],
        points: &[SERIAL, 2.0, 4.0, MANY],
        quick_points: &[SERIAL, MANY],
        // Points are small whole numbers.
        at: |at, setup| setup.doublewrite_batches = at as usize,
        rounds: 1,
    },
    claims: &[
        Claim::new("LRU-C is limited by a serial doublewrite")
            .paper("not measured there")
            .ours("throughput with eight batches at a time, relative to one", |seed| {
                seed.ratio(FULL, KEY, MANY, SERIAL)
            })
            .at_least(1.1),
        Claim::new("with batches that overlap LRU-C is still faster than Vanilla")
            .paper("3 x (Figure 7a), doublewrite not mentioned")
            .ours("ratio of throughput with eight batches at a time", |seed| {
                seed.get(FULL, MANY, KEY) / seed.get(VANILLA, MANY, KEY)
            })
            .at_least(3.0),
        Claim::new("and comes near the device's own limit")
            .paper("64 % of fio's (Table 5)")
            .ours("fraction of the limit for the same mix, without copies", |seed| {
                seed.get(FULL, MANY, "device_limit_fraction")
            })
            .at_least(0.7),
    ],
    panels: || {
        let lines = |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines(ARMS, key);
        vec![
            lines("Throughput", "transactions/s", KEY),
            lines("95th percentile", "ms", "latency_p95_ms"),
            lines("Use of the device", "fraction of its limit", "device_limit_fraction"),
            lines("Dirty pages", "percent of the database", "dirty_pages_percent"),
        ]
    },
};
