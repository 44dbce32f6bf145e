//! `headworks tad limits`, `diff` and `flame`: what recordings and diagrams tell.

use crate::cli::{Diff, Flame, Limits};
use crate::output;
use anyhow::{Context, Result, bail};
use headworks_console::{Column, Ink, Table, rate, terminal_width};
use headworks_record::hints::Hints;
use headworks_record::infer::waits::Kind;
use headworks_record::limits::knots::Knot;
use headworks_record::trace::Trace;
use headworks_record::{diff, draw, flame, infer, limits, verdict};
use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::model::Tad;
use headworks_tad::scenario::Scenario;
use std::io::{BufReader, IsTerminal, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

/// A recording, from what `record --raw` wrote.
pub fn recording(path: &Path) -> Result<Trace> {
    let shown = path.display();
    let file = std::fs::File::open(path).with_context(|| {
        format!("cannot read {shown}; `headworks tad record --raw FILE` makes one")
    })?;
    let mut trace = Trace::read(BufReader::new(file))
        .with_context(|| format!("{shown} is no recording of this version"))?;
    trace.unwind_again();
    Ok(trace)
}

/// A diagram, its load, what of it is pauses, and what is to be known first.
type Loaded = (Tad, Option<Scenario>, Vec<draw::Paused>, Vec<String>);

/// Of a recording, or from files.
fn diagram(path: &Path, scenario: Option<&Path>) -> Result<Loaded> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if path.extension().is_none_or(|extension| extension != "toml") {
        let trace = recording(path)?;
        let found = infer::infer(&trace, &Hints::default());
        let mut drawn = draw::draw(&trace, &found, &name);
        drawn.calibrate();
        let doubts = drawn.doubts().into_iter().map(|doubt| format!("does not fit: {doubt}"));
        let words = doubts.chain(verdict::notes(&trace, &found)).collect();
        return Ok((drawn.tad, drawn.scenario, drawn.paused, words));
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the diagram {}", path.display()))?;
    let tad = read_tad(&name, &text).map_err(|errors| anyhow::anyhow!("{errors}"))?.value;
    let Some(scenario) = scenario else { return Ok((tad, None, Vec::new(), Vec::new())) };
    let text = std::fs::read_to_string(scenario)
        .with_context(|| format!("cannot read the load {}", scenario.display()))?;
    let name = scenario.display().to_string();
    let read = read_scenario(&name, &text, &tad).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    Ok((tad, Some(read.value), Vec::new(), Vec::new()))
}

/// Where waits end, of a recording.
fn knots(path: &Path) -> Result<Vec<Knot>> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(Vec::new());
    }
    Ok(limits::knots::knots(&infer::infer(&recording(path)?, &Hints::default())))
}

fn print_knots(knots: &[Knot]) {
    /// Waits of a knot that are shown.
    const SHOWN: usize = 3;
    for knot in knots {
        let waits = knot.waits.iter().take(SHOWN);
        let waits: Vec<String> = waits
            .map(|(from, to, part)| format!("{from} waits for {to} {:.0} %", part * 100.0))
            .collect();
        let waits =
            if waits.is_empty() { String::new() } else { format!(" ({})", waits.join("; ")) };
        println!("{:.0} % of the waits end at {}{waits}", knot.part * 100.0, knot.of.join(", "));
    }
}

/// `headworks tad limits`
pub fn limits(args: &Limits) -> Result<ExitCode> {
    let (tad, scenario, paused, words) = diagram(&args.file, args.scenario.as_deref())?;
    let knots = knots(&args.file)?;
    let Some(scenario) = scenario else {
        if args.file.extension().is_some_and(|extension| extension == "toml") {
            bail!(
                "a diagram says nothing of its load: add --scenario FILE.toml, which `headworks \
                 tad record --scenario` writes"
            );
        }
        bail!(
            "no request of a client was seen, so nothing can be simulated: record the system \
             under load, and from kernel 6.3 on; where its threads wait shows `headworks tad \
             flame`"
        );
    };
    let shows = stderr().is_terminal();
    let found = limits::limits(&tad, &scenario, &paused, &mut |part| {
        if shows {
            eprint!("\r\x1b[Kheadworks: {:.0} % of the changes are simulated", part * 100.0);
        }
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    let found = found.with_context(|| format!("cannot simulate {}", args.file.display()))?;
    if args.json {
        let all = serde_json::json!({
            "per_s": found.per_s, "limits": found.limits, "knots": knots, "notes": words
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    words.iter().for_each(|words| println!("{words}"));
    print_knots(&knots);
    println!("simulated as it is: {} requests/s\n", rate(found.per_s));
    if found.limits.is_empty() {
        println!("nothing gains 1 % if it is made twice as good: the clients are the limit");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&[
        Column::left("LIMIT"),
        Column::left("KIND"),
        Column::left("CHANGE"),
        Column::right("GAIN"),
        Column::right("REQUESTS/S"),
        Column::right("BUSY"),
    ]);
    for limit in &found.limits {
        table.row(vec![
            limit.name.clone(),
            format!("{:?}", limit.kind).to_lowercase(),
            limit.change.clone(),
            format!("+{:.0} %", limit.gain * 100.0),
            rate(limit.per_s),
            if limit.busy > 0.0 { format!("{:.0} %", limit.busy * 100.0) } else { String::new() },
        ]);
    }
    print!("{}", table.render(terminal_width(), Ink { color: stdout().is_terminal() }));
    Ok(ExitCode::SUCCESS)
}

/// `headworks tad diff`
pub fn diff(args: &Diff) -> Result<ExitCode> {
    let (a, ..) = diagram(&args.a, None)?;
    let (b, ..) = diagram(&args.b, None)?;
    let changes = diff::diff(&a, &b);
    let common = a.stages.iter().any(|stage| b.stages.iter().any(|other| other.name == stage.name));
    if !common && !a.stages.is_empty() && !b.stages.is_empty() {
        eprintln!(
            "headworks: {} and {} have no stage in common: are they of one system? Stages can be \
             renamed by --hints of `headworks tad analyse`",
            args.a.display(),
            args.b.display()
        );
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&changes)?);
    } else if changes.is_empty() {
        println!("no difference");
    } else {
        let mut table = Table::new(&[
            Column::left("WHAT"),
            Column::left("NAME"),
            Column::left("BEFORE"),
            Column::left("AFTER"),
        ]);
        for change in &changes {
            let said = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
            table.row(vec![
                change.what.to_owned(),
                change.name.clone(),
                said(&change.before),
                said(&change.after),
            ]);
        }
        print!("{}", table.render(terminal_width(), Ink { color: stdout().is_terminal() }));
    }
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `headworks tad flame`
pub fn flame(args: &Flame) -> Result<ExitCode> {
    let trace = recording(&args.file)?;
    let idle = [Kind::Idle, Kind::Timer, Kind::Socket];
    let without = if args.all { &[][..] } else { &idle[..] };
    let folded = flame::fold(&trace, &Hints::default(), without);
    if folded.is_empty() {
        bail!("no wait was recorded: record for longer, under load, or add --all");
    }
    let picture = args.output.extension().is_some_and(|extension| extension == "svg");
    let title = format!("time asleep by stage, {}", args.file.display());
    let text = if picture { flame::svg(&folded, &title) } else { flame::lines(&folded) };
    output::put(&args.output, &text)?;
    Ok(ExitCode::SUCCESS)
}
