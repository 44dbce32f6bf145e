//! For how long a Java virtual machine stopped its program's threads: mostly to collect garbage.
//!
//! The machine's own thread (`VM Thread`) stops them, and ends their waits. It sleeps until there
//! is something to do. What it does then, with what it waits for threads that collect garbage, is
//! the time in which the program stands still. Other threads of the machine, such as compilers and
//! those that mark beside the program, stop none.

use super::arrows::EVENTS_MIN;
use super::stages::{MACHINE, Stages};
use crate::trace::{How, Trace};
use std::collections::BTreeMap;

/// Part of the counted time, by place.
pub fn find(trace: &Trace, stages: &Stages) -> BTreeMap<usize, f64> {
    let machine = |unit: u32| -> Option<bool> {
        Some(stages.stages[*stages.of.get(&unit)?].title == MACHINE)
    };
    let named = |unit: u32, part: &str| {
        let mut own = trace.threads.values().filter(|thread| thread.unit == unit);
        own.any(|thread| thread.names.iter().any(|name| name.contains(part)))
    };
    let stops = |unit: u32| machine(unit) == Some(true) && named(unit, "VM Thread");
    let collects = |unit: u32| machine(unit) == Some(true) && named(unit, "GC Thread");
    let mut ended: BTreeMap<u32, u64> = BTreeMap::new();
    let mut helped_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for wait in trace.waits.iter().filter(|wait| wait.how == How::Futex) {
        if machine(wait.wakee) == Some(false) && stops(wait.waker) {
            *ended.entry(wait.waker).or_default() += wait.n;
        } else if collects(wait.waker) && stops(wait.wakee) {
            *helped_ns.entry(wait.wakee).or_default() += wait.off_ns;
        }
    }
    let mut parts: BTreeMap<usize, f64> = BTreeMap::new();
    for (unit, _) in ended.into_iter().filter(|(_, n)| *n >= EVENTS_MIN) {
        let Some(of) = trace.units.get(&unit) else { continue };
        let helped = helped_ns.get(&unit).copied().unwrap_or(0);
        let ns = of.run_ns + of.queued_ns + helped;
        let part = (ns as f64 / (trace.head.counted_s * 1e9).max(1.0)).min(1.0);
        let place = parts.entry(stages.stages[stages.of[&unit]].place).or_default();
        *place = place.max(part);
    }
    parts
}
