//! What is known of units before stages are, and stages in the making.

use super::carriers::{self, GOROUTINES, VIRTUAL};
use super::frames::is_machine;
use super::names::normalised;
use super::renames::Renames;
use crate::trace::{OUTSIDE, Trace, Unit};
use headworks_tad::model::Confidence;
use std::collections::BTreeMap;

/// What tells a stage's threads from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A name that they were given.
    Name,
    /// The runtime that switches what they run.
    Runtime,
    /// Their loop function.
    Loop,
    /// The title of their process.
    Title,
    /// The function that they begin with, and who creates them.
    Birth,
    /// It is its process's first thread.
    First,
    /// What they wait on: a generic executor runs several stages.
    Object,
    /// A hint of the user.
    Hint,
    /// Nothing but the process.
    Nothing,
}

impl Basis {
    /// In words, after "by".
    pub fn words(self) -> &'static str {
        match self {
            Basis::Name => "its threads' name",
            Basis::Runtime => "its program's runtime",
            Basis::Loop => "its loop function",
            Basis::Title => "its process's title",
            Basis::Birth => "who creates its threads",
            Basis::First => "being its process's first thread",
            Basis::Object => "what its threads wait on",
            Basis::Hint => "a hint",
            Basis::Nothing => "nothing but its process",
        }
    }
}

/// Stage of the threads that a Java virtual machine has for itself.
pub const MACHINE: &str = "JVM";

/// What is known of a unit before stages are.
pub struct Known<'t> {
    pub unit: &'t Unit,
    pub place: usize,
    /// Trusted name.
    pub given: Option<String>,
    pub title: Option<String>,
    pub threads: Vec<u32>,
    /// Its threads work for several stages.
    pub renames: bool,
    /// Number of the executor of `java.util.concurrent` that made its thread, which has no name.
    pub executor: Option<u32>,
    /// The program whose first thread it is.
    pub first_of: Option<&'t str>,
    pub birth: Option<(u32, Option<&'t str>, Option<&'t str>)>,
}

/// A stage in the making.
pub struct Draft {
    pub place: usize,
    pub title: String,
    pub units: Vec<u32>,
    pub basis: Basis,
    pub sure: Confidence,
    /// First function of the application, if it was seen.
    pub first: Option<String>,
}

/// All units, by number.
pub fn known<'t>(trace: &'t Trace, place_of: &BTreeMap<u32, usize>) -> BTreeMap<u32, Known<'t>> {
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for thread in trace.threads.values() {
        threads.entry(thread.unit).or_default().push(thread.tid);
    }
    let all = Renames::of(trace);
    let go = carriers::go_programs(trace);
    let carriers = carriers::find(trace);
    let mut known = BTreeMap::new();
    for (&number, unit) in &trace.units {
        if number <= OUTSIDE {
            continue;
        }
        let own = threads.remove(&number).unwrap_or_default();
        let pid = own.first().map_or(unit.pid, |tid| trace.threads[tid].pid);
        let Some(&place) = place_of.get(&pid) else { continue };
        let born = own
            .first()
            .and_then(|tid| trace.units.get(&trace.threads[tid].born))
            .or((unit.births > 0).then_some(unit));
        let birth =
            born.map(|born| (born.creator, born.start.as_deref(), born.argument.as_deref()));
        let shared = own.iter().find_map(|tid| all.title(trace, *tid));
        let nameless = own.iter().any(|tid| all.nameless(*tid));
        let goroutines = go.contains(&pid);
        let carries = carriers.contains(&number);
        let renames = nameless || shared.is_some() || goroutines || carries;
        let first = own == [pid];
        let first_of = trace.processes.get(&pid).filter(|_| first).map(|each| &*each.program);
        let given = match shared {
            _ if carries => Some(VIRTUAL.to_owned()),
            Some(title) => Some(title.clone()),
            None if nameless => None,
            None => given_name(trace, (unit, &own, pid), &all)
                .filter(|name| !all.counts(pid, name))
                .or_else(|| goroutines.then(|| GOROUTINES.to_owned())),
        };
        let title = title_of(trace, pid);
        let executor = executor_of(trace, unit, &own, pid);
        let known_unit =
            Known { unit, place, given, title, threads: own, renames, executor, first_of, birth };
        known.insert(number, known_unit);
    }
    known
}

/// A name is given if it is not that of the process.
fn given_name(
    trace: &Trace,
    (unit, threads, pid): (&Unit, &[u32], u32),
    all: &Renames,
) -> Option<String> {
    let process = trace.processes.get(&pid)?;
    let own = normalised(&process.name);
    // A thread's first name is that of its creator until it has its own, except where a virtual
    // machine was asked. Of threads that ended, the name at their end is known.
    let name = |tid: &u32| {
        let names = &trace.threads[tid].names;
        if process.java { names.first() } else { names.last() }
    };
    let of_dead = (!unit.name.is_empty()).then_some(&unit.name);
    let mut names = of_dead.into_iter().chain(threads.iter().filter_map(name));
    let name = names.find_map(|name| {
        // Of threads that were just born, and of those that ended, the kernel's name is known.
        let name = all.whole(pid, name).cloned().unwrap_or_else(|| normalised(name));
        (name != own && !name.is_empty()).then_some(name)
    })?;
    // Java's `Thread-7` says nothing, nor do the numbered threads of a pool.
    if process.java && is_machine(&name) {
        return Some(MACHINE.to_owned());
    }
    let empty = ["Thread-#", "pool-#-thread-#", "ForkJoinPool-#-worker-#", "java", "#"];
    (!empty.contains(&name.as_str())).then_some(name)
}

/// `pool-3-thread-1` has no name, but is of the third executor that was made. Threads that are made
/// for requests have their creator's name for a while.
fn executor_of(trace: &Trace, unit: &Unit, threads: &[u32], pid: u32) -> Option<u32> {
    let java = trace.processes.get(&pid)?.java && unit.births == 0;
    let names = threads.iter().filter_map(|tid| trace.threads[tid].names.first());
    let mut numbers = names.filter_map(|name| {
        let (number, rest) = name.strip_prefix("pool-")?.split_once("-thread-")?;
        rest.parse::<u32>().ok().and(number.parse().ok())
    });
    numbers.next().filter(|_| java)
}

/// A title that the process wrote: `postgres: walwriter`.
fn title_of(trace: &Trace, pid: u32) -> Option<String> {
    let process = trace.processes.get(&pid)?;
    let (_, title) = process.title.split_once(": ")?;
    let title = normalised(title.trim());
    (!title.is_empty()).then_some(title)
}
