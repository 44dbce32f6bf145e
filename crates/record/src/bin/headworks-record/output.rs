//! Files that a recording becomes.

use crate::cli::Output;
use crate::text;
use anyhow::{Context, Result, anyhow, bail};
use headworks_record::hints::Hints;
use headworks_record::trace::Trace;
use headworks_record::{draw, infer, report};
use headworks_tad::file;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// Finds mistakes before minutes of recording are lost by them.
pub fn check(args: &Output) -> Result<()> {
    hints(args)?;
    for path in [Some(&args.output), args.scenario.as_ref()].into_iter().flatten() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("there is no folder {}; make it: mkdir -p {0}", folder.display());
        }
    }
    Ok(())
}

fn hints(args: &Output) -> Result<Hints> {
    let Some(path) = &args.hints else { return Ok(Hints::default()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the hints {}", path.display()))?;
    Hints::parse(&text).with_context(|| format!("{} has no hints", path.display()))
}

/// A file that only its owner reads: it tells of a system's insides.
pub fn private(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    // A file that was there keeps its rights otherwise.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Writes diagram, load and report.
pub fn write(trace: &Trace, args: &Output) -> Result<ExitCode> {
    let found = infer::infer(trace, &hints(args)?);
    if found.stages.stages.is_empty() {
        bail!("no thread was seen to do anything: give the system its load while you record");
    }
    let name = args.name.clone().unwrap_or_else(|| {
        let stem = args.output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem.is_empty() { "recorded".to_owned() } else { stem }
    });
    let mut drawn = draw::draw(trace, &found, &name);
    if drawn.tad.stages.is_empty() {
        bail!("no stage did anything: give the system its load while you record");
    }
    drawn.calibrate();
    let system = file::write_tad(&drawn.tad);
    // What is written can be read: else it is our fault, and not found out by the user later.
    if let Err(errors) = file::read_tad(&name, &system) {
        return Err(anyhow!("the diagram cannot be read again, please report this: {errors}"));
    }
    std::fs::write(&args.output, &system)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    if let Some(path) = &args.scenario {
        match &drawn.scenario {
            Some(scenario) => {
                let text = file::write_scenario(scenario, &drawn.tad);
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => eprintln!("headworks: no request of a client was seen: no load is written"),
        }
    }
    let report = report::report(trace, &found, &drawn);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text::text(&report, &args.output));
    }
    Ok(ExitCode::SUCCESS)
}
