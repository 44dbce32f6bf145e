//! The daemon's log: what changed, and why sessions are treated other than by the rule.
//!
//! Lines go to standard error, which a service manager keeps and a terminal loses. They also go to
//! a file of bounded size beside the region, which `headworks status` names.
//!
//! No line is written for each request. Counted reasons are logged at most every ten seconds, with
//! the count since the last line.

mod file;

use crate::render::printable;
use file::LogFile;
use headworks_policy::Nanos;
use headworks_region::State;
use headworks_region::snapshot::{SessionView, Snapshot};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Time between two lines about the same reason.
const REPEAT_INTERVAL: Nanos = Nanos::from_millis(10_000);

/// Counters of normal operation, which are not logged.
const ORDINARY: &[&str] = &[
    "lent",
    "lent_blocked",
    "outgrown",
    "overdraft",
    "ahead",
    "cancelled",
    "administrator",
    "replication",
    "gate_open",
    "reaped",
];

/// Size at which the file becomes the older of two, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

static FILE: Mutex<Option<LogFile>> = Mutex::new(None);

fn file() -> MutexGuard<'static, Option<LogFile>> {
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on, lines go to this file too.
pub fn also_to(path: &Path) -> std::io::Result<()> {
    *file() = Some(LogFile::open(path, FILE_BYTES_MAX)?);
    Ok(())
}

/// Writes a line to standard error, and to the file if there is one. A closed reader or a full disk
/// does not end the daemon. Control characters are replaced.
pub fn line(text: &str) {
    let text = &text.lines().map(printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(std::io::stderr(), "headworks: {text}");
    if let Some(file) = &mut *file() {
        let _ = file.line(text, SystemTime::now());
    }
}

/// Remembers what was logged.
#[derive(Debug, Default)]
pub struct Log {
    mode: Option<(String, bool)>,
    said: BTreeMap<&'static str, (u64, Option<Nanos>)>,
}

impl Log {
    /// Logs what is new in a snapshot.
    pub fn look(&mut self, now: &Snapshot) {
        for text in self.news(now) {
            line(&text);
        }
    }

    fn news(&mut self, now: &Snapshot) -> Vec<String> {
        let mut news = Vec::new();
        let mode = (now.settings.mode.name().to_owned(), now.settings.off);
        if let Some(before) = self.mode.replace(mode.clone())
            && before != mode
        {
            let switch = if mode.1 { "off: all requests pass" } else { "on" };
            news.push(format!("the gate is {switch}, mode {}", mode.0));
        }
        let first = self.said.is_empty();
        for (name, help, value) in &now.counters {
            let entry = self.said.entry(name).or_insert((*value, None));
            let fresh = value.saturating_sub(entry.0);
            let soon = entry.1.is_some_and(|said| now.now.since(said) < REPEAT_INTERVAL);
            if first || fresh == 0 || soon || ORDINARY.contains(name) {
                continue;
            }
            *entry = (*value, Some(now.now));
            let mut text = format!("{fresh} x {name} ({help}), {value} since the start");
            if *name == "stalls" {
                text += &stall(now);
            }
            news.push(text);
        }
        news
    }
}

/// Which sessions wait, and which they probably wait for.
fn stall(now: &Snapshot) -> String {
    let waiting = now.sessions.iter().filter(|session| session.state == State::Queued).count();
    let inside = now.sessions.iter().filter(|session| session.state == State::Running);
    let longest = inside.min_by_key(|session| session.admitted.0);
    let who = longest.map_or(String::new(), |session: &SessionView| {
        let [account, _, _, address] = &session.identity;
        // Clients choose their names; a line break in one must not end the line.
        let (account, address) = (printable(account), printable(address));
        format!(
            "; inside for longest: user {} ({account}@{address}), {:.1} s",
            session.session,
            now.now.since(session.admitted).as_millis_f64() / 1e3
        )
    });
    format!("; {waiting} wait{who}; see: headworks status")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_region::Mode;
    use headworks_region::control::Settings;

    fn snapshot(at_ms: u64, mode: Mode, stalls: u64, lent: u64) -> Snapshot {
        Snapshot {
            now: Nanos::from_millis(at_ms),
            settings: Settings { mode, ..Settings::default() },
            counters: vec![
                ("stalls", "nothing completed", stalls),
                ("lent", "a permit was lent", lent),
            ],
            ..crate::views::snapshot(Vec::new(), Vec::new())
        }
    }

    #[test]
    fn a_clients_name_cannot_write_a_line_of_its_own() {
        let mut inside = crate::views::session(3, 0);
        inside.state = State::Running;
        inside.identity[0] = "eve\n2026-01-01T00:00:00.000Z all is well\x1b[2J".to_owned();
        let sessions = vec![inside];
        let said = stall(&Snapshot { sessions, ..snapshot(500, Mode::Enforce, 1, 0) });
        assert!(said.contains("(eve\u{fffd}2026") && said.contains("well\u{fffd}[2J@"), "{said:?}");
        assert!(!said.contains(char::is_control), "{said:?}");
    }

    #[test]
    fn a_reason_is_said_with_its_number_and_not_too_often() {
        let mut log = Log::default();
        assert!(log.news(&snapshot(0, Mode::Enforce, 5, 0)).is_empty(), "what was before is old");
        let news = log.news(&snapshot(500, Mode::Enforce, 7, 9));
        assert_eq!(news.len(), 1, "{news:?}");
        for part in ["2 x stalls", "nothing completed", "7 since", "0 wait"] {
            assert!(news[0].contains(part), "{news:?}");
        }
        assert!(log.news(&snapshot(1_000, Mode::Enforce, 8, 9)).is_empty(), "too soon");
        assert!(log.news(&snapshot(10_600, Mode::Enforce, 9, 9))[0].contains("2 x stalls"));
        let news = log.news(&snapshot(11_000, Mode::DryRun, 9, 9));
        assert_eq!(news, ["the gate is on, mode dry-run"]);
    }
}
