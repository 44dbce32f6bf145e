//! The table of symbols against the library.

use std::collections::BTreeSet;
use std::process::Command;

use headworks_hooks::symbols::SYMBOLS;
use headworks_rig::find_program;

use crate::support::{program, shim};

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
