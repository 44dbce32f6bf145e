//! The stages of all nodes, and their queues.

use super::CLIENTS;
use super::plan::Plan;
use super::queue::Queue;
use super::slab::NONE;
use crate::model::Tad;
use crate::scenario::Scenario;

/// A stage of one node.
#[derive(Clone, Debug)]
pub(super) struct StageInstance {
    pub(super) stage: u32,
    pub(super) node: u32,
    /// Its queue; none for a stage on demand.
    pub(super) queue: u32,
    /// Its index among the queue's members.
    pub(super) member: u32,
    pub(super) busy: u32,
    /// Threads that it has.
    pub(super) limit: u32,
    /// Parts that wait here or are in service.
    pub(super) present: u32,
    /// Threads that serve each client.
    pub(super) serving: [u32; CLIENTS],
}

impl StageInstance {
    /// Whether a thread is free.
    pub(super) fn has_room(&self) -> bool {
        self.busy < self.limit
    }
}

fn instances(plan: &Plan) -> Vec<StageInstance> {
    let mut instances = Vec::with_capacity(plan.stage_instances as usize);
    for (stage, planned) in plan.stages.iter().enumerate() {
        for node in 0..planned.nodes {
            for _ in 0..planned.instances {
                instances.push(StageInstance {
                    stage: stage as u32,
                    node,
                    queue: NONE,
                    member: 0,
                    busy: 0,
                    limit: planned.threads,
                    present: 0,
                    serving: [0; CLIENTS],
                });
            }
        }
    }
    instances
}

/// The instances of all stages, and their queues.
pub(super) fn stages(
    tad: &Tad,
    scenario: &Scenario,
    plan: &Plan,
) -> (Vec<StageInstance>, Vec<Queue>) {
    let mut instances = instances(plan);
    let clients = scenario.clients.len();
    let mut queues = Vec::new();
    let mut attach = |instances: &mut Vec<StageInstance>, members: Vec<u32>, policy, bound| {
        for (member, place) in members.iter().enumerate() {
            instances[*place as usize].queue = queues.len() as u32;
            instances[*place as usize].member = member as u32;
        }
        queues.push(Queue::new(policy, clients, members, bound));
        queues.len() - 1
    };
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for shared in &tad.shared_queues {
        let nodes = shared.stages.first().map_or(0, |stage| plan.stages[*stage].nodes);
        let policy = scenario.policy.unwrap_or(shared.policy);
        for node in 0..nodes {
            let members = shared.stages.iter().filter(|stage| plan.stages[**stage].threads > 0);
            let members = members.flat_map(|stage| {
                let planned = &plan.stages[*stage];
                let first = planned.base + node * planned.instances;
                first..first + planned.instances
            });
            let queue =
                attach(&mut instances, members.collect(), policy, shared.concurrency.max(1));
            for &stage in &shared.stages {
                let ordering = &tad.stages[stage].queue;
                if ordering.ordered && !ordering.ordered_per_client {
                    kept.push((queue, stage));
                }
            }
        }
    }
    for place in 0..instances.len() {
        let stage = instances[place].stage as usize;
        if plan.stages[stage].threads == 0 || instances[place].queue != NONE {
            continue;
        }
        let queue = &tad.stages[stage].queue;
        let policy = queue.policy_with(scenario.policy);
        attach(&mut instances, vec![place as u32], policy, u32::MAX);
    }
    for (queue, stage) in kept {
        for member in 0..queues[queue].members.len() {
            let place = queues[queue].members[member];
            if instances[place as usize].stage as usize == stage {
                queues[queue].keep_order(member);
            }
        }
    }
    (instances, queues)
}
