//! Unknown resource usage (section 4.2.2): while a request waits in a stage's queue, it is unknown
//! whether it will use a resource there (square brackets). The scheduler decides too early. It
//! holds requests back for a disk although they need only the CPU.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use super::queues;
use super::words::{join, plural};
use crate::model::{ResourceId, ResourceKind, StageId, Tad, Threads};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::UnknownUsage;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, stage) in tad.stages.iter().enumerate() {
        if stage.threads == Threads::OnDemand {
            continue; // There is no queue that would have to know.
        }
        let limited = queues::limited(tad, id);
        let brackets = stage.uses.iter().filter(|u| u.may && limited.contains(&u.resource));
        findings.extend(brackets.map(|u| judge(tad, id, u.resource)));
    }
    findings
}

fn judge(tad: &Tad, id: StageId, resource: ResourceId) -> Finding {
    let stage = &tad.stages[id];
    let name = &tad.resources[resource].name;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for kind in &tad.requests {
        for step in kind.steps.iter().filter(|step| step.stage == id) {
            let uses = step.uses.iter().chain(&step.uses_after).any(|c| c.resource == resource);
            let list = if uses { &mut with } else { &mut without };
            if !list.contains(&kind.name.as_str()) {
                list.push(kind.name.as_str());
            }
        }
    }
    let paths = if with.is_empty() || without.is_empty() {
        "some requests use it there and some do not".to_owned()
    } else {
        format!(
            "{} {} it there, {} {} not",
            join(&with),
            plural(with.len(), "uses", "use"),
            join(&without),
            plural(without.len(), "does", "do"),
        )
    };
    let reason = format!(
        "the queue of {} cannot tell whether a request will use {name}: {paths}",
        stage.name
    );
    let mut direct = vec![Remedy::Split {
        stage: stage.name.clone(),
        resource: name.clone(),
        into: format!("{}-{name}", stage.name),
        threads: 10,
    }];
    if !stage.asynchronous {
        // Otherwise the threads of the stage wait for the new one: a blocking problem.
        direct.push(Remedy::Unblock { stage: stage.name.clone() });
    }
    let mut remedies = vec![Advice::direct(PROBLEM, &direct)];
    let idle = tad.resources.iter().find(|other| {
        other.node == tad.node_of(id) && other.kind == ResourceKind::Cpu && other.name != *name
    });
    if let Some(cpu) = idle {
        let speculate =
            Remedy::Speculate { stage: stage.name.clone(), idle: cpu.name.clone(), threads: 10 };
        remedies.push(Advice::indirect(PROBLEM, &[speculate]));
    }
    let mitigated = controls(
        tad,
        |control| matches!(control, Remedy::Speculate { stage: at, idle, .. } if *at == stage.name && idle != name),
    );
    finding(tad, PROBLEM, &[id], vec![name.clone()], reason, remedies, mitigated)
}
