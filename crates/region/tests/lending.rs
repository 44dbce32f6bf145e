//! When a session that does not work lends its permit. Waiters are only queued here, so nothing
//! sleeps.

#[allow(dead_code)] // no daemon dies here
mod common;

use common::{enforcing, session};
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::permit::Long;
use headworks_region::control::{Count, Settings};
use headworks_region::{Pause, Region, State, Wait, clock};

const LONG: Nanos = Nanos::from_millis(50);

/// The daemon looks; it does not know what requests have used.
fn look(region: &Region, now: Nanos) {
    region.lend_unused(now, Long { lasts: LONG, uses: LONG }, |_, _| None);
}

fn state(region: &Region, session: u32) -> State {
    region.session(session).unwrap().state()
}

/// One session has the only permit, and another one waits for it.
fn one_and_a_waiter() -> (&'static Region, u32, u32) {
    let region = enforcing(1);
    let (owner, waiter) = (session(region), session(region));
    assert!(region.enter_or_queue(owner, Wait::NONE).is_some());
    region.session(owner).unwrap().admitted_ns.store(clock::now().0, Relaxed);
    assert!(region.enter_or_queue(waiter, region.begin_wait(clock::now())).is_none());
    (region, owner, waiter)
}

#[test]
fn a_blocked_session_lends_at_once_while_a_processor_is_idle() {
    let (region, owner, waiter) = one_and_a_waiter();
    region.block(owner, Pause::RowLock);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
    // It goes on without a permit, and gets the next one.
    region.unblock(owner);
    assert_eq!(state(region, owner), State::Owed);
    region.leave(waiter);
    assert_eq!(state(region, owner), State::Running);
}

#[test]
fn a_blocked_session_keeps_its_permit_for_a_while_when_no_processor_is_idle() {
    let (region, owner, waiter) = one_and_a_waiter();
    region.control.set_saturated(true);
    region.block(owner, Pause::RowLock);
    assert_eq!((state(region, owner), region.working()), (State::Running, 0));
    let now = clock::now();
    look(region, now);
    assert_eq!(state(region, waiter), State::Queued);
    look(region, now + LONG + LONG);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
}

#[test]
fn a_kept_permit_is_lent_as_soon_as_a_processor_is_idle() {
    let (region, owner, waiter) = one_and_a_waiter();
    region.control.set_saturated(true);
    region.block(owner, Pause::RowLock);
    region.control.set_saturated(false);
    look(region, clock::now());
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
}

#[test]
fn a_request_that_runs_for_long_leaves_the_count_until_its_turn_ends() {
    let (region, owner, waiter) = one_and_a_waiter();
    let now = clock::now();
    look(region, now);
    assert_eq!(state(region, owner), State::Running);
    look(region, now + LONG + LONG);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Long, State::Running));
    region.leave(owner);
    assert_eq!(state(region, owner), State::Idle);
}

#[test]
fn a_request_that_waits_for_a_processor_is_not_long() {
    let (region, owner, waiter) = one_and_a_waiter();
    let long = Long { lasts: LONG, uses: Nanos::from_millis(20) };
    let later = clock::now() + Nanos::from_millis(5_000);
    region.lend_unused(later, long, |_, _| Some(Nanos::from_millis(2)));
    assert_eq!((state(region, owner), state(region, waiter)), (State::Running, State::Queued));
    region.lend_unused(later, long, |_, _| Some(Nanos::from_millis(21)));
    assert_eq!((state(region, owner), state(region, waiter)), (State::Long, State::Running));
}

#[test]
fn a_request_that_gave_way_to_another_while_it_was_looked_at_is_not_long() {
    let (region, owner, waiter) = one_and_a_waiter();
    let later = clock::now() + LONG + LONG;
    region.lend_unused(later, Long { lasts: LONG, uses: LONG }, |_, slot| {
        slot.admitted_ns.store(later.0, Relaxed);
        Some(LONG + LONG)
    });
    assert_eq!((state(region, owner), state(region, waiter)), (State::Running, State::Queued));
}

#[test]
fn a_request_is_inside_since_its_permit_was_granted_whenever_its_thread_wakes() {
    let (region, owner, waiter) = one_and_a_waiter();
    let slot = region.session(waiter).unwrap();
    // What an earlier request left.
    slot.admitted_ns.store(1, Relaxed);
    let before = clock::now();
    region.leave(owner);
    assert_eq!(state(region, waiter), State::Running);
    assert!(slot.admitted_ns.load(Relaxed) >= before.0);
    // Another one waits, and the thread of the first sleeps still.
    assert!(region.enter_or_queue(owner, region.begin_wait(clock::now())).is_none());
    look(region, before + LONG);
    assert_eq!((state(region, waiter), state(region, owner)), (State::Running, State::Queued));
}

#[test]
fn the_next_statement_of_a_transaction_is_not_as_old_as_the_one_before() {
    let (region, owner, waiter) = one_and_a_waiter();
    let slot = region.session(owner).unwrap();
    let now = clock::now() + Nanos::from_millis(1_000);
    region.begin_gap(slot, now);
    region.end_gap(slot, now);
    look(region, now);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Running, State::Queued));
}

#[test]
fn sessions_that_work_for_longer_are_counted_with_or_without_a_permit() {
    let (region, owner, waiter) = one_and_a_waiter();
    let later = clock::now() + LONG + LONG;
    assert_eq!(region.outlasting(clock::now(), LONG), 0);
    assert_eq!(region.outlasting(later, LONG), 1, "one runs, and one is queued");
    look(region, later);
    region.leave(waiter);
    assert_eq!((state(region, owner), region.outlasting(later, LONG)), (State::Long, 1));
    region.block(owner, Pause::RowLock);
    assert_eq!(region.outlasting(later, LONG), 0, "it does not work");
    region.unblock(owner);
    let settings = Settings { count: Count::Admitted, ..region.control.settings() };
    region.apply(&settings);
    assert_eq!(region.outlasting(later, LONG), 0, "it keeps its permit");
}

#[test]
fn a_sleep_on_a_condition_is_taken_for_storage_at_first() {
    let (region, owner, waiter) = one_and_a_waiter();
    let now = clock::now();
    region.falls_asleep(owner, now);
    look(region, now + Nanos::from_millis(20));
    assert_eq!(state(region, waiter), State::Queued);
    look(region, now + Nanos::from_millis(21));
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
}

#[test]
fn a_session_that_usually_sleeps_for_long_lends_when_it_falls_asleep() {
    let (region, owner, waiter) = one_and_a_waiter();
    let begun = clock::now();
    let after = |ms| begun + Nanos::from_millis(ms);
    region.falls_asleep(owner, begun);
    region.wakes_up(owner, after(1));
    region.falls_asleep(owner, begun);
    assert_eq!(state(region, waiter), State::Queued, "it sleeps for a millisecond");
    region.wakes_up(owner, after(20));
    region.falls_asleep(owner, clock::now());
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
    region.wakes_up(owner, clock::now());
    assert_eq!(state(region, owner), State::Owed, "it goes on at once");
    // No session has to learn it again.
    let third = session(region);
    assert!(region.enter_or_queue(third, region.begin_wait(clock::now())).is_none());
    region.falls_asleep(waiter, clock::now());
    assert_eq!((state(region, waiter), state(region, owner)), (State::Lent, State::Running));
}

#[test]
fn a_sleep_for_what_the_server_has_told_is_counted_as_that() {
    let (region, owner, waiter) = one_and_a_waiter();
    region.control.set_saturated(true);
    region.block(owner, Pause::RowLock);
    region.falls_asleep(owner, clock::now());
    assert_eq!(region.session(owner).unwrap().pause(), Pause::RowLock);
    region.wakes_up(owner, clock::now());
    region.unblock(owner);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Running, State::Queued));
}

#[test]
fn a_session_that_may_wait_for_another_one_never_keeps_its_permit() {
    let (region, owner, waiter) = one_and_a_waiter();
    region.control.set_saturated(true);
    region.block(owner, Pause::Elsewhere);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Lent, State::Running));
}

#[test]
fn a_gate_that_counts_all_admitted_lends_no_permit_of_a_blocked_or_long_session() {
    let (region, owner, waiter) = one_and_a_waiter();
    let settings = Settings { count: Count::Admitted, ..region.control.settings() };
    region.apply(&settings);
    region.block(owner, Pause::RowLock);
    look(region, clock::now() + LONG + LONG);
    assert_eq!((state(region, owner), state(region, waiter)), (State::Running, State::Queued));
}

#[test]
fn a_session_learns_how_long_its_client_thinks() {
    let region = enforcing(1);
    let slot = region.session(session(region)).unwrap();
    let ms = Nanos::from_millis;
    for at in 1..20 {
        region.begin_gap(slot, ms(100 * at));
        region.end_gap(slot, ms(100 * at + 8));
    }
    let learnt = slot.gap_us.load(Relaxed);
    assert!((7_900..=8_100).contains(&learnt), "{learnt}");
    slot.run_us.store(1_000, Relaxed);
    assert_eq!(region.keeps_for(slot), Nanos(0), "a processor is idle");
    region.control.set_saturated(true);
    assert_eq!(region.keeps_for(slot), region.control.idle_limit());
}
