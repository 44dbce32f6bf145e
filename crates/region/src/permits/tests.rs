//! Permits whose state is set up by hand: what two threads do at the same moment, one after the
//! other.

use super::*;
use crate::common::{enforcing, session};
use crate::control::Settings;
use crate::{Entered, clock};

fn ask(region: &Region, session: u32) -> Option<Entered> {
    region.enter_or_queue(session, region.begin_wait(clock::now()))
}

fn slot(region: &Region, session: u32) -> &SessionSlot {
    region.session(session).unwrap()
}

fn state(region: &Region, session: u32) -> State {
    slot(region, session).state()
}

fn is_free(region: &Region, permit: u32) -> bool {
    holder(region, permit).is_none()
}

/// The daemon's looks until a lost permit is found.
fn reclaim(region: &Region) {
    let mut seen = [0; PERMITS];
    region.reclaim(&mut seen);
    region.reclaim(&mut seen);
}

/// A session that holds the one permit of a region.
fn inside(region: &Region) -> u32 {
    let session = session(region);
    assert_eq!(ask(region, session), Some(Entered::AtOnce));
    session
}

/// A session that waits.
fn waiting(region: &Region) -> u32 {
    let session = session(region);
    assert_eq!(ask(region, session), None);
    session
}

#[test]
fn whoever_comes_while_others_wait_looks_at_no_permit() {
    let region = enforcing(2);
    let (first, _) = (inside(region), inside(region));
    let (permit, third) =
        (slot(region, first).permit.swap(0, Ordering::Relaxed) - 1, waiting(region));
    // Its owner was killed before it could check whether a session waits.
    assert!(region.release(permit, first));
    let fourth = waiting(region);
    assert!(is_free(region, permit), "it was looked at");
    // Who looks at all permits is the daemon.
    region.dispatch_all();
    let states = [third, fourth].map(|session| state(region, session));
    assert!(states.contains(&State::Running) && states.contains(&State::Queued), "{states:?}");
}

#[test]
fn the_first_to_wait_finds_what_was_freed_meanwhile() {
    let region = enforcing(1);
    let first = inside(region);
    let second = session(region);
    // It has found no permit. Before it says that it waits, the only one comes free, and the thread
    // that frees it sees no waiter.
    region.leave(first);
    assert_eq!(region.queue_up(second, slot(region, second), clock::now()), None);
    assert_eq!((state(region, second), region.pending()), (State::Running, 0));
}

#[test]
fn whoever_frees_a_permit_sees_who_came_meanwhile() {
    let region = enforcing(1);
    let first = inside(region);
    // It has seen no waiter, and is about to free its permit.
    let permit = slot(region, first).permit.swap(0, Ordering::Relaxed) - 1;
    slot(region, first).set_state(State::Idle);
    let second = waiting(region);
    assert!(region.free_permit(first, permit));
    assert_eq!((state(region, second), holder(region, permit)), (State::Running, Some(second)));
}

#[test]
fn one_that_was_stopped_while_it_left_does_not_free_a_strangers_permit() {
    let region = enforcing(1);
    let stopped = inside(region);
    let permit = slot(region, stopped).permit.swap(0, Ordering::Relaxed) - 1;
    slot(region, stopped).set_state(State::Idle);
    reclaim(region);
    assert_eq!(region.counter(Counter::Reclaimed), 1);
    let second = inside(region);
    // It goes on.
    assert!(!region.free_permit(stopped, permit));
    assert_eq!(holder(region, permit), Some(second));
    let third = waiting(region);
    region.leave(second);
    assert_eq!(state(region, third), State::Running);
}

#[test]
fn one_that_was_stopped_while_it_entered_is_not_inside_with_a_strangers_permit() {
    let region = enforcing(1);
    let stopped = session(region);
    assert!(region.claim(0, stopped));
    reclaim(region);
    let second = inside(region);
    assert!(!region.confirm_permit(slot(region, stopped), stopped, 0));
    assert_eq!(state(region, stopped), State::Idle);
    assert_eq!(slot(region, stopped).permit.load(Ordering::Relaxed), 0);
    assert_eq!(holder(region, 0), Some(second));
    assert_eq!(ask(region, stopped), None);
}

#[test]
fn a_permit_that_is_not_its_own_is_neither_lent_nor_given_on() {
    let region = enforcing(1);
    let stopped = inside(region);
    // Taken for lost, and taken by another.
    assert!(region.release(0, stopped));
    let second = inside(region);
    let third = waiting(region);
    assert!(region.lend(stopped, headworks_region::Pause::Thinking));
    assert_eq!(region.counter(Counter::Lent), 0);
    slot(region, stopped).permit.store(1, Ordering::Relaxed);
    region.leave(stopped);
    assert_eq!((state(region, third), holder(region, 0)), (State::Queued, Some(second)));
}

#[test]
fn a_permit_in_the_hand_is_not_taken_for_the_first_users() {
    let region = enforcing(2);
    let first = inside(region);
    assert_eq!((first, slot(region, first).permit.load(Ordering::Relaxed)), (0, 1));
    // The slot names the permit; the thread that gave it was killed.
    assert!(region.exchange(0, first, IN_TRANSFER));
    region.reclaim(&mut [0; PERMITS]);
    assert!(is_free(region, 0));
    assert_eq!(region.counter(Counter::Reclaimed), 1);
}

#[test]
fn an_entry_of_somebody_inside_takes_no_second_permit() {
    let region = enforcing(2);
    let (first, second) = (inside(region), inside(region));
    let own = slot(region, first).permit.load(Ordering::Relaxed);
    // It was let pass without the lock, left, and came again.
    region.locked(|gate, _| gate.wrr.arrive(first));
    assert_eq!(region.pending(), 1);
    region.leave(second);
    assert_eq!(slot(region, first).permit.load(Ordering::Relaxed), own);
    assert_eq!(region.own_permit(first, own), named(own));
    assert_eq!(region.pending(), 0);
    assert!(is_free(region, 1), "given back by {second}");
}

#[test]
fn a_permit_beyond_p_that_is_lent_is_spoken_for_no_more() {
    let region = enforcing(2);
    let sessions = [inside(region), inside(region)];
    region.apply(&Settings { parallelism: 1, ..Settings::default() });
    assert_eq!(region.pending(), 1);
    let beyond = sessions
        .into_iter()
        .find(|&session| slot(region, session).permit.load(Ordering::Relaxed) == 2);
    assert!(region.lend(beyond.unwrap(), headworks_region::Pause::Thinking));
    assert_eq!(region.pending(), 0);
}

#[test]
fn whoever_holds_a_permit_beyond_p_gets_the_next_one() {
    let region = enforcing(2);
    let sessions = [inside(region), inside(region)];
    region.apply(&Settings { parallelism: 1, ..Settings::default() });
    let third = waiting(region);
    let (within, beyond) = match slot(region, sessions[0]).permit.load(Ordering::Relaxed) {
        1 => (sessions[0], sessions[1]),
        _ => (sessions[1], sessions[0]),
    };
    region.leave(within);
    assert_eq!(state(region, third), State::Queued);
    assert_eq!((holder(region, 0), holder(region, 1)), (Some(beyond), None));
    region.leave(beyond);
    assert_eq!((state(region, third), holder(region, 0)), (State::Running, Some(third)));
}
