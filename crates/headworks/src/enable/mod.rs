//! `headworks enable` and `disable`: a service of this machine behind the gate, and away from it.
//!
//! `enable` writes a companion unit and a drop-in (see
//! `docs/decisions/0011-services-get-a-companion.md`). The unit makes the gate ready before the
//! service starts, and is its daemon. The drop-in lets the service's processes preload the library.
//! The service's own command line is not touched.

mod forking_check;
mod notes;
mod plan;
#[cfg(test)]
mod tests;
mod unit;
mod write;

use crate::cli::{Disable, Enable};
use crate::profile::Profiles;
use anyhow::{Context, Result, bail};
use plan::{Place, Plan};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Carries out `enable`.
pub fn enable(args: &Enable) -> Result<ExitCode> {
    let profiles = Profiles::read()?;
    let place = Place::find(&args.root)?;
    may_change(&place, args.dry_run, &format!("headworks enable {}", args.service))?;
    let units = unit::find(&place.root, &args.service, args.all, &profiles)?;
    let mut plans = Vec::new();
    for unit in units {
        plans.push(Plan::to_enable(&place, unit, args, &profiles)?);
    }
    carry_out(&place, &plans, args.dry_run, args.now)
}

/// Carries out `disable`.
pub fn disable(args: &Disable) -> Result<ExitCode> {
    let profiles = Profiles::read()?;
    let place = Place::find(&args.root)?;
    may_change(&place, args.dry_run, &format!("headworks disable {}", args.service))?;
    let units = unit::find(&place.root, &args.service, args.all, &profiles)?;
    let mut plans = Vec::new();
    for unit in units {
        plans.push(Plan::to_disable(&place, unit)?);
    }
    carry_out(&place, &plans, args.dry_run, args.now)
}

/// Refuses if there is no service manager, or no right to use it.
fn may_change(place: &Place, dry_run: bool, command: &str) -> Result<()> {
    if !place.is_machine() {
        return Ok(());
    }
    if !Path::new("/run/systemd/system").is_dir() {
        let inside =
            if in_container() { "this is a container" } else { "systemd does not run here" };
        bail!(
            "{inside}: there is no service to put behind the gate; nothing was changed\n  \
             start the server through the gate instead, as the container's command: headworks run -- mariadbd …\n  \
             or work on the files of an image: {command} --root DIR"
        );
    }
    // SAFETY: geteuid has no preconditions.
    if !dry_run && unsafe { libc::geteuid() } != 0 {
        bail!(
            "services are root's to change; nothing was changed\n  see what it would do: {command} --dry-run\n  then: sudo {command}"
        );
    }
    Ok(())
}

/// Whether this is a container, by the marks of container managers.
fn in_container() -> bool {
    ["/run/.containerenv", "/.dockerenv", "/run/systemd/container"]
        .iter()
        .any(|mark| Path::new(mark).exists())
        || std::fs::read("/proc/1/environ")
            .is_ok_and(|all| all.split(|&byte| byte == 0).any(|var| var.starts_with(b"container=")))
}

fn carry_out(place: &Place, plans: &[Plan], dry_run: bool, now: bool) -> Result<ExitCode> {
    for plan in plans {
        print!("{}", plan.text(place));
    }
    let changes: Vec<&write::Change> = plans.iter().flat_map(|plan| &plan.changes).collect();
    if changes.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if dry_run {
        println!("nothing was changed (--dry-run)");
        return Ok(ExitCode::SUCCESS);
    }
    write::apply(&changes)?;
    println!("{} files changed", changes.len());
    if now && place.is_machine() {
        for plan in plans {
            for command in plan.commands() {
                println!("running: {}", command.join(" "));
                let status = Command::new(&command[0])
                    .args(&command[1..])
                    .status()
                    .with_context(|| format!("cannot run {}", command[0]))?;
                if !status.success() {
                    bail!(
                        "`{}` failed\n  see why: journalctl -u {} -n 50\n  go back: headworks disable {}",
                        command.join(" "),
                        plan.unit.name,
                        plan.unit.name
                    );
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
