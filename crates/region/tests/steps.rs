//! Waiting in steps: a session keeps its place in the queue while its process attends to other
//! things.

#[allow(dead_code)] // each test program uses a part of it
mod common;

use common::{enforcing, session, stop_beating};
use headworks_policy::Nanos;
use headworks_region::control::Settings;
use headworks_region::layout::Counter;
use headworks_region::{Entered, PassReason, Region, State, Wait, clock};
use std::time::{Duration, Instant};

fn begin(region: &Region, session: u32) -> (Wait, Option<Entered>) {
    let wait = region.begin_wait(clock::now());
    (wait, region.enter_in_steps(session, wait))
}

#[test]
fn a_turn_that_comes_between_two_steps_is_found_by_the_next() {
    let region = enforcing(1);
    let (owner, first, second) = (session(region), session(region), session(region));
    assert_eq!(begin(region, owner).1, Some(Entered::AtOnce));
    let (first_wait, entered) = begin(region, first);
    assert_eq!(entered, None);
    let (second_wait, entered) = begin(region, second);
    assert_eq!(entered, None);
    assert_eq!(region.waiting(), 2, "both stay in the queue");
    region.leave(owner);
    // Sessions are spread out inside a round: whose turn is first is the policy's matter.
    let is_inside = |session| region.session(session).unwrap().state() == State::Running;
    let mut order = [(first, first_wait), (second, second_wait)];
    order.sort_by_key(|(session, _)| !is_inside(*session));
    let [(early, early_wait), (late, late_wait)] = order;
    assert!(is_inside(early) && !is_inside(late), "no thread sleeps, and it is given to one");
    assert_eq!(region.continue_wait(late, late_wait), None, "the other one waits on");
    assert_eq!(region.continue_wait(early, early_wait), Some(Entered::Waited));
    region.leave(early);
    assert_eq!(region.continue_wait(late, late_wait), Some(Entered::Waited));
    region.leave(late);
    assert_eq!((region.pending(), region.waiting()), (0, 0));
}

#[test]
fn a_step_ends_after_a_moment_or_as_soon_as_the_turn_comes() {
    let region = enforcing(1);
    let (owner, waiter) = (session(region), session(region));
    begin(region, owner);
    let begun = Instant::now();
    let (wait, entered) = begin(region, waiter);
    assert_eq!(entered, None);
    assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            region.leave(owner);
        });
        let entered =
            std::iter::repeat_with(|| region.continue_wait(waiter, wait)).flatten().next();
        assert_eq!(entered, Some(Entered::Waited));
    });
}

#[test]
fn whoever_ends_while_it_waits_leaves_nothing_behind() {
    let region = enforcing(1);
    let (owner, waiter, heir) = (session(region), session(region), session(region));
    begin(region, owner);
    assert_eq!(begin(region, waiter).1, None);
    region.unregister(waiter);
    let (wait, entered) = begin(region, heir);
    assert_eq!(entered, None);
    region.leave(owner);
    assert_eq!(region.continue_wait(heir, wait), Some(Entered::Waited));
    region.leave(heir);
    assert_eq!((region.pending(), region.waiting()), (0, 0));
}

#[test]
fn the_limits_of_a_hold_count_over_all_steps() {
    let region = enforcing(1);
    let (owner, waiter) = (session(region), session(region));
    begin(region, owner);
    let settings =
        |ms| Settings { parallelism: 1, hold_max: Nanos::from_millis(ms), ..Settings::default() };
    region.apply(&settings(500));
    let begun = Instant::now();
    let (wait, mut entered) = begin(region, waiter);
    // The limit is the one that was in force when the wait began.
    region.apply(&settings(3_600_000));
    while entered.is_none() {
        entered = region.continue_wait(waiter, wait);
    }
    assert_eq!(entered, Some(Entered::Passed(PassReason::HoldLimit)));
    assert!(begun.elapsed() >= Duration::from_millis(490), "{:?}", begun.elapsed());
    region.leave(waiter);
    stop_beating(region);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(begin(region, waiter).1, Some(Entered::Passed(PassReason::Stale)));
}

#[test]
fn what_a_process_left_behind_is_given_back_to_the_next_with_its_number() {
    let region = enforcing(1);
    let dead = region.register(4_000_000, clock::now()).unwrap();
    begin(region, dead);
    region.reclaim_from_previous_process(4_000_000);
    assert_eq!(region.session(dead).unwrap().state(), State::Free);
    let next = session(region);
    assert_eq!(begin(region, next).1, Some(Entered::AtOnce));
}

#[test]
fn one_of_a_class_with_nobody_inside_goes_ahead_when_it_is_due() {
    let region = enforcing(1);
    let crowd: Vec<u32> = (0..3).map(|_| session(region)).collect();
    let (small, other) = (session(region), session(region));
    crowd.iter().for_each(|&session| region.classify(session, 1, false, 0));
    region.classify(small, 2, false, 0);
    region.classify(other, 3, false, 0);
    let ask = |session: u32| region.enter_or_queue(session, region.begin_wait(clock::now()));
    let leave = |session: u32| {
        region.spend(region.session(session).unwrap());
        region.leave(session);
    };
    let state = |session: u32| region.session(session).unwrap().state();
    // All have had a turn, so none of them is a newcomer.
    for &session in crowd.iter().chain([&small, &other]) {
        ask(session);
    }
    let everybody: Vec<u32> = crowd.iter().copied().chain([small, other]).collect();
    for _ in 0..everybody.len() {
        let inside: Vec<u32> =
            everybody.iter().copied().filter(|&session| state(session) == State::Running).collect();
        inside.into_iter().for_each(&leave);
    }
    assert_eq!((region.pending(), region.waiting()), (0, 0));
    // The crowd has many turns meanwhile.
    for &session in &crowd {
        ask(session);
    }
    for _ in 0..30 {
        let inside =
            crowd.iter().copied().find(|&session| state(session) == State::Running).unwrap();
        leave(inside);
        ask(inside);
    }
    assert_eq!(region.counter(Counter::Ahead), 0, "the crowd's own class is always inside");
    assert_eq!(ask(small), Some(Entered::AtOnce));
    assert_eq!(state(small), State::Owed);
    assert_eq!(region.counter(Counter::Ahead), 1);
    assert_eq!(ask(other), None, "one at a time");
    let inside = crowd.iter().copied().find(|&session| state(session) == State::Running).unwrap();
    leave(inside);
    assert_eq!(state(small), State::Running, "the next permit is its own");
    leave(small);
    let waiting = region.waiting();
    assert_eq!(waiting, 2, "one of those that waited has the permit");
}
