//! The report for people.

use headworks_console::{
    Column, Ink, Table, count, duration, maybe_duration, rate, sparkline, terminal_width,
};
use headworks_record::draw::Match;
use headworks_record::report::{Arrow, Report};
use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::path::Path;

/// Rows of a table; the rest is in the JSON.
const ROWS: usize = 40;

/// Blocks of a sparkline.
const SPARK: usize = 24;

/// See the module.
pub fn text(report: &Report, file: &Path) -> String {
    let ink = Ink { color: stdout().is_terminal() };
    let mut out = String::new();
    let _ = writeln!(out, "{} {}", ink.bold("What limits:"), report.answer);
    for doubt in &report.doubts {
        let _ = writeln!(out, "{} {doubt}", ink.bold("does not fit:"));
    }
    for note in &report.notes {
        let _ = writeln!(out, "{note}");
    }
    let _ = writeln!(
        out,
        "{:.1} s, counted for {:.1} s at {} switches/s; recording took {:.2} % of the processors, \
         this program {:.2} %",
        report.seconds,
        report.counted_s,
        count(report.switches_per_s as u64),
        report.taken * 100.0,
        report.own * 100.0
    );
    for (title, table) in [
        ("Stages", stages(report)),
        ("Threads over time", over_time(report)),
        ("Arrows", arrows(report)),
        ("Past queues", past(report)),
        ("Locks", locks(report)),
        ("In Java, threads waited on", monitors(report)),
        ("Load", loads(report)),
    ] {
        if !table.is_empty() {
            let _ = writeln!(out, "\n{}", ink.bold(title));
            out += &table.render(terminal_width(), ink);
        }
    }
    for load in &report.loads {
        out += &requests(load);
    }
    if let Some(share) = report.null_share {
        let _ = writeln!(
            out,
            "\nwarning: {:.0} % of the processor time is of threads that no stage explains: name \
             them by --hints",
            share * 100.0
        );
    }
    if !report.unseen.is_empty() {
        let _ = writeln!(out, "\n{}", ink.bold("Not seen"));
        for what in &report.unseen {
            let _ = writeln!(out, "  {what}");
        }
    }
    if !report.left_out.is_empty() {
        let _ = writeln!(out, "\nleft out, as they did nothing: {}", report.left_out.join(", "));
    }
    if !report.scheduled.is_empty() {
        let _ = writeln!(out, "\nscheduled by a plug-in: {}", report.scheduled.join(", "));
    }
    let file = file.display();
    let _ = writeln!(out, "\nlook at it:   headworks tad render {file} -o {file}.svg");
    let _ = writeln!(out, "its problems: headworks tad check {file}");
    let _ = writeln!(out, "its limits:   headworks tad limits {file} --scenario …");
    out
}

fn stages(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("STAGE"),
        Column::left("PROGRAM"),
        Column::right("THREADS"),
        Column::right("CPU"),
        Column::right("DISK"),
        Column::left("KNOWN BY"),
        Column::left("SURE"),
    ]);
    let mut stages: Vec<_> = report.stages.iter().collect();
    stages.sort_by(|a, b| b.cpu_ms.total_cmp(&a.cpu_ms));
    for stage in stages.into_iter().take(ROWS) {
        let threads = stage.threads.to_string() + if stage.on_demand { "+" } else { "" };
        table.row(vec![
            stage.name.clone(),
            stage.program.clone(),
            threads,
            duration(stage.cpu_ms),
            if stage.bios > 0 { count(stage.bios) } else { String::new() },
            stage.basis.to_owned(),
            stage.confidence.to_owned(),
        ]);
    }
    table
}

/// Threads that are alive, and those that run or are ready to: a full block is the most of them.
fn over_time(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("STAGE"),
        Column::right("ALIVE"),
        Column::right("ACTIVE"),
        Column::right("MOST"),
        Column::left("ACTIVE OVER TIME"),
    ]);
    let mut stages: Vec<_> = report.stages.iter().collect();
    stages.sort_by(|a, b| b.cpu_ms.total_cmp(&a.cpu_ms));
    for stage in stages.into_iter().take(ROWS) {
        let Some(over) = &stage.over_time else { continue };
        let (least, most) = over.alive();
        let highest = over.active.iter().copied().fold(0.0, f64::max);
        table.row(vec![
            stage.name.clone(),
            if least < most { format!("{least} to {most}") } else { most.to_string() },
            format!("{:.2}", over.active()),
            format!("{highest:.2}"),
            // Before the first moment there was no time.
            sparkline(over.active.get(1..).unwrap_or_default(), highest, SPARK),
        ]);
    }
    table
}

fn arrows(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("FROM"),
        Column::left(""),
        Column::left("TO"),
        Column::right("TIMES"),
        Column::right("MEAN WAIT"),
        Column::left("BY"),
        Column::left("SURE"),
    ]);
    let meaning = |arrow: &Arrow| if arrow.blocking { "waits for" } else { "->" };
    for arrow in report.arrows.iter().take(ROWS) {
        table.row(vec![
            arrow.from.clone(),
            meaning(arrow).to_owned(),
            arrow.to.clone(),
            count(arrow.n),
            if arrow.mean_us > 0.0 { duration(arrow.mean_us / 1e3) } else { String::new() },
            arrow.by.to_owned(),
            match arrow.confirmed {
                Some(true) => format!("{}, confirmed", arrow.confidence),
                Some(false) => format!("{}, not confirmed", arrow.confidence),
                None => arrow.confidence.to_owned(),
            },
        ]);
    }
    table
}

/// In which part of the calls of one stage to another the queue of a third is passed by.
fn past(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("FROM"),
        Column::left("PAST"),
        Column::left("TO"),
        Column::right("OF ITS CALLS"),
        Column::left("SURE"),
    ]);
    for past in report.past.iter().take(ROWS) {
        table.row(vec![
            past.from.clone(),
            past.queue.clone(),
            past.to.clone(),
            format!("{:.0} %", past.share * 100.0),
            past.confidence.to_owned(),
        ]);
    }
    table
}

/// As recorded and as simulated: how far the simulation can be trusted at this load.
fn loads(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("COMES TO"),
        Column::right("CLIENTS"),
        Column::right("REQUESTS/S"),
        Column::right("SIMULATED"),
        Column::right("ANSWER"),
        Column::right("SIMULATED"),
    ]);
    for load in report.loads.iter().take(ROWS) {
        table.row(vec![
            load.name.clone(),
            load.threads.to_string(),
            rate(load.per_s),
            load.simulated.map_or("-".to_owned(), |(per_s, _)| rate(per_s)),
            maybe_duration(load.answer_ms),
            maybe_duration(load.simulated.map(|(_, ms)| ms)),
        ]);
    }
    table
}

/// How sure the number of requests is.
fn requests(load: &Match) -> String {
    let Match { name, per_s, within, least, .. } = load;
    if let Some(why) = least {
        return format!("{name}: at least {} requests/s: {why}\n", rate(per_s * (1.0 - within)));
    }
    let (low, high) = (per_s * (1.0 - within), per_s * (1.0 + within));
    format!(
        "{name}: about {} requests/s ({} to {}), each a message for whose answer a client waits\n",
        rate(*per_s),
        rate(low.max(0.0)),
        rate(high)
    )
}

fn locks(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("WAITED FOR IN"),
        Column::right("LOCKS"),
        Column::right("TIMES"),
        Column::right("MEAN"),
        Column::right("LONGEST"),
        Column::left("BY"),
    ]);
    for lock in report.locks.iter().take(ROWS) {
        let n: u64 = lock.stages.iter().map(|(_, n, _)| n).sum();
        let ms: f64 = lock.stages.iter().map(|(.., ms)| ms).sum();
        let names: Vec<&str> = lock.stages.iter().map(|(name, ..)| name.as_str()).collect();
        table.row(vec![
            lock.name.clone(),
            lock.locks.to_string(),
            count(n),
            duration(ms / n.max(1) as f64),
            duration(lock.max_ms),
            names.join(", "),
        ]);
    }
    table
}

fn monitors(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::left("CLASS"),
        Column::left("STAGE"),
        Column::left("IN"),
        Column::right("TIMES"),
        Column::right("MEAN"),
        Column::right("LONGEST"),
        Column::left("UNTIL"),
    ]);
    for monitor in report.monitors.iter().take(ROWS) {
        table.row(vec![
            monitor.class.clone(),
            monitor.stage.clone(),
            monitor.function.clone(),
            count(monitor.n),
            duration(monitor.ms / monitor.n.max(1) as f64),
            duration(monitor.max_ms),
            monitor.waker.clone().unwrap_or_default(),
        ]);
    }
    table
}
