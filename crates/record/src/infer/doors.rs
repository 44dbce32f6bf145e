//! Threads that answer requests at one address are of one stage.
//!
//! What one of them was seen in, the others may have been in, too. They begin with one function, or
//! they come to one: a server's first thread enters the loop by `main`, and others by what begins a
//! thread.

use super::frames::is_generic;
use super::trie::{self, Branch};
use crate::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};

/// Stacks of units, from the beginning.
type Stacks<'s> = BTreeMap<u32, Vec<Vec<&'s str>>>;

/// The branches of these units' stacks.
pub fn branches(trace: &Trace, stacks: &Stacks) -> Vec<Branch> {
    let mut alike: BTreeMap<u32, u32> = BTreeMap::new();
    let mut begin: BTreeMap<u32, &str> = BTreeMap::new();
    for units in answering(trace, stacks).into_values() {
        let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for &unit in units.iter().filter(|unit| !alike.contains_key(unit)) {
            let first = stacks[&unit].iter().find_map(|stack| stack.iter().find(|f| own(f)));
            if let Some(first) = first {
                groups.entry(first).or_default().push(unit);
            }
        }
        let mut common: Vec<&str> = Vec::new();
        let mut joined: Vec<u32> = Vec::new();
        for units in groups.into_values() {
            let functions = in_all(&units, stacks);
            if joined.is_empty() {
                (common, joined) = (functions, units);
                continue;
            }
            let both: Vec<&str> =
                common.iter().copied().filter(|function| functions.contains(function)).collect();
            if let Some(loops) = both.first() {
                joined.extend(&units);
                begin.extend(joined.iter().map(|unit| (*unit, *loops)));
                common = both;
            } else {
                alike.extend(units.iter().map(|unit| (*unit, units[0])));
            }
        }
        alike.extend(joined.iter().map(|unit| (*unit, joined[0])));
    }
    let of = |unit: u32| alike.get(&unit).copied().unwrap_or(unit);
    let mut merged = Stacks::new();
    for (&unit, all) in stacks {
        let from = |stack: &Vec<&str>| {
            let loops = begin.get(&unit)?;
            stack.iter().position(|function| function == loops)
        };
        let cut = all.iter().map(|stack| stack[from(stack).unwrap_or(0)..].to_vec());
        merged.entry(of(unit)).or_default().extend(cut);
    }
    let mut found = trie::branches(&merged);
    for branch in &mut found {
        let of_it = |unit: &u32| branch.units.contains(&of(*unit));
        branch.units = stacks.keys().copied().filter(of_it).collect();
    }
    found
}

/// Units that both receive requests and send answers on a connection, by their own address.
fn answering<'t>(trace: &'t Trace, stacks: &Stacks) -> BTreeMap<&'t str, BTreeSet<u32>> {
    let answers: BTreeSet<(u32, &str, &str)> = trace
        .sockets
        .iter()
        .filter(|socket| socket.sends)
        .map(|socket| (socket.unit, &*socket.local, &*socket.remote))
        .collect();
    let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for socket in trace.sockets.iter().filter(|socket| !socket.sends && socket.turns > 0) {
        let both = answers.contains(&(socket.unit, &socket.local, &socket.remote));
        if both && stacks.contains_key(&socket.unit) {
            found.entry(&socket.local).or_default().insert(socket.unit);
        }
    }
    found
}

/// A function that may tell a stage.
fn own(function: &str) -> bool {
    !is_generic(function)
}

/// Functions with a name that are in each stack of these units, from the beginning.
fn in_all<'s>(units: &[u32], stacks: &Stacks<'s>) -> Vec<&'s str> {
    let mut all = units.iter().flat_map(|unit| &stacks[unit]);
    let tells = |function: &&str| own(function) && *function != "main" && !function.contains('!');
    let mut common: Vec<&str> = all.next().into_iter().flatten().copied().filter(tells).collect();
    for stack in all {
        common.retain(|function| stack.contains(function));
    }
    common
}
