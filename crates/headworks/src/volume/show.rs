//! `volume list` and `volume stat`.

use super::control::{self, Figures, Request, Response};
use super::state::{self, Description, Named, Note};
use crate::cli;
use anyhow::Result;
use headworks_volume::engine::Count;
use serde::Serialize;

/// State of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Standing {
    /// Nothing runs.
    Stopped,
    /// Its device is there.
    Running,
    /// Its process is gone and has left remains.
    Crashed,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    state: Standing,
    #[serde(flatten)]
    note: Option<Note>,
    description: Option<Description>,
    figures: Option<Figures>,
}

fn look(volume: &Named) -> Shown {
    let running = volume.is_running();
    let note = volume.note();
    let state = match (running, &note) {
        (true, _) => Standing::Running,
        (false, Some(_)) => Standing::Crashed,
        (false, None) => Standing::Stopped,
    };
    let figures = if running {
        match control::ask(volume, Request::Stat) {
            Ok(Response::Figures(figures)) => Some(*figures),
            _ => None,
        }
    } else {
        None
    };
    Shown { name: volume.name.clone(), state, note, description: volume.read().ok(), figures }
}

/// A size for people.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Names the volumes.
pub fn list(args: &cli::Json) -> Result<()> {
    let shown: Vec<Shown> = state::all().iter().map(look).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    if shown.is_empty() {
        println!(
            "there are no volumes\n  create one: headworks volume create NAME --size 10G --backing FILE"
        );
        return Ok(());
    }
    let rows: Vec<[String; 5]> = shown.iter().map(row).collect();
    let head = ["NAME", "SIZE", "STATE", "DEVICE", "MOUNTED ON"].map(str::to_owned);
    let mut widths = [0; 5];
    for line in std::iter::once(&head).chain(&rows) {
        for (width, field) in widths.iter_mut().zip(line) {
            *width = (*width).max(field.chars().count());
        }
    }
    for line in std::iter::once(&head).chain(&rows) {
        let fields: Vec<String> =
            line.iter().zip(widths).map(|(field, width)| format!("{field:width$}")).collect();
        println!("{}", fields.join("  ").trim_end());
    }
    Ok(())
}

fn row(shown: &Shown) -> [String; 5] {
    let running = shown.note.as_ref().filter(|_| shown.state == Standing::Running);
    [
        shown.name.clone(),
        shown
            .description
            .as_ref()
            .map_or_else(|| "?".to_owned(), |known| bytes(known.volume.size_bytes)),
        match shown.state {
            Standing::Stopped => "stopped",
            Standing::Running => "running",
            Standing::Crashed => "crashed: headworks volume doctor",
        }
        .to_owned(),
        running.map_or_else(|| "-".to_owned(), Note::place),
        running
            .and_then(|note| note.mounted_on.as_ref())
            .map_or_else(|| "-".to_owned(), |dir| dir.display().to_string()),
    ]
}

/// Shows one volume.
pub fn stat(args: &cli::Stat) -> Result<()> {
    let (volume, description) = Named::existing(&args.name)?;
    let shown = look(&volume);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    let [name, size, state, device, mounted] = row(&shown);
    let config = &description.volume;
    println!("{name}: {size}, {state}, {device}, mounted on {mounted}");
    println!("  backing    {}", config.backing);
    println!(
        "  device     {}, scheduler {}, blocks of {} bytes",
        config.device, config.scheduler, config.block_bytes
    );
    for layer in &config.layers {
        println!("  layer      {layer}");
    }
    let Some(figures) = &shown.figures else { return Ok(()) };
    if let Some(allocated) = figures.allocated_bytes {
        println!("  takes      {}", bytes(allocated));
    }
    if figures.lead_us > 0.0 {
        println!("  front end  {:.1} µs of each modelled time", figures.lead_us);
    }
    if let Some(trouble) = &figures.trouble {
        println!("  TROUBLE    {trouble}");
    }
    if let Some(power) = &figures.power {
        println!(
            "  power      {}, {} not flushed",
            if power.on { "on" } else { "OFF" },
            bytes(power.unflushed_bytes)
        );
    }
    let counts = &figures.counts;
    for (name, count) in [
        ("read", &counts.read),
        ("write", &counts.write),
        ("flush", &counts.flush),
        ("discard", &counts.discard),
        ("zero", &counts.write_zeroes),
    ] {
        println!("  {name:10} {}", count_text(count));
    }
    println!(
        "  queue      {} not answered, {} at the device, {} merged so far",
        counts.outstanding, counts.in_flight, counts.merged
    );
    if let Some(causes) = &figures.causes {
        println!(
            "  causes     of instance {}: {} writes with an owner, {} without, clients waited for {}",
            causes.instance, causes.known, causes.unknown, causes.awaited
        );
        if let Some(trouble) = &causes.trouble {
            println!("  causes     nothing is learned now: {trouble}");
        }
    }
    for (layer, figures) in &figures.layers {
        for (name, value) in figures {
            println!("  layer {layer}: {name} {value:.1}");
        }
    }
    Ok(())
}

fn count_text(count: &Count) -> String {
    let mut text = format!("{} requests", count.requests);
    if count.bytes > 0 {
        text += &format!(", {}", bytes(count.bytes));
    }
    if count.errors > 0 {
        text += &format!(", {} failed", count.errors);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_written_in_the_largest_unit_that_fits() {
        assert_eq!(super::bytes(512), "512 B");
        assert_eq!(super::bytes(10 << 30), "10 GiB");
        assert_eq!(super::bytes(1_500_000), "1.4 MiB");
    }
}
