//! What changes the picture: the window of clean-first, the mix, the number of users, the channels,
//! the order of the queue.

use headworks_bufferpool::StrategyKind;
use headworks_engine::tpcc::Mix;

use super::device::DeviceKind;
use super::drive::QueueOrder;
use super::figure::{Claim, Figure, Sweep, by_frequency, tpcc};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

const VANILLA: &str = "Vanilla";
const WAR: &str = "WAR";
const FULL: &str = "LRU-C";
/// Not of the paper: the pool's default, and the same in the order of frequency.
const EAGER: &str = "+ eager flusher";
const FREQUENT: &str = "+ by frequency";
const CF_LRU: &str = "CF-LRU";
const KEY: &str = "throughput_per_s";

fn gain(seed: &Seed<'_>, at: f64) -> f64 {
    seed.get(FULL, at, KEY) / seed.get(VANILLA, at, KEY)
}

pub(super) const TABLE_4: Figure = Figure {
    id: "lruc-scan-depth",
    title: "CF-LRU with windows of different length",
    figure: "Table 4",
    about: "TPC-C, 64 users, a buffer of a tenth of the database; the window is the search's and the flusher's.",
    sweep: &Sweep {
        name: "scan-depth",
        axis: ("window_pages", "window, pages"),
        categories: &[],
        arms: &[tpcc(CF_LRU, StrategyKind::CF_LRU)],
        points: &[512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0],
        quick_points: &[64.0, 256.0, 1024.0],
        // Points are small whole numbers.
        at: |at, setup| setup.strategy = StrategyKind::CfLru { window: at as usize },
        rounds: 1,
    },
    claims: &[
        Claim::new("a window of 4,096 pages has far fewer read stalls than one of 1,024")
            .paper("33 to 5 % (Table 4)")
            .ours("ratio of the read stalls in percent", |seed| {
                seed.ratio(CF_LRU, "read_stall_percent", 4096.0, 1024.0)
            })
            .at_most(0.5),
        Claim::new("and is the fastest")
            .paper("at 16,384 pages 9 % slower (Table 4)")
            .ours("throughput at 16,384 pages, relative to 4,096", |seed| {
                seed.ratio(CF_LRU, KEY, 16_384.0, 4096.0)
            })
            .at_most(1.0),
    ],
    panels: || {
        vec![
            Panel::sweep("Throughput", "transactions/s").lines([CF_LRU], KEY),
            Panel::sweep("Read stalls", "percent of misses").lines([CF_LRU], "read_stall_percent"),
            Panel::sweep("Pages looked at", "per miss").lines([CF_LRU], "scanned_per_miss"),
        ]
    },
};

/// Transactions that update, in percent; the rest are stock-level ones, as in the paper.
const MIXES: &[f64] = &[100.0, 92.0, 75.0, 60.0];

fn mix(updates_percent: f64) -> Mix {
    // Percentages.
    let updates = updates_percent as u32;
    if updates == 92 {
        return Mix::STANDARD;
    }
    let delivery = 4;
    let payment = (updates - delivery) / 2;
    Mix { new_order: updates - delivery - payment, payment, order_status: 0, delivery }
}

pub(super) const FIG_8: Figure = Figure {
    id: "lruc-mix",
    title: "Throughput as reads become more",
    figure: "Figure 8",
    about: "TPC-C with fewer updating and more stock-level transactions; what reads and writes come to at the device \
            is measured. 92 percent is the standard mix.",
    sweep: &Sweep {
        name: "mix",
        axis: ("updates_percent", "updating transactions, percent"),
        categories: &[],
        arms: &[
            tpcc(VANILLA, StrategyKind::Vanilla),
            tpcc(WAR, StrategyKind::WAR),
            tpcc(FULL, StrategyKind::LRU_C),
            tpcc(EAGER, StrategyKind::LRU_C_EAGER),
            by_frequency(FREQUENT),
        ],
        points: MIXES,
        quick_points: &[100.0, 60.0],
        at: |at, setup| setup.mix = mix(at),
        rounds: 1,
    },
    claims: &[
        Claim::new("the gain over Vanilla becomes less as reads become more")
            .paper("less at 4 : 1 than at 1 : 1 (Figure 8)")
            .ours("gain at 60 %, relative to that at 100 %", |seed| {
                gain(seed, 60.0) / gain(seed, 100.0)
            })
            .at_most(1.0),
        Claim::new("and is still large with the most reads")
            .paper("2 x at 4 : 1 (Figure 8)")
            .ours("ratio of throughput at 60 %", |seed| gain(seed, 60.0))
            .at_least(2.0),
    ],
    panels: || {
        vec![
            Panel::sweep("Throughput", "transactions/s")
                .lines([VANILLA, WAR, FULL, EAGER, FREQUENT], KEY),
            Panel::sweep("Reads to a write", "").lines([VANILLA, WAR, FULL], "reads_to_writes"),
        ]
    },
};

pub(super) const FIG_9: Figure = Figure {
    id: "lruc-threads",
    title: "Throughput by number of users",
    figure: "Figure 9",
    about: "TPC-C, a buffer of a tenth of the database. Users have no pauses.",
    sweep: &Sweep {
        name: "threads",
        axis: ("threads", "users"),
        categories: &[],
        arms: &[tpcc(VANILLA, StrategyKind::Vanilla), tpcc(FULL, StrategyKind::LRU_C)],
        points: &[8.0, 16.0, 32.0, 64.0, 128.0],
        quick_points: &[8.0, 64.0],
        // Points are small whole numbers.
        at: |at, setup| setup.threads = at as usize,
        rounds: 1,
    },
    claims: &[
        Claim::new("with 8 users there is little to gain")
            .paper("almost the same (Figure 9)")
            .ours("ratio of throughput", |seed| gain(seed, 8.0))
            .between(0.8, 1.5),
        Claim::new("with 128 users there is more to gain than with 8")
            .paper("Vanilla halves, LRU-C scales up to 32 (Figure 9)")
            .ours("gain with 128 users, relative to that with 8", |seed| {
                gain(seed, 128.0) / gain(seed, 8.0)
            })
            .at_least(1.5),
    ],
    panels: || {
        vec![
            Panel::sweep("Throughput", "transactions/s").lines([VANILLA, FULL], KEY),
            Panel::sweep("Read stalls", "percent of misses")
                .lines([VANILLA, FULL], "read_stall_percent"),
        ]
    },
};

pub(super) const FIG_10: Figure = Figure {
    id: "lruc-channels",
    title: "Throughput by parallelism of the device",
    figure: "Figure 10",
    about: "TPC-C on SSD-B's model with one to eight channels of eight ways, as the paper's board has them, at a half of \
            its speed.",
    sweep: &Sweep {
        name: "channels",
        axis: ("channels", "channels of 8 ways"),
        categories: &[],
        arms: &[tpcc(VANILLA, StrategyKind::Vanilla), tpcc(FULL, StrategyKind::LRU_C)],
        points: &[1.0, 2.0, 4.0, 8.0],
        quick_points: &[1.0, 8.0],
        at: |at, setup| {
            // Points are small whole numbers.
            setup.device =
                DeviceKind { preset: "ssd-b", channels: Some((at as u32, 8)), slowed: 2.0 };
        },
        rounds: 1,
    },
    claims: &[
        Claim::new("LRU-C is faster than Vanilla at every parallelism")
            .paper("at 1 to 8 channels (Figure 10)")
            .ours("ratio of throughput, lowest", |seed| {
                let pairs = seed.all(FULL, KEY).into_iter().zip(seed.all(VANILLA, KEY));
                pairs.map(|(full, vanilla)| full / vanilla).fold(f64::INFINITY, f64::min)
            })
            .at_least(1.0),
        Claim::new("and the gap widens with it")
            .paper("wider with more channels (Figure 10)")
            .ours("gain at 8 channels, relative to that at 1", |seed| {
                gain(seed, 8.0) / gain(seed, 1.0)
            })
            .at_least(1.0),
    ],
    panels: || vec![Panel::sweep("Throughput", "transactions/s").lines([VANILLA, FULL], KEY)],
};

const NONE: f64 = 0.0;
const ARRIVAL: f64 = 1.0;
const RANKED: f64 = 2.0;
const BY_USER: f64 = 3.0;

pub(super) const QUEUE: Figure = Figure {
    id: "lruc-queues",
    title: "The pool's requests in an order of ours",
    figure: "beyond the paper",
    about: "TPC-C, 64 users. 0: straight to the device; 1: through a queue of 32 places in the order of arrival; 2: the \
            same queue, in which misses and stalls go before the flusher and that before checkpoints (CFQ's classes); \
            3: the same queue, in which each user gets as much of the device (AFQ), for its misses and for the writes of \
            pages that it changed most.",
    sweep: &Sweep {
        name: "queues",
        axis: ("queue", "order of the queue"),
        categories: &["none", "in order of arrival", "waiters first", "by user"],
        arms: &[tpcc(VANILLA, StrategyKind::Vanilla), tpcc(FULL, StrategyKind::LRU_C)],
        points: &[NONE, ARRIVAL, RANKED, BY_USER],
        quick_points: &[NONE, ARRIVAL, RANKED, BY_USER],
        at: |at, setup| {
            // Points are small whole numbers.
            setup.queue = match at as u32 {
                0 => QueueOrder::Straight,
                1 => QueueOrder::Arrival,
                2 => QueueOrder::ForegroundFirst,
                _ => QueueOrder::ByUser,
            };
        },
        rounds: 1,
    },
    claims: &[Claim::new("LRU-C: ranked by the waiting user, transactions have a shorter tail")
        .paper("not of the paper")
        .ours("ratio of the 95th percentile, ranked to in order of arrival", |seed| {
            seed.ratio(FULL, "latency_p95_ms", RANKED, ARRIVAL)
        })
        .at_most(1.0)],
    panels: || {
        vec![
            Panel::sweep("Throughput", "transactions/s").lines([VANILLA, FULL], KEY),
            Panel::sweep("P95", "ms").lines([VANILLA, FULL], "latency_p95_ms"),
        ]
    },
};
