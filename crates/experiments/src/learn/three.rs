//! Figures 4 to 7: four OLTP-A on two hosts, a learner at each host and one at the store.

use super::figure::{Arm, Figure};
use super::one::{
    EQUAL as EQUAL_SHARES, FIXED, INTEGRAL, LOG_PI, NEED, OLTP_A, UNSCHEDULED, WINDOWS,
};
use super::scene::{Member, Wants, Way};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};

pub(super) const SINGLE: &str = "automaton at the store";
const OVER_TCP: &str = "need and lag, over TCP";
pub(super) const UNCOORDINATED: &str = "automata at once";
pub(super) const TOKEN: &str = "automata, token";

/// The axis: equal shares, as in the paper; or others, which its five actions cannot give.
const EQUAL: f64 = 0.0;
const OTHERS: f64 = 1.0;

fn members(at: f64) -> Vec<Member> {
    let shares = if at == EQUAL { [0.25; 4] } else { [0.38, 0.12, 0.28, 0.22] };
    let member = |(number, name): (usize, &'static str)| {
        Member::new(name, number / 2, OLTP_A, Wants::AsWithShare(shares[number]))
    };
    ["a0", "a1", "b0", "b1"].into_iter().enumerate().map(member).collect()
}

fn more(seed: &Seed<'_>, arm: &str, at: f64) -> f64 {
    seed.get(arm, at, "run_all_per_s") / seed.get(UNSCHEDULED, at, "run_all_per_s")
}

pub(super) const FIGURE: Figure = Figure {
    id: "learn-three",
    title: "Four targets on two hosts and a store: learners at three places",
    figure: "Figures 4 to 7",
    about: "Four OLTP-A on two hosts; a host is a volume of the store with a queue. Each is to have what it \
        does with fixed shares. 0: with a quarter each, as in the paper; 1: with 0.38, 0.12, 0.28 and 0.22. All of \
        the store is promised. The learners of all three places run at the store; hosts hear their fractions with \
        the grants.",
    axis: "shares",
    points: &[EQUAL, OTHERS],
    quick_points: &[OTHERS],
    members,
    phases: &[("run", 1.0)],
    times: [(600, 3), (70, 1)],
    arms: &[
        Arm::new(FIXED, Way::Fixed),
        Arm::new(NEED, Way::Controller("need")),
        Arm::new(OVER_TCP, Way::OverTcp("need")).full_only(),
        Arm::new(LOG_PI, Way::Controller("log-pi")),
        Arm::new(INTEGRAL, Way::Controller("integral")),
        Arm::new(SINGLE, Way::Controller("automata-store")),
        Arm::new(UNCOORDINATED, Way::Controller("automata-uncoordinated")),
        Arm::new(TOKEN, Way::Controller("automata")),
        Arm::new(WINDOWS, Way::Windows),
        Arm::new(EQUAL_SHARES, Way::Queue("sfq")).full_only(),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
    ],
    claims: &[
        Claim::new("all four are met within 20 s")
            .paper("2,000 s")
            .ours("s, other shares", |seed| seed.get(NEED, OTHERS, "run_settled_s"))
            .at_most(20.0),
        Claim::new("with equal shares, too")
            .paper("2,000 s")
            .ours("s, equal shares", |seed| seed.get(NEED, EQUAL, "run_settled_s"))
            .at_most(20.0)
            .note("a store begins with equal shares"),
        Claim::new("held: hardly more minutes are short than with the best fixed shares")
            .paper("slight variations")
            .ours("part of 60 s windows beyond those of fixed shares", |seed| {
                seed.get(NEED, OTHERS, "run_short_part") - seed.get(FIXED, OTHERS, "run_short_part")
            })
            .at_most(0.05),
        Claim::new("on the mean, the least of the four is its target")
            .ours("mean / target", |seed| seed.get(NEED, OTHERS, "run_least_of_target"))
            .between(0.98, 1.02),
        Claim::new("the device does as much as without shares")
            .ours("all I/Os / all without a scheduler", |seed| more(seed, NEED, OTHERS))
            .at_least(0.95),
        Claim::new("automata at once hold less than a quarter of the windows")
            .paper("never converge")
            .ours("part of 30 s windows held, equal shares", |seed| {
                seed.get(UNCOORDINATED, EQUAL, "run_held_part")
            })
            .at_most(0.25),
    ],
    panels: || {
        let arms = [FIXED, NEED, LOG_PI, INTEGRAL, SINGLE, UNCOORDINATED, TOKEN];
        let four = ["a0", "a1", "b0", "b1"];
        let of = |arm: &'static str, at: f64, what: &str, unit: &str| {
            let title = format!("{arm}{}", if at == EQUAL { "" } else { ", other shares" });
            four.iter().fold(Panel::time(&title, unit), |panel, name| {
                panel.at(name, arm, at, &format!("{name}_{what}"))
            })
        };
        let mut panels: Vec<Panel> =
            arms.iter().map(|arm| of(arm, OTHERS, "per_s", "transactions/s")).collect();
        panels
            .extend([NEED, LOG_PI].map(|arm| of(arm, OTHERS, "share_percent", "share granted, %")));
        panels.push(of(NEED, OTHERS, "ask_percent", "share asked for, %"));
        panels.extend(arms[4..].iter().map(|arm| of(arm, EQUAL, "per_s", "transactions/s")));
        panels
    },
    columns: &[
        ("settled s", "run_settled_s"),
        ("held", "run_held_part"),
        ("short 60 s", "run_short_part"),
        ("mean / target", "run_of_target"),
        ("least", "run_least_of_target"),
        ("worst 10 s", "run_worst_of_target"),
        ("sigma 5 s", "run_sigma_part"),
        ("all/s", "run_all_per_s"),
    ],
};
