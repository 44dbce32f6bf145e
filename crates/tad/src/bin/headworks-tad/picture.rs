//! `headworks tad render`

use super::input::{self, BadInput};
use crate::cli::{Render, ThemeArg};
use anyhow::{Context, Result};
use headworks_tad::check;
use headworks_tad::model::Tad;
use headworks_tad::render::{Mark, Options, Theme};
use std::process::ExitCode;

/// `headworks tad render`
pub fn render(args: &Render) -> Result<ExitCode> {
    let tad = input::remedied(&args.system, &args.remedies)?;
    let highlight = match &args.highlight {
        Some(name) => Some(tad.request(name).ok_or_else(|| {
            let known: Vec<&str> =
                tad.requests.iter().map(|request| request.name.as_str()).collect();
            BadInput::error(format!(
                "--highlight: system {} has no request `{name}`; it has {}",
                tad.name,
                known.join(", ")
            ))
        })?),
        None => None,
    };
    let theme = match args.theme {
        ThemeArg::Light => Theme::Light,
        ThemeArg::Dark => Theme::Dark,
        ThemeArg::Auto => Theme::Auto,
    };
    let marks = if args.no_check { Vec::new() } else { marks(&tad) };
    let picture = headworks_tad::render::render(&tad, &marks, &Options { theme, highlight })?;
    std::fs::write(&args.output, picture).with_context(|| {
        format!(
            "cannot write {}: name a place that you may write (ls -ld its directory), with free space (df -h)",
            args.output.display()
        )
    })?;
    println!("{}", args.output.display());
    Ok(ExitCode::SUCCESS)
}

/// Each problem of each stage once; its letter is struck through only if all its findings are
/// mitigated.
fn marks(tad: &Tad) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for finding in check::check(tad) {
        for stage in finding.stages.iter().filter_map(|name| tad.stage(name)) {
            let same = marks
                .iter_mut()
                .find(|mark| mark.stage == stage && mark.problem == finding.problem);
            match same {
                Some(mark) => mark.mitigated &= finding.mitigated(),
                None => marks.push(Mark {
                    stage,
                    problem: finding.problem,
                    mitigated: finding.mitigated(),
                }),
            }
        }
    }
    marks
}
