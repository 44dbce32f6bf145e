//! Threads that a Java virtual machine stops.

use crate::made::{FUTEX, found, named, requests};
use headworks_record::draw;
use headworks_record::trace::{How, Trace, Wait};

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
