//! What a change gains, on diagrams with one limit each.

use headworks_record::draw::Paused;
use headworks_record::limits::{Kind, Limits, limits};
use headworks_tad::file::{read_scenario, read_tad};

/// One stage whose requests use one thing, and eight clients that send without a pause.
fn of(threads: &str, resource: &str, uses: &str) -> Limits {
    of_all(threads, &[(resource, uses)])
}

/// The same of several things.
fn of_all(threads: &str, all: &[(&str, &str)]) -> Limits {
    simulated(&made(threads, all))
}

fn made(threads: &str, all: &[(&str, &str)]) -> String {
    let name = |uses: &str| uses.split(' ').next().expect("a name").to_owned();
    let each =
        |(resource, uses): &(&str, &str)| format!("{{ name = \"{}\", {resource} }}", name(uses));
    let resources = all.iter().map(each).collect::<Vec<_>>().join(", ");
    let names: Vec<String> = all.iter().map(|(_, uses)| name(uses)).collect();
    let uses: Vec<&str> = all.iter().map(|(_, uses)| *uses).collect();
    format!(
        r#"
name = "made"
node = [{{ name = "node", resource = [{resources}] }}]
process = [{{ name = "server", node = "node" }}]
stage = [{{ name = "serve", process = "server", threads = {threads}, uses = {names:?} }}]
flow = [{{ from = "clients", to = "serve" }}, {{ from = "serve", to = "clients" }}]

[[request]]
name = "request"
answered-by = ["serve"]
step = [{{ name = "serve", stage = "serve", uses = {uses:?} }}]
"#
    )
}

fn simulated(diagram: &str) -> Limits {
    with_pauses(diagram, &[])
}

fn with_pauses(diagram: &str, paused: &[Paused]) -> Limits {
    let tad = read_tad("made", diagram).unwrap_or_else(|error| panic!("{error}")).value;
    let load = r#"
name = "load"
duration = "1 s"
warmup = "200 ms"
client = [{ name = "C1", load = [{ request = "request", threads = 8 }] }]
"#;
    let load = read_scenario("load", load, &tad).unwrap_or_else(|error| panic!("{error}")).value;
    limits(&tad, &load, paused, &mut |_| {}).expect("a simulation")
}

/// Each takes a millisecond, so that half of it, or two at a time, gains 100 %.
#[test]
fn each_kind_of_limit_is_alone_and_twice_of_it_gains_as_much_again() {
    const DEMAND: &str = "\"on-demand\"";
    let on_demand = [
        ("rate = \"1 GHz\"", "cpu 1000 us", Kind::Processors, "twice as many processors", 1_000.0),
        ("rate = \"100 MB/s\"", "io 100 KB", Kind::Disk, "a disk twice as fast", 1_000.0),
        ("rate = \"1 Gbps\"", "network 125 KB", Kind::Network, "twice as fast", 1_000.0),
        ("kind = \"lock\"", "table 1000 us", Kind::Lock, "split in two", 1_000.0),
        (
            "kind = \"lock\", parallelism = 2",
            "permits 1000 us",
            Kind::Lock,
            "twice as many",
            2_000.0,
        ),
        (
            "kind = \"custom\", rate = \"1000 op/s\"",
            "other-servers 1 op",
            Kind::Server,
            "answers twice as fast",
            1_000.0,
        ),
        (
            "kind = \"custom\", rate = \"1000000 op/s\", parallelism = 1000000",
            "time 1000 op",
            Kind::Time,
            "its sleeps and waits half as long",
            8_000.0,
        ),
    ];
    for (resource, uses, kind, change, per_s) in on_demand {
        let found = of(DEMAND, resource, uses);
        let [limit] = &found.limits[..] else { panic!("{uses}: {found:?}") };
        assert_eq!((limit.kind, &*limit.change), (kind, change), "{found:?}");
        assert!((found.per_s / per_s - 1.0).abs() < 0.05, "{uses}: {found:?}");
        assert!((limit.gain - 1.0).abs() < 0.1, "{uses}: {found:?}");
        assert!((limit.per_s / found.per_s - 2.0).abs() < 0.1, "{uses}: {found:?}");
        // What passes in time is at no place that could be full.
        assert_eq!(limit.busy > 0.9, kind != Kind::Time, "{uses}: {found:?}");
    }
}

/// A thread that sleeps in each request: more threads gain as much as shorter sleeps, and are named
/// first, as the thread is always taken.
#[test]
fn a_pool_that_is_too_small_is_before_what_its_threads_wait_for() {
    let time = "kind = \"custom\", rate = \"1000000 op/s\", parallelism = 1000000";
    let found = of("2", time, "time 1000 op");
    let kinds: Vec<(Kind, &str)> =
        found.limits.iter().map(|limit| (limit.kind, &*limit.name)).collect();
    assert_eq!(kinds, [(Kind::Threads, "serve"), (Kind::Time, "serve")]);
    assert_eq!(found.limits[0].change, "4 threads instead of 2");
    assert!(found.limits.iter().all(|limit| (limit.gain - 1.0).abs() < 0.1), "{found:?}");
    assert!(found.limits[0].busy > 0.9, "{found:?}");
}

/// Eight threads for eight clients: more of them, or a lock for which none waits, gain nothing.
#[test]
fn what_gains_nothing_is_left_out() {
    let found = of("8", "kind = \"lock\", parallelism = 8", "table 1000 us");
    assert!((found.per_s / 8_000.0 - 1.0).abs() < 0.05, "{found:?}");
    assert_eq!(found.limits, [], "{found:?}");
}

/// One thread that waits for the disk and then sleeps, for half a millisecond each.
#[test]
fn the_largest_gain_is_first_and_of_equal_ones_a_device_is_before_a_sleep() {
    let found = of_all(
        "1",
        &[
            ("kind = \"custom\", rate = \"1000000 op/s\", parallelism = 1000000", "time 500 op"),
            ("rate = \"100 MB/s\"", "io 50 KB"),
        ],
    );
    let kinds: Vec<Kind> = found.limits.iter().map(|limit| limit.kind).collect();
    assert_eq!(kinds, [Kind::Threads, Kind::Disk, Kind::Time], "{found:?}");
    for limit in &found.limits[1..] {
        assert!((limit.gain - 1.0 / 3.0).abs() < 0.05, "{found:?}");
    }
}

/// One thread keeps one processor busy: more threads, or more processors, gain nothing alone.
#[test]
fn more_processors_are_not_faster_ones() {
    let found = of("1", "rate = \"1 GHz\"", "cpu 1000 us");
    assert_eq!(found.limits, [], "{found:?}");
}

/// Half a millisecond at the first stage, and after its answer to the caller one and a half at the
/// second.
#[test]
fn sleeps_are_halved_at_one_stage_at_a_time_and_those_after_a_call_count() {
    let diagram = r#"
name = "made"
node = [{ name = "node", resource = [
    { name = "time", kind = "custom", rate = "1000000 op/s", parallelism = 1000000 },
] }]
process = [{ name = "server", node = "node" }]
stage = [
    { name = "first", process = "server", threads = "on-demand", uses = ["time"] },
    { name = "second", process = "server", threads = "on-demand", uses = ["time"] },
]
flow = [
    { from = "clients", to = "first" },
    { from = "first", to = "second" },
    { from = "first", to = "second", kind = "blocking" },
    { from = "first", to = "clients" },
]

[[request]]
name = "request"
answered-by = ["first"]

[[request.step]]
name = "first"
stage = "first"
calls = ["second"]
uses-after = ["time 500 op"]

[[request.step]]
name = "second"
stage = "second"
uses = ["time 1500 op"]
"#;
    let found = simulated(diagram);
    let gains: Vec<(&str, i64)> = found
        .limits
        .iter()
        .map(|limit| (&*limit.name, (limit.gain * 100.0).round() as i64))
        .collect();
    // 2 ms become 1.25 ms, and 1.75 ms.
    assert_eq!(gains, [("second", 60), ("first", 14)], "{found:?}");
}

/// A request takes a millisecond of a processor, half of which passes in pauses: half of these
/// gains a third. A second processor does not make them shorter, and gains as much.
#[test]
fn half_as_much_garbage_collection_is_a_change_and_processors_do_not_shorten_pauses() {
    let paused = [Paused { request: 0, step: 0, ns: 500_000 }];
    let cpu = [("rate = \"1 GHz\"", "cpu 1000 us")];
    let found = with_pauses(&made("\"on-demand\"", &cpu), &paused);
    let gain =
        |kind: Kind| found.limits.iter().find(|each| each.kind == kind).map(|each| each.gain);
    for kind in [Kind::Collector, Kind::Processors] {
        let gain = gain(kind).expect("a limit");
        assert!((gain - 1.0 / 3.0).abs() < 0.05, "{kind:?}: {gain}");
    }
    assert!(
        !with_pauses(&made("\"on-demand\"", &cpu), &[])
            .limits
            .iter()
            .any(|each| each.kind == Kind::Collector)
    );
}
