//! The time line of each thread, as Perfetto (https://ui.perfetto.dev) and Chrome's tracing read
//! it: one JSON object for each time in which a thread ran, was ready or slept.

use super::layout::Event;
use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// See the module.
pub struct TimeLine {
    out: Box<dyn Write>,
    left: u64,
    first_ns: Option<u64>,
    /// When each thread last came to a processor.
    on: HashMap<u32, u64>,
    any: bool,
    /// Entries for which the file had no room.
    pub dropped: u64,
}

impl TimeLine {
    /// In a file that only its owner reads.
    pub fn create(path: &Path, limit: u64) -> anyhow::Result<TimeLine> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(TimeLine::new(Box::new(BufWriter::new(file)), limit))
    }

    /// At most `limit` bytes are written.
    fn new(out: Box<dyn Write>, limit: u64) -> TimeLine {
        TimeLine { out, left: limit, first_ns: None, on: HashMap::new(), any: false, dropped: 0 }
    }

    /// What a thread did before it came to a processor again.
    pub fn add(&mut self, event: &Event) -> std::io::Result<()> {
        let first_ns = *self.first_ns.get_or_insert(event.off);
        let at = |ns: u64| ns.saturating_sub(first_ns) as f64 / 1e3;
        let (pid, tid) = (event.tgid, event.tid);
        let ran = self.on.insert(tid, event.on);
        let mut slice = |name: &str, from: u64, to: u64, more: String| {
            if to <= from {
                return Ok(());
            }
            self.write(&format!(
                "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{:.3},\
                 \"dur\":{:.3}{more}}}",
                at(from),
                (to - from) as f64 / 1e3
            ))
        };
        if let Some(on) = ran {
            slice("runs", on, event.off, String::new())?;
        }
        if event.blocked != 0 {
            let woken = if event.woken > 0 { event.woken } else { event.on };
            let more = format!(
                ",\"args\":{{\"system call\":{},\"object\":\"{:#x}\",\"woken by thread\":{},\
                 \"which was in\":{}}}",
                event.sleep_nr, event.object, event.waker_tid, event.wake_nr
            );
            slice("sleeps", event.off, woken, more)?;
            slice("is ready", woken, event.on, String::new())?;
        } else {
            slice("is ready", event.off, event.on, String::new())?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        // Room for the end, so that the file is whole.
        const END: u64 = 4;
        let bytes = text.len() as u64 + 2;
        if bytes + END > self.left {
            self.dropped += 1;
            return Ok(());
        }
        self.left -= bytes;
        self.out.write_all(if self.any { b",\n" } else { b"[\n" })?;
        self.any = true;
        self.out.write_all(text.as_bytes())
    }

    /// Between windows nothing is known.
    pub fn pause(&mut self) {
        self.on.clear();
    }

    /// Ends the file. Threads are called by their names.
    pub fn finish(mut self, names: &BTreeMap<(u32, u32), String>) -> std::io::Result<u64> {
        for ((pid, tid), name) in names {
            let name = serde_json::to_string(name).unwrap_or_default();
            self.write(&format!(
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\
                 \"args\":{{\"name\":{name}}}}}"
            ))?;
        }
        self.out.write_all(if self.any { b"\n]\n" } else { b"[]\n" })?;
        self.out.flush()?;
        Ok(self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn event(off: u64, woken: u64, on: u64) -> Event {
        Event { off, woken, on, tid: 7, tgid: 5, blocked: 1, ..Event::default() }
    }

    #[test]
    fn times_follow_one_another_and_the_file_is_json() {
        let kept = Kept::default();
        let mut line = TimeLine::new(Box::new(kept.clone()), 10_000);
        line.add(&event(1_000, 3_000, 4_000)).unwrap();
        line.add(&event(9_000, 9_500, 9_900)).unwrap();
        let names = BTreeMap::from([((5, 7), "a \"b\"".to_owned())]);
        assert_eq!(line.finish(&names).unwrap(), 0);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let slices: Vec<(String, f64, f64)> = all
            .iter()
            .filter(|each| each["ph"] == "X")
            .map(|each| {
                let number = |key: &str| each[key].as_f64().unwrap();
                (each["name"].as_str().unwrap().to_owned(), number("ts"), number("dur"))
            })
            .collect();
        let wanted = [
            ("sleeps", 0.0, 2.0),
            ("is ready", 2.0, 1.0),
            ("runs", 3.0, 5.0),
            ("sleeps", 8.0, 0.5),
            ("is ready", 8.5, 0.4),
        ];
        assert_eq!(slices.len(), wanted.len(), "{text}");
        for (slice, wanted) in slices.iter().zip(wanted) {
            assert_eq!((&*slice.0, slice.1, slice.2), wanted);
        }
    }

    #[test]
    fn a_full_file_is_still_json() {
        let kept = Kept::default();
        let mut line = TimeLine::new(Box::new(kept.clone()), 300);
        for at in 0..50 {
            line.add(&event(at * 100, at * 100 + 10, at * 100 + 20)).unwrap();
        }
        assert!(line.finish(&BTreeMap::new()).unwrap() > 0);
        let bytes = kept.0.lock().unwrap().clone();
        assert!(bytes.len() <= 300);
        assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }
}
