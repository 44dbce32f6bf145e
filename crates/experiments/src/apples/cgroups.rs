//! The gate beside the kernel's own means: control groups with CPU weights.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::Site;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

const AS_IS: &str = "MariaDB as it is";
const GROUPS: &str = "control groups";
const GATE: &str = "behind the gate";
const BOTH: &str = "gate and control groups";
const ALL: [&str; 4] = [AS_IS, GROUPS, GATE, BOTH];
const POINTS: &[f64] = &[64.0, 256.0, 512.0];
const LOAD: Load = Load::of(Users::Point, Mix::STANDARD);
const KEY: &str = "throughput_per_s";

/// The same with weights: 64 of 256 users have three times the weight of the others.
const GROUPS_3: &str = "control groups, weights 3 to 1";
const GATE_3: &str = "gate, weights 3 to 1";
const BOTH_3: &str = "both, weights 3 to 1";
const WEIGHTED: [&str; 3] = [GROUPS_3, GATE_3, BOTH_3];
const SENSITIVE: usize = 64;
const OTHERS: f64 = 192.0;

macro_rules! config {
    ($gate:literal) => {
        concat!("[gate]\n", $gate)
    };
    ($gate:literal, weighted) => {
        concat!(
            "[gate]\n",
            $gate,
            "[[class]]\nname = \"heavy\"\nweight = 3.0\n[[rule]]\naccount = \"ls\"\nclass = \"heavy\"\n"
        )
    };
}

const fn arm(label: &'static str, config: &'static str) -> Arm {
    Arm { label, server: ServerKind::Gate(config), points: POINTS, load: LOAD, time: None }
}

const fn weighted(label: &'static str, config: &'static str) -> Arm {
    let load = Load { sensitive: SENSITIVE, ..Load::of(Users::PointAndSensitive, Mix::STANDARD) };
    Arm { label, server: ServerKind::Gate(config), points: &[OTHERS], load, time: None }
}

/// The largest of ratios at all numbers of users.
fn most(ratio: impl Fn(f64) -> f64) -> f64 {
    POINTS.iter().map(|&at| ratio(at)).fold(0.0, f64::max)
}

/// What a user of the heavy ones was served, relative to one of the others.
fn share(seed: &Seed<'_>, arm: &str) -> f64 {
    let each = |key, users| seed.get(arm, OTHERS, key) / users;
    each("ls_per_s", SENSITIVE as f64) / each("be_per_s", OTHERS)
}

pub(super) const CGROUPS: Figure = Figure {
    id: "apples-cgroups",
    site: Site::MariaDb,
    title: "The gate and control groups with CPU weights, alone and together",
    figure: "Figures 12 and 14",
    about: "Terminals without pauses, standard mix: MariaDB as it is, its threads in control groups whose CPU weights \
            follow the classes' (no request is held), behind the gate with P = 8 x cores, and both. Then 64 users with \
            three times the weight of 192 others.",
    sweep: ("users", "users"),
    arms: &[
        Arm {
            label: AS_IS,
            server: ServerKind::Plain(&[]),
            points: POINTS,
            load: LOAD,
            time: None,
        },
        arm(GROUPS, config!("mode = \"dry-run\"\ncpu_weights = true\n")),
        arm(GATE, config!("parallelism = 16\n")),
        arm(BOTH, config!("parallelism = 16\ncpu_weights = true\n")),
        weighted(GROUPS_3, config!("mode = \"dry-run\"\ncpu_weights = true\n", weighted)),
        weighted(GATE_3, config!("parallelism = 16\n", weighted)),
        weighted(BOTH_3, config!("parallelism = 16\ncpu_weights = true\n", weighted)),
    ],
    time: Time { warm_up_s: 5, window_s: 20, rounds: 3 },
    extend: |_| {},
    claims: &[
        Claim::new("the gate has more throughput than MariaDB as it is")
            .paper("up to +39.2 % (Figure 12)")
            .ours("highest ratio of throughput of 64, 256 and 512 users", |seed| {
                most(|at| seed.get(GATE, at, KEY) / seed.get(AS_IS, at, KEY))
            })
            .at_least(1.10),
        Claim::new("the gate is much fairer")
            .paper("up to 31.8 x (Figure 12)")
            .ours("highest ratio of U_f over statements", |seed| {
                most(|at| seed.get(AS_IS, at, "unfairness") / seed.get(GATE, at, "unfairness"))
            })
            .at_least(10.0),
        Claim::new("control groups alone do not make up for a gate")
            .paper("slightly fairer than the baseline in some cases (section 5.1)")
            .ours("U_f with control groups alone / behind the gate, 256 users", |seed| {
                seed.get(GROUPS, 256.0, "unfairness") / seed.get(GATE, 256.0, "unfairness")
            })
            .at_least(2.0),
        Claim::new("beside a gate they do no harm")
            .paper("together up to +45.6 % and 34.5 x (MySQL), +28.6 % and 101.5 x (MongoDB)")
            .ours(
                "throughput of both / of the gate alone, highest of 64, 256 and 512 users",
                |seed| most(|at| seed.get(BOTH, at, KEY) / seed.get(GATE, at, KEY)),
            )
            .at_least(0.98),
        Claim::new("with the gate, users are served by their weights")
            .paper("L_i in proportion to the weight (section 3.3)")
            .ours("transactions of a user of weight 3 / of one of weight 1", |seed| {
                share(seed, GATE_3)
            })
            .between(2.7, 3.3),
        Claim::new("with control groups alone, heavier users are served more")
            .paper("CPU only (section 3.2)")
            .ours("transactions of a user of weight 3 / of one of weight 1", |seed| {
                share(seed, GROUPS_3)
            })
            .at_least(1.2)
            .note("processor time is weighted, waits for locks and disks are not"),
    ],
    panels: || {
        let panel = |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines(ALL, key);
        let per_class = WEIGHTED.into_iter().fold(
            Panel::bars("64 users of weight 3 beside 192 of weight 1", "transactions/s"),
            |panel, arm| {
                let category = arm.trim_end_matches(", weights 3 to 1");
                panel
                    .bar(category, "the 64", arm, OTHERS, "ls_per_s")
                    .bar(category, "the 192", arm, OTHERS, "be_per_s")
            },
        );
        vec![
            panel("Throughput", "transactions/s", KEY),
            panel("Unfairness U_f over statements", "", "unfairness"),
            panel("Variation of a user's latency", "", "latency_cv"),
            per_class,
        ]
    },
};
