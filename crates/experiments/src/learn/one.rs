//! One level: the store alone finds the share of one target.

use super::figure::{Arm, Figure};
use super::load::Kind;
use super::scene::{Member, Wants, Way};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};

pub(super) const FIXED: &str = "best fixed shares";
const RESERVED: &str = "reserved by hand";
pub(super) const NEED: &str = "need and lag";
pub(super) const LOG_PI: &str = "log-PI";
pub(super) const INTEGRAL: &str = "integral";
const AUTOMATON: &str = "automaton";
pub(super) const WINDOWS: &str = "windows by latency";
/// Fair queueing without any target: what is lost to it is lost to its depth.
pub(super) const EQUAL: &str = "equal shares";
pub(super) const UNSCHEDULED: &str = "no scheduler";

/// ORION's mix.
pub(super) const OLTP_A: Kind = Kind::OltpA { small: 100, large: 10 };

fn members(part: f64) -> Vec<Member> {
    vec![
        // From the second phase on a transaction costs more. In the third one this member rests.
        Member::new("a", 0, OLTP_A, Wants::PartOfAlone(part))
            .cost(&[1.0, 1.25])
            .there(&[1.0, 1.0, 0.0, 1.0]),
        Member::new("b", 1, OLTP_A, Wants::Rest),
        Member::new("c", 2, OLTP_A, Wants::Rest),
    ]
}

/// A number at the point of the paper's half.
fn half(seed: &Seed<'_>, arm: &str, key: &str) -> f64 {
    seed.get(arm, 0.5, key)
}

/// What is left for others ÷ that under the best fixed shares.
fn left(seed: &Seed<'_>, arm: &str) -> f64 {
    half(seed, arm, "begin_others_per_s") / half(seed, FIXED, "begin_others_per_s")
}

pub(super) const FIGURE: Figure = Figure {
    id: "learn-one",
    title: "A target at a store that others use: who finds its share",
    figure: "Section 3, one level",
    about: "Three OLTP-A (16 KiB and some 1 MiB at random, half of it reads; 100 and 10 outstanding), each on a \
        volume, on one store with fifteen modelled disks. One is to have a part of what it does alone. \
        Its transactions cost 1.25 times as much from the second phase on; in the third it is idle.",
    axis: "part of alone",
    points: &[0.5],
    quick_points: &[0.5],
    members,
    phases: &[("begin", 0.45), ("step", 0.35), ("idle", 0.08), ("back", 0.12)],
    times: [(300, 3), (80, 1)],
    arms: &[
        Arm::new(FIXED, Way::Fixed),
        Arm::new(RESERVED, Way::Reserved),
        Arm::new(NEED, Way::Controller("need")),
        Arm::new(LOG_PI, Way::Controller("log-pi")),
        Arm::new(INTEGRAL, Way::Controller("integral")),
        Arm::new(AUTOMATON, Way::Controller("automata-store")),
        Arm::new(WINDOWS, Way::Windows),
        Arm::new(EQUAL, Way::Queue("sfq")),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
    ],
    claims: &[
        Claim::new("the target is met within 15 s")
            .paper("300 s")
            .ours("s", |seed| half(seed, NEED, "begin_settled_s"))
            .at_most(15.0),
        Claim::new("after a step of a quarter within 30 s")
            .paper("1,000 s")
            .ours("s", |seed| half(seed, NEED, "step_settled_s"))
            .at_most(30.0),
        Claim::new("it is held: hardly more minutes are short than with the best fixed shares")
            .ours("part of 60 s windows beyond those of fixed shares", |seed| {
                half(seed, NEED, "begin_short_part") - half(seed, FIXED, "begin_short_part")
            })
            .at_most(0.05),
        Claim::new("on the mean it is the target")
            .ours("mean / target", |seed| half(seed, NEED, "begin_of_target"))
            .between(0.98, 1.02),
        Claim::new("best effort has the rest")
            .ours("others / others under the best fixed shares", |seed| left(seed, NEED))
            .at_least(0.95),
        Claim::new("the device does as much as without shares")
            .ours("all I/Os / all without a scheduler", |seed| {
                half(seed, NEED, "begin_all_per_s") / half(seed, UNSCHEDULED, "begin_all_per_s")
            })
            .at_least(0.95),
        Claim::new("and as with equal shares")
            .ours("all I/Os / all with equal shares", |seed| {
                half(seed, NEED, "begin_all_per_s") / half(seed, EQUAL, "begin_all_per_s")
            })
            .at_least(0.95),
        Claim::new("an idle share is lent within a second")
            .ours("s", |seed| half(seed, NEED, "idle_follows_s"))
            .at_most(1.0),
        Claim::new("and given back within a second")
            .ours("s", |seed| half(seed, NEED, "back_follows_s"))
            .at_most(1.0),
    ],
    panels: || {
        let arms = [FIXED, NEED, LOG_PI, INTEGRAL, AUTOMATON, WINDOWS, UNSCHEDULED];
        let over_time = |title: &str, unit: &str, key: &str, arms: &[&'static str]| {
            arms.iter().fold(Panel::time(title, unit), |panel, arm| panel.at(arm, arm, 0.5, key))
        };
        vec![
            over_time("Transactions with the target", "1/s", "a_per_s", &[FIXED, NEED, LOG_PI]),
            over_time("The same, rivals", "1/s", "a_per_s", &arms[3..]),
            over_time("Of the target, %", "%", "a_of_target_percent", &arms[1..5]),
            over_time("Share granted, %", "%", "a_share_percent", &arms[..5]),
            over_time("Share asked for, %", "%", "a_ask_percent", &[NEED]),
            over_time("Of best effort", "1/s", "b_per_s", &arms),
        ]
    },
    columns: &[
        ("settled s", "begin_settled_s"),
        ("held", "begin_held_part"),
        ("mean / target", "begin_of_target"),
        ("sigma 5 s", "begin_sigma_part"),
        ("others/s", "begin_others_per_s"),
        ("all/s", "begin_all_per_s"),
        ("step s", "step_settled_s"),
        ("step held", "step_held_part"),
        ("lent s", "idle_follows_s"),
        ("back s", "back_follows_s"),
    ],
};
