//! `volume list` and `volume stat`.

use super::causes;
use super::control::{self, Figures, Request, Response};
use super::state::{self, Description, Named, Note};
use crate::cli;
use crate::render::printable;
use anyhow::Result;
use headworks_console::{Column, Sheet};
use headworks_region::clock;
use headworks_volume::engine::Count;
use headworks_volume::reach::Reach;
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

/// What is known of a volume.
#[derive(Debug, Serialize)]
pub struct Shown {
    name: String,
    state: Standing,
    #[serde(flatten)]
    note: Option<Note>,
    description: Option<Description>,
    figures: Option<Figures>,
    /// Time of the machine's monotonic clock.
    at_s: f64,
}

fn look(volume: &Named) -> Shown {
    let running = volume.is_running();
    let mut note = volume.note();
    if let Some(note) = note.as_mut().filter(|note| note.device.is_some()) {
        // Its number may be another volume's by now.
        note.device = volume.device();
    }
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
    let (name, description) = (volume.name.clone(), volume.read().ok());
    Shown { name, state, note, description, figures, at_s: clock::now().as_millis_f64() / 1e3 }
}

/// The volumes that run.
pub fn running() -> Vec<Shown> {
    state::all_run().iter().filter(|volume| volume.is_running()).map(look).collect()
}

/// What passed through volumes between two looks, the older one first.
pub fn sheet(before: &[Shown], now: &[Shown]) -> Sheet {
    let numbers = ["READ/S", "MB/S", "WRITE/S", "MB/S", "FLUSH/S", "FAILED", "WAIT", "AT DEVICE"];
    let mut columns = vec![Column::left("NAME"), Column::left("DEVICE"), Column::left("QUEUE")];
    columns.extend(numbers.map(Column::right));
    columns.push(Column::left("MOUNTED ON"));
    let trouble = |volume: &Shown| {
        let trouble = volume.figures.as_ref()?.trouble.as_ref()?;
        Some(format!("{}: {}", volume.name, printable(trouble)))
    };
    let earlier = |volume: &Shown| before.iter().find(|known| known.name == volume.name);
    Sheet {
        title: match now.len() {
            0 => "no volume runs; mount one: headworks volume mount NAME DIR".to_owned(),
            1 => "1 volume runs".to_owned(),
            many => format!("{many} volumes run"),
        },
        notes: now.iter().filter_map(trouble).collect(),
        columns,
        rows: now.iter().filter_map(|volume| passed(earlier(volume)?, volume)).collect(),
    }
}

/// The row of a volume; `None` if it did not answer.
fn passed(before: &Shown, now: &Shown) -> Option<Vec<String>> {
    let (was, counts) = (&before.figures.as_ref()?.counts, &now.figures.as_ref()?.counts);
    let seconds = (now.at_s - before.at_s).max(1e-3);
    let per = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let requests = |now: &Count, was: &Count| format!("{:.0}", per(now.requests, was.requests));
    let moved = |now: &Count, was: &Count| format!("{:.2}", per(now.bytes, was.bytes) / 1e6);
    let all = [counts.read, counts.write, counts.flush, counts.discard, counts.write_zeroes];
    let config = now.description.as_ref().map(|known| &known.volume);
    let mounted = now.note.as_ref().and_then(|note| note.mounted_on.as_ref());
    Some(vec![
        now.name.clone(),
        config.map_or_else(String::new, |config| config.device.clone()),
        config.map_or_else(String::new, |config| config.scheduler.clone()),
        requests(&counts.read, &was.read),
        moved(&counts.read, &was.read),
        requests(&counts.write, &was.write),
        moved(&counts.write, &was.write),
        requests(&counts.flush, &was.flush),
        all.map(|count| count.errors).iter().sum::<u64>().to_string(),
        counts.outstanding.saturating_sub(counts.in_flight).to_string(),
        counts.in_flight.to_string(),
        mounted.map_or_else(|| "-".to_owned(), |dir| printable(&dir.display().to_string())),
    ])
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

/// Part of the model's time by which commands may be late, and programs still see the model.
const LATE: f64 = 0.15;

/// Why programs see another speed than the model's, and what helps. Empty if they see the model's.
pub fn not_the_model(name: &str, figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reach) = figures.reach.filter(Reach::falls_short) {
        lines.push(format!(
            "the model does {:.0} random reads of 16 KiB a second, and {:.0} arrive through FUSE and the \
             loop device ({:.2})",
            reach.model_per_s,
            reach.arrived_per_s,
            reach.part()
        ));
        lines.push(format!(
            "a shorter way: headworks volume serve {name} --nbd unix:SOCKET; or a slower --device"
        ));
    }
    if let Some(part) = figures.counts.lateness.part().filter(|&part| part > LATE) {
        lines.push(format!(
            "requests were late by {part:.2} of the model's time: backing or processors do not keep \
             up; try fewer requests at a time, a faster --backing or a slower --device"
        ));
    }
    lines
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
    if figures.ring {
        println!("  front end  by io_uring");
    }
    if figures.lead_us > 0.0 {
        println!("  front end  {:.1} µs of each modelled time", figures.lead_us);
    }
    for line in not_the_model(&volume.name, figures) {
        println!("  TOO FAST   {line}");
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
    figures.causes.iter().for_each(show_causes);
    for (layer, figures) in &figures.layers {
        for (name, value) in figures {
            println!("  layer {layer}: {name} {value:.1}");
        }
    }
    Ok(())
}

fn show_causes(causes: &causes::Figures) {
    println!(
        "  causes     of instance {}: {} writes with an owner, {} without, clients waited for {}",
        causes.instance, causes.known, causes.unknown, causes.critical
    );
    if !causes.applications.is_empty() {
        let names: Vec<&str> = causes.applications.values().map(String::as_str).collect();
        println!(
            "  causes     {} requests of applications that its rules name: {}",
            causes.tagged,
            names.join(", ")
        );
    }
    if let Some(trouble) = &causes.trouble {
        println!("  causes     nothing is learned now: {trouble}");
    }
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
