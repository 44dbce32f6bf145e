//! Rules that servers taught which were not in the records: Tomcat, Apache, gunicorn, Python.

use crate::made::{FUTEX, arrows, found, named, requests, wakes};
use headworks_record::draw;
use headworks_record::infer::arrows::{End, Meaning};
use headworks_record::report;
use headworks_record::trace::{How, Quota, Stack, Trace, Wait};
use headworks_record::verdict;
use headworks_tad::model::{Confidence, Threads};

/// Clients on so many connections, each of which a unit reads.
fn connections(trace: &mut Trace, units: &[u32], clients: usize, n: u64) {
    for client in 0..clients {
        let unit = units[client % units.len()];
        let at = trace.sockets.len();
        requests(trace, unit, n);
        for socket in &mut trace.sockets[at..] {
            socket.remote = format!("127.0.0.1:{}", 40_000 + client);
            socket.turns = n;
        }
    }
    // What clients send wakes who waits for it: the tests say who that is.
    trace.waits.retain(|wait| wait.how != How::Ready);
}

fn polls(trace: &mut Trace, unit: u32, n: u64) {
    let sleep = libc::SYS_epoll_wait as i16;
    let (waker, how) = (headworks_record::trace::OUTSIDE, How::Ready);
    trace.waits.push(Wait { waker, wakee: unit, object: 44, sleep, how, n, ..Wait::default() });
}

/// Each request is five entries of a log.
#[test]
fn a_request_that_is_handed_over_five_times_is_one() {
    let mut trace = named(&["conn", "logger"]);
    connections(&mut trace, &[2], 1, 1_000);
    polls(&mut trace, 2, 1_000);
    wakes(&mut trace, 2, 3, 0x100, 5_000);
    let drawn = draw::draw(&trace, &found(&trace), "made");
    assert!((drawn.loads[0].per_s - 1_000.0).abs() < 1.0, "{:?}", drawn.loads);
}

/// Four requests are under way on one connection, and one call reads them all.
#[test]
fn a_call_that_reads_several_requests_has_as_many_as_are_handed_over_and_answered() {
    let mut trace = named(&["reader", "worker"]);
    connections(&mut trace, &[2], 1, 1_000);
    for socket in trace.sockets.iter_mut().filter(|socket| socket.sends) {
        (socket.unit, socket.turns, socket.n) = (3, 4_000, 4_000);
    }
    polls(&mut trace, 2, 1_000);
    wakes(&mut trace, 2, 3, 0x100, 3_900);
    let drawn = draw::draw(&trace, &found(&trace), "made");
    assert!((drawn.loads[0].per_s - 4_000.0).abs() < 200.0, "{:?}", drawn.loads);
}

/// As Apache's event model and Tomcat's poller: the listener sleeps for all connections and hands
/// over those that are ready; workers read and answer.
#[test]
fn who_waits_for_clients_is_the_entry_and_who_reads_has_a_queue() {
    let mut trace = named(&["listener", "worker-1", "worker-2"]);
    connections(&mut trace, &[3, 4], 4, 250);
    polls(&mut trace, 2, 700);
    for worker in [3, 4] {
        wakes(&mut trace, 2, worker, 0x100, 350);
    }
    let wanted = ["clients -> listener", "listener -> worker", "worker -> clients"];
    let found = found(&trace);
    assert_eq!(arrows(&found), wanted);
    assert_eq!(found.requests, [(found.stages.of[&2], 1_000)]);
    // It is no thread for each connection, although there may be as many.
    let drawn = draw::draw(&trace, &found, "made");
    assert!(drawn.tad.stages.iter().all(|stage| matches!(stage.threads, Threads::Bounded(_))));
    // Those that wait for clients themselves are the entry, whichever thread wakes them.
    polls(&mut trace, 3, 600);
    polls(&mut trace, 4, 600);
    assert!(arrows(&crate::made::found(&trace)).contains(&"clients -> worker".to_owned()));
}

#[test]
fn who_was_never_seen_to_ask_does_not_certainly_wait_for_an_answer() {
    let mut trace = named(&["reader", "other"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 3, 2, 0x3000, 400);
    let waits = |trace: &Trace| {
        let found = found(trace);
        let mut all = found.arrows.iter().filter(|arrow| arrow.meaning == Meaning::Blocking);
        all.next().map(|arrow| arrow.sure)
    };
    assert_eq!(waits(&trace), Some(Confidence::Likely));
    wakes(&mut trace, 2, 3, 0x1000, 400);
    assert_eq!(waits(&trace), Some(Confidence::Certain));
}

#[test]
fn threads_that_read_the_same_connections_are_a_pool_and_not_one_for_each() {
    let threads = |shared: bool| {
        let mut trace = named(&["worker"; 4]);
        connections(&mut trace, &[2, 3, 4, 5], 4, 100);
        if shared {
            let more = trace.sockets.iter().cloned().map(|mut socket| {
                socket.unit = 2 + (socket.unit - 1) % 4;
                socket
            });
            let more: Vec<_> = more.collect();
            trace.sockets.extend(more);
        }
        (2..6).for_each(|unit| polls(&mut trace, unit, 100));
        draw::draw(&trace, &found(&trace), "made").tad.stages[0].threads
    };
    assert_eq!(threads(false), Threads::OnDemand);
    assert_eq!(threads(true), Threads::Bounded(4));
}

/// A pool whose threads each keep a connection, as many as there are.
#[test]
fn threads_that_began_with_their_process_are_not_made_for_connections() {
    let threads = |later: u64| {
        let mut trace = named(&["worker"; 4]);
        trace.processes.get_mut(&1).expect("a process").started = 5_000;
        trace.threads.values_mut().for_each(|thread| thread.started = 5_000 + later);
        connections(&mut trace, &[2, 3, 4, 5], 4, 100);
        (2..6).for_each(|unit| polls(&mut trace, unit, 100));
        draw::draw(&trace, &found(&trace), "made").tad.stages[0].threads
    };
    assert_eq!(threads(20), Threads::Bounded(4));
    assert_eq!(threads(700), Threads::OnDemand);
}

/// The load stood still for most of the time in which nothing was counted.
#[test]
fn requests_are_those_of_the_whole_recording_by_what_their_readers_did() {
    let load = |sleeps: u64, answers: u64| {
        let mut trace = named(&["worker"]);
        (trace.head.seconds, trace.head.counted_s) = (10.0, 1.0);
        connections(&mut trace, &[2], 3, 100);
        polls(&mut trace, 2, 300);
        trace.units.get_mut(&2).expect("a unit").sleeps = 600;
        trace.threads.values_mut().for_each(|thread| thread.sleeps = sleeps);
        let sends = trace.sockets.iter_mut().filter(|socket| socket.sends);
        sends.for_each(|socket| socket.turns = answers);
        draw::draw(&trace, &found(&trace), "made").loads[0].clone()
    };
    let one = load(3_000, 100);
    assert!((one.per_s - 150.0).abs() < 1.0, "{one:?}");
    assert!(one.within > 0.02 && one.within < 0.1, "{one:?}");
    assert_eq!(one.least, None, "it may as well be too much");
    assert!((load(0, 100).per_s - 300.0).abs() < 1.0, "an older recording does not tell");
    let more = load(3_000, 150);
    assert!(more.least.is_some() && (more.answers_per_s / more.per_s - 1.5).abs() < 0.01);
}

/// Static variables, and members of one struct, lie side by side.
#[test]
fn a_mutex_beside_a_queue_is_a_lock_if_threads_wait_long_for_it() {
    let locks = |off_ns: u64| {
        let mut trace = named(&["reader", "worker"]);
        requests(&mut trace, 2, 500);
        wakes(&mut trace, 2, 3, 0x1000, 400);
        trace.waits.push(Wait {
            waker: 2,
            wakee: 3,
            object: 0x1028,
            sleep: FUTEX,
            op: 128,
            how: How::Futex,
            n: 50,
            off_ns,
            ..Wait::default()
        });
        found(&trace).locks.len()
    };
    assert_eq!(locks(5_000_000), 0);
    assert_eq!(locks(140_000_000), 1);
}

/// Clients that are connected and not accepted yet do not think.
#[test]
fn who_waits_to_be_accepted_waits_for_an_answer() {
    let mut trace = named(&["worker"; 3]);
    connections(&mut trace, &[2, 3, 4], 70, 1);
    for socket in trace.sockets.iter_mut().filter(|socket| socket.sends) {
        (socket.after, socket.after_ns) = (1, 43_000_000);
    }
    let process = trace.processes.get_mut(&1).expect("it is there");
    (process.open, process.backlog) = (24, 21.0);
    let found = found(&trace);
    let drawn = draw::draw(&trace, &found, "made");
    let load = &drawn.loads[0];
    assert_eq!(load.threads, 24, "{load:?}");
    // 21 clients wait 300 ms each, and an answer takes 43 ms.
    assert!((load.answer_ms.expect("known") - 343.0).abs() < 3.0, "{load:?}");
    let notes = verdict::notes(&trace, &found);
    let said = |words: &str| notes.iter().any(|note| note.contains(words));
    assert!(
        said("21.0 clients waited on average until worker accepted them, 300 ms each"),
        "{notes:?}"
    );
}

/// Three milliseconds for each request, of 0.3 processors.
#[test]
fn a_quota_bounds_the_processors_of_the_diagram_and_is_named_first() {
    let mut trace = named(&["conn"; 6]);
    for unit in 2..8 {
        connections(&mut trace, &[unit], 1, 16);
        for socket in &mut trace.sockets[(unit as usize - 2) * 2..] {
            socket.remote = format!("127.0.0.1:{}", 50_000 + unit);
            socket.after = 16;
            socket.after_ns = 16 * if socket.sends { 52_000_000 } else { 10_000_000 };
        }
        polls(&mut trace, unit, 16);
        trace.units.get_mut(&unit).expect("it is there").run_ns = 16 * 3_000_000;
    }
    let group = "/sys/fs/cgroup/one".to_owned();
    trace.head.quota =
        Some(Quota { group, processors: 0.3, periods: 10, stopped: 9, stopped_s: 0.7 });
    let found = found(&trace);
    let mut drawn = draw::draw(&trace, &found, "made");
    let cpu = &drawn.tad.resources[0];
    assert_eq!((&*cpu.name, cpu.parallelism, cpu.rate_per_s), (draw::QUOTA, 1, 0.3e9));
    drawn.calibrate();
    let (per_s, _) = drawn.loads[0].simulated.expect("a simulation");
    assert!((per_s / 96.0 - 1.0).abs() < 0.15, "{:?}", drawn.loads);
    let answer = verdict::answer(&trace, &found, &drawn);
    assert!(answer.starts_with("the control group's quota (0.30 processors"), "{answer}");
    let notes = verdict::notes(&trace, &found);
    assert!(notes[0].contains("stopped the program in 90 % of its periods"), "{notes:?}");
}

/// Each stage of a diagram is fed. What nothing showed is in the report, too.
#[test]
fn the_report_has_each_arrow_of_the_picture() {
    let mut trace = named(&["reader", "cleaner"]);
    requests(&mut trace, 2, 500);
    let found = found(&trace);
    let drawn = draw::draw(&trace, &found, "made");
    let report = report::report(&trace, &found, &drawn);
    for flow in &drawn.tad.flows {
        let name = |end| match end {
            headworks_tad::model::End::Clients => "clients",
            headworks_tad::model::End::Stage(stage) => &drawn.tad.stages[stage].name,
        };
        let known = report
            .arrows
            .iter()
            .any(|arrow| (&*arrow.from, &*arrow.to) == (name(flow.from), name(flow.to)));
        assert!(known, "{} -> {}", name(flow.from), name(flow.to));
    }
    assert!(report.arrows.iter().any(|arrow| arrow.to == "cleaner" && arrow.by == "nothing"));
}

/// The lock has two conditions: one for it, and one on which the thread that had it waits until
/// another one has it.
#[test]
fn what_lies_beside_pythons_lock_is_a_part_of_it() {
    let mut trace = named(&["serve", "compute"]);
    requests(&mut trace, 2, 350);
    wakes(&mut trace, 3, 2, 0x1000, 350);
    wakes(&mut trace, 2, 3, 0x1040, 320);
    let frames = ["libc.so.6!pthread_cond_timedwait", "python3.11!4f92c0", "PyEval_RestoreThread"];
    let frames = frames.map(str::to_owned).to_vec();
    trace.stacks.push(Stack { unit: 2, object: 0x1000, sleep: FUTEX, frames, ..Stack::default() });
    let found = found(&trace);
    assert_eq!(arrows(&found), ["clients -> serve", "serve -> clients"]);
    let (serve, compute) = (found.stages.of[&2], found.stages.of[&3]);
    assert_eq!(found.locks.len(), 1, "{:?}", found.locks);
    assert!(found.locks[0].waits.contains_key(&serve), "{:?}", found.locks);
    assert!(found.locks[0].waits.contains_key(&compute), "{:?}", found.locks);
    assert!(!found.arrows.iter().any(|arrow| arrow.to == End::Stage(compute)));
}

/// Figures that contradict each other are said first.
#[test]
fn requests_that_are_answered_twice_as_often_as_they_came_do_not_fit() {
    let mut trace = named(&["worker"; 3]);
    connections(&mut trace, &[2, 3, 4], 60, 2);
    for socket in trace.sockets.iter_mut().filter(|socket| !socket.sends) {
        socket.turns = 1;
    }
    let drawn = draw::draw(&trace, &found(&trace), "made");
    let doubts = drawn.doubts();
    assert!(doubts[0].contains("60.0 requests/s and 120.0 answers/s were counted"), "{doubts:?}");
}

/// Tasks of a pool submit tasks to it, and wait for their ends.
#[test]
fn a_pool_whose_tasks_wait_for_one_another_waits_for_itself() {
    let mut trace = named(&["reader", "pool-1", "pool-2", "pool-3"]);
    requests(&mut trace, 2, 500);
    for unit in 3..6 {
        let other = 3 + (unit - 2) % 3;
        wakes(&mut trace, 2, unit, 0x100, 150);
        wakes(&mut trace, other, unit, 0x100, 100);
        wakes(&mut trace, other, unit, headworks_record::trace::MANY, 90);
    }
    let found = found(&trace);
    assert!(arrows(&found).contains(&"pool waits for pool".to_owned()), "{:?}", arrows(&found));
    let drawn = draw::draw(&trace, &found, "made");
    let text = headworks_tad::file::write_tad(&drawn.tad);
    assert!(headworks_tad::file::read_tad("made", &text).is_ok(), "{text}");
}

/// A thread has its creator's name until it gets one.
#[test]
fn threads_of_one_name_that_begin_differently_are_several_stages() {
    let mut trace = named(&["io", "io", "io", "other"]);
    let begins = [(2, "read_loop"), (3, "read_loop"), (4, "flush_loop")];
    for (unit, function) in begins {
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
    assert_eq!(names, [("io", 2), ("io-flush-loop", 1), ("other", 1)]);
}

/// Who feeds a queue takes its lock, too, and may do so by the clock.
#[test]
fn who_wakes_the_takers_of_a_queue_is_not_fed_by_them() {
    use headworks_record::trace::Call;
    let mut trace = named(&["clock", "packer"]);
    wakes(&mut trace, 2, 3, 0x1028, 400);
    trace.waits.push(Wait {
        wakee: 2,
        sleep: 230,
        how: How::Timer,
        n: 900,
        off_ns: 900_000_000,
        ..Wait::default()
    });
    trace.head.probed_s = 0.2;
    for unit in [2, 3] {
        trace.calls.push(Call { unit, object: 0x1000, n: 80, ..Call::default() });
    }
    let all = arrows(&found(&trace));
    assert!(!all.contains(&"packer -> clock".to_owned()), "{all:?}");
}

/// Each of two threads has the lock that the other one waits for: nothing happens, and all is seen.
#[test]
fn a_program_that_hangs_is_drawn_with_who_has_what_others_wait_for() {
    use headworks_record::trace::Held;
    let mut trace = named(&["taker", "giver"]);
    for unit in [2, 3] {
        trace.units.get_mut(&unit).expect("it is there").run_ns = 0;
        trace.held.push(Held { unit, owner: 5 - unit, object: 0x1000 * u64::from(unit) });
    }
    let found = found(&trace);
    assert_eq!(arrows(&found), ["giver waits for taker", "taker waits for giver"]);
    let drawn = draw::draw(&trace, &found, "made");
    assert_eq!(drawn.tad.stages.len(), 2);
    let answer = verdict::answer(&trace, &found, &drawn);
    assert!(answer.contains("taker waits for a lock that giver has"), "{answer}");
    let mut file = Vec::new();
    trace.write(&mut file, u64::MAX).expect("a file");
    assert_eq!(Trace::read(&file[..]).expect("a recording").held, trace.held);
}

/// A listener and its workers wait for one another's locks now and then. No thread waits for an
/// answer of the listener, so it does not wait until a worker has answered.
#[test]
fn a_listener_is_not_held_up_by_what_its_workers_do() {
    let mut trace = named(&["listener", "worker-1", "worker-2", "worker-3", "worker-4"]);
    connections(&mut trace, &[3, 4, 5, 6], 8, 50);
    polls(&mut trace, 2, 300);
    for worker in 3..7 {
        wakes(&mut trace, 2, worker, 0x100, 90);
        wakes(&mut trace, worker, 2, 0x3000, 40);
        wakes(&mut trace, 2, worker, 0x4000, 10);
        // Each request takes 8 ms, which a worker sleeps.
        let (n, off_ns) = (100, 800_000_000);
        trace.waits.push(Wait {
            wakee: worker,
            sleep: 230,
            how: How::Timer,
            n,
            off_ns,
            ..Wait::default()
        });
    }
    for socket in &mut trace.sockets {
        socket.after = 50;
        socket.after_ns = 50 * if socket.sends { 8_000_000 } else { 12_000_000 };
    }
    let found = found(&trace);
    assert!(arrows(&found).contains(&"worker waits for listener".to_owned()));
    let mut drawn = draw::draw(&trace, &found, "made");
    drawn.calibrate();
    let (per_s, _) = drawn.loads[0].simulated.expect("a simulation");
    assert!((per_s / 400.0 - 1.0).abs() < 0.3, "{:?}", drawn.loads);
}

/// Clients of this machine are a stage of their own, by which each of their requests comes.
#[test]
fn the_diagram_has_no_arrow_that_no_request_takes() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    trace.head.clients_cpu = 0.5;
    let drawn = draw::draw(&trace, &found(&trace), "made");
    let text = headworks_tad::file::write_tad(&drawn.tad);
    let read = headworks_tad::file::read_tad("made", &text).unwrap_or_else(|e| panic!("{e}"));
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
}

#[test]
fn lines_of_the_picture_say_how_often_and_how_long() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 3, 2, 0x3000, 300);
    let drawn = draw::draw(&trace, &found(&trace), "made");
    let labels: Vec<&str> = drawn.tad.flows.iter().map(|flow| &*flow.label).collect();
    for label in ["500/s", "400/s", "100 µs"] {
        assert!(labels.contains(&label), "{labels:?}");
    }
    // Stages have theirs, and locks their names.
    trace.waits.push(Wait {
        waker: 2,
        wakee: 3,
        object: 0x9000,
        sleep: FUTEX,
        op: 128,
        how: How::Futex,
        n: 500,
        off_ns: 240_000_000,
        ..Wait::default()
    });
    let drawn = draw::draw(&trace, &found(&trace), "made");
    let labels: Vec<_> = drawn.tad.stages.iter().map(|stage| &stage.threads_label).collect();
    assert!(labels.contains(&&Some("1, 25 % busy".to_owned())), "{labels:?}");
    assert!(drawn.tad.about.contains("Waits for locks in "), "{}", drawn.tad.about);
}
