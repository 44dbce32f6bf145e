//! With and without the gate, above the kernel's I/O schedulers.

mod collect;
mod volume;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, Steps};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::{self, Claim, Presentation};

const ID: &str = "apples-schedulers";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "With and without the gate, above each of the kernel's I/O schedulers",
    paper: "AppleS",
    figure: "Figures 11 and 16",
    expected_s: LOAD_S.0 + round_s(WARM_UP_S + WINDOW_S) * ROUNDS as u64,
    expected_quick_s: LOAD_S.1 + round_s(QUICK_S.0 + QUICK_S.1),
    needs: &["mariadb-server-core", "e2fsprogs", "root", "loop devices", "10 GB of disk"],
    bench: &Steps { collect: collect::collect, report },
};

const WARM_UP_S: u64 = 20;
const WINDOW_S: u64 = 60;
const ROUNDS: usize = 3;
/// Warm-up and window of a quick run.
const QUICK_S: (u64, u64) = (2, 4);
/// Seconds to start, connect and stop.
const AROUND_S: u64 = 12;
/// Seconds to make the volume and the data, in a full and in a quick run.
const LOAD_S: (u64, u64) = (300, 30);

/// The length of a round whose runs take `run_s` each.
const fn round_s(run_s: u64) -> u64 {
    2 * PAIRS.len() as u64 * (run_s + AROUND_S)
}

const USERS: usize = 256;

/// A scheduler with the arms without and with the gate.
#[derive(Debug, Clone, Copy)]
struct Pair {
    scheduler: &'static str,
    plain: &'static str,
    gated: &'static str,
}

const PAIRS: [Pair; 4] = [
    Pair { scheduler: "none", plain: "none, as it is", gated: "none, gate" },
    Pair { scheduler: "mq-deadline", plain: "mq-deadline, as it is", gated: "mq-deadline, gate" },
    Pair { scheduler: "kyber", plain: "kyber, as it is", gated: "kyber, gate" },
    Pair { scheduler: "bfq", plain: "bfq, as it is", gated: "bfq, gate" },
];

/// It has the bound of unfairness of the paper's comparison.
const GATE: &str = "[gate]\nparallelism = 16\nunfairness_max = 0.1\n";

/// The one point of every arm.
const AT: f64 = USERS as f64;
const KEY: &str = "throughput_per_s";

/// The minimum or maximum over the kernel's schedulers; NaN without schedulers.
fn over(seed: &Seed<'_>, value: fn(&Seed<'_>, &Pair) -> f64, pick: fn(f64, f64) -> f64) -> f64 {
    let values = PAIRS.iter().map(|pair| value(seed, pair));
    values.filter(|value| value.is_finite()).reduce(pick).unwrap_or(f64::NAN)
}

const CLAIMS: &[Claim] = &[
    Claim::new("the gate costs no throughput under any scheduler")
        .paper("more for all seven, up to +17.3 % (Figure 11); at most 2.5 % less (Figure 16)")
        .ours("throughput / that without the gate, lowest of the schedulers", |seed| {
            over(
                seed,
                |seed, pair| seed.get(pair.gated, AT, KEY) / seed.get(pair.plain, AT, KEY),
                f64::min,
            )
        })
        .at_least(0.975),
    Claim::new("under some scheduler there is clearly more")
        .paper("+17.3 % with mq-deadline (Figure 11)")
        .ours("throughput / that without the gate, highest of the schedulers", |seed| {
            over(
                seed,
                |seed, pair| seed.get(pair.gated, AT, KEY) / seed.get(pair.plain, AT, KEY),
                f64::max,
            )
        })
        .at_least(1.10),
    Claim::new("service is much fairer under every scheduler")
        .paper("4.6 x to 7.3 x (Figure 11), 4.6 x to 39.6 x (Figure 16)")
        .ours("U_f over statements without the gate / with it, lowest of the schedulers", |seed| {
            let ratio = |seed: &Seed<'_>, pair: &Pair| {
                seed.get(pair.plain, AT, "unfairness") / seed.get(pair.gated, AT, "unfairness")
            };
            over(seed, ratio, f64::min)
        })
        .at_least(4.6),
    Claim::new("unfairness stays near its bound of 10 %")
        .paper("11.7 % at most (Figure 11)")
        .ours("U_f over statements, highest of the schedulers", |seed| {
            over(seed, |seed, pair| seed.get(pair.gated, AT, "unfairness"), f64::max)
        })
        .at_most(0.117),
];

fn panels() -> Vec<Panel> {
    let panel = |title: &str, unit: &str, key: &str| {
        PAIRS.iter().fold(Panel::bars(title, unit), |panel, pair| {
            panel.bar(pair.scheduler, "MariaDB as it is", pair.plain, AT, key).bar(
                pair.scheduler,
                "behind the gate",
                pair.gated,
                AT,
                key,
            )
        })
    };
    vec![
        panel("Throughput", "transactions/s", KEY),
        panel("Unfairness U_f over statements", "", "unfairness"),
        panel("P99", "ms", "latency_p99_ms"),
        panel("Variation of a user's latency", "", "latency_cv"),
    ]
}

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let skipped: Vec<String> =
        record.arms.iter().filter_map(|arm| arm.setup.get("skipped").cloned()).collect();
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "256 terminals of TPC-C without pauses, standard mix, on a MariaDB whose data is several times its \
                buffer pool and lies on a volume that behaves like an SSD (SSD-C of LRU-C, Table 1); under each I/O \
                scheduler of the kernel, with its queue cut to 32 requests so that it has something to choose from.",
        sweep_label: "users",
        caption: format!("TPC-C on MariaDB, 256 users, windows of {} s", record.counted_s),
        quick: "little data, short windows and one round; it measures nothing well",
        appendix: skipped
            .iter()
            .map(|why| format!("<p>{}</p>\n", crate::html::escape(why)))
            .collect(),
        claims: CLAIMS,
        panels: panels(),
        ..Presentation::default()
    };
    let mut outcome = sweep::report(&show, record, directory, fresh)?;
    for why in skipped {
        outcome.text += &format!("  {why}\n");
    }
    Ok(outcome)
}
