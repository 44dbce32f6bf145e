//! The cost of a read stall to threads that do not read: trees that are latched as a whole.

use headworks_bufferpool::StrategyKind;
use headworks_engine::TreeLatch;

use super::figure::{Claim, Figure, Sweep, linkbench, tpcc};
use crate::sweep::found::{Seed, largest};
use crate::sweep::panel::Panel;

const INNODB: &str = "TPC-C: InnoDB 5.6";
const VANILLA: &str = "TPC-C: Vanilla";
const WAR: &str = "TPC-C: WAR";
const FULL: &str = "TPC-C: LRU-C";
const LINK_VANILLA: &str = "LinkBench: Vanilla";
const LINK_WAR: &str = "LinkBench: WAR";
const LINK_FULL: &str = "LinkBench: LRU-C";
const KEY: &str = "throughput_per_s";
const MISSES: &str = "miss_percent";
/// One batch at a time, as in the release that the paper's prototype changes.
const SERIAL: f64 = 1.0;
const MANY: f64 = 8.0;

fn ratio(seed: &Seed<'_>, arm: &str, than: &str, at: f64, key: &str) -> f64 {
    seed.get(arm, at, key) / seed.get(than, at, key)
}

const fn faster(
    statement: &'static str,
    paper: &'static str,
    bound: f64,
    ours: fn(&Seed<'_>) -> f64,
) -> Claim {
    Claim::new(statement)
        .paper(paper)
        .ours("ratio of throughput, with one doublewrite batch at a time", ours)
        .at_least(bound)
}

pub(super) const FIGURE: Figure = Figure {
    id: "lruc-tree-latch",
    title: "Throughput on trees that are latched as a whole",
    figure: "beyond the paper",
    about: "64 users, a buffer of a tenth of the database. InnoDB up to 5.6, which the paper's prototype changes, \
            latches an index as a whole: threads that look for a leaf share the latch until they have it; a thread that \
            splits a page has it alone. A read stall then keeps out the thread that splits, which keeps out all others.",
    sweep: &Sweep {
        name: "tree_latch",
        axis: ("batches", "doublewrite batches at a time"),
        categories: &[],
        arms: &[
            tpcc(INNODB, StrategyKind::InnoDb56),
            tpcc(VANILLA, StrategyKind::Vanilla),
            tpcc(WAR, StrategyKind::WAR),
            tpcc(FULL, StrategyKind::LRU_C),
            linkbench(LINK_VANILLA, StrategyKind::Vanilla),
            linkbench(LINK_WAR, StrategyKind::WAR),
            linkbench(LINK_FULL, StrategyKind::LRU_C),
        ],
        points: &[SERIAL, MANY],
        quick_points: &[SERIAL],
        at: |at, setup| {
            setup.tree_latch = TreeLatch::Whole;
            // Points are small whole numbers.
            setup.doublewrite_batches = at as usize;
        },
        rounds: 1,
    },
    claims: &[
        faster("TPC-C: LRU-C is faster than Vanilla", "3 x (Figure 7a)", 3.0, |seed| {
            ratio(seed, FULL, VANILLA, SERIAL, KEY)
        }),
        faster("TPC-C: and than InnoDB 5.6", "3 x (Figure 7a)", 3.0, |seed| {
            ratio(seed, FULL, INNODB, SERIAL, KEY)
        }),
        faster("TPC-C: and than WAR", "1.52 x (Figure 7a)", 1.52, |seed| {
            ratio(seed, FULL, WAR, SERIAL, KEY)
        }),
        faster("LinkBench: LRU-C is faster than Vanilla", "2 x (Figure 7b)", 2.0, |seed| {
            ratio(seed, LINK_FULL, LINK_VANILLA, SERIAL, KEY)
        }),
        faster("LinkBench: and than WAR", "1.42 x (Figure 7b)", 1.42, |seed| {
            ratio(seed, LINK_FULL, LINK_WAR, SERIAL, KEY)
        }),
        Claim::new("TPC-C: its tail is shorter than Vanilla's")
            .paper("-84 % (Table 6)")
            .ours(
                "ratio of the 95th percentile, with one doublewrite batch at a time",
                |seed| ratio(seed, FULL, VANILLA, SERIAL, "latency_p95_ms"),
            )
            .at_most(0.16),
        Claim::new("it misses hardly more often than Vanilla")
            .paper("1.04 to 1.36 x (Table 7)")
            .ours(
                "ratio of miss ratios, higher of the workloads, with one doublewrite batch at a time",
                |seed| {
                    let link = ratio(seed, LINK_FULL, LINK_VANILLA, SERIAL, MISSES);
                    largest(ratio(seed, FULL, VANILLA, SERIAL, MISSES), link)
                },
            )
            .at_most(1.36),
        Claim::new("TPC-C: with batches that overlap it is still faster than Vanilla")
            .paper("3 x (Figure 7a), doublewrite not mentioned")
            .ours(
                "ratio of throughput with eight batches at a time",
                |seed| ratio(seed, FULL, VANILLA, MANY, KEY),
            )
            .at_least(3.0),
    ],
    panels: || {
        let tpcc = [INNODB, VANILLA, WAR, FULL];
        let link = [LINK_VANILLA, LINK_WAR, LINK_FULL];
        vec![
            Panel::sweep("TPC-C", "transactions/s").lines(tpcc, KEY),
            Panel::sweep("LinkBench", "operations/s").lines(link, KEY),
            Panel::sweep("TPC-C: 95th percentile", "ms").lines(tpcc, "latency_p95_ms"),
            Panel::sweep("TPC-C: use of the device", "fraction of its limit")
                .lines(tpcc, "device_limit_fraction"),
        ]
    },
};
