//! Servers with a planted bottleneck: it is found. How far the predicted gain is off, `headworks
//! bench run record-limits` measures.

use crate::conserve::example;
use crate::random::can_record;
use headworks_record::planted::{Planted, recorded};
use std::process::Command;

/// Some thousand waits a second for one lock, beside a thread that sleeps ten seconds at a time.
#[test]
fn the_lock_limits_and_who_sleeps_long_does_not() {
    if !can_record() {
        return;
    }
    let planted = Planted::of("lock").expect("a server");
    let command = |words: &[String]| {
        let mut command = Command::new(example("bottleneck"));
        command.args(words);
        command
    };
    let found = recorded(planted, &command).expect("a recording");
    assert_eq!(found.place(planted), Some(1), "{found:?}");
    // How much depends on the processors that other programs leave.
    assert!(found.predicted(planted).is_some_and(|gain| gain > 0.1), "{found:?}");
    assert!(found.limits.iter().all(|limit| !limit.name.contains("sleeper")), "{found:?}");
}
