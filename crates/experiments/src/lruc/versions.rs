//! One sweep at a buffer of a tenth of the database, and what four of the paper's figures and
//! tables say of it.

use headworks_bufferpool::StrategyKind;

use super::figure::{Claim, Figure, Sweep, by_frequency, linkbench, tpcc};
use crate::sweep::found::{Seed, largest};
use crate::sweep::panel::Panel;

const INNODB: &str = "TPC-C: InnoDB 5.6";
const VANILLA: &str = "TPC-C: Vanilla";
const WAR: &str = "TPC-C: WAR";
const BASIC: &str = "TPC-C: LRU-C basic";
const DYNAMIC: &str = "TPC-C: + dynamic batch";
const FULL: &str = "TPC-C: + LRU-D mutex";
const EAGER: &str = "TPC-C: + eager flusher";
const FREQUENT: &str = "TPC-C: + by frequency";
const LINK_INNODB: &str = "LinkBench: InnoDB 5.6";
const LINK_VANILLA: &str = "LinkBench: Vanilla";
const LINK_WAR: &str = "LinkBench: WAR";
const LINK_FULL: &str = "LinkBench: LRU-C";
const LINK_EAGER: &str = "LinkBench: + eager flusher";
const AT: f64 = 10.0;
const KEY: &str = "throughput_per_s";

/// Arm and what its bar is called.
const BARS: [(&str, &str, &str); 13] = [
    ("TPC-C", "InnoDB 5.6", INNODB),
    ("TPC-C", "Vanilla", VANILLA),
    ("TPC-C", "WAR", WAR),
    ("TPC-C", "LRU-C basic", BASIC),
    ("TPC-C", "+ dynamic batch", DYNAMIC),
    ("TPC-C", "+ LRU-D mutex", FULL),
    ("TPC-C", "+ eager flusher", EAGER),
    ("TPC-C", "+ by frequency", FREQUENT),
    ("LinkBench", "InnoDB 5.6", LINK_INNODB),
    ("LinkBench", "Vanilla", LINK_VANILLA),
    ("LinkBench", "WAR", LINK_WAR),
    ("LinkBench", "+ LRU-D mutex", LINK_FULL),
    ("LinkBench", "+ eager flusher", LINK_EAGER),
];

const SWEEP: Sweep = Sweep {
    name: "versions",
    axis: ("buffer_percent", "buffer, percent of the database"),
    categories: &[],
    arms: &[
        tpcc(INNODB, StrategyKind::InnoDb56),
        tpcc(VANILLA, StrategyKind::Vanilla),
        tpcc(WAR, StrategyKind::WAR),
        tpcc(BASIC, StrategyKind::LRU_C_BASIC),
        tpcc(DYNAMIC, StrategyKind::LRU_C_DYNAMIC),
        tpcc(FULL, StrategyKind::LRU_C),
        tpcc(EAGER, StrategyKind::LRU_C_EAGER),
        by_frequency(FREQUENT),
        linkbench(LINK_INNODB, StrategyKind::InnoDb56),
        linkbench(LINK_VANILLA, StrategyKind::Vanilla),
        linkbench(LINK_WAR, StrategyKind::WAR),
        linkbench(LINK_FULL, StrategyKind::LRU_C),
        linkbench(LINK_EAGER, StrategyKind::LRU_C_EAGER),
    ],
    points: &[AT],
    quick_points: &[AT],
    at: |at, setup| setup.buffer_percent = at,
    rounds: 1,
};

/// A number of one arm relative to another's.
fn ratio(seed: &Seed<'_>, arm: &str, than: &str, key: &str) -> f64 {
    seed.get(arm, AT, key) / seed.get(than, AT, key)
}

fn bars(workload: &str, title: &str, unit: &str, key: &str) -> Panel {
    let mine = BARS.iter().filter(|bar| bar.0 == workload);
    mine.fold(Panel::bars(title, unit), |panel, &(category, label, arm)| {
        panel.bar(category, label, arm, AT, key)
    })
}

const ABOUT: &str = "64 users without pauses on the engine's trees, a buffer of a tenth of the database, doublewrite on. \
    The device is a model at an eighth of its speed, the pool one instance of as many frames as each of the paper's \
    eight. Vanilla is the paper's description of InnoDB, InnoDB 5.6 the loop of the release that its prototype \
    changes. The eager flusher and the order by frequency are not of the paper.";

pub(super) const FIG_6: Figure = Figure {
    id: "lruc-versions",
    title: "Throughput by version of LRU-C",
    figure: "Figure 6; Figure 7 at 10 %",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("TPC-C: the full LRU-C is faster than Vanilla")
            .paper("3 x (Figure 7a)")
            .ours("ratio of throughput", |seed| ratio(seed, FULL, VANILLA, KEY))
            .at_least(3.0),
        Claim::new("TPC-C: the full LRU-C is faster than InnoDB 5.6")
            .paper("3 x (Figure 7a)")
            .ours("ratio of throughput", |seed| ratio(seed, FULL, INNODB, KEY))
            .at_least(3.0)
            .note("the paper's Vanilla is this release, tuned"),
        Claim::new("TPC-C: the full LRU-C is faster than WAR")
            .paper("1.52 x (Figure 7a)")
            .ours("ratio of throughput", |seed| ratio(seed, FULL, WAR, KEY))
            .at_least(1.52),
        Claim::new("LinkBench: the full LRU-C is faster than Vanilla")
            .paper("2 x (Figure 7b)")
            .ours("ratio of throughput", |seed| ratio(seed, LINK_FULL, LINK_VANILLA, KEY))
            .at_least(2.0),
        Claim::new("LinkBench: the full LRU-C is faster than InnoDB 5.6")
            .paper("2 x (Figure 7b)")
            .ours("ratio of throughput", |seed| ratio(seed, LINK_FULL, LINK_INNODB, KEY))
            .at_least(2.0)
            .note("the paper's Vanilla is this release, tuned"),
        Claim::new("LinkBench: the full LRU-C is faster than WAR")
            .paper("1.42 x (Figure 7b)")
            .ours("ratio of throughput", |seed| ratio(seed, LINK_FULL, LINK_WAR, KEY))
            .at_least(1.42),
        Claim::new("the LRU-C pointer alone brings most of it")
            .paper("1.63 x (Figure 6)")
            .ours("ratio of throughput of basic LRU-C and Vanilla", |seed| {
                ratio(seed, BASIC, VANILLA, KEY)
            })
            .at_least(1.63),
        Claim::new("dynamic batch writes add to it")
            .paper("+33 % (Figure 6)")
            .ours("ratio of throughput with and without", |seed| ratio(seed, DYNAMIC, BASIC, KEY))
            .at_least(1.33),
        Claim::new("the LRU-D mutex adds to it")
            .paper("+40 % (Figure 6)")
            .ours("ratio of throughput with and without", |seed| ratio(seed, FULL, DYNAMIC, KEY))
            .at_least(1.4)
            .note("two cores have little contention to remove"),
    ],
    panels: || {
        vec![
            bars("TPC-C", "TPC-C", "transactions/s", KEY),
            bars("LinkBench", "LinkBench", "operations/s", KEY),
        ]
    },
};

pub(super) const TABLE_3: Figure = Figure {
    id: "lruc-stalls",
    title: "Read stalls and waits for LRU mutexes",
    figure: "Table 3",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("the full LRU-C has no read stall")
            .paper("0 % (Table 3)")
            .ours("read stalls, both workloads", |seed| {
                seed.get(FULL, AT, "read_stalls") + seed.get(LINK_FULL, AT, "read_stalls")
            })
            .at_most(0.0),
        Claim::new("the LRU-C pointer removes nearly all of Vanilla's read stalls")
            .paper("33 % to 1.56 % of the misses (Table 3)")
            .ours(
                "read stalls of basic LRU-C per read stall of Vanilla, as parts of the misses",
                |seed| ratio(seed, BASIC, VANILLA, "read_stall_percent"),
            )
            .at_most(0.05),
        Claim::new("the full LRU-C waits less for LRU mutexes than basic LRU-C")
            .paper("0.07 of 0.18 ms (Table 3)")
            .ours("ratio of the time waited in a second", |seed| {
                ratio(seed, FULL, BASIC, "lru_mutex_wait_ms_per_s")
            })
            .at_most(0.39),
    ],
    panels: || {
        vec![
            bars("TPC-C", "Read stalls", "percent of misses", "read_stall_percent"),
            bars("TPC-C", "Waits for LRU mutexes", "ms in a second", "lru_mutex_wait_ms_per_s"),
            bars("TPC-C", "A read stall", "ms", "read_stall_mean_ms"),
        ]
    },
};

pub(super) const TABLE_5: Figure = Figure {
    id: "lruc-limit",
    title: "Requests against what the device can do",
    figure: "Table 5",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("the full LRU-C uses the device")
            .paper("64 % of fio's at the same mix (Table 5)")
            .ours(
                "part of the device's own limit for the same mix, lower of the workloads",
                |seed| {
                    let key = "device_limit_fraction";
                    let link = seed.get(LINK_FULL, AT, key);
                    if link.is_nan() { f64::NAN } else { seed.get(FULL, AT, key).min(link) }
                },
            )
            .at_least(0.7)
            .note("reads and writes in place; copies into the doublewrite area are not counted"),
        Claim::new("it moves more pages than Vanilla")
            .paper("3.06 x the bandwidth (Table 5)")
            .ours("ratio of pages read and written in a second, with doublewrite copies", |seed| {
                let all = |arm| {
                    ["read_pages_per_s", "written_pages_per_s", "copied_pages_per_s"]
                        .map(|key| seed.get(arm, AT, key))
                        .iter()
                        .sum::<f64>()
                };
                all(FULL) / all(VANILLA)
            })
            .at_least(3.0),
        Claim::new("its reads weigh more against its writes than Vanilla's")
            .paper("3.4 : 1 against 1.7 : 1 (Table 5)")
            .ours("reads to a write, relative to Vanilla", |seed| {
                ratio(seed, FULL, VANILLA, "reads_to_writes")
            })
            .at_least(1.2),
    ],
    panels: || {
        vec![
            bars("TPC-C", "Reads", "pages/s", "read_pages_per_s"),
            bars("TPC-C", "Writes in place", "pages/s", "written_pages_per_s"),
            bars("TPC-C", "Part of the device's limit", "", "device_limit_fraction").up_to(1.0),
            bars("LinkBench", "Reads", "pages/s", "read_pages_per_s"),
            bars("LinkBench", "Writes in place", "pages/s", "written_pages_per_s"),
            bars("LinkBench", "Part of the device's limit", "", "device_limit_fraction").up_to(1.0),
        ]
    },
};

pub(super) const TABLE_6: Figure = Figure {
    id: "lruc-latency",
    title: "Latency of transactions",
    figure: "Table 6",
    about: ABOUT,
    sweep: &SWEEP,
    claims: &[
        Claim::new("TPC-C: LRU-C's tail is shorter than Vanilla's")
            .paper("-84 % (Table 6)")
            .ours("ratio of the 95th percentile", |seed| {
                ratio(seed, FULL, VANILLA, "latency_p95_ms")
            })
            .at_most(0.16),
        Claim::new("TPC-C: and than that of InnoDB 5.6")
            .paper("-84 % (Table 6)")
            .ours("ratio of the 95th percentile", |seed| {
                ratio(seed, FULL, INNODB, "latency_p95_ms")
            })
            .at_most(0.16),
        Claim::new("TPC-C: the mean is lower")
            .paper("-66 % (Table 6)")
            .ours("ratio of the mean", |seed| ratio(seed, FULL, VANILLA, "latency_mean_ms"))
            .at_most(0.34),
        Claim::new("TPC-C: and the 99th percentile")
            .paper("-33 % (Table 6)")
            .ours("ratio of the 99th percentile", |seed| {
                ratio(seed, FULL, VANILLA, "latency_p99_ms")
            })
            .at_most(0.67),
        Claim::new("LRU-C misses hardly more often than Vanilla")
            .paper("1.04 to 1.36 x (Table 7)")
            .ours("ratio of miss ratios, higher of the workloads", |seed| {
                let key = "miss_percent";
                let link = ratio(seed, LINK_FULL, LINK_VANILLA, key);
                largest(ratio(seed, FULL, VANILLA, key), link)
            })
            .at_most(1.36),
    ],
    panels: || {
        vec![
            bars("TPC-C", "Mean", "ms", "latency_mean_ms"),
            bars("TPC-C", "P95", "ms", "latency_p95_ms"),
            bars("TPC-C", "P99", "ms", "latency_p99_ms"),
        ]
    },
};
