//! Threads that do the same.

use super::executor;
use super::frames::{is_generic, is_machine};
use super::names::{normalised, short, word};
use super::trie;
use crate::hints::Hints;
use crate::trace::{OUTSIDE, Stack, Trace, Unit};
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet};

/// What tells a stage's threads from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A name that they were given.
    Name,
    /// Their loop function.
    Loop,
    /// The title of their process.
    Title,
    /// The function that they begin with, and who creates them.
    Birth,
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
            Basis::Loop => "its loop function",
            Basis::Title => "its process's title",
            Basis::Birth => "who creates its threads",
            Basis::Object => "what its threads wait on",
            Basis::Hint => "a hint",
            Basis::Nothing => "nothing but its process",
        }
    }
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Name in the file.
    pub name: String,
    /// For people: the threads' name or the function.
    pub title: String,
    /// Index of its box.
    pub place: usize,
    /// Units.
    pub units: Vec<u32>,
    /// Threads that were seen alive.
    pub threads: Vec<u32>,
    /// Threads are made for requests or connections.
    pub on_demand: bool,
    /// Most threads at one time.
    pub most: u32,
    /// Threads that were born and that ended.
    pub births: u64,
    /// What it is based on.
    pub basis: Basis,
    /// How sure it is.
    pub sure: Confidence,
    /// No stage explains these threads.
    pub null: bool,
}

/// Stage of the threads that a Java virtual machine has for itself.
pub const MACHINE: &str = "JVM";

/// Processes that are one in the picture: a server and those that it forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first of them.
    pub pid: u32,
    /// Program.
    pub program: String,
    /// It runs a Java virtual machine.
    pub java: bool,
    /// Machine, if recordings of several are put together.
    pub host: String,
}

/// All stages.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// Boxes.
    pub places: Vec<Place>,
    /// Stages.
    pub stages: Vec<Stage>,
    /// Stage of each unit.
    pub of: BTreeMap<u32, usize>,
    /// Box of each process.
    pub place_of: BTreeMap<u32, usize>,
}

/// What is known of a unit before stages are.
struct Known<'t> {
    unit: &'t Unit,
    place: usize,
    /// Trusted name.
    given: Option<String>,
    title: Option<String>,
    threads: Vec<u32>,
    birth: Option<(u32, Option<&'t str>, Option<&'t str>)>,
}

/// A stage in the making.
struct Draft {
    place: usize,
    title: String,
    units: Vec<u32>,
    basis: Basis,
    sure: Confidence,
    /// First function of the application, if it was seen.
    first: Option<String>,
}

/// Finds stages.
pub fn find(trace: &Trace, hints: &Hints) -> Stages {
    let (places, place_of) = places(trace);
    let known = known(trace, &place_of);
    let mut drafts = named(&known);
    let taken: BTreeSet<u32> = drafts.iter().flat_map(|draft| draft.units.clone()).collect();
    let rest: BTreeMap<u32, &Known> = known
        .iter()
        .filter(|(unit, _)| !taken.contains(unit))
        .map(|(unit, known)| (*unit, known))
        .collect();
    drafts.extend(unnamed(trace, &places, &rest));
    place_the_rest(&known, &mut drafts);
    for draft in &mut drafts {
        if let Some(name) = hints.name(&draft.title) {
            draft.title = name.to_owned();
            draft.basis = Basis::Hint;
        }
    }
    Stages { place_of, ..finish(places, &known, drafts, hints) }
}

fn places(trace: &Trace) -> (Vec<Place>, BTreeMap<u32, usize>) {
    let root = |mut pid: u32| {
        for _ in 0..64 {
            let Some(process) = trace.processes.get(&pid) else { break };
            match trace.processes.get(&process.parent) {
                Some(parent) if parent.program == process.program && !process.java => {
                    pid = process.parent;
                }
                _ => break,
            }
        }
        pid
    };
    let mut places: Vec<Place> = Vec::new();
    let mut of = BTreeMap::new();
    for (&pid, process) in &trace.processes {
        let first = root(pid);
        let place = places.iter().position(|place| place.pid == first).unwrap_or_else(|| {
            let program = trace.processes.get(&first).unwrap_or(process).program.clone();
            let host = trace.head.host.clone();
            places.push(Place { pid: first, program, java: process.java, host });
            places.len() - 1
        });
        of.insert(pid, place);
    }
    (places, of)
}

fn known<'t>(trace: &'t Trace, place_of: &BTreeMap<u32, usize>) -> BTreeMap<u32, Known<'t>> {
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for thread in trace.threads.values() {
        threads.entry(thread.unit).or_default().push(thread.tid);
    }
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
        let given = given_name(trace, unit, &own, pid);
        let title = title_of(trace, pid);
        known.insert(number, Known { unit, place, given, title, threads: own, birth });
    }
    known
}

/// A name is given if it is not that of the process, and if the thread did not change it at work.
fn given_name(trace: &Trace, unit: &Unit, threads: &[u32], pid: u32) -> Option<String> {
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
    let changes = threads.iter().any(|tid| {
        let names: BTreeSet<String> = trace.threads[tid]
            .names
            .iter()
            .map(|name| normalised(name))
            .filter(|name| *name != own)
            .collect();
        names.len() > 2 && !process.java
    });
    let name = names.find_map(|name| {
        let name = normalised(name);
        (name != own && !name.is_empty()).then_some(name)
    })?;
    // Java's `Thread-7` says nothing, nor do the numbered threads of a pool.
    if process.java && is_machine(&name) {
        return Some(MACHINE.to_owned());
    }
    let empty = ["Thread-#", "pool-#-thread-#", "ForkJoinPool-#-worker-#", "java", "#"];
    (!changes && !empty.contains(&name.as_str())).then_some(name)
}

/// A title that the process wrote: `postgres: walwriter`.
fn title_of(trace: &Trace, pid: u32) -> Option<String> {
    let process = trace.processes.get(&pid)?;
    let (_, title) = process.title.split_once(": ")?;
    let title = normalised(title.trim());
    (!title.is_empty()).then_some(title)
}

fn named(known: &BTreeMap<u32, Known>) -> Vec<Draft> {
    let mut by: BTreeMap<(usize, &str), Vec<u32>> = BTreeMap::new();
    for (&number, unit) in known {
        if let Some(name) = &unit.given {
            by.entry((unit.place, name)).or_default().push(number);
        }
    }
    let mixed = mixed(known);
    by.into_iter()
        .map(|((place, name), units)| Draft {
            place,
            title: name.to_owned(),
            sure: if units.iter().any(|unit| mixed.contains(unit)) {
                Confidence::Likely
            } else {
                Confidence::Certain
            },
            units,
            basis: Basis::Name,
            first: None,
        })
        .collect()
}

/// Units of newborn threads that may have several names: threads of one creator that begin with the
/// same function are counted together, and only at their end they are known by their names.
fn mixed(known: &BTreeMap<u32, Known>) -> BTreeSet<u32> {
    let mut names: BTreeMap<_, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
    for (&number, unit) in known {
        let (Some((creator, start, _)), Some(name)) = (unit.birth, &unit.given) else { continue };
        let by = known.get(&creator).and_then(|creator| creator.given.as_deref());
        let of = names.entry((unit.place, by, start)).or_default();
        of.entry(name).or_default().push(number);
    }
    let several = names.into_values().filter(|names| names.len() > 1);
    several.flat_map(BTreeMap::into_values).flatten().collect()
}

fn unnamed(trace: &Trace, places: &[Place], rest: &BTreeMap<u32, &Known>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for place in 0..places.len() {
        let own: BTreeMap<u32, &Known> =
            rest.iter().filter(|(_, known)| known.place == place).map(|(u, k)| (*u, *k)).collect();
        let mut stacks: BTreeMap<u32, Vec<Vec<&str>>> = BTreeMap::new();
        // A thread that ends is seen in the C library alone, which says nothing of its stage.
        let tells = |stack: &&Stack| stack.whole && stack.frames.iter().any(|f| !is_generic(f));
        for stack in trace.stacks.iter().filter(tells) {
            if own.contains_key(&stack.unit) {
                stacks.entry(stack.unit).or_default().push(outwards(stack));
            }
        }
        let mut found: Vec<Draft> = trie::branches(&stacks)
            .into_iter()
            .filter(|branch| branch.function.is_some())
            .map(|branch| Draft {
                place,
                title: title_for(&branch, &own),
                first: branch.path.iter().find(|function| !is_generic(function)).cloned(),
                units: branch.units,
                basis: Basis::Loop,
                sure: Confidence::Certain,
            })
            .collect();
        join_split_pools(trace, &mut found);
        let of: BTreeMap<u32, usize> = found
            .iter()
            .enumerate()
            .flat_map(|(at, draft)| draft.units.iter().map(move |unit| (*unit, at)))
            .collect();
        found = found.into_iter().flat_map(|draft| split_by_object(trace, draft, &of)).collect();
        drafts.extend(found);
    }
    drafts
}

/// A stack from the beginning.
fn outwards(stack: &Stack) -> Vec<&str> {
    stack.frames.iter().rev().map(String::as_str).collect()
}

/// A forked process with a title of one word is called by it, others by their loop function.
fn title_for(branch: &trie::Branch, own: &BTreeMap<u32, &Known>) -> String {
    let titles: BTreeSet<&String> =
        branch.units.iter().filter_map(|unit| own.get(unit)?.title.as_ref()).collect();
    if let (1, Some(title)) = (titles.len(), titles.first())
        && branch.units.len() == 1
        && !title.contains(['#', '['])
    {
        return (*title).clone();
    }
    short(branch.function.as_deref().unwrap_or("?"))
}

/// Threads of one pool, of which each was seen in one place alone, may look like two stages. They
/// wait on the same object.
fn join_split_pools(trace: &Trace, drafts: &mut Vec<Draft>) {
    let objects: Vec<BTreeMap<u64, u64>> =
        drafts.iter().map(|draft| executor::queue_objects(trace, &draft.units)).collect();
    let mut at = 0;
    let mut objects = objects;
    while at < drafts.len() {
        let partner = (0..at).find(|&other| {
            drafts[other].place == drafts[at].place
                && drafts[other].first == drafts[at].first
                && objects[other].keys().any(|object| objects[at].contains_key(object))
        });
        match partner {
            Some(other) => {
                let more = drafts.remove(at);
                drafts[other].units.extend(more.units);
                let more = objects.remove(at);
                objects[other].extend(more);
            }
            None => at += 1,
        }
    }
}

/// One loop function whose threads wait on different objects, and have different neighbours, is an
/// executor of several stages.
fn split_by_object(trace: &Trace, draft: Draft, of: &BTreeMap<u32, usize>) -> Vec<Draft> {
    let groups = executor::split(trace, &draft.units, of);
    if groups.len() < 2 {
        return vec![draft];
    }
    let titled = groups.into_iter().enumerate().map(|(number, group)| Draft {
        place: draft.place,
        title: format!("{} {}", draft.title, number + 1),
        units: group.units,
        basis: Basis::Object,
        sure: if group.known { Confidence::Likely } else { Confidence::Guess },
        first: draft.first.clone(),
    });
    titled.collect()
}

/// How a unit's threads began: the stage that creates them, or the unit whose stage is not known,
/// and the function or type.
type Beginning = (Result<usize, u32>, String);

/// Units without a stack: by their births, by their process's title, or by nothing.
fn place_the_rest(known: &BTreeMap<u32, Known>, drafts: &mut Vec<Draft>) {
    let mut of: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        of.extend(draft.units.iter().map(|unit| (*unit, at)));
    }
    // Creators have lower numbers than those that they create, which may create others.
    let left: Vec<u32> = known.keys().copied().filter(|unit| !of.contains_key(unit)).collect();
    for number in left {
        let unit = &known[&number];
        let own = beginning(unit, &of);
        let alike = own.as_ref().and_then(|own| {
            let same = |(other, _): &(&u32, &usize)| {
                known.get(other).and_then(|other| beginning(other, &of)).as_ref() == Some(own)
            };
            of.iter().find(same).map(|(_, at)| *at)
        });
        let at = alike.unwrap_or_else(|| {
            let (basis, title) = match (&own, &unit.title) {
                (Some((_, start)), _) => (Basis::Birth, begin_name(start)),
                (None, Some(title)) => (Basis::Title, title.clone()),
                (None, None) => (Basis::Nothing, "unknown threads".to_owned()),
            };
            let sure = match basis {
                Basis::Title => Confidence::Certain,
                Basis::Birth => Confidence::Likely,
                _ => Confidence::Guess,
            };
            let (place, units) = (unit.place, Vec::new());
            drafts.push(Draft { place, title, units, basis, sure, first: None });
            drafts.len() - 1
        });
        drafts[at].units.push(number);
        of.insert(number, at);
    }
}

fn beginning(unit: &Known, of: &BTreeMap<u32, usize>) -> Option<Beginning> {
    let (creator, start, argument) = unit.birth?;
    let named = argument.filter(|name| name.contains("vtable for")).or(start)?;
    Some((of.get(&creator).copied().ok_or(creator), named.to_owned()))
}

/// What a thread begins with, for people: the type in a virtual table, or the function.
fn begin_name(start: &str) -> String {
    let inner = start.rsplit("_Invoker<std::tuple<").next().unwrap_or(start);
    let inner = inner.trim_end_matches(['>', ' ', ':']);
    let name = short(inner.split(['(', ',']).next().unwrap_or(inner));
    if is_generic(&name) { format!("started by {name}") } else { name }
}

fn finish(
    places: Vec<Place>,
    known: &BTreeMap<u32, Known>,
    drafts: Vec<Draft>,
    hints: &Hints,
) -> Stages {
    let mut merged: Vec<Draft> = Vec::new();
    for draft in drafts {
        let same = merged.iter_mut().find(|other| {
            other.place == draft.place && other.title == draft.title && draft.basis == Basis::Hint
                || other.place == draft.place
                    && other.title == draft.title
                    && other.basis == draft.basis
                    // Helpers deep in the stacks are common to stages that begin differently.
                    && other.first == draft.first
                    && !matches!(draft.basis, Basis::Object | Basis::Birth)
        });
        match same {
            Some(other) => {
                other.units.extend(draft.units);
                other.sure = other.sure.min(draft.sure);
            }
            None => merged.push(draft),
        }
    }
    let mut found = Stages { places, ..Stages::default() };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for draft in merged {
        let name = unique(&word(&draft.title), &mut taken);
        let id = found.stages.len();
        let mut threads = Vec::new();
        let (mut births, mut most) = (0, 0);
        for unit in &draft.units {
            found.of.insert(*unit, id);
            let Some(known) = known.get(unit) else { continue };
            threads.extend(&known.threads);
            births += known.unit.births;
            most += known.unit.alive_max.max(u32::from(known.unit.births > 0));
        }
        let most = most.max(threads.len() as u32).max(1);
        found.stages.push(Stage {
            name,
            null: draft.basis == Basis::Nothing,
            title: draft.title,
            place: draft.place,
            on_demand: hints.on_demand(births, most),
            units: draft.units,
            threads,
            most,
            births,
            basis: draft.basis,
            sure: draft.sure,
        });
    }
    found
}

fn unique(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while name == "clients" || !taken.insert(name.clone()) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}
