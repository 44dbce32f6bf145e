//! Buffers from a twentieth to a quarter of the database.

use headworks_bufferpool::StrategyKind;

use super::figure::{Claim, Figure, Sweep, by_frequency, linkbench, tpcc};
use crate::sweep::found::{Seed, largest};
use crate::sweep::panel::Panel;

const NAMES: [&str; 4] = ["Vanilla", "CF-LRU", "WAR", "LRU-C"];
const TPCC: [&str; 4] = ["TPC-C: Vanilla", "TPC-C: CF-LRU", "TPC-C: WAR", "TPC-C: LRU-C"];
/// Not of the paper: the pool's default, and the same in the order of frequency.
const EAGER: &str = "TPC-C: + eager flusher";
const FREQUENT: &str = "TPC-C: + by frequency";
const LINK: [&str; 4] =
    ["LinkBench: Vanilla", "LinkBench: CF-LRU", "LinkBench: WAR", "LinkBench: LRU-C"];
const POINTS: &[f64] = &[5.0, 10.0, 15.0, 20.0, 25.0];
const KEY: &str = "throughput_per_s";

const SWEEP: Sweep = Sweep {
    name: "buffers",
    axis: ("buffer_percent", "buffer, percent of the database"),
    categories: &[],
    arms: &[
        tpcc(TPCC[0], StrategyKind::Vanilla),
        tpcc(TPCC[1], StrategyKind::CF_LRU),
        tpcc(TPCC[2], StrategyKind::WAR),
        tpcc(TPCC[3], StrategyKind::LRU_C),
        tpcc(EAGER, StrategyKind::LRU_C_EAGER),
        by_frequency(FREQUENT),
        linkbench(LINK[0], StrategyKind::Vanilla),
        linkbench(LINK[1], StrategyKind::CF_LRU),
        linkbench(LINK[2], StrategyKind::WAR),
        linkbench(LINK[3], StrategyKind::LRU_C),
    ],
    points: POINTS,
    quick_points: &[5.0, 20.0],
    at: |at, setup| setup.buffer_percent = at,
    rounds: 1,
};

/// Ratios of a number of two arms at all points.
fn ratios(seed: &Seed<'_>, arm: &str, than: &str, key: &str) -> Vec<f64> {
    seed.all(arm, key).iter().zip(seed.all(than, key)).map(|(a, b)| a / b).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn lines(title: &str, unit: &str, arms: [&'static str; 4], key: &str) -> Panel {
    let pairs = NAMES.into_iter().zip(arms);
    pairs.fold(Panel::sweep(title, unit), |panel, (name, arm)| panel.line(name, arm, key))
}

/// With what is not of the paper.
fn beyond(panel: Panel, key: &str) -> Panel {
    panel.line("+ eager flusher", EAGER, key).line("+ by frequency", FREQUENT, key)
}

const ABOUT: &str =
    "64 users without pauses, doublewrite on, SSD-B as a model at an eighth of its speed.";

pub(super) const FIG_7: Figure = Figure {
    id: "lruc-buffer",
    title: "Throughput by size of the buffer",
    figure: "Figure 7; Table 2",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("TPC-C: LRU-C is faster than Vanilla")
            .paper("3 x at all sizes (Figure 7a)")
            .ours("ratio of throughput, mean of the sizes", |seed| {
                mean(&ratios(seed, TPCC[3], TPCC[0], KEY))
            })
            .at_least(3.0),
        Claim::new("TPC-C: LRU-C is faster than WAR")
            .paper("1.52 x (Figure 7a)")
            .ours("ratio of throughput, mean of the sizes", |seed| {
                mean(&ratios(seed, TPCC[3], TPCC[2], KEY))
            })
            .at_least(1.52),
        Claim::new("TPC-C: clean-first helps Vanilla a little")
            .paper("+10 to +40 % (Figure 7a)")
            .ours("ratio of throughput of CF-LRU and Vanilla, mean of the sizes", |seed| {
                mean(&ratios(seed, TPCC[1], TPCC[0], KEY))
            })
            .between(1.0, 1.5),
        Claim::new("LinkBench: LRU-C is faster than Vanilla")
            .paper("2 x (Figure 7b)")
            .ours("ratio of throughput, mean of the sizes", |seed| {
                mean(&ratios(seed, LINK[3], LINK[0], KEY))
            })
            .at_least(2.0),
        Claim::new("LinkBench: LRU-C is faster than WAR")
            .paper("1.42 x (Figure 7b)")
            .ours("ratio of throughput, mean of the sizes", |seed| {
                mean(&ratios(seed, LINK[3], LINK[2], KEY))
            })
            .at_least(1.42),
    ],
    panels: || {
        vec![
            beyond(lines("TPC-C", "transactions/s", TPCC, KEY), KEY),
            lines("LinkBench", "operations/s", LINK, KEY),
            lines("TPC-C: read stalls", "percent of misses", TPCC, "read_stall_percent"),
            lines("TPC-C: P95", "ms", TPCC, "latency_p95_ms"),
        ]
    },
};

pub(super) const TABLE_7: Figure = Figure {
    id: "lruc-misses",
    title: "Miss ratio by size of the buffer",
    figure: "Table 7",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("TPC-C: LRU-C misses hardly more often than Vanilla")
            .paper("1.04 to 1.36 x (Table 7)")
            .ours("ratio of miss ratios, highest of the sizes", |seed| {
                let found = ratios(seed, TPCC[3], TPCC[0], "miss_percent");
                found.into_iter().fold(0.0, largest)
            })
            .at_most(1.36),
        Claim::new("LinkBench: the same")
            .paper("not given")
            .ours("ratio of miss ratios, highest of the sizes", |seed| {
                let found = ratios(seed, LINK[3], LINK[0], "miss_percent");
                found.into_iter().fold(0.0, largest)
            })
            .at_most(1.36),
    ],
    panels: || {
        vec![
            beyond(lines("TPC-C", "misses, percent", TPCC, "miss_percent"), "miss_percent"),
            lines("LinkBench", "misses, percent", LINK, "miss_percent"),
        ]
    },
};
