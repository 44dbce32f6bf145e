//! How the figures of files are shown: notes, and a table of threads.

use super::state::{Account, Files};
use super::{unheld, waits};
use headworks_console::printable;
use headworks_console::{Column, Sheet};
use headworks_policy::split::SplitKind;
use std::cmp::Reverse;

/// What happened between two states, the older one first.
pub fn sheet(before: &Files, now: &Files) -> Sheet {
    let seconds = (now.at_s - before.at_s).max(1e-3);
    let rcp = now.scheduler == SplitKind::Rcp.name();
    Sheet {
        title: title(now),
        notes: notes(before, now, seconds),
        columns: columns(rcp),
        rows: busy(before, now).iter().map(|row| cells(row, seconds, rcp)).collect(),
    }
}

fn title(now: &Files) -> String {
    format!(
        "{}: {}{} for a {}, {} {} held",
        printable(&now.instance),
        now.scheduler,
        if now.on || now.scheduler == "noop" { "" } else { " (off)" },
        if now.disk { "disk" } else { "flash drive" },
        now.waiting,
        if now.waiting == 1 { "call" } else { "calls" },
    )
}

fn notes(before: &Files, now: &Files, seconds: f64) -> Vec<String> {
    let passed = now.passed().into_iter().filter(|(_, count, _)| *count > 0);
    let mut notes: Vec<String> = passed.map(|(_, count, what)| format!("{count} {what}")).collect();
    notes.extend(unheld::lines(&now.rings, &now.unseen, now.mapped_files));
    notes.extend(waits::line(&now.waits, &before.waits, seconds));
    if now.scheduler == SplitKind::Rcp.name() {
        notes.push(now.inheritance.line(&before.inheritance, seconds));
    }
    notes
}

/// What each thread did in the interval, if it did something.
fn busy(before: &Files, now: &Files) -> Vec<Account> {
    let mut rows: Vec<Account> = now
        .accounts
        .iter()
        .map(|account| {
            let earlier = before.of_thread(account);
            earlier.map_or_else(|| account.clone(), |earlier| account.since(earlier))
        })
        .filter(|account| account.waits || account.has_calls())
        .collect();
    rows.sort_by_key(|row| Reverse((row.written_bytes + row.read_bytes, row.waits, row.fsyncs)));
    rows
}

fn columns(rcp: bool) -> Vec<Column> {
    let numbers = ["PRIO", "WRITE/S", "MB/S", "FSYNC/S", "FSYNC MS", "READ/S", "HELD MS", "BACK/S"];
    let of_rcp: &[&str] = if rcp { &["CRIT/S", "BACKG/S", "INHER/S"] } else { &[] };
    let mut columns = vec![Column::right("THREAD"), Column::left("NAME")];
    columns.extend(numbers.iter().chain(of_rcp).map(|head| Column::right(head)));
    columns
}

fn cells(row: &Account, seconds: f64, rcp: bool) -> Vec<String> {
    let per = |count: u64| count as f64 / seconds;
    let mean = |ns: u64, count: u64| format!("{:.2}", ns as f64 / 1e6 / count.max(1) as f64);
    let mut cells = vec![
        row.thread.to_string(),
        printable(&row.name),
        row.priority.to_string(),
        format!("{:.0}", per(row.writes)),
        format!("{:.2}", per(row.written_bytes) / 1e6),
        format!("{:.1}", per(row.fsyncs)),
        mean(row.fsync_ns, row.fsyncs),
        format!("{:.1}", per(row.reads)),
        if row.waits { "now".to_owned() } else { mean(row.held_ns, row.held) },
        format!("{:.1}", per(row.written_back_pieces)),
    ];
    if rcp {
        let counts = [row.critical, row.background, row.inherited];
        cells.extend(counts.map(|count| format!("{:.1}", per(count))));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_only_call_is_still_held_has_a_row() {
        let thread = |thread, waits| Account { thread, waits, ..Account::default() };
        let accounts = vec![thread(1, false), thread(2, true)];
        let now = Files { at_s: 1.0, waiting: 1, accounts, ..Files::default() };
        let sheet = sheet(&Files::default(), &now);
        assert!(sheet.title.ends_with("1 call held"), "{}", sheet.title);
        assert_eq!(sheet.rows.len(), 1);
        assert!(sheet.rows[0][0] == "2" && sheet.rows[0].contains(&"now".to_owned()));
    }
}
