//! Files that a recording becomes.

use crate::cli::Output;
use crate::text;
use anyhow::{Context, Result, anyhow, bail};
use headworks_record::hints::Hints;
use headworks_record::trace::Trace;
use headworks_record::{draw, infer, report};
use headworks_tad::file;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// Finds mistakes before minutes of recording are lost by them.
pub fn check(args: &Output) -> Result<()> {
    hints(args)?;
    for path in [Some(&args.output), args.scenario.as_ref()].into_iter().flatten() {
        writable(path)?;
    }
    Ok(())
}

/// Finds out whether a file can be written, and leaves it as it is.
pub fn writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!("{} is a folder: name a file in it", path.display());
    }
    let folder = folder(path);
    if !folder.is_dir() {
        bail!("there is no folder {}; make it: mkdir -p {0}", folder.display());
    }
    let at = if path.exists() { path } else { folder };
    let name = CString::new(at.as_os_str().as_bytes())?;
    // SAFETY: the name ends, and the call only looks.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK) } != 0 {
        return Err(cannot(path, std::io::Error::last_os_error()));
    }
    Ok(())
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Why a file cannot be written, and what mends it.
pub fn cannot(path: &Path, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let (shown, folder) = (path.display(), folder(path).display());
    match error.kind() {
        StorageFull => {
            anyhow!("cannot write {shown}: the disk is full\n  what room there is: df -h {folder}")
        }
        PermissionDenied | ReadOnlyFilesystem => {
            anyhow!(
                "cannot write {shown}: {error}\n  name another folder; its rights: ls -ld {folder}"
            )
        }
        _ => anyhow!("cannot write {shown}: {error}"),
    }
}

/// Writes a file whole, or leaves none.
pub fn put(path: &Path, text: &str) -> Result<()> {
    let mut file = File::create(path).map_err(|error| cannot(path, error))?;
    file.write_all(text.as_bytes()).map_err(|error| broken(path, error))
}

/// The disk may be full. What stays would be a part, which says nothing of what it lacks.
fn broken(path: &Path, error: std::io::Error) -> anyhow::Error {
    remove_part(path);
    cannot(path, error)
}

/// Removes what was written, if it is a file.
pub fn remove_part(path: &Path) {
    if path.is_file() {
        // If it stays, the error that follows names it.
        let _ = std::fs::remove_file(path);
    }
}

/// What the user knows of stages.
pub fn hints(args: &Output) -> Result<Hints> {
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
        .map_err(|error| cannot(path, error))?;
    // A file that was there keeps its rights otherwise. A device or a pipe has to keep them.
    if file.metadata()?.is_file() {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Why there is no diagram.
fn nothing(trace: &Trace) -> String {
    let mut text = format!(
        "no thread was seen to do anything in the {:.1} s that were counted: give the system its \
         load while you record\n  count for longer by --for and --budget",
        trace.head.counted_s
    );
    trace.head.missing.iter().for_each(|what| text += &format!("\n  not seen: {what}"));
    text
}

/// Writes diagram, load and report.
pub fn write(trace: &Trace, args: &Output) -> Result<ExitCode> {
    let found = infer::infer(trace, &hints(args)?);
    if found.stages.stages.is_empty() {
        bail!(nothing(trace));
    }
    let name = args.name.clone().unwrap_or_else(|| {
        let stem = args.output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem.is_empty() { "recorded".to_owned() } else { stem }
    });
    let mut drawn = draw::draw(trace, &found, &name);
    if drawn.tad.stages.is_empty() {
        bail!(nothing(trace));
    }
    drawn.calibrate();
    let system = file::write_tad(&drawn.tad);
    // What is written can be read: else it is our fault, and not found out by the user later.
    if let Err(errors) = file::read_tad(&name, &system) {
        return Err(anyhow!("the diagram cannot be read again, please report this: {errors}"));
    }
    put(&args.output, &system)?;
    if let Some(path) = &args.scenario {
        match &drawn.scenario {
            Some(scenario) => {
                let text = file::write_scenario(scenario, &drawn.tad);
                put(path, &text)?;
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
