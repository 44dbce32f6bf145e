//! `headworks tad watch`: one short recording after another, as a table.

use crate::cli::Watch;
use crate::record::{STOP, stop_on_signals};
use anyhow::Result;
use headworks_console::{Column, Ink, Table, count, duration, terminal_width};
use headworks_record::capture::{self, Options};
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{End, Meaning};
use headworks_record::infer::waits::Kind;
use headworks_record::infer::{Architecture, infer};
use headworks_record::trace::Trace;
use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Stages and blocked pairs that fit on a screen.
const ROWS: usize = 20;
const BLOCKED: usize = 10;

/// See the module.
pub fn watch(args: &Watch) -> Result<ExitCode> {
    stop_on_signals();
    let mut left = args.times;
    while left != Some(0) && !STOP.load(Ordering::Relaxed) {
        // A virtual machine is not attached to: it would be asked again at each look.
        let options = Options {
            follow: args.follow,
            ..Options::of(args.pid.clone(), args.every, args.budget, &STOP)
        };
        let trace = capture::record(&options, &mut |_| {})?;
        let found = infer(&trace, &Hints::default());
        let text = screen(&trace, &found);
        if stdout().is_terminal() {
            print!("\x1b[2J\x1b[H{text}");
        } else {
            println!("{text}");
        }
        if !args.pid.iter().any(|pid| capture::alive(*pid)) {
            println!("all of these processes ended");
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::SUCCESS)
}

fn screen(trace: &Trace, found: &Architecture) -> String {
    let ink = Ink { color: stdout().is_terminal() };
    let mut out = String::new();
    let requests: u64 = found.requests.iter().map(|(_, n)| n).sum();
    let _ = writeln!(
        out,
        "{} requests/s, {} switches/s, watching takes {:.2} % of the processors",
        count((requests as f64 / trace.head.counted_s.max(1e-9)) as u64),
        count(trace.head.switches_per_s as u64),
        trace.head.taken * 100.0
    );
    out += &stages(trace, found).render(terminal_width(), ink);
    let blocked = blocked(found);
    if !blocked.is_empty() {
        let _ = writeln!(out, "\n{}", ink.bold("Blocked"));
        for line in blocked.iter().take(BLOCKED) {
            let _ = writeln!(out, "  {line}");
        }
    }
    for what in &found.unseen {
        let _ = writeln!(out, "  not seen: {what}");
    }
    out
}

/// How many threads of each stage do what, on average.
fn stages(trace: &Trace, found: &Architecture) -> Table {
    let counted_ns = (trace.head.counted_s * 1e9).max(1.0);
    let mut table = Table::new(&[
        Column::left("STAGE"),
        Column::right("THREADS"),
        Column::right("RUN"),
        Column::right("READY"),
        Column::right("LOCK"),
        Column::right("DISK"),
        Column::right("ANSWERS"),
        Column::left("MOSTLY WAITS FOR"),
    ]);
    let mut order: Vec<usize> = (0..found.stages.stages.len()).collect();
    order.sort_by_key(|&id| std::cmp::Reverse(found.facts[id].cpu_ns));
    for id in order.into_iter().take(ROWS) {
        let (stage, facts) = (&found.stages.stages[id], &found.facts[id]);
        let of = |kind: Kind| Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
        let mean = |ns: u64| {
            let threads = ns as f64 / counted_ns;
            if threads < 0.005 { String::new() } else { format!("{threads:.2}") }
        };
        let most = Kind::ALL.iter().enumerate().max_by_key(|(at, _)| facts.asleep_ns[*at]);
        let most = most.filter(|(at, _)| facts.asleep_ns[*at] > 0);
        table.row(vec![
            stage.name.clone(),
            stage.most.to_string() + if stage.on_demand { "+" } else { "" },
            mean(facts.cpu_ns),
            mean(facts.queued_ns),
            mean(facts.asleep_ns[of(Kind::Lock)]),
            mean(facts.asleep_ns[of(Kind::Device)]),
            mean(facts.answers.1 + facts.own.1),
            most.map_or(String::new(), |(_, kind)| kind.name().to_owned()),
        ]);
    }
    table
}

/// What blocks what, the longest waits first.
fn blocked(found: &Architecture) -> Vec<String> {
    let name = |id: usize| &found.stages.stages[id].name;
    let mut lines: Vec<(u64, String)> = Vec::new();
    for lock in &found.locks {
        for (&stage, &(n, ns)) in &lock.waits {
            let mean = duration(ns as f64 / 1e6 / n.max(1) as f64);
            let line =
                format!("{} waits for the lock in {}: {n} times, {mean}", name(stage), lock.name);
            lines.push((ns, line));
        }
    }
    for permits in &found.permits {
        let mean = duration(permits.off_ns as f64 / 1e6 / permits.n.max(1) as f64);
        let (name, n) = (name(permits.stage), permits.n);
        lines.push((
            permits.off_ns,
            format!("{name} waits for {}: {n} times, {mean}", permits.name),
        ));
    }
    for arrow in found.arrows.iter().filter(|arrow| arrow.meaning == Meaning::Blocking) {
        let (End::Stage(from), End::Stage(to)) = (arrow.from, arrow.to) else { continue };
        let mean = duration(arrow.off_ns as f64 / 1e6 / arrow.n.max(1) as f64);
        let line = format!("{} waits for {}: {} times, {mean}", name(from), name(to), arrow.n);
        lines.push((arrow.off_ns, line));
    }
    lines.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    lines.into_iter().map(|(_, line)| line).collect()
}
