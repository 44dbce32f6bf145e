//! Targets that are held by latency, and hosts that come and go.

use super::figure::{Arm, Figure};
use super::load::Kind;
use super::one::{FIXED, INTEGRAL, LOG_PI, NEED, OLTP_A, UNSCHEDULED, WINDOWS};
use super::scene::{Member, Wants, Way};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};

const WITHOUT: &str = "without the second lever";

/// Few accesses outstanding: no share helps these.
const FEW: Kind = Kind::Transactions { threads: 8, accesses: 8.0 };

fn few(part: f64) -> Vec<Member> {
    vec![
        Member::new("few", 0, FEW, Wants::PartOfAlone(part)).cost(&[1.0, 1.25]),
        Member::new("b", 1, OLTP_A, Wants::Rest),
        Member::new("c", 1, OLTP_A, Wants::Rest),
    ]
}

const PARTS: [f64; 2] = [0.4, 0.6];

pub(super) const LATENCY: Figure = Figure {
    id: "learn-latency",
    title: "A target that waits for the device and not for its share",
    figure: "not in the paper",
    about: "Eight threads (8 accesses of 16 KiB one after the other, a millisecond between them) beside two OLTP-A, each \
        with a hundred outstanding. The target is a part of what they do alone. A transaction costs 1.25 times as much \
        from the second phase on. Best effort is measured beside the largest fixed share, which does not meet it.",
    axis: "part of alone",
    points: &PARTS,
    quick_points: &[PARTS[0]],
    members: few,
    phases: &[("begin", 0.6), ("step", 0.4)],
    times: [(300, 3), (75, 1)],
    arms: &[
        Arm::new(FIXED, Way::Fixed),
        Arm::new(NEED, Way::Controller("need")),
        Arm::new(WITHOUT, Way::Controller("need-without-depth")),
        Arm::new(LOG_PI, Way::Controller("log-pi")),
        Arm::new(INTEGRAL, Way::Controller("integral")),
        Arm::new(WINDOWS, Way::Windows),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
    ],
    claims: &[
        Claim::new("0.4 of alone is met within 60 s")
            .ours("s", |seed| seed.get(NEED, PARTS[0], "begin_settled_s"))
            .at_most(60.0),
        Claim::new("0.6 of alone within 60 s")
            .ours("s", |seed| seed.get(NEED, PARTS[1], "begin_settled_s"))
            .at_most(60.0),
        Claim::new("a step of a quarter is followed within 60 s")
            .ours("s", |seed| seed.get(NEED, PARTS[0], "step_settled_s"))
            .at_most(60.0),
        Claim::new("no share alone meets 0.6")
            .ours("mean / target under the largest fixed share", |seed| {
                seed.get(FIXED, PARTS[1], "begin_of_target")
            })
            .at_most(0.95),
        Claim::new("the rest is best effort's")
            .ours("others / others without a scheduler, at 0.4", |seed| {
                let others = |arm| seed.get(arm, PARTS[0], "begin_others_per_s");
                others(NEED) / others(UNSCHEDULED)
            })
            .at_least(0.5),
    ],
    panels: || {
        let arms = [FIXED, NEED, WITHOUT, LOG_PI, INTEGRAL, WINDOWS, UNSCHEDULED];
        let over_time = |title: &str, at: f64, key: &str| {
            arms.iter().fold(Panel::time(title, "1/s"), |panel, arm| panel.at(arm, arm, at, key))
        };
        vec![
            over_time("Eight threads, 0.4 of alone", PARTS[0], "few_per_s"),
            over_time("Eight threads, 0.6 of alone", PARTS[1], "few_per_s"),
            over_time("OLTP-A beside 0.4", PARTS[0], "b_per_s"),
            over_time("OLTP-A beside 0.6", PARTS[1], "b_per_s"),
        ]
    },
    columns: &[
        ("settled s", "begin_settled_s"),
        ("held", "begin_held_part"),
        ("mean / target", "begin_of_target"),
        ("sigma 5 s", "begin_sigma_part"),
        ("others/s", "begin_others_per_s"),
        ("step s", "step_settled_s"),
        ("step held", "step_held_part"),
        ("step mean / target", "step_of_target"),
    ],
};

/// The axis: there is one point.
const THIS: f64 = 0.25;

fn guests(part: f64) -> Vec<Member> {
    vec![
        Member::new("a", 0, OLTP_A, Wants::PartOfAlone(part)),
        Member::new("b", 1, OLTP_A, Wants::Rest),
        Member::new("c", 2, OLTP_A, Wants::Rest).there(&[0.0, 1.0, 1.0, 0.0]),
        Member::new("d", 3, OLTP_A, Wants::PartOfAlone(0.1)).there(&[0.0, 0.0, 1.0, 0.0]),
    ]
}

fn settled(seed: &Seed<'_>, phase: &str) -> f64 {
    seed.get(NEED, THIS, &format!("{phase}_settled_s"))
}

pub(super) const GUESTS: Figure = Figure {
    id: "learn-guests",
    title: "Hosts that join and leave beside a target",
    figure: "Section 6, changes",
    about: "One OLTP-A is to have 0.25 of what it does alone, one has the rest. Then a host with a third one joins, then \
        one that is to have 0.1; then both leave.",
    axis: "part of alone",
    points: &[THIS],
    quick_points: &[THIS],
    members: guests,
    phases: &[("begin", 0.25), ("joins", 0.25), ("target", 0.25), ("leave", 0.25)],
    times: [(400, 3), (84, 1)],
    arms: &[
        Arm::new(FIXED, Way::Fixed),
        Arm::new(NEED, Way::Controller("need")),
        Arm::new(LOG_PI, Way::Controller("log-pi")),
        Arm::new(INTEGRAL, Way::Controller("integral")),
        Arm::new(WINDOWS, Way::Windows),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
    ],
    claims: &[
        Claim::new("after a host has joined, the target is met within 30 s")
            .ours("s", |seed| settled(seed, "joins"))
            .at_most(30.0),
        Claim::new("after one that has a target, too, both are within 30 s")
            .ours("s", |seed| settled(seed, "target"))
            .at_most(30.0),
        Claim::new("after both have left, within 30 s")
            .ours("s", |seed| settled(seed, "leave"))
            .at_most(30.0),
        Claim::new("held in all phases")
            .ours("least part of 30 s windows held", |seed| {
                let held = |phase: &str| seed.get(NEED, THIS, &format!("{phase}_held_part"));
                ["begin", "joins", "target", "leave"].map(held).into_iter().fold(1.0, f64::min)
            })
            .at_least(0.95),
    ],
    panels: || {
        let arms = [FIXED, NEED, LOG_PI, INTEGRAL, WINDOWS, UNSCHEDULED];
        let over_time = |title: &str, unit: &str, key: &str| {
            arms.iter().fold(Panel::time(title, unit), |panel, arm| panel.at(arm, arm, THIS, key))
        };
        vec![
            over_time("The target of 0.25", "1/s", "a_per_s"),
            over_time("The target of 0.1", "1/s", "d_per_s"),
            over_time("Best effort", "1/s", "b_per_s"),
            over_time("Share granted to 0.25", "%", "a_share_percent"),
        ]
    },
    columns: &[
        ("joins s", "joins_settled_s"),
        ("held", "joins_held_part"),
        ("target joins s", "target_settled_s"),
        ("held", "target_held_part"),
        ("leave s", "leave_settled_s"),
        ("held", "leave_held_part"),
        ("sigma 5 s", "begin_sigma_part"),
    ],
};
