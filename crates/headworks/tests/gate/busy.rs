//! A machine that is busy with others: the gate holds what it holds on one that is not.

use crate::common::Setup;
use crate::neighbours::{Neighbours, Ran};

/// Two milliseconds of a processor, between the times at which they begin and end.
const WORK: &str = "SELECT CONCAT(UNIX_TIMESTAMP(SYSDATE(6)), ' ', \
    BENCHMARK(3000, MD5('x')), ' ', UNIX_TIMESTAMP(SYSDATE(6)))";

#[test]
fn short_requests_do_not_leave_the_count_because_the_machine_is_busy() {
    let Some(gate) = Setup::places(4).working().start() else { return };
    let users: Vec<_> = (0..64).map(|_| gate.user("asks")).collect();
    let (neighbours, ran) = (Neighbours::start(), Ran::default());
    std::thread::scope(|scope| {
        for mut user in users {
            let ran = ran.clone();
            scope.spawn(move || {
                ran.ask(|| {
                    user.send_query(WORK).unwrap();
                    user.value()
                });
            });
        }
    });
    drop(neighbours);
    let (statements, at_once) = ran.count();
    let outgrown = gate.status().counter("outgrown");
    println!("{statements} statements, {at_once} at once, {outgrown} outgrown");
    assert!(statements > 0 && at_once <= 4, "{at_once} ran at once");
    assert!(outgrown as usize <= statements / 50, "{outgrown} of {statements} left the count");
}
