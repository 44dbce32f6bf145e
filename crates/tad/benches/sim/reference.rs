//! The reference in simpy: the same tables, another program.

use super::cases::Case;
use headworks_tad::sim::{self, Outcome};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/simpy_tad.py");

/// Writes a case's tables where the reference can read them.
pub fn export(case: &Case) -> PathBuf {
    let (tad, scenario) = case.read();
    let tables = sim::export(&tad, &scenario).expect("nothing that simpy_tad.py does not have");
    let name = format!("headworks-{}-{}.json", std::process::id(), case.name.replace(' ', "-"));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, tables.to_string()).expect("a temporary file");
    path
}

/// What the reference found.
pub struct Slow(Value);

/// Runs the reference.
pub fn run(python: &str, export: &Path, seed: u64) -> Result<Slow, String> {
    let output = Command::new(python)
        .arg(PROGRAM)
        .arg(export)
        .args(["--seed", &seed.to_string()])
        .output()
        .map_err(|error| format!("cannot run {python}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map(Slow).map_err(|error| error.to_string())
}

impl Slow {
    /// Nanoseconds for a consumption; without the start of Python and the reading of the tables.
    pub fn ns(&self) -> f64 {
        self.0["wall_s"].as_f64().expect("a number") * 1e9
            / self.0["uses"].as_f64().expect("a number")
    }

    /// The same numbers as [`numbers`], in the same order.
    pub fn numbers(&self) -> Vec<(String, f64)> {
        let list = |key: &str| self.0[key].as_array().expect("a list");
        let number = |value: &Value| value.as_f64().expect("a number");
        let mut numbers = Vec::new();
        for load in list("loads") {
            numbers.push((String::new(), number(&load["throughput_per_s"])));
            numbers.push((String::new(), number(&load["latency_ms_mean"])));
        }
        for resource in list("resources") {
            for part in resource["by_client"].as_array().expect("a list") {
                numbers.push((String::new(), number(part)));
            }
        }
        numbers
    }
}

/// What is compared: throughput and mean latency of each load, and the part of each resource that
/// each client had.
pub fn numbers(outcome: &Outcome) -> Vec<(String, f64)> {
    let mut numbers = Vec::new();
    for client in &outcome.clients {
        for load in &client.loads {
            let name = format!("{} {}", client.name, load.name);
            numbers.push((format!("{name}, requests/s"), load.throughput_per_s));
            numbers.push((format!("{name}, latency ms"), load.latency_ms_mean));
        }
    }
    for resource in &outcome.resources {
        for (client, share) in outcome.clients.iter().zip(&resource.shares) {
            let name = format!("{} {} {}", resource.node, resource.name, client.name);
            numbers.push((name, resource.utilization * share));
        }
    }
    numbers
}
