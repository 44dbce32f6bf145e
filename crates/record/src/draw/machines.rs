//! Machines, the programs on them, and their resources: how many processors the recorded threads
//! have, and how fast these are.

use super::fit::Fit;
use super::{Ids, disk};
use crate::infer::Architecture;
use crate::infer::names::word;
use crate::trace::{Head, OUTSIDE, Trace, Unit};
use headworks_tad::model::{
    Device, Discipline, NodeKind, Process, Resource, ResourceKind, Tad, UNLIMITED,
};
use std::collections::BTreeSet;

/// Adds machines, programs and the resources that stages use.
pub(super) fn add(
    trace: &Trace,
    found: &Architecture,
    fit: &Fit,
    kept: &BTreeSet<usize>,
    tad: &mut Tad,
    ids: &mut Ids,
) {
    let mut processes: BTreeSet<String> = BTreeSet::new();
    for place in &found.stages.places {
        let host = if place.host.is_empty() { "host".to_owned() } else { word(&place.host) };
        let node = tad.nodes.iter().position(|node| node.name == host).unwrap_or_else(|| {
            let title = if place.host.is_empty() { host.clone() } else { place.host.clone() };
            tad.nodes.push(NodeKind { name: host.clone(), title, count: 1 });
            tad.nodes.len() - 1
        });
        let base = word(&place.program);
        let mut name = base.clone();
        for number in 2.. {
            if processes.insert(name.clone()) {
                break;
            }
            name = format!("{base}-{number}");
        }
        tad.processes.push(Process { name, title: place.program.clone(), node });
    }
    for node in 0..tad.nodes.len() {
        let host = tad.nodes[node].title.as_str();
        let head = trace.head_of(host);
        let (cpu, cpu_per_s, processors) = processors(trace, head);
        let own = |id: &&usize| tad.processes[found.stages.stages[**id].place].node == node;
        let uses = |of: &dyn Fn(usize) -> bool| kept.iter().filter(own).any(|id| of(*id));
        let io = uses(&|id| disk(found, id) > 0);
        let network = uses(&|id| found.facts[id].outside_bytes > 0);
        let asked = uses(&|id| fit.stages[id].asked_ns > 0);
        // The network of one machine is not measured: ten gigabits.
        for (any, of, (name, kind), rate_per_s, parallelism) in [
            (true, &mut ids.cpu, (cpu, ResourceKind::Cpu), cpu_per_s, processors),
            (io, &mut ids.io, ("io", ResourceKind::Io), fit.disk.rate_per_s, fit.disk.parallelism),
            (network, &mut ids.network, ("network", ResourceKind::Network), 1.25e9, 1),
            (true, &mut ids.time, (TIME, ResourceKind::Custom), 1e9, UNLIMITED),
            (asked, &mut ids.asked, (ASKED, ResourceKind::Custom), 1e9, UNLIMITED),
        ] {
            if any {
                of.insert(node, tad.resources.len());
                resource(tad, node, (name, kind), rate_per_s, parallelism);
            }
        }
    }
}

/// Time that passes and uses nothing.
pub const TIME: &str = "time";
/// Processors, as many as a control group may use.
pub const QUOTA: &str = "cpu-quota";
/// Servers that are not recorded.
pub const ASKED: &str = "other-servers";

/// Adds a resource of a machine.
pub(super) fn resource(
    tad: &mut Tad,
    node: usize,
    (name, kind): (&str, ResourceKind),
    rate_per_s: f64,
    parallelism: u32,
) {
    let title = match name {
        TIME => "time that passes",
        ASKED => "servers that are not recorded",
        QUOTA => "processors that the control group may use",
        _ => kind.name(),
    };
    let discipline = match kind {
        ResourceKind::Cpu => Discipline::RoundRobin { quantum_ns: 3_000_000 },
        _ => Discipline::Fifo,
    };
    tad.resources.push(Resource {
        name: name.to_owned(),
        title: title.to_owned(),
        kind,
        node,
        rate_per_s,
        parallelism: parallelism.max(1),
        discipline,
        device: Device::Plain,
    });
}

/// Part of the processors that programs leave which are neither recorded nor clients of those that
/// are. One; less where other programs kept processors from the recorded threads, which needs both
/// others that took much and processors that were seldom idle.
fn left_by_others(trace: &Trace, head: &Head) -> f64 {
    /// No machine is drawn as if it stood still.
    const LEFT_MIN: f64 = 0.05;
    let all = f64::from(head.processors.max(1));
    let busy = (all - head.idle.unwrap_or(all)).clamp(0.0, all);
    (1.0 - others(trace, head) / all * (busy / all)).max(LEFT_MIN)
}

/// Processors that programs took which are neither recorded nor clients of those that are.
pub fn others(trace: &Trace, head: &Head) -> f64 {
    let Some(idle) = head.idle else { return 0.0 };
    let own = |unit: &&Unit| unit.unit != OUTSIDE && trace.host_of(unit.pid) == head.host;
    let recorded = trace.units.values().filter(own);
    let recorded_ns: u64 = recorded.map(|unit| unit.run_ns).sum();
    let all = f64::from(head.processors.max(1));
    let own =
        head.clients_cpu + head.own * all + recorded_ns as f64 / 1e9 / head.counted_s.max(1e-9);
    let busy = (all - idle).clamp(0.0, all);
    (busy - own).max(0.0)
}

/// Processors of the machine for the recorded threads: how many, and how fast each is. A control
/// group may leave them less.
fn processors(trace: &Trace, head: &Head) -> (&'static str, f64, u32) {
    let all = head.processors.max(1);
    let left = left_by_others(trace, head);
    match head.quota.as_ref().filter(|quota| quota.processors < f64::from(all)) {
        Some(quota) => {
            let (number, rate_per_s) = divided(quota.processors.min(left * f64::from(all)));
            (QUOTA, rate_per_s, number)
        }
        None => ("cpu", 1e9 * left, all),
    }
}

/// Parts of processors as whole ones that are slower.
pub(crate) fn divided(processors: f64) -> (u32, f64) {
    let number = processors.ceil().max(1.0);
    (number as u32, 1e9 * processors / number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_take_is_not_in_the_diagram() {
        let head = Head { processors: 2, counted_s: 10.0, seconds: 10.0, ..Head::default() };
        // The recorded threads run for five seconds of ten: half a processor.
        let recorded = Unit { unit: 2, run_ns: 5_000_000_000, ..Unit::default() };
        let outside = Unit { unit: OUTSIDE, run_ns: 90_000_000_000, ..Unit::default() };
        let units = [(2, recorded), (OUTSIDE, outside)].into();
        let mut trace = Trace { head, units, ..Trace::default() };
        let mut left = |idle: Option<f64>, clients_cpu: f64| {
            (trace.head.idle, trace.head.clients_cpu) = (idle, clients_cpu);
            left_by_others(&trace, &trace.head)
        };
        assert!((left(None, 0.0) - 1.0).abs() < 1e-9, "not known");
        assert!((left(Some(1.5), 0.0) - 1.0).abs() < 1e-9, "nothing else runs");
        assert!((left(Some(0.0), 1.5) - 1.0).abs() < 1e-9, "all the rest are clients");
        assert!((left(Some(0.0), 0.5) - 0.5).abs() < 1e-9, "others take one of two, none is idle");
        assert!((left(Some(1.0), 0.0) - 0.875).abs() < 1e-9, "a quarter, half of it in the way");
        trace.head.clients_cpu = 9.0;
        assert!((left_by_others(&trace, &trace.head) - 1.0).abs() < 1e-9);
    }
}
