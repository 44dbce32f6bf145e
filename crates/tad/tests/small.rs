//! Small systems, built by hand, whose behaviour can be worked out on paper.

use headworks_tad::model::*;
use headworks_tad::remedy::{Remedy, apply};
use headworks_tad::scenario::*;
use headworks_tad::sim::run;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn resource(name: &str, kind: ResourceKind, rate_per_s: f64) -> Resource {
    Resource {
        name: name.into(),
        title: name.into(),
        kind,
        node: 0,
        rate_per_s,
        parallelism: 1,
        discipline: Discipline::Fifo,
        device: Device::Plain,
    }
}

fn stage(name: &str, threads: Threads, uses: &[(usize, bool)]) -> Stage {
    Stage {
        name: name.into(),
        title: name.into(),
        process: 0,
        threads,
        threads_label: None,
        queue: Queue {
            explicit: true,
            pluggable: true,
            ordered: false,
            ordered_per_client: false,
            policy: Policy::Drf,
        },
        uses: uses.iter().map(|&(resource, may)| Use { resource, may }).collect(),
        instances: 1,
        asynchronous: false,
    }
}

fn step(name: &str, stage: usize, uses: &[(usize, u64)]) -> Step {
    let uses = uses
        .iter()
        .map(|&(resource, amount)| Consumption { resource, amount: Quantity::Fixed(amount) })
        .collect();
    Step {
        name: name.into(),
        stage,
        place: Place::Same,
        uses,
        submits: vec![],
        waits: vec![],
        uses_after: vec![],
        then: vec![],
    }
}

fn request(name: &str, steps: Vec<Step>, answered_by: usize) -> RequestType {
    RequestType {
        name: name.into(),
        about: String::new(),
        parameters: vec![],
        steps,
        first: 0,
        answered_by: vec![answered_by],
    }
}

const CPU: usize = 0;
const IO: usize = 1;

fn system(stages: Vec<Stage>, requests: Vec<RequestType>) -> Tad {
    Tad {
        name: "small".into(),
        version: String::new(),
        about: String::new(),
        source: String::new(),
        nodes: vec![NodeKind { name: "n".into(), title: "n".into(), count: 1 }],
        processes: vec![Process { name: "p".into(), title: "p".into(), node: 0 }],
        resources: vec![
            resource("cpu", ResourceKind::Cpu, 1e9),
            resource("io", ResourceKind::Io, 1e8),
            resource("network", ResourceKind::Network, 125e6),
        ],
        stages,
        flows: vec![],
        requests,
        shared_queues: vec![],
        controls: vec![],
        remedies: BTreeMap::new(),
    }
}

fn load(request: usize, threads: u32) -> Load {
    Load {
        request,
        arrivals: Arrivals::Closed { threads, think_ns: 0 },
        parameters: vec![],
        entry: Entry::Any,
        keys: Keys::Uniform,
        name: format!("r{request}"),
    }
}

fn client(name: &str, loads: Vec<Load>) -> Client {
    Client { name: name.into(), weight: 1.0, loads }
}

fn scenario(clients: Vec<Client>) -> Scenario {
    Scenario {
        name: "s".into(),
        about: String::new(),
        clients,
        changes: vec![],
        duration_ns: 22 * SECOND,
        warmup_ns: 2 * SECOND,
        sample_ns: SECOND,
        policy: None,
        jitter: 0.0,
        switch_ns: 0,
    }
}

/// Fig. 4.2: handle (CPU) → I/O stage.
fn two_stages(second: Threads) -> Tad {
    let mut handle = step("handle", 0, &[(CPU, 100_000)]);
    handle.then = vec![1];
    let io = step("io", 1, &[(IO, 100_000)]);
    system(
        vec![
            stage("handle", Threads::Bounded(10), &[(CPU, false)]),
            stage("io", second, &[(IO, false)]),
        ],
        vec![request("get", vec![handle, io], 1)],
    )
}

#[test]
fn a_disk_is_the_bottleneck_and_its_rate_is_the_throughput() {
    let tad = two_stages(Threads::OnDemand);
    let outcome =
        run(&tad, &scenario(vec![client("C1", vec![load(0, 40)])]), 1, &mut |_| {}).unwrap();
    // 100 KB at 100 MB/s: 1,000 a second. Little: 40 in flight, 40 ms.
    assert!((outcome.throughput("C1") - 1_000.0).abs() < 2.0, "{outcome:#?}");
    let latency = outcome.clients[0].loads[0].latency_ms_mean;
    assert!((latency - 40.0).abs() < 0.5, "{latency}");
    assert!((outcome.resource("n", "io").unwrap().utilization - 1.0).abs() < 0.01);
    assert!((outcome.resource("n", "cpu").unwrap().utilization - 0.1).abs() < 0.01);
}

#[test]
fn no_scheduling_point_and_its_two_remedies() {
    let throughput = |tad: &Tad, threads: u32| {
        let clients = vec![client("C1", vec![load(0, 40)]), client("C2", vec![load(0, threads)])];
        run(tad, &scenario(clients), 1, &mut |_| {}).unwrap().throughput("C1")
    };
    let original = two_stages(Threads::OnDemand);
    let mut direct = original.clone();
    apply(&mut direct, &Remedy::AddSchedulingPoint { stage: "io".into(), threads: 10 }).unwrap();
    let mut indirect = original.clone();
    apply(
        &mut indirect,
        &Remedy::RateLimit { stage: "handle".into(), resource: "io".into(), period_ns: 10_000_000 },
    )
    .unwrap();
    for (name, tad) in [("original", &original), ("direct", &direct), ("indirect", &indirect)] {
        let got: Vec<f64> = [40, 80, 160, 320].iter().map(|t| throughput(tad, *t)).collect();
        println!("{name}: {got:?}");
    }
}
