//! Rules of who wakes whom, on recordings made for them.

use crate::made::{FUTEX, arrows, found, named, requests, wakes};
use headworks_record::draw;
use headworks_record::trace::{How, Process, Socket, Stack, Thread, Trace, Unit, Wait};

/// As InnoDB's followers of a group commit wait: each on its own word.
#[test]
fn a_word_on_which_one_thread_alone_waits_is_no_lock_if_others_have_the_like() {
    let mut trace = named(&["reader", "reader", "reader"]);
    let mut waits = |waker, wakee, object, n| {
        trace.waits.push(Wait {
            waker,
            wakee,
            object,
            sleep: FUTEX,
            op: 128,
            how: How::Futex,
            n,
            off_ns: n * 100_000,
            ..Wait::default()
        });
    };
    waits(3, 2, 0x1698, 50);
    waits(2, 3, 0x5698, 50);
    // Others wait for it, too: a lock.
    waits(2, 3, 0x9100, 40);
    waits(3, 4, 0x9100, 40);
    // No other thread has one at this offset: a lock for which others did not happen to wait.
    waits(2, 4, 0x7200, 30);
    let found = found(&trace);
    let waits: u64 = found.locks.iter().map(|lock| lock.n()).sum();
    assert_eq!(waits, 110, "{:?}", found.locks);
    assert_eq!(found.facts[found.stages.of[&2]].own, (100, 10_000_000));
}

/// Five thousand waits of 200 us a second, beside one sleep of ten seconds after another.
#[test]
fn short_waits_for_a_lock_limit_and_a_long_sleep_does_not() {
    let mut trace = named(&["reader", "reader", "sleeper"]);
    for (unit, other) in [(2, 3), (3, 2)] {
        requests(&mut trace, unit, 2_500);
        trace.waits.push(Wait {
            waker: other,
            wakee: unit,
            object: 0x9000,
            sleep: FUTEX,
            op: 128,
            how: How::Futex,
            n: 2_500,
            off_ns: 500_000_000,
            ..Wait::default()
        });
    }
    for (at, socket) in trace.sockets.iter_mut().enumerate() {
        socket.remote = format!("127.0.0.1:{}", 40_000 + at / 2);
        socket.after = 2_500;
        socket.after_ns = 2_500 * if socket.sends { 390_000 } else { 10_000 };
    }
    trace.waits.push(Wait {
        wakee: 4,
        sleep: 230,
        how: How::Timer,
        n: 60,
        off_ns: 60 * 10_000_000_000,
        ..Wait::default()
    });
    let found = found(&trace);
    let mut drawn = draw::draw(&trace, &found, "made");
    drawn.calibrate();
    let scenario = drawn.scenario.expect("a load");
    let limits = headworks_record::limits::limits(&drawn.tad, &scenario, &[], &mut |_| {});
    let limits = limits.expect("a simulation").limits;
    assert_eq!(limits[0].kind, headworks_record::limits::Kind::Lock, "{limits:?}");
    assert!(limits.iter().all(|limit| limit.name != "sleeper"), "{limits:?}");
    let knots = headworks_record::limits::knots::knots(&found);
    assert_eq!(knots[0].of, ["reader", "lock unnamed locks"], "{knots:?}");
}

/// Readers hand over to a log's thread, which syncs the disk and wakes so many of them each time.
fn logged(woken: u64) -> Trace {
    let mut trace = named(&["reader", "reader", "reader", "reader", "log"]);
    for unit in 2..6 {
        requests(&mut trace, unit, 200);
        wakes(&mut trace, unit, 6, 0x1000, 60);
        wakes(&mut trace, 6, unit, 0x2000 + 0x40 * u64::from(unit), woken);
    }
    for (at, socket) in trace.sockets.iter_mut().enumerate() {
        socket.remote = format!("127.0.0.1:{}", 40_000 + at / 2);
    }
    trace.waits.push(Wait {
        wakee: 6,
        sleep: 75,
        how: How::Device,
        n: 200,
        off_ns: 200 * 100_000,
        ..Wait::default()
    });
    trace
}

#[test]
fn a_log_that_wakes_several_for_each_sync_serves_batches() {
    for (woken, batches) in [(200, true), (50, false)] {
        let trace = logged(woken);
        let drawn = draw::draw(&trace, &found(&trace), "made");
        let log = drawn.tad.stages.iter().position(|stage| stage.name == "log").expect("a stage");
        assert_eq!(drawn.tad.stages[log].batch.is_some(), batches, "{:?}", drawn.tad.stages[log]);
        let text = headworks_tad::file::write_tad(&drawn.tad);
        let read = headworks_tad::file::read_tad("made", &text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.value, drawn.tad);
    }
}

/// One event loop that reads clients' requests, and to which workers give answers back.
#[test]
fn an_event_loop_is_not_blocked_by_who_wakes_it() {
    for (sleep, wanted) in [(232, "worker -> loop"), (7, "loop waits for worker")] {
        let mut trace = named(&["loop", "worker", "worker"]);
        requests(&mut trace, 2, 500);
        trace.waits.last_mut().expect("a wait").sleep = sleep;
        wakes(&mut trace, 2, 3, 0x1000, 300);
        wakes(&mut trace, 2, 4, 0x1000, 300);
        trace.waits.push(Wait {
            waker: 3,
            wakee: 2,
            object: 44,
            sleep,
            wake: 1,
            how: How::Ready,
            n: 200,
            ..Wait::default()
        });
        let found = arrows(&found(&trace));
        assert!(found.contains(&wanted.to_owned()), "{found:?}");
    }
}

/// As waitress: one thread sleeps in `select` for all clients, and workers tell it by a pipe that
/// it may read a connection again.
#[test]
fn who_sleeps_in_a_list_of_several_clients_is_an_event_loop() {
    for (clients, wanted) in [(3, "worker -> loop"), (1, "loop waits for worker")] {
        let mut trace = named(&["loop", "worker"]);
        requests(&mut trace, 2, 500);
        let one = trace.sockets.clone();
        for client in 1..clients {
            let remote = format!("127.0.0.1:{}", 40_000 + client);
            let more = one.iter().cloned();
            trace.sockets.extend(more.map(|socket| Socket { remote: remote.clone(), ..socket }));
        }
        wakes(&mut trace, 2, 3, 0x1000, 300);
        let (sleep, how) = (libc::SYS_pselect6 as i16, How::Ready);
        for wait in trace.waits.iter_mut().filter(|wait| wait.how == How::Ready) {
            (wait.sleep, wait.object) = (sleep, 0);
        }
        trace.waits.push(Wait {
            waker: 3,
            wakee: 2,
            sleep,
            wake: 1,
            how,
            n: 200,
            ..Wait::default()
        });
        let found = arrows(&found(&trace));
        assert!(found.contains(&wanted.to_owned()), "{clients} {found:?}");
    }
}

/// As HBase's: of two loops of one stage, one serves clients, and the other is woken more often, by
/// what comes from servers behind.
#[test]
fn a_stage_is_one_of_event_loops_if_some_of_its_threads_serve_clients() {
    for (sleep, wanted) in [(232, "worker -> loop"), (7, "loop waits for worker")] {
        let mut trace = named(&["loop", "loop", "worker"]);
        requests(&mut trace, 2, 500);
        trace.waits.last_mut().expect("a wait").sleep = sleep;
        wakes(&mut trace, 2, 4, 0x1000, 600);
        for (wakee, object, n) in [(2, 44, 200), (3, 45, 700)] {
            let (waker, wake, how) = (4, 1, How::Ready);
            trace.waits.push(Wait { waker, wakee, object, sleep, wake, how, n, ..Wait::default() });
        }
        let found = arrows(&found(&trace));
        assert!(found.contains(&wanted.to_owned()), "{found:?}");
    }
}

/// Of one thread no sleep was caught: it parks as the others do, and has no second way to be fed.
#[test]
fn a_thread_whose_park_was_not_seen_parks_as_others_of_its_stage() {
    let mut trace = named(&["reader", "pool", "pool", "pool"]);
    trace.processes.get_mut(&1).expect("a process").java = true;
    requests(&mut trace, 2, 900);
    for unit in 3..6 {
        let object = 0x1000 * u64::from(unit);
        wakes(&mut trace, 2, unit, object, 300);
        if unit < 5 {
            let frames = ["pthread_cond_wait", "Parker::park(bool, long)", "work"];
            let frames = frames.map(str::to_owned).into();
            let (sleep, op) = (FUTEX, trace.waits.last().expect("a wait").op);
            trace.stacks.push(Stack { unit, object, sleep, op, n: 9, frames, ..Stack::default() });
        }
    }
    let found = arrows(&found(&trace));
    assert!(found.contains(&"reader -> pool".to_owned()), "{found:?}");
    assert!(!found.iter().any(|arrow| arrow.contains("waits")), "{found:?}");
}

/// As PgBouncer: one loop for clients and for the servers behind it, which are recorded, too.
#[test]
fn an_event_loop_is_not_blocked_by_servers_behind_it() {
    for (sleep, wanted) in [(232, "backend -> loop"), (7, "loop waits for backend")] {
        let mut trace = named(&["loop", "backend"]);
        requests(&mut trace, 2, 300);
        trace.waits.last_mut().expect("a wait").sleep = sleep;
        let behind = Process {
            pid: 9,
            program: "behind".to_owned(),
            listens: vec![90],
            ..Process::default()
        };
        trace.processes.insert(9, behind);
        trace.units.get_mut(&3).expect("a unit").pid = 9;
        trace.threads.get_mut(&101).expect("a thread").pid = 9;
        let ends = ["127.0.0.1:40001".to_owned(), "127.0.0.1:90".to_owned()];
        for (unit, [local, remote]) in [(2, [&ends[0], &ends[1]]), (3, [&ends[1], &ends[0]])] {
            for sends in [false, true] {
                let (local, remote) = (local.clone(), remote.clone());
                trace.sockets.push(Socket {
                    unit,
                    sends,
                    local,
                    remote,
                    n: 300,
                    turns: 300,
                    ..Socket::default()
                });
            }
        }
        for (waker, wakee, object) in [(3, 2, 44), (2, 3, 45)] {
            let (how, n) = (How::Ready, 300);
            trace.waits.push(Wait { waker, wakee, object, sleep, how, n, ..Wait::default() });
        }
        let found = arrows(&found(&trace));
        assert!(found.contains(&wanted.to_owned()), "{found:?}");
        assert!(found.contains(&"loop -> backend".to_owned()), "{found:?}");
        // It answers once it has the backend's answer.
        let drawn = draw::draw(&trace, &crate::made::found(&trace), "made");
        let kind = &drawn.tad.requests[0];
        let answers = kind.answered_by.iter().map(|step| &*kind.steps[*step].name);
        let wanted = if sleep == 232 { "backend" } else { "loop" };
        assert_eq!(answers.collect::<Vec<_>>(), [wanted]);
    }
}

/// Each worker parks on its own word, for requests as for the log's answers, and the reader
/// wakes the log, too.
#[test]
fn who_wakes_those_that_hand_over_to_it_answers_them() {
    let mut trace = named(&["reader", "worker", "worker", "log"]);
    requests(&mut trace, 2, 500);
    for (worker, own) in [(3, 0x1000), (4, 0x2000)] {
        wakes(&mut trace, 2, worker, own, 300);
        wakes(&mut trace, 5, worker, own, 290);
        wakes(&mut trace, worker, 5, 0x3000, 120);
    }
    wakes(&mut trace, 2, 5, 0x3000, 100);
    let found = arrows(&found(&trace));
    assert!(found.contains(&"worker waits for log".to_owned()), "{found:?}");
    assert!(!found.contains(&"log -> worker".to_owned()), "{found:?}");
}

/// Two workers, whom readers seldom find idle, and who wait for a store's answer to each request.
/// Requests live at so many addresses, which are used again and again.
fn seldom_idle(addresses: u64, feed: impl Fn(&mut Trace)) -> Vec<String> {
    let mut trace = named(&["reader", "worker", "worker", "store"]);
    requests(&mut trace, 2, 4_000);
    feed(&mut trace);
    for worker in [3, 4] {
        wakes(&mut trace, worker, 5, 0x2000, 1_800);
        for at in 0..addresses {
            wakes(&mut trace, 5, worker, 0x7000 + 0x100 * at, 3_600 / (2 * addresses));
        }
    }
    arrows(&found(&trace))
}

#[test]
fn a_stage_that_is_seldom_idle_is_fed_by_who_wakes_it_at_all() {
    let wanted = [
        "clients -> reader",
        "reader -> clients",
        "reader -> worker",
        "worker -> store",
        "worker waits for store",
    ];
    let condition = |n: u64| {
        move |trace: &mut Trace| {
            [3, 4].into_iter().for_each(|worker| wakes(trace, 2, worker, 0x1000, n));
        }
    };
    // Few addresses look like queues, and of many the workers' queue is one.
    for (addresses, n) in [(4, 8), (4, 300), (40, 8), (40, 100)] {
        assert_eq!(seldom_idle(addresses, condition(n)), wanted, "{addresses} {n}");
    }
    // Each has a descriptor, as with io_uring.
    let rings = |trace: &mut Trace| {
        for worker in [3, 4] {
            let object = 40 + u64::from(worker);
            let how = How::Ready;
            let wait = Wait {
                waker: 2,
                wakee: worker,
                object,
                sleep: 426,
                how,
                n: 150,
                ..Wait::default()
            };
            trace.waits.push(wait);
        }
    };
    assert_eq!(seldom_idle(40, rings), wanted);
}

/// Its births are its queue, although no request reaches who creates it.
#[test]
fn a_stage_of_births_that_is_seldom_idle_has_its_queue() {
    let mut trace = named(&["reader", "born", "born", "store", "boss"]);
    requests(&mut trace, 2, 500);
    for (number, unit) in trace.units.iter_mut().filter(|(number, _)| [3, 4].contains(*number)) {
        (unit.births, unit.creator, unit.alive_max) = (200 + u64::from(*number), 6, 3);
    }
    for born in [3, 4] {
        wakes(&mut trace, 2, born, 0x1000, 10);
        wakes(&mut trace, born, 5, 0x2000, 2_000);
        wakes(&mut trace, 5, born, 0x7000, 2_000);
    }
    let wanted = [
        "born -> store",
        "born waits for store",
        "boss -> born",
        "clients -> reader",
        "reader -> clients",
    ];
    assert_eq!(arrows(&found(&trace)), wanted);
}

#[test]
fn answers_at_many_addresses_are_no_noise() {
    let found = seldom_idle(90, |trace| {
        [3, 4].into_iter().for_each(|worker| wakes(trace, 2, worker, 0x1000, 9_000));
    });
    assert!(found.contains(&"worker waits for store".to_owned()), "{found:?}");
}

/// As a cached pool of Java: each thread parks at an address. Two were born while it was recorded,
/// and a third has not got its name yet.
#[test]
fn a_thread_that_was_born_waits_on_what_is_its_alone() {
    let mut trace = named(&["reader", "worker", "worker", "worker"]);
    requests(&mut trace, 2, 1_000);
    // Their first waits are those of the unit of their creator's births.
    let births = 6;
    let name = "worker".to_owned();
    let unit = Unit { unit: births, pid: 1, births: 3, creator: 2, name, ..Unit::default() };
    trace.units.insert(births, unit);
    let young = trace.threads.get(&103).expect("a thread").clone();
    trace.threads.insert(104, Thread { tid: 104, unit: births, ..young });
    for thread in trace.threads.values_mut().filter(|thread| thread.unit > 3) {
        thread.born = births;
    }
    let waits = [(3, 0x3000), (4, 0x4000), (births, 0x4000), (5, 0x5000), (births, 0x5000)];
    for (unit, object) in waits {
        wakes(&mut trace, 2, unit, object, 150);
    }
    let wanted = ["clients -> reader", "reader -> clients", "reader -> worker"];
    assert_eq!(arrows(&found(&trace)), wanted);
    // A queue that the youngest and another share is one.
    for unit in [3, 4, births] {
        wakes(&mut trace, 2, unit, 0x9000, 900);
    }
    assert!(arrows(&found(&trace)).contains(&"reader -> worker".to_owned()));
}

/// The gate holds each session on another word, and other sessions or its daemon let it in.
#[test]
fn sessions_that_the_gate_holds_wait_for_its_permits() {
    let mut trace = named(&["connection", "connection", "daemon"]);
    for (unit, waker, object) in [(2, 3, 0x2000), (3, 2, 0x3000), (3, 4, 0x3000)] {
        requests(&mut trace, unit, 500);
        wakes(&mut trace, waker, unit, object, 100);
        let wait = trace.waits.last_mut().expect("a wait");
        wait.op = 0;
        // As a compiler makes one function of some, or of none.
        let frames: &[&str] = match unit {
            2 => &["syscall", GATE, "recv", "connection"],
            _ => &["syscall", "headworks_region::futex::wait", HELD, GATE, "recv", "connection"],
        };
        let frames = frames.iter().map(|&frame| frame.to_owned()).collect();
        let (sleep, n) = (FUTEX, 9);
        trace.stacks.push(Stack {
            unit,
            object,
            sleep,
            n,
            frames,
            whole: true,
            ..Stack::default()
        });
    }
    let found = found(&trace);
    assert!(found.locks.is_empty(), "{:?}", found.locks);
    let permits: Vec<_> = found.permits.iter().map(|each| (&*each.name, each.n)).collect();
    assert_eq!(permits, [("permits of the gate", 300)]);
    assert!(!arrows(&found).iter().any(|arrow| arrow.contains("waits for")), "{:?}", found.arrows);
    let drawn = draw::draw(&trace, &found, "made");
    assert!(drawn.tad.resources.iter().any(|each| each.title == "permits of the gate"));
}

const HELD: &str = "headworks_region::waiting::continue_wait";
const GATE: &str = "headworks_region::admission::<impl headworks_region::layout::Region>::enter";

/// Threads of two pools of Java, each at its own address: readers hand over to both, and one of
/// them to the other, whose answers come soon.
#[test]
fn of_two_pools_that_park_the_one_that_answers_soon_hands_over_nothing() {
    let mut trace = named(&["reader", "first", "first", "second", "second"]);
    requests(&mut trace, 2, 4_000);
    let mut parks = |waker, wakee: u32, n: u64, us: u64| {
        wakes(&mut trace, waker, wakee, 0x1000 * u64::from(wakee), n);
        trace.waits.last_mut().expect("a wait").off_ns = n * us * 1_000;
    };
    for (first, second) in [(3, 5), (4, 6)] {
        parks(2, first, 600, 3_400);
        parks(2, second, 500, 1_600);
        parks(first, second, 500, 1_700);
        parks(second, first, 600, 340);
    }
    let wanted = [
        "clients -> reader",
        "first -> second",
        "first waits for second",
        "reader -> clients",
        "reader -> first",
        "reader -> second",
    ];
    assert_eq!(arrows(&found(&trace)), wanted);
}
