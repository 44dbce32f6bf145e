//! Rules on recordings made for them.

use headworks_record::draw;
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{Arrow, By, End, Meaning};
use headworks_record::infer::{Architecture, infer};
use headworks_record::report;
use headworks_record::trace::{
    Activity, Call, Head, How, OUTSIDE, Process, SCHEMA, Socket, Stack, Thread, Trace, Unit, Wait,
};
use headworks_tad::check;
use headworks_tad::model::Confidence;

pub const FUTEX: i16 = 202;
const CONDITION: u16 = 393;

/// A process with one thread for each name; units are 2, 3, …
pub fn named(names: &[&str]) -> Trace {
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

pub fn wakes(trace: &mut Trace, waker: u32, wakee: u32, object: u64, n: u64) {
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
pub fn requests(trace: &mut Trace, unit: u32, n: u64) {
    let (local, remote) = ("127.0.0.1:80".to_owned(), "127.0.0.1:40000".to_owned());
    for sends in [false, true] {
        let (local, remote) = (local.clone(), remote.clone());
        let turns = if sends { 0 } else { n };
        let socket = Socket { unit, sends, local, remote, n, bytes: n, turns, ..Socket::default() };
        trace.sockets.push(socket);
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

pub fn found(trace: &Trace) -> Architecture {
    infer(trace, &Hints::default())
}

pub fn arrows(found: &Architecture) -> Vec<String> {
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
fn a_hint_splits_a_stage_by_functions() {
    let mut trace = named(&["worker-1", "worker-2", "worker-3"]);
    for (unit, function) in [(2, "compress_block"), (3, "serve"), (4, "serve")] {
        let frames = ["futex", function, "run"].map(str::to_owned).to_vec();
        trace.stacks.push(Stack { tid: unit, unit, whole: true, frames, n: 1, ..Stack::default() });
    }
    let hints =
        "[[stage]]\nmatch = \"worker-#\"\nthrough = \"compress_*\"\nname = \"compressors\"\n";
    let found = infer(&trace, &Hints::parse(hints).expect("hints"));
    let of = |unit: u32| &*found.stages.stages[found.stages.of[&unit]].title;
    assert_eq!([2, 3, 4].map(of), ["compressors", "worker-#", "worker-#"]);
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
fn who_takes_the_lock_of_a_stage_that_looks_for_work_feeds_it() {
    let mut trace = named(&["reader", "poller", "other"]);
    requests(&mut trace, 2, 500);
    trace.waits.push(Wait { wakee: 3, sleep: 230, how: How::Timer, n: 900, ..Wait::default() });
    trace.head.probed_s = trace.head.counted_s / 10.0;
    let call = |unit, object, n| Call { unit, object, n, ..Call::default() };
    // The poller's queue is at 0x1000. All three take another lock, for each request.
    trace.calls = vec![call(3, 0x1000, 90), call(2, 0x1000, 50)];
    trace.calls.extend([2, 3, 4].map(|unit| call(unit, 0x2000, 40)));
    let found = found(&trace);
    let by_probe = found.arrows.iter().filter(|arrow| arrow.by == By::Probe);
    let by_probe: Vec<_> =
        by_probe.map(|arrow| (arrow.from, arrow.to, arrow.n, arrow.sure)).collect();
    let at = |unit: u32| End::Stage(found.stages.of[&unit]);
    assert_eq!(by_probe, [(at(2), at(3), 500, Confidence::Likely)]);
    assert!(!found.unseen.iter().any(|what| what.contains("poller")), "{:?}", found.unseen);
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

/// A unit of threads that are made again and again.
fn newborn(trace: &mut Trace, unit: u32, creator: u32, start: &str, births: u64) {
    let start = Some(start.to_owned());
    let made = Unit { unit, pid: 1, births, creator, start, run_ns: 1_000_000, ..Unit::default() };
    trace.units.insert(unit, made);
}

#[test]
fn nameless_threads_that_are_made_for_requests_are_at_most_likely() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    newborn(&mut trace, 7_000, 2, "run", 400);
    // It was seen in one function, many times: two stages would look the same.
    let frames = ["libc.so.6!1", "work", "run", "start_thread"].map(str::to_owned).to_vec();
    trace.stacks.push(Stack { unit: 7_000, whole: true, frames, n: 9, ..Stack::default() });
    let found = found(&trace);
    let stage = found.stages.of[&7_000];
    assert_eq!(found.stages.stages[stage].sure, Confidence::Likely);
    let arrow = found.arrows.iter().find(|arrow| arrow.to == End::Stage(stage)).expect("births");
    assert_eq!(arrow.sure, Confidence::Likely, "{arrow:?}");
}

#[test]
fn threads_that_begin_with_a_function_that_no_pool_has_are_one_stage() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    newborn(&mut trace, 7_000, 2, "clean_up", 400);
    newborn(&mut trace, 7_001, 3, "clean_up", 300);
    let of = found(&trace).stages.of;
    assert_eq!(of[&7_000], of[&7_001]);
}

#[test]
fn a_function_that_begins_pools_too_says_nothing_so_creators_tell_stages_apart() {
    let mut trace = named(&["reader", "worker", "server"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 3, 4, 0x2000, 400);
    let frames = ["libc.so.6!1", "pool_loop", "run", "start_thread"].map(str::to_owned).to_vec();
    trace.stacks.push(Stack { unit: 4, whole: true, frames, n: 9, ..Stack::default() });
    newborn(&mut trace, 7_000, 2, "run", 400);
    newborn(&mut trace, 7_001, 3, "run", 300);
    let found = found(&trace);
    let of = &found.stages.of;
    assert_ne!(of[&7_000], of[&7_001]);
    assert_ne!(of[&7_000], of[&4]);
    // Nor does it say that the pool is one stage.
    assert_eq!(found.stages.stages[of[&4]].sure, Confidence::Likely);
    assert_eq!(found.stages.stages[of[&2]].sure, Confidence::Certain, "it has a name");
}

#[test]
fn newborn_threads_that_the_kernels_side_told_apart_by_name_are_certain() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    for (unit, name) in [(7_000, "sender"), (7_001, "cleaner")] {
        newborn(&mut trace, unit, 2, "run", 400);
        let unit = trace.units.get_mut(&unit).expect("made");
        (unit.name, unit.named) = (name.to_owned(), true);
    }
    let found = found(&trace);
    for (unit, name) in [(7_000, "sender"), (7_001, "cleaner")] {
        let stage = &found.stages.stages[found.stages.of[&unit]];
        assert_eq!((&*stage.name, stage.sure), (name, Confidence::Certain));
    }
}

#[test]
fn stops_confirm_blocking_or_do_not() {
    let mut trace = named(&["reader", "worker", "logger"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 3, 4, 0x2000, 300);
    wakes(&mut trace, 4, 3, 0x3000, 300);
    let mut injection = headworks_record::trace::Injection {
        waiters: vec![3],
        stopped: vec![4],
        before: (100, 100 * 160_000),
        during: (100, 100 * 900_000),
        stood_ns: 100_000_000,
    };
    let confirmed = |trace: &Trace| {
        let found = found(trace);
        let blocking = found.arrows.iter().find(|arrow| arrow.meaning == Meaning::Blocking);
        blocking.expect("an arrow").confirmed
    };
    assert_eq!(confirmed(&trace), None);
    trace.injections.push(injection.clone());
    assert_eq!(confirmed(&trace), Some(true));
    injection.during = injection.before;
    trace.injections = vec![injection];
    assert_eq!(confirmed(&trace), Some(false));
}

/// A lock for which nearly all threads wait.
fn contended() -> Trace {
    let mut trace = named(&["reader"; 8]);
    for unit in 2..10 {
        requests(&mut trace, unit, 300);
        trace.waits.push(Wait {
            waker: 2 + unit % 8,
            wakee: unit,
            object: 0x9000,
            sleep: FUTEX,
            op: 128,
            how: How::Futex,
            n: 290,
            off_ns: 850_000_000,
            ..Wait::default()
        });
    }
    // Each connection is another one.
    for (at, socket) in trace.sockets.iter_mut().enumerate() {
        socket.remote = format!("127.0.0.1:{}", 40_000 + at / 2);
        socket.after = 300;
        // An answer takes 3.3 ms, and a client 33 us.
        socket.after_ns = if socket.sends { 300 * 3_300_000 } else { 300 * 33_000 };
    }
    trace
}

#[test]
fn a_lock_for_which_all_wait_limits_and_splitting_it_gains() {
    let trace = contended();
    let found = found(&trace);
    let mut drawn = draw::draw(&trace, &found, "made");
    drawn.calibrate();
    let load = &drawn.loads[0];
    let (simulated, _) = load.simulated.expect("a simulation");
    // 2,400 requests in one counted second.
    assert!((simulated / load.per_s - 1.0).abs() < 0.15, "{load:?}");
    let scenario = drawn.scenario.expect("a load");
    let limits = headworks_record::limits::limits(&drawn.tad, &scenario, &[], &mut |_| {});
    let limits = limits.expect("a simulation");
    let first = limits.limits.first().expect("a limit");
    assert_eq!(first.kind, headworks_record::limits::Kind::Lock, "{limits:?}");
    assert!(first.gain > 0.6, "{limits:?}");
}

/// Threads of one function that were each seen in one place alone, by what they wait on.
#[test]
fn one_function_that_serves_two_queues_is_two_stages() {
    let mut trace = named(&["reader", "server", "server", "server", "server"]);
    requests(&mut trace, 2, 500);
    for (unit, object, way) in [
        (3, 0x1000, "libc.so.6!epoll_wait"),
        (4, 0x1000, "libc.so.6!epoll_wait"),
        (5, 0x2000, "libc.so.6!90d00"),
        (6, 0x2000, "libc.so.6!90d00"),
    ] {
        wakes(&mut trace, 2, unit, object, 200);
        let frames = [way, "pop", "execute", "run", "start_thread"].map(str::to_owned).to_vec();
        let stack = Stack { unit, object, whole: true, frames, n: 9, ..Stack::default() };
        trace.stacks.push(Stack { sleep: FUTEX, op: CONDITION, ..stack });
    }
    let found = found(&trace);
    let of = &found.stages.of;
    assert_eq!((of[&3], of[&5]), (of[&4], of[&6]));
    assert_ne!(of[&3], of[&5]);
    assert_eq!(found.stages.stages[of[&3]].sure, Confidence::Likely);
}

/// The stage at the sockets has another function, and is no more certain for that.
#[test]
fn where_one_function_runs_several_stages_no_function_makes_one_certain() {
    let mut trace = named(&["server", "server", "server", "server", "server"]);
    requests(&mut trace, 2, 500);
    let mut sleeps = |unit, object, function: &str| {
        let frames = ["pop", function, "run", "start_thread"].map(str::to_owned).to_vec();
        let stack = Stack { unit, object, whole: true, frames, n: 9, ..Stack::default() };
        trace.stacks.push(Stack { sleep: FUTEX, op: CONDITION, ..stack });
    };
    sleeps(2, 44, "serve");
    for (unit, object) in [(3, 0x1000), (4, 0x1000), (5, 0x2000), (6, 0x2000)] {
        sleeps(unit, object, "execute");
    }
    for (unit, object) in [(3, 0x1000), (4, 0x1000), (5, 0x2000), (6, 0x2000)] {
        wakes(&mut trace, 2, unit, object, 200);
    }
    let found = found(&trace);
    assert_eq!(found.stages.stages.len(), 3, "{:?}", found.stages.stages);
    assert!(found.stages.stages.iter().all(|stage| stage.sure == Confidence::Likely));
    assert!(found.arrows.iter().all(|arrow| arrow.sure != Confidence::Certain));
}

/// Its one thread always has something to do, so nothing is seen to wake it.
#[test]
fn a_stage_for_whose_answers_others_wait_is_fed_by_them() {
    let mut trace = named(&["handler", "writer"]);
    requests(&mut trace, 2, 500);
    // Each answer is on its request's object.
    wakes(&mut trace, 3, 2, headworks_record::trace::MANY, 500);
    let found = found(&trace);
    let (handler, writer) = (found.stages.of[&2], found.stages.of[&3]);
    let fed = found.arrows.iter().find(|arrow| arrow.feeds(writer)).expect("an arrow");
    assert_eq!((fed.from, fed.sure), (End::Stage(handler), Confidence::Likely));
}

#[test]
fn threads_that_never_ran_are_named() {
    let mut trace = named(&["reads", "sleeps-1", "sleeps-2"]);
    requests(&mut trace, 2, 100);
    assert!(!found(&trace).unseen.iter().any(|what| what.contains("slept")));
    trace.units.remove(&3);
    trace.units.remove(&4);
    let unseen = found(&trace).unseen;
    let said = "2 threads that slept all the time: sleeps-#";
    assert!(unseen.iter().any(|what| what == said), "{unseen:?}");
}

#[test]
fn clients_that_cannot_be_counted_send_what_was_recorded() {
    let mut trace = named(&["reads", "works"]);
    requests(&mut trace, 2, 1_000);
    wakes(&mut trace, 2, 3, 0x100, 1_000);
    let mut drawn = draw::draw(&trace, &found(&trace), "made");
    drawn.know_clients(8);
    for (clients, wanted) in [(8, 1_000.0), (16, 2_000.0)] {
        let per_s = drawn.simulated(clients).expect("a load");
        assert!((per_s / wanted - 1.0f64).abs() < 0.1, "{clients}: {per_s}");
    }
}

#[test]
fn threads_of_a_stage_are_counted_over_time() {
    let mut trace = named(&["worker-1", "worker-2", "other"]);
    requests(&mut trace, 2, 500);
    trace.head.moments_ms = vec![0, 1_000, 4_000];
    let activity = |unit, alive: [u32; 3], active: [f64; 3]| Activity {
        unit,
        alive: alive.to_vec(),
        active: active.to_vec(),
    };
    trace.activity.push(activity(2, [1, 1, 1], [0.0, 1.0, 0.2]));
    trace.activity.push(activity(3, [0, 1, 2], [0.0, 0.5, 0.4]));
    let found = found(&trace);
    let report = report::report(&trace, &found, &draw::draw(&trace, &found, "made"));
    let workers = report.stages.iter().find(|stage| stage.title == "worker-#").expect("a stage");
    let over = workers.over_time.as_ref().expect("a series");
    assert_eq!((over.alive(), &*over.at_ms), ((1, 3), &[0, 1_000, 4_000][..]));
    assert!((over.active() - (1.5 + 3.0 * 0.6) / 4.0).abs() < 1e-9, "{over:?}");
    trace.head.moments_ms.clear();
    let report = report::report(&trace, &found, &draw::draw(&trace, &found, "made"));
    assert!(report.stages.iter().all(|stage| stage.over_time.is_none()), "an older recording");
}
