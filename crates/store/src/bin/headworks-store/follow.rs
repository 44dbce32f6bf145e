//! Posts what a database behind the gate achieves, second by second.

use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_console::find_program;
use headworks_store::control::Request;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the gate's status says of a class, or of all sessions.
struct Figures {
    /// Requests since the start, or turns a second.
    count: f64,
    /// Median, in milliseconds.
    latency_ms: f64,
    /// Sessions that are inside or wait.
    active: u64,
}

fn figures(args: &cli::Follow) -> Result<Figures> {
    let program = find_program("headworks").context("the program headworks is not in PATH")?;
    let mut command = Command::new(program);
    command.args(["status", "--json"]);
    if let Some(name) = &args.name {
        command.args(["--name", name]);
    }
    let output = command.output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let (of, key) = match &args.class {
        None => (&status, "turns_per_s"),
        Some(class) => {
            let mut classes = status["classes"].as_array().into_iter().flatten();
            let found = classes.find(|other| other["name"] == class.as_str());
            (found.with_context(|| format!("the gate has no class `{class}`"))?, "requests")
        }
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
    let sessions = |key: &str| of[key].as_u64().unwrap_or(0);
    Ok(Figures {
        count: number(&of[key]),
        latency_ms: number(&of["latency"]["p50_ms"]),
        active: sessions("inside") + sessions("waiting"),
    })
}

/// Until the store or the gate is gone.
pub fn run(args: &cli::Follow, mut post: impl FnMut(Request) -> Result<()>) -> Result<()> {
    let (mut before, mut then) = (figures(args)?, Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1).saturating_sub(then.elapsed()));
        let passed_s = then.elapsed().as_secs_f64();
        then = Instant::now();
        let now = figures(args)?;
        let rate = match args.class {
            Some(_) => (now.count - before.count) / passed_s,
            None => now.count,
        };
        let demand = rate > 0.0 || now.active > 0;
        let achieved = if args.latency { now.latency_ms } else { rate };
        post(Request::Post {
            application: args.application.clone(),
            achieved: demand.then_some(achieved),
            offered: None,
            age_ms: 0,
        })?;
        before = now;
    }
}
