//! Stages that may have to keep the order of their requests: those of logs.

use crate::made::{found, named, requests, wakes};
use headworks_record::draw;
use headworks_record::trace::Trace;
use headworks_tad::check::{self, Finding};
use headworks_tad::model::Confidence;
use headworks_tad::remedy::Problem;

/// Two handlers hand entries to a thread that appends them. It hands them to one that writes them
/// to a file and answers the handlers.
fn log() -> Trace {
    let mut trace = named(&["reader", "handler-1", "handler-2", "append", "sync"]);
    requests(&mut trace, 2, 500);
    for handler in [3, 4] {
        wakes(&mut trace, 2, handler, 0x1000, 200);
        wakes(&mut trace, handler, 5, 0x2000, 190);
        wakes(&mut trace, 6, handler, 0x4000, 190);
    }
    wakes(&mut trace, 5, 6, 0x3000, 300);
    writes(&mut trace, 6, 4_096_000);
    trace
}

fn writes(trace: &mut Trace, unit: u32, bytes: u64) {
    let mut threads = trace.threads.values_mut();
    threads.find(|thread| thread.unit == unit).expect("a thread").device_written = bytes;
}

fn orders(trace: &Trace) -> Vec<Finding> {
    let drawn = draw::draw(trace, &found(trace), "log");
    let all = check::check(&drawn.tad).into_iter();
    all.filter(|finding| finding.problem == Problem::OrderingConstraint).collect()
}

#[test]
fn one_thread_that_appends_to_a_log_may_have_to_keep_the_order_and_that_is_a_guess() {
    let trace = log();
    let orders = orders(&trace);
    let [finding] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(finding.stages, ["append"]);
    assert_eq!(finding.confidence, Confidence::Guess);
    assert!(finding.rests_on.contains(&"order of append (guess)".to_owned()), "{finding:?}");
    let drawn = draw::draw(&trace, &found(&trace), "log");
    assert!(check::report(&drawn.tad).unsure.contains('O'));
}

#[test]
fn what_writes_nothing_has_two_threads_or_is_not_waited_for_has_no_order() {
    let mut silent = log();
    writes(&mut silent, 6, 100);
    assert_eq!(orders(&silent), [], "it writes less than a byte for each request");
    let mut pool = log();
    pool.units.get_mut(&5).expect("the appender").alive_max = 2;
    assert_eq!(orders(&pool), [], "two threads append");
    let mut past = log();
    // Handlers hand to the writer themselves: their waits say nothing of the appender.
    wakes(&mut past, 3, 6, 0x3000, 300);
    assert_eq!(orders(&past).iter().map(|each| &*each.stages[0]).collect::<Vec<_>>(), ["sync"]);
    let mut alone = log();
    alone.threads.retain(|_, thread| thread.unit != 4);
    alone.units.remove(&4);
    alone.waits.retain(|wait| ![wait.waker, wait.wakee].contains(&4));
    assert_eq!(orders(&alone), [], "one handler hands entries to it: they have an order");
    let mut goes_on = log();
    goes_on.waits.retain(|wait| wait.object != 0x4000);
    assert_eq!(orders(&goes_on), [], "no thread waits for what is appended");
}
