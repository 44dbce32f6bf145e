//! Recordings of real servers. Each is what `headworks tad record --raw` wrote, and the stages and
//! arrows that the server is known to have.

use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{End, Meaning};
use headworks_record::infer::{Architecture, infer};
use headworks_record::trace::{Scheduled, Trace};
use headworks_tad::check::Finding;
use headworks_tad::file::{read_scenario, read_tad, write_scenario, write_tad};
use headworks_tad::remedy::Problem;
use headworks_tad::{check, sim};
use std::path::Path;

fn kept(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    Trace::read(std::io::BufReader::new(file)).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn has(found: &Architecture, from: &str, to: &str, meaning: Meaning) -> bool {
    let named = |end: End, name: &str| match end {
        End::Clients => name == "clients",
        End::Stage(stage) => found.stages.stages[stage].name.starts_with(name),
    };
    found
        .arrows
        .iter()
        .any(|arrow| arrow.meaning == meaning && named(arrow.from, from) && named(arrow.to, to))
}

/// The file can be read again, is the same, and runs in the simulator.
fn round_trip(trace: &Trace, found: &Architecture) {
    let drawn = draw::draw(trace, found, "kept");
    let read = read_tad("kept", &write_tad(&drawn.tad)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.value, drawn.tad);
    let _ = check::report(&read.value);
    let scenario = drawn.scenario.expect("a load");
    let text = write_scenario(&scenario, &drawn.tad);
    let scenario = read_scenario("kept", &text, &read.value).unwrap_or_else(|e| panic!("{e}"));
    let outcome = sim::run(&read.value, &scenario.value, 1, &mut |_| {}).expect("a run");
    assert!(outcome.throughput("C1") > 0.0);
}

#[test]
fn postgresql_has_a_process_for_each_connection_and_its_locks_have_names() {
    let trace = kept("postgresql.ndjson");
    let found = infer(&trace, &Hints::default());
    let entry = found.requests.first().expect("requests").0;
    let stage = &found.stages.stages[entry];
    assert_eq!((&*stage.title, stage.threads.len()), ("PostgresMain", 16));
    let locks: Vec<&str> = found.locks.iter().map(|lock| &*lock.name).collect();
    for name in ["XactLockTableWait", "XLogFlush"] {
        assert!(locks.contains(&name), "{locks:?}");
    }
    assert_eq!(found.stages.places.len(), 1, "one server");
    round_trip(&trace, &found);
}

/// The write path of the dissertation's Figure 3.2, without agent, annotation or hint.
#[test]
fn hbase_has_the_write_path_of_the_dissertation() {
    let trace = kept("hbase.ndjson");
    let found = infer(&trace, &Hints::default());
    let log = |name: &str| {
        let mut stages = found.stages.stages.iter();
        stages.find(|stage| stage.title.contains(name)).expect(name).name.clone()
    };
    let append = log("append-pool");
    for (from, to) in [
        ("clients", "reader"),
        ("reader", "rpcserver-default"),
        ("rpcserver-default", &append),
        (&append, "sync"),
        ("sync", "datastreamer"),
        ("datastreamer", "dataxceiver"),
        ("dataxceiver", "packetresponder"),
        ("rpcserver-default", "rpcserver-responder"),
        ("rpcserver-default", "clients"),
    ] {
        assert!(has(&found, from, to, Meaning::Data), "{from} -> {to}");
    }
    for (waits, on) in [
        ("rpcserver-default", "sync"),
        ("responseprocessor", "packetresponder"),
        ("sync", "responseprocessor"),
    ] {
        assert!(has(&found, waits, on, Meaning::Blocking), "{waits} waits for {on}");
    }
    round_trip(&trace, &found);
}

/// Of the five problems those that show in half a minute: its DataNode made no threads meanwhile.
/// HDFS takes the log's packets in order, too.
#[test]
fn hbase_has_the_problems_of_the_dissertation_and_one_of_them_is_a_guess() {
    let trace = kept("hbase.ndjson");
    let drawn = draw::draw(&trace, &infer(&trace, &Hints::default()), "kept");
    let report = check::report(&drawn.tad);
    let ordered = report.findings.iter().filter(|one| one.problem == Problem::OrderingConstraint);
    let ordered: Vec<&str> = ordered.map(|finding| &*finding.stages[0]).collect();
    let [stream, append] = ordered[..] else { panic!("{ordered:?}") };
    assert!(append.contains("append-pool") && stream == "datastreamer", "{ordered:?}");
    assert!(report.unsure.contains('O'));
    for problem in ['U', 'C', 'B'] {
        assert!(report.problems.contains(problem), "{}", report.problems);
    }
}

#[test]
fn mariadb_has_a_thread_for_each_connection() {
    let trace = kept("mariadb.ndjson");
    let found = infer(&trace, &Hints::default());
    let entry = found.requests.first().expect("requests").0;
    let stage = &found.stages.stages[entry];
    assert_eq!(stage.threads.len(), 16, "{stage:?}");
    let name = stage.name.clone();
    assert!(has(&found, "clients", &name, Meaning::Data));
    let pools = found.stages.stages.iter().filter(|stage| stage.title.contains("tpool"));
    assert_eq!(pools.count(), 1, "one pool of workers");
    round_trip(&trace, &found);
}

/// A plug-in's own word, and no name of a stage, decides what is scheduled.
#[test]
fn what_a_plug_in_schedules_is_drawn_with_queues_and_check_finds_it_clean() {
    let mut trace = kept("hbase.ndjson");
    let mut found = infer(&trace, &Hints::default());
    // Had it lasted longer, it would have seen threads come and go with blocks.
    let mut stages = found.stages.stages.iter_mut();
    stages.find(|stage| stage.name == "dataxceiver").expect("it is there").on_demand = true;
    let found = found;
    let open = |trace: &Trace| -> Vec<Finding> {
        let tad = draw::draw(trace, &found, "kept").tad;
        check::check(&tad).into_iter().filter(|finding| !finding.mitigated()).collect()
    };
    let has = |all: &[Finding], stage: &str, problems: &[Problem]| {
        all.iter().any(|finding| {
            problems.contains(&finding.problem)
                && finding.stages.iter().any(|name| name.starts_with(stage))
        })
    };
    let waits = [Problem::Blocking, Problem::HeldThreads];
    let before = open(&trace);
    assert!(has(&before, "dataxceiver", &[Problem::NoScheduling]), "{before:#?}");
    assert!(has(&before, "rpcserver-default", &waits), "{before:#?}");
    let pid = |name: &str| {
        let named = |names: &[String]| names.iter().any(|own| own.starts_with(name));
        trace.threads.values().find(|thread| named(&thread.names)).expect(name).pid
    };
    let (region, data) = (pid("RpcServer.default"), pid("DataXceiver"));
    let said = |pid, stage: &str, thread: &str, permits, held| Scheduled {
        pid,
        stage: stage.to_owned(),
        thread: thread.to_owned(),
        permits,
        held,
        tries: 0,
    };
    trace.scheduled = vec![
        said(region, "RPC Read", "Reader=4,bindAddress=localhost,port=16020", 0, false),
        said(
            region,
            "RPC Handle",
            "RpcServer.default.FPBQ.Fifo.handler=7,queue=0,port=16020",
            0,
            true,
        ),
        // Its threads are the handlers, and wait for a permit.
        said(
            region,
            "Log append",
            "RpcServer.default.FPBQ.Fifo.handler=7,queue=0,port=16020",
            10,
            false,
        ),
        said(region, "RPC Respond", "headworks-network", 0, false),
        said(
            data,
            "Data Xceiver",
            "DataXceiver for client x at /127.0.0.1:1 [Sending block y]",
            4,
            false,
        ),
    ];
    let after = open(&trace);
    assert!(!has(&after, "dataxceiver", &[Problem::NoScheduling]), "{after:#?}");
    assert!(!has(&after, "rpcserver-default", &waits), "{after:#?}");
    let drawn = draw::draw(&trace, &found, "kept");
    assert_eq!(drawn.tad.shared_queues.len(), 1);
    assert_eq!(drawn.tad.shared_queues[0].stages.len(), 2, "readers and handlers");
    let respond = format!("RPC Respond of {region} (its threads did nothing)");
    assert!(drawn.scheduled.contains(&respond), "{:?}", drawn.scheduled);
    round_trip(&trace, &found);
}
