//! Threads that a Java virtual machine stops.

use crate::made::{FUTEX, found, named, requests};
use headworks_record::draw;
use headworks_record::trace::{Head, How, Trace, Wait};

const WAIT_PRIVATE: u16 = 128;

/// A stage of one thread, and the machine's thread, which stops it a hundred times in a second and
/// is at work for 0.4 s.
fn machine() -> Trace {
    let mut trace = named(&["reader", "VM Thread"]);
    trace.processes.get_mut(&1).expect("a process").java = true;
    requests(&mut trace, 2, 500);
    trace.units.get_mut(&3).expect("a unit").run_ns = 400_000_000;
    trace.waits.push(Wait {
        waker: 3,
        wakee: 2,
        object: 0x7000,
        sleep: FUTEX,
        op: WAIT_PRIVATE,
        wake: FUTEX,
        how: How::Futex,
        all: true,
        n: 100,
        off_ns: 400_000_000,
        ..Wait::default()
    });
    trace
}

#[test]
fn what_a_virtual_machine_does_while_it_stops_threads_is_part_of_each_request() {
    let found = found(&machine());
    let part = found.paused.values().next().copied().expect("it is stopped");
    assert!((part - 0.4).abs() < 1e-6, "{part}");
    let drawn = draw::draw(&machine(), &found, "machine");
    // Two processors stand still for 0.4 s, 500 requests.
    let [paused] = &drawn.paused[..] else { panic!("{:?}", drawn.paused) };
    assert_eq!(paused.ns, 1_600_000);
}

#[test]
fn a_machine_that_ends_no_wait_stops_no_thread() {
    let mut trace = machine();
    trace.waits.retain(|wait| wait.waker != 3);
    assert!(found(&trace).paused.is_empty());
}

/// Those of its waits count that a thread ends which collects garbage. Its wait for something to do
/// may be ended by a thread that marks beside the program.
#[test]
fn what_the_machine_waits_for_threads_that_collect_is_part_of_a_pause() {
    for (helper, whole) in [("GC Thread#0", 0.6), ("G1 Main Marker", 0.4)] {
        let mut trace = machine();
        let names = named(&["reader", "VM Thread", helper]);
        (trace.threads, trace.units) = (names.threads, names.units);
        trace.units.get_mut(&3).expect("a unit").run_ns = 400_000_000;
        let of = |waker, wakee, off_ns| Wait {
            waker,
            wakee,
            off_ns,
            object: 0x8000,
            sleep: FUTEX,
            wake: FUTEX,
            how: How::Futex,
            n: 100,
            ..Wait::default()
        };
        trace.waits.push(of(4, 3, 200_000_000));
        let found = found(&trace);
        let part = found.paused.values().next().copied().expect("it is stopped");
        assert!((part - whole).abs() < 1e-6, "{helper}: {part}");
    }
}

/// All processors of its machine stand still, whatever other machines have.
#[test]
fn a_pause_stops_the_processors_of_one_machine() {
    let mut trace = machine();
    let other = Head { host: "other".to_owned(), processors: 8, ..trace.head.clone() };
    trace.joined.push(other);
    trace.processes.get_mut(&1).expect("a process").host = "other".to_owned();
    let drawn = draw::draw(&trace, &found(&trace), "machine");
    let [paused] = &drawn.paused[..] else { panic!("{:?}", drawn.paused) };
    assert_eq!(paused.ns, 6_400_000);
}

#[test]
fn a_compiler_that_ends_waits_stops_no_thread() {
    let mut trace = machine();
    for thread in trace.threads.values_mut().filter(|thread| thread.unit == 3) {
        thread.names = vec!["C2 CompilerThre".to_owned()];
    }
    assert!(found(&trace).paused.is_empty());
}
