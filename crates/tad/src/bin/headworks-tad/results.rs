//! Results of a simulation, as tables for people.

use crate::cli::Remedies;
use headworks_console::{Column, Ink, Table, rate, sparkline};
use headworks_tad::scenario::{Change, Load, Scenario};
use headworks_tad::sim::{ClientOutcome, LoadOutcome, Outcome};
use headworks_tad::spread::Spread;
use std::fmt::Write;
use std::io::IsTerminal;

/// Blocks of a sparkline.
const SPARK: usize = 40;

/// A resource with less use than this gets no line.
const USED: f64 = 0.005;

/// All tables. Several runs give means, and for throughput the range.
pub fn text(scenario: &Scenario, remedies: &Remedies, runs: &[Outcome]) -> String {
    let ink = Ink { color: std::io::stdout().is_terminal() };
    let width = headworks_console::terminal_width();
    let first = &runs[0];
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} with {}{}: {:.0} s counted, {}",
        ink.bold(&first.system),
        ink.bold(&first.scenario),
        changed(remedies),
        first.counted_s,
        if runs.len() == 1 {
            format!("seed {}", first.seed)
        } else {
            format!("means of {} seeds from {}", runs.len(), first.seed)
        }
    );
    if !scenario.about.is_empty() {
        let _ = writeln!(out, "{}", ink.faint(&scenario.about));
    }
    let mut section = |title: &str, body: String| {
        let _ = write!(out, "\n{}\n{body}", ink.bold(title));
    };
    section("Clients", clients(scenario, runs).render(width, ink));
    section("Resources", resources(runs).render(width, ink));
    section("Stages", stages(runs).render(width, ink));
    section("Over time", series(first));
    out
}

/// The remedies that changed the system.
fn changed(remedies: &Remedies) -> String {
    let letters = remedies.maat.iter().map(|letters| format!(", Maat [{letters}]"));
    let others = remedies.remedy.iter().map(|remedy| format!(", {remedy}"));
    letters.chain(others).collect()
}

fn mean(runs: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}

/// For each load of a client, the counted time in which it is issued. The order is that of the
/// results: the loads of the start, then those of each change.
fn spans(scenario: &Scenario, client: usize) -> Vec<(u64, u64)> {
    let mut spans = vec![(0, scenario.duration_ns); scenario.clients[client].loads.len()];
    let mut current = 0;
    for (at_ns, change) in &scenario.changes {
        let Change::Loads { client: changed, loads } = change else { continue };
        if *changed != client {
            continue;
        }
        spans[current..].iter_mut().for_each(|(_, end_ns)| *end_ns = *at_ns);
        current = spans.len();
        spans.extend(loads.iter().map(|_| (*at_ns, scenario.duration_ns)));
    }
    spans
}

fn clients(scenario: &Scenario, runs: &[Outcome]) -> Table {
    let mut columns = vec![
        Column::left("CLIENT"),
        Column::right("WEIGHT"),
        Column::left("LOAD"),
        Column::right("REQ/S"),
        Column::right("MEAN"),
        Column::right("P95"),
        Column::right("P99"),
    ];
    if runs.len() > 1 {
        columns.push(Column::right("± 95 %"));
    }
    let gives_up = |load: &Load| load.patience.is_some();
    let given_up = scenario.clients.iter().flat_map(|client| &client.loads).any(gives_up);
    if given_up {
        columns.extend([Column::right("TIME-OUTS/S"), Column::right("FAILED/S")]);
    }
    let mut table = Table::new(&columns);
    for (id, client) in runs[0].clients.iter().enumerate() {
        let spans = spans(scenario, id);
        for (at, load) in client.loads.iter().enumerate() {
            let (from_ns, to_ns) = spans.get(at).copied().unwrap_or((0, scenario.duration_ns));
            let counted_s = to_ns.saturating_sub(from_ns.max(scenario.warmup_ns)) as f64 / 1e9;
            // The record counts every load over the whole time; the table counts it over its own.
            let part = if counted_s > 0.0 { runs[0].counted_s / counted_s } else { 1.0 };
            let when = match (from_ns, to_ns == scenario.duration_ns) {
                (0, true) => String::new(),
                (0, false) => format!(", to {} s", to_ns as f64 / 1e9),
                _ => format!(", from {} s", from_ns as f64 / 1e9),
            };
            let of = |value: fn(&LoadOutcome) -> f64| {
                mean(runs, |run| value(&run.clients[id].loads[at]))
            };
            // Means over seeds, of a mean and of percentiles: enough for a table. The JSON has all
            // values.
            let mut row = vec![
                client.name.clone(),
                client.weight.to_string(),
                load.name.clone() + &when,
                rate(of(|load| load.throughput_per_s) * part),
                ms(of(|load| load.latency_ms_mean)),
                ms(of(|load| load.latency_ms_p95)),
                ms(of(|load| load.latency_ms_p99)),
            ];
            if runs.len() > 1 {
                let all = runs.iter().map(|run| run.clients[id].loads[at].throughput_per_s * part);
                row.push(Spread::of(all).half_95.map_or_else(String::new, rate));
            }
            if given_up {
                let counted_s = runs[0].counted_s / part;
                row.push(rate(of(|load| load.timeouts as f64) / counted_s));
                row.push(rate(of(|load| load.failed as f64) / counted_s));
            }
            table.row(row);
        }
    }
    table
}

fn resources(runs: &[Outcome]) -> Table {
    let mut table = Table::new(&[
        Column::left("NODE"),
        Column::left("RESOURCE"),
        Column::right("USED"),
        Column::left("OF THAT"),
    ]);
    for (at, resource) in runs[0].resources.iter().enumerate() {
        let used = mean(runs, |run| run.resources[at].utilization);
        if used < USED {
            continue;
        }
        let shares = runs[0].clients.iter().enumerate().map(|(client, named)| {
            let share = mean(runs, |run| run.resources[at].shares[client]);
            format!("{} {:.0} %", named.name, share * 100.0)
        });
        table.row(vec![
            resource.node.clone(),
            resource.name.clone(),
            format!("{:.0} %", used * 100.0),
            shares.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

fn stages(runs: &[Outcome]) -> Table {
    let mut table = Table::new(&[
        Column::left("STAGE"),
        Column::left("WAITING"),
        Column::left("THREADS BUSY OR BLOCKED"),
    ]);
    for (at, stage) in runs[0].stages.iter().enumerate() {
        let by_client = |value: &dyn Fn(&Outcome, usize) -> f64| -> Option<String> {
            let each: Vec<f64> = (0..runs[0].clients.len())
                .map(|client| mean(runs, |run| value(run, client)))
                .collect();
            if each.iter().all(|value| *value < 0.05) {
                return None;
            }
            let named = runs[0].clients.iter().zip(each);
            let words = named.map(|(client, value)| format!("{} {value:.1}", client.name));
            Some(words.collect::<Vec<_>>().join(", "))
        };
        let waiting = by_client(&|run, client| run.stages[at].waiting[client]);
        let serving = by_client(&|run, client| run.stages[at].serving[client]);
        if waiting.is_some() || serving.is_some() {
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            table.row(vec![stage.name.clone(), or_dash(waiting), or_dash(serving)]);
        }
    }
    table
}

/// Throughput by client on one scale, and each important resource on the scale of its capacity.
fn series(run: &Outcome) -> String {
    let top = run.clients.iter().flat_map(|client| &client.series_per_s);
    let top = top.copied().fold(0.0, f64::max);
    let mut lines: Vec<(String, String, String)> = Vec::new();
    for client in &run.clients {
        let spark = sparkline(&client.series_per_s, top, SPARK);
        lines.push((client.name.clone(), spark, format!("req/s to {}", rate(top))));
    }
    let tails: Vec<Vec<f64>> = run.clients.iter().map(tails).collect();
    let longest = tails.iter().flatten().copied().fold(0.0, f64::max);
    for (client, tails) in run.clients.iter().zip(&tails) {
        let spark = sparkline(tails, longest, SPARK);
        lines.push((format!("{} p99", client.name), spark, format!("to {}", ms(longest))));
    }
    for resource in run.resources.iter().filter(|resource| resource.utilization >= 0.05) {
        let used: Vec<f64> = resource.series.iter().map(|[mean, _, _]| *mean).collect();
        let name = format!("{} {}", resource.node, resource.name);
        lines.push((name, sparkline(&used, 1.0, SPARK), "used".to_owned()));
    }
    let wide = lines.iter().map(|(name, _, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, spark, what) in lines {
        let _ = writeln!(out, "  {name:<wide$}  {spark}  {what}");
    }
    out
}

/// The longest 99th percentile of a client's loads in each interval; zero if none was answered.
fn tails(client: &ClientOutcome) -> Vec<f64> {
    let mut tails = Vec::new();
    for load in &client.loads {
        tails.resize(load.latency_ms_series.len().max(tails.len()), 0.0f64);
        for (tail, latencies) in tails.iter_mut().zip(&load.latency_ms_series) {
            *tail = latencies.map_or(*tail, |[_, p99]| tail.max(p99));
        }
    }
    tails
}

/// One line for each value of a sweep and each client.
pub fn sweep(name: &str, scenario: &Scenario, steps: &[(String, Vec<Outcome>)]) -> String {
    let ink = Ink { color: std::io::stdout().is_terminal() };
    let mut table = Table::new(&[
        Column::right("VALUE"),
        Column::left("CLIENT"),
        Column::right("REQ/S"),
        Column::right("± 95 %"),
        Column::right("P99"),
        Column::left("MOST USED"),
    ]);
    for (value, runs) in steps {
        let used = |at: usize| mean(runs, |run| run.resources[at].utilization);
        let most = (0..runs[0].resources.len()).max_by(|a, b| used(*a).total_cmp(&used(*b)));
        let most = most.map_or_else(String::new, |at| {
            let resource = &runs[0].resources[at];
            format!("{} {} {:.0} %", resource.node, resource.name, used(at) * 100.0)
        });
        for (id, client) in scenario.clients.iter().enumerate() {
            let spread = Spread::of(runs.iter().map(|run| run.clients[id].throughput_per_s));
            let tail = |run: &Outcome| {
                run.clients[id].loads.iter().map(|load| load.latency_ms_p99).fold(0.0, f64::max)
            };
            let first = id == 0;
            table.row(vec![
                if first { value.clone() } else { String::new() },
                client.name.clone(),
                rate(spread.mean),
                spread.half_95.map_or_else(String::new, rate),
                ms(mean(runs, tail)),
                if first { most.clone() } else { String::new() },
            ]);
        }
    }
    let (system, with) = (&steps[0].1[0].system, &scenario.name);
    let body = table.render(headworks_console::terminal_width(), ink);
    format!("{} with {}: {name}\n\n{body}", ink.bold(system), ink.bold(with))
}

/// A latency.
pub fn ms(value: f64) -> String {
    headworks_console::duration(value)
}
