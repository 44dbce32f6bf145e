//! Connections that the gate cannot read pass, and are counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use headworks_rig::find_program;

use crate::common::Gate;
use crate::setup::Setup;

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

/// Removed with what is in it, whatever becomes of the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_encrypted_connection_passes_and_is_counted() {
    let name = format!("headworks-gate-tls-{}", std::process::id());
    let directory = Directory(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&directory.0).unwrap();
    let Some((certificate, key)) = certificate_in(&directory.0) else {
        return;
    };
    let setup = Setup::places(1)
        .option(format!("--ssl-cert={certificate}"))
        .option(format!("--ssl-key={key}"));
    if let Some(gate) = setup.start() {
        passes(&gate, &["--ssl", "--skip-ssl-verify-server-cert"], "opaque_tls");
    }
}

/// A self-signed certificate and its key, readable by the server's account; `None`, with a printed
/// reason, if there is nothing to make one with.
fn certificate_in(directory: &Path) -> Option<(String, String)> {
    let Some(openssl) = find_program("openssl") else {
        println!("skipped: no openssl on this machine");
        return None;
    };
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    let made: Output = Command::new(openssl)
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-keyout", &key, "-out", &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&key, readable).unwrap();
    Some((certificate, key))
}
