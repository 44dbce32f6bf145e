//! The map of both knobs: every P with every ζ.

use std::path::Path;

use anyhow::Result;
use headworks_workload::tpcc::Mix;

use super::collect;
use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::Site;
use crate::experiment::{Experiment, Outcome, Steps};
use crate::html::{escape, table};
use crate::sweep::analyse::significant;
use crate::sweep::found::Seed;
use crate::sweep::panel::{Best, Panel};
use crate::sweep::record::Record;
use crate::sweep::{self, Presentation};
use crate::table::align;
use headworks_policy::metrics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    bench: &Steps { collect: |options| collect::collect(&MAP, options), report },
    ..MAP.experiment()
};

/// Users; each one's quota is L = ζ / USERS requests a round.
const USERS: usize = 256;
const POINTS: &[f64] = &[4.0, 8.0, 16.0, 32.0, 64.0, 256.0];
const LOAD: Load = Load::of(Users::Fixed(USERS), Mix::STANDARD);
const KEY: &str = "throughput_per_s";
const AS_IS: &str = "MariaDB as it is";

/// Rows of the map: the label of an arm, and its configuration. A permit is kept for a moment
/// (`anticipation_us`) after a transaction if the user has quota left. Otherwise others would get
/// the quota before the client's next request comes, and ζ would change little.
macro_rules! rows {
    ($($label:literal: $zeta:literal),* $(,)?) => {
        const ROWS: &[(&str, &str)] = &[$((
            $label,
            concat!("[gate]\nparallelism = {x}\nquota_requests = ", $zeta, "\nanticipation_us = 500\n"),
        )),*];
    };
}
rows! { "L = 1": 256, "L = 8": 2048, "L = 64": 16384, "L = 512": 131072 }

const fn row(number: usize) -> Arm {
    let (label, config) = ROWS[number];
    Arm { label, server: ServerKind::Gate(config), points: POINTS, load: LOAD, time: None }
}

/// What is drawn and tabulated: title, key, and which end is good.
const MAPS: [(&str, &str, Best); 4] = [
    ("Throughput, transactions/s", KEY, Best::High),
    ("Unfairness U_f over statements", "unfairness", Best::Low),
    ("Variation of a user's latency", "latency_cv", Best::Low),
    ("P99, ms", "latency_p99_ms", Best::Low),
];

/// P with the most throughput in a row.
fn matching_point(seed: &Seed<'_>, row: &str) -> f64 {
    let best = POINTS.iter().map(|&at| (at, seed.get(row, at, KEY)));
    best.fold((f64::NAN, 0.0), |best, each| if each.1 > best.1 { each } else { best }).0
}

const FIRST: &str = ROWS[0].0;
const LAST: &str = ROWS[ROWS.len() - 1].0;

fn rows() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(label, _)| *label)
}

const MAP: Figure = Figure {
    id: "apples-map",
    site: Site::MariaDb,
    title: "Both knobs together: P and the quota of a round",
    figure: "Figure 6",
    about: "256 terminals without pauses, standard mix, all of the same weight: each P with each quota L of requests \
            that a user has in a round (ζ = 256 L). A place is kept for 0.5 ms for a user that has quota left. Beside \
            it MariaDB as it is.",
    sweep: ("parallelism", "P"),
    arms: &[
        row(0),
        row(1),
        row(2),
        row(3),
        Arm {
            label: AS_IS,
            server: ServerKind::Plain(&[]),
            points: &[USERS as f64],
            load: LOAD,
            time: None,
        },
    ],
    time: Time { warm_up_s: 4, window_s: 10, rounds: 3 },
    extend: |_| {},
    claims: &[
        Claim::new("the P that is best for the smallest quota is nearly the best for every other one")
            .paper("matching points lie close together, P = 16 to 20, but for L = 2 (12 to 16) (section 3.3)")
            .ours("throughput there / the best of the same quota, lowest of the quotas", |seed| {
                let p = matching_point(seed, FIRST);
                let part =
                    |row| seed.get(row, p, KEY) / seed.get(row, matching_point(seed, row), KEY);
                rows().map(part).fold(1.0, f64::min)
            })
            .at_least(0.95)
            .note("P in steps of a factor of two or more"),
        Claim::new("beyond the matching point throughput falls, whatever the quota")
            .paper("falls (Figure 6b)")
            .ours(
                "throughput with everybody inside / the best of the same quota, highest of the quotas",
                |seed| {
                    let part = |row| {
                        seed.get(row, USERS as f64, KEY) / seed.get(row, matching_point(seed, row), KEY)
                    };
                    rows().map(part).fold(0.0, f64::max)
                },
            )
            .at_most(0.95),
        Claim::new("a larger quota gives more throughput at the matching point")
            .paper("more buffer hits (section 3.3)")
            .ours("best throughput of the larger quotas / that of the smallest, at its P", |seed| {
                let p = matching_point(seed, FIRST);
                let best = rows().skip(1).map(|row| seed.get(row, p, KEY)).fold(0.0, f64::max);
                best / seed.get(FIRST, p, KEY)
            })
            .at_least(1.0)
            .note("here all data lies in the buffer pool, so there are no hits to be gained"),
        Claim::new("too large a quota is unfair")
            .paper("aggravated (Figure 6c)")
            .ours(
                "U_f with the largest quota / with the smallest, at the P that is best for that",
                |seed| {
                    let p = matching_point(seed, FIRST);
                    seed.get(LAST, p, "unfairness") / seed.get(FIRST, p, "unfairness")
                },
            )
            .at_least(1.0),
    ],
    panels: || {
        let heat = |(title, key, best): (&str, &str, Best)| {
            rows().fold(Panel::heat(title, best), |panel, row| panel.line(row, row, key))
        };
        MAPS.into_iter().map(heat).collect()
    },
};

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, MAP.id)?;
    let tables: Vec<_> = MAPS.iter().map(|(title, key, _)| (*title, cells(&record, key))).collect();
    let shown = super::presentation(&MAP, &record);
    let show = Presentation {
        caption: format!("{}; framed: the best", shown.caption),
        appendix: tables.iter().map(|(title, cells)| html(title, cells)).collect(),
        ..shown
    };
    let mut outcome = sweep::report(&show, record, directory, fresh)?;
    for (title, cells) in &tables {
        outcome.text += &format!("\n  {title}\n{}", align(cells));
    }
    Ok(outcome)
}

/// A column for the quota, one for each P.
const COLUMNS: usize = POINTS.len() + 1;

/// Medians of the rounds, with a head; the last line is MariaDB as it is.
fn cells(record: &Record, key: &str) -> Vec<[String; COLUMNS]> {
    let value = |arm: &str, at: f64| {
        let arm = record.arms.iter().find(|each| each.arm == arm)?;
        let point = arm.points.iter().find(|point| point.at == at)?;
        let values: Vec<f64> =
            point.runs.iter().filter_map(|run| run.numbers.get(key).copied()).collect();
        median(&values)
    };
    let line = |arm: &str| -> [String; COLUMNS] {
        std::array::from_fn(|column| match column.checked_sub(1) {
            None => arm.to_owned(),
            Some(at) => value(arm, POINTS[at]).map_or("–".to_owned(), significant),
        })
    };
    let head = std::array::from_fn(|column| match column.checked_sub(1) {
        None => "quota".to_owned(),
        Some(at) => format!("P = {}", POINTS[at]),
    });
    std::iter::once(head).chain(rows().map(line)).chain([line(AS_IS)]).collect()
}

fn html(title: &str, cells: &[[String; COLUMNS]]) -> String {
    let head: Vec<&str> = cells[0].iter().map(String::as_str).collect();
    let rows: Vec<_> = cells[1..]
        .iter()
        .map(|line| (String::new(), line.iter().map(|cell| escape(cell)).collect()))
        .collect();
    format!("<h2>{}</h2>\n{}", escape(title), table(&head, &rows, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotas_are_what_the_labels_say() {
        for (label, config) in ROWS {
            let each: usize = label.trim_start_matches("L = ").parse().unwrap();
            let zeta = format!("quota_requests = {}\n", each * USERS);
            assert!(config.contains(&zeta), "{label}: {config}");
        }
    }
}
