//! Classes of locks, as a virtual machine tells them.

use super::locks::Lock;
use super::names::short;
use super::stages::Stages;
use crate::trace::Trace;
use std::collections::BTreeMap;

/// Names locks by their class and the function that waits for them.
pub fn name(trace: &Trace, stages: &Stages, locks: &mut [Lock]) {
    let mut classes: BTreeMap<(usize, String), BTreeMap<&str, u64>> = BTreeMap::new();
    for monitor in trace.monitors.iter().filter(|monitor| monitor.by != "wait") {
        let Some(&stage) = stages.of.get(&monitor.unit) else { continue };
        let key = (stages.stages[stage].place, short(&monitor.function));
        *classes.entry(key).or_default().entry(&monitor.class).or_default() += monitor.n;
    }
    for lock in locks {
        let known = classes.get(&(lock.place, lock.name.clone()));
        if let Some((class, _)) = known.and_then(|all| all.iter().max_by_key(|(_, n)| **n)) {
            lock.name = format!("{class} in {}", lock.name);
        }
    }
}
