//! Locks, which no annotation declared: futexes on which threads waited for one another.

use super::arrows::{Home, SHARE_MIN};
use super::stages::Stages;
use super::waits::{Kind, Links, NEAR, Object, Sites};
use crate::trace::{MANY, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// A lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Name: the functions that wait for it.
    pub name: String,
    /// Index of its box.
    pub place: usize,
    /// Address; 0 if it stands for many.
    pub address: u64,
    /// Stages that waited, with the number and time of their waits.
    pub waits: BTreeMap<usize, (u64, u64)>,
    /// Time of these in which the lock was free again, and the thread waited for a processor.
    pub ready_ns: u64,
    /// Longest wait.
    pub max_ns: u64,
    /// Number of locks that were put together, as the same functions wait for them.
    pub count: usize,
}

impl Lock {
    /// Time of all waits.
    pub fn off_ns(&self) -> u64 {
        self.waits.values().map(|(_, ns)| ns).sum()
    }

    /// Number of all waits.
    pub fn n(&self) -> u64 {
        self.waits.values().map(|(n, _)| n).sum()
    }
}

/// What only some threads of a stage have at a time: a semaphore's permits, or connections of a
/// pool. A thread that waits for one is woken by another of its stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Permits {
    /// Stage.
    pub stage: usize,
    /// Address of the semaphore or condition; 0 for the gate, where each session has its own.
    pub address: u64,
    /// Name for people: by the function in which most waits are.
    pub name: String,
    /// Longest wait.
    pub max_ns: u64,
    /// Waits and their time, without that in which the thread was ready.
    pub n: u64,
    /// See there.
    pub off_ns: u64,
}

/// Finds permits, those with the longest waits first.
pub fn permits(
    trace: &Trace,
    stages: &Stages,
    links: &Links,
    homes: &[Home],
    sites: &Sites,
) -> Vec<Permits> {
    let mut found: BTreeMap<(usize, u64), Permits> = BTreeMap::new();
    let machine = |stage: usize| stages.stages[stage].title == super::stages::MACHINE;
    let pids = stages.pids(trace);
    for link in links.all.iter().filter(|link| !machine(link.wakee)) {
        let stage = link.wakee;
        let pids = &pids[stage];
        let (address, name) = match (link.kind, link.object) {
            // Each session waits on another word.
            (Kind::Lock, _) if of_gate(sites, pids, link.address) => (0, GATES.to_owned()),
            (Kind::Handover, Object::Shared(address)) => {
                let one = stages.stages[stage].most <= 1;
                let home = homes[stage].contains(link.kind, link.object);
                if one || home || link.waker != Some(stage) {
                    continue;
                }
                (address, of_permits(sites, pids, address))
            }
            _ => continue,
        };
        let entry = found.entry((stage, address));
        let permits = entry.or_insert(Permits { stage, address, name, max_ns: 0, n: 0, off_ns: 0 });
        permits.n += link.n;
        permits.max_ns = permits.max_ns.max(link.max_ns);
        permits.off_ns += link.off_ns.saturating_sub(link.queued_ns);
    }
    let mut found: Vec<Permits> =
        found.into_values().filter(|permits| permits.n >= WAITS_MIN).collect();
    found.sort_by_key(|permits| (std::cmp::Reverse(permits.off_ns), permits.stage));
    found
}

/// What permits are called: by the function that most waits are in.
fn of_permits(sites: &Sites, pids: &BTreeSet<u32>, address: u64) -> String {
    let functions = sites.functions(pids, address);
    let most = functions.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match most.map(|(function, _)| function.as_str()) {
        Some(function) if function != "?" => {
            format!("permits of {}", super::names::short(function))
        }
        _ => "permits".to_owned(),
    }
}

/// Whether sessions wait there for a permit of the gate: in this project's library, in a database.
fn of_gate(sites: &Sites, pids: &BTreeSet<u32>, address: u64) -> bool {
    sites.functions(pids, address).iter().any(|(function, _)| super::frames::is_gate(function))
}

const GATES: &str = "permits of the gate";
/// Locks of which no stack with a function's name was seen.
const UNNAMED: &str = "unnamed locks";
/// Fewer waits are chance.
const WAITS_MIN: u64 = 10;

/// Rare waits matter if they take this part of one thread's time.
const TIME_MIN: f64 = 0.005;

/// Part of one thread's time from which on a mutex near a queue is a resource beside it.
const NEAR_MIN: f64 = 0.02;

/// Finds locks, the one with the longest waits first.
pub fn find(trace: &Trace, stages: &Stages, links: &Links, sites: &Sites) -> Vec<Lock> {
    let queues: BTreeSet<(u32, u64)> = trace
        .handovers()
        .filter(|wait| wait.object > MANY)
        .map(|wait| (trace.pid_of(wait.wakee), wait.object))
        .collect();
    let mut sleeps = vec![0u64; stages.stages.len()];
    for link in &links.all {
        sleeps[link.wakee] += link.n;
    }
    let mut all_ns: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for link in links.all.iter().filter(|link| link.kind == Kind::Lock) {
        let of = all_ns.entry((stages.stages[link.wakee].place, link.address)).or_default();
        *of += link.off_ns.saturating_sub(link.queued_ns);
    }
    let pids = stages.pids(trace);
    let mut by_name: BTreeMap<(usize, String), Lock> = BTreeMap::new();
    let mut addresses: BTreeMap<(usize, String), BTreeSet<u64>> = BTreeMap::new();
    for link in links.all.iter().filter(|link| link.kind == Kind::Lock) {
        let stage = &stages.stages[link.wakee];
        let pids = &pids[link.wakee];
        // A mutex beside a queue's condition is the queue's own.
        let near = link.address.saturating_sub(NEAR)..link.address.saturating_add(NEAR);
        let own = link.mutex
            && pids.iter().any(|&pid| {
                queues.range((pid, near.start)..(pid, near.end)).any(|(_, at)| *at != link.address)
            });
        // One for which threads wait for long is a resource, whatever it belongs to.
        let waits_ns = all_ns.get(&(stage.place, link.address)).copied().unwrap_or(0);
        let short = (waits_ns as f64) < NEAR_MIN * trace.head.counted_s * 1e9;
        if own && short && link.address > MANY {
            continue;
        }
        if of_gate(sites, pids, link.address) {
            continue;
        }
        let mut functions = sites.functions(pids, link.address);
        if functions.is_empty() {
            functions.push((UNNAMED.to_owned(), 1.0));
        }
        // A semaphore of a thread's own serves locks of several kinds: its stacks tell in which
        // parts.
        for (function, part) in functions {
            let named = function != "?" && function != UNNAMED;
            let name = if named { super::names::short(&function) } else { UNNAMED.to_owned() };
            let key = (stage.place, name);
            // A thread that parks has its own address, whichever lock it waits for.
            if link.mutex {
                addresses.entry(key.clone()).or_default().insert(link.address);
            }
            let lock = by_name.entry(key).or_insert_with_key(|(place, name)| Lock {
                name: name.clone(),
                place: *place,
                address: link.address,
                waits: BTreeMap::new(),
                ready_ns: 0,
                max_ns: 0,
                count: 0,
            });
            let waits = lock.waits.entry(link.wakee).or_default();
            waits.0 += (link.n as f64 * part).round() as u64;
            waits.1 += (link.off_ns as f64 * part) as u64;
            lock.ready_ns += (link.queued_ns as f64 * part) as u64;
            lock.max_ns = lock.max_ns.max(link.max_ns);
        }
    }
    let mut locks = with_counts(trace, &sleeps, by_name, &addresses);
    locks.sort_by_key(|lock| (std::cmp::Reverse(lock.off_ns()), lock.address));
    locks
}

/// How many locks each stands for. Waits that are rare and short are left out.
fn with_counts(
    trace: &Trace,
    sleeps: &[u64],
    by_name: BTreeMap<(usize, String), Lock>,
    addresses: &BTreeMap<(usize, String), BTreeSet<u64>>,
) -> Vec<Lock> {
    let locks = by_name
        .into_iter()
        .map(|(key, mut lock)| {
            lock.count = addresses.get(&key).map_or(1, BTreeSet::len).max(1);
            lock.waits.retain(|stage, (n, off_ns)| {
                let often = *n as f64 >= SHARE_MIN * sleeps[*stage] as f64;
                let long = *off_ns as f64 >= TIME_MIN * trace.head.counted_s * 1e9;
                *n >= WAITS_MIN && (often || long)
            });
            lock
        })
        .filter(|lock| !lock.waits.is_empty());
    locks.collect()
}
