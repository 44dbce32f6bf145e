//! Laws of every system, checked after every event of random ones.

use super::plan::Plan;
use super::slab::{NONE, Phase};
use super::state::Engine;
use crate::model::*;
use crate::scenario::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// By then every thread of a closed loop has issued its first request.
const STARTED_NS: u64 = 2_000_000;

#[derive(Clone, Debug)]
struct StageSpec {
    threads: u32,
    policy: Policy,
    ordered: bool,
    asynchronous: bool,
    instances: u32,
}

/// A step: its stage is its number, so that none waits for itself.
#[derive(Clone, Debug)]
struct StepSpec {
    cpu_us: u64,
    io_us: u64,
    after_us: u64,
    blocks: bool,
    place: Place,
}

fn stage_spec() -> impl Strategy<Value = StageSpec> {
    let policies = prop_oneof![
        Just(Policy::Fifo),
        Just(Policy::Priority),
        Just(Policy::Drf),
        Just(Policy::Drr),
        Just(Policy::Stride),
    ];
    (0u32..4, policies, any::<bool>(), any::<bool>(), 1u32..3).prop_map(
        |(threads, policy, ordered, asynchronous, instances)| StageSpec {
            threads,
            policy,
            ordered,
            asynchronous,
            instances,
        },
    )
}

fn step_spec() -> impl Strategy<Value = StepSpec> {
    let places = prop_oneof![
        Just(Place::Same),
        Just(Place::Any),
        Just(Place::Other),
        Just(Place::Partition),
        Just(Place::Origin),
    ];
    (0u64..300, 0u64..300, 0u64..100, any::<bool>(), places).prop_map(
        |(cpu_us, io_us, after_us, blocks, place)| StepSpec {
            cpu_us,
            io_us,
            after_us,
            blocks,
            place,
        },
    )
}

fn resource(name: &str, kind: ResourceKind, parallelism: u32, discipline: Discipline) -> Resource {
    Resource {
        name: name.into(),
        title: name.into(),
        kind,
        node: 0,
        rate_per_s: 1e9,
        parallelism,
        discipline,
        device: Device::Plain,
    }
}

fn system(
    nodes: u32,
    cores: u32,
    preempts: bool,
    specs: &[StageSpec],
    kinds: &[Vec<StepSpec>],
) -> Tad {
    let stages = specs.iter().enumerate().map(|(id, spec)| Stage {
        name: format!("s{id}"),
        title: String::new(),
        process: 0,
        threads: if spec.threads == 0 { Threads::OnDemand } else { Threads::Bounded(spec.threads) },
        threads_label: None,
        queue: Queue {
            explicit: true,
            pluggable: true,
            ordered: spec.ordered,
            policy: spec.policy,
            ..Queue::IMPLICIT
        },
        uses: vec![Use { resource: 0, may: false }, Use { resource: 1, may: true }],
        instances: spec.instances,
        confidence: Confidence::Certain,
        batch: None,
        asynchronous: spec.asynchronous && spec.threads > 0,
    });
    let requests = kinds.iter().enumerate().map(|(id, steps)| RequestType {
        name: format!("r{id}"),
        about: String::new(),
        parameters: vec![],
        steps: steps
            .iter()
            .enumerate()
            .map(|(at, spec)| {
                let next = if at + 1 < steps.len() { vec![at + 1] } else { vec![] };
                let blocks = spec.blocks && !next.is_empty();
                let uses = |resource, amount: u64| Consumption {
                    resource,
                    amount: Quantity::Fixed(amount * 1_000),
                };
                Step {
                    name: format!("p{at}"),
                    stage: at,
                    place: spec.place,
                    uses: vec![uses(0, spec.cpu_us + 1), uses(1, spec.io_us)],
                    cache: None,
                    submits: if blocks { next.clone() } else { vec![] },
                    waits: if blocks { next.clone() } else { vec![] },
                    enough: None,
                    uses_after: if blocks { vec![uses(0, spec.after_us)] } else { vec![] },
                    then: if blocks { vec![] } else { next },
                }
            })
            .collect(),
        first: 0,
        answered_by: (0..steps.len()).collect(),
    });
    let discipline = |preempts| match preempts {
        true => Discipline::RoundRobin { quantum_ns: 70_000 },
        false => Discipline::Fifo,
    };
    Tad {
        name: "random".into(),
        version: String::new(),
        about: String::new(),
        source: String::new(),
        nodes: vec![NodeKind { name: "n".into(), title: "n".into(), count: nodes }],
        processes: vec![Process { name: "p".into(), title: "p".into(), node: 0 }],
        resources: vec![
            resource("cpu", ResourceKind::Cpu, cores, discipline(preempts)),
            resource("io", ResourceKind::Io, 1, Discipline::Fifo),
        ],
        stages: stages.collect(),
        flows: vec![],
        requests: requests.collect(),
        shared_queues: vec![],
        controls: vec![],
        remedies: BTreeMap::new(),
    }
}

fn scenario(clients: &[(usize, u32, u32)]) -> Scenario {
    let clients = clients.iter().enumerate().map(|(id, &(request, threads, weight))| Client {
        name: format!("C{id}"),
        weight: f64::from(weight),
        loads: vec![Load {
            request,
            arrivals: Arrivals::Closed { threads, think_ns: 0 },
            parameters: vec![],
            entry: if id == 0 { Entry::Each } else { Entry::Any },
            keys: Keys::Uniform,
            name: "load".into(),
            patience: None,
        }],
    });
    Scenario {
        name: "random".into(),
        about: String::new(),
        clients: clients.collect(),
        changes: vec![],
        duration_ns: SECOND,
        warmup_ns: SECOND / 10,
        sample_ns: SECOND / 7,
        policy: None,
        jitter: 0.3,
        switch_ns: 0,
    }
}

/// Invariants after each event.
fn check(engine: &Engine<'_>, tad: &Tad, scenario: &Scenario) -> Result<(), TestCaseError> {
    for instance in &engine.instances {
        let serving: u32 = instance.serving.iter().sum();
        if instance.queue == NONE {
            prop_assert_eq!(serving, instance.present);
            continue;
        }
        prop_assert!(instance.busy <= instance.limit, "more threads than there are");
        if !engine.plan.stages[instance.stage as usize].asynchronous {
            prop_assert_eq!(serving, instance.busy);
        }
        let queue = &engine.queues[instance.queue as usize];
        prop_assert!(queue.total == 0 || !instance.has_room(), "an idle thread, and work for it");
    }
    for resource in &engine.resources {
        prop_assert!(resource.busy <= resource.servers());
        prop_assert!(resource.queue.is_empty() || !resource.has_room(), "an idle server");
    }
    // A part that waits in a queue with an order came after all that were taken from it.
    let mut taken: BTreeMap<u32, u64> = BTreeMap::new();
    let mut waits: BTreeMap<u32, u64> = BTreeMap::new();
    let mut unanswered = vec![0; scenario.clients.len()];
    let mut in_flight = 0;
    for request in engine.slab.requests.iter().filter(|request| request.live > 0) {
        in_flight += 1;
        let load = &engine.plan.loads[request.load as usize];
        unanswered[load.client as usize] += u32::from(request.answers > 0);
        for part in &engine.slab.parts[request.base as usize..][..load.steps.len()] {
            let ordered = part.place != NONE
                && tad.stages[engine.instances[part.place as usize].stage as usize].queue.ordered;
            if ordered && part.phase == Phase::Waiting {
                let least = waits.entry(part.place).or_insert(u64::MAX);
                *least = part.order.min(*least);
            } else if ordered && part.threaded {
                let most = taken.entry(part.place).or_insert(0);
                *most = part.order.max(*most);
            }
        }
    }
    prop_assert_eq!(in_flight, engine.slab.in_flight);
    for (place, least) in waits {
        prop_assert!(taken.get(&place).is_none_or(|most| *most < least), "out of order");
    }
    if engine.now_ns > STARTED_NS {
        for (client, unanswered) in scenario.clients.iter().zip(unanswered) {
            let Arrivals::Closed { threads, .. } = client.loads[0].arrivals else { continue };
            prop_assert_eq!(unanswered, threads, "requests were lost or made");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn laws_hold_after_every_event(
        nodes in 1u32..4,
        cores in 1u32..3,
        preempts in any::<bool>(),
        specs in prop::collection::vec(stage_spec(), 4),
        kinds in prop::collection::vec(prop::collection::vec(step_spec(), 1..5), 2),
        threads in prop::collection::vec((0usize..2, 1u32..12, 1u32..5), 1..4),
        seed in any::<u64>(),
    ) {
        let tad = system(nodes, cores, preempts, &specs, &kinds);
        let scenario = scenario(&threads);
        let plan = Plan::new(&tad, &scenario).unwrap();
        let mut engine = Engine::new(&tad, &scenario, &plan, seed).unwrap();
        engine.begin_all();
        while engine.step().unwrap().is_some() {
            check(&engine, &tad, &scenario)?;
        }
        let counted_ns = scenario.duration_ns - scenario.warmup_ns;
        let mut unanswered_ns = vec![0; threads.len()];
        for request in engine.slab.requests.iter().filter(|request| request.live > 0) {
            let client = plan.loads[request.load as usize].client as usize;
            let age_ns = (scenario.duration_ns - request.issued_ns).min(counted_ns);
            unanswered_ns[client] += if request.answers > 0 { age_ns } else { 0 };
        }
        let outcome = engine.finish(seed);
        for resource in &outcome.resources {
            prop_assert!(resource.utilization <= 1.0 + 1e-9, "{resource:?}");
            for [mean, low, high] in &resource.series {
                prop_assert!(low <= mean && mean <= high && *high <= 1.0 + 1e-9, "{resource:?}");
            }
        }
        for ((client, &(_, threads, _)), unanswered_ns) in
            outcome.clients.iter().zip(&threads).zip(unanswered_ns)
        {
            // Little's law, without a tolerance: only the requests that began in the warm-up have
            // a part of their latency outside the time that counts.
            let load = &client.loads[0];
            let sum_ms = load.latency_ms_mean * load.answered as f64 + unanswered_ns as f64 / 1e6;
            let outside_ms = sum_ms - f64::from(threads) * counted_ns as f64 / 1e6;
            let bound_ms = f64::from(threads) * scenario.warmup_ns as f64 / 1e6;
            let law = -1e-3 <= outside_ms && outside_ms <= bound_ms + 1e-3;
            prop_assert!(law, "{outside_ms} ms of at most {bound_ms} ms in {client:?}");
        }
    }
}

#[test]
fn memory_does_not_grow_with_time() {
    let spec = StageSpec {
        threads: 3,
        policy: Policy::Drf,
        ordered: false,
        asynchronous: false,
        instances: 1,
    };
    let step = StepSpec { cpu_us: 100, io_us: 50, after_us: 0, blocks: false, place: Place::Any };
    let tad = system(3, 1, false, &vec![spec; 3], &[vec![step; 3]]);
    let mut scenario = scenario(&[(0, 40, 1), (0, 20, 1)]);
    let sizes = [SECOND, 40 * SECOND].map(|duration_ns| {
        scenario.duration_ns = duration_ns;
        scenario.sample_ns = duration_ns / 4;
        let plan = Plan::new(&tad, &scenario).unwrap();
        let mut engine = Engine::new(&tad, &scenario, &plan, 1).unwrap();
        engine.begin_all();
        while engine.step().unwrap().is_some() {}
        (engine.slab.parts.len(), engine.slab.requests.len())
    });
    assert_eq!(sizes[0], sizes[1], "parts and requests");
    assert_eq!(sizes[1], (60 * 3, 60));
}
