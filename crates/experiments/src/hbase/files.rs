//! Experiments in which files, the log or the network are what requests wait for.

use super::{
    EXCEEDED, Figure, LOGS, OURS, QUOTAS, RIVALS, STOCK, TEN, THIRTY, WITHOUT, experiment, margin,
    predicted, ratio,
};
use crate::experiment::Experiment;
use crate::sweep::Claim;
use crate::sweep::panel::Panel;

pub(super) const NO_SCHEDULING: Experiment = experiment(
    "hbase-4.13",
    "gets of two clients that all need the DataNode; one has more and more threads",
    "Figure 4.13",
    (1_500, 400),
    &NO_SCHEDULING_FIGURE,
);
pub(super) const ATTEMPTS: Experiment = experiment(
    "hbase-4.14",
    "gets from the cache beside gets that need files, while handlers wait for those",
    "Figure 4.14",
    (1_000, 250),
    &ATTEMPTS_FIGURE,
);
pub(super) const NETWORK: Experiment = experiment(
    "hbase-4.15",
    "the responses of one client of an HBase grow, on a link of 100 Mbit/s",
    "Figure 4.15",
    (1_500, 300),
    &NETWORK_FIGURE,
);
pub(super) const BLOCKING: Experiment = experiment(
    "hbase-4.16",
    "gets from the cache while another client's gets begin to wait for files in the handlers",
    "Figure 4.16",
    (1_500, 400),
    &BLOCKING_FIGURE,
);
pub(super) const ORDERING: Experiment = experiment(
    "hbase-4.17",
    "puts of two clients of one HBase; one has more and more threads",
    "Figure 4.17",
    (1_500, 400),
    &ORDERING_FIGURE,
);
pub(super) const SLOW_DATANODE: Experiment = experiment(
    "hbase-slow-datanode",
    "a DataNode that is twenty times slower, and a tenant whose blocks are elsewhere",
    "not in the dissertation",
    (1_200, 300),
    &SLOW_DATANODE_FIGURE,
);
pub(super) const BULK_LOAD: Experiment = experiment(
    "hbase-bulk-load",
    "gets from the cache while files are written and loaded in bulk",
    "not in the dissertation",
    (800, 200),
    &BULK_LOAD_FIGURE,
);

const DATANODE_BUSY: &str =
    "part of what the DataNode gives that is used, and of the processors' time: the worse margin";
const DATANODE_NOTE: &str = "DataNode at 90 % at least, processors at 70 % at most";

static NO_SCHEDULING_FIGURE: Figure = Figure {
    id: "hbase-4.13",
    figure: "Figure 4.13",
    method: "FilesBench#noScheduling",
    arms: &RIVALS,
    points: &[40.0, 200.0],
    sweep: "threads of C2",
    window_s: 20,
    about: "Both clients get rows of 128 kB that no cache has, C1 from 40 threads. HDFS's own throttle lets the DataNode give 10 MB/s.",
    claims: &[
        Claim::new("the DataNode is what gets wait for")
            .ours(DATANODE_BUSY, |seed| {
                margin(
                    seed.get(OURS, 200.0, "datanode_read_mb_s") / 10.0,
                    seed.get(OURS, 200.0, "cpu_busy"),
                )
            })
            .at_least(1.0)
            .note(DATANODE_NOTE),
        Claim::new("C1 keeps what it has while C2's threads grow")
            .ours("C1's gets beside 200 threads / beside 40", |seed| {
                ratio(seed, OURS, "c1_per_s", (200.0, 40.0))
            })
            .at_least(0.97),
        Claim::new("and loses much with HBase as it is")
            .ours("C1's gets beside 200 threads / beside 40", |seed| {
                ratio(seed, STOCK, "c1_per_s", (200.0, 40.0))
            })
            .at_most(0.7),
    ],
    panels: || {
        vec![
            Panel::sweep("Gets of C1", "1/s").lines(RIVALS, "c1_per_s"),
            Panel::sweep("Gets of C2", "1/s").lines(RIVALS, "c2_per_s"),
            Panel::sweep("The DataNode gives", "MB/s").lines(RIVALS, "datanode_read_mb_s"),
            Panel::sweep("Processors", "").lines(RIVALS, "cpu_busy"),
        ]
    },
    clients: &["c1", "c2"],
    predicted: Some(predicted::NO_SCHEDULING),
};

const NETWORK_ARMS: [&str; 4] = [STOCK, QUOTAS, EXCEEDED, OURS];

static NETWORK_FIGURE: Figure = Figure {
    id: "hbase-4.15",
    figure: "Figure 4.15",
    method: "Bench#network",
    arms: &NETWORK_ARMS,
    points: &[20.0, 200.0],
    sweep: "size of C2's responses, kB",
    window_s: 20,
    about: "C1 and C2 get rows with 16 threads each. C1's have 20 kB. The namespace's loopback has 100 Mbit/s, by tc.",
    claims: &[
        Claim::new("the network is what responses wait for")
            .ours(
                "part of 100 Mbit/s that is used, and of the processors' time: the worse margin",
                |seed| {
                    margin(
                        seed.get(OURS, 200.0, "network_mbit_s") / 100.0,
                        seed.get(OURS, 200.0, "cpu_busy"),
                    )
                },
            )
            .at_least(1.0)
            .note("network at 90 % at least, processors at 70 % at most"),
        Claim::new("C1 keeps what it has while C2's responses grow")
            .ours("C1's gets at 200 kB / at 20 kB", |seed| {
                ratio(seed, OURS, "c1_per_s", (200.0, 20.0))
            })
            .at_least(0.95),
        Claim::new("and loses much with HBase as it is")
            .ours("C1's gets at 200 kB / at 20 kB", |seed| {
                ratio(seed, STOCK, "c1_per_s", (200.0, 20.0))
            })
            .at_most(0.7),
    ],
    panels: || {
        vec![
            Panel::sweep("Gets of C1", "1/s").lines(NETWORK_ARMS, "c1_per_s"),
            Panel::sweep("P99 of C1", "ms").lines(NETWORK_ARMS, "c1_p99_ms"),
            Panel::sweep("Network", "Mbit/s").lines(NETWORK_ARMS, "network_mbit_s"),
            Panel::sweep("Processors", "").lines(NETWORK_ARMS, "cpu_busy"),
        ]
    },
    clients: &["c1", "c2"],
    predicted: Some(predicted::NETWORK),
};

static ATTEMPTS_FIGURE: Figure = Figure {
    id: "hbase-4.14",
    figure: "Figure 4.14",
    method: "FilesBench#attempts",
    arms: &[STOCK, WITHOUT, OURS],
    points: &[32.0],
    sweep: "threads of C1",
    window_s: 20,
    about: "C1 gets rows of 60 kB that no cache has, from 32 threads. C2 does so from 16 threads, and from 4 others it gets a \
            row that is cached. HDFS's own throttle lets the DataNode give 10 MB/s, so ten handlers wait for files.",
    claims: &[
        Claim::new("the handlers are what calls wait for")
            .ours("part of the handlers that work, and of the time in which processors do: the worse margin", |seed| {
                margin(seed.get(WITHOUT, 32.0, "handlers_busy"), seed.get(WITHOUT, 32.0, "cpu_busy"))
            })
            .at_least(1.0)
            .note("handlers at 90 % at least, processors at 70 % at most, without attempts"),
        Claim::new("gets from the cache do not wait for handlers")
            .ours("C2's gets from the cache with attempts / without", |seed| {
                seed.get(OURS, 32.0, "c2_cached_per_s") / seed.get(WITHOUT, 32.0, "c2_cached_per_s")
            })
            .at_least(2.0),
        Claim::new("and gets that need files lose nothing")
            .ours("with attempts / without: the smaller of C1's and C2's", |seed| {
                ["c1_cold_per_s", "c2_cold_per_s"]
                    .iter()
                    .map(|key| seed.get(OURS, 32.0, key) / seed.get(WITHOUT, 32.0, key))
                    .fold(f64::INFINITY, f64::min)
            })
            .at_least(0.97),
    ],
    panels: || {
        let arms = [STOCK, WITHOUT, OURS];
        let kinds = [("c1_cold_per_s", "C1, files"), ("c2_cold_per_s", "C2, files"), ("c2_cached_per_s", "C2, cache")];
        let bars = |panel: Panel, arm: &'static str| {
            kinds.iter().fold(panel, |panel, (key, label)| panel.bar(arm, label, arm, 32.0, key))
        };
        vec![arms.into_iter().fold(Panel::bars("Gets", "1/s"), bars)]
    },
    clients: &["c1_cold", "c2_cold", "c2_cached"],
    predicted: Some(predicted::ATTEMPTS),
};

const BLOCKING_ARMS: [&str; 5] = [STOCK, QUOTAS, EXCEEDED, WITHOUT, OURS];

static BLOCKING_FIGURE: Figure = Figure {
    id: "hbase-4.16",
    figure: "Figure 4.16",
    method: "FilesBench#blocking",
    arms: &BLOCKING_ARMS,
    points: &[0.0, 1.0],
    sweep: "C2's gets need files",
    window_s: 20,
    about: "Both clients get a cached row from 16 threads that think for 10 ms. Then C2 gets rows of 60 kB that no cache has, \
            from 40 threads, and the DataNode gives 10 MB/s: C2's gets hold the ten handlers.",
    claims: &[
        Claim::new("the handlers are what calls wait for")
            .ours("part of the handlers that work, and of the time in which processors do: the worse margin", |seed| {
                margin(seed.get(OURS, 1.0, "handlers_busy"), seed.get(OURS, 1.0, "cpu_busy"))
            })
            .at_least(1.0)
            .note("handlers at 90 % at least, processors at 70 % at most"),
        Claim::new("C1 keeps what it has while C2's gets hold handlers")
            .ours("C1's gets while C2's need files / while they do not, with attempts", |seed| {
                ratio(seed, OURS, "c1_per_s", (1.0, 0.0))
            })
            .at_least(0.97),
        Claim::new("and loses much with HBase as it is")
            .ours("C1's gets while C2's need files / while they do not", |seed| {
                ratio(seed, STOCK, "c1_per_s", (1.0, 0.0))
            })
            .at_most(0.7),
    ],
    panels: || {
        vec![
            Panel::sweep("Gets of C1", "1/s").lines(BLOCKING_ARMS, "c1_per_s"),
            Panel::sweep("P99 of C1", "ms").lines(BLOCKING_ARMS, "c1_p99_ms"),
            Panel::sweep("Handlers that work", "").lines(BLOCKING_ARMS, "handlers_busy"),
            Panel::sweep("Processors", "").lines(BLOCKING_ARMS, "cpu_busy"),
        ]
    },
    clients: &["c1", "c2"],
    predicted: Some(predicted::BLOCKING),
};

const ORDERING_ARMS: [&str; 4] = [STOCK, LOGS, TEN, THIRTY];

static ORDERING_FIGURE: Figure = Figure {
    id: "hbase-4.17",
    figure: "Figure 4.17",
    method: "FilesBench#ordering",
    arms: &ORDERING_ARMS,
    points: &[80.0, 400.0],
    sweep: "threads of C2",
    window_s: 20,
    about: "Both clients put 1 kB, C1 from 80 threads. There are 100 handlers. HDFS's own throttle lets the DataNode take 1 MB/s.",
    claims: &[
        Claim::new("the log's DataNode is what puts wait for")
            .ours(DATANODE_BUSY, |seed| {
                margin(
                    seed.get(TEN, 400.0, "datanode_written_mb_s"),
                    seed.get(TEN, 400.0, "cpu_busy"),
                )
            })
            .at_least(1.0)
            .note(DATANODE_NOTE),
        Claim::new("C1 keeps what it has while C2's threads grow")
            .ours("C1's puts beside 400 threads / beside 80, 10 outstanding", |seed| {
                ratio(seed, TEN, "c1_per_s", (400.0, 80.0))
            })
            .at_least(0.95),
        Claim::new("with 30 outstanding, too")
            .paper("worse than with 10")
            .ours("C1's puts beside 400 threads / beside 80", |seed| {
                ratio(seed, THIRTY, "c1_per_s", (400.0, 80.0))
            })
            .at_least(0.9),
        Claim::new("and loses much with HBase as it is")
            .ours("C1's puts beside 400 threads / beside 80", |seed| {
                ratio(seed, STOCK, "c1_per_s", (400.0, 80.0))
            })
            .at_most(0.7),
    ],
    panels: || {
        vec![
            Panel::sweep("Puts of C1", "1/s").lines(ORDERING_ARMS, "c1_per_s"),
            Panel::sweep("P99 of C1", "ms").lines(ORDERING_ARMS, "c1_p99_ms"),
            Panel::sweep("The DataNode takes", "MB/s")
                .lines(ORDERING_ARMS, "datanode_written_mb_s"),
            Panel::sweep("Processors", "").lines(ORDERING_ARMS, "cpu_busy"),
        ]
    },
    clients: &["c1", "c2"],
    predicted: Some(predicted::ORDERING),
};

static SLOW_DATANODE_FIGURE: Figure = Figure {
    id: "hbase-slow-datanode",
    figure: "not in the dissertation",
    method: "FilesBench#slowDataNode",
    arms: &[STOCK, QUOTAS, OURS],
    points: &[0.0, 32.0],
    sweep: "threads that read from the slow DataNode",
    window_s: 20,
    about: "One DataNode gives 10 MB/s and another one 0.5 MB/s. A tenant gets rows of 60 kB that only the fast one has, from 16 threads.",
    claims: &[
        Claim::new("the fast DataNode is what its gets wait for")
            .ours(DATANODE_BUSY, |seed| {
                margin(
                    seed.get(OURS, 32.0, "datanode_read_mb_s") / 10.0,
                    seed.get(OURS, 32.0, "cpu_busy"),
                )
            })
            .at_least(1.0)
            .note(DATANODE_NOTE),
        Claim::new("who reads from another DataNode is not slower")
            .ours("its gets beside the other tenant's / alone", |seed| {
                ratio(seed, OURS, "fast_per_s", (32.0, 0.0))
            })
            .at_least(0.95),
        Claim::new("and is with HBase as it is")
            .ours("its gets beside the other tenant's / alone", |seed| {
                ratio(seed, STOCK, "fast_per_s", (32.0, 0.0))
            })
            .at_most(0.7),
    ],
    panels: || {
        let arms = [STOCK, QUOTAS, OURS];
        vec![
            Panel::sweep("Gets from the fast DataNode", "1/s").lines(arms, "fast_per_s"),
            Panel::sweep("Gets from the slow one", "1/s").lines(arms, "slow_per_s"),
            Panel::sweep("The fast DataNode gives", "MB/s").lines(arms, "datanode_read_mb_s"),
            Panel::sweep("Processors", "").lines(arms, "cpu_busy"),
        ]
    },
    clients: &["fast", "slow"],
    predicted: None,
};

static BULK_LOAD_FIGURE: Figure = Figure {
    id: "hbase-bulk-load",
    figure: "not in the dissertation",
    method: "FilesBench#bulkLoad",
    arms: &[STOCK, OURS],
    points: &[0.0, 1.0],
    sweep: "bulk load",
    window_s: 20,
    about: "C1 gets a cached row from 8 threads that think for 10 ms. Files of 25 MB are written and loaded one after the other; the \
            DataNode takes 12 MB/s.",
    claims: &[
        Claim::new("the load has what the DataNode takes")
            .ours(DATANODE_BUSY, |seed| {
                margin(
                    seed.get(OURS, 1.0, "datanode_written_mb_s") / 12.0,
                    seed.get(OURS, 1.0, "cpu_busy"),
                )
            })
            .at_least(1.0)
            .note(DATANODE_NOTE),
        Claim::new("gets are hardly slower")
            .ours("p99 of gets beside the load / alone", |seed| {
                ratio(seed, OURS, "c1_p99_ms", (1.0, 0.0))
            })
            .at_most(1.5),
    ],
    panels: || {
        let arms = [STOCK, OURS];
        vec![
            Panel::sweep("P99 of gets", "ms").lines(arms, "c1_p99_ms"),
            Panel::sweep("Gets", "1/s").lines(arms, "c1_per_s"),
            Panel::sweep("Loaded", "MB/s").lines(arms, "loaded_mb_per_s"),
            Panel::sweep("Processors", "").lines(arms, "cpu_busy"),
        ]
    },
    clients: &["c1", "c2"],
    predicted: None,
};
