//! What a Java virtual machine's own flight recorder says: which thread waited for whom, and on an
//! object of which class.
//!
//! `jcmd` starts a recording in the machine's memory, which holds some megabytes, and the machine
//! ends it if this program does not. What it has is dumped to a file, printed by `jfr`, and
//! removed.

use super::java::{finished, jcmd, outer};
use crate::infer::frames;
use crate::trace::{How, Monitor, Stack, Trace, Wait};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Shorter waits are no events: each costs the machine some microseconds.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// If this program is killed, the machine ends the recording so long after it was to end.
const LATER: Duration = Duration::from_secs(10);
/// What is printed of an event's stack.
const DEPTH: &str = "48";
/// Events that are read.
const EVENTS_MAX: usize = 100_000;
const EVENTS: [&str; 3] = ["jdk.JavaMonitorEnter", "jdk.JavaMonitorWait", "jdk.ThreadPark"];

/// A recording in a machine. It ends when this is dropped.
#[derive(Debug)]
pub struct Jfr {
    pid: u32,
    name: String,
}

impl Jfr {
    /// Starts one that lasts no longer than this and a moment.
    pub fn start(pid: u32, length: Duration) -> Option<Jfr> {
        let name = format!("headworks-{}", std::process::id());
        let jfr = Jfr { pid, name };
        // Seen by the machine in its own /tmp, which may be that of a container.
        let (outside, inside) = jfr.file("jfc");
        std::fs::write(&outside, settings()).ok()?;
        let words = [
            "JFR.start".to_owned(),
            format!("name={}", jfr.name),
            format!("settings={inside}"),
            format!("duration={}s", (length + LATER).as_secs().max(1)),
            "disk=false".to_owned(),
        ];
        let said = jcmd(pid, &words.each_ref().map(String::as_str));
        let _ = std::fs::remove_file(outside);
        said.filter(|said| said.contains("Started recording")).map(|_| jfr)
    }

    /// Ends it: what it has, if it can be read.
    pub fn end(self) -> Option<Vec<Event>> {
        let (outside, inside) = self.file("jfr");
        let (name, to) = (format!("name={}", self.name), format!("filename={inside}"));
        let said = jcmd(self.pid, &["JFR.dump", &name, &to]);
        let events = said.and_then(|_| printed(&outside));
        let _ = std::fs::remove_file(outside);
        events
    }

    fn file(&self, ending: &str) -> (PathBuf, String) {
        let inside = format!("/tmp/{}-{}.{ending}", self.name, self.pid);
        (PathBuf::from(format!("/proc/{}/root{inside}", self.pid)), inside)
    }
}

impl Drop for Jfr {
    fn drop(&mut self) {
        // A machine that has ended has no recording.
        let _ = jcmd(self.pid, &["JFR.stop", &format!("name={}", self.name)]);
    }
}

/// What is missing where none could be started.
pub fn refused(pid: u32) -> String {
    format!(
        "what threads of the virtual machine {pid} wait on: it refused its flight recorder (jcmd \
         {pid} JFR.start says why)"
    )
}

/// Ends one and adds what it has to a recording. What is missing, in words.
pub fn end(trace: &mut Trace, pid: u32, flight: Jfr, alone: bool) -> Option<String> {
    match flight.end() {
        Some(events) => {
            add(trace, pid, events, alone);
            let ms = SHORTEST.as_millis();
            alone.then(|| format!("waits of less than {ms} ms in the virtual machine {pid}"))
        }
        None => Some(format!(
            "what the flight recorder of the virtual machine {pid} has: it ended, or jfr is missing"
        )),
    }
}

fn settings() -> String {
    let threshold = SHORTEST.as_millis();
    let one = |event: &&str| {
        format!(
            "<event name=\"{event}\"><setting name=\"enabled\">true</setting><setting \
             name=\"stackTrace\">true</setting><setting name=\"threshold\">{threshold} \
             ms</setting></event>"
        )
    };
    let events: String = EVENTS.iter().map(one).collect();
    format!("<?xml version=\"1.0\"?><configuration version=\"2.0\">{events}</configuration>")
}

/// A wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    by: &'static str,
    thread: u32,
    other: Option<u32>,
    ns: u64,
    class: String,
    /// Functions, the innermost first.
    frames: Vec<String>,
    whole: bool,
}

fn printed(file: &std::path::Path) -> Option<Vec<Event>> {
    let mut command = Command::new("jfr");
    command.args(["print", "--json", "--stack-depth", DEPTH, "--events", &EVENTS.join(",")]);
    let text = finished(command.arg(file).stdin(Stdio::null()))?;
    events(text.as_bytes())
}

#[derive(Deserialize)]
struct File {
    recording: Recording,
}
#[derive(Deserialize)]
struct Recording {
    events: Vec<Line>,
}
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    values: Values,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Values {
    duration: String,
    event_thread: Option<Owner>,
    previous_owner: Option<Owner>,
    notifier: Option<Owner>,
    monitor_class: Option<Named>,
    parked_class: Option<Named>,
    stack_trace: Option<Trail>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    os_thread_id: u32,
}
#[derive(Deserialize)]
struct Named {
    name: String,
}
#[derive(Deserialize)]
struct Trail {
    truncated: bool,
    frames: Vec<Frame>,
}
#[derive(Deserialize)]
struct Frame {
    method: Method,
}
#[derive(Deserialize)]
struct Method {
    #[serde(rename = "type")]
    class: Named,
    name: String,
}

/// From what `jfr print --json` writes.
fn events(json: impl Read) -> Option<Vec<Event>> {
    let file: File = serde_json::from_reader(json).ok()?;
    let all = file.recording.events.into_iter().take(EVENTS_MAX);
    Some(all.filter_map(|line| event(&line.kind, line.values)).collect())
}

fn event(kind: &str, values: Values) -> Option<Event> {
    let (by, class, other) = match kind {
        "jdk.JavaMonitorEnter" => ("enter", values.monitor_class, values.previous_owner),
        "jdk.JavaMonitorWait" => ("wait", values.monitor_class, values.notifier),
        "jdk.ThreadPark" => ("park", values.parked_class, None),
        _ => return None,
    };
    let trail = values.stack_trace?;
    let dotted = |name: &str| name.replace('/', ".");
    let function =
        |frame: &Frame| format!("{}.{}", dotted(&frame.method.class.name), frame.method.name);
    Some(Event {
        by,
        thread: values.event_thread?.os_thread_id,
        other: other.map(|other| other.os_thread_id),
        ns: nanoseconds(&values.duration)?,
        class: class.map_or_else(String::new, |class| dotted(&class.name)),
        frames: trail.frames.iter().map(function).collect(),
        whole: !trail.truncated,
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
    fn class(&self) -> String {
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
    fn native(&self) -> Vec<String> {
        let own = match self.by {
            "enter" => "ObjectMonitor::enter",
            "wait" => "ObjectMonitor::wait",
            _ => "Parker::park",
        };
        std::iter::once(own.to_owned()).chain(self.frames.iter().cloned()).collect()
    }
}

/// Adds the waits to a recording of the process. Without the kernel's side (`alone`), they are all
/// that is known of who waits for whom.
fn add(trace: &mut Trace, pid: u32, events: Vec<Event>, alone: bool) {
    let outer = outer(pid);
    let number = |tid: u32| outer.as_ref().map_or(Some(tid), |outer| outer.get(&tid).copied());
    let unit = |trace: &Trace, tid: u32| Some(trace.threads.get(&number(tid)?)?.unit);
    let mut monitors: BTreeMap<_, Monitor> = BTreeMap::new();
    for event in events {
        let Some(own) = unit(trace, event.thread) else { continue };
        let waker = event.other.and_then(|other| unit(trace, other)).unwrap_or(0);
        let native = event.native();
        let function = frames::waiting(&native).unwrap_or("?").to_owned();
        let class = event.class();
        if alone {
            stack(trace, (own, number(event.thread).unwrap_or(0)), &event, &class, native);
        }
        let key = (own, waker, event.by, class, function);
        let monitor =
            monitors.entry(key).or_insert_with_key(|(unit, waker, by, class, function)| {
                let (class, function, by) = (class.clone(), function.clone(), (*by).to_owned());
                Monitor { unit: *unit, waker: *waker, class, function, by, ..Monitor::default() }
            });
        monitor.n += 1;
        monitor.off_ns += event.ns;
        monitor.max_ns = monitor.max_ns.max(event.ns);
    }
    for monitor in monitors.into_values() {
        if alone {
            trace.waits.push(wait(&monitor));
        }
        trace.monitors.push(monitor);
    }
}

const CONDITION: u16 = 393;
const MUTEX: u16 = 128;

/// A collector moves objects: what stays is the class and who waits.
fn object(class: &str, by: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in class.bytes().chain(by.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 8) & !7
}

fn op(by: &str) -> u16 {
    if by == "enter" { MUTEX } else { CONDITION }
}

fn stack(
    trace: &mut Trace,
    (unit, tid): (u32, u32),
    event: &Event,
    class: &str,
    frames: Vec<String>,
) {
    let (object, sleep, op) = (object(class, event.by), libc::SYS_futex as i16, op(event.by));
    let stack = Stack { tid, unit, object, sleep, op, whole: event.whole, frames, n: 1 };
    let same = |known: &&mut Stack| Stack { n: 1, ..(**known).clone() } == stack;
    match trace.stacks.iter_mut().rev().take(64).find(same) {
        Some(known) => known.n += 1,
        None => trace.stacks.push(stack),
    }
}

fn wait(monitor: &Monitor) -> Wait {
    let futex = libc::SYS_futex as i16;
    let known = monitor.waker > 0 || monitor.by != "wait";
    Wait {
        waker: monitor.waker,
        wakee: monitor.unit,
        object: object(&monitor.class, &monitor.by),
        sleep: futex,
        op: op(&monitor.by),
        wake: if known { futex } else { -1 },
        // Without a notifier it was a timeout.
        how: if known { How::Futex } else { How::None },
        n: monitor.n,
        off_ns: monitor.off_ns,
        max_ns: monitor.max_ns,
        ..Wait::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Thread;

    #[test]
    fn durations_are_read() {
        assert_eq!(nanoseconds("PT0.020345S"), Some(20_345_000));
        assert_eq!(nanoseconds("PT1M2S"), Some(62_000_000_000));
        assert_eq!(nanoseconds("PT1H"), Some(3_600_000_000_000));
        assert_eq!(nanoseconds("P1D"), None);
        assert_eq!(nanoseconds("PTxS"), None);
    }

    /// As JDK 17 prints it, without what is not read.
    const PRINTED: &str = r#"{"recording": {"events": [
        {"type": "jdk.JavaMonitorEnter", "values": {"startTime": "2026", "duration": "PT0.003S",
         "eventThread": {"osThreadId": 11}, "stackTrace": {"truncated": false, "frames": [
           {"method": {"type": {"name": "Shop"}, "name": "order", "descriptor": "()V"}},
           {"method": {"type": {"name": "java\/lang\/Thread"}, "name": "run"}}]},
         "monitorClass": {"name": "Shop$Stock"}, "previousOwner": {"osThreadId": 12}}},
        {"type": "jdk.ThreadPark", "values": {"duration": "PT0.002S",
         "eventThread": {"osThreadId": 12}, "stackTrace": {"truncated": false, "frames": [
           {"method": {"type": {"name": "jdk/internal/misc/Unsafe"}, "name": "park"}},
           {"method": {"type": {"name": "java/util/concurrent/locks/LockSupport"}, "name": "park"}},
           {"method": {"type": {"name": "java/util/concurrent/LinkedBlockingQueue"}, "name": "take"}},
           {"method": {"type": {"name": "java/util/concurrent/ThreadPoolExecutor"}, "name": "getTask"}},
           {"method": {"type": {"name": "Shop"}, "name": "mail"}}]},
         "parkedClass": {"name": "java/util/concurrent/locks/AbstractQueuedSynchronizer$ConditionObject"}}},
        {"type": "jdk.JavaMonitorWait", "values": {"duration": "PT0.002S", "notifier": null,
         "eventThread": null, "stackTrace": null, "monitorClass": null}}
    ]}}"#;

    #[test]
    fn waits_become_lines_of_the_recording() {
        let events = events(PRINTED.as_bytes()).expect("events");
        assert_eq!(events.len(), 2, "one has no thread");
        let mut trace = Trace::default();
        for tid in [11, 12] {
            trace.threads.insert(tid, Thread { tid, pid: 1, unit: tid, ..Thread::default() });
        }
        add(&mut trace, u32::MAX, [events.clone(), events].concat(), true);
        let [lock, queue] = &trace.monitors[..] else { panic!("{:?}", trace.monitors) };
        let said = (lock.unit, lock.waker, &*lock.class, &*lock.function, lock.n, lock.off_ns);
        assert_eq!(said, (11, 12, "Shop$Stock", "Shop.order", 2, 6_000_000));
        let said = (queue.unit, queue.waker, &*queue.class, &*queue.function, &*queue.by);
        assert_eq!(said, (12, 0, "LinkedBlockingQueue", "Shop.mail", "park"));
        assert_eq!((trace.waits[0].how, trace.waits[0].op), (How::Futex, MUTEX));
        assert_eq!(trace.stacks.iter().map(|stack| stack.n).collect::<Vec<_>>(), [2, 2]);
        let mut beside = Trace { threads: trace.threads.clone(), ..Trace::default() };
        add(&mut beside, u32::MAX, super::events(PRINTED.as_bytes()).expect("events"), false);
        assert_eq!((beside.monitors.len(), beside.waits.len(), beside.stacks.len()), (2, 0, 0));
    }
}
