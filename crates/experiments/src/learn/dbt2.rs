//! Figures 2 and 8: transactions as of DBT-2 beside OLTP-A.

use super::figure::{Arm, Figure};
use super::load::Kind;
use super::one::{FIXED, INTEGRAL, LOG_PI, NEED, OLTP_A, UNSCHEDULED, WINDOWS};
use super::scene::{Member, Wants, Way};
use super::three::{SINGLE, TOKEN, UNCOORDINATED};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};

const ALONE: &str = "alone";
const CFQ: &str = "cfq";
const DEADLINE: &str = "deadline";

/// DBT-2's clients that are active, and the accesses of a transaction.
pub(super) const DBT2: Kind = Kind::Transactions { threads: 64, accesses: 32.0 };

/// The paper's target.
const PAPER: f64 = 0.8;

fn two(part: f64) -> Vec<Member> {
    vec![
        Member::new("dbt2", 0, DBT2, Wants::PartOfAlone(part)),
        // On another host: a queue of the host would decide before the one that is measured.
        Member::new("oltp", 1, OLTP_A, Wants::Rest),
    ]
}

/// What DBT-2 does of what it does alone.
fn of_alone(seed: &Seed<'_>, arm: &str) -> f64 {
    let get =
        |arm: &str| seed.get(arm, PAPER, "run_of_target") * seed.get(arm, PAPER, "target_per_s");
    get(arm) / get(ALONE)
}

pub(super) const FIG_2: Figure = Figure {
    id: "learn-interference",
    title: "Transactions beside a load that has a hundred accesses outstanding",
    figure: "Figure 2",
    about: "A load as DBT-2's (64 threads, 32 accesses of 16 KiB one after the other, a millisecond between them) and \
        OLTP-A, each on a volume, on the same fifteen modelled disks. CFQ and deadline are those of our queue before \
        the disks, not Linux's. Ours has the target of 0.8 of alone.",
    axis: "part of alone",
    points: &[PAPER],
    quick_points: &[PAPER],
    members: two,
    phases: &[("run", 1.0)],
    times: [(180, 3), (60, 1)],
    arms: &[
        Arm::new(ALONE, Way::Alone),
        Arm::new(CFQ, Way::Queue("cfq")),
        Arm::new(DEADLINE, Way::Queue("deadline")),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
        Arm::new(FIXED, Way::Fixed),
        Arm::new(NEED, Way::Controller("need")),
    ],
    claims: &[
        Claim::new("under CFQ little is left")
            .paper("13 %")
            .ours("of alone", |seed| of_alone(seed, CFQ))
            .at_most(0.5),
        Claim::new("under deadline less than half")
            .paper("2.3 %")
            .ours("of alone", |seed| of_alone(seed, DEADLINE))
            .at_most(0.5),
        Claim::new("with a target it has its 0.8")
            .paper("the target (Figure 8)")
            .ours("of alone", |seed| of_alone(seed, NEED))
            .between(0.78, 0.82),
        Claim::new("best effort has the rest")
            .ours("others / others under the best fixed shares", |seed| {
                let others = |arm| seed.get(arm, PAPER, "run_others_per_s");
                others(NEED) / others(FIXED)
            })
            .at_least(0.95),
    ],
    panels: || {
        let arms = [ALONE, CFQ, DEADLINE, UNSCHEDULED, FIXED, NEED];
        let over_time = |title: &str, key: &str| {
            arms.iter().fold(Panel::time(title, "1/s"), |panel, arm| panel.at(arm, arm, PAPER, key))
        };
        vec![over_time("DBT-2", "dbt2_per_s"), over_time("OLTP-A", "oltp_per_s")]
    },
    columns: &[
        ("mean / target", "run_of_target"),
        ("held", "run_held_part"),
        ("sigma 5 s", "run_sigma_part"),
        ("others/s", "run_others_per_s"),
        ("alone/s", "alone_per_s"),
    ],
};

fn four(part: f64) -> Vec<Member> {
    vec![
        // At first as many of its clients are there as in DBT-2's warm-up.
        Member::new("dbt2", 0, DBT2, Wants::PartOfAlone(part)).there(&[0.5, 1.0]),
        Member::new("a1", 0, OLTP_A, Wants::Rest),
        Member::new("b0", 1, OLTP_A, Wants::Rest),
        Member::new("b1", 1, OLTP_A, Wants::Rest),
    ]
}

fn paper(seed: &Seed<'_>, arm: &str, key: &str) -> f64 {
    seed.get(arm, PAPER, key)
}

pub(super) const FIG_8: Figure = Figure {
    id: "learn-dbt2",
    title: "Transactions with a target beside three loads of best effort",
    figure: "Figure 8",
    about: "A load as DBT-2's and OLTP-A on one host, two OLTP-A on another. DBT-2 is to have 0.8 of what it does \
        alone. In the first phase, as in its warm-up, half of its clients are there.",
    axis: "part of alone",
    points: &[PAPER, 0.6],
    quick_points: &[PAPER],
    members: four,
    phases: &[("warmup", 0.3), ("run", 0.7)],
    times: [(600, 3), (75, 1)],
    arms: &[
        Arm::new(FIXED, Way::Fixed),
        Arm::new(NEED, Way::Controller("need")),
        Arm::new(LOG_PI, Way::Controller("log-pi")),
        Arm::new(INTEGRAL, Way::Controller("integral")),
        Arm::new(SINGLE, Way::Controller("automata-store")),
        Arm::new(UNCOORDINATED, Way::Controller("automata-uncoordinated")),
        Arm::new(TOKEN, Way::Controller("automata")),
        Arm::new(WINDOWS, Way::Windows),
        Arm::new(UNSCHEDULED, Way::Queue("noop")),
    ],
    claims: &[
        Claim::new("the target is met within 20 s of the warm-up's end")
            .paper("1,000 s with one learner, 2,000 s with three")
            .ours("s", |seed| paper(seed, NEED, "run_settled_s"))
            .at_most(20.0),
        Claim::new("it is held: hardly more minutes are short than with the best fixed shares")
            .ours("part of 60 s windows beyond those of fixed shares", |seed| {
                paper(seed, NEED, "run_short_part") - paper(seed, FIXED, "run_short_part")
            })
            .at_most(0.05),
        Claim::new("on the mean it is the target")
            .ours("mean / target", |seed| paper(seed, NEED, "run_of_target"))
            .between(0.98, 1.02),
        Claim::new("best effort has the rest")
            .ours("others / others under the best fixed shares", |seed| {
                paper(seed, NEED, "run_others_per_s") / paper(seed, FIXED, "run_others_per_s")
            })
            .at_least(0.95),
        Claim::new("automata at once hold less than a quarter of the windows")
            .paper("never converge")
            .ours("part of 30 s windows held", |seed| paper(seed, UNCOORDINATED, "run_held_part"))
            .at_most(0.25),
    ],
    panels: || {
        let arms = [FIXED, NEED, LOG_PI, INTEGRAL];
        let rivals = [SINGLE, UNCOORDINATED, TOKEN, WINDOWS, UNSCHEDULED];
        let over_time = |title: &str, unit: &str, key: &str, arms: &[&'static str]| {
            arms.iter().fold(Panel::time(title, unit), |panel, arm| panel.at(arm, arm, PAPER, key))
        };
        vec![
            over_time("DBT-2", "transactions/s", "dbt2_per_s", &arms),
            over_time(
                "DBT-2, the paper's automata and others",
                "transactions/s",
                "dbt2_per_s",
                &rivals,
            ),
            over_time(
                "Of the target",
                "%",
                "dbt2_of_target_percent",
                &[NEED, LOG_PI, INTEGRAL, TOKEN],
            ),
            over_time(
                "Share granted",
                "%",
                "dbt2_share_percent",
                &[FIXED, NEED, LOG_PI, INTEGRAL, TOKEN],
            ),
            over_time("Share asked for", "%", "dbt2_ask_percent", &[NEED]),
            over_time("OLTP-A beside it", "I/Os a second", "b0_per_s", &arms),
        ]
    },
    columns: &[
        ("settled s", "run_settled_s"),
        ("held", "run_held_part"),
        ("short 60 s", "run_short_part"),
        ("mean / target", "run_of_target"),
        ("worst 10 s", "run_worst_of_target"),
        ("sigma 5 s", "run_sigma_part"),
        ("others/s", "run_others_per_s"),
        ("all/s", "run_all_per_s"),
    ],
};
