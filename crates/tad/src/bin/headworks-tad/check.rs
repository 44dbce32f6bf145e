//! `headworks tad check` and `headworks tad explain`

use super::input::{self, BadInput};
use crate::cli::{Check, Explain};
use anyhow::Result;
use headworks_console::Ink;
use headworks_tad::check::{self, Directness, Finding, Report};
use headworks_tad::explain;
use headworks_tad::remedy::Problem;
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;

/// What a clean result says, and what it does not. The rate is that of docs/results.
const LOOKED_FOR: &str = "five problems and three more were looked for, and no others; of 2,644 random systems that are free of these, with the policy \"drf\" in each queue, none let a client lose more than 15 % by another one's growth";

/// Exit code for findings.
const FOUND: u8 = 1;

/// `headworks tad check`
pub fn check(args: &Check) -> Result<ExitCode> {
    let reports = args
        .systems
        .iter()
        .map(|name| Ok(check::report(&input::remedied(name, &args.remedies)?)))
        .collect::<Result<Vec<Report>>>()?;
    let ink = Ink { color: std::io::stdout().is_terminal() };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    } else if args.table {
        print!("{}", table(&reports));
    } else {
        for (at, report) in reports.iter().enumerate() {
            if at > 0 {
                println!();
            }
            print!("{}", text(report, ink));
        }
    }
    let open = reports.iter().any(|report| !report.problems.is_empty());
    Ok(if open { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

/// Table 4.5, with three more columns: a cross where a system has a problem, in brackets where
/// control logic works around it.
fn table(reports: &[Report]) -> String {
    let wide = reports.iter().map(|report| report.system.chars().count()).max().unwrap_or(0).max(6);
    let mut out = format!("{:<wide$}", "");
    for problem in Problem::ALL {
        let _ = write!(out, "   {} ", problem.letter());
    }
    out = out.trim_end().to_owned() + "\n";
    for report in reports {
        let mut line = format!("{:<wide$}", report.system);
        for problem in Problem::ALL {
            line += if report.problems.contains(problem.letter()) {
                "   x "
            } else if report.unsure.contains(problem.letter()) {
                "   x?"
            } else if report.mitigated.contains(problem.letter()) {
                "  (x)"
            } else {
                "   . "
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    let words: Vec<String> = Problem::ALL
        .into_iter()
        .map(|problem| format!("{} {}", problem.letter(), problem.name()))
        .collect();
    let _ = writeln!(
        out,
        "\n{}\nx: has it; (x): control logic works around it; x?: if what is not certain is true",
        words.join(", ")
    );
    out
}

fn text(report: &Report, ink: Ink) -> String {
    let mut out = String::new();
    let _ = write!(out, "{}", ink.bold(&report.system));
    if !report.version.is_empty() {
        let _ = write!(out, " ({})", report.version);
    }
    let open = report.findings.iter().filter(|finding| !finding.mitigated()).count();
    let mitigated = report.findings.len() - open;
    let unsure = report.findings.iter().filter(|finding| !finding.rests_on.is_empty()).count();
    let shares = if report.as_it_is.is_empty() { "" } else { "; as it is, clients do not share" };
    let _ = writeln!(out, ": {}{shares}", summary(open, mitigated));
    if unsure > 0 {
        let _ =
            writeln!(out, "{unsure} of the findings rest on stages or arrows that are not certain");
    }
    for finding in &report.findings {
        out.push('\n');
        out += &one(finding, ink);
    }
    if report.findings.is_empty() {
        let _ = writeln!(out, "{LOOKED_FOR}");
    }
    for note in &report.as_it_is {
        let _ = writeln!(out, "\n{} {note}", ink.bold("as it is:"));
    }
    if open > 0 {
        let _ = writeln!(out, "\nWhat a problem is:  headworks tad explain blocking");
        let _ = writeln!(
            out,
            "What to do at least:  headworks tad fix FILE|NAME --scenario … --goal isolate:CLIENT:10%"
        );
    }
    out
}

fn summary(open: usize, mitigated: usize) -> String {
    let findings = |count: usize| format!("{count} finding{}", if count == 1 { "" } else { "s" });
    match (open, mitigated) {
        (0, 0) => "none of the problems that were looked for".to_owned(),
        (0, _) => format!("{}, control logic works around all of it", findings(mitigated)),
        (_, 0) => findings(open),
        _ => format!("{}, and {mitigated} that control logic works around", findings(open)),
    }
}

fn one(finding: &Finding, ink: Ink) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {} at {} ({}){}",
        ink.bold(&finding.problem.letter().to_string()),
        ink.bold(finding.problem.name()),
        finding.stages.join(", "),
        finding.node,
        if finding.mitigated() { ", mitigated" } else { "" },
    );
    let _ = writeln!(out, "  {}", finding.reason);
    let _ = writeln!(out, "  violates: {}", finding.condition.title());
    if !finding.rests_on.is_empty() {
        let _ = writeln!(out, "  not certain, as it rests on: {}", finding.rests_on.join(", "));
    }
    for control in &finding.mitigated_by {
        let _ = writeln!(out, "  mitigated by: {control}");
    }
    if finding.mitigated() {
        return out;
    }
    for advice in &finding.remedies {
        let kind = match advice.directness {
            Directness::Direct => "direct",
            Directness::Indirect => "indirect",
        };
        let _ = writeln!(out, "  {}: {}", ink.bold(kind), advice.about);
        for remedy in &advice.remedies {
            let _ = writeln!(out, "      {}", ink.faint(remedy));
        }
        let _ = writeln!(out, "      {}", advice.trade_off);
    }
    out
}

/// `headworks tad explain`
pub fn explain(args: &Explain) -> Result<ExitCode> {
    let named = args.problem.as_str();
    if named == "files" {
        print!("{}", explain::FILES);
        return Ok(ExitCode::SUCCESS);
    }
    let problem = Problem::ALL.into_iter().find(|problem| {
        problem.name() == named || problem.letter().to_string().eq_ignore_ascii_case(named)
    });
    let Some(problem) = problem else {
        let known: Vec<String> = Problem::ALL
            .into_iter()
            .map(|problem| format!("{} ({})", problem.name(), problem.letter()))
            .collect();
        return Err(BadInput::error(format!(
            "there is no problem `{named}`; there are {}, and `files` for the keys of files",
            known.join(", ")
        )));
    };
    print!("{}", explain::page(problem));
    Ok(ExitCode::SUCCESS)
}
