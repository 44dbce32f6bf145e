//! Connections that the gate cannot read pass, and are counted.

use std::process::Command;

use headworks_rig::find_program;

use crate::common::{Gate, Setup};

/// MariaDB's own client asks for a 9 while the only place is taken.
fn passes(gate: &Gate, options: &[&str], counter: &str) {
    let Some(program) = find_program("mariadb") else {
        println!("skipped: no mariadb client on this machine");
        return;
    };
    let occupant = gate.occupy();
    let mut held = gate.user("held");
    held.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&held));
    let output = Command::new(program)
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
        .args(["--user=app", "--batch", "--skip-column-names"])
        .arg(format!("--port={}", gate.server.port()))
        .args(options)
        .args(["--execute", "SELECT 9; SELECT REPEAT('x', 100000); SELECT 10"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("9\n{}\n10\n", "x".repeat(100_000)));
    assert_eq!(gate.status().counter(counter), 1);
    assert!(gate.waits(&held), "the others are still held");
    gate.release(occupant);
    assert_eq!(held.value(), "7");
    held.quit();
    gate.wait_empty();
}

#[test]
fn a_compressed_connection_passes_and_is_counted() {
    if let Some(gate) = Setup::places(1).start() {
        passes(&gate, &["--compress", "--skip-ssl"], "opaque_compressed");
    }
}
