//! Threads that were seen, and the units under which they are counted.

use super::layout::BORN_FIRST;
use super::networks::Networks;
use super::procfs::{self, Used};
use super::young::Young;
use crate::trace::{OUTSIDE, Process, Thread};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// A thread younger than this stays in the unit of those that its creator makes: it may be made
/// for one request.
const GROWN_UP: Duration = Duration::from_millis(500);

/// Units for single threads; what comes later shares units by name.
const SINGLE_UNITS_MAX: u32 = 4096;

/// See the module.
#[derive(Default)]
pub struct Registry {
    pub processes: BTreeMap<u32, Process>,
    pub threads: BTreeMap<u32, Seen>,
    /// Threads of each unit at the last look, and the time for which those that were seen ran or
    /// were ready.
    pub alive: BTreeMap<u32, u32>,
    pub busy_ns: BTreeMap<u32, u64>,
    /// Most threads of a unit at one time.
    pub alive_max: BTreeMap<u32, u32>,
    /// Threads that found no room in the kernel's table.
    pub homeless: u64,
    /// Paths of Unix sockets on which processes listen.
    unix: BTreeMap<u32, Vec<String>>,
    /// Connections that were not accepted yet: their sum over the looks, and these.
    waiting: BTreeMap<u32, (usize, usize)>,
    young: Young,
    next: u32,
    shared: HashMap<(u32, String), u32>,
}

/// A thread.
pub struct Seen {
    pub thread: Thread,
    first: Instant,
    before: Used,
    last: Instant,
    busy_ns: u64,
}

/// Units are kept by the kernel's side, or by nothing in `/proc` mode.
pub trait Units {
    /// The unit that a thread has already.
    fn known(&self, tid: u32) -> Option<u32>;
    /// Puts a thread into a unit.
    fn put(&mut self, tid: u32, unit: u32) -> anyhow::Result<()>;
}

impl Registry {
    /// Whether a process that was seen has ended, and another one has its number.
    pub fn reused(&self, pid: u32) -> bool {
        let known = self.processes.get(&pid);
        known.is_some_and(|known| procfs::started(pid).is_some_and(|now| now != known.started))
    }

    /// Whether any process that was seen is alive.
    pub fn any_alive(&self) -> bool {
        self.processes.keys().any(|pid| procfs::alive(*pid) && !self.reused(*pid))
    }

    /// Looks at all threads of these processes. Returns whether any changed its unit.
    pub fn scan(&mut self, pids: &[u32], units: &mut impl Units) -> bool {
        let now = Instant::now();
        let mut changed = false;
        let mut networks = Networks::default();
        let mut alive: BTreeMap<u32, u32> = BTreeMap::new();
        // Of a thread that was not seen before, what it did before is not of the recording.
        let first = self.threads.is_empty();
        for &pid in pids {
            let known = self.processes.get(&pid);
            let due = known.is_none_or(|known| self.young.due(pid, known.started));
            if let Some(now) = due.then(|| procfs::process(pid, &mut networks)).flatten() {
                match self.processes.get_mut(&pid) {
                    Some(known) => grown(known, now),
                    None => _ = self.processes.insert(pid, now),
                }
            }
            if let Some(process) = self.processes.get_mut(&pid) {
                process.open = process.open.max(networks.open(pid, &process.listens));
                let waiting = self.waiting.entry(pid).or_default();
                *waiting = (waiting.0 + networks.waiting(pid, &process.listens), waiting.1 + 1);
                process.backlog = waiting.0 as f64 / waiting.1 as f64;
                if due && process.listens_unix {
                    self.unix.insert(pid, networks.listens_unix(pid));
                }
                let paths = self.unix.get(&pid).map_or(&[][..], Vec::as_slice);
                let open = networks.open_unix(pid, paths);
                process.open_unix = process.open_unix.max(open);
            }
            for tid in procfs::threads(pid) {
                let Some(name) = procfs::name(pid, tid) else { continue };
                changed |= self.see(pid, tid, name, now, units);
                if let Some(seen) = self.threads.get_mut(&tid) {
                    *alive.entry(seen.thread.unit).or_default() += 1;
                    let busy_ns: u64 = procfs::scheduled_ns(pid, tid).iter().sum();
                    let more =
                        busy_ns.saturating_sub(std::mem::replace(&mut seen.busy_ns, busy_ns));
                    *self.busy_ns.entry(seen.thread.unit).or_default() +=
                        if first { 0 } else { more };
                }
            }
        }
        for (&unit, &count) in &alive {
            let most = self.alive_max.entry(unit).or_default();
            *most = (*most).max(count);
        }
        self.alive = alive;
        changed
    }

    /// Processes that run another program than when they were first seen.
    pub fn replaced(&mut self, pids: &[u32]) -> Vec<u32> {
        let mut replaced = Vec::new();
        for &pid in pids {
            let Some(known) = self.processes.get_mut(&pid) else { continue };
            if procfs::runs(pid, &known.program) == Some(false)
                && let Some(process) = procfs::process(pid, &mut Networks::default())
            {
                *known = process;
                self.young.restart(pid, known.started);
                replaced.push(pid);
            }
        }
        replaced
    }

    fn see(
        &mut self,
        pid: u32,
        tid: u32,
        name: String,
        now: Instant,
        units: &mut impl Units,
    ) -> bool {
        if let Some(seen) = self.threads.get_mut(&tid) {
            seen.last = now;
            if !seen.thread.names.contains(&name) && seen.thread.names.len() < 8 {
                seen.thread.names.push(name);
            }
            let young = seen.thread.unit >= BORN_FIRST;
            // It may have got a name meanwhile, and with it another unit.
            if let (true, Some(unit)) = (young, units.known(tid)) {
                seen.thread.unit = unit;
            }
            if !young || now.duration_since(seen.first) < GROWN_UP {
                return false;
            }
            let shared = seen.thread.names[0].clone();
            let unit = self.new_unit(pid, &shared);
            if let Some(seen) = self.threads.get_mut(&tid) {
                seen.thread.unit = unit;
            }
            // Without room it is counted where it was.
            self.homeless += u64::from(units.put(tid, unit).is_err());
            return true;
        }
        let born = units.known(tid).unwrap_or(0);
        let unit = if born > 0 { born } else { self.new_unit(pid, &name) };
        if born == 0 && units.put(tid, unit).is_err() {
            self.homeless += 1;
        }
        // A thread that was born meanwhile used nothing before.
        let before = if born > 0 { Used::default() } else { procfs::used(pid, tid) };
        let started = if born > 0 { 0 } else { procfs::started(tid).unwrap_or(0) };
        let names = vec![name];
        let thread = Thread { tid, pid, unit, born, names, started, ..Thread::default() };
        self.threads.insert(tid, Seen { thread, first: now, before, last: now, busy_ns: 0 });
        born == 0
    }

    /// A number for one thread, or for those of a process with the same name if there are many.
    fn new_unit(&mut self, pid: u32, name: &str) -> u32 {
        self.next = self.next.max(OUTSIDE + 1);
        if self.next < SINGLE_UNITS_MAX {
            self.next += 1;
            return self.next - 1;
        }
        let key = (pid, crate::infer::names::normalised(name));
        if let Some(&unit) = self.shared.get(&key) {
            return unit;
        }
        // The last number takes all that is left.
        let unit = self.next.min(BORN_FIRST - 1);
        self.next = unit + 1;
        self.shared.insert(key, unit);
        unit
    }

    /// A unit for threads that were found to do the same.
    pub fn common_unit(&mut self) -> Option<u32> {
        self.next = self.next.max(OUTSIDE + 1);
        (self.next < BORN_FIRST - 1).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Reads what each thread that is alive used since it was first seen.
    pub fn settle(&mut self) {
        for (tid, seen) in &mut self.threads {
            let used = procfs::used(seen.thread.pid, *tid) - seen.before;
            // A thread that is gone has nothing in /proc; its unit has what the kernel noted.
            if used.cpu_ns > 0 {
                seen.thread.cpu_ns = used.cpu_ns;
                seen.thread.read_chars = used.read_chars;
                seen.thread.written_chars = used.written_chars;
                seen.thread.device_read = used.device_read;
                seen.thread.device_written = used.device_written;
                seen.thread.sleeps = used.sleeps;
            }
        }
    }
}

/// Adds what a young process has now. What was known stays: a process that is ending shows less.
fn grown(known: &mut Process, now: Process) {
    // `replaced` handles a process that became another program.
    if known.program != now.program {
        return;
    }
    known.java |= now.java;
    known.listens_unix |= now.listens_unix;
    known.listens.extend(&now.listens);
    known.listens.sort_unstable();
    known.listens.dedup();
    if !now.title.is_empty() {
        known.title = now.title;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Units for Nothing {
        fn known(&self, _: u32) -> Option<u32> {
            None
        }
        fn put(&mut self, _: u32, _: u32) -> anyhow::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn many_threads_share_units_by_their_names() {
        let mut registry = Registry::default();
        let now = Instant::now();
        for tid in 1..=9_000 {
            let name = format!("worker-{tid}");
            registry.see(1, tid, name, now, &mut Nothing);
        }
        let last = &registry.threads[&9_000].thread;
        assert_eq!(registry.threads[&8_999].thread.unit, last.unit);
        assert!(last.unit < BORN_FIRST);
        assert_ne!(registry.threads[&1].thread.unit, registry.threads[&2].thread.unit);
    }

    #[test]
    fn a_number_that_another_process_has_is_not_the_process_that_was_seen() {
        let own = std::process::id();
        let mut registry = Registry::default();
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        registry.scan(&[own], &mut Nothing);
        assert!(!registry.reused(own) && registry.any_alive());
        let address = port.local_addr().expect("bound");
        let _clients = [0; 9].map(|_| std::net::TcpStream::connect(address).expect("a connection"));
        registry.scan(&[own], &mut Nothing);
        // Other tests may listen at the first look.
        let listens = registry.processes[&own].listens.contains(&address.port());
        assert!(listens && registry.processes[&own].open >= 9);
        registry.processes.get_mut(&own).expect("this process").started -= 1;
        assert!(registry.reused(own) && !registry.any_alive());
    }

    #[test]
    fn a_process_that_grows_keeps_what_was_known() {
        let process = |program: &str, java, listens: &[u16]| Process {
            program: program.to_owned(),
            java,
            listens: listens.to_vec(),
            open: 7,
            ..Process::default()
        };
        let mut known = process("server", false, &[80]);
        grown(&mut known, process("server", true, &[443]));
        assert_eq!((known.java, &*known.listens, known.open), (true, &[80, 443][..], 7));
        // It is about to end.
        grown(&mut known, process("server", false, &[]));
        grown(&mut known, process("other", false, &[1]));
        assert_eq!((known.java, &*known.listens), (true, &[80, 443][..]));
    }

    #[test]
    fn names_that_change_are_kept() {
        let mut registry = Registry::default();
        let now = Instant::now();
        for name in ["idle", "reads", "idle"] {
            registry.see(1, 7, name.to_owned(), now, &mut Nothing);
        }
        assert_eq!(registry.threads[&7].thread.names, ["idle", "reads"]);
    }
}
