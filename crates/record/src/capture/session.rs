//! A recording by eBPF: learn the threads, then count in windows.

use super::budget::Budget;
use super::kernel::{Cost, Kernel};
use super::layout::{EdgeKey, Group, SocketKey, StackHead, Traffic};
use super::registry::{Registry, Units};
use super::stacks::Stacks;
use super::{Options, Progress, java, machine, own_cpu, processors, procfs, unix_time, wanted};
use crate::infer;
use crate::infer::stages::Basis;
use crate::trace::{Head, How, Loss, SCHEMA, Socket, Trace, Unit, Wait};
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Stacks for each unit and object, and for each thread.
const STACKS: u32 = 6;
/// Counted time after which threads that do the same share a unit.
const LEARN: Duration = Duration::from_millis(1_000);
/// A stage of more threads is counted as one unit: pairs of threads would fill the tables.
const CROWD: usize = 8;
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
    begun: Instant,
    scanned: Instant,
    scan_took: Duration,
    counted: Duration,
    before: Cost,
    own_before: Duration,
    missing: Vec<String>,
    asked: Vec<u32>,
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
        stacks: Stacks::default(),
        joined: HashMap::new(),
        begun: now,
        scanned: now,
        scan_took: Duration::ZERO,
        counted: Duration::ZERO,
        before,
        own_before: own_cpu(),
        missing: Vec::new(),
        asked: Vec::new(),
        full_names: BTreeMap::new(),
    };
    session.begin()?;
    session.run(progress)?;
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
        self.kernel.begin(self.options.follow, offset)?;
        self.look()
    }

    /// Looks at processes and threads.
    fn look(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut pids = wanted(self.options)?;
        if self.options.follow {
            pids.extend(self.kernel.watched().into_iter().filter(|pid| procfs::alive(*pid)));
            pids.sort_unstable();
            pids.dedup();
        }
        for &pid in &pids {
            self.kernel.watch(pid)?;
        }
        if self.registry.scan(&pids, &mut self.kernel)? {
            self.kernel.regroup()?;
        }
        self.ask_virtual_machines();
        self.scanned = Instant::now();
        self.scan_took = start.elapsed();
        Ok(())
    }

    /// Once for each.
    fn ask_virtual_machines(&mut self) {
        let java: Vec<u32> = self
            .registry
            .processes
            .values()
            .filter(|process| process.java && !self.asked.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        for pid in java {
            self.asked.push(pid);
            if !self.options.attach {
                self.missing.push(format!(
                    "full names and methods of the virtual machine {pid}: --no-attach"
                ));
                continue;
            }
            match java::names(pid) {
                Some(names) => self.full_names.extend(names),
                None => self.missing.push(format!(
                    "full names of the virtual machine {pid}: jcmd is missing or was refused"
                )),
            }
            match java::compiled(pid) {
                Some(map) => self.stacks.add_compiled(pid, map),
                None => self.missing.push(format!(
                    "methods of the virtual machine {pid}: it has no Compiler.perfmap (JDK 17)"
                )),
            }
        }
    }

    fn over(&self) -> bool {
        self.begun.elapsed() >= self.options.length
            || self.options.stop.load(Ordering::Relaxed)
            || !self.registry.processes.keys().any(|pid| procfs::alive(*pid))
    }

    fn run(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<()> {
        let mut budget = Budget::new(self.options.budget, processors());
        let mut windows = 0u32;
        let mut learned = false;
        while !self.over() {
            let cost = self.kernel.cost();
            let learning = self.counted < LEARN;
            // Later, too: a wait that is rare has its stack copied when it comes.
            self.kernel.open(if learning || windows.is_multiple_of(4) { STACKS } else { 0 })?;
            let opened = Instant::now();
            self.wait(opened + budget.window());
            self.kernel.close()?;
            let window = opened.elapsed();
            self.counted += window;
            windows += 1;
            self.drain();
            let pause = budget.pause(window, self.kernel.cost().ns - cost.ns);
            if self.scanned.elapsed() > self.scan_took * SCAN_SHARE {
                self.look()?;
            }
            if !learned && self.counted >= LEARN {
                learned = true;
                self.join_crowds()?;
            }
            progress(&self.progress());
            self.wait(opened + window + pause);
        }
        Ok(())
    }

    fn wait(&mut self, until: Instant) {
        while Instant::now() < until && !self.over() {
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

    /// Threads that were found to do the same share a unit from here.
    fn join_crowds(&mut self) -> Result<()> {
        let trace = self.trace()?;
        let stages = infer::stages::find(&trace, &crate::hints::Hints::default());
        let mut changed = false;
        for stage in &stages.stages {
            let known = matches!(stage.basis, Basis::Name | Basis::Loop | Basis::Hint);
            if !known || stage.threads.len() <= CROWD || stage.units.len() <= 1 {
                continue;
            }
            let Some(common) = self.registry.common_unit() else { break };
            for &tid in &stage.threads {
                let Some(seen) = self.registry.threads.get_mut(&tid) else { continue };
                self.joined.insert(seen.thread.unit, common);
                seen.thread.unit = common;
                // A thread that has ended meanwhile leaves an entry that its number's next owner
                // overwrites.
                self.kernel.put(tid, common)?;
                changed = true;
            }
        }
        if changed {
            self.kernel.regroup()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Trace> {
        self.look()?;
        self.drain();
        self.registry.settle();
        self.trace()
    }

    fn trace(&mut self) -> Result<Trace> {
        let mut trace = Trace { head: self.head(), ..Trace::default() };
        trace.processes = self.registry.processes.clone();
        for (tid, seen) in &self.registry.threads {
            let mut thread = seen.thread.clone();
            if let Some(name) = self.full_names.get(tid) {
                thread.names.insert(0, name.clone());
            }
            trace.threads.insert(*tid, thread);
        }
        for (number, group) in self.kernel.groups()? {
            let number = self.unit(number);
            let unit = self.described(number, &group);
            add_unit(&mut trace.units, unit);
        }
        let mut waits: BTreeMap<_, Wait> = BTreeMap::new();
        for (key, edge) in self.kernel.edges()? {
            let key = EdgeKey { waker: self.unit(key.waker), wakee: self.unit(key.wakee), ..key };
            let wait = wait_of(&key, &edge);
            let order = (wait.wakee, wait.waker, wait.object, key.sleep_nr, key.sleep_op);
            let order = (order, key.wake_nr, key.how, key.all);
            waits.entry(order).and_modify(|all| add_wait(all, &wait)).or_insert(wait);
        }
        trace.waits = waits.into_values().collect();
        trace.stacks = self.stacks.all();
        for stack in &mut trace.stacks {
            stack.unit = self.unit(stack.unit);
        }
        for (key, traffic) in self.kernel.sockets()? {
            trace.sockets.push(socket_of(self.unit(key.group), &key, &traffic));
        }
        trace.sockets.sort_by(|a, b| {
            (a.unit, &a.local, &a.remote, a.sends).cmp(&(b.unit, &b.local, &b.remote, b.sends))
        });
        for (what, n) in self.kernel.losses()? {
            trace.losses.push(Loss { what: what.to_owned(), n });
        }
        if self.stacks.lost > 0 {
            let what = "stacks (too many different ones)".to_owned();
            trace.losses.push(Loss { what, n: self.stacks.lost });
        }
        Ok(trace)
    }

    /// The unit under which a unit's events are given.
    fn unit(&self, unit: u32) -> u32 {
        self.joined.get(&unit).copied().unwrap_or(unit)
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
            births: group.births,
            deaths: group.deaths,
            alive_max: self.registry.alive_max.get(&number).copied().unwrap_or(0),
            dead_cpu_ns: group.dead_cpu_ns,
            bios: [group.read_bios, group.read_bio_bytes, group.write_bios, group.write_bio_bytes],
            cache_misses: group.cache_misses,
            creator: self.unit(group.creator),
            start: self.stacks.function(pid, group.start),
            argument: self.stacks.datum(pid, group.vtable),
            name: String::from_utf8_lossy(&group.name[..end]).into_owned(),
        }
    }

    fn head(&self) -> Head {
        let (host, kernel) = machine();
        let seconds = self.begun.elapsed().as_secs_f64();
        let counted_s = self.counted.as_secs_f64();
        let own = (own_cpu() - self.own_before).as_secs_f64();
        let switches = self.kernel.cost().switches - self.before.switches;
        let mut missing = self.missing.clone();
        if counted_s < 0.95 * seconds {
            missing.push(format!(
                "{:.0} % of the time: events were counted for {counted_s:.1} of {seconds:.1} s, \
                 to keep the budget of {:.1} %",
                (1.0 - counted_s / seconds.max(1e-9)) * 100.0,
                self.options.budget * 100.0
            ));
        }
        Head {
            schema: SCHEMA.to_owned(),
            host,
            kernel,
            mode: "ebpf".to_owned(),
            started_s: unix_time().saturating_sub(seconds as u64),
            seconds,
            counted_s,
            processors: processors(),
            budget: self.options.budget,
            taken: self.taken(),
            own: own / seconds.max(1e-9) / f64::from(processors()),
            switches_per_s: switches as f64 / counted_s.max(1e-9),
            missing,
        }
    }
}

fn add_unit(units: &mut BTreeMap<u32, Unit>, unit: Unit) {
    let Some(all) = units.get_mut(&unit.unit) else {
        units.insert(unit.unit, unit);
        return;
    };
    all.run_ns += unit.run_ns;
    all.queued_ns += unit.queued_ns;
    all.asleep_ns += unit.asleep_ns;
    all.sleeps += unit.sleeps;
    all.preempted += unit.preempted;
    all.births += unit.births;
    all.deaths += unit.deaths;
    all.dead_cpu_ns += unit.dead_cpu_ns;
    all.cache_misses += unit.cache_misses;
    for (sum, more) in all.bios.iter_mut().zip(unit.bios) {
        *sum += more;
    }
}

fn wait_of(key: &EdgeKey, edge: &super::layout::Edge) -> Wait {
    Wait {
        waker: key.waker,
        wakee: key.wakee,
        object: key.object,
        sleep: key.sleep_nr,
        op: key.sleep_op,
        wake: key.wake_nr,
        how: match key.how {
            1 => How::Futex,
            2 => How::Ready,
            3 => How::Signal,
            4 => How::Exit,
            5 => How::Device,
            6 => How::Timer,
            _ => How::None,
        },
        all: key.all != 0,
        n: edge.n,
        off_ns: edge.off_ns,
        queued_ns: edge.queued_ns,
        max_ns: edge.max_ns,
        histogram: edge.histogram.to_vec(),
    }
}

fn add_wait(all: &mut Wait, wait: &Wait) {
    all.n += wait.n;
    all.off_ns += wait.off_ns;
    all.queued_ns += wait.queued_ns;
    all.max_ns = all.max_ns.max(wait.max_ns);
    for (sum, more) in all.histogram.iter_mut().zip(&wait.histogram) {
        *sum += more;
    }
}

fn socket_of(unit: u32, key: &SocketKey, traffic: &Traffic) -> Socket {
    let end = |address: u32, port: u16, number: u64| {
        if key.family == libc::AF_UNIX as u16 {
            return format!("unix:{number:x}");
        }
        let address = std::net::Ipv4Addr::from(u32::from_be(address));
        format!("{address}:{port}")
    };
    Socket {
        unit,
        sends: key.sends != 0,
        local: end(key.local, key.local_port, key.own),
        remote: end(key.remote, key.remote_port, key.peer),
        n: traffic.n,
        bytes: traffic.bytes,
        turns: traffic.turns,
    }
}
