//! The common part of figures that compare latencies of a database's requests: under `rcp`, under
//! the kernel's schedulers, and under one that is like CFQ.

use super::figure::{Arm, shorter};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};

pub(super) const NOTHING: &str = "mq-deadline";
pub(super) const BFQ: &str = "bfq";
pub(super) const CFQ: &str = "cfq";
pub(super) const RCP: &str = "rcp";

pub(super) const ARMS: &[Arm] = &[
    Arm::new(NOTHING, "hdd", "mq-deadline"),
    Arm::new(BFQ, "hdd", "bfq").full_only(),
    Arm::new(CFQ, "hdd", "none").volume("cfq"),
    Arm::new(RCP, "hdd", "mq-deadline").io("rcp"),
];

/// The point of an axis that has one.
pub(super) const THIS: f64 = 0.0;

/// How many times shorter a latency is than under the best rival.
pub(super) fn better(seed: &Seed<'_>, at: f64, key: &str) -> f64 {
    shorter(seed, &[NOTHING, BFQ, CFQ], RCP, at, key)
}

/// The longest request is shorter.
pub(super) const TAIL: Claim = Claim::new("the tail is shorter")
    .ours("longest of the best rival / longest", |seed| better(seed, THIS, "max_ms"))
    .at_least(5.0);

/// All that is offered is done.
pub(super) const NOTHING_LOST: Claim = Claim::new("nothing is lost")
    .paper("not given")
    .ours("requests/s / those under mq-deadline", |seed| {
        seed.get(RCP, THIS, "per_s") / seed.get(NOTHING, THIS, "per_s")
    })
    .at_least(0.99);

/// The background does its work.
pub(super) const AS_MANY_CHECKPOINTS: Claim = Claim::new("as many checkpoints")
    .paper("not given")
    .ours("checkpoints / those under mq-deadline", |seed| {
        seed.get(RCP, THIS, "checkpoints") / seed.get(NOTHING, THIS, "checkpoints")
    })
    .at_least(0.99);

/// Pictures of the latencies that `Plan::requests` returns.
pub(super) fn panels() -> Vec<Panel> {
    let of = |title, key| Panel::sweep(title, "ms").lines([NOTHING, BFQ, CFQ, RCP], key).tenfold();
    vec![of("Median", "p50_ms"), of("P99.9", "p999_ms"), of("Longest", "max_ms")]
}
