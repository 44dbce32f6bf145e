//! The state of an instance as text for a DBA, the worst first.

mod counterfactual;
#[cfg(test)]
#[path = "../tests/fixtures/render.rs"]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

pub(crate) use headworks_console::{
    Column, Ink, Table, Tone, count, duration, maybe_duration, maybe_ratio, printable, rate,
};

use crate::config::OPEN;
use crate::status::{ClassStatus, Percentiles, Status, UserStatus};
use headworks_region::layout::COUNTERS;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Users that each list shows.
const LISTED: usize = 10;

/// The state of the search for P, if there is one.
fn search(status: &Status) -> String {
    match &status.parallelism_search {
        Some(phase) if status.parallelism_auto => format!(" auto, {}", printable(phase)),
        _ if status.parallelism_auto => " auto".to_owned(),
        _ => String::new(),
    }
}

/// One sentence on the gate, and a command that mends the problem, if there is one.
pub(crate) fn gate_sentence(status: &Status) -> (Tone, String, Option<String>) {
    let p = status.parallelism;
    let name = printable(&status.instance);
    let mend = |command: &str, effect: &str| {
        Some(format!("headworks {command} --name {name}   # {effect}"))
    };
    match (status.gate.as_str(), status.mode.as_str()) {
        ("closed", _) if status.parallelism_auto && p >= OPEN => (
            Tone::Good,
            "open for now: P is \"auto\", and no smaller P is known to be better".to_owned(),
            None,
        ),
        ("closed", _) => {
            let free = status.connections.iter().filter(|user| user.never_held()).count();
            let beside = match free {
                0 => String::new(),
                1 => "; 1 other is never held".to_owned(),
                free => format!("; {free} others are never held"),
            };
            (
                Tone::Good,
                format!("closed: at most P = {p} sessions hold a permit at once{beside}"),
                None,
            )
        }
        ("ungoverned", _) if status.outside.is_some() => (
            Tone::Bad,
            format!("ungoverned: {}", printable(status.outside.as_deref().unwrap_or_default())),
            None,
        ),
        ("ungoverned", _) => (
            Tone::Bad,
            format!(
                "ungoverned: the server (process {}) was started by another version of Headworks, so all requests pass",
                status.server_pid
            ),
            Some(format!(
                "sudo systemctl restart {name}   # the server: the gate holds from then on"
            )),
        ),
        ("off", _) => (
            Tone::Notice,
            "off: an operator has opened it, all requests pass".to_owned(),
            mend("on", "closes it again"),
        ),
        ("stale", _) => (
            Tone::Bad,
            "stale: its daemon sends no heartbeat, so all requests pass".to_owned(),
            mend("daemon", "starts the daemon again; no connection is dropped"),
        ),
        _ => (
            Tone::Notice,
            format!("open: a dry run holds no session and replays what P = {p} would have changed"),
            mend("set --mode enforce", "holds sessions from then on"),
        ),
    }
}

/// The whole state, at most `width` columns wide. Without `color` it contains no escape sequence,
/// whatever names clients have.
pub fn status_text(status: &Status, width: usize, color: bool) -> String {
    let ink = Ink { color };
    let width = width.clamp(60, 200);
    let mut out = String::new();
    head(&mut out, status, ink);
    figures(&mut out, status, ink, width);
    section(&mut out, ink, "Classes", &class_table(&status.classes).render(width, ink));
    section(&mut out, ink, "Latency targets", &targets(status, ink));
    section(&mut out, ink, "Processor time by weight", &cpu_weights(status, ink));
    users(&mut out, status, ink, width);
    counters(&mut out, status, ink, width);
    if let Some(counterfactual) = &status.counterfactual {
        let text = counterfactual::text(counterfactual, status, width, ink);
        section(&mut out, ink, "What the gate would have changed", &text);
    }
    out
}

/// A line for each class with a target.
fn targets(status: &Status, ink: Ink) -> String {
    let mut out = String::new();
    for target in &status.targets {
        let (tone, standing) = match (target.standing.as_str(), target.gap) {
            ("held", _) => (Tone::Good, "held".to_owned()),
            ("infeasible", gap) => {
                (Tone::Bad, format!("infeasible here: {:.2} times the target", gap.unwrap_or(1.0)))
            }
            (other, _) => (Tone::Notice, other.to_owned()),
        };
        let _ = writeln!(
            out,
            "  {}: p{} {} of {:.1} ms, {}, weight {:.3}, {} of {} windows within",
            printable(&target.class),
            target.percentile,
            target.latency_ms.map_or("-".to_owned(), |ms| format!("{ms:.1}")),
            target.target_ms,
            ink.tone(tone, &standing),
            target.weight,
            target.windows_held,
            target.windows
        );
        if target.standing == "infeasible" {
            let _ = writeln!(out, "    {} {}", ink.faint("mend:"), ink.bold(crate::slo::MEND));
        }
    }
    out
}

/// A line for each control group, or why there is none.
fn cpu_weights(status: &Status, ink: Ink) -> String {
    let Some(cgroup) = &status.cgroup else { return String::new() };
    let mut out = String::new();
    for group in &cgroup.groups {
        let _ = writeln!(
            out,
            "  {}: as {:.1} threads, {} in {}",
            printable(&group.class),
            f64::from(group.cpu_weight) / f64::from(headworks_policy::cpu_weight::ONE_THREAD),
            group.threads,
            printable(&group.directory)
        );
    }
    if cgroup.state != "active" {
        let reason = cgroup.reason.as_deref().unwrap_or("no look was taken yet");
        let state = ink.tone(Tone::Notice, &printable(&cgroup.state));
        let _ = writeln!(out, "  {state}: {}", printable(reason));
    }
    if let Some(mend) = &cgroup.mend {
        let _ = writeln!(out, "  {} {}", ink.faint("mend:"), ink.bold(&printable(mend)));
    }
    out
}

fn section(out: &mut String, ink: Ink, title: &str, body: &str) {
    if !body.is_empty() {
        let _ = write!(out, "\n{}\n{body}", ink.bold(title));
    }
}

fn head(out: &mut String, status: &Status, ink: Ink) {
    let (tone, sentence, mend) = gate_sentence(status);
    let name = ink.bold(&printable(&status.instance));
    let _ = writeln!(out, "{name}: the gate is {}", ink.tone(tone, &sentence));
    if let Some(mend) = mend {
        let _ = writeln!(out, "  {mend}");
    }
    if let Some(beside) = &status.beside {
        let _ = writeln!(out, "{}", ink.tone(Tone::Bad, &printable(beside)));
    }
    if status.stall_bonus > 0 {
        let text = format!(
            "Nothing completed for a while although users wait: {} more than P are let in. \
             Probably one of those inside waits for a lock of a user outside.",
            status.stall_bonus
        );
        let _ = writeln!(out, "{}", ink.tone(Tone::Notice, &text));
    }
    let name = printable(&status.instance);
    let mut wrong = |sentence: &str, error: &Option<String>, then: &str| {
        let Some(error) = error else { return };
        let _ = writeln!(out, "{}", ink.tone(Tone::Bad, sentence));
        for line in error.lines() {
            let _ = writeln!(out, "  {}", printable(line));
        }
        let _ = writeln!(out, "  headworks reload --name {name}   # {then}");
    };
    wrong(
        "The last reload was refused; the configuration before it is in force:",
        &status.config_error,
        "once it is corrected",
    );
    wrong(
        "Metrics are not served where the configuration says; the rest of it is in force:",
        &status.metrics_error,
        "once the address can be had",
    );
}

fn figures(out: &mut String, status: &Status, ink: Ink, width: usize) {
    let zeta = match status.quota_requests {
        0 => "at its minimum".to_owned(),
        quota => format!("{quota} requests"),
    };
    let paused = status.blocked + status.thinking;
    let idle = status.users.saturating_sub(status.inside + status.waiting + paused);
    let mut lent = String::new();
    for (number, what) in
        [(status.blocked, "blocked"), (status.thinking, "thinking"), (status.long, "of them long")]
    {
        if number > 0 {
            let _ = write!(lent, "{number} {what}, ");
        }
    }
    let mut rows = vec![
        (
            "throughput",
            format!(
                "{} requests/s, {} turns/s (last {})",
                rate(status.requests_per_s),
                rate(status.turns_per_s),
                duration(status.window_s * 1e3)
            ),
        ),
        (
            "users",
            format!(
                "{} connected: {} inside (P = {}{}, quota {zeta}), {} waiting, {lent}{idle} idle",
                status.users,
                status.inside,
                status.parallelism,
                search(status),
                status.waiting
            ),
        ),
        ("longest wait", longest_wait(status)),
        ("latency", percentiles(&status.latency)),
        ("in the gate", percentiles(&status.wait)),
        (
            "fairness",
            format!(
                "unfairness U_f {} (0: shares as the weights say), latency CV {}",
                maybe_ratio(status.unfairness),
                maybe_ratio(status.latency_cv)
            ),
        ),
    ];
    if let Some(text) = encryption(status) {
        rows.push(("encryption", text));
    }
    rows.extend(status.metrics.iter().map(|place| ("metrics", printable(place))));
    rows.extend(status.log.iter().map(|file| ("decisions", printable(file))));
    rows.push((
        "processes",
        format!("database {}, daemon {}", status.server_pid, status.daemon_pid),
    ));
    out.push('\n');
    for (name, text) in rows {
        let lines = wrapped(&text, width.saturating_sub(16));
        let _ = writeln!(out, "  {}  {}", ink.faint(&format!("{name:<12}")), lines[0]);
        for line in &lines[1..] {
            let _ = writeln!(out, "{:16}{line}", "");
        }
    }
}

/// Lines of at most `width` columns, broken between words. A word, such as a path, stays whole.
/// There is always one.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// How many sessions are encrypted, and how they are followed; `None` if none is.
fn encryption(status: &Status) -> Option<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for user in status.connections.iter().filter(|user| !user.tls.is_empty()) {
        *kinds.entry(&user.tls).or_default() += 1;
    }
    let parts: Vec<String> =
        kinds.iter().map(|(kind, users)| format!("{users} ({})", printable(kind))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Which session has waited longest, and since when; `connections` begins with those that wait.
fn longest_wait(status: &Status) -> String {
    let waiting = status.connections.iter().filter(|user| user.state == "waiting");
    let longest =
        waiting.max_by(|a, b| a.since_ms.unwrap_or(0.0).total_cmp(&b.since_ms.unwrap_or(0.0)));
    match longest {
        None => "none waits".to_owned(),
        Some(user) => format!(
            "{}: {} (class {}), {}",
            maybe_duration(user.since_ms),
            who(user),
            printable(&user.class),
            printable(&user.reason)
        ),
    }
}

/// The session, as a DBA names it.
pub(crate) fn who(user: &UserStatus) -> String {
    let account = if user.account.is_empty() { "(logging in)" } else { &user.account };
    let address = if user.address.is_empty() { "local" } else { &user.address };
    let tls = if user.tls.is_empty() { "" } else { " tls" };
    printable(&format!("{account}@{address}{tls}"))
}

pub(crate) fn percentiles(of: &Percentiles) -> String {
    if of.p50_ms.is_none() {
        return "no request yet".to_owned();
    }
    format!(
        "p50 {}   p95 {}   p99 {}   p99.9 {}",
        maybe_duration(of.p50_ms),
        maybe_duration(of.p95_ms),
        maybe_duration(of.p99_ms),
        maybe_duration(of.p999_ms)
    )
}

fn class_table(classes: &[ClassStatus]) -> Table {
    let mut table = Table::new(&[
        Column::left("CLASS"),
        Column::right("WEIGHT"),
        Column::right("USERS"),
        Column::right("INSIDE"),
        Column::right("WAITING"),
        Column::right("REQ/S"),
        Column::right("REQUESTS"),
        Column::right("HELD"),
        Column::right("P50"),
        Column::right("P95"),
        Column::right("P99"),
        Column::right("WAIT P95"),
    ]);
    for class in classes {
        let each = if class.weight_of == "class" { " all" } else { "" };
        table.row(vec![
            printable(&class.name),
            format!("{}{each}", class.weight),
            class.users.to_string(),
            class.inside.to_string(),
            class.waiting.to_string(),
            rate(class.requests_per_s),
            count(class.requests),
            share(class.queued, class.requests),
            maybe_duration(class.latency.p50_ms),
            maybe_duration(class.latency.p95_ms),
            maybe_duration(class.latency.p99_ms),
            maybe_duration(class.wait.p95_ms),
        ]);
    }
    table
}

/// A part of a whole, in percent.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0} %", part as f64 / whole as f64 * 100.0) }
}

fn users(out: &mut String, status: &Status, ink: Ink, width: usize) {
    let waiting: Vec<&UserStatus> =
        status.connections.iter().filter(|user| user.state == "waiting").collect();
    let outside = ["waiting", "idle", "free"];
    let inside: Vec<&UserStatus> =
        status.connections.iter().filter(|user| !outside.contains(&user.state.as_str())).collect();
    for (title, list) in [("Waiting longest", waiting), ("Inside longest", inside)] {
        let title = format!("{title} ({} of {})", list.len().min(LISTED), list.len());
        if !list.is_empty() {
            section(
                out,
                ink,
                &title,
                &user_table(&list[..list.len().min(LISTED)]).render(width, ink),
            );
        }
    }
}

fn user_table(users: &[&UserStatus]) -> Table {
    let mut table = Table::new(&[
        Column::left("USER"),
        Column::left("CLASS"),
        Column::right("SINCE"),
        Column::left("STATE"),
        Column::left("HOLDS"),
        Column::right("REQUESTS"),
        Column::right("MEAN"),
        Column::right("WAIT MAX"),
        Column::left("WHY"),
    ]);
    for user in users {
        table.row(vec![
            who(user),
            printable(&user.class),
            maybe_duration(user.since_ms),
            printable(&user.state),
            if user.holding.is_empty() {
                "-".to_owned()
            } else {
                printable(&user.holding.join(","))
            },
            count(user.requests),
            duration(user.latency_ms_mean),
            duration(user.wait_ms_max),
            printable(&user.reason),
        ]);
    }
    table
}

fn counters(out: &mut String, status: &Status, ink: Ink, width: usize) {
    let mut table =
        Table::new(&[Column::left("COUNTER"), Column::right("COUNT"), Column::left("MEANING")]);
    for (_, name, meaning) in COUNTERS {
        if let Some(&value) = status.counters.get(*name).filter(|value| **value > 0) {
            table.row(vec![(*name).to_owned(), count(value), (*meaning).to_owned()]);
        }
    }
    // A status from another build may have counters that this one does not know.
    for (name, &value) in &status.counters {
        if value > 0 && !COUNTERS.iter().any(|(_, known, _)| known == name) {
            table.row(vec![printable(name), count(value), String::new()]);
        }
    }
    if !table.is_empty() {
        section(out, ink, "Counted since the start", &table.render(width, ink));
    }
}
