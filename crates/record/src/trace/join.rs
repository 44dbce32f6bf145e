//! Recordings of several machines, made at the same time, as one.

use super::{Head, OUTSIDE, Trace, TraceError};
use std::collections::BTreeSet;

/// Numbers of processes and threads of each further machine begin so much higher: above the largest
/// that Linux gives.
const NUMBERS: u32 = 1 << 23;
/// Recordings whose counted times differ by more than this part are not of one load.
const APART: f64 = 0.1;

impl Trace {
    /// Puts the recording of another machine beside this one, or another one of the same machine.
    /// Connections between machines are matched by their addresses. What differs in time is named
    /// in [`Head::missing`].
    pub fn join(&mut self, mut other: Trace) -> Result<(), TraceError> {
        if self.joined.is_empty() {
            self.belong_to_their_host();
        }
        other.belong_to_their_host();
        self.refuse_the_same(&other)?;
        self.head.missing.extend(apart(&self.head, &other.head));
        let named = |what: &String| format!("{}: {what}", other.head.host);
        self.head.missing.extend(other.head.missing.iter().map(named));
        let numbers = NUMBERS.saturating_mul(self.joined.len() as u32 + 1);
        let units = self.units.keys().next_back().copied().unwrap_or(0).max(OUTSIDE);
        other.renumber(units, numbers);
        other.stacks_follow(self.stacks.len());
        self.processes.extend(other.processes);
        self.threads.extend(other.threads);
        self.units.extend(other.units);
        self.activity.extend(other.activity);
        self.waits.extend(other.waits);
        self.stacks.extend(other.stacks);
        self.sockets.extend(other.sockets);
        self.calls.extend(other.calls);
        self.injections.extend(other.injections);
        self.handed.extend(other.handed);
        self.held.extend(other.held);
        self.monitors.extend(other.monitors);
        self.scheduled.extend(other.scheduled);
        self.losses.extend(other.losses);
        self.maps.extend(other.maps);
        self.copied.extend(other.copied);
        self.joined.push(other.head);
        self.joined.extend(other.joined);
        Ok(())
    }

    /// Of all machines that were recorded.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        std::iter::once(&self.head).chain(&self.joined)
    }

    /// How a machine was recorded; the first one's if it is not known.
    pub fn head_of(&self, host: &str) -> &Head {
        self.heads().find(|head| head.host == host).unwrap_or(&self.head)
    }

    /// The machine of a process.
    pub fn host_of(&self, pid: u32) -> &str {
        let own = self.processes.get(&pid).map_or("", |process| process.host.as_str());
        if own.is_empty() { &self.head.host } else { own }
    }

    /// Addresses that mean the machine itself mean another one on each.
    fn belong_to_their_host(&mut self) {
        let host = &self.head.host;
        for process in self.processes.values_mut().filter(|process| process.host.is_empty()) {
            process.host.clone_from(host);
        }
        for end in self.sockets.iter_mut().flat_map(|each| [&mut each.local, &mut each.remote]) {
            if let Some(number) = end.strip_prefix("unix:") {
                *end = format!("unix:{host}/{number}");
            } else if end.starts_with("127.") || end.starts_with("[::1]") {
                *end = format!("{host}/{end}");
            }
        }
    }

    fn refuse_the_same(&self, other: &Trace) -> Result<(), TraceError> {
        let of = |trace: &Trace| -> BTreeSet<(String, u32)> {
            let pids = trace.processes.values();
            pids.map(|process| (process.host.clone(), process.pid % NUMBERS)).collect()
        };
        match of(self).intersection(&of(other)).next() {
            Some((host, pid)) => Err(TraceError::Twice { host: host.clone(), pid: *pid }),
            None => Ok(()),
        }
    }

    /// Units above [`OUTSIDE`] get numbers above `units`, and processes and threads so much higher
    /// ones.
    fn renumber(&mut self, units: u32, numbers: u32) {
        let unit = |number: &mut u32| *number += if *number > OUTSIDE { units } else { 0 };
        let pid = |number: &mut u32| *number += if *number > 0 { numbers } else { 0 };
        for process in self.processes.values_mut() {
            pid(&mut process.pid);
            pid(&mut process.parent);
        }
        for thread in self.threads.values_mut() {
            [&mut thread.tid, &mut thread.pid].into_iter().for_each(pid);
            [&mut thread.unit, &mut thread.born].into_iter().for_each(unit);
        }
        // There is one outside for all.
        self.units.remove(&OUTSIDE);
        for each in self.units.values_mut() {
            pid(&mut each.pid);
            [&mut each.unit, &mut each.creator].into_iter().for_each(unit);
        }
        for wait in &mut self.waits {
            [&mut wait.waker, &mut wait.wakee].into_iter().for_each(unit);
        }
        for stack in &mut self.stacks {
            pid(&mut stack.tid);
            unit(&mut stack.unit);
        }
        self.sockets.iter_mut().for_each(|socket| unit(&mut socket.unit));
        self.calls.iter_mut().for_each(|call| unit(&mut call.unit));
        self.activity.iter_mut().for_each(|activity| unit(&mut activity.unit));
        for each in &mut self.injections {
            each.waiters.iter_mut().chain(&mut each.stopped).for_each(unit);
        }
        for monitor in &mut self.monitors {
            [&mut monitor.unit, &mut monitor.waker].into_iter().for_each(unit);
        }
        for held in &mut self.held {
            [&mut held.unit, &mut held.owner].into_iter().for_each(unit);
        }
        self.handed.iter_mut().for_each(|handed| pid(&mut handed.pid));
        self.scheduled.iter_mut().for_each(|scheduled| pid(&mut scheduled.pid));
        self.maps.iter_mut().for_each(|maps| pid(&mut maps.pid));
        self.copied.iter_mut().for_each(|copied| pid(&mut copied.pid));
        let all = std::mem::take(&mut self.processes).into_values();
        self.processes = all.map(|process| (process.pid, process)).collect();
        let all = std::mem::take(&mut self.threads).into_values();
        self.threads = all.map(|thread| (thread.tid, thread)).collect();
        let all = std::mem::take(&mut self.units).into_values();
        self.units = all.map(|unit| (unit.unit, unit)).collect();
    }

    fn stacks_follow(&mut self, before: usize) {
        self.copied.iter_mut().for_each(|copied| copied.stack += before);
    }
}

/// Why the sums of two recordings may not belong together.
fn apart(first: &Head, second: &Head) -> Vec<String> {
    let (host, other) = (&first.host, &second.host);
    let mut found = Vec::new();
    let end = |head: &Head| head.started_s as f64 + head.seconds;
    let together = end(first).min(end(second)) - first.started_s.max(second.started_s) as f64;
    if together < 0.5 * first.seconds.min(second.seconds) {
        found.push(format!(
            "what {host} and {other} did together: they were recorded at different times"
        ));
    }
    let (counted, others) = (first.counted_s, second.counted_s);
    if (counted - others).abs() > APART * counted.max(others) {
        found.push(format!(
            "rates of {other} beside {host}: {others:.1} s were counted there, and {counted:.1} s here"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Process, SCHEMA, Socket, Thread, Unit, Wait};
    use super::*;
    use crate::hints::Hints;
    use crate::infer::arrows::{End, Meaning};
    use crate::infer::infer;

    /// A machine with one process of one thread that sends and receives on a connection.
    fn machine(host: &str, program: &str, listens: &[u16], ends: [&str; 2]) -> Trace {
        let head = Head {
            schema: SCHEMA.to_owned(),
            host: host.to_owned(),
            seconds: 10.0,
            counted_s: 10.0,
            processors: 2,
            ..Head::default()
        };
        let mut trace = Trace { head, ..Trace::default() };
        let named = || program.to_owned();
        let process = Process {
            pid: 100,
            program: named(),
            name: named(),
            title: named(),
            listens: listens.to_vec(),
            ..Process::default()
        };
        trace.processes.insert(100, process);
        let names = vec![format!("{program}-work")];
        let thread = Thread { tid: 101, pid: 100, unit: 2, names, ..Thread::default() };
        trace.threads.insert(101, thread);
        let unit = Unit { unit: 2, pid: 100, sleeps: 900, alive_max: 1, ..Unit::default() };
        trace.units.insert(2, unit);
        trace.units.insert(OUTSIDE, Unit { unit: OUTSIDE, ..Unit::default() });
        trace.waits.push(Wait { waker: OUTSIDE, wakee: 2, object: 4, n: 900, ..Wait::default() });
        for sends in [false, true] {
            let [local, remote] = ends.map(str::to_owned);
            let n = 900;
            let turns = if sends { 0 } else { n };
            let socket = Socket {
                unit: 2,
                sends,
                local,
                remote,
                n,
                turns,
                bytes: 9_000,
                ..Socket::default()
            };
            trace.sockets.push(socket);
        }
        trace
    }

    /// Arrows between processes.
    fn passed(trace: &Trace) -> Vec<(String, String)> {
        let found = infer(trace, &Hints::default());
        let name = |stage: usize| found.stages.stages[stage].name.clone();
        let data = found.arrows.iter().filter(|arrow| arrow.meaning == Meaning::Data);
        data.filter_map(|arrow| match (arrow.from, arrow.to) {
            (End::Stage(from), End::Stage(to)) => Some((name(from), name(to))),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_connection_between_machines_becomes_an_arrow() {
        let (web, base) = ("10.0.0.1:40000", "10.0.0.2:3306");
        let mut trace = machine("a", "web", &[], [web, base]);
        trace.join(machine("b", "base", &[3306], [base, web])).unwrap();
        assert_eq!(passed(&trace), [("web-work".to_owned(), "base-work".to_owned())]);
        let found = infer(&trace, &Hints::default());
        let hosts: Vec<&str> =
            found.stages.places.iter().map(|place| place.host.as_str()).collect();
        assert_eq!(hosts, ["a", "b"]);
        assert!(found.unseen.is_empty(), "{:?}", found.unseen);
        // What is written is read again.
        let mut bytes = Vec::new();
        trace.write(&mut bytes, u64::MAX).unwrap();
        assert_eq!(Trace::read(&bytes[..]).unwrap(), trace);
    }

    #[test]
    fn the_same_loopback_addresses_of_two_machines_are_two_connections() {
        let (web, base) = ("127.0.0.1:40000", "127.0.0.1:3306");
        let mut trace = machine("a", "web", &[], [web, base]);
        trace.join(machine("b", "base", &[3306], [base, web])).unwrap();
        assert!(passed(&trace).is_empty());
        let mut same = machine("a", "web", &[], [web, base]);
        let mut second = machine("a", "base", &[3306], [base, web]);
        let mut process = second.processes.remove(&100).unwrap();
        process.pid = 200;
        second.processes.insert(200, process);
        second.threads.values_mut().for_each(|thread| thread.pid = 200);
        second.units.values_mut().for_each(|unit| unit.pid = 200);
        same.join(second).unwrap();
        assert_eq!(passed(&same).len(), 1, "two recordings of one machine");
    }

    #[test]
    fn a_process_is_not_counted_twice_and_other_times_are_named() {
        let ends = ["10.0.0.1:40000", "10.0.0.2:3306"];
        let mut trace = machine("a", "web", &[], ends);
        assert!(matches!(
            trace.join(machine("a", "web", &[], ends)),
            Err(TraceError::Twice { pid: 100, .. })
        ));
        let mut later = machine("b", "base", &[], ends);
        (later.head.started_s, later.head.counted_s) = (60, 5.0);
        trace.join(later).unwrap();
        let missing = trace.head.missing.join("\n");
        assert!(missing.contains("different times"), "{missing}");
        assert!(missing.contains("5.0 s were counted there, and 10.0 s here"), "{missing}");
    }
}
