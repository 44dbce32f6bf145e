//! `headworks tad fix`

use super::input::{self, BadInput};
use super::progress::Progress;
use super::results::ms;
use crate::cli::Fix;
use crate::render::{Column, Ink, Table, rate};
use anyhow::Result;
use headworks_tad::fix::{self, Costs, Found, Goal, Options, SetReport, Verdict};
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;

/// `headworks tad fix`
pub fn fix(args: &Fix) -> Result<ExitCode> {
    let tad = input::system(&args.system, None)?;
    let scenarios =
        args.scenario.iter().map(|name| input::scenario(name, &tad)).collect::<Result<Vec<_>>>()?;
    let goals = args
        .goal
        .iter()
        .map(|text| Goal::parse(text).map_err(BadInput::error))
        .collect::<Result<Vec<_>>>()?;
    let mut costs = Costs::default();
    for text in &args.cost {
        costs.set(text).map_err(|error| BadInput::error(format!("--cost: {error}")))?;
    }
    let options = Options {
        seeds: args.seeds,
        costs,
        slack: args.slack,
        limit: args.limit,
        duration_ns: args.duration.saturating_mul(1_000_000_000),
        own: args.own,
        workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let progress = Progress::new();
    let found = fix::search(&tad, &scenarios, &goals, &options, &mut |tried, cost| {
        let fraction = tried as f64 / args.limit.max(1) as f64;
        progress.set(fraction, &format!("{tried} sets tried, cost {cost}"));
    });
    drop(progress);
    let found = found.map_err(BadInput::error)?;
    let ink = Ink { color: std::io::stdout().is_terminal() };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", text(&found, args, ink));
    }
    let holds = found.holding().next().is_some();
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(found: &Found, args: &Fix, ink: Ink) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} with {} workloads and {} seed{}",
        ink.bold(&found.system),
        ink.bold(&found.goals.join(", ")),
        found.workloads.len(),
        found.seeds,
        if found.seeds == 1 { "" } else { "s" }
    );
    if let Some(first) = found.tried.first() {
        let _ = writeln!(out, "as it is: {}", fate(first));
    }
    let _ = writeln!(
        out,
        "tried {} sets out of {} choices ({} more do not fit together or change nothing new)",
        found.tried.len(),
        found.choices,
        found.skipped
    );
    if found.limited {
        let _ = writeln!(out, "stopped at the limit: --limit {} goes on", args.limit * 4);
    }
    let holding: Vec<&SetReport> = found.holding().collect();
    let Some(cheapest) = holding.first() else {
        out += &closest(found);
        return out;
    };
    let _ = writeln!(out, "\n{}", ink.bold("The cheapest that holds"));
    out += &describe(cheapest, args);
    let _ = writeln!(out, "\n{}", ink.bold("All that hold (* nothing beats it in every respect)"));
    out += &table(&holding).render(crate::terminal_width(), ink);
    out
}

fn describe(set: &SetReport, args: &Fix) -> String {
    let mut out = String::new();
    if set.names.is_empty() {
        return "  nothing: the goals hold as it is\n".to_owned();
    }
    let _ = writeln!(out, "  {} (cost {})", set.names.join(", "), set.cost);
    for remedy in &set.remedies {
        let _ = writeln!(out, "      {remedy}");
    }
    if let Some(letters) = &set.maat {
        let _ = writeln!(
            out,
            "  see it:  headworks tad simulate {} --scenario {} --maat '{letters}'",
            args.system,
            args.scenario.first().map_or("…", String::as_str)
        );
    }
    out
}

fn table(holding: &[&SetReport]) -> Table {
    let mut table = Table::new(&[
        Column::left(""),
        Column::right("COST"),
        Column::right("REQ/S"),
        Column::right("LOST"),
        Column::right("P99"),
        Column::right("ADDED"),
        Column::left("REMEDIES"),
    ]);
    for set in holding {
        let Verdict::Holds(measured) = &set.verdict else { continue };
        table.row(vec![
            if set.front { "*" } else { "" }.to_owned(),
            set.cost.to_string(),
            rate(measured.throughput_per_s),
            format!("{:.1} %", set.lost.unwrap_or(0.0) * 100.0),
            ms(measured.latency_ms_p99),
            ms(set.added_ms.unwrap_or(0.0)),
            if set.names.is_empty() { "(none)".to_owned() } else { set.names.join(", ") },
        ]);
    }
    table
}

/// If nothing holds: how far each of the last ones got is no measure, so the failures are counted.
fn closest(found: &Found) -> String {
    let mut out = "\nnothing that was tried reaches the goals\n".to_owned();
    for set in found.tried.iter().rev().take(5) {
        let _ = writeln!(out, "  {} (cost {}): {}", set.names.join(", "), set.cost, fate(set));
    }
    out += "a weaker goal, --slack, --limit, or remedies in the system's file may help\n";
    out
}

fn fate(set: &SetReport) -> String {
    match &set.verdict {
        Verdict::Holds(_) => "the goals hold".to_owned(),
        Verdict::Fails { workload, seed, miss } => {
            format!("misses {}: {} ({workload}, seed {seed})", miss.goal, miss.seen)
        }
        Verdict::Impossible { why } => format!("cannot be simulated: {why}"),
    }
}
