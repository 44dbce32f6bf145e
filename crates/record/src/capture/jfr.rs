//! What a Java virtual machine's own flight recorder says: which thread waited for whom, and on an
//! object of which class.
//!
//! The machine is asked for a recording in its memory, which holds some megabytes, and it ends this
//! if the program does not. What it has is written to a file when it is stopped, printed by `jfr`,
//! and removed.

mod events;

use super::attach::{self, folder, within};
use super::java::outer;
use super::procfs;
use crate::infer::frames::{self, Site};
use crate::trace::{How, Monitor, Stack, Trace, Wait};
use events::{EVENTS, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shorter waits are no events: each costs the machine some microseconds.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// If this program is killed, the machine ends the recording so long after it was to end.
const LATER: Duration = Duration::from_secs(10);
/// A recording in memory has the newest 10 MB. A smaller file has all.
const FULL: u64 = 4 << 20;
const OURS: &str = "headworks-";

/// A recording in a machine. It ends when this is dropped, and its files are removed.
#[derive(Debug)]
pub struct Jfr {
    pid: u32,
    name: String,
    folder: File,
    runs: bool,
}

impl Jfr {
    /// Starts a recording. If it is not stopped, the machine ends it ten seconds after `length`.
    ///
    /// # Errors
    /// The reason why the machine is not recorded, for the report.
    pub fn start(pid: u32, length: Duration) -> Result<Jfr, String> {
        let why = |why: &str| format!("what threads of the virtual machine {pid} wait on: {why}");
        let refused =
            || why(&format!("it refused its flight recorder (jcmd {pid} JFR.check says why)"));
        let known = ask(pid, &["JFR.check"]).ok_or_else(refused)?;
        let (old, others) = running(&known, procfs::alive);
        if let Some(other) = others.first() {
            return Err(why(&format!(
                "its flight recorder has the recording {other}, which is left alone"
            )));
        }
        for name in old {
            let _ = ask(pid, &["JFR.stop", &format!("name={name}")]);
        }
        let folder =
            folder(pid).map_err(|error| why(&format!("its /tmp cannot be used: {error}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{OURS}{}-{now}", std::process::id());
        let mut jfr = Jfr { pid, name, folder, runs: false };
        jfr.write_settings().map_err(|error| why(&format!("its /tmp is not written: {error}")))?;
        let words = [
            "JFR.start".to_owned(),
            format!("name={}", jfr.name),
            format!("settings={}", jfr.inside("jfc")),
            format!("duration={}s", (length + LATER).as_secs().max(1)),
            "disk=false".to_owned(),
        ];
        // It may have started although it did not answer in time.
        jfr.runs = true;
        let said = ask(pid, &words.each_ref().map(String::as_str));
        let _ = std::fs::remove_file(jfr.outside("jfc"));
        if said.is_some_and(|said| said.contains("Started recording")) {
            return Ok(jfr);
        }
        Err(refused())
    }

    /// The machine reads it, as another user.
    fn write_settings(&self) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(self.outside("jfc"))?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(settings().as_bytes())
    }

    fn stop(&mut self) {
        let (name, to) =
            (format!("name={}", self.name), format!("filename={}", self.inside("jfr")));
        self.runs = ask(self.pid, &["JFR.stop", &name, &to]).is_none();
    }

    fn inside(&self, ending: &str) -> String {
        format!("/tmp/{}.{ending}", self.name)
    }

    fn outside(&self, ending: &str) -> PathBuf {
        within(&self.folder, &format!("{}.{ending}", self.name))
    }
}

impl Drop for Jfr {
    fn drop(&mut self) {
        if self.runs {
            // A machine that has ended has no recording.
            let _ = ask(self.pid, &["JFR.stop", &format!("name={}", self.name)]);
        }
        for ending in ["jfc", "jfr"] {
            let _ = std::fs::remove_file(self.outside(ending));
        }
    }
}

/// Recordings that run: those of recorders that were killed, and others.
fn running(check: &str, alive: impl Fn(u32) -> bool) -> (Vec<&str>, Vec<&str>) {
    let names = check.lines().filter(|line| line.starts_with("Recording "));
    let names = names.filter(|line| !line.trim_end().ends_with("(stopped)"));
    let names = names.map(|line| {
        let name = line.split_once("name=").map_or(line, |(_, name)| name);
        name.split(' ').next().unwrap_or(name)
    });
    names.partition(|name| {
        let number = name.strip_prefix(OURS).and_then(|rest| rest.split('-').next());
        number.and_then(|number| number.parse().ok()).is_some_and(|number| !alive(number))
    })
}

/// Stops all flight recordings at the same time, so that none has what this program does later.
pub fn stop(flights: &mut [Jfr]) {
    std::thread::scope(|scope| {
        for flight in flights.iter_mut().filter(|flight| flight.runs) {
            scope.spawn(|| flight.stop());
        }
    });
}

/// Adds the waits of a flight recording that was stopped to the trace. Returns what is missing in
/// them, in words.
pub fn end(trace: &mut Trace, flight: &Jfr, alone: bool) -> Vec<String> {
    let (pid, file) = (flight.pid, flight.outside("jfr"));
    // What the machine wrote, and nothing that was put there instead.
    let written = file.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
    let size = written.filter(|_| !flight.runs).map(|file| file.len());
    let read = size.and_then(|_| events::printed(&file));
    let (Some(size), Some(read)) = (size, read) else {
        return vec![format!(
            "what the flight recorder of the virtual machine {pid} has: it ended, or jfr is missing"
        )];
    };
    let mut missing = Vec::new();
    if alone {
        let ms = SHORTEST.as_millis();
        missing.push(format!("waits of less than {ms} ms in the virtual machine {pid}"));
    }
    if !read.whole {
        let n = read.events.len();
        missing.push(format!(
            "waits in the virtual machine {pid} after the first {n} that its flight recorder has"
        ));
    }
    if let Some(since) = read.since.filter(|_| size >= FULL) {
        missing.push(format!(
            "waits in the virtual machine {pid} before {since}, if its flight recorder had older \
             ones: it keeps the newest 10 MB"
        ));
    }
    add(trace, pid, read.events, alone);
    missing
}

fn ask(pid: u32, words: &[&str]) -> Option<String> {
    attach::ask(pid, words).ok()
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

/// Adds the waits to a recording of the process. Without the kernel's side (`alone`), they are all
/// that is known of who waits for whom.
fn add(trace: &mut Trace, pid: u32, events: Vec<Event>, alone: bool) {
    let outer = outer(pid);
    let number = |tid: u32| outer.as_ref().map_or(Some(tid), |outer| outer.get(&tid).copied());
    let unit = |trace: &Trace, tid: u32| Some(trace.threads.get(&number(tid)?)?.unit);
    let mut monitors: BTreeMap<_, Monitor> = BTreeMap::new();
    if alone {
        leave_out(trace, &events.iter().filter_map(|event| unit(trace, event.thread)).collect());
    }
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

/// Sleeps of these units that were sampled, and that events tell: they would count twice. No event
/// tells of a sleep for a time.
fn leave_out(trace: &mut Trace, units: &BTreeSet<u32>) {
    let futex = libc::SYS_futex as i16;
    let timed = trace.stacks.iter().filter(|one| frames::site(&one.frames) == Some(Site::Time));
    let timed: BTreeSet<_> = timed.map(|stack| (stack.unit, stack.object)).collect();
    trace.waits.retain(|wait| {
        let told = wait.sleep == futex && units.contains(&wait.wakee);
        !told || timed.contains(&(wait.wakee, wait.object))
    });
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
    let mut stack = Stack { tid, unit, object, sleep, op, whole: event.whole, frames, n: 1 };
    let known = trace.stacks.iter_mut().rev().take(64).find(|known| {
        stack.n = known.n;
        **known == stack
    });
    match known {
        Some(known) => known.n += 1,
        None => trace.stacks.push(Stack { n: 1, ..stack }),
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
        let events = events::read(PRINTED.as_bytes(), 1 << 20, 9).expect("a recording").events;
        assert_eq!(events.len(), 2, "one has no thread");
        let mut trace = Trace::default();
        for tid in [11, 12] {
            trace.threads.insert(tid, Thread { tid, pid: 1, unit: tid, ..Thread::default() });
        }
        add(&mut trace, u32::MAX, [&events[..], &events[..]].concat(), true);
        let [lock, queue] = &trace.monitors[..] else { panic!("{:?}", trace.monitors) };
        let said = (lock.unit, lock.waker, &*lock.class, &*lock.function, lock.n, lock.off_ns);
        assert_eq!(said, (11, 12, "Shop$Stock", "Shop.order", 2, 6_000_000));
        let said = (queue.unit, queue.waker, &*queue.class, &*queue.function, &*queue.by);
        assert_eq!(said, (12, 0, "LinkedBlockingQueue", "Shop.mail", "park"));
        assert_eq!((trace.waits[0].how, trace.waits[0].op), (How::Futex, MUTEX));
        assert_eq!(trace.stacks.iter().map(|stack| stack.n).collect::<Vec<_>>(), [2, 2]);
        let mut beside = Trace { threads: trace.threads.clone(), ..Trace::default() };
        add(&mut beside, u32::MAX, events, false);
        assert_eq!((beside.monitors.len(), beside.waits.len(), beside.stacks.len()), (2, 0, 0));
    }

    #[test]
    fn a_sleep_that_an_event_tells_is_not_counted_twice() {
        let events = events::read(PRINTED.as_bytes(), 1 << 20, 9).expect("a recording").events;
        let mut trace = Trace::default();
        for tid in [11, 12, 13] {
            trace.threads.insert(tid, Thread { tid, pid: 1, unit: tid, ..Thread::default() });
        }
        let futex = libc::SYS_futex as i16;
        // The third has no event. The last two are no waits of which events tell.
        for (wakee, object, sleep) in
            [(11, 8, futex), (12, 16, futex), (13, 24, futex), (11, 0, 7), (11, 32, futex)]
        {
            trace.waits.push(Wait { wakee, object, sleep, off_ns: 100, ..Wait::default() });
        }
        let frames = vec!["JavaThread::sleep(long)".to_owned()];
        let sleeps =
            Stack { tid: 11, unit: 11, object: 32, sleep: futex, frames, ..Stack::default() };
        trace.stacks.push(sleeps);
        add(&mut trace, u32::MAX, events, true);
        let left: Vec<_> = trace.waits.iter().map(|wait| (wait.wakee, wait.off_ns)).collect();
        let told = [(11, 3_000_000), (12, 2_000_000)];
        assert_eq!(left, [&[(13, 100), (11, 100), (11, 100)], &told[..]].concat());
    }

    #[test]
    fn a_recording_of_others_is_left_alone() {
        let check = "42:\nRecording 1: name=headworks-7-99 duration=13s (running)\n\n\
                     Recording 2: name=1 maxsize=250.0MB (running)\nRecording 3: \
                     name=headworks-8-1 (stopped)\nRecording 4: name=headworks-9-1 (running)\n";
        assert_eq!(
            running(check, |pid| pid == 9),
            (vec!["headworks-7-99"], vec!["1", "headworks-9-1"])
        );
        assert_eq!(running("42:\nNo available recordings.\n", |_| true), (vec![], vec![]));
    }
}
