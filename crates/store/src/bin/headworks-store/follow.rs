//! Posts what a database behind the gate achieves, second by second.

use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_console::find_program;
use headworks_store::control::Request;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the gate's status says of a class, or of all sessions.
#[derive(Clone, Copy)]
struct Figures {
    /// Requests since the start, or turns a second.
    count: f64,
    /// Median, in milliseconds.
    latency_ms: f64,
    /// Sessions that are inside or wait.
    active: u64,
}

fn status(args: &cli::Follow) -> Result<serde_json::Value> {
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
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn figures(args: &cli::Follow, status: &serde_json::Value) -> Result<Figures> {
    let (of, key) = match &args.class {
        None => (status, "turns_per_s"),
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

/// Which gate that is. Without a name it must be this user's own.
fn gate(args: &cli::Follow, status: &serde_json::Value) -> Result<String> {
    let instance = status["instance"].as_str().unwrap_or("?");
    let pid = |key: &str| status[key].as_u64().filter(|pid| *pid > 0);
    let owner = pid("daemon_pid").and_then(|pid| fs::metadata(format!("/proc/{pid}")).ok());
    // SAFETY: it reads an attribute of this process, and cannot fail.
    let own = unsafe { libc::geteuid() };
    if let Some(other) = owner.map(|about| about.uid()).filter(|uid| *uid != own)
        && args.name.is_none()
    {
        bail!(
            "the only gate that runs, `{instance}`, is of another user (uid {other})\n  if it is meant: \
             headworks store follow {} --name {instance}",
            args.application
        );
    }
    let server = pid("server_pid").map_or_else(String::new, |pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!(" ({}, process {pid})", name.trim())
    });
    Ok(format!("the gate `{instance}`{server}"))
}

/// Until it is ended. A store, or a gate, that is away comes back.
pub fn run(args: &cli::Follow, mut post: impl FnMut(Request) -> Result<()>) -> Result<()> {
    let status = status(args)?;
    let what = match (&args.class, args.latency) {
        (Some(class), false) => format!("requests a second of class {class}"),
        (Some(class), true) => format!("median latency of class {class}, in ms"),
        (None, false) => "turns a second of all sessions".to_owned(),
        (None, true) => "median latency of all sessions, in ms".to_owned(),
    };
    let (mut before, mut then) = (Some(figures(args, &status)?), Instant::now());
    println!("{} follows {}: {what}", args.application, gate(args, &status)?);
    let (mut trouble, mut posted) = (None, false);
    loop {
        std::thread::sleep(Duration::from_secs(1).saturating_sub(then.elapsed()));
        let passed_s = then.elapsed().as_secs_f64();
        then = Instant::now();
        let mut once = || -> Result<()> {
            let now = self::status(args).and_then(|status| figures(args, &status))?;
            let Some(before) = before.replace(now) else { return Ok(()) };
            let rate = match args.class {
                // The gate may have begun again.
                Some(_) => ((now.count - before.count) / passed_s).max(0.0),
                None => now.count,
            };
            let demand = rate > 0.0 || now.active > 0;
            let achieved = if args.latency { now.latency_ms } else { rate };
            post(Request::Post {
                application: args.application.clone(),
                achieved: demand.then_some(achieved),
                offered: None,
                age_ms: 0,
            })
        };
        match once() {
            Ok(()) => {
                if trouble.take().is_some() {
                    eprintln!("headworks-store: {}: posts go on", args.application);
                }
                posted = true;
            }
            Err(error) if !posted => return Err(error),
            Err(error) => {
                let words = format!("{error:#}");
                if trouble.as_ref() != Some(&words) {
                    eprintln!("headworks-store: {}: nothing is posted: {words}", args.application);
                }
                (trouble, before) = (Some(words), None);
            }
        }
    }
}
