//! What clients waited for: `headworks io waits`, a line of `io top`, and what `explain` adds.

use crate::cli::IoWaits;
use crate::instance::Instance;
use anyhow::Result;
use headworks_console::{duration, printable};
use headworks_region::clock;
use headworks_region::io::IoMapping;
use headworks_region::io::waits::{CAUSE_NAMES, ClientWait, INHERITED, LONG, PROMOTED};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Waits of one cause.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sum {
    pub count: u64,
    pub ns: u64,
}

/// All waits of clients since the start, by cause.
pub fn sums(region: &IoMapping) -> BTreeMap<&'static str, Sum> {
    let waits = &region.waits;
    let counted = CAUSE_NAMES.iter().zip(waits.count.iter().zip(&waits.ns));
    counted
        .map(|(name, (count, ns))| {
            (*name, Sum { count: count.load(Relaxed), ns: ns.load(Relaxed) })
        })
        .filter(|(name, sum)| !name.is_empty() && sum.count > 0)
        .collect()
}

/// What clients waited for in an interval, the most time first; nothing if they did not wait.
pub fn line(
    now: &BTreeMap<&'static str, Sum>,
    before: &BTreeMap<&'static str, Sum>,
    seconds: f64,
) -> Option<String> {
    let mut causes: Vec<(&str, Sum)> = now
        .iter()
        .map(|(name, sum)| {
            let earlier = before.get(name).copied().unwrap_or_default();
            let count = sum.count.saturating_sub(earlier.count);
            (*name, Sum { count, ns: sum.ns.saturating_sub(earlier.ns) })
        })
        .filter(|(_, sum)| sum.count > 0)
        .collect();
    causes.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let each = |(name, sum): &(&str, Sum)| {
        let (rate, mean) = (sum.count as f64 / seconds.max(1e-3), sum.ns as f64 / sum.count as f64);
        format!("{name} {rate:.1}/s of {}", duration(mean / 1e6))
    };
    let causes: Vec<String> = causes.iter().map(each).collect();
    (!causes.is_empty()).then(|| format!("clients wait: {}", causes.join(", ")))
}

/// A long wait.
#[derive(Clone, Debug, Serialize)]
pub struct Waited {
    /// Session of the gate.
    user: Option<u32>,
    thread: u32,
    cause: &'static str,
    /// The end of the file's path, or the name of the thread that held the lock.
    of: String,
    holder: Option<u32>,
    began_ago_ms: f64,
    took_ms: f64,
    held_by_scheduler_ms: f64,
    inherited: bool,
    promoted: bool,
}

impl Waited {
    /// From a record.
    pub fn new(wait: &ClientWait) -> Self {
        Waited {
            user: wait.session,
            thread: wait.thread,
            cause: wait.cause_name(),
            of: wait.of.to_display(),
            holder: (wait.holder != 0).then_some(wait.holder),
            began_ago_ms: clock::now().since(wait.began).as_millis_f64(),
            took_ms: wait.took.as_millis_f64(),
            held_by_scheduler_ms: wait.held.as_millis_f64(),
            inherited: wait.done & INHERITED != 0,
            promoted: wait.done & PROMOTED != 0,
        }
    }

    /// One line, without whose it was.
    pub fn text(&self) -> String {
        let of = printable(&self.of);
        let what = match (self.cause, self.holder) {
            ("write" | "fsync" | "read", _) if of.is_empty() => self.cause.to_owned(),
            ("write" | "fsync" | "read", _) => format!("{} of {of}", self.cause),
            ("directory entry", _) => self.cause.to_owned(),
            (lock, None) => format!("{lock}, holder unknown"),
            (lock, Some(thread)) if of.is_empty() => format!("{lock}, held by thread {thread}"),
            (lock, Some(thread)) => format!("{lock}, held by thread {thread} ({of})"),
        };
        let mut done = Vec::new();
        if self.held_by_scheduler_ms >= 0.1 {
            done.push(format!("the scheduler held it for {}", duration(self.held_by_scheduler_ms)));
        }
        if self.inherited {
            done.push("the holder's calls counted as the client's".to_owned());
        }
        if self.promoted {
            done.push("a held call went on for it".to_owned());
        }
        format!(
            "{} ago: {} for {what}{}{}",
            duration(self.began_ago_ms),
            duration(self.took_ms),
            if done.is_empty() { "" } else { "; " },
            done.join(", ")
        )
    }
}

/// The latest long waits that `wanted` accepts.
pub fn latest(
    region: &IoMapping,
    most: usize,
    wanted: impl Fn(&ClientWait) -> bool,
) -> Vec<Waited> {
    region.waits.long.latest().filter(wanted).take(most).map(|wait| Waited::new(&wait)).collect()
}

/// Carries out `io waits`.
pub fn run(args: &IoWaits) -> Result<()> {
    let instance = Instance::find(args.select.name.as_deref())?;
    let region = instance.open_io()?;
    let waits = latest(&region, args.count, |_| true);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&waits)?);
        return Ok(());
    }
    if waits.is_empty() {
        println!("no client has waited for {} or longer", duration(LONG.as_millis_f64()));
    }
    for wait in &waits {
        let user = wait.user.map_or(String::new(), |user| format!("user {user}, "));
        println!("{user}thread {}, {}", wait.thread, wait.text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_policy::Nanos;
    use headworks_region::text::Text;

    fn wait() -> ClientWait {
        ClientWait {
            number: 0,
            session: Some(3),
            thread: 10,
            cause: 8,
            holder: 0,
            done: 0,
            began: clock::now(),
            took: Nanos::from_millis(12),
            held: Nanos(0),
            of: Text::new(b"pg_wal/0001"),
        }
    }

    #[test]
    fn a_line_says_for_what_and_what_was_done() {
        let text = |wait: &ClientWait| Waited::new(wait).text();
        let plain = text(&wait());
        assert!(plain.ends_with("12.0 ms for fsync of pg_wal/0001"), "{plain}");
        let held = text(&ClientWait { held: Nanos::from_millis(5), ..wait() });
        assert!(held.ends_with("; the scheduler held it for 5.00 ms"), "{held}");
        let lock = ClientWait {
            cause: 1,
            holder: 11,
            done: INHERITED | PROMOTED,
            of: Text::new(b"flusher"),
            ..wait()
        };
        let lock = text(&lock);
        assert!(lock.contains("mutex, held by thread 11 (flusher); the holder's calls"), "{lock}");
        assert!(lock.ends_with("a held call went on for it"), "{lock}");
        let unknown = text(&ClientWait { cause: 4, of: Text::EMPTY, ..wait() });
        assert!(unknown.ends_with("semaphore, holder unknown"), "{unknown}");
    }

    #[test]
    fn the_most_time_comes_first() {
        let sum = |count, ms: u64| Sum { count, ns: ms * 1_000_000 };
        let before = [("fsync", sum(10, 100)), ("read", sum(1, 5))].into();
        let now = [("fsync", sum(20, 200)), ("mutex", sum(2, 300)), ("read", sum(1, 5))].into();
        let text = line(&now, &before, 2.0).unwrap();
        assert_eq!(text, "clients wait: mutex 1.0/s of 150 ms, fsync 5.0/s of 10.0 ms");
        assert!(line(&now, &now, 2.0).is_none());
    }
}
