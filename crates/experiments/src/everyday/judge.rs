//! Compares each server behind the gate with the same server as it is, by medians of the rounds.

use std::path::Path;

use anyhow::Result;

use super::collect::{self, Plan, Task};
use super::{Arm, Case, Front, Group};
use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::html::escape;
use crate::record::Verdict;
use crate::sweep::found::point;
use crate::sweep::panel::{Best, Panel};
use crate::sweep::record::{Record, Run};
use crate::sweep::{self, Bound, Presentation};
use crate::table::align;
use crate::table::thousands;
use headworks_policy::metrics::median;

/// An experiment that is a list of cases.
pub(super) struct Spec {
    pub(super) experiment: &'static Experiment,
    pub(super) arms: &'static [Arm],
    pub(super) cases: &'static [Case],
    pub(super) measures: &'static [Measure],
    /// Seconds of a run, rounds, and seconds of a window; for a full and for a quick run.
    pub(super) times: [(u64, usize, u64); 2],
    /// What was run, in a few sentences.
    pub(super) about: &'static str,
}

/// A number that compares an arm behind the gate with the same server as it is.
pub(super) struct Measure {
    /// Its key in the record.
    pub(super) key: &'static str,
    /// The title of its map.
    pub(super) title: &'static str,
    /// What must hold in every case.
    pub(super) statement: &'static str,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
    /// `None` where the case has no such number.
    pub(super) value: fn(&View<'_>) -> Option<f64>,
}

/// One point of the two arms that are compared.
pub(super) struct View<'a> {
    record: &'a Record,
    arm: &'a str,
    base: &'a str,
    pub(super) at: f64,
    pub(super) groups: &'static [Group],
}

impl View<'_> {
    /// A number behind the gate, and as it is. It is not a number if only the gate has none.
    pub(super) fn both(&self, key: &str) -> Option<(f64, f64)> {
        let ours = number(self.record, self.arm, self.at, key).unwrap_or(f64::NAN);
        Some((ours, number(self.record, self.base, self.at, key)?))
    }

    /// A series behind the gate and as it is, window by window.
    pub(super) fn windows(&self, key: &str) -> Vec<(f64, f64)> {
        let of = |arm| windows(self.record, arm, self.at, key);
        of(self.arm).into_iter().zip(of(self.base)).collect()
    }

    /// The length of a run.
    pub(super) fn window_s(&self, key: &str) -> f64 {
        let runs = point(self.record, self.base, self.at).map_or(&[][..], |point| &point.runs);
        let length = |run: &Run| Some(run.series.get(key)?.len() as f64 * run.bucket_s);
        runs.first().and_then(length).unwrap_or(0.0)
    }
}

/// The median of a number over the rounds.
fn number(record: &Record, arm: &str, at: f64, key: &str) -> Option<f64> {
    let runs = &point(record, arm, at)?.runs;
    median(&runs.iter().filter_map(|run| run.numbers.get(key).copied()).collect::<Vec<_>>())
}

/// The median of a series over the rounds, window by window.
fn windows(record: &Record, arm: &str, at: f64, key: &str) -> Vec<f64> {
    let runs = point(record, arm, at).map_or(&[][..], |point| &point.runs);
    let series: Vec<&Vec<f64>> = runs.iter().filter_map(|run| run.series.get(key)).collect();
    let count = series.iter().map(|values| values.len()).min().unwrap_or(0);
    let window = |index: usize| series.iter().map(|values| values[index]).collect::<Vec<_>>();
    (0..count).filter_map(|index| median(&window(index))).collect()
}

/// A verdict over all cases, which reports the worst one; `None` if there are no cases.
fn verdict(measure: &Measure, arm: &str, cells: &[(String, f64)]) -> Option<Verdict> {
    let worse = |a: f64, b: f64| match measure.bound {
        Bound::AtMost(_) => a > b || a.is_nan(),
        _ => a < b || a.is_nan(),
    };
    let (name, value) = cells.iter().reduce(|a, b| if worse(b.1, a.1) { b } else { a })?;
    let holding = cells.iter().filter(|(_, value)| measure.bound.holds(*value)).count();
    Some(Verdict {
        statement: format!("{arm}: {}", measure.statement),
        paper: String::new(),
        ours: Some(*value).filter(|value| value.is_finite()),
        unit: measure.unit.to_owned(),
        holds: holding == cells.len(),
        ratio: None,
        absolute: String::new(),
        note: format!(
            "{} in every case; {holding} of {}, the worst: {name}",
            measure.bound.text(),
            cells.len()
        ),
    })
}

/// Judges every arm behind the gate, and writes the values of the measures into the record.
pub(super) fn judge(
    record: &mut Record,
    arms: &[Arm],
    points: &[(f64, String, &'static [Group])],
    measures: &[Measure],
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for arm in arms.iter().filter(|arm| arm.is_gated()) {
        let is_base = |other: &&Arm| other.kind == arm.kind && other.front == Front::Nothing;
        let Some(base) = arms.iter().find(is_base) else { continue };
        if !record.arms.iter().any(|found| found.arm == arm.label) {
            continue;
        }
        for measure in measures {
            let mut cells = Vec::new();
            for (at, name, groups) in points {
                let view = View { record, arm: arm.label, base: base.label, at: *at, groups };
                let Some(value) = (measure.value)(&view) else { continue };
                cells.push((name.clone(), value));
                put(record, arm.label, *at, measure.key, value);
            }
            verdicts.extend(verdict(measure, arm.label, &cells));
        }
    }
    verdicts
}

fn put(record: &mut Record, arm: &str, at: f64, key: &str, value: f64) {
    let arms = record.arms.iter_mut().filter(|each| each.arm == arm);
    let points = arms.flat_map(|arm| &mut arm.points).filter(|point| point.at == at);
    for run in points.flat_map(|point| &mut point.runs).filter(|_| value.is_finite()) {
        run.numbers.insert(key.to_owned(), value);
    }
}

/// Runs the arms and cases that are asked for.
pub(super) fn collect(spec: &Spec, options: &RunOptions) -> Result<Record> {
    let (window_s, rounds, bucket_s) = spec.times[usize::from(options.quick)];
    let wanted = |case: &Case| {
        options.only.as_ref().map_or(case.quick || !options.quick, |only| case.name.contains(only))
    };
    let tasks = spec.cases.iter().enumerate().filter(|(_, case)| wanted(case));
    let names = spec.cases.iter().enumerate().map(|(at, case)| format!("{} {}", at + 1, case.name));
    let plan = Plan {
        experiment: spec.experiment,
        arms: spec.arms.iter().copied().filter(|arm| arm.quick || !options.quick).collect(),
        tasks: tasks.map(|(at, case)| Task { at: (at + 1) as f64, case, offered: None }).collect(),
        warm_up_s: 0,
        window_s: options.window_s.unwrap_or(window_s).max(bucket_s),
        bucket_s,
        rounds: options.repeat.unwrap_or(rounds).max(1),
        capacity: None,
        sweep: format!("case ({})", names.collect::<Vec<_>>().join("; ")),
    };
    collect::collect(&plan, options)
}

/// Analyses and draws a record.
pub(super) fn report(spec: &Spec, directory: &Path, fresh: bool) -> Result<Outcome> {
    let experiment = spec.experiment;
    let mut record = sweep::read(directory, experiment.id)?;
    let points: Vec<(f64, String, &[Group])> = (1..)
        .zip(spec.cases)
        .map(|(at, case)| (f64::from(at), format!("{at}. {}", case.name), case.groups))
        .collect();
    let judged = judge(&mut record, spec.arms, &points, spec.measures);
    let maps = spec.measures.iter().map(|measure| {
        let best = if matches!(measure.bound, Bound::AtMost(_)) { Best::Low } else { Best::High };
        let there = |arm: &&Arm| record.arms.iter().any(|found| found.arm == arm.label);
        let gated = spec.arms.iter().filter(|arm| arm.is_gated()).filter(there);
        gated.fold(Panel::heat(measure.title, best), |panel, arm| {
            panel.line(arm.label, arm.label, measure.key)
        })
    });
    let figures = figures(&record, &points);
    let show = Presentation {
        id: experiment.id,
        figure: experiment.figure,
        about: spec.about,
        sweep_label: "case",
        caption: format!(
            "behind the gate, relative to the same server as it is; {} s a run",
            record.counted_s
        ),
        quick: "few cases, short windows and one round; it measures nothing well",
        appendix: format!("<h2>Cases</h2>\n<pre>{}</pre>", escape(&figures)),
        panels: maps.collect(),
        ..Presentation::default()
    };
    let mut outcome = sweep::report_judged(&show, record, judged, directory, fresh)?;
    outcome.text = format!("{figures}\n{}", outcome.text);
    Ok(outcome)
}

/// A table for each case: every group of every arm.
pub(super) fn figures(record: &Record, points: &[(f64, String, &'static [Group])]) -> String {
    let mut out = String::new();
    for (at, name, groups) in points {
        let head = ["", "per s", "p50 ms", "p99 ms", "worst ms"].map(str::to_owned);
        let mut lines = vec![head];
        for arm in record.arms.iter().filter(|arm| arm.points.iter().any(|point| point.at == *at)) {
            let cell = |key: &str| number(record, &arm.arm, *at, key).map_or("–".to_owned(), short);
            for group in *groups {
                let keys = ["per_s", "p50_ms", "p99_ms", "max_ms"];
                let [per_s, p50, p99, max] = keys.map(|key| cell(&format!("{}_{key}", group.name)));
                lines.push([format!("{} · {}", arm.arm, group.name), per_s, p50, p99, max]);
            }
            let late = ["late_p50_ms", "late_p95_ms", "late_max_ms"].map(cell);
            if late[0] != "–" {
                let [p50, p95, max] = late;
                lines.push([
                    format!("{} · late (p50, p95)", arm.arm),
                    String::new(),
                    p50,
                    p95,
                    max,
                ]);
            }
        }
        if lines.len() > 1 {
            out += &format!("{name}\n{}\n", align(&lines));
        }
    }
    out
}

fn short(value: f64) -> String {
    match value {
        large if large >= 100.0 => thousands(large.round()),
        some if some >= 10.0 => format!("{some:.1}"),
        few => format!("{few:.2}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::everyday::client::Act;
    use crate::everyday::{AUTO, Front, Group};
    use crate::neighbours::site::Kind;
    use crate::sweep::record::{ArmRecord, Point};

    pub(in super::super) const PLAIN: &str = "plain";
    pub(in super::super) const GATED: &str = "gated";
    pub(in super::super) const ARMS: [Arm; 2] = [
        Arm::new(PLAIN, Kind::MariaDb, Front::Nothing, true),
        Arm::new(GATED, Kind::MariaDb, AUTO, true),
    ];

    pub(in super::super) fn run(numbers: &[(&str, f64)], series: &[(&str, &[f64])]) -> Run {
        Run {
            numbers: numbers.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
            series: series.iter().map(|(key, all)| ((*key).to_owned(), all.to_vec())).collect(),
            bucket_s: 10.0,
            ..Run::default()
        }
    }

    /// A record of both arms at point 1.
    pub(in super::super) fn record(plain: Vec<Run>, gated: Vec<Run>) -> Record {
        let arm = |(label, runs): (&str, Vec<Run>)| {
            let points = vec![Point { at: 1.0, runs }];
            ArmRecord { arm: label.to_owned(), setup: [].into(), points }
        };
        Record::of([(PLAIN, plain), (GATED, gated)].map(arm).into())
    }

    #[test]
    fn medians_of_rounds_are_held_against_the_server_as_it_is() {
        static GROUPS: [Group; 1] = [Group::new("a", 1, Act::Read)];
        let measure = Measure {
            key: "ratio",
            title: "",
            statement: "enough",
            unit: "",
            bound: Bound::AtLeast(0.9),
            value: |view| view.both("a_per_s").map(|(ours, theirs)| ours / theirs),
        };
        // The medians are 10 and 9.5. The second round alone would fail.
        let of = |values: [f64; 3]| values.map(|value| run(&[("a_per_s", value)], &[])).into();
        let mut record = record(of([10.0, 8.0, 12.0]), of([9.5, 2.0, 20.0]));
        let points =
            [(1.0, "first".to_owned(), &GROUPS[..]), (2.0, "absent".to_owned(), &GROUPS[..])];
        let verdicts = judge(&mut record, &ARMS, &points, &[measure]);
        assert_eq!(verdicts.len(), 1);
        assert_eq!((verdicts[0].ours, verdicts[0].holds), (Some(0.95), true));
        assert!(verdicts[0].note.ends_with("1 of 1, the worst: first"), "{}", verdicts[0].note);
        assert_eq!(record.arms[1].points[0].runs[2].numbers["ratio"], 0.95);
        assert_eq!(number(&record, PLAIN, 1.0, "ratio"), None);
    }
}
