//! `headworks tad search-gaps`

use super::input::{self, BadInput};
use super::progress::Progress;
use crate::cli::Gaps;
use anyhow::{Context, Result};
use headworks_console::{Column, Ink, Table, rate};
use headworks_tad::complete::{self, Cause, Fate, Gap};
use headworks_tad::fix::fraction;
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `--json` prints.
#[derive(Default, Serialize)]
struct Found {
    seed: u64,
    seeds: u32,
    loss: f64,
    /// Causes that were removed beforehand.
    without: Vec<Cause>,
    /// What the checks advise was done beforehand.
    mended: bool,
    /// Systems that are invalid or overloaded.
    invalid: u32,
    /// Systems with findings of the checks.
    unclean: u32,
    /// Systems without findings.
    clean: u32,
    /// Clean systems in which C1 keeps its entitled throughput.
    isolates: u32,
    /// The others.
    gaps: Vec<Gap>,
}

/// `headworks tad search-gaps`
pub fn search(args: &Gaps) -> Result<ExitCode> {
    let Some(loss) = fraction(&args.loss) else {
        return Err(BadInput::error(format!(
            "--loss: \"{}\" is no percentage; write, for instance, 15%",
            args.loss
        )));
    };
    let mut found = Found { seed: args.seed, seeds: args.seeds, loss, ..Found::default() };
    let without: Vec<Cause> =
        args.without.iter().filter_map(|name| Cause::from_name(name)).collect();
    found.without.clone_from(&without);
    found.mended = args.mended;
    for fate in examine(args, loss, &without) {
        match fate {
            Fate::Invalid => found.invalid += 1,
            Fate::Unclean => found.unclean += 1,
            Fate::Isolates => {
                found.clean += 1;
                found.isolates += 1;
            }
            Fate::Gap(gap) => {
                found.clean += 1;
                found.gaps.push(*gap);
            }
        }
    }
    // The smallest first: these are the most instructive.
    found.gaps.sort_by_key(|gap| (gap.cause, gap.size, gap.seed));
    if let Some(dir) = &args.output {
        let cannot =
            || format!("cannot write to {}: name a directory that you may write", dir.display());
        std::fs::create_dir_all(dir).with_context(cannot)?;
        for gap in &found.gaps {
            let path = dir.join(format!("gap-{}.toml", gap.seed));
            std::fs::write(path, &gap.system).with_context(cannot)?;
            let path = dir.join(format!("gap-{}-scenario.toml", gap.seed));
            std::fs::write(path, &gap.scenario).with_context(cannot)?;
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", text(&found));
        if let (Some(dir), Some(gap)) = (&args.output, found.gaps.first()) {
            let dir = input::quoted(&dir.display().to_string());
            println!(
                "\nLook at one:  headworks tad simulate {dir}/gap-{0}.toml --scenario {dir}/gap-{0}-scenario.toml",
                gap.seed
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Examines every seed, in parallel; the results are in the order of the seeds.
fn examine(args: &Gaps, loss: f64, without: &[Cause]) -> Vec<Fate> {
    let (first, seeds) = (args.seed, args.seeds);
    let progress = Progress::new();
    let next = AtomicU64::new(0);
    let count = u64::from(seeds);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all: Vec<(u64, Fate)> = std::thread::scope(|scope| {
        let work = || {
            let mut own = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return own;
                }
                progress.set(at as f64 / count as f64, &format!("seed {}", first.wrapping_add(at)));
                let seed = first.wrapping_add(at);
                own.push((at, complete::examine(seed, loss, without, args.mended)));
            }
        };
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, fate)| fate).collect()
}

fn text(found: &Found) -> String {
    let ink = Ink { color: std::io::stdout().is_terminal() };
    let mut out = format!(
        "{} systems from seed {}: {} clean, of which {} isolate and {} do not (loss above {:.0} %)\n\
         {} in which the checks find something{}, {} that cannot be run\n",
        found.seeds,
        found.seed,
        found.clean,
        found.isolates,
        found.gaps.len(),
        found.loss * 100.0,
        found.unclean,
        if found.mended { " that their advice does not remove" } else { "" },
        found.invalid
    );
    let mut causes: Vec<(Cause, usize)> = Vec::new();
    for gap in &found.gaps {
        match causes.iter_mut().find(|(cause, _)| *cause == gap.cause) {
            Some((_, count)) => *count += 1,
            None => causes.push((gap.cause, 1)),
        }
    }
    if !causes.is_empty() {
        let mut table = Table::new(&[Column::right("GAPS"), Column::left("WHAT IS MISSING")]);
        for (cause, count) in &causes {
            table.row(vec![count.to_string(), cause.title().to_owned()]);
        }
        out += &format!("\n{}", table.render(headworks_console::terminal_width(), ink));
        out += "\nThe smallest of each\n";
        let mut table = Table::new(&[
            Column::right("SEED"),
            Column::right("STAGES"),
            Column::right("STEPS"),
            Column::left("C2 GROWS IN"),
            Column::right("C1 GETS"),
            Column::right("OF"),
            Column::left("CAUSE"),
        ]);
        for (cause, _) in &causes {
            for gap in found.gaps.iter().filter(|gap| gap.cause == *cause).take(3) {
                table.row(vec![
                    gap.seed.to_string(),
                    gap.size[0].to_string(),
                    gap.size[1].to_string(),
                    format!("{:?}", gap.growth).to_lowercase(),
                    rate(gap.got_per_s),
                    rate(gap.floor.per_s()),
                    gap.cause.title().to_owned(),
                ]);
            }
        }
        out += &table.render(headworks_console::terminal_width(), ink);
    }
    out
}
