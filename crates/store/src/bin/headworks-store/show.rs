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
    match &app.fares {
        Fares::Behind { shortfall } => format!("behind by {}", percent(*shortfall)),
        Fares::NoRoom { shortfall, need } => {
            format!("NO ROOM: short by {}, needs {}", percent(*shortfall), percent(*need))
        }
        Fares::NotStorage { shortfall } => {
            format!("NOT STORAGE: short by {}", percent(*shortfall))
        }
        Fares::Unknown if app.need_windows > 0 => "learning".to_owned(),
        other => other.word().to_owned(),
    }
}

fn applications(status: &Status) -> Table {
    let mut table = Table::new(&[
        Column::left("application"),
        Column::left("it is"),
        Column::left("target"),
        Column::right("dft"),
        Column::right("share"),
        Column::right("used"),
        Column::right("I/O s⁻¹"),
        Column::right("MiB s⁻¹"),
        Column::right("wait"),
        Column::right("device"),
        Column::right("queued"),
    ]);
    for app in &status.applications {
        let last = &app.last;
        table.row(vec![
            app.name.clone(),
            fares(app),
            if app.fares == Fares::BestEffort { "–".to_owned() } else { app.goal.clone() },
            last.dft.map_or_else(|| "–".to_owned(), |dft| format!("{:+.1} %", 100.0 * dft)),
            percent(app.share),
            percent(last.used),
            format!("{:.0}", last.ios),
            format!("{:.1}", last.bytes / f64::from(1 << 20)),
            time(last.wait_us),
            time(last.service_us),
            app.requests.to_string(),
        ]);
    }
    table
}

/// `top`.
pub fn screen(status: &Status) -> String {
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    format!("{clear}{}{}", head(status), applications(status).render(terminal_width(), ink()))
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
        let _ = write!(text, " ({} for best effort)", status.best_effort_depth);
    }
    if !status.refused.is_empty() {
        let all = status.refused.iter().map(|(reason, count)| format!("{count} {reason}"));
        let _ = write!(text, "\nclients not served: {}", all.collect::<Vec<_>>().join(", "));
    }
    for failed in &status.failed {
        let (volume, error, count) = (&failed.volume, &failed.error, failed.count);
        let _ = write!(text, "\nvolume {volume}: {count} requests have failed with {error}");
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
    text += &applications(status).render(terminal_width(), ink());
    if !status.said.is_empty() {
        text += "\nlately:\n";
        for said in status.said.iter().rev().take(10) {
            let _ = writeln!(text, "  {said}");
        }
    }
    text
}
