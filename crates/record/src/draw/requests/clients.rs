//! Clients that run on the recorded machine: they take processors from the server.

use super::super::machines::{QUOTA, resource};
use super::super::{CLIENTS_SHARE, Ids};
use crate::trace::Trace;
use headworks_tad::model::{
    self, Confidence, Consumption, Flow, FlowKind, Place, Process, Quantity, Queue, ResourceKind,
    Stage, Step, Tad, Threads, Use,
};

/// Clients' programs on this machine take processors, too: a stage of their own, at which each
/// request begins. Returns their processor time for a request.
pub(super) fn add(trace: &Trace, per_s: f64, ids: &Ids, tad: &mut Tad) -> u64 {
    let used = trace.head.clients_cpu;
    let (node, Some(&cpu)) = (0, ids.cpu.get(&0)) else { return 0 };
    if used < CLIENTS_SHARE * f64::from(trace.head.processors.max(1)) || per_s <= 0.0 {
        return 0;
    }
    let cpu = if tad.resources[cpu].name == QUOTA {
        // Clients are not of the group: they have the machine's processors.
        let kind = ("cpu", ResourceKind::Cpu);
        resource(tad, node, kind, 1e9, trace.head.processors);
        tad.resources.len() - 1
    } else {
        cpu
    };
    let cpu_ns = (used / per_s * 1e9) as u64;
    let process = tad.processes.len();
    let title = "clients on this machine".to_owned();
    tad.processes.push(Process { name: "clients-here".to_owned(), title, node });
    let stage = tad.stages.len();
    tad.stages.push(Stage {
        name: "clients-here".to_owned(),
        title: "clients on this machine".to_owned(),
        process,
        threads: Threads::OnDemand,
        threads_label: None,
        queue: Queue::IMPLICIT,
        uses: vec![Use { resource: cpu, may: false }],
        batch: None,
        instances: 1,
        asynchronous: false,
        confidence: Confidence::Guess,
    });
    let flow = |from, to, confidence| Flow {
        from,
        to,
        kind: FlowKind::Data,
        label: String::new(),
        remote: false,
        confidence,
    };
    let clients = (model::End::Clients, model::End::Stage(stage));
    tad.flows.push(flow(clients.0, clients.1, Confidence::Guess));
    for request in &mut tad.requests {
        let first = request.first;
        request.first = request.steps.len();
        request.steps.push(Step {
            name: "clients-here".to_owned(),
            stage,
            place: Place::Same,
            uses: vec![Consumption { resource: cpu, amount: Quantity::Fixed(cpu_ns.max(1)) }],
            cache: None,
            submits: Vec::new(),
            waits: Vec::new(),
            enough: None,
            uses_after: Vec::new(),
            then: vec![first],
        });
        let entry = model::End::Stage(request.steps[first].stage);
        // No request comes by another way.
        let direct = |f: &mut Flow| (f.from, f.to) == (model::End::Clients, entry);
        let direct = tad.flows.extract_if(.., direct).next();
        if let Some(direct) = direct {
            tad.flows.push(Flow { from: model::End::Stage(stage), ..direct });
        } else if !tad.flows.iter().any(|f| (f.from, f.to) == (model::End::Stage(stage), entry)) {
            tad.flows.push(flow(model::End::Stage(stage), entry, Confidence::Guess));
        }
    }
    cpu_ns
}
