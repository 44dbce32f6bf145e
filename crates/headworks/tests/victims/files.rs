//! Programs that work on files: under every I/O scheduler they see what they see without.

use crate::compile::Workshop;
use crate::support::RunDir;
use headworks_policy::split::SplitKind;
use std::path::Path;
use std::process::{Command, Output};

/// Limits the child that is killed, so that it is killed while it is held.
const RULES: &str = "[io]\nio_hold_ms_max = 500\n\
    [[io.file]]\npath = \"*/small\"\nfsync_ms = 5\n\
    [[io.thread]]\nname = \"killed\"\npriority = 7\nbytes_per_s = 1000000\n";

fn in_a_directory(dir: &Path, name: &str, command: &mut Command) -> Output {
    let place = dir.join(name);
    std::fs::create_dir_all(&place).unwrap();
    command.arg(&place).output().expect("the program starts")
}

#[test]
fn every_call_on_files_is_what_it_is_without_a_scheduler() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("files.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-files-{}", std::process::id()));
    let plain = in_a_directory(&dir, "plain", &mut Command::new(&program));
    assert!(plain.status.success(), "{plain:?}");
    let wanted = String::from_utf8(plain.stdout).unwrap();
    assert!(wanted.contains("locked: 1") && wanted.lines().count() > 50, "{wanted}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(&program);
        let found = in_a_directory(&dir, kind.name(), &mut command);
        assert!(found.status.success(), "{kind}: {found:?}");
        assert_eq!(String::from_utf8(found.stdout).unwrap(), wanted, "under {kind}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}
