//! `volume replay`.

use super::state::Named;
use super::tunnel::Tunnel;
use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_policy::block::Operation;
use headworks_volume::layer::read_trace;
use headworks_volume::replay::{Pace, replay as play};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufReader, IsTerminal, stderr};

/// Replays a trace against a volume's engine in this process.
pub fn replay(args: &cli::Replay) -> Result<()> {
    let (volume, description) = Named::existing(&args.name)?;
    let file = std::fs::File::open(&args.trace)
        .with_context(|| format!("cannot open {}", args.trace.display()))?;
    let trace = read_trace(BufReader::new(file))
        .with_context(|| format!("{} is no trace of a record layer", args.trace.display()))?;
    let writes = trace
        .iter()
        .any(|traced| !matches!(traced.request.operation, Operation::Read | Operation::Flush));
    if writes && !args.overwrite && !description.volume.in_memory() {
        bail!(
            "the trace writes, which destroys what volume `{}` holds\n  if that is meant: --overwrite",
            volume.name
        );
    }
    let Some(_lock) = volume.lock()? else {
        bail!("volume `{0}` runs\n  end it first: headworks volume umount {0}", volume.name);
    };
    if args.speed.is_nan() || args.speed <= 0.0 {
        bail!("the speed must be greater than zero");
    }
    let tunnel = Tunnel::open(&description.volume, &volume.file("tunnel.sock"))?;
    let running = description.volume.start_by(tunnel.as_ref().map(Tunnel::socket))?;
    let bar = if stderr().is_terminal() {
        let style =
            ProgressStyle::with_template("{bar:30.blue} {pos} of {len} requests ({eta} left)")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(trace.len() as u64).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let pace = args.depth.map_or(Pace::Recorded(args.speed), Pace::Depth);
    let outcome = play(&running.engine, &trace, pace, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    drop(running);
    volume.clear();
    if args.json {
        let us = |ns: headworks_policy::Nanos| ns.0 as f64 / 1e3;
        println!(
            "{}",
            serde_json::json!({
                "requests": outcome.requests,
                "errors": outcome.errors,
                "outside": outcome.outside,
                "took_s": outcome.took.0 as f64 / 1e9,
                "latency_us_p50": us(outcome.latency_p50),
                "latency_us_p99": us(outcome.latency_p99),
            })
        );
        return Ok(());
    }
    println!(
        "{} requests in {}, {} failed; latency: median {}, p99 {}",
        outcome.requests, outcome.took, outcome.errors, outcome.latency_p50, outcome.latency_p99
    );
    if outcome.outside > 0 {
        println!("  {} requests lie outside the volume and were left out", outcome.outside);
    }
    Ok(())
}
