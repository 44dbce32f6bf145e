//! Rules on recordings made for them.

use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{Arrow, End, Meaning};
use headworks_record::infer::{Architecture, infer};
use headworks_record::trace::{
    Head, How, OUTSIDE, Process, SCHEMA, Socket, Stack, Thread, Trace, Unit, Wait,
};
use headworks_tad::check;
use headworks_tad::model::Confidence;

const FUTEX: i16 = 202;
const CONDITION: u16 = 393;

/// A process with one thread for each name; units are 2, 3, …
fn named(names: &[&str]) -> Trace {
    let head = Head {
        schema: SCHEMA.to_owned(),
        counted_s: 1.0,
        seconds: 1.0,
        processors: 2,
        ..Head::default()
    };
    let mut trace = Trace { head, ..Trace::default() };
    let process = Process {
        pid: 1,
        program: "server".to_owned(),
        name: "server".to_owned(),
        listens: vec![80],
        ..Process::default()
    };
    trace.processes.insert(1, process);
    for (at, name) in names.iter().enumerate() {
        let (unit, tid) = (at as u32 + 2, at as u32 + 100);
        let run_ns = 10_000_000;
        trace.units.insert(unit, Unit { unit, pid: 1, run_ns, alive_max: 1, ..Unit::default() });
        let names = vec![(*name).to_owned()];
        trace.threads.insert(tid, Thread { tid, pid: 1, unit, names, ..Thread::default() });
    }
    trace
}

fn wakes(trace: &mut Trace, waker: u32, wakee: u32, object: u64, n: u64) {
    trace.waits.push(Wait {
        waker,
        wakee,
        object,
        sleep: FUTEX,
        op: CONDITION,
        wake: FUTEX,
        how: How::Futex,
        n,
        off_ns: n * 100_000,
        ..Wait::default()
    });
}

/// A client that is not recorded sends requests to a unit, which reads them.
fn requests(trace: &mut Trace, unit: u32, n: u64) {
    let (local, remote) = ("127.0.0.1:80".to_owned(), "127.0.0.1:40000".to_owned());
    for sends in [false, true] {
        let (local, remote) = (local.clone(), remote.clone());
        let turns = if sends { 0 } else { n };
        trace.sockets.push(Socket { unit, sends, local, remote, n, bytes: n, turns });
    }
    trace.waits.push(Wait {
        waker: OUTSIDE,
        wakee: unit,
        object: 44,
        sleep: 45,
        how: How::Ready,
        n,
        ..Wait::default()
    });
}

fn found(trace: &Trace) -> Architecture {
    infer(trace, &Hints::default())
}

fn arrows(found: &Architecture) -> Vec<String> {
    let name = |end: End| match end {
        End::Clients => "clients",
        End::Stage(stage) => &found.stages.stages[stage].name,
    };
    let one = |arrow: &Arrow| {
        let meaning = if arrow.meaning == Meaning::Data { "->" } else { "waits for" };
        format!("{} {meaning} {}", name(arrow.from), name(arrow.to))
    };
    let mut all: Vec<String> = found.arrows.iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn a_queue_feeds_and_an_answer_blocks() {
    let mut trace = named(&["reader", "worker", "logger"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 3, 4, 0x2000, 300);
    // The logger answers the worker on another object than the worker's queue.
    wakes(&mut trace, 4, 3, 0x3000, 300);
    let wanted = [
        "clients -> reader",
        "reader -> clients",
        "reader -> worker",
        "worker -> logger",
        "worker waits for logger",
    ];
    assert_eq!(arrows(&found(&trace)), wanted);
}

#[test]
fn few_events_are_noise_and_some_are_a_guess() {
    let mut trace = named(&["reader", "worker", "timer"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 2, 4, 0x4000, 2);
    assert!(!arrows(&found(&trace)).contains(&"reader -> timer".to_owned()));
    wakes(&mut trace, 2, 4, 0x4000, 4);
    let found = found(&trace);
    let timer = found.stages.of[&4];
    let arrow = found.arrows.iter().find(|arrow| arrow.to == End::Stage(timer)).expect("an arrow");
    assert_eq!(arrow.sure, Confidence::Guess);
}

#[test]
fn a_mutex_is_a_lock_and_one_beside_a_queue_is_not() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    for object in [0x1028, 0x9000] {
        trace.waits.push(Wait {
            waker: 2,
            wakee: 3,
            object,
            sleep: FUTEX,
            op: 128,
            how: How::Futex,
            n: 50,
            off_ns: 5_000_000,
            ..Wait::default()
        });
    }
    let found = found(&trace);
    assert_eq!(found.locks.len(), 1, "{:?}", found.locks);
    assert_eq!(found.locks[0].address, 0x9000);
    assert_eq!(found.locks[0].n(), 50);
}

#[test]
fn threads_without_names_are_told_apart_by_their_loop_functions() {
    let mut trace = named(&["server", "server", "server"]);
    for (unit, function) in [(2, "accept_loop"), (3, "purge_loop"), (4, "purge_loop")] {
        let frames = ["libc.so.6!1", function, "start_thread", "libc.so.6!2"];
        trace.stacks.push(Stack {
            unit,
            whole: true,
            frames: frames.map(str::to_owned).to_vec(),
            n: 1,
            ..Stack::default()
        });
    }
    let found = found(&trace);
    let mut names: Vec<(&str, usize)> =
        found.stages.stages.iter().map(|stage| (&*stage.name, stage.threads.len())).collect();
    names.sort_unstable();
    assert_eq!(names, [("accept-loop", 1), ("purge-loop", 2)]);
}

#[test]
fn a_hint_merges_stages() {
    let mut trace = named(&["read-a", "read-b", "worker"]);
    requests(&mut trace, 2, 500);
    let hints = "[[stage]]\nmatch = \"read-*\"\nname = \"readers\"\n";
    let found = infer(&trace, &Hints::parse(hints).expect("hints"));
    let names: Vec<&str> = found.stages.stages.iter().map(|stage| &*stage.name).collect();
    assert_eq!(names, ["readers", "worker"]);
    assert_eq!(found.stages.of[&2], found.stages.of[&3]);
}

#[test]
fn a_stage_that_looks_for_work_is_named_as_not_seen() {
    let mut trace = named(&["reader", "poller"]);
    requests(&mut trace, 2, 500);
    let how = How::Timer;
    trace.waits.push(Wait { wakee: 3, sleep: 230, how, n: 900, ..Wait::default() });
    let found = found(&trace);
    assert!(found.unseen.iter().any(|what| what.contains("poller")), "{:?}", found.unseen);
}

#[test]
fn what_is_not_certain_does_not_enter_the_checks_silently() {
    let mut trace = named(&["reader", "worker", "logger", "other"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 3, 4, 0x2000, 300);
    wakes(&mut trace, 3, 5, 0x5000, 300);
    // The worker waits for both, for one of them rarely.
    wakes(&mut trace, 4, 3, 0x3000, 12);
    wakes(&mut trace, 5, 3, 0x3008, 12);
    let found = found(&trace);
    let drawn = draw::draw(&trace, &found, "made");
    let report = check::report(&drawn.tad);
    let resting = report.findings.iter().filter(|finding| !finding.rests_on.is_empty());
    for finding in resting {
        assert_ne!(finding.confidence, Confidence::Certain);
    }
    let blocking = report.findings.iter().find(|each| each.problem.letter() == 'B');
    if let Some(finding) = blocking {
        assert_eq!(finding.confidence, Confidence::Likely, "{finding:?}");
        assert!(report.unsure.contains('B') && !report.problems.contains('B'));
    }
}
