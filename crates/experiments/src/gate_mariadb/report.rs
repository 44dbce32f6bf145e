//! `report.html`: the result for a reader who has only this page.

use headworks_rig::machine::{Load, Pressure};

use super::analyse::{Row, ratio, row};
use super::arms::Config;
use super::draw::thousands;
use super::record::{Record, Round};
use crate::html::{escape, mark, page, table};
use crate::metrics::median;
use crate::record::utc;

/// Everything between the tags of the body.
fn page_body(record: &Record, rows: &[Row], svg: &str) -> String {
    let header = &record.header;
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&header.title), lead(rows));
    body += &format!(
        "<p class=\"faint\">{} · {}</p>\n",
        utc(header.recorded_at_unix_s),
        escape(&header.machine.cpu_model)
    );
    if header.quick {
        body += "<p class=\"warning\">This was a quick run. It shows that everything works; its numbers are no \
                 measurement.</p>\n";
    }
    body += &format!("<div class=\"picture\">{svg}</div>\n");
    body += &format!("<h2>Promises and results</h2>\n{}", verdict_table(record));
    body += &format!("<h2>All numbers</h2>\n{}", number_table(rows));
    body += "<p class=\"faint\">Medians over the rounds. Latency runs from the begin of a transaction's first attempt to \
             the answer to its COMMIT, as the client sees it, so retries and waiting in the gate are part of it. U_f is \
             the largest deviation of one user's requests from the mean of all users, relative to that mean; CV is the \
             coefficient of variation of each user's latencies, averaged over users.</p>\n";
    body += &format!("<h2>Where and how</h2>\n{}", machine_table(record));
    body += &format!("<h2>How busy the machine was</h2>\n{}", load_table(record));
    body += &format!("<h2>Do it again</h2>\n<pre>{}</pre>\n", escape(&commands(record)));
    body += "<p>The raw record is <a href=\"gate-mariadb.json\">gate-mariadb.json</a>: every latency of every user. \
             <code>headworks bench report DIR</code> analyses and draws it again.</p>\n";
    body
}

/// The page as a file.
pub(crate) fn page_file(record: &Record, rows: &[Row], svg: &str) -> String {
    page(&record.header.title, &page_body(record, rows, svg))
}

/// The result in one sentence, or what is missing for it.
fn lead(rows: &[Row]) -> String {
    let tps = ratio(rows, Config::Gated, Config::Ungated, |n| n.throughput_tps);
    let p95 = ratio(rows, Config::Gated, Config::Ungated, |n| n.p95_ms);
    let fair = |config| row(rows, config).and_then(|row| row.median.unfairness);
    match (tps, p95, fair(Config::Gated), fair(Config::Ungated)) {
        (Some(tps), Some(p95), Some(gated), Some(ungated)) => format!(
            "256 users on the same server and data: behind the gate, <b>{tps:.2} ×</b> the throughput of MariaDB as it is, \
             <b>{p95:.2} ×</b> its p95 latency, and an unfairness of <b>{gated:.3}</b> instead of {ungated:.3}."
        ),
        _ => "The arms behind the gate did not run, so there is nothing to compare.".to_owned(),
    }
}

fn verdict_table(record: &Record) -> String {
    let rows: Vec<_> = record
        .verdicts
        .iter()
        .map(|verdict| {
            let ours = verdict.ours.map_or("–".to_owned(), |value| format!("<b>{value:.3}</b>"));
            let cells = vec![
                mark(verdict.holds).to_owned(),
                escape(&verdict.statement),
                format!("{ours}<br><span class=\"faint\">{}</span>", escape(&verdict.unit)),
                escape(&verdict.paper),
                format!("<span class=\"faint\">{}</span>", escape(&verdict.note)),
            ];
            (String::new(), cells)
        })
        .collect();
    table(&["", "promise", "measured", "the paper", "note"], &rows, 5)
}

fn number_table(rows: &[Row]) -> String {
    let head = [
        "arm",
        "users",
        "tx/s",
        "× as it is",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "U_f",
        "latency CV",
        "retries",
    ];
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let n = &row.median;
            let versus = ratio(rows, row.config, row.config.baseline(), |n| n.throughput_tps);
            let optional = |value: Option<f64>, digits: usize| {
                value.map_or("–".to_owned(), |v| format!("{v:.digits$}"))
            };
            let cells = vec![
                escape(row.config.label()),
                row.users.to_string(),
                thousands(n.throughput_tps),
                optional(versus, 2),
                thousands(n.p50_ms),
                thousands(n.p95_ms),
                thousands(n.p99_ms),
                thousands(n.max_ms),
                optional(n.unfairness, 3),
                optional(n.latency_cv, 2),
                format!("{:.2} %", n.retries_percent),
            ];
            (if row.config.is_gated() { "ours" } else { "" }.to_owned(), cells)
        })
        .collect();
    table(&head, &cells, 1)
}

fn machine_table(record: &Record) -> String {
    let (machine, workload) = (&record.header.machine, &record.workload);
    let chosen = |value: Option<String>| value.unwrap_or_else(|| "chosen by the gate".to_owned());
    let lines = [
        (
            "machine",
            format!("{}, {} cores, {} MiB", machine.cpu_model, machine.cores, machine.memory_mib),
        ),
        ("system", format!("{}, Linux {}", machine.distribution, machine.kernel)),
        ("server", format!("{} {}", record.software.mariadb, workload.server_options.join(" "))),
        ("clients", format!("{}; {}", record.software.sysbench, workload.description)),
        (
            "data and time",
            format!(
                "{} tables of {} rows; {} s of warm-up, {} s measured; the server restarted before every run",
                workload.tables,
                thousands(f64::from(workload.rows_per_table)),
                workload.warm_up_s,
                workload.window_s
            ),
        ),
        ("parallelism P", chosen(workload.parallelism.map(|value| value.to_string()))),
        ("quota ζ", chosen(workload.quota.map(|value| value.to_string()))),
    ];
    let rows: Vec<_> = lines
        .into_iter()
        .map(|(name, value)| (String::new(), vec![format!("<b>{name}</b>"), escape(&value)]))
        .collect();
    table(&[], &rows, 2)
}

/// Stall shares inside the window, from the kernel's running totals.
fn load_table(record: &Record) -> String {
    let head = [
        "arm",
        "users",
        "CPU some",
        "CPU full",
        "I/O some",
        "I/O full",
        "memory some",
        "load average",
    ];
    let rows: Vec<_> = record
        .arms
        .iter()
        .map(|arm| {
            let share = |total: fn(&Load) -> u64| {
                let shares: Vec<f64> =
                    arm.rounds.iter().map(|round| stall_percent(round, total)).collect();
                format!("{:.1} %", median(&shares).unwrap_or_default())
            };
            let averages: Vec<f64> =
                arm.rounds.iter().map(|round| round.load_at_window_end.load_average_1min).collect();
            let cells = vec![
                escape(arm.config.label()),
                arm.users.to_string(),
                share(|load| load.cpu.some_total_us),
                share(|load| load.cpu.full_total_us),
                share(|load| load.io.some_total_us),
                share(|load| load.io.full_total_us),
                share(|load| load.memory.some_total_us),
                format!("{:.1}", median(&averages).unwrap_or_default()),
            ];
            (String::new(), cells)
        })
        .collect();
    let mut out = table(&head, &rows, 1);
    out += "<p class=\"faint\">Share of the measured time in which some task, or all tasks, waited for a resource \
            (pressure stall information of the kernel), median over the rounds.</p>\n";
    if record
        .arms
        .iter()
        .flat_map(|arm| &arm.rounds)
        .all(|round| round.load_at_window_end.cpu == Pressure::default())
    {
        out += "<p class=\"faint\">This kernel reports no pressure.</p>\n";
    }
    out
}

fn stall_percent(round: &Round, total: fn(&Load) -> u64) -> f64 {
    let stalled_us =
        total(&round.load_at_window_end).saturating_sub(total(&round.load_at_window_begin));
    stalled_us as f64 / (round.window_s * 1e6) * 100.0
}

fn commands(record: &Record) -> String {
    let mut run = format!("headworks bench run {} --seed {}", record.header.id, record.header.seed);
    if record.header.quick {
        run += " --quick";
    }
    if let Some(rounds) = record.arms.iter().map(|arm| arm.rounds.len()).max() {
        run += &format!(" --repeat {rounds}");
    }
    format!(
        "apt-get install mariadb-server-core sysbench\n{run} --out out/demo\nheadworks bench report out/demo"
    )
}
