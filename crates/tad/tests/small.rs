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
        queue: Queue::SCHEDULED,
        uses: uses.iter().map(|&(resource, may)| Use { resource, may }).collect(),
        instances: 1,
        asynchronous: false,
        confidence: Confidence::Certain,
        batch: None,
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
        cache: None,
        submits: vec![],
        waits: vec![],
        enough: None,
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
        patience: None,
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
        &Remedy::RateLimit { stage: "handle".into(), resource: "io".into(), period_ns: 500_000 },
    )
    .unwrap();
    for (name, tad) in [("original", &original), ("direct", &direct), ("indirect", &indirect)] {
        let got: Vec<f64> = [40, 80, 160, 320].iter().map(|t| throughput(tad, *t)).collect();
        println!("{name}: {got:?}");
    }
}

fn share(outcome: &headworks_tad::sim::Outcome, client: &str, load: &str) -> f64 {
    outcome.client(client).and_then(|c| c.load(load)).map_or(0.0, |l| l.throughput_per_s)
}

#[test]
fn unknown_usage_and_its_two_remedies() {
    let handle = || step("handle", 0, &[(CPU, 100_000), (IO, 100_000)]);
    let original = system(
        vec![stage("handle", Threads::Bounded(10), &[(CPU, false), (IO, true)])],
        vec![
            request("cold", vec![handle()], 0),
            request("cached", vec![step("handle", 0, &[(CPU, 100_000)])], 0),
        ],
    );
    let mut direct = original.clone();
    apply(
        &mut direct,
        &Remedy::Split {
            stage: "handle".into(),
            resource: "io".into(),
            into: "io".into(),
            threads: 10,
        },
    )
    .unwrap();
    let mut indirect = original.clone();
    apply(
        &mut indirect,
        &Remedy::Speculate { stage: "handle".into(), idle: "cpu".into(), threads: 4 },
    )
    .unwrap();
    for (name, tad) in [("original", &original), ("direct", &direct), ("indirect", &indirect)] {
        let clients =
            vec![client("C1", vec![load(0, 40)]), client("C2", vec![load(0, 40), load(1, 40)])];
        let o = run(tad, &scenario(clients), 1, &mut |_| {}).unwrap();
        println!(
            "{name}: C1 {:.0} C2 cold {:.0} cached {:.0} cpu {:.2} aborted {}",
            o.throughput("C1"),
            share(&o, "C2", "r0"),
            share(&o, "C2", "r1"),
            o.resource("n", "cpu").unwrap().utilization,
            o.aborted
        );
    }
}

#[test]
fn hidden_contention_and_its_two_remedies() {
    const NET: usize = 2;
    let get = |reply: u64| {
        let mut read = step("read", 0, &[(NET, 1_000)]);
        read.then = vec![1];
        let respond = step("respond", 1, &[(NET, reply)]);
        request("get", vec![read, respond], 1)
    };
    let mk = |reply| {
        system(
            vec![
                stage("read", Threads::Bounded(10), &[(NET, false)]),
                stage("respond", Threads::Bounded(10), &[(NET, false)]),
            ],
            vec![get(10_000), get(reply)],
        )
    };
    for reply in [10_000, 50_000, 100_000, 200_000] {
        let original = mk(reply);
        let mut direct = original.clone();
        apply(
            &mut direct,
            &Remedy::ShareScheduler {
                name: "q".into(),
                stages: vec!["read".into(), "respond".into()],
                concurrency: 10,
            },
        )
        .unwrap();
        let mut indirect = original.clone();
        apply(
            &mut indirect,
            &Remedy::BackOff {
                stages: vec!["read".into(), "respond".into()],
                resource: "network".into(),
                period_ns: 500_000,
            },
        )
        .unwrap();
        let mut weights = original.clone();
        apply(
            &mut weights,
            &Remedy::CoordinateWeights {
                stages: vec!["read".into(), "respond".into()],
                resource: "network".into(),
                period_ns: 500_000,
            },
        )
        .unwrap();
        for (name, tad) in [
            ("original", &original),
            ("direct", &direct),
            ("backoff", &indirect),
            ("weights", &weights),
        ] {
            let clients = vec![client("C1", vec![load(0, 40)]), client("C2", vec![load(1, 40)])];
            let o = run(tad, &scenario(clients), 1, &mut |_| {}).unwrap();
            println!(
                "{reply} {name}: C1 {:.0} C2 {:.0} net {:?} forced {:?} {:?}",
                o.throughput("C1"),
                o.throughput("C2"),
                o.resource("n", "network").unwrap().shares,
                o.stages[0].forced_s,
                o.stages[1].forced_s
            );
        }
    }
}

#[test]
fn blocking_and_its_remedies() {
    let blocked = || {
        let mut handle = step("handle", 0, &[(CPU, 100_000)]);
        handle.submits = vec![1];
        handle.waits = vec![1];
        request("io", vec![handle, step("io", 1, &[(IO, 100_000)])], 0)
    };
    let original = system(
        vec![
            stage("handle", Threads::Bounded(10), &[(CPU, false)]),
            stage("io", Threads::Bounded(10), &[(IO, false)]),
        ],
        vec![request("cpu", vec![step("handle", 0, &[(CPU, 100_000)])], 0), blocked()],
    );
    let change = |remedy: Remedy| {
        let mut t = original.clone();
        apply(&mut t, &remedy).unwrap();
        t
    };
    let arms = [
        ("original", original.clone()),
        ("direct", change(Remedy::Unblock { stage: "handle".into() })),
        (
            "feedback",
            change(Remedy::CongestionFeedback {
                stage: "handle".into(),
                downstream: "io".into(),
                backlog: 2,
                wrong_per_mille: 0,
            }),
        ),
        ("threads", change(Remedy::ScheduleThreads { stage: "handle".into() })),
    ];
    for (name, tad) in &arms {
        let clients = vec![client("C1", vec![load(0, 40)]), client("C2", vec![load(1, 40)])];
        let o = run(tad, &scenario(clients), 1, &mut |_| {}).unwrap();
        println!(
            "{name}: C1 {:.0} C2 {:.0} cpu {:.2} io {:.2}",
            o.throughput("C1"),
            o.throughput("C2"),
            o.resource("n", "cpu").unwrap().utilization,
            o.resource("n", "io").unwrap().utilization
        );
    }
}

#[test]
fn ordering_and_its_remedies() {
    let mut worker = step("worker", 0, &[(CPU, 100_000)]);
    worker.then = vec![1];
    let mut log = stage("log", Threads::Bounded(1), &[(IO, false)]);
    log.queue.ordered = true;
    let original = system(
        vec![stage("worker", Threads::Bounded(10), &[(CPU, false)]), log],
        vec![request("put", vec![worker, step("log", 1, &[(IO, 100_000)])], 1)],
    );
    let change = |remedy: Remedy| {
        let mut t = original.clone();
        apply(&mut t, &remedy).unwrap();
        t
    };
    let arms = [
        ("original", original.clone()),
        ("direct", change(Remedy::SeparateStreams { stage: "log".into() })),
        (
            "bound",
            change(Remedy::BoundDownstream {
                stage: "worker".into(),
                downstream: "log".into(),
                limit: 10,
            }),
        ),
    ];
    for threads in [10, 40, 160] {
        for (name, tad) in &arms {
            let mut one = client(
                "C1",
                vec![Load {
                    arrivals: Arrivals::Burst { count: 10, every_ns: SECOND },
                    ..load(0, 0)
                }],
            );
            one.weight = 10.0;
            let mut s = scenario(vec![one, client("C2", vec![load(0, threads)])]);
            s.policy = Some(Policy::Priority);
            let o = run(tad, &s, 1, &mut |_| {}).unwrap();
            println!(
                "{threads} {name}: C1 latency {:.1} ms, C2 {:.0}/s log queue {:?}",
                o.clients[0].loads[0].latency_ms_mean,
                o.throughput("C2"),
                o.stages[1].waiting
            );
        }
    }
}
