//! Processes that share locks and do I/O while they hold them. They are killed, signalled and
//! forked at random; only some are preloaded. No process may be stuck, and every lock must say what
//! it says without the library.
//!
//! `HEADWORKS_SEED` repeats a run. `HEADWORKS_LOCK_KILLS` says how many processes are killed.

use crate::compile::Workshop;
use crate::support::shim;
use headworks_policy::split::SplitKind;
use headworks_region::io::IoMapping;
use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs it and returns what must be the same everywhere. The figures go to standard error.
fn verdict(name: &str, command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    eprint!("{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn kills_signals_and_forks_leave_no_lock_stuck() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("torture.c", &["-pthread"]);
    let kills = number("HEADWORKS_LOCK_KILLS").unwrap_or(100);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("HEADWORKS_SEED").unwrap_or(u64::from(clock.subsec_nanos()));
    eprintln!("HEADWORKS_SEED={seed}");
    let directory = victim.with_extension("files");
    std::fs::create_dir(&directory).unwrap();
    let torture = |kills: u64| {
        let mut command = Command::new(&victim);
        command.arg(&directory).args([kills, seed].map(|number| number.to_string()));
        command
    };
    let good = "stuck 0, broken 0, crashed 0\n";
    assert_eq!(verdict("without the library", &mut torture(kills.div_ceil(4))), good);
    let path = victim.with_extension("region");
    let region = io_region(&path);
    let mut half_preloaded = torture(kills);
    half_preloaded.env("LIBRARY", shim()).env("HEADWORKS_IO", &path);
    assert_eq!(verdict("preloaded", &mut half_preloaded), good);
    let control = &region.control;
    let inherited: u64 =
        region.inheritance.by_blocker.iter().map(|count| count.load(Relaxed)).sum();
    eprintln!(
        "inherited {inherited}, promoted {}, restarted {}, lock busy {}, hold limit {}",
        region.inheritance.promoted.load(Relaxed),
        control.restarted.load(Relaxed),
        control.lock_busy.load(Relaxed),
        control.hold_limit.load(Relaxed)
    );
    assert!(inherited > 0, "no thread waited for another: the hooks were not there");
    assert_eq!(region.waiting(), 0);
    assert_eq!(control.panics.load(Relaxed), 0);
}

fn io_region(path: &Path) -> IoMapping {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let mapping = IoMapping::create(&name, None).unwrap();
    mapping.region().start(SplitKind::Rcp, true);
    mapping
}
