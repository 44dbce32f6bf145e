//! A recording without eBPF: looks at `/proc` again and again.
//!
//! It sees threads, what they sleep in and what they use, and not who wakes whom.

use super::activity::{Look, Over};
use super::java::Machines;
use super::jfr::{self, Jfr};
use super::layout::StackHead;
use super::registry::{Registry, Units};
use super::stacks::Stacks;
use super::{
    Options, Progress, hidden, java, machine, own_cpu, processors, procfs, unix_time, wanted,
};
use crate::trace::{Head, SCHEMA, Trace, Unit, Wait};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Looks a second, if few threads are looked at.
const EVERY: Duration = Duration::from_millis(100);
/// Stacks of a thread.
const STACKS: u32 = 24;

/// The number of a thread is its unit.
#[derive(Default)]
struct Numbers(BTreeMap<u32, u32>);

impl Units for Numbers {
    fn known(&self, tid: u32) -> Option<u32> {
        self.0.get(&tid).copied()
    }
    fn put(&mut self, tid: u32, unit: u32) -> Result<()> {
        self.0.insert(tid, unit);
        Ok(())
    }
}

/// See the module. `why` says why there is no eBPF.
pub fn record(
    options: &Options,
    why: String,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Trace> {
    let (begun, own) = (Instant::now(), own_cpu());
    let mut registry = Registry::default();
    let mut numbers = Numbers::default();
    let stacks = Stacks::keeping(options.keep_stacks);
    let mut asleep = Asleep { stacks, ..Asleep::default() };
    let (mut others, mut over) = (BTreeSet::new(), Over::default());
    let mut said = Said::default();
    let mut looks = 0u64;
    let mut quotas = super::quota::Quotas::default();
    while begun.elapsed() < options.length && !options.stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let mut pids = wanted(options);
        pids.retain(|pid| !registry.reused(*pid));
        if pids.is_empty() {
            break;
        }
        others.extend(pids.iter().filter_map(|pid| hidden(*pid)));
        registry.replaced(&pids);
        quotas.look(&pids);
        registry.scan(&pids, &mut numbers);
        let scanned = Instant::now();
        said.ask(&registry, options, begun);
        let asking = scanned.elapsed();
        over.note(begun.elapsed(), begun.elapsed(), &looked(&registry));
        looks += 1;
        asleep.look(&registry);
        progress(&Progress {
            done: (begun.elapsed().as_secs_f64() / options.length.as_secs_f64().max(1e-9)).min(1.0),
            threads: registry.threads.len(),
            processes: registry.processes.len(),
            stacks: asleep.stacks.all,
            taken: 0.0,
            counted_s: begun.elapsed().as_secs_f64(),
        });
        // Many threads are looked at less often: a look takes at most a hundredth of the time
        // of one processor for each percent of the budget.
        let took = start.elapsed() - asking;
        let share = (options.budget * f64::from(processors())).max(1e-4);
        std::thread::sleep(EVERY.max(took.div_f64(share)).saturating_sub(took).min(options.length));
    }
    jfr::stop(&mut said.flights);
    let mut head = head(options, begun, own, &why, looks);
    head.missing.extend(others);
    head.missing.extend(quotas.of_some());
    head.quota = quotas.bound();
    let mut trace = trace(registry, asleep.waits.into_values().collect(), &asleep.stacks, head);
    over.give(&mut trace, |unit| unit);
    said.end(&mut trace);
    Ok(trace)
}

/// What threads sleep in.
#[derive(Default)]
struct Asleep {
    stacks: Stacks,
    waits: BTreeMap<(u32, i16, u64), Wait>,
    /// Stacks of each thread that were copied.
    copied: BTreeMap<u32, u32>,
}

impl Asleep {
    fn look(&mut self, registry: &Registry) {
        for (&tid, seen) in &registry.threads {
            let (pid, unit) = (seen.thread.pid, seen.thread.unit);
            let Some((number, first, second, sp, ip)) = procfs::asleep_in(pid, tid) else {
                continue;
            };
            let object = if number as i64 == libc::SYS_futex { first & !7 } else { 0 };
            let wait = self.waits.entry((unit, number, object)).or_insert_with(|| Wait {
                wakee: unit,
                object,
                sleep: number,
                op: second as u16,
                wake: -1,
                ..Wait::default()
            });
            wait.n += 1;
            wait.off_ns += EVERY.as_nanos() as u64;
            let count = self.copied.entry(tid).or_default();
            if *count < STACKS {
                *count += 1;
                let (nr, op) = (number, second as u16);
                let (group, bp, born, bytes) = (unit, 0, 0, 0);
                let head =
                    StackHead { tid, tgid: pid, group, nr, op, object, ip, sp, bp, born, bytes };
                copy(&head, &mut self.stacks);
            }
        }
    }
}

/// What virtual machines say: their threads' names, and what these wait on.
#[derive(Default)]
struct Said {
    machines: Machines,
    names: BTreeMap<u32, String>,
    flights: Vec<Jfr>,
    missing: Vec<String>,
}

impl Said {
    fn ask(&mut self, registry: &Registry, options: &Options, begun: Instant) {
        for pid in self.machines.due(registry) {
            if !options.attach || java::refuses(pid) {
                continue;
            }
            let Some((names, first)) = self.machines.names(pid) else { continue };
            self.names.extend(names);
            if !first {
                continue;
            }
            if !options.jfr {
                self.missing.push(format!(
                    "what threads of the virtual machine {pid} wait on: --jfr asks its flight \
                     recorder"
                ));
                continue;
            }
            match Jfr::start(pid, options.length.saturating_sub(begun.elapsed())) {
                Ok(flight) => self.flights.push(flight),
                Err(why) => self.missing.push(why),
            }
        }
    }

    fn end(self, trace: &mut Trace) {
        for (tid, name) in self.names {
            if let Some(thread) = trace.threads.get_mut(&tid) {
                thread.names.insert(0, name);
            }
        }
        trace.head.missing.extend(self.missing);
        trace.head.missing.extend(self.machines.missing());
        for flight in self.flights {
            let missing = jfr::end(trace, &flight, true);
            trace.head.missing.extend(missing);
        }
    }
}

fn looked(registry: &Registry) -> BTreeMap<u32, Look> {
    let one = |(&unit, &busy_ns): (&u32, &u64)| {
        let alive = registry.alive.get(&unit).copied().unwrap_or(0);
        (unit, Look { alive, busy_ns, counted: false })
    };
    registry.busy_ns.iter().map(one).collect()
}

/// Copies a sleeping thread's stack. If it wakes meanwhile, the copy is torn, and is cut where it
/// makes no sense.
pub(super) fn copy(head: &StackHead, stacks: &mut Stacks) {
    let mut bytes = vec![0; super::layout::STACK_BYTES];
    let read = procfs::memory(head.tgid, head.sp, &mut bytes);
    stacks.add(head, &bytes[..read]);
}

fn head(options: &Options, begun: Instant, own: Duration, why: &str, looks: u64) -> Head {
    let seconds = begun.elapsed().as_secs_f64();
    let (host, kernel) = machine();
    Head {
        schema: SCHEMA.to_owned(),
        host,
        kernel,
        mode: "proc".to_owned(),
        started_s: unix_time().saturating_sub(seconds as u64),
        seconds,
        counted_s: seconds,
        processors: processors(),
        budget: options.budget,
        taken: 0.0,
        own: (own_cpu() - own).as_secs_f64() / seconds.max(1e-9) / f64::from(processors()),
        switches_per_s: 0.0,
        clients_cpu: 0.0,
        clients_waiting: 0.0,
        idle: None,
        quota: None,
        probed_s: 0.0,
        moments_ms: Vec::new(),
        missing: vec![
            format!("arrows, wakers and sockets: there is no eBPF here ({why})"),
            format!(
                "threads that live less than {} ms, {looks} looks were taken",
                EVERY.as_millis()
            ),
        ],
    }
}

fn trace(mut registry: Registry, waits: Vec<Wait>, stacks: &Stacks, head: Head) -> Trace {
    registry.settle();
    let mut trace = Trace { head, waits, ..Trace::default() };
    stacks.give(&mut trace);
    for (tid, seen) in &registry.threads {
        let unit = trace.units.entry(seen.thread.unit).or_insert_with(|| Unit {
            unit: seen.thread.unit,
            pid: seen.thread.pid,
            ..Unit::default()
        });
        unit.run_ns += seen.thread.cpu_ns;
        unit.alive_max = unit.alive_max.max(1);
        trace.threads.insert(*tid, seen.thread.clone());
    }
    trace.processes = registry.processes;
    trace
}
