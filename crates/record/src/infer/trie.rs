//! Loop functions: where the stacks of threads of one stage part.
//!
//! All stacks of a process that reach the thread's beginning are laid over one another from there.
//! Where they part, some threads may go more than one way: then this is the loop from which they do
//! their work, and threads that go one of these ways are of the same stage. The other ways are
//! different stages, which some trampoline started. Before the application's first function there
//! is no loop: a thread belongs to the way that it mostly goes.

use super::frames::is_generic;
use super::names::short;
use std::collections::{BTreeMap, BTreeSet};

/// Units that have one loop function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Units.
    pub units: Vec<u32>,
    /// Functions from the beginning to where the stacks part.
    pub path: Vec<String>,
    /// The function that names the stage.
    pub function: Option<String>,
}

/// The branches of these units' stacks, each from the beginning outwards.
pub fn branches(stacks: &BTreeMap<u32, Vec<Vec<&str>>>) -> Vec<Branch> {
    let mut found = Vec::new();
    let units: Vec<u32> = stacks.keys().copied().collect();
    part(stacks, units, &mut Vec::new(), 0, &mut found);
    found
}

fn part<'s>(
    stacks: &BTreeMap<u32, Vec<Vec<&'s str>>>,
    units: Vec<u32>,
    path: &mut Vec<&'s str>,
    last_split: usize,
    found: &mut Vec<Branch>,
) {
    let depth = path.len();
    let in_application = path.iter().any(|function| !is_generic(function));
    let mut ways: Vec<(BTreeSet<&str>, Vec<u32>)> = Vec::new();
    let mut ends = Vec::new();
    for &unit in &units {
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        for stack in stacks[&unit].iter().filter(|s| s.len() > depth && s.starts_with(path)) {
            *own.entry(stack[depth]).or_default() += 1;
        }
        if !in_application {
            let most = own.iter().max_by_key(|(way, n)| (**n, **way)).map(|(way, _)| *way);
            own.retain(|way, _| Some(*way) == most);
        }
        if own.is_empty() {
            ends.push(unit);
            continue;
        }
        // Ways that one unit goes are ways of one loop.
        let own: BTreeSet<&str> = own.into_keys().collect();
        let (same, other): (Vec<_>, Vec<_>) =
            ways.into_iter().partition(|(known, _)| !known.is_disjoint(&own));
        let mut joined = (own, vec![unit]);
        for (known, units) in same {
            joined.0.extend(known);
            joined.1.extend(units);
        }
        ways = other;
        ways.push(joined);
    }
    // A stack that ends here is of the loop, if there is one alone.
    if ways.len() == 1 && !ends.is_empty() && in_application {
        found.push(branch(units, path, last_split));
        return;
    }
    if !ends.is_empty() {
        found.push(branch(ends, path, last_split));
    }
    ways.sort();
    let splits = ways.len() > 1;
    for (ways, mut units) in ways {
        units.sort_unstable();
        let last_split = if splits { depth } else { last_split };
        let mut ways = ways.into_iter();
        match (ways.next(), ways.next()) {
            (Some(way), None) => {
                path.push(way);
                part(stacks, units, path, last_split, found);
                path.pop();
            }
            _ => found.push(branch(units, path, last_split)),
        }
    }
}

/// The stage's function: the first one of the application after stages parted. Where a stage's own
/// ways part depends on which of its sleeps were seen, and so does what is further out. One with a
/// name, if there is any: a stripped program's functions are `file!offset`, and a closure has the
/// name of the function around it.
fn branch(units: Vec<u32>, path: &[&str], last_split: usize) -> Branch {
    let first = |from: usize, keep: &dyn Fn(&str) -> bool| {
        path[from..].iter().find(|function| !is_generic(function) && keep(function))
    };
    let named = |function: &str| !function.contains('!');
    let closure = |function: &str| function.contains("{{closure}}") || function.contains("{lambda");
    let after = last_split.min(path.len());
    let main = path[after..].iter().rev().find(|function| is_main(function));
    let function = main
        .or_else(|| first(after, &|function| named(function) && !closure(function)))
        .or_else(|| first(after, &named))
        .or_else(|| first(after, &|_| true))
        .or_else(|| first(0, &|_| true));
    Branch {
        units,
        path: path.iter().map(|&function| function.to_owned()).collect(),
        function: function.map(|&function| function.to_owned()),
    }
}

/// Whether a function is what a kind of process or thread is for, by its name: `PostgresMain`,
/// `worker_main`. Such a stage has that name, whichever of its waits were seen.
fn is_main(function: &str) -> bool {
    let function = short(function);
    let last = function.rsplit("::").next().unwrap_or_default();
    !is_generic(&function) && last.to_ascii_lowercase().ends_with("main") && last != "main"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stacks(of: &[(u32, &[&[&'static str]])]) -> BTreeMap<u32, Vec<Vec<&'static str>>> {
        of.iter()
            .map(|(unit, stacks)| (*unit, stacks.iter().map(|stack| stack.to_vec()).collect()))
            .collect()
    }

    #[test]
    fn a_trampoline_starts_different_stages() {
        let found = branches(&stacks(&[
            (
                1,
                &[
                    &["start_thread", "spawn", "serve", "read"],
                    &["start_thread", "spawn", "serve", "work"],
                ],
            ),
            (2, &[&["start_thread", "spawn", "serve", "read"]]),
            (3, &[&["start_thread", "spawn", "purge", "wait"]]),
        ]));
        let named: Vec<_> =
            found.iter().map(|branch| (branch.function.as_deref(), branch.units.clone())).collect();
        assert_eq!(named, [(Some("purge"), vec![3]), (Some("serve"), vec![1, 2])]);
    }

    #[test]
    fn threads_that_were_seen_in_one_place_alone_are_one_stage() {
        let found = branches(&stacks(&[
            (1, &[&["start_thread", "serve", "wait"]]),
            (2, &[&["start_thread", "serve", "wait"]]),
        ]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].function.as_deref(), Some("serve"));
    }

    /// Of a server that answers from memory one wait is seen, of others several, deep inside.
    #[test]
    fn a_process_has_the_name_of_its_main_function_whichever_waits_were_seen() {
        const MAIN: [&str; 4] = ["_start", "main", "PostmasterMain", "PostgresMain"];
        let stack = |inner: &[&'static str]| [&MAIN[..], inner].concat();
        let (reads, commits) = (stack(&["ReadCommand", "recv"]), stack(&["Commit", "fdatasync"]));
        let locks = stack(&["Commit", "XLogFlush"]);
        let caught =
            [vec![reads.clone()], vec![reads, commits.clone()], vec![commits.clone(), locks]];
        for stacks in caught {
            let found = branches(&[(1, stacks.clone()), (2, stacks)].into());
            let named: Vec<_> = found.iter().map(|branch| branch.function.as_deref()).collect();
            assert_eq!(named, [Some("PostgresMain")]);
        }
    }

    proptest! {
        /// Each unit is in exactly one branch, whatever the stacks are.
        #[test]
        fn no_unit_is_lost(seed in proptest::collection::vec((1u32..12, proptest::collection::vec(0usize..4, 0..6)), 1..60)) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let mut all: BTreeMap<u32, Vec<Vec<&str>>> = BTreeMap::new();
            for (unit, stack) in &seed {
                all.entry(*unit).or_default().push(stack.iter().map(|&at| NAMES[at]).collect());
            }
            let found = branches(&all);
            let mut units: Vec<u32> = found.iter().flat_map(|branch| branch.units.clone()).collect();
            units.sort_unstable();
            prop_assert_eq!(units, all.keys().copied().collect::<Vec<_>>());
        }
    }
}
