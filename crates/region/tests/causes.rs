//! From a thread to the session whose request it serves.

#[allow(dead_code)] // no daemon dies here
mod common;

use headworks_policy::wrr::{ClassShare, Sharing};
use headworks_region::cause::Causes;
use headworks_region::lock::thread_id;
use headworks_region::{Region, clock};
use std::sync::atomic::Ordering::Relaxed;

/// As a session does it when a request comes.
fn begin(region: &Region, session: u32) {
    region.session(session).unwrap().thread.store(thread_id(), Relaxed);
    region.enter(session, clock::now());
}

#[test]
fn a_thread_works_for_the_user_whose_request_it_has_in_hand() {
    let region = common::enforcing(4);
    let causes = Causes::new(region);
    let sessions: Vec<u32> = (0..3).map(|_| common::session(region)).collect();
    assert_eq!(causes.current(), 0, "no request is in hand");
    std::thread::scope(|scope| {
        for &session in &sessions {
            scope.spawn(move || {
                begin(region, session);
                let cause = causes.current();
                assert_eq!(
                    (cause, causes.session(cause)),
                    (causes.of_session(session), Some(session))
                );
                assert_eq!(causes.current(), cause, "remembered");
                region.leave(session);
                assert_eq!(causes.current(), 0, "between two requests");
            });
        }
    });
}

/// A thread that goes from one connection to another is found again.
#[test]
fn a_thread_that_takes_another_connection_works_for_that_one() {
    let region = common::enforcing(4);
    let causes = Causes::new(region);
    let (one, other) = (common::session(region), common::session(region));
    begin(region, one);
    assert_eq!(causes.current(), causes.of_session(one));
    region.leave(one);
    begin(region, other);
    assert_eq!(causes.current(), causes.of_session(other));
    region.leave(other);
}

/// What is left of a session in dirty pages is not the next session's in its slot.
#[test]
fn a_cause_ends_with_its_connection() {
    let region = common::enforcing(4);
    let causes = Causes::new(region);
    let session = common::session(region);
    let cause = causes.of_session(session);
    region.unregister(session);
    assert_eq!(causes.session(cause), None);
    let next = common::session(region);
    assert_eq!(next, session, "the slot is used again");
    assert_ne!(causes.of_session(next), cause);
    assert_eq!(causes.session(cause), None);
}

#[test]
fn a_cause_weighs_as_its_class() {
    let region = common::enforcing(4);
    let causes = Causes::new(region);
    let (light, heavy) = (common::session(region), common::session(region));
    for (class, weight) in [(0, 1000), (1, 4000)] {
        let share = ClassShare::new(weight, Sharing::PerUser);
        region.set_class(class, "a class", weight, share, false);
    }
    region.classify(heavy, 1, false, 1);
    let levels = [light, heavy].map(|session| causes.level(causes.of_session(session)));
    assert_eq!(levels, [6, 0], "2 eighths and 8");
    assert_eq!(causes.level(0), 6, "an unknown cause weighs as the first class");
}
