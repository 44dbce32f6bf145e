//! A workload that changes: P has to be found again.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::Site;
use crate::sweep::panel::Panel;

const FIXED: &str = "P fixed, writing";
const AUTO: &str = "P finds itself, reading and then writing";
const KEY: &str = "throughput_per_s";
const USERS: Users = Users::Fixed(256);

pub(super) const SHIFT: Figure = Figure {
    id: "apples-shift",
    site: Site::MariaDb,
    title: "A load that turns from reading to writing: P is found again",
    figure: "section 4.3",
    about: "256 terminals that mostly read for 70 s, and only write for 80 s more, behind a gate whose P finds itself; then \
            fixed P on the same server, each for 5 s in turn, three times.",
    sweep: ("parallelism", "P"),
    arms: &[
        Arm {
            label: FIXED,
            server: ServerKind::Tried,
            points: &[4.0, 8.0, 12.0, 16.0, 32.0, 64.0],
            load: Load::of(USERS, Mix::WRITE_HEAVY),
            time: None,
        },
        Arm {
            label: AUTO,
            server: ServerKind::Gate("[gate]\nparallelism = \"auto\"\n"),
            points: &[0.0],
            load: Load { then: Some(Mix::WRITE_HEAVY), ..Load::of(USERS, Mix::READ_MOSTLY) },
            time: Some((70, 80)),
        },
    ],
    time: Time { warm_up_s: 4, window_s: 12, rounds: 3 },
    extend: |_| {},
    claims: &[
        Claim::new(
            "a minute after the change throughput is again as good as with the best fixed P",
        )
        .paper("not said; its P is found once")
        .ours("throughput of the last 20 s / that of the best fixed P", |seed| {
            seed.between(AUTO, 0.0, "answered_per_s", 130, 150) / seed.best(FIXED, KEY)
        })
        .at_least(0.95),
        Claim::new("no second after the change is slower than half of the best")
            .paper("not said")
            .ours("slowest second / throughput of the best fixed P", |seed| {
                seed.get(AUTO, 0.0, "least_second_per_s") / seed.best(FIXED, KEY)
            })
            .at_least(0.5),
    ],
    panels: || {
        vec![
            Panel::time("Throughput", "transactions/s").at(AUTO, AUTO, 0.0, "answered_per_s"),
            Panel::sweep("Fixed P: throughput of the writers", "transactions/s")
                .line(FIXED, FIXED, KEY),
        ]
    },
};
