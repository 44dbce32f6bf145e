//! A load at several numbers of clients: measured at each, recorded at one, and simulated from that
//! recording at all.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::expected::Expected;
use super::recorded::{Judged, Recorded};
use super::{CLIENTS, RECORDED};
use crate::experiment::Outcome;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::{self, Claim, Presentation, Seed};

/// Where an arm's setup has what was found.
const FOUND: &str = "found";

/// Runs of one arm: requests a second by clients, and the recording at [`RECORDED`].
pub(super) fn runs(
    measured: &BTreeMap<u32, f64>,
    recorded: Option<(&Recorded, Judged)>,
) -> Vec<(f64, Run)> {
    let mut runs = Vec::new();
    for (&clients, &per_s) in measured {
        let mut numbers = BTreeMap::from([("measured_per_s".to_owned(), per_s)]);
        if let Some((recorded, judged)) = &recorded {
            if let Some(simulated) = recorded.drawn.simulated(clients) {
                numbers.insert("simulated_per_s".to_owned(), simulated);
                let off = (simulated / per_s - 1.0) * 100.0;
                numbers.insert("off_percent".to_owned(), off);
            }
            if f64::from(clients) == RECORDED {
                numbers.extend(recorded.costs());
                numbers.extend(judged.numbers.clone());
                numbers.extend(recorded.per_s().map(|per_s| ("recorded_per_s".to_owned(), per_s)));
            }
        }
        runs.push((f64::from(clients), Run { numbers, bucket_s: 1.0, ..Run::default() }));
    }
    runs
}

/// Puts what was found into the record, for its readers.
pub(super) fn tell(record: &mut Record, found: &BTreeMap<&str, String>) {
    for arm in &mut record.arms {
        if let Some(text) = found.get(arm.arm.as_str()) {
            arm.setup.insert(FOUND.to_owned(), text.clone());
        }
    }
}

/// The part of what is expected that was found, in the worst of these arms.
pub(super) fn found(seed: &Seed<'_>, arms: &[&'static str], what: &str) -> f64 {
    let one = |arm: &&'static str| {
        seed.get(arm, RECORDED, &format!("{what}_found"))
            / seed.get(arm, RECORDED, &format!("{what}_expected"))
    };
    arms.iter().map(one).fold(f64::INFINITY, smallest)
}

fn smallest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// How far the simulation is off, in percent, at the worst point of these arms.
pub(super) fn off(seed: &Seed<'_>, arms: &[&'static str]) -> f64 {
    let each = arms.iter().flat_map(|arm| CLIENTS.map(|at| seed.get(arm, at, "off_percent")));
    each.map(f64::abs).fold(0.0, crate::sweep::found::largest)
}

/// What the recorder took, in percent of the processors, in the worst of these arms.
pub(super) fn cost(seed: &Seed<'_>, arms: &[&'static str]) -> f64 {
    let each = arms.iter().map(|arm| seed.get(arm, RECORDED, "kernel_percent"));
    each.fold(0.0, crate::sweep::found::largest)
}

pub(super) const fn all_found(statement: &'static str, ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new(statement)
        .ours("part of what is expected, in the worst load", ours)
        .at_least(1.0)
        .note("each is listed below")
}

pub(super) const fn simulates(ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new("the recorded diagram simulates what was measured")
        .ours("percent off at the worst point", ours)
        .at_most(15.0)
        .note("recorded with 8 clients, simulated with 1, 8 and 32")
}

pub(super) const fn costs(ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new("the kernel's side keeps its budget")
        .ours("percent of the processors, in the worst load", ours)
        .at_most(1.0)
}

/// What a family's page says.
pub(super) struct Page<'a> {
    pub(super) id: &'static str,
    pub(super) about: &'a str,
    pub(super) arms: &'a [&'static str],
    pub(super) claims: &'a [Claim],
    /// What is expected of each system, and its name.
    pub(super) expected: &'a [(&'a str, &'a Expected)],
}

/// Judges and draws.
pub(super) fn report(page: &Page<'_>, directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, page.id)?;
    let text = text(page, &record);
    let lines = |title: &str, unit: &str, keys: [(&str, &str); 2]| {
        page.arms.iter().fold(Panel::sweep(title, unit).logarithmic(), |panel, arm| {
            let panel = panel.line(&format!("{arm}, {}", keys[0].0), arm, keys[0].1);
            panel.line(&format!("{arm}, {}", keys[1].0), arm, keys[1].1).dashed()
        })
    };
    let keys = [("measured", "measured_per_s"), ("simulated", "simulated_per_s")];
    let show = Presentation {
        id: page.id,
        figure: "section 3.2",
        about: page.about,
        sweep_label: "clients",
        caption: format!("windows of {} s, recorded at {RECORDED} clients", record.counted_s),
        columns: &[
            ("measured/s", "measured_per_s"),
            ("recorded/s", "recorded_per_s"),
            ("simulated/s", "simulated_per_s"),
            ("off %", "off_percent"),
            ("stages", "stages_found"),
            ("of", "stages_expected"),
            ("arrows", "arrows_found"),
            ("of", "arrows_expected"),
            ("letters", "letters_found"),
            ("of", "letters_expected"),
            ("kernel %", "kernel_percent"),
            ("recorder %", "recorder_percent"),
            ("counted %", "counted_percent"),
            ("unexplained %", "unexplained_percent"),
            ("switches/s", "switches_per_s"),
        ],
        claims: page.claims,
        panels: vec![lines("Requests", "1/s", keys)],
        appendix: format!("<pre>{}</pre>", crate::html::escape(&text)),
        ..Presentation::default()
    };
    let mut outcome = sweep::report(&show, record, directory, fresh)?;
    outcome.text += &text;
    Ok(outcome)
}

/// What was found of each arm, and what is not expected.
fn text(page: &Page<'_>, record: &Record) -> String {
    let mut out = String::new();
    for arm in &record.arms {
        if let Some(found) = arm.setup.get(FOUND) {
            out += &format!("\n{}\n  {}\n", arm.arm, found.replace('\n', "\n  "));
        }
    }
    for (system, expected) in page.expected {
        for (what, why) in expected.absent {
            out += &format!("\n{system} does not have {what}: {why}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point};

    #[test]
    fn what_is_missing_or_far_off_is_judged_so() {
        const ARM: &str = "load";
        const CLAIMS: &[Claim] = &[
            all_found("arrows", |seed| found(seed, &[ARM], "arrows")),
            simulates(|seed| off(seed, &[ARM])),
        ];
        for (arrows, percent, holds) in [(2.0, -14.0, true), (1.0, 16.0, false)] {
            let point = |at: f64| {
                let numbers =
                    [("arrows_found", arrows), ("arrows_expected", 2.0), ("off_percent", percent)];
                let numbers = numbers.map(|(key, value)| (key.to_owned(), value)).into();
                Point { at, runs: vec![Run { numbers, ..Run::default() }] }
            };
            let points = CLIENTS.map(point).into();
            let arm = ArmRecord { arm: ARM.to_owned(), setup: BTreeMap::new(), points };
            let verdicts = sweep::analyse::verdicts(CLAIMS, "rounds", &Record::of(vec![arm]));
            assert!(verdicts.iter().all(|verdict| verdict.holds == holds), "{verdicts:?}");
        }
    }
}
