//! `headworks explain`: the reasons for P, and for what happens to a session or a request.

mod picture;
mod user;

use crate::cli::{ExplainGate, ExplainWhat};
use crate::config::OPEN;
use crate::control::{self, Request, Response};
use crate::instance::Instance;
use crate::tuning::{Fitted, Measured, TuningReport};
use anyhow::{Context, Result, bail};
use std::fmt::Write;

/// Size of the curve in the terminal.
const COLUMNS: usize = 64;
const ROWS: usize = 14;

/// Carries out the command.
pub fn run(args: &ExplainGate) -> Result<()> {
    let (select, output, json) = match &args.what {
        Some(ExplainWhat::Parallelism { select, output, json }) => (select, output, json),
        Some(ExplainWhat::Waits(args)) => return crate::io::waits::run(args),
        None => match args.target.as_deref().context("say what to explain: a user or a request")? {
            // An option stood before it.
            "parallelism" => (&args.select, &None, &args.json),
            target => return user::run(&args.select, target, args.json),
        },
    };
    let instance = Instance::find(select.name.as_deref())?;
    let report = match control::ask(&instance, &Request::Tuning)? {
        Response::Tuning(report) => report,
        Response::Error(error) => bail!("{error}"),
        _ => bail!(
            "unexpected reply from the daemon: is it another version?\n  compare: headworks --version; headworks doctor"
        ),
    };
    if let Some(path) = output {
        let svg = picture::draw(&report)?;
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("the curve is in {}", path.display());
    }
    if *json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text(&report));
    }
    Ok(())
}

/// Everything that was measured, each P once, the latest search first.
pub(crate) fn measured(report: &TuningReport) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    let samples = report.fitted.iter().flat_map(|fitted| {
        let intervals = fitted.intervals.iter().map(|interval| Some(*interval));
        fitted.samples.iter().zip(intervals.chain(std::iter::repeat(None)))
    });
    let first = samples.map(|(&(parallelism, rate), interval)| Measured {
        parallelism,
        turns_per_s: rate,
        interval,
        slices: 0,
    });
    let searches = report.measured.iter().chain(&report.last_search).cloned();
    for each in searches.chain(first) {
        if all.iter().all(|known| known.parallelism != each.parallelism) {
            all.push(each);
        }
    }
    all.sort_by_key(|each| each.parallelism);
    all
}

fn text(report: &TuningReport) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    if report.auto {
        line(format!(
            "P = {} ({}; the best so far is {})",
            report.parallelism, report.phase, report.best
        ));
    } else {
        line(format!(
            "P = {} is {}. Let it be looked for: headworks set --parallelism auto",
            report.parallelism, report.phase
        ));
    }
    let outdated = report.fitted.as_ref().is_some_and(|fitted| fitted.outdated);
    let measured = measured(report);
    if measured.is_empty() && report.auto {
        line(
            "Nothing was measured yet: a search begins when there are sessions enough.".to_owned(),
        );
    }
    if !measured.is_empty() {
        line(String::new());
        for row in curve(&measured, report.fitted.as_ref(), report.best) {
            line(row);
        }
        line(String::new());
        line(format!("{:>6} {:>10} {:>8} {:>7}", "P", "turns/s", "+-", "slices"));
        for each in &measured {
            line(format!(
                "{:>6} {:>10.1} {:>8} {:>7}{}{}",
                if each.parallelism == OPEN {
                    "open".to_owned()
                } else {
                    each.parallelism.to_string()
                },
                each.turns_per_s,
                each.interval.map_or(String::new(), |part| format!("{:.1} %", part * 100.0)),
                each.slices,
                if each.slices == 0 && outdated { "  earlier" } else { "" },
                if each.parallelism == report.best { "  <- best" } else { "" }
            ));
        }
    }
    if let Some(fitted) = &report.fitted {
        line(String::new());
        if fitted.outdated {
            line(
                "A later search has begun since the first samples: they are of the load before."
                    .to_owned(),
            );
        }
        line(match (&fitted.parameters, &fitted.misfit) {
            (Some((b, gamma)), _) => format!(
                "model of the first samples: B = {b:.3}, gamma = {gamma:.4}{}; it sent the climb to P = {}",
                if fitted.rising { ", still rising at the largest" } else { "" },
                fitted.start
            ),
            (None, misfit) => format!(
                "no model fits the first samples ({}); the climb began at the best of them, P = {}",
                misfit.as_deref().unwrap_or("unknown"),
                fitted.start
            ),
        });
    }
    if !report.decisions.is_empty() {
        line(String::new());
        for (seconds, decision) in &report.decisions {
            line(format!("{seconds:>9.1} s  {decision}"));
        }
    }
    out
}

/// Throughput over P, on a logarithmic axis, in characters.
fn curve(measured: &[Measured], fitted: Option<&Fitted>, best: u32) -> Vec<String> {
    let model = fitted.map_or(&[][..], |fitted| &fitted.curve);
    let points = measured.iter().map(|each| (each.parallelism, each.turns_per_s));
    let most = points.clone().map(|(p, _)| p).max().unwrap_or(1).max(2);
    let top = points
        .clone()
        .map(|(_, rate)| rate)
        .chain(model.iter().map(|(_, rate)| *rate))
        .fold(1e-9, f64::max);
    let column = |p: u32| {
        let part = f64::from(p.max(1)).log2() / f64::from(most).log2();
        ((part * (COLUMNS - 1) as f64).round() as usize).min(COLUMNS - 1)
    };
    let row =
        |rate: f64| ROWS - 1 - ((rate / top * (ROWS - 1) as f64).round() as usize).min(ROWS - 1);
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    for &(p, rate) in model {
        cells[row(rate)][column(p)] = '·';
    }
    for (p, rate) in points {
        cells[row(rate)][column(p)] = if p == best { '◆' } else { '●' };
    }
    let mut lines: Vec<String> = cells
        .into_iter()
        .enumerate()
        .map(|(at, cells)| {
            let label = match at {
                0 => format!("{top:.0}"),
                _ if at == ROWS - 1 => "0".to_owned(),
                _ => String::new(),
            };
            let cells: String = cells.into_iter().collect();
            format!("{label:>8} |{}", cells.trim_end())
        })
        .collect();
    lines.push(format!("{:>8} +{}", "", "-".repeat(COLUMNS)));
    lines.push(format!(
        "{:>8}  1{:>width$}",
        "turns/s",
        format!("P = {most}"),
        width = COLUMNS - 1
    ));
    let earlier =
        if fitted.is_some_and(|fitted| fitted.outdated) { " of an earlier search" } else { "" };
    lines.push(format!("{:>8}  ● measured  ◆ best  · model{earlier}", ""));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn report() -> TuningReport {
        let each = |parallelism, turns_per_s| Measured {
            parallelism,
            turns_per_s,
            interval: Some(0.012),
            slices: 4,
        };
        TuningReport {
            auto: true,
            parallelism: 24,
            best: 24,
            phase: "holding".to_owned(),
            measured: vec![],
            last_search: vec![each(16, 960.0), each(24, 1_010.0), each(36, 990.0)],
            fitted: Some(Fitted {
                samples: vec![(2, 400.0), (23, 1_000.0), (256, 700.0)],
                intervals: vec![0.02, 0.03, 0.051],
                rising: false,
                parameters: Some((0.02, 0.01)),
                misfit: None,
                curve: (1..=256).map(|p| (p, 1_000.0 / (1.0 + 20.0 / f64::from(p)))).collect(),
                start: 30,
                outdated: false,
            }),
            decisions: vec![(12.5, "settled at P = 24 with 1010 turns/s".to_owned())],
        }
    }

    #[test]
    fn the_text_shows_the_curve_the_samples_and_the_decisions() {
        let text = text(&report());
        for part in
            ["P = 24 (holding", "5.1 %", "◆", "●", "·", "<- best", "B = 0.020", "12.5 s  settled"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
    }

    #[test]
    fn a_model_of_the_load_before_is_called_so() {
        let mut report = report();
        let fresh = text(&report);
        assert!(!fresh.contains("earlier") && !fresh.contains("the load before"), "{fresh}");
        report.fitted.as_mut().unwrap().outdated = true;
        let text = text(&report);
        for part in ["· model of an earlier search", "they are of the load before", "0  earlier"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
    }

    #[test]
    fn a_fixed_p_and_a_search_that_has_not_begun_say_so() {
        let fixed = TuningReport { parallelism: 8, ..TuningReport::default() };
        assert!(text(&fixed).contains("set --parallelism auto"));
        let fresh = TuningReport { auto: true, parallelism: 8, ..TuningReport::default() };
        assert!(text(&fresh).contains("Nothing was measured yet"));
    }
}
