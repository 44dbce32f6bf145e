//! Stages that a plug-in schedules have queues in the diagram, which share one scheduler in each
//! process. Which stage is meant follows from the name of a thread that the plug-in tells.

use super::Ids;
use crate::infer::Architecture;
use crate::infer::names::normalised;
use crate::trace::{Scheduled, Trace};
use headworks_tad::file;
use headworks_tad::model::{Policy, Queue, ResourceKind, SharedQueue, StageId, Tad, Threads};
use headworks_tad::remedy::Remedy;
use std::collections::BTreeSet;

/// Marks them: what each is, in words.
pub(super) fn mark(trace: &Trace, found: &Architecture, ids: &Ids, tad: &mut Tad) -> Vec<String> {
    let before = tad.clone();
    let mut words = BTreeSet::new();
    for (place, process) in found.stages.places.iter().enumerate() {
        let mut sharing: Vec<StageId> = Vec::new();
        let of = |said: &&Scheduled| found.stages.place_of.get(&said.pid) == Some(&place);
        let (mut seen, mut unseen) = (BTreeSet::new(), BTreeSet::new());
        for said in trace.scheduled.iter().filter(of) {
            let drawn =
                stage(said, place, trace, found).and_then(|id| Some((id, *ids.stage.get(&id)?)));
            let Some((id, drawn)) = drawn else {
                unseen.insert(&*said.stage);
                continue;
            };
            seen.insert(&*said.stage);
            words.insert(format!("{} ({})", said.stage, tad.stages[drawn].name));
            order(tad, drawn, said, found.stages.stages[id].most);
            if said.permits == 0 && !sharing.contains(&drawn) {
                sharing.push(drawn);
            }
        }
        for stage in unseen.difference(&seen) {
            words.insert(format!("{stage} of {} (its threads did nothing)", process.pid));
        }
        share(tad, place, sharing);
    }
    // A diagram that cannot be read again is worth less than one without queues.
    if !words.is_empty() && file::read_tad(&tad.name, &file::write_tad(tad)).is_err() {
        *tad = before;
        words = ["what a plug-in schedules does not fit into the diagram".to_owned()].into();
    }
    words.into_iter().collect()
}

/// The stage with threads of that name.
fn stage(said: &Scheduled, place: usize, trace: &Trace, found: &Architecture) -> Option<usize> {
    let name = normalised(&said.thread);
    let called = |tid: &u32| {
        let names = trace.threads.get(tid).into_iter().flat_map(|thread| &thread.names);
        names.into_iter().any(|own| normalised(own) == name)
    };
    found.stages.stages.iter().position(|stage| {
        stage.place == place && (stage.title == name || stage.threads.iter().any(called))
    })
}

fn order(tad: &mut Tad, id: StageId, said: &Scheduled, most: u32) {
    let stage = &mut tad.stages[id];
    match (stage.threads, said.permits) {
        (Threads::OnDemand, 0) => stage.threads = Threads::Bounded(most.max(1)),
        (Threads::OnDemand, permits) => {
            stage.threads = Threads::Bounded(permits);
            // A permit is given back before its thread waits for another stage.
            stage.asynchronous = true;
        }
        (Threads::Bounded(_), 0) => {}
        // It has a queue, and what is below it is bounded.
        (Threads::Bounded(_), _) => return,
    }
    stage.queue = Queue::SCHEDULED;
    let stage = stage.name.clone();
    if said.tries > 0
        && let Some(idle) = cpu(tad, id)
    {
        let threads = said.tries;
        control(tad, Remedy::Speculate { stage: stage.clone(), idle, threads });
    }
    if said.held {
        control(tad, Remedy::ScheduleThreads { stage });
    }
}

/// Threads of two names may be one stage here.
fn control(tad: &mut Tad, control: Remedy) {
    if !tad.controls.contains(&control) {
        tad.controls.push(control);
    }
}

fn cpu(tad: &Tad, id: StageId) -> Option<String> {
    let own = tad.resources.iter().filter(|resource| resource.node == tad.node_of(id));
    own.into_iter().find(|one| one.kind == ResourceKind::Cpu).map(|cpu| cpu.name.clone())
}

/// Its threads are all that may be in service.
fn share(tad: &mut Tad, place: usize, stages: Vec<StageId>) {
    let threads = |&id: &StageId| match tad.stages[id].threads {
        Threads::Bounded(threads) => threads,
        Threads::OnDemand => 0,
    };
    let concurrency = stages.iter().map(threads).sum();
    if stages.len() > 1 {
        let name = format!("{}-scheduler", tad.processes[place].name);
        tad.shared_queues.push(SharedQueue { name, stages, concurrency, policy: Policy::Drf });
    }
}
