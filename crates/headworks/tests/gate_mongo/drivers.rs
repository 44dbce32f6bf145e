//! The official drivers as users: the gate changes no answer.

use std::process::{Command, Output};

use headworks_rig::{find_program, java_class_path, java_directory};

use crate::common::{Gate, Kind};
use crate::gated::Status;

fn right(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("right"), "{said}\n{complained}");
}

fn nothing_odd(status: &Status) {
    for counter in ["hold_limit", "stalls", "opaque_unknown", "concurrent_use"] {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
}

#[test]
fn the_java_driver_works_through_the_gate() {
    let Some(gate) = Gate::start(Kind::Jvm, 2) else { return };
    let output = Command::new("java")
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
        .arg(java_class_path())
        .args(["MongoWork", &gate.server.port().to_string(), "till", "16", "20"])
        .output()
        .unwrap();
    right(&output);
    gate.wait_empty();
    nothing_odd(&gate.status());
    let requests = gate.status().class("default")["requests"].as_u64().unwrap();
    // Of each thread: an insert, 20 updates and finds, two inserts of ten documents, and a cursor's
    // first batch and six more.
    let least = 16 * (1 + 40 + 2 + 7);
    assert!((least..least + 40).contains(&requests), "{requests}");
}

#[test]
fn the_node_driver_works_through_the_gate() {
    if find_program("node").is_none() || !java_directory().join("node_modules/mongodb").exists() {
        println!("skipped: there is no Node, or no driver for it (scripts/setup java)");
        return;
    }
    let Some(gate) = Gate::start(Kind::Jvm, 2) else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../rig/java/mongo-work.js");
    let output = Command::new("node")
        .arg(script)
        .arg(java_directory().canonicalize().unwrap())
        .args([&gate.server.port().to_string(), "nora", "10"])
        .output()
        .unwrap();
    right(&output);
    gate.wait_empty();
    nothing_odd(&gate.status());
}
