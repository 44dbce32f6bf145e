//! Threads that die at one step of an operation, and sessions that do not get the lock.

use super::*;
use crate::common::{enforcing, session};
use crate::control::Settings;
use crate::{Entered, PassReason, SessionSlot, clock};
use headworks_policy::wrr::ONE;

fn ask(region: &Region, session: u32) -> Option<Entered> {
    region.enter_or_queue(session, region.begin_wait(clock::now()))
}

fn slot(region: &Region, session: u32) -> &SessionSlot {
    region.session(session).unwrap()
}

fn state(region: &Region, session: u32) -> State {
    slot(region, session).state()
}

fn inside(region: &Region) -> u32 {
    let session = session(region);
    assert_eq!(ask(region, session), Some(Entered::AtOnce));
    session
}

fn waiting(region: &Region) -> u32 {
    let session = session(region);
    assert_eq!(ask(region, session), None);
    session
}

/// A thread takes the lock, does a part of an operation, and is killed.
fn dies(region: &'static Region, after: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            region.die_with_the_lock();
            after();
        });
    });
}

/// Runs what does not get the lock.
fn without_the_lock<T>(region: &Region, work: impl FnOnce() -> T) -> T {
    let held = region.lock.lock.acquire(|_| false).expect("no thread has it");
    let result = work();
    drop(held);
    result
}

/// As many need a permit as wait or are owed one.
fn assert_true(region: &Region) {
    let sessions = (0..region.high_water()).map(|session| state(region, session));
    let need = sessions.filter(|state| matches!(state, State::Queued | State::Owed)).count();
    let gate = region.locked(|gate, _| gate.pending());
    assert_eq!((region.pending() as usize, gate), (need, Some(need)));
}

fn reclaim(region: &Region) {
    region.reclaim(&mut [0; PERMITS]);
    assert_true(region);
}

fn book(region: &Region, session: u32, permit: u32) {
    slot(region, session).permit.store(permit + 1, Ordering::Relaxed);
    region.permits[permit as usize].word.store(BUSY | session, Ordering::SeqCst);
}

/// What `leave` does until the permit is in the hand.
fn leaves_to_the_hand(region: &Region, session: u32) {
    assert_eq!(region.take_back(session, slot(region, session)), Some(0));
    slot(region, session).set_state(State::Idle);
}

#[test]
fn a_permit_in_a_dead_hand_is_given_on_by_whoever_comes_next() {
    let region = enforcing(1);
    let (first, second) = (inside(region), waiting(region));
    dies(region, || leaves_to_the_hand(region, first));
    region.dispatch_all();
    assert_eq!(state(region, second), State::Running);
    let counted = [Counter::LockInherited, Counter::Reclaimed].map(|it| region.counter(it));
    assert_eq!(counted, [1, 1]);
    assert_true(region);
    region.leave(second);
    assert_eq!(ask(region, first), Some(Entered::AtOnce));
}

#[test]
fn a_permit_in_a_dead_hand_is_found_before_anything_else_is_done() {
    let region = enforcing(1);
    let (first, second, third) = (inside(region), waiting(region), waiting(region));
    dies(region, || leaves_to_the_hand(region, first));
    // It comes while others wait, and does not look at the permits itself.
    ask(region, first);
    let states = [first, second, third].map(|session| state(region, session));
    let count = |wanted| states.iter().filter(|state| **state == wanted).count();
    assert_eq!((count(State::Running), count(State::Queued)), (1, 2), "{states:?}");
    assert_true(region);
}

#[test]
fn whoever_was_booked_a_permit_and_not_told_is_told() {
    let region = enforcing(1);
    let (first, second, third) = (inside(region), waiting(region), waiting(region));
    dies(region, || {
        leaves_to_the_hand(region, first);
        book(region, second, 0);
    });
    region.dispatch_all();
    assert_eq!((state(region, second), state(region, third)), (State::Running, State::Queued));
    assert_true(region);
    region.leave(second);
    assert_eq!(state(region, third), State::Running);
}

#[test]
fn a_permit_that_was_named_and_not_booked_is_free() {
    let region = enforcing(1);
    let (first, second) = (inside(region), waiting(region));
    dies(region, || {
        leaves_to_the_hand(region, first);
        slot(region, second).permit.store(1, Ordering::Relaxed);
    });
    region.dispatch_all();
    assert_eq!(state(region, second), State::Running);
    region.leave(second);
    assert_eq!(ask(region, first), Some(Entered::AtOnce));
}

#[test]
fn a_debt_that_was_paid_and_not_noted_is_paid() {
    let region = enforcing(1);
    let owner = inside(region);
    assert!(region.lend(owner, headworks_region::Pause::Thinking));
    let other = inside(region);
    region.reenter(owner);
    assert_eq!((state(region, owner), region.pending()), (State::Owed, 1));
    dies(region, || {
        leaves_to_the_hand(region, other);
        book(region, owner, 0);
    });
    region.dispatch_all();
    assert_eq!(state(region, owner), State::Running);
    assert_true(region);
    region.leave(owner);
    assert_eq!(ask(region, other), Some(Entered::AtOnce));
}

#[test]
fn tokens_beyond_p_are_counted_anew() {
    let region = enforcing(2);
    let sessions = [inside(region), inside(region)];
    region.apply(&Settings { parallelism: 1, ..Settings::default() });
    dies(region, || region.lock.excess.store(7, Ordering::Relaxed));
    region.dispatch_all();
    assert_eq!(region.pending(), 1);
    sessions.iter().for_each(|&session| region.leave(session));
    assert_eq!(region.pending(), 0);
    assert_eq!(ask(region, sessions[1]), Some(Entered::AtOnce));
}

/// Two permits are one session's for a moment while one beyond P is replaced.
#[test]
fn whoever_dies_while_it_replaces_a_permit_beyond_p_loses_neither() {
    for named in [1, 2] {
        let region = enforcing(2);
        let sessions = [inside(region), inside(region)];
        region.apply(&Settings { parallelism: 1, ..Settings::default() });
        dies(region, || {
            leaves_to_the_hand(region, sessions[0]);
            book(region, sessions[1], 0);
            slot(region, sessions[1]).permit.store(named, Ordering::Relaxed);
        });
        let mut seen = [0; PERMITS];
        region.reclaim(&mut seen);
        region.reclaim(&mut seen);
        assert_eq!(state(region, sessions[1]), State::Running);
        region.leave(sessions[1]);
        let words = region.permits[..2].iter().map(|permit| permit.word.load(Ordering::Relaxed));
        assert!(words.clone().all(|word| word & BUSY == 0), "{:x?}", words.collect::<Vec<_>>());
        assert_eq!(region.pending(), 0);
    }
}

#[test]
fn a_permit_of_somebody_who_is_outside_comes_back() {
    for outside in [State::Idle, State::Lent] {
        let region = enforcing(1);
        let first = inside(region);
        // A granter died when it took the permit back, or a daemon when it lent it.
        slot(region, first).set_state(outside);
        let second = waiting(region);
        let mut seen = [0; PERMITS];
        region.reclaim(&mut seen);
        assert_eq!(state(region, second), State::Queued, "it may be about to enter");
        region.reclaim(&mut seen);
        assert_eq!(state(region, second), State::Running, "{outside:?}");
    }
}

#[test]
fn a_user_that_passes_without_the_lock_stays_in_no_queue() {
    let region = enforcing(1);
    let (_, second, third) = (inside(region), waiting(region), waiting(region));
    let entered = without_the_lock(region, || region.let_pass(second, PassReason::HoldLimit));
    assert_eq!(entered, Entered::Passed(PassReason::HoldLimit));
    reclaim(region);
    assert_eq!((region.pending(), state(region, third)), (1, State::Queued));
}

#[test]
fn a_user_that_cannot_queue_up_stays_in_no_queue() {
    let region = enforcing(1);
    let (_, second) = (inside(region), session(region));
    let entered = without_the_lock(region, || region.enter(second, clock::now()));
    assert_eq!(entered, Entered::Passed(PassReason::LockBusy));
    // While it tried, a repair made the queue again from the slots.
    region.locked(|gate, _| gate.wrr.arrive(second));
    assert_eq!(region.pending(), 1);
    reclaim(region);
    assert_eq!(region.pending(), 0);
}

#[test]
fn debts_and_slots_given_back_without_the_lock_stay_in_no_queue() {
    let region = enforcing(1);
    let owner = inside(region);
    region.lend(owner, headworks_region::Pause::Thinking);
    let (other, third) = (inside(region), waiting(region));
    region.reenter(owner);
    assert_eq!(region.pending(), 2);
    without_the_lock(region, || {
        region.lend(owner, headworks_region::Pause::Thinking);
        region.unregister(third);
    });
    assert_eq!((state(region, owner), state(region, third)), (State::Lent, State::Free));
    reclaim(region);
    assert_eq!(region.pending(), 0);
    region.leave(other);
    assert_eq!(ask(region, session(region)), Some(Entered::AtOnce));
}

#[test]
fn a_turn_that_ended_without_the_lock_takes_no_share() {
    let region = enforcing(1);
    region.apply(&Settings { parallelism: 1, zeta: 1_000, ..Settings::default() });
    let (first, second) = (inside(region), waiting(region));
    region.leave(first);
    assert_eq!(state(region, second), State::Running);
    without_the_lock(region, || region.leave(second));
    let (_, third) = (inside(region), waiting(region));
    let quota = || region.locked(|gate, _| gate.wrr.quota(third));
    assert_eq!(quota(), Some(500 * ONE));
    reclaim(region);
    assert_eq!(quota(), Some(1_000 * ONE));
}

#[test]
fn a_user_that_waits_in_no_queue_is_put_into_it() {
    let region = enforcing(1);
    let (first, second) = (inside(region), waiting(region));
    region.locked(|gate, _| gate.wrr.withdraw(second));
    region.leave(first);
    assert_eq!(state(region, second), State::Queued);
    reclaim(region);
    assert_eq!(state(region, second), State::Running);
}

#[test]
fn all_of_many_users_are_looked_at() {
    let region = enforcing(1);
    inside(region);
    let sessions: Vec<u32> = (0..2 * SLICE + 50).map(|_| waiting(region)).collect();
    reclaim(region);
    assert_eq!(region.pending() as usize, sessions.len(), "who waits goes on waiting");
    let passed: Vec<u32> = sessions.iter().copied().step_by(SLICE / 2).collect();
    without_the_lock(region, || {
        for &session in &passed {
            region.let_pass(session, PassReason::GateOpened);
        }
    });
    reclaim(region);
    assert_eq!(region.pending() as usize, sessions.len() - passed.len());
}

/// A session starts to queue up while the lock is taken. It is admitted by hand, as a repair of the
/// queue would admit it. Then it gets the lock, or does not.
fn let_in_while_it_queues_up(gets_the_lock: bool) {
    let region = enforcing(1);
    let (first, second) = (inside(region), session(region));
    std::thread::scope(|scope| {
        let held = region.lock.lock.acquire(|_| false).expect("no thread has it");
        let waiter = scope.spawn(|| region.enter(second, clock::now()));
        while state(region, second) != State::Queued {
            std::thread::yield_now();
        }
        leaves_to_the_hand(region, first);
        book(region, second, 0);
        assert!(slot(region, second).move_state(State::Queued, State::Running));
        let held = if gets_the_lock {
            drop(held);
            None
        } else {
            Some(held)
        };
        let entered = waiter.join().unwrap();
        assert!(matches!(entered, Entered::Waited | Entered::AtOnce), "{entered:?}");
        drop(held);
    });
    assert_eq!((state(region, second), region.pending()), (State::Running, 0));
    assert_true(region);
    region.leave(second);
    assert_eq!(ask(region, first), Some(Entered::AtOnce));
}

#[test]
fn a_place_that_comes_while_its_user_queues_up_is_kept() {
    let_in_while_it_queues_up(true);
    let_in_while_it_queues_up(false);
}
