//! A recording by eBPF: learn the threads, then count in windows.

mod crowds;
mod head;
mod machines;
mod trial;

use super::activity::{Look, Over};
use super::budget::Budget;
use super::clients::Clients;
use super::hung;
use super::java::Machines;
use super::jfr::{self, Jfr};
use super::kernel::{Cost, Kernel};
use super::layout::{BORN_FIRST, EdgeKey, Group, StackHead};
use super::quota::Quotas;
use super::registry::{Registry, Units};
use super::stacks::Stacks;
use super::sums::{Splits, add_cut_runs, add_unit, add_wait, socket_of, wait_of};
use super::timeline::TimeLine;
use super::{Options, Progress, hidden, idle, own_cpu, processors, procfs, wanted};
use crate::trace::{Call, Handed, Injection, Scheduled, Trace, Unit, Wait};
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Stacks for each unit and object, and for each thread.
const STACKS: u32 = 6;
/// Counted time after which threads that do the same share a unit.
const LEARN: Duration = Duration::from_millis(1_000);
/// How often the copied stacks are taken, so that their ring does not fill.
const DRAIN: Duration = Duration::from_millis(10);
/// A look at all threads takes at most this part of the time.
const SCAN_SHARE: u32 = 50;

impl Units for Kernel {
    fn known(&self, tid: u32) -> Option<u32> {
        self.unit(tid)
    }
    fn put(&mut self, tid: u32, unit: u32) -> Result<()> {
        Kernel::put(self, tid, unit)
    }
}

struct Session<'o> {
    kernel: Kernel,
    options: &'o Options<'o>,
    registry: Registry,
    stacks: Stacks,
    /// Units that became part of another.
    joined: HashMap<u32, u32>,
    clients: Clients,
    quotas: Quotas,
    /// Threads over time.
    over: Over,
    injections: Vec<Injection>,
    /// Calls that took locks, and for how long these were counted.
    calls: Vec<Call>,
    probed: Duration,
    timeline: Option<TimeLine>,
    begun: Instant,
    scanned: Instant,
    scan_took: Duration,
    counted: Duration,
    before: Cost,
    own_before: Duration,
    idle_before: Option<Duration>,
    missing: Vec<String>,
    machines: Machines,
    /// Virtual machines in which the agent counts, and the files that it writes.
    agents: Vec<(u32, PathBuf)>,
    handed: Vec<Handed>,
    /// Flight recorders that run.
    flights: Vec<Jfr>,
    scheduled: Vec<Scheduled>,
    full_names: BTreeMap<u32, String>,
}

/// See the module.
pub fn record(
    kernel: Kernel,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Trace> {
    let before = kernel.cost();
    let now = Instant::now();
    let mut session = Session {
        kernel,
        options,
        registry: Registry::default(),
        stacks: Stacks::keeping(options.keep_stacks),
        joined: HashMap::new(),
        clients: Clients::default(),
        quotas: Quotas::default(),
        over: Over::default(),
        injections: Vec::new(),
        calls: Vec::new(),
        probed: Duration::ZERO,
        timeline: None,
        begun: now,
        scanned: now,
        scan_took: Duration::ZERO,
        counted: Duration::ZERO,
        before,
        own_before: own_cpu(),
        idle_before: idle(),
        missing: Vec::new(),
        machines: Machines::default(),
        agents: Vec::new(),
        handed: Vec::new(),
        flights: Vec::new(),
        scheduled: Vec::new(),
        full_names: BTreeMap::new(),
    };
    session.begin()?;
    // Many threads, and virtual machines that are asked for names, take seconds: these are not of
    // the length that was asked for.
    session.begun = Instant::now();
    session.idle_before = idle();
    session.run(progress)?;
    jfr::stop(&mut session.flights);
    if options.probes {
        session.look_at_locks()?;
    }
    if options.inject {
        session.inject()?;
    }
    session.finish()
}

impl Session<'_> {
    fn begin(&mut self) -> Result<()> {
        for event in self.kernel.lacking.clone() {
            self.missing.push(match event {
                "sock_send_length" | "sock_recv_length" => {
                    "sockets: the kernel does not tell who uses them (it takes 6.3 or later)"
                        .to_owned()
                }
                other => format!("the kernel has no event {other}"),
            });
        }
        self.missing.dedup();
        let offset = procfs::start_offset().unwrap_or(0);
        // Births are noted from here, so that no thread falls between this and the first look.
        let timed = self.options.timeline.is_some();
        if let Some((path, limit)) = self.options.timeline {
            self.timeline = Some(TimeLine::create(path, limit)?);
        }
        self.kernel.begin(self.options.follow, timed, offset)?;
        self.look()
    }

    /// Looks at processes and threads.
    fn look(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut pids = wanted(self.options);
        if self.options.follow {
            pids.extend(self.kernel.watched().into_iter().filter(|pid| procfs::alive(*pid)));
            pids.sort_unstable();
            pids.dedup();
        }
        let reused: Vec<u32> = pids.extract_if(.., |pid| self.registry.reused(*pid)).collect();
        for pid in reused {
            self.kernel.forget(pid);
            self.say_once(format!(
                "process {pid} after its end: its number is that of another process"
            ));
        }
        for what in pids.iter().filter_map(|pid| hidden(*pid)) {
            self.say_once(what);
        }
        let full = pids.iter().any(|&pid| self.kernel.watch(pid).is_err());
        if full {
            self.say_once("some processes: there are too many for the table of 16384".to_owned());
        }
        for pid in self.kernel.watched() {
            if !procfs::alive(pid) {
                self.kernel.forget(pid);
            }
        }
        for pid in self.registry.replaced(&pids) {
            self.stacks.forget(pid);
            self.say_once(format!(
                "process {pid} before it became {}: names are those of the later program",
                self.registry.processes[&pid].program
            ));
        }
        if self.registry.scan(&pids, &mut self.kernel) {
            self.kernel.regroup()?;
        }
        let ports = self.registry.processes.values().flat_map(|process| &process.listens);
        ports.for_each(|port| self.kernel.serve(*port));
        self.clients.look(self.kernel.peers()?);
        self.quotas.look(&pids);
        (self.scanned, self.scan_took) = (Instant::now(), start.elapsed());
        self.ask_virtual_machines();
        Ok(())
    }

    /// Notes how many threads are alive and how many run. Threads that live shortly are gone at the
    /// next look: of these the kernel's side tells, for the time that was counted.
    fn note(&mut self) {
        let alive = |unit: u32| self.registry.alive.get(&unit).copied().unwrap_or(0);
        let of = |unit, busy_ns, counted| (unit, Look { alive: alive(unit), busy_ns, counted });
        let seen = self.registry.busy_ns.range(..BORN_FIRST);
        let seen = seen.map(|(&unit, &busy_ns)| of(unit, busy_ns, false));
        let born = self.kernel.born().map(|unit| of(unit, self.kernel.busy_ns(unit), true));
        let looks = seen.chain(born).collect();
        self.over.note(self.begun.elapsed(), self.counted, &looks);
    }

    fn say_once(&mut self, what: String) {
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    fn over(&self) -> bool {
        self.begun.elapsed() >= self.options.length
            || self.options.stop.load(Ordering::Relaxed)
            || !self.registry.any_alive()
    }

    fn run(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<()> {
        let mut budget = Budget::new(self.options.budget, processors());
        let mut windows = 0u32;
        let mut learned = false;
        let mut cost = self.kernel.cost();
        self.note();
        while !self.over() {
            let learning = self.counted < LEARN;
            // Later, too: a wait that is rare has its stack copied when it comes.
            let stacks = if learning || windows.is_multiple_of(4) { STACKS } else { 0 };
            let left = self.options.length.saturating_sub(self.begun.elapsed());
            let Some(longest) = budget.window(left) else {
                self.wait(self.begun + self.options.length, u64::MAX);
                break;
            };
            let opened = self.kernel.open(stacks)?;
            let at_open = self.kernel.cost();
            self.wait(opened + longest, at_open.ns + budget.most_ns(left));
            let window = self.kernel.close()?.duration_since(opened);
            self.counted += window;
            windows += 1;
            if self.clients.is_empty() {
                // From the first window on: what they use is measured between two looks.
                self.clients.look(self.kernel.peers()?);
            }
            self.drain();
            if let Some(timeline) = &mut self.timeline {
                timeline.pause();
            }
            // With what programs cost that were attached while none of their events counted.
            let before = std::mem::replace(&mut cost, self.kernel.cost());
            let spent = [at_open.ns, before.ns].map(|since| cost.ns - since);
            let pause = budget.pause(window, spent);
            self.kernel.rest(pause)?;
            if self.scanned.elapsed() > self.scan_took * SCAN_SHARE {
                self.look()?;
                self.note();
            }
            if !learned && self.counted >= LEARN {
                learned = true;
                self.join_crowds()?;
            }
            progress(&self.progress());
            self.wait(opened + window + pause, u64::MAX);
        }
        Ok(())
    }

    /// Waits until then, or until programs have taken as much as this, all together.
    fn wait(&mut self, until: Instant, most_ns: u64) {
        let spent = |kernel: &Kernel| most_ns < u64::MAX && kernel.cost().ns >= most_ns;
        while Instant::now() < until && !self.over() && !spent(&self.kernel) {
            std::thread::sleep(DRAIN.min(until.saturating_duration_since(Instant::now())));
            self.drain();
        }
    }

    fn drain(&mut self) {
        let stacks = &mut self.stacks;
        self.kernel.stacks(|record| {
            if let Some((head, bytes)) = StackHead::split(record) {
                stacks.add(&head, bytes);
            }
        });
        let Some(timeline) = &mut self.timeline else { return };
        let mut error = None;
        self.kernel.events(|event| {
            if let (None, Err(failed)) = (&error, timeline.add(&event)) {
                error = Some(failed);
            }
        });
        if let Some(error) = error {
            self.timeline = None;
            // The kernel's side makes entries for none otherwise.
            let _ = self.kernel.without_events();
            self.say_once(format!("the time line: it cannot be written: {error}"));
        }
    }

    fn progress(&self) -> Progress {
        let length = self.options.length.as_secs_f64().max(1e-9);
        Progress {
            done: (self.begun.elapsed().as_secs_f64() / length).min(1.0),
            threads: self.registry.threads.len(),
            processes: self.registry.processes.len(),
            stacks: self.stacks.all,
            taken: self.taken(),
            counted_s: self.counted.as_secs_f64(),
        }
    }

    /// Fraction of the processors that the kernel's side took.
    fn taken(&self) -> f64 {
        let ns = self.kernel.cost().ns - self.before.ns;
        ns as f64 / 1e9 / f64::from(processors()) / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    fn finish(mut self) -> Result<Trace> {
        if !self.registry.any_alive() && self.begun.elapsed() < self.options.length {
            let seconds = self.begun.elapsed().as_secs_f64();
            self.say_once(format!("what came later: all processes ended after {seconds:.1} s"));
        }
        self.look()?;
        self.note();
        self.drain();
        self.registry.settle();
        self.end_timeline();
        self.ask_agents();
        self.missing.extend(self.machines.missing());
        let flights = std::mem::take(&mut self.flights);
        let mut trace = self.trace()?;
        if hung::is(&trace) {
            let mut stacks = Stacks::default();
            hung::add(&self.registry, &mut trace, &mut stacks);
            stacks.give(&mut trace);
        }
        for flight in flights {
            let missing = jfr::end(&mut trace, &flight, false);
            trace.head.missing.extend(missing);
        }
        Ok(trace)
    }

    fn end_timeline(&mut self) {
        let Some(timeline) = self.timeline.take() else { return };
        let threads = self.registry.threads.iter();
        let name = |(tid, seen): (&u32, &super::registry::Seen)| {
            let own = self.full_names.get(tid).or(seen.thread.names.last());
            ((seen.thread.pid, *tid), own.cloned().unwrap_or_default())
        };
        match timeline.finish(&threads.map(name).collect()) {
            Ok(0) => {}
            Ok(n) => self.say_once(format!("{n} entries of the time line: the file is full")),
            Err(error) => self.say_once(format!("the end of the time line: {error}")),
        }
    }

    fn trace(&mut self) -> Result<Trace> {
        let mut trace = Trace { head: self.head(), ..Trace::default() };
        trace.processes = self.registry.processes.clone();
        let groups = self.kernel.groups()?;
        let splits = Splits::of(&groups);
        // What newborn threads did before they had their names.
        self.joined.extend(splits.nameless.iter().map(|(from, to)| (*from, *to)));
        for (tid, seen) in &self.registry.threads {
            let mut thread = seen.thread.clone();
            let (unit, born) = (thread.unit, thread.born);
            let Some(unit) = splits.unit(unit, &thread.names) else { continue };
            thread.unit = self.unit(unit);
            thread.born = self.unit(splits.unit(born, &thread.names).unwrap_or(born));
            if let Some(name) = self.full_names.get(tid) {
                thread.names.insert(0, name.clone());
            }
            trace.threads.insert(*tid, thread);
        }
        for (number, group) in groups {
            let unit = self.described(self.unit(number), &group);
            add_unit(&mut trace.units, unit);
        }
        let counted_part = trace.head.counted_s / trace.head.seconds.max(1e-9);
        let counted_ns = self.counted.as_nanos() as u64;
        add_cut_runs(&mut trace.units, trace.threads.values(), counted_part, counted_ns);
        let mut waits: BTreeMap<_, Wait> = BTreeMap::new();
        for (key, edge) in self.kernel.edges()? {
            let key = EdgeKey { waker: self.unit(key.waker), wakee: self.unit(key.wakee), ..key };
            let wait = wait_of(&key, &edge);
            let order = (wait.wakee, wait.waker, wait.object, key.sleep_nr, key.sleep_op);
            let order = (order, key.wake_nr, key.how, key.all);
            waits.entry(order).and_modify(|all| add_wait(all, &wait)).or_insert(wait);
        }
        trace.waits = waits.into_values().collect();
        self.stacks.give(&mut trace);
        for stack in &mut trace.stacks {
            stack.unit = self.unit(stack.unit);
        }
        let [single, together] = self.kernel.sockets()?;
        if !together.is_empty() {
            trace.head.missing.push(format!(
                "single connections beyond the first {}: the others are counted by their server's port",
                single.len() / 2
            ));
        }
        for (key, traffic) in single.into_iter().chain(together) {
            trace.sockets.push(socket_of(self.unit(key.group), &key, &traffic));
        }
        trace.sockets.sort_by(|a, b| {
            (a.unit, &a.local, &a.remote, a.sends).cmp(&(b.unit, &b.local, &b.remote, b.sends))
        });
        self.over.give(&mut trace, |unit| self.unit(unit));
        trace.injections = self.injections.clone();
        trace.calls = self.calls.clone();
        trace.handed = self.handed.clone();
        trace.scheduled = self.scheduled.clone();
        for (what, n) in self.kernel.losses()? {
            trace.lose(what, n);
        }
        if self.registry.homeless > 0 {
            trace.lose("threads (the table was full)", self.registry.homeless);
        }
        Ok(trace)
    }

    /// The unit under which a unit's events are given.
    fn unit(&self, unit: u32) -> u32 {
        let mut unit = unit;
        // A nameless unit may have become part of one that became part of a crowd.
        for _ in 0..4 {
            match self.joined.get(&unit) {
                Some(&next) if next != unit => unit = next,
                _ => break,
            }
        }
        unit
    }

    fn described(&mut self, number: u32, group: &Group) -> Unit {
        let pid = self
            .registry
            .threads
            .values()
            .find(|seen| seen.thread.unit == number)
            .map_or(group.pid, |seen| seen.thread.pid);
        let end = group.name.iter().position(|&byte| byte == 0).unwrap_or(0);
        Unit {
            unit: number,
            pid,
            run_ns: group.run_ns,
            queued_ns: group.queued_ns,
            asleep_ns: group.asleep_ns,
            sleeps: group.voluntary,
            preempted: group.involuntary,
            // Threads that were split from it are not its own.
            births: u64::try_from(group.births as i64).unwrap_or(0),
            deaths: group.deaths,
            alive_max: self.registry.alive_max.get(&number).copied().unwrap_or(0),
            dead_cpu_ns: group.dead_cpu_ns,
            bios: [group.read_bios, group.read_bio_bytes, group.write_bios, group.write_bio_bytes],
            cache_misses: group.cache_misses,
            creator: self.unit(group.creator),
            start: self.stacks.function(pid, group.start),
            argument: self.stacks.datum(pid, group.vtable),
            name: String::from_utf8_lossy(&group.name[..end]).into_owned(),
            named: group.parent > 0,
            lost: group.lost,
            idle_wakes: (group.idle_wakes, group.idle_ns),
        }
    }
}
