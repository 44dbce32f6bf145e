//! The table of symbols against the library.

use std::collections::BTreeSet;
use std::process::Command;

use headworks_hooks::symbols::SYMBOLS;
use headworks_rig::find_program;

use crate::support::{program, shim};

/// Each program under `--io` loads them, too, when it starts.
#[test]
fn the_library_needs_no_other_than_the_c_library() {
    let Some(readelf) = find_program("readelf") else {
        println!("skipped: no readelf (apt-get install binutils)");
        return;
    };
    program();
    let output = Command::new(readelf).args(["-dW"]).arg(shim()).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout);
    let needed = listed.lines().filter(|line| line.contains("(NEEDED)"));
    let others: Vec<_> = needed
        .filter(|line| !line.contains("[libc.so.6]") && !line.contains("[ld-linux-x86-64.so.2]"))
        .collect();
    assert!(listed.contains("[libc.so.6]") && others.is_empty(), "{others:#?}");
}

#[test]
fn the_library_exports_what_the_table_says_and_nothing_else() {
    let Some(nm) = find_program("nm") else {
        println!("skipped: no nm (apt-get install binutils)");
        return;
    };
    program();
    let output = Command::new(nm).args(["-D", "--defined-only"]).arg(shim()).output().unwrap();
    assert!(output.status.success());
    let listed = String::from_utf8_lossy(&output.stdout);
    let exported: BTreeSet<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let wanted: BTreeSet<&str> = SYMBOLS.iter().map(|symbol| symbol.name).collect();
    assert_eq!(exported, wanted);
    assert_eq!(wanted.len(), SYMBOLS.len(), "a symbol is listed twice");
}
