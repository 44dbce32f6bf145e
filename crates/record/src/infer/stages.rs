//! Threads that do the same.

use super::carriers::{GOROUTINES, VIRTUAL};
use super::doors;
use super::draft::{Draft, Known, known};
use super::executor;
use super::frames::is_generic;
use super::names::{short, word};
use super::newborn::{doubt_the_newborn, place_the_rest};
use super::sites::{Kind, Sites, kind};
use super::trie;
use crate::hints::Hints;
use crate::trace::{Stack, Trace, Wait};
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet};

pub use super::draft::{Basis, MACHINE};

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

impl Stages {
    /// Processes that have threads of each stage.
    pub fn pids(&self, trace: &Trace) -> Vec<BTreeSet<u32>> {
        let of = |stage: &Stage| stage.units.iter().map(|unit| trace.pid_of(*unit)).collect();
        self.stages.iter().map(of).collect()
    }
}

/// Finds stages.
pub fn find(trace: &Trace, hints: &Hints) -> Stages {
    let (places, place_of) = places(trace);
    let known = known(trace, &place_of);
    let mut drafts: Vec<Draft> = named(&known)
        .into_iter()
        .flat_map(|draft| split_by_beginning(trace, &places, draft))
        .collect();
    let taken: BTreeSet<u32> = drafts.iter().flat_map(|draft| draft.units.clone()).collect();
    let rest: BTreeMap<u32, &Known> = known
        .iter()
        .filter(|(unit, _)| !taken.contains(unit))
        .map(|(unit, known)| (*unit, known))
        .collect();
    drafts.extend(unnamed(trace, &places, &rest));
    drafts = drafts.into_iter().flat_map(|draft| split_by_hints(trace, hints, draft)).collect();
    place_the_rest(&known, &mut drafts);
    doubt_the_newborn(&known, &mut drafts);
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
            let host = trace.host_of(first).to_owned();
            places.push(Place { pid: first, program, java: process.java, host });
            places.len() - 1
        });
        of.insert(pid, place);
    }
    (places, of)
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
            sure: if units.iter().any(|unit| mixed.contains(unit) || known[unit].renames) {
                Confidence::Likely
            } else {
                Confidence::Certain
            },
            units,
            basis: if [GOROUTINES, VIRTUAL].contains(&name) { Basis::Runtime } else { Basis::Name },
            first: None,
        })
        .collect()
}

/// Threads have their creator's name until they get one. So those that have a name and begin with
/// different functions of the application are different stages.
fn split_by_beginning(trace: &Trace, places: &[Place], draft: Draft) -> Vec<Draft> {
    if places[draft.place].java || draft.basis != Basis::Name {
        return vec![draft];
    }
    let own: BTreeSet<u32> = draft.units.iter().copied().collect();
    let mut begin: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for stack in trace.stacks.iter().filter(|stack| stack.whole && own.contains(&stack.unit)) {
        let first = stack.frames.iter().rev().find(|function| !is_generic(function));
        begin.entry(stack.unit).or_default().extend(first.map(String::as_str));
    }
    let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (unit, functions) in &begin {
        if let (1, Some(function)) = (functions.len(), functions.first()) {
            groups.entry(function).or_default().push(*unit);
        }
    }
    let Some(largest) = groups.iter().max_by_key(|(_, units)| units.len()).map(|(f, _)| *f) else {
        return vec![draft];
    };
    let rest = |of: &BTreeMap<&str, Vec<u32>>| -> Vec<u32> {
        let apart = |unit: &u32| of.iter().any(|(f, units)| *f != largest && units.contains(unit));
        draft.units.iter().copied().filter(|unit| !apart(unit)).collect()
    };
    let with = |title: String, units: Vec<u32>, first: Option<&str>| Draft {
        place: draft.place,
        title,
        units,
        basis: draft.basis,
        sure: draft.sure,
        first: first.map(str::to_owned),
    };
    let mut parts = vec![with(draft.title.clone(), rest(&groups), None)];
    for (function, units) in groups.iter().filter(|(function, _)| **function != largest) {
        let title = format!("{} {}", draft.title, short(function));
        parts.push(with(title, units.clone(), Some(function)));
    }
    parts
}

/// Units of newborn threads that may have several names: threads of one creator that begin with the
/// same function are counted together, and only at their end they are known by their names.
fn mixed(known: &BTreeMap<u32, Known>) -> BTreeSet<u32> {
    let mut names: BTreeMap<_, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
    for (&number, unit) in known.iter().filter(|(_, known)| !known.unit.named) {
        let (Some((creator, start, _)), Some(name)) = (unit.birth, &unit.given) else { continue };
        let by = known.get(&creator).and_then(|creator| creator.given.as_deref());
        let of = names.entry((unit.place, by, start)).or_default();
        of.entry(name).or_default().push(number);
    }
    let several = names.into_values().filter(|names| names.len() > 1);
    several.flat_map(BTreeMap::into_values).flatten().collect()
}

fn unnamed(trace: &Trace, places: &[Place], rest: &BTreeMap<u32, &Known>) -> Vec<Draft> {
    let mut drafts = executors(trace, rest);
    for (place, Place { program, java, .. }) in places.iter().enumerate() {
        let own: BTreeMap<u32, &Known> = rest
            .iter()
            .filter(|(_, known)| known.place == place && known.executor.is_none())
            .map(|(unit, known)| (*unit, *known))
            .collect();
        let mut stacks: BTreeMap<u32, Vec<Vec<&str>>> = BTreeMap::new();
        // A thread that ends is seen in the C library alone, which says nothing of its stage.
        // And one of a Java virtual machine's own functions alone says nothing either.
        let silent = |function: &str| is_generic(function) || *java && function.contains("::");
        let tells = |stack: &&Stack| stack.whole && !stack.frames.iter().all(|f| silent(f));
        for stack in trace.stacks.iter().filter(tells) {
            if own.contains_key(&stack.unit) {
                stacks.entry(stack.unit).or_default().push(outwards(stack));
            }
        }
        let mut found: Vec<Draft> = doors::branches(trace, &stacks)
            .into_iter()
            .filter(|branch| branch.function.is_some())
            .map(|branch| Draft {
                place,
                title: title_for(&branch, &own, program),
                first: branch.path.iter().find(|function| !is_generic(function)).cloned(),
                // Who changes its name runs what several pools give it.
                sure: if branch.units.iter().any(|unit| own[unit].renames) {
                    Confidence::Likely
                } else {
                    Confidence::Certain
                },
                units: branch.units,
                basis: Basis::Loop,
            })
            .collect();
        join_same_functions(&mut found);
        join_split_pools(trace, &mut found);
        let of: BTreeMap<u32, usize> = found
            .iter()
            .enumerate()
            .flat_map(|(at, draft)| draft.units.iter().map(move |unit| (*unit, at)))
            .collect();
        found = found.into_iter().flat_map(|draft| split_by_object(trace, draft, &of)).collect();
        doubt_functions(&mut found);
        drafts.extend(found);
    }
    drafts
}

/// Executors of a Java virtual machine whose threads have no name: each is a stage, or runs
/// several. Few of their stacks are whole, and each of their threads parks at its own address. So
/// those of one stage are known by whom they wake, and who wakes them.
fn executors(trace: &Trace, rest: &BTreeMap<u32, &Known>) -> Vec<Draft> {
    let mut pools: BTreeMap<(usize, u32), Vec<u32>> = BTreeMap::new();
    for (&unit, known) in rest {
        if let Some(number) = known.executor {
            pools.entry((known.place, number)).or_default().push(unit);
        }
    }
    let of: BTreeMap<u32, usize> = pools
        .values()
        .enumerate()
        .flat_map(|(at, units)| units.iter().map(move |unit| (*unit, at)))
        .collect();
    if pools.is_empty() {
        return Vec::new();
    }
    // Who lets another one have a lock is no neighbour.
    let sites = Sites::of(trace);
    let passes = |wait: &&Wait| !matches!(kind(trace, &sites, wait), Kind::Lock | Kind::Idle);
    let passed = Trace {
        waits: trace.waits.iter().filter(passes).cloned().collect(),
        units: trace.units.clone(),
        threads: trace.threads.clone(),
        ..Trace::default()
    };
    let mut drafts = Vec::new();
    for ((place, number), units) in pools {
        let title = format!("pool-{number}");
        let groups = executor::split_parked(&passed, &units, &of);
        let one = groups.len() < 2;
        for (at, group) in groups.into_iter().enumerate() {
            drafts.push(Draft {
                place,
                title: if one { title.clone() } else { format!("{title} {}", at + 1) },
                units: group.units,
                basis: if one { Basis::Name } else { Basis::Object },
                sure: if group.known { Confidence::Likely } else { Confidence::Guess },
                first: None,
            });
        }
    }
    drafts
}

/// A stack from the beginning.
fn outwards(stack: &Stack) -> Vec<&str> {
    stack.frames.iter().rev().map(String::as_str).collect()
}

/// A forked process with a title of one word is called by it, others by their loop function. `main`
/// is no name: such a stage has the one title of its processes, or the program's name.
fn title_for(branch: &trie::Branch, own: &BTreeMap<u32, &Known>, program: &str) -> String {
    let titles: BTreeSet<&String> =
        branch.units.iter().filter_map(|unit| own.get(unit)?.title.as_ref()).collect();
    let function = short(branch.function.as_deref().unwrap_or("?"));
    let main = function == "main";
    if let (1, Some(title)) = (titles.len(), titles.first())
        && (main || branch.units.len() == 1)
        && !title.contains(['#', '['])
    {
        return (*title).clone();
    }
    if main { program.to_owned() } else { function }
}

/// Threads of one function of which each was seen to go one way alone may be of one stage. Whether
/// they are, what they wait on tells.
fn join_same_functions(drafts: &mut Vec<Draft>) {
    let mut at = 0;
    while at < drafts.len() {
        let same = (0..at).find(|&other| {
            (&drafts[other].title, &drafts[other].first) == (&drafts[at].title, &drafts[at].first)
        });
        match same {
            Some(other) => {
                let more = drafts.remove(at);
                drafts[other].units.extend(more.units);
            }
            None => at += 1,
        }
    }
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

/// In a program of which one function runs several stages, functions do not tell stages apart:
/// those that are known by another function are at most likely.
fn doubt_functions(drafts: &mut [Draft]) {
    if drafts.iter().any(|draft| draft.basis == Basis::Object) {
        drafts.iter_mut().for_each(|draft| draft.sure = draft.sure.min(Confidence::Likely));
    }
}

/// Threads that a hint takes out of a stage, by a function that they were seen in.
fn split_by_hints(trace: &Trace, hints: &Hints, draft: Draft) -> Vec<Draft> {
    if !hints.splits(&draft.title) {
        return vec![draft];
    }
    let mut parts: BTreeMap<Option<&str>, Vec<u32>> = BTreeMap::new();
    for &unit in &draft.units {
        let stacks = trace.stacks.iter().filter(|stack| stack.unit == unit);
        let functions: Vec<&str> =
            stacks.flat_map(|stack| stack.frames.iter().map(String::as_str)).collect();
        parts.entry(hints.part(&draft.title, &functions)).or_default().push(unit);
    }
    let part = |(name, units): (Option<&str>, Vec<u32>)| Draft {
        place: draft.place,
        title: name.unwrap_or(&draft.title).to_owned(),
        units,
        basis: if name.is_some() { Basis::Hint } else { draft.basis },
        sure: draft.sure,
        first: draft.first.clone(),
    };
    parts.into_iter().map(part).collect()
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
