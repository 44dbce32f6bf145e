//! Stages that work although nothing was seen to wake them for it.

use crate::made::{arrows, found, named, requests, wakes};
use headworks_record::draw::draw;
use headworks_record::infer::arrows::By;
use headworks_record::trace::{MANY, Trace, Wait};
use headworks_tad::model::Confidence;

/// A reader that passes requests to a worker, and waits for answers of a third stage.
fn answers_unfed() -> Trace {
    let mut trace = named(&["reader", "worker", "third"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    wakes(&mut trace, 4, 2, 0x3000, 480);
    trace
}

#[test]
fn what_a_third_stage_may_have_passed_on_is_a_guess_and_named() {
    let found = found(&answers_unfed());
    let third = found.stages.of[&4];
    let fed: Vec<_> = found.arrows.iter().filter(|arrow| arrow.feeds(third)).collect();
    assert!(fed.is_empty(), "{fed:?}");
    let guess = found.arrows.iter().find(|arrow| arrow.by == By::Nothing).expect("a guess");
    assert_eq!(guess.sure, Confidence::Guess);
    let said = "what feeds third: nothing was seen to wake it";
    assert!(found.unseen.iter().any(|what| what.starts_with(said)), "{:?}", found.unseen);
}

#[test]
fn a_stage_that_waits_by_io_uring_is_named_for_it() {
    let mut trace = answers_unfed();
    let sleep = libc::SYS_io_uring_enter as i16;
    trace.waits.push(Wait { wakee: 4, object: 36, sleep, n: 480, ..Wait::default() });
    let found = found(&trace);
    let said = "what feeds third: it waits by io_uring";
    assert!(found.unseen.iter().any(|what| what.starts_with(said)), "{:?}", found.unseen);
}

#[test]
fn of_stages_that_no_request_reaches_the_one_that_is_woken_for_answers_alone_comes_first() {
    let mut trace = named(&["reader", "pool", "worker"]);
    requests(&mut trace, 2, 500);
    // The worker is never asleep for its work. It gives work to the pool, and waits for it.
    wakes(&mut trace, 4, 3, 0x4000, 300);
    wakes(&mut trace, 3, 4, MANY, 400);
    let seen = arrows(&found(&trace));
    assert!(seen.contains(&"worker -> pool".to_owned()), "{seen:?}");
    assert!(seen.contains(&"worker waits for pool".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"pool -> worker".to_owned()), "{seen:?}");
}

/// Readers pass requests to parsers, and these to sinks by a short queue that is nearly always
/// full.
fn behind_a_full_queue(starved: u64) -> Trace {
    let mut trace = named(&["reader", "parser", "sink"]);
    requests(&mut trace, 2, 500);
    trace.sockets.iter_mut().filter(|socket| socket.sends).for_each(|socket| socket.unit = 4);
    wakes(&mut trace, 3, 4, 0x4000, starved);
    wakes(&mut trace, 4, 3, 0x5000, 480);
    trace
}

#[test]
fn a_wait_for_room_in_a_full_queue_is_no_request() {
    let seen = arrows(&found(&behind_a_full_queue(20)));
    assert!(seen.contains(&"parser -> sink".to_owned()), "{seen:?}");
    assert!(seen.contains(&"parser waits for sink".to_owned()), "{seen:?}");
    assert!(seen.contains(&"reader -> parser".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"sink -> parser".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"reader -> sink".to_owned()), "{seen:?}");
}

#[test]
fn who_waits_for_room_is_not_held_until_the_answer_in_the_simulation() {
    let trace = behind_a_full_queue(20);
    let tad = draw(&trace, &found(&trace), "full").tad;
    let parser = tad.requests[0].steps.iter().find(|step| step.name == "parser").expect("a step");
    assert!(parser.submits.is_empty() && parser.waits.is_empty(), "{parser:?}");
    assert_eq!(parser.then.len(), 1, "{parser:?}");
}

#[test]
fn a_stage_whose_only_other_neighbour_it_wakes_itself_has_the_clients_requests() {
    let found = found(&behind_a_full_queue(0));
    let sink = found.stages.of[&4];
    let fed = found.arrows.iter().find(|arrow| arrow.feeds(sink)).expect("an arrow");
    assert_eq!((fed.by, fed.sure), (By::Answer, Confidence::Likely));
}
