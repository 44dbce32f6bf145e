//! HBase: what the two indirect remedies of blocking depend on.

use anyhow::Result;
use headworks_tad::model::Tad;
use headworks_tad::remedy::{Remedy, apply};

use super::figure::{Arm, Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

const FEEDBACK: &str = "[d|i|di|i1|?]: congestion";
const SHARED: &str = "[d|i|di|i2|?]: shared handlers";
const CPU: &str = "slave.cpu_used_fraction";

const SCENARIO: &str = r#"
name = "blocking"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-cached", threads = 420 }] },
    { name = "C2", load = [{ request = "get", threads = 420 }] },
]
"#;

const ABOUT: &str = "As in Figure 4.10 after the change: C1 issues Gets that hit the cache, C2 Gets for which the \
                     handler waits for another node's disk, from 60 threads for each client and node.";

const fn figure(id: &'static str, title: &'static str) -> Figure {
    Figure {
        id,
        title,
        figure: "Figure 4.11",
        about: ABOUT,
        system: "hbase",
        scenario: SCENARIO,
        sweep: Sweep { key: "", label: "", points: &[] },
        arms: &[],
        time: Time { full_s: 10, quick_s: 6, warmup_s: 4 },
        keep: &["C*_per_s", "slave.*_used_fraction"],
        derive: |_| {},
        claims: &[],
        panels: Vec::new,
        expected_s: (220, 20),
    }
}

fn panels(arm: &'static str) -> Vec<Panel> {
    vec![
        Panel::sweep("Throughput of C1", "requests/s").line(arm, arm, "C1_per_s").colour(1),
        Panel::sweep("CPU", "fraction of the time").line(arm, arm, CPU).colour(1).up_to(1.0),
    ]
}

fn wrong_percent(tad: &mut Tad, percent: f64) -> Result<()> {
    for control in &mut tad.controls {
        if let Remedy::CongestionFeedback { wrong_per_mille, .. } = control {
            *wrong_per_mille = (percent * 10.0) as u32;
        }
    }
    Ok(())
}

pub(super) const WRONG: Figure = Figure {
    sweep: Sweep {
        key: "wrong_predictions_percent",
        label: "wrong predictions, %",
        points: &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0],
    },
    arms: &[Arm { adjust: wrong_percent, ..arm(FEEDBACK, "d|i|di|i1|?") }],
    panels: || panels(FEEDBACK),
    claims: &[
        Claim::new("wrong predictions: C1's throughput drops sharply")
            .paper("drops sharply")
            .ours("throughput with half of them wrong / with none", |seed| {
                seed.ratio(FEEDBACK, "C1_per_s", 50.0, 0.0)
            })
            .at_most(0.7),
        Claim::new("wrong predictions: so does the use of the CPU")
            .paper("drops sharply")
            .ours("utilization with half of them wrong / with none", |seed| {
                seed.ratio(FEEDBACK, CPU, 50.0, 0.0)
            })
            .at_most(0.7),
    ],
    ..figure("tad-hbase-predictions", "HBase: predictions of blocking that are wrong")
};

const NOTE: &str =
    "with still fewer handlers C2 cannot keep the disks busy, and C1 gets more again";

/// The tries on speculation are a third of the handlers, as in the system's file.
fn handlers(tad: &mut Tad, threads: f64) -> Result<()> {
    for control in &mut tad.controls {
        if let Remedy::Speculate { threads: more, .. } = control {
            *more = (threads / 3.0).ceil() as u32;
        }
    }
    Ok(apply(tad, &Remedy::SetThreads { stage: "rpc-handle".into(), threads: threads as u32 })?)
}

pub(super) const HANDLERS: Figure = Figure {
    sweep: Sweep {
        key: "handler_threads",
        label: "RPC Handle threads of a node",
        points: &[10.0, 20.0, 30.0, 45.0, 60.0, 90.0],
    },
    arms: &[Arm { adjust: handlers, ..arm(SHARED, "d|i|di|i2|?") }],
    panels: || panels(SHARED),
    claims: &[
        Claim::new("fewer handlers: lower throughput of C1")
            .paper("lower")
            .ours("throughput with 20 / with 90", |seed| seed.ratio(SHARED, "C1_per_s", 20.0, 90.0))
            .at_most(0.9)
            .note(NOTE),
        Claim::new("fewer handlers: lower use of the CPU")
            .paper("lower")
            .ours("utilization with 20 / with 90", |seed| seed.ratio(SHARED, CPU, 20.0, 90.0))
            .at_most(0.9)
            .note(NOTE),
    ],
    ..figure("tad-hbase-handlers", "HBase: handlers that are shared among clients, and how many")
};
