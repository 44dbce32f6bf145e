//! A flight recording's events, as `jfr print --json` writes them: read one after the other, and no
//! more than a bound.

use serde::Deserialize;
use serde_json::{Deserializer, Value};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What is printed of an event's stack.
const DEPTH: usize = 24;
/// Events that are read.
const EVENTS_MAX: usize = 50_000;
/// Text that is read: an event with a deep stack has some 20,000 bytes.
const TEXT_MAX: u64 = 128 << 20;
/// `jfr` is ended after this.
const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const EVENTS: [&str; 3] =
    ["jdk.JavaMonitorEnter", "jdk.JavaMonitorWait", "jdk.ThreadPark"];

/// A wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub by: &'static str,
    pub thread: u32,
    pub other: Option<u32>,
    pub ns: u64,
    class: String,
    /// Functions, the innermost first.
    frames: Vec<String>,
    pub whole: bool,
}

/// What was read of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Printed {
    pub events: Vec<Event>,
    /// All that there is was read.
    pub whole: bool,
    /// When the first event began.
    pub since: Option<String>,
}

/// What a file has, if `jfr` can read it.
pub(super) fn printed(file: &Path) -> Option<Printed> {
    let mut command = Command::new("jfr");
    let depth = DEPTH.to_string();
    command.args(["print", "--json", "--stack-depth", &depth, "--events", &EVENTS.join(",")]);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let (out, number) = (child.stdout.take()?, child.id() as i32);
    let (done, over) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: kill takes any number; the child is waited for after this thread alone.
            unsafe { libc::kill(number, libc::SIGKILL) };
        }
    });
    let read = read(out, TEXT_MAX, EVENTS_MAX);
    drop(done);
    let _ = watch.join();
    // Of a text that was cut, the rest is not printed.
    let _ = child.kill();
    let _ = child.wait();
    read
}

/// Up to so many bytes and events. An event that is odd is left out.
pub(super) fn read(text: impl Read, bytes: u64, most: usize) -> Option<Printed> {
    let mut text = BufReader::new(text.take(bytes));
    let mut read = Printed::default();
    if text.skip_until(b'[').ok()? == 0 {
        return None;
    }
    let mut n = 0;
    loop {
        match next(&mut text) {
            Some(b'{') if n < most => n += 1,
            last => {
                read.whole = last == Some(b']');
                return Some(read);
            }
        }
        let Ok(line) = Value::deserialize(&mut Deserializer::from_reader(&mut text)) else {
            return Some(read);
        };
        if let Some(start) = line["values"]["startTime"].as_str()
            && read.since.as_deref().is_none_or(|since| start < since)
        {
            read.since = Some(start.to_owned());
        }
        read.events.extend(event(&line));
    }
}

/// The byte that begins the next event, or what ends the list. It is not taken.
fn next(text: &mut impl BufRead) -> Option<u8> {
    loop {
        let byte = *text.fill_buf().ok()?.first()?;
        if byte != b',' && !byte.is_ascii_whitespace() {
            return Some(byte);
        }
        text.consume(1);
    }
}

fn event(line: &Value) -> Option<Event> {
    let values = &line["values"];
    let (by, class, other) = match line["type"].as_str()? {
        "jdk.JavaMonitorEnter" => ("enter", "monitorClass", "previousOwner"),
        "jdk.JavaMonitorWait" => ("wait", "monitorClass", "notifier"),
        "jdk.ThreadPark" => ("park", "parkedClass", ""),
        _ => return None,
    };
    let dotted = |name: &Value| name.as_str().map(|name| name.replace('/', "."));
    // A thread that has ended may have none, or -1.
    let thread = |of: &str| u32::try_from(values[of]["osThreadId"].as_i64()?).ok();
    let trail = &values["stackTrace"];
    let function = |frame: &Value| {
        let method = &frame["method"];
        Some(format!("{}.{}", dotted(&method["type"]["name"])?, method["name"].as_str()?))
    };
    let frames: Vec<String> = trail["frames"].as_array()?.iter().filter_map(function).collect();
    Some(Event {
        by,
        thread: thread("eventThread")?,
        other: thread(other),
        ns: nanoseconds(values["duration"].as_str()?)?,
        class: dotted(&values[class]["name"]).unwrap_or_default(),
        whole: trail["truncated"] == false && frames.len() < DEPTH,
        frames,
    })
}

/// `PT0.0203S`, `PT1M2S`
fn nanoseconds(text: &str) -> Option<u64> {
    let (mut rest, mut seconds) = (text.strip_prefix("PT")?, 0.0);
    for (unit, each) in [('H', 3_600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((number, after)) = rest.split_once(unit) {
            seconds += number.parse::<f64>().ok()? * each;
            rest = after;
        }
    }
    (rest.is_empty() && seconds >= 0.0).then_some((seconds * 1e9).round() as u64)
}

impl Event {
    /// The class that says what is waited for. A park is built into a class of the library: a lock,
    /// a queue, a latch.
    pub fn class(&self) -> String {
        const LIBRARY: &str = "java.util.concurrent.";
        let simple = |class: &str| class.rsplit('.').next().unwrap_or(class).to_owned();
        let inner = |class: &str| class.split('$').next().unwrap_or(class).to_owned();
        let library = self
            .frames
            .iter()
            .skip_while(|frame| !frame.starts_with(LIBRARY))
            .take_while(|frame| frame.starts_with(LIBRARY));
        let classes = library.filter_map(|frame| frame.rsplit_once('.')).map(|(class, _)| class);
        // The pool that takes from a queue is not the queue.
        let of_pool = |class: &&str| {
            class.contains("ThreadPoolExecutor") || class.contains("ForkJoinWorkerThread")
        };
        match classes.filter(|class| !of_pool(class)).last() {
            Some(class) if self.by == "park" => inner(&simple(class)),
            _ => simple(&self.class),
        }
    }

    /// As the kernel's side would have seen it.
    pub fn native(&self) -> Vec<String> {
        let own = match self.by {
            "enter" => "ObjectMonitor::enter",
            "wait" => "ObjectMonitor::wait",
            _ => "Parker::park",
        };
        std::iter::once(own.to_owned()).chain(self.frames.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(nanoseconds("PT0.020345S"), Some(20_345_000));
        assert_eq!(nanoseconds("PT1M2S"), Some(62_000_000_000));
        assert_eq!(nanoseconds("PT1H"), Some(3_600_000_000_000));
        assert_eq!(nanoseconds("P1D"), None);
        assert_eq!(nanoseconds("PTxS"), None);
    }

    /// One event as JDK 17 prints it, without what is not read.
    fn line(thread: &str, other: &str) -> String {
        format!(
            r#"{{"type": "jdk.JavaMonitorEnter", "values": {{"startTime": "2026-11-27T10:00:0{thread}Z",
            "duration": "PT0.003S", "eventThread": {{"osThreadId": {thread}}}, "stackTrace":
            {{"truncated": false, "frames": [{{"method": {{"type": {{"name": "Shop"}},
            "name": "order"}}}}]}}, "monitorClass": {{"name": "Shop$Stock"}}, "previousOwner":
            {other}}}}}"#
        )
    }

    fn text(lines: &[String]) -> String {
        format!("{{\n  \"recording\": {{\n \"events\": [{}]\n }}\n}}", lines.join(", \n"))
    }

    #[test]
    fn an_odd_event_does_not_lose_the_others() {
        let odd = [
            line("-1", "null"),
            line("3", r#"{"osThreadId": -1}"#),
            r#"{"type": "jdk.ThreadPark", "values": {"duration": 7, "eventThread": []}}"#
                .to_owned(),
            r#"{"values": null}"#.to_owned(),
            line("18446744073709551615", "null"),
        ];
        let all = [&[line("2", r#"{"osThreadId": 5}"#)], &odd[..], &[line("1", "null")]].concat();
        let read = read(text(&all).as_bytes(), TEXT_MAX, EVENTS_MAX).expect("a recording");
        let found: Vec<_> = read.events.iter().map(|event| (event.thread, event.other)).collect();
        assert_eq!(found, [(2, Some(5)), (3, None), (1, None)]);
        assert!(read.whole);
    }

    #[test]
    fn no_more_is_read_than_a_bound() {
        let all: Vec<String> = (1..=9).map(|thread| line(&thread.to_string(), "null")).collect();
        let text = text(&all);
        let of = |bytes: usize, most| {
            let read = read(text.as_bytes(), bytes as u64, most).expect("a recording");
            (read.events.len(), read.whole)
        };
        assert_eq!(of(text.len(), 9), (9, true));
        assert_eq!(of(text.len(), 8), (8, false));
        assert_eq!(of(text.len() / 2, 9), (4, false));
        assert!(read("".as_bytes(), 100, 9).is_none());
        let read = read(text.as_bytes(), TEXT_MAX, 9).expect("a recording");
        assert_eq!(read.since.as_deref(), Some("2026-11-27T10:00:01Z"));
    }
}
