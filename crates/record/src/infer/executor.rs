//! One loop function that runs several stages: a generic executor.
//!
//! Threads that wait on one object are of one stage. Threads that each have an object of their own
//! are of one stage if the same stages feed them and are fed by them. That is found by refinement:
//! all are alike at first, and those whose neighbours differ part, until nothing changes. Two
//! counts
//! differ only if chance does not explain it.

use crate::trace::{How, MANY, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Waits on an object from which it can be a queue.
const STRONG: u64 = 10;
/// A neighbour's part of the wake-ups from which its absence elsewhere tells something.
const SHARE: f64 = 0.1;
/// And the number of wake-ups that would then be expected.
const EXPECTED: f64 = 10.0;
const ROUNDS: usize = 8;

/// Threads of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Units.
    pub units: Vec<u32>,
    /// They were seen at work often enough.
    pub known: bool,
}

/// Objects on which these units wait often for what others hand over.
pub fn queue_objects(trace: &Trace, units: &[u32]) -> BTreeMap<u64, u64> {
    let mut objects: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all = 0;
    for wait in trace.handovers().filter(|wait| units.contains(&wait.wakee)) {
        all += wait.n;
        if wait.object > MANY && !wait.all {
            *objects.entry(wait.object).or_default() += wait.n;
        }
    }
    objects.retain(|_, n| *n >= 3 && *n * 10 >= all);
    objects
}

/// Wake-ups by and of neighbours.
type Counts = BTreeMap<(bool, usize), u64>;

/// Splits units of one loop function. `of` says which unit has which loop function.
pub fn split(trace: &Trace, units: &[u32], of: &BTreeMap<u32, usize>) -> Vec<Group> {
    let (parts, weak) = parts(trace, units);
    // Where each thread has its own object, and none is shared, it is a pool whose threads
    // are woken one by one. Who wakes whom in it says nothing of stages.
    if units.len() < 2 || parts.len() < 2 || parts.iter().all(|part| part.len() == 1) {
        return vec![Group { units: units.to_vec(), known: true }];
    }
    grouped(trace, units, of, (parts, weak), false)
}

/// Splits units of one executor whose threads park: each has its own object, whatever it waits for.
pub fn split_parked(trace: &Trace, units: &[u32], of: &BTreeMap<u32, usize>) -> Vec<Group> {
    grouped(trace, units, of, parts(trace, units), true)
}

fn grouped(
    trace: &Trace,
    units: &[u32],
    of: &BTreeMap<u32, usize>,
    (parts, weak): (Vec<Vec<u32>>, Vec<u32>),
    parked: bool,
) -> Vec<Group> {
    let one = || vec![Group { units: units.to_vec(), known: true }];
    // Threads that park wake one another for locks, too, so that all look alike at first, except
    // those that read sockets.
    let apart = |part: &Vec<u32>| parked && part.iter().all(|&unit| serves(trace, unit));
    let first = parts.iter().map(|part| usize::from(apart(part))).collect();
    let classes = refine(trace, &parts, of, first);
    let mut groups = Vec::new();
    for class in classes {
        // Several queues, each with several threads, are several stages, although they are alike.
        let (several, single): (Vec<usize>, Vec<usize>) =
            class.into_iter().partition(|&part| parts[part].len() > 1);
        groups.extend(several.into_iter().map(|part| parts[part].clone()));
        if !single.is_empty() {
            groups.push(single.into_iter().flat_map(|part| parts[part].clone()).collect());
        }
    }
    groups.sort_by_key(|units: &Vec<u32>| (std::cmp::Reverse(units.len()), units[0]));
    if groups.len() < 2 {
        return one();
    }
    let mut groups: Vec<Group> =
        groups.into_iter().map(|units| Group { units, known: true }).collect();
    if !weak.is_empty() {
        groups.push(Group { units: weak, known: false });
    }
    groups
}

/// Units that wait on the same objects; those that read sockets are one part, as their sockets are
/// their queues. And units that hardly did anything.
fn parts(trace: &Trace, units: &[u32]) -> (Vec<Vec<u32>>, Vec<u32>) {
    let mut parts: Vec<(BTreeSet<u64>, Vec<u32>)> = Vec::new();
    let (mut weak, mut servers) = (Vec::new(), Vec::new());
    for &unit in units {
        if serves(trace, unit) {
            servers.push(unit);
            continue;
        }
        let strong = queue_objects(trace, &[unit]).into_iter().filter(|(_, n)| *n >= STRONG);
        let objects: BTreeSet<u64> = strong.map(|(object, _)| object).collect();
        if objects.is_empty() {
            weak.push(unit);
            continue;
        }
        let (same, other): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(known, _)| !known.is_disjoint(&objects));
        let mut joined = (objects, vec![unit]);
        for (objects, units) in same {
            joined.0.extend(objects);
            joined.1.extend(units);
        }
        parts = other;
        parts.push(joined);
    }
    let mut parts: Vec<Vec<u32>> = parts.into_iter().map(|(_, units)| units).collect();
    if !servers.is_empty() {
        parts.push(servers);
    }
    (parts, weak)
}

/// Whether a unit reads sockets. A thread that is made for a request has no queue either.
fn serves(trace: &Trace, unit: u32) -> bool {
    let of = |keep: &dyn Fn(&crate::trace::Wait) -> bool| -> u64 {
        let own = trace.waits.iter().filter(|wait| wait.wakee == unit && keep(wait));
        own.map(|wait| wait.n).sum()
    };
    let inside = |waker: u32| trace.pid_of(waker) == trace.pid_of(unit);
    let sockets = of(&|wait| wait.how == How::Ready && !inside(wait.waker));
    let woken = of(&|wait| matches!(wait.how, How::Futex | How::Ready));
    let born = trace.units.get(&unit).is_some_and(|unit| unit.births > 0);
    born || sockets >= STRONG && sockets * 10 >= woken * 3
}

/// Classes of parts whose neighbours are of the same classes.
fn refine(
    trace: &Trace,
    parts: &[Vec<u32>],
    of: &BTreeMap<u32, usize>,
    mut class: Vec<usize>,
) -> Vec<Vec<usize>> {
    let part_of: BTreeMap<u32, usize> = parts
        .iter()
        .enumerate()
        .flat_map(|(at, units)| units.iter().map(move |unit| (*unit, at)))
        .collect();
    for _ in 0..ROUNDS {
        // Neighbours outside of these parts have numbers beyond all classes.
        let neighbour = |unit: u32| match part_of.get(&unit) {
            Some(&part) => class[part],
            None => parts.len() + of.get(&unit).map_or(1_000_000 + unit as usize, |at| *at),
        };
        let mut counts: Vec<Counts> = vec![Counts::new(); parts.len()];
        for wait in trace.handovers() {
            let (from, to) = (part_of.get(&wait.waker), part_of.get(&wait.wakee));
            if from == to {
                continue;
            }
            if let Some(&to) = to {
                *counts[to].entry((true, neighbour(wait.waker))).or_default() += wait.n;
            }
            if let Some(&from) = from {
                *counts[from].entry((false, neighbour(wait.wakee))).or_default() += wait.n;
            }
        }
        let next = regroup(&class, &counts);
        if next == class {
            break;
        }
        class = next;
    }
    let count = class.iter().max().map_or(0, |most| most + 1);
    let mut classes = vec![Vec::new(); count];
    for (part, &class) in class.iter().enumerate() {
        classes[class].push(part);
    }
    classes.retain(|class| !class.is_empty());
    classes
}

/// Parts of one class stay together while their counts are alike.
fn regroup(class: &[usize], counts: &[Counts]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..class.len()).collect();
    order.sort_by_key(|&part| std::cmp::Reverse(counts[part].values().sum::<u64>()));
    let mut clusters: Vec<(usize, Counts)> = Vec::new();
    let mut next = vec![0; class.len()];
    for part in order {
        let found =
            clusters.iter().position(|(of, sum)| *of == class[part] && !differ(sum, &counts[part]));
        let at = found.unwrap_or_else(|| {
            clusters.push((class[part], Counts::new()));
            clusters.len() - 1
        });
        for (key, n) in &counts[part] {
            *clusters[at].1.entry(*key).or_default() += n;
        }
        next[part] = at;
    }
    next
}

/// Whether one has a neighbour that the other lacks, and not by chance.
fn differ(a: &Counts, b: &Counts) -> bool {
    let lacks = |x: &Counts, y: &Counts| {
        x.iter().any(|(key, n)| {
            let all = |of: &Counts| -> u64 {
                of.iter().filter(|((from, _), _)| *from == key.0).map(|(_, n)| n).sum()
            };
            let share = *n as f64 / all(x).max(1) as f64;
            // What one part as a whole does not do in this direction is compared with what it does
            // in the other.
            let other: u64 = if all(y) > 0 { all(y) } else { y.values().sum() };
            let seen = y.get(key).copied().unwrap_or(0) as f64;
            share >= SHARE && share * other as f64 >= EXPECTED && seen < 0.1 * share * other as f64
        })
    };
    lacks(a, b) || lacks(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Unit, Wait};

    fn trace(waits: &[(u32, u32, u64, u64)]) -> Trace {
        let mut trace = Trace::default();
        for &(waker, wakee, object, n) in waits {
            for unit in [waker, wakee] {
                trace.units.insert(unit, Unit { unit, pid: 1, ..Unit::default() });
            }
            trace.waits.push(Wait {
                waker,
                wakee,
                object,
                n,
                how: How::Futex,
                op: 393,
                sleep: 202,
                ..Wait::default()
            });
        }
        trace
    }

    fn units(groups: &[Group]) -> Vec<Vec<u32>> {
        let mut units: Vec<Vec<u32>> = groups
            .iter()
            .map(|group| {
                let mut units = group.units.clone();
                units.sort_unstable();
                units
            })
            .collect();
        units.sort();
        units
    }

    #[test]
    fn a_chain_of_queues_is_a_chain_of_stages() {
        // 10 feeds 2 and 3 (one queue), which feed 4, which feeds 5.
        let trace = trace(&[
            (10, 2, 0x100, 50),
            (10, 3, 0x100, 50),
            (2, 4, 0x200, 50),
            (3, 4, 0x200, 50),
            (4, 5, 0x300, 90),
        ]);
        let found = split(&trace, &[2, 3, 4, 5], &BTreeMap::new());
        assert_eq!(units(&found), [vec![2, 3], vec![4], vec![5]]);
    }

    #[test]
    fn workers_that_each_have_a_queue_are_one_stage() {
        let trace = trace(&[(10, 2, 0x100, 50), (10, 3, 0x200, 60), (10, 4, 0x300, 40)]);
        let found = split(&trace, &[2, 3, 4], &BTreeMap::new());
        assert_eq!(units(&found), [vec![2, 3, 4]]);
    }

    #[test]
    fn threads_that_wake_one_another_are_one_stage() {
        let trace = trace(&[(2, 3, 0x300, 50), (3, 4, 0x400, 60), (4, 2, 0x200, 40)]);
        let found = split(&trace, &[2, 3, 4], &BTreeMap::new());
        assert_eq!(units(&found), [vec![2, 3, 4]]);
    }

    /// Each thread parks at its own address, and those of one pool wake one another for its lock.
    #[test]
    fn threads_that_park_are_told_apart_by_their_neighbours() {
        let mut trace = trace(&[
            (2, 4, 0x400, 50),
            (3, 5, 0x500, 50),
            (2, 5, 0x500, 50),
            (3, 4, 0x400, 50),
            (4, 5, 0x500, 40),
            (5, 4, 0x400, 40),
            (4, 6, 0x600, 50),
            (5, 6, 0x600, 50),
            (6, 6, 0x600, 20),
        ]);
        for wakee in [2, 3] {
            let how = How::Ready;
            trace.waits.push(Wait { waker: 1, wakee, object: 7, n: 90, how, ..Wait::default() });
        }
        let found = split_parked(&trace, &[2, 3, 4, 5, 6], &BTreeMap::new());
        assert_eq!(units(&found), [vec![2, 3], vec![4, 5], vec![6]]);
    }
}
