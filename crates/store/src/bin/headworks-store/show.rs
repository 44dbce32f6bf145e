//! The state of a store, for people.

use anyhow::{Result, bail};
use headworks_console::{Column, Ink, Table, terminal_width};
use headworks_store::control::{AppStatus, Response, Status};
use headworks_store::governor::Fares;
use std::fmt::Write as _;
use std::io::IsTerminal;

/// The state in an answer.
pub fn fetch(response: Response) -> Result<Status> {
    match response {
        Response::Status(status) => Ok(*status),
        Response::Error(words) => bail!("{words}"),
        _ => bail!("the store answers otherwise than this command expects: is it another version?"),
    }
}

fn ink() -> Ink {
    Ink { color: std::io::stdout().is_terminal() }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

fn time(us: f64) -> String {
    if us >= 1e4 { format!("{:.1} ms", us / 1e3) } else { format!("{us:.0} µs") }
}

/// How an application fares, in a few words.
pub fn fares(app: &AppStatus) -> String {
    let short = |part: &f64| format!("{:.0} %", 100.0 * part);
    match &app.fares {
        Fares::Behind { shortfall } => format!("behind by {}", short(shortfall)),
        Fares::NoRoom { shortfall, .. } => format!("NO ROOM, short by {}", short(shortfall)),
        Fares::NotStorage { shortfall } => format!("NOT STORAGE, short by {}", short(shortfall)),
        Fares::Unknown if app.need_windows > 0 => "learning".to_owned(),
        other => other.word().to_owned(),
    }
}

/// A column's name, whether it is at the right, and what it has of an application.
type Shown = (&'static str, bool, fn(&AppStatus) -> String);

/// Columns, the least important last.
const COLUMNS: [Shown; 11] = [
    ("application", false, |app| app.name.clone()),
    ("it is", false, fares),
    ("target", false, |app| match app.fares {
        Fares::BestEffort => "–".to_owned(),
        _ => app.goal.clone(),
    }),
    ("dft", true, |app| {
        app.last.dft.map_or_else(|| "–".to_owned(), |dft| format!("{:+.1} %", 100.0 * dft))
    }),
    ("share", true, |app| percent(app.share)),
    ("used", true, |app| percent(app.last.used)),
    ("I/O s⁻¹", true, |app| format!("{:.0}", app.last.ios)),
    ("MiB s⁻¹", true, |app| format!("{:.1}", app.last.bytes / f64::from(1 << 20))),
    ("wait", true, |app| time(app.last.wait_us)),
    ("device", true, |app| time(app.last.service_us)),
    ("queued", true, |app| app.requests.to_string()),
];

/// The least important columns give way, so that how an application fares is never cut.
fn applications(status: &Status, width: usize) -> String {
    let mut count = COLUMNS.len();
    let table = loop {
        let columns = COLUMNS[..count]
            .iter()
            .map(|(name, right, _)| if *right { Column::right(name) } else { Column::left(name) });
        let mut table = Table::new(&columns.collect::<Vec<_>>());
        for app in &status.applications {
            table.row(COLUMNS[..count].iter().map(|(.., of)| of(app)).collect());
        }
        let plain = table.render(usize::MAX / 2, Ink { color: false });
        let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if widest <= width || count <= 5 {
            break table;
        }
        count -= 1;
    };
    let mut text = table.render(width, ink());
    if count < COLUMNS.len() {
        let out: Vec<&str> = COLUMNS[count..].iter().map(|(name, ..)| *name).collect();
        let _ = writeln!(text, "  left out, for want of width: {}", out.join(", "));
    }
    text
}

/// `top`.
pub fn screen(status: &Status) -> String {
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    format!("{clear}{}{}", head(status), applications(status, terminal_width()))
}

fn head(status: &Status) -> String {
    let mut text = format!(
        "store {} on {}: {} of {} connections, scheduler {}, depth {}",
        status.pid,
        status.listen.join(", "),
        status.connections,
        status.connections_max,
        status.scheduler,
        status.depth,
    );
    if status.best_effort_depth < status.depth {
        let pace = |part: f64| format!(", and {} of the device's time", percent(part));
        let pace = status.best_effort_pace.map_or_else(String::new, pace);
        let _ = write!(text, " ({} for best effort{pace})", status.best_effort_depth);
    }
    if !status.refused.is_empty() {
        let all = status.refused.iter().map(|(reason, count)| format!("{count} {reason}"));
        let _ = write!(text, "\nclients not served: {}", all.collect::<Vec<_>>().join(", "));
    }
    for failed in &status.failed {
        let (volume, error, count) = (&failed.volume, &failed.error, failed.count);
        let _ = write!(text, "\nvolume {volume}: {count} requests have failed with {error}");
    }
    let [read, write, flush] = status.device.price_us.map(time);
    let how = match status.device.learned {
        [true, true, true] => "learned",
        [false, false, false] => "never full yet",
        _ => "learned in part",
    };
    let busy = percent(status.device.busy);
    let _ = write!(
        text,
        "\ndevice {busy} busy, {how}: 16 KiB to read take {read} of it, to write {write}, a flush {flush}",
    );
    if let Some(times) = status.processors_short {
        let _ = write!(
            text,
            "\nPROCESSORS ARE SHORT: the store's threads wait for one {times:.0} times as long as they run"
        );
    }
    if let Some(words) = &status.membership {
        let _ = write!(text, "\n{words}");
    }
    text + "\n\n"
}

/// `status`.
pub fn text(status: &Status) -> String {
    let mut text = head(status);
    let mut table =
        Table::new(&[Column::left("volume"), Column::right("MiB"), Column::left("stored in")]);
    for volume in &status.volumes {
        let path = match &volume.trouble {
            Some(trouble) => format!("{} ({trouble})", volume.path),
            None => volume.path.clone(),
        };
        table.row(vec![volume.name.clone(), (volume.size_bytes >> 20).to_string(), path]);
    }
    text += &table.render(terminal_width(), ink());
    text.push('\n');
    text += &applications(status, terminal_width());
    if !status.said.is_empty() {
        text += "\nlately:\n";
        for said in status.said.iter().rev().take(10) {
            let _ = writeln!(text, "  {said}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_application_fares_is_never_cut() {
        let app = AppStatus {
            name: "orders-of-the-shop".to_owned(),
            volume: "data".to_owned(),
            client: None,
            goal: "12000/s".to_owned(),
            fares: Fares::NoRoom { shortfall: 0.313, need: 1.2 },
            need: 1.2,
            need_error: 0.1,
            need_windows: 50,
            changes: 0,
            limit: 0.9,
            share: 0.9,
            promise: 0.7,
            last: Default::default(),
            requests: 3,
            bytes: 0,
            ios: [0; 4],
            bytes_total: 0,
            waited_s: 0.0,
            service_s: 0.0,
        };
        let status = Status { applications: vec![app], ..Status::default() };
        for width in [80, 200] {
            let text = applications(&status, width);
            assert!(text.contains("NO ROOM, short by 31 %"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert_eq!(text.contains("left out, for want of width"), width == 80, "{text}");
        }
    }
}
