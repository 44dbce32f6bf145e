//! Stages of threads that are made while a recording runs: by how they begin.

use super::draft::{Basis, Draft, Known};
use super::frames::is_generic;
use super::names::short;
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet};

/// How a unit's threads began: the function or type, and the stage that creates them (or the unit
/// whose stage is not known) where the function begins threads of several stages.
type Beginning = (Option<Result<usize, u32>>, usize, String);

/// Functions that begin threads of pools, too: then one function may begin several stages.
fn common_starts(known: &BTreeMap<u32, Known>, drafts: &[Draft]) -> BTreeSet<String> {
    let lasts = |draft: &&Draft| {
        let births = draft.units.iter().map(|unit| known[unit].unit.births);
        let lasting = births.clone().filter(|births| *births == 0).count() as u64;
        lasting > births.sum()
    };
    drafts.iter().filter(lasts).filter_map(|draft| draft.first.clone()).collect()
}

/// Units without a stack: by their births, by their process's title, or by nothing. And stages of
/// newborn threads that begin with one function are one: their stacks may part where they work.
pub fn place_the_rest(known: &BTreeMap<u32, Known>, drafts: &mut Vec<Draft>) {
    let common = common_starts(known, drafts);
    let mut of: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        of.extend(draft.units.iter().map(|unit| (*unit, at)));
    }
    join_newborn(known, &common, drafts, &mut of);
    // Creators have lower numbers than those that they create, which may create others.
    let left: Vec<u32> = known.keys().copied().filter(|unit| !of.contains_key(unit)).collect();
    for number in left {
        let unit = &known[&number];
        let own = beginning(unit, &common, &of);
        let alike = own.as_ref().and_then(|own| {
            let same = |(other, _): &(&u32, &usize)| {
                known.get(other).and_then(|other| beginning(other, &common, &of)).as_ref()
                    == Some(own)
            };
            of.iter().find(same).map(|(_, at)| *at)
        });
        let at = alike.unwrap_or_else(|| {
            let (basis, title) = match (&own, &unit.title, unit.first_of) {
                (Some((.., start)), ..) => (Basis::Birth, begin_name(start)),
                (None, Some(title), _) => (Basis::Title, title.clone()),
                (None, None, Some(program)) => (Basis::First, program.to_owned()),
                (None, None, None) => (Basis::Nothing, "unknown threads".to_owned()),
            };
            let sure = match basis {
                Basis::Title => Confidence::Certain,
                Basis::Birth | Basis::First => Confidence::Likely,
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

/// Joins nameless stages that consist of newborn threads and begin alike.
fn join_newborn(
    known: &BTreeMap<u32, Known>,
    common: &BTreeSet<String>,
    drafts: &mut Vec<Draft>,
    of: &mut BTreeMap<u32, usize>,
) {
    let mut first: BTreeMap<Beginning, usize> = BTreeMap::new();
    for at in 0..drafts.len() {
        if !newborn(known, &drafts[at]) {
            continue;
        }
        let own = drafts[at].units.first().and_then(|unit| beginning(&known[unit], common, of));
        // Of a function that begins several stages, the stacks tell more.
        let Some(own) = own.filter(|(creator, ..)| creator.is_none()) else { continue };
        let into = *first.entry(own).or_insert(at);
        if into != at {
            let units = std::mem::take(&mut drafts[at].units);
            of.extend(units.iter().map(|unit| (*unit, into)));
            drafts[into].units.extend(units);
        }
    }
    let mut to = Vec::new();
    let mut kept = 0;
    for draft in drafts.iter() {
        to.push(kept);
        kept += usize::from(!draft.units.is_empty());
    }
    drafts.retain(|draft| !draft.units.is_empty());
    of.values_mut().for_each(|at| *at = to[*at]);
}

/// Whether a stage is known by its threads' births and functions alone.
fn newborn(known: &BTreeMap<u32, Known>, draft: &Draft) -> bool {
    matches!(draft.basis, Basis::Loop | Basis::Birth | Basis::Object)
        && draft.units.iter().all(|unit| known[unit].unit.births > 0)
}

/// Nameless threads that are made for requests have no queue that would tell two stages of one
/// function apart: such a stage is at most likely. So are all nameless stages of a program in which
/// such threads begin with the function of a pool: there a function runs what it is given.
pub fn doubt_the_newborn(known: &BTreeMap<u32, Known>, drafts: &mut [Draft]) {
    let common = common_starts(known, drafts);
    let mut generic: BTreeSet<usize> = BTreeSet::new();
    for draft in drafts.iter_mut().filter(|draft| newborn(known, draft)) {
        draft.sure = draft.sure.min(Confidence::Likely);
        let mut starts = draft.units.iter().filter_map(|unit| known[unit].birth?.1);
        if starts.any(|start| common.contains(start)) {
            generic.insert(draft.place);
        }
    }
    let nameless =
        |draft: &&mut Draft| draft.basis == Basis::Loop && generic.contains(&draft.place);
    for draft in drafts.iter_mut().filter(nameless) {
        draft.sure = draft.sure.min(Confidence::Likely);
    }
}

fn beginning(
    unit: &Known,
    common: &BTreeSet<String>,
    of: &BTreeMap<u32, usize>,
) -> Option<Beginning> {
    let (creator, start, argument) = unit.birth?;
    let typed = argument.filter(|name| name.contains("vtable for"));
    let named = typed.or(start)?;
    let several = typed.is_none() && (common.contains(named) || is_generic(named));
    let creator = several.then(|| of.get(&creator).copied().ok_or(creator));
    Some((creator, unit.place, named.to_owned()))
}

/// What a thread begins with, for people: the type in a virtual table, or the function.
fn begin_name(start: &str) -> String {
    let inner = start.rsplit("_Invoker<std::tuple<").next().unwrap_or(start);
    let inner = inner.trim_end_matches(['>', ' ', ':']);
    let name = short(inner.split(['(', ',']).next().unwrap_or(inner));
    if is_generic(&name) { format!("started by {name}") } else { name }
}
