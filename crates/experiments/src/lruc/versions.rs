//! The steps from Vanilla to the full LRU-C, and its rivals, at a buffer of a tenth of the database.

use headworks_bufferpool::StrategyKind;

use super::figure::{Bound, Claim, Figure, Sweep, linkbench, tpcc};
use super::{report, run};
use crate::registry::Experiment;
use crate::sweep::panel::Panel;

pub(super) const VERSIONS: Experiment =
    FIG_6.experiment(|options| run(&FIG_6, options), |directory| report(&FIG_6, directory));

pub(super) const VANILLA: &str = "TPC-C: Vanilla";
pub(super) const WAR: &str = "TPC-C: WAR";
pub(super) const BASIC: &str = "TPC-C: LRU-C basic";
pub(super) const DYNAMIC: &str = "TPC-C: + dynamic batch";
pub(super) const FULL: &str = "TPC-C: + LRU-D mutex";
pub(super) const EAGER: &str = "TPC-C: + eager flusher";
const LINK_VANILLA: &str = "LinkBench: Vanilla";
const LINK_WAR: &str = "LinkBench: WAR";
const LINK_FULL: &str = "LinkBench: LRU-C";
pub(super) const AT: f64 = 10.0;

pub(super) const SWEEP: Sweep = Sweep {
    name: "versions",
    axis: ("buffer_percent", "buffer, percent of the database"),
    arms: &[
        tpcc(VANILLA, StrategyKind::Vanilla),
        tpcc(WAR, StrategyKind::WAR),
        tpcc(BASIC, StrategyKind::LRU_C_BASIC),
        tpcc(DYNAMIC, StrategyKind::LRU_C_DYNAMIC),
        tpcc(FULL, StrategyKind::LRU_C),
        tpcc(EAGER, StrategyKind::LRU_C_EAGER),
        linkbench(LINK_VANILLA, StrategyKind::Vanilla),
        linkbench(LINK_WAR, StrategyKind::WAR),
        linkbench(LINK_FULL, StrategyKind::LRU_C),
    ],
    points: &[AT],
    quick_points: &[AT],
    at: |at, setup| setup.buffer_percent = at,
    rounds: 2,
};

const FIG_6: Figure = Figure {
    id: "lruc-versions",
    title: "Throughput by version of LRU-C",
    figure: "Figures 6 and 7 (at 10 %)",
    about: "",
    sweep: &SWEEP,
    claims: &[Claim {
        statement: "TPC-C: the full LRU-C is faster than Vanilla",
        paper: "3 x (Figure 7a)",
        unit: "ratio of throughput",
        ours: |seed| {
            seed.get(FULL, AT, "throughput_per_s") / seed.get(VANILLA, AT, "throughput_per_s")
        },
        bound: Bound::AtLeast(3.0),
        note: "",
    }],
    panels: || vec![Panel::bars("Throughput", "tx/s").bar("TPC-C", "Vanilla", VANILLA, AT, "throughput_per_s")],
};
