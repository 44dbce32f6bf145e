//! Ways past a queue.

use crate::made::{found, named, requests, wakes};
use headworks_record::draw;
use headworks_record::infer::Architecture;
use headworks_record::infer::arrows::End;
use headworks_record::report;
use headworks_record::trace::Trace;

/// A parser hands so many requests to a sorter, which hands them to a writer, and others to the
/// writer itself.
fn server(sorted: u64, at_once: u64) -> Trace {
    let mut trace = named(&["reader", "parser", "sorter", "writer"]);
    requests(&mut trace, 2, sorted + at_once);
    wakes(&mut trace, 2, 3, 0x1000, sorted + at_once);
    wakes(&mut trace, 3, 4, 0x2000, sorted);
    wakes(&mut trace, 4, 5, 0x3000, sorted);
    wakes(&mut trace, 3, 5, 0x3000, at_once);
    trace
}

fn past(found: &Architecture) -> Vec<(String, String, String, u32)> {
    let name = |end: End| match end {
        End::Stage(stage) => found.stages.stages[stage].name.clone(),
        End::Clients => "clients".to_owned(),
    };
    let all = found.past.iter().map(|past| {
        let [from, queue] = [past.from, past.queue].map(|stage| name(End::Stage(stage)));
        (from, queue, name(past.to), (past.share() * 100.0).round() as u32)
    });
    all.collect()
}

fn way(from: &str, queue: &str, to: &str, percent: u32) -> (String, String, String, u32) {
    (from.to_owned(), queue.to_owned(), to.to_owned(), percent)
}

#[test]
fn a_queue_that_some_calls_pass_by_is_named_with_their_part() {
    let trace = server(100, 300);
    let found = found(&trace);
    assert_eq!(past(&found), [way("parser", "sorter", "writer", 75)]);
    let report = report::report(&trace, &found, &draw::draw(&trace, &found, "x"));
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["past"][0]["queue"], "sorter");
    assert_eq!(json["past"][0]["share"], 0.75);
}

/// The sorter is not woken for each request, and hands all of them on.
#[test]
fn requests_that_wake_no_thread_went_through_the_queue_too() {
    let mut trace = server(100, 300);
    wakes(&mut trace, 4, 5, 0x3000, 200);
    assert_eq!(past(&found(&trace)), [way("parser", "sorter", "writer", 50)]);
    // Of a queue that another stage feeds, too, that is not known.
    wakes(&mut trace, 2, 4, 0x2000, 100);
    let all = past(&found(&trace));
    assert!(all.contains(&way("parser", "sorter", "writer", 75)), "{all:?}");
}

#[test]
fn what_all_calls_go_through_and_what_is_called_in_turn_is_not_passed_by() {
    assert_eq!(past(&found(&server(400, 0))), []);
    assert_eq!(past(&found(&server(0, 400))), []);
    assert_eq!(past(&found(&server(400, 2))), [], "two events are noise");
    // The parser waits for the sorter's answer, and hands on then.
    let mut called = server(200, 200);
    wakes(&mut called, 4, 3, 0x9000, 200);
    assert_eq!(past(&found(&called)), []);
}
