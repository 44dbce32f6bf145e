//! The gate in the region, with real threads. At most P are inside, no session is forgotten, and
//! everything is given back. No request is held when there is a reason to pass.

#[allow(dead_code)] // each test program uses a part of it
mod common;

use common::{enforcing, region, session, stop_beating};
use headworks_policy::{Nanos, SESSIONS};
use headworks_region::control::{Mode, Settings};
use headworks_region::layout::Counter;
use headworks_region::{Entered, PassReason, Region, State, clock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn spin(microseconds: u64) {
    let end = Instant::now() + Duration::from_micros(microseconds);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[test]
fn at_most_p_are_inside_and_everybody_gets_through() {
    let region = enforcing(3);
    let inside = AtomicU32::new(0);
    let most = AtomicU32::new(0);
    let turns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..24u64 {
            let (inside, most, turns) = (&inside, &most, &turns);
            scope.spawn(move || {
                let session = session(region);
                for turn in 0..150 {
                    let entered = region.enter(session, clock::now());
                    assert!(!matches!(entered, Entered::Passed(_)), "{entered:?}");
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    spin((seed * 7 + turn) % 30);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    region.spend(region.session(session).unwrap());
                    region.leave(session);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                region.unregister(session);
            });
        }
    });
    assert_eq!(turns.load(Ordering::Relaxed), 24 * 150);
    assert_eq!(most.load(Ordering::SeqCst), 3, "the bound was reached and not passed");
    assert_eq!((region.pending(), region.waiting()), (0, 0));
}

#[test]
fn below_p_only_ones_own_cache_lines_are_written() {
    let region = enforcing(8);
    stop_beating(region);
    let sessions: Vec<u32> = (0..6).map(|_| session(region)).collect();
    for &session in &sessions {
        region.enter(session, clock::now());
    }
    let bytes = || {
        let start = std::ptr::from_ref::<Region>(region).cast::<u8>();
        // SAFETY: the mapping is that long, and only this thread writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(start, size_of::<Region>()) }.to_vec()
    };
    let address = |thing: usize| thing - std::ptr::from_ref::<Region>(region) as usize;
    // The lines that a session's requests change outside its own slot.
    let written_by = |me: u32| -> BTreeSet<usize> {
        region.leave(me);
        let before = bytes();
        let slot = region.session(me).unwrap();
        let place = address(std::ptr::from_ref(slot) as usize);
        let own = place..place + size_of::<headworks_region::SessionSlot>();
        for round in 0..100 {
            assert_eq!(region.enter(me, clock::now()), Entered::AtOnce);
            region.spend(slot);
            region.record(me, slot, Nanos(0), (Nanos(0), Nanos(5_000)), 1);
            if round % 2 == 0 {
                region.leave(me);
            } else {
                region.lend(me, headworks_region::Pause::Thinking);
                region.reenter(me);
                region.leave(me);
            }
        }
        let after = bytes();
        let changed = before.chunks(64).zip(after.chunks(64)).enumerate();
        let changed =
            changed.filter(|(line, (old, new))| old != new && !own.contains(&(line * 64)));
        let changed = changed.map(|(line, _)| line).collect();
        region.enter(me, clock::now());
        changed
    };
    let (first, second) = (written_by(sessions[2]), written_by(sessions[3]));
    // One line of the class's histogram each.
    assert!(first.len() <= 2 && second.len() <= 2, "{first:?} {second:?}");
    // The counter of lent permits is written by the lending above, and by nothing else.
    assert!(first.intersection(&second).count() <= 1, "{first:?} {second:?}");
    assert_eq!(region.counter(Counter::Lent), 100);
    assert_eq!(region.counter(Counter::Overdraft), 0);
}

/// Less than the longest hold, which is 30 s.
const SOON: Duration = Duration::from_secs(20);

/// Starts a thread that enters as a new session while P is exhausted, and waits until it waits.
fn held<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    region: &'static Region,
) -> (u32, std::thread::ScopedJoinHandle<'scope, (Entered, Duration)>) {
    let session = session(region);
    let handle = scope.spawn(move || {
        let start = Instant::now();
        (region.enter(session, clock::now()), start.elapsed())
    });
    while region.session(session).unwrap().state() != State::Queued && !handle.is_finished() {
        std::thread::yield_now();
    }
    (session, handle)
}

/// Whether a held session got a place in the end, even in the moment between queueing and sleeping.
fn admitted(waiter: std::thread::ScopedJoinHandle<'_, (Entered, Duration)>) -> bool {
    matches!(waiter.join().unwrap().0, Entered::Waited | Entered::AtOnce)
}

#[test]
fn a_stale_daemon_lets_everybody_pass() {
    let region = enforcing(1);
    region.enter(session(region), clock::now());
    std::thread::scope(|scope| {
        let (_, waiter) = held(scope, region);
        stop_beating(region);
        let (entered, took) = waiter.join().unwrap();
        assert_eq!(entered, Entered::Passed(PassReason::Stale));
        assert!(took < SOON, "{took:?}");
        // The next one does not even queue.
        let start = Instant::now();
        assert_eq!(region.enter(session(region), clock::now()), Entered::Passed(PassReason::Stale));
        assert!(start.elapsed() < SOON);
    });
    assert_eq!(region.counter(Counter::Stale), 2);
}

#[test]
fn an_opened_gate_lets_everybody_pass_in_turn() {
    let region = enforcing(1);
    region.enter(session(region), clock::now());
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..20).map(|_| held(scope, region)).collect();
        let start = Instant::now();
        region.set_off(true);
        for (_, waiter) in waiters {
            assert_eq!(waiter.join().unwrap().0, Entered::Passed(PassReason::GateOpened));
        }
        // One at once, and one more every five milliseconds.
        assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    });
    assert_eq!(region.pending(), 0);
}

#[test]
fn a_hold_ends_at_its_limit() {
    let region = enforcing(1);
    region.apply(&Settings {
        parallelism: 1,
        hold_max: Nanos::from_millis(300),
        ..Settings::default()
    });
    region.enter(session(region), clock::now());
    std::thread::scope(|scope| {
        let (_, waiter) = held(scope, region);
        let (entered, took) = waiter.join().unwrap();
        assert_eq!(entered, Entered::Passed(PassReason::HoldLimit));
        assert!(took >= Duration::from_millis(300), "{took:?}");
    });
    assert_eq!(region.counter(Counter::HoldLimit), 1);
}

#[test]
fn a_shut_down_connection_is_released_at_once_and_never_held_again() {
    let region = enforcing(1);
    region.enter(session(region), clock::now());
    std::thread::scope(|scope| {
        let (session, waiter) = held(scope, region);
        let start = Instant::now();
        region.cancel(session);
        assert_eq!(waiter.join().unwrap().0, Entered::Passed(PassReason::Cancelled));
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        region.leave(session);
        let start = Instant::now();
        assert_eq!(region.enter(session, clock::now()), Entered::Passed(PassReason::Cancelled));
        assert!(start.elapsed() < SOON);
    });
    assert_eq!(region.pending(), 0, "nothing of it stays in the queue");
}

#[test]
fn shrinking_blocks_nobody_and_growing_admits_at_once() {
    let region = enforcing(4);
    let inside: Vec<u32> = (0..4).map(|_| session(region)).collect();
    for &session in &inside {
        assert_eq!(region.enter(session, clock::now()), Entered::AtOnce);
    }
    region.apply(&Settings { parallelism: 2, ..Settings::default() });
    std::thread::scope(|scope| {
        let (waiting, waiter) = held(scope, region);
        // Two leave: still two inside, so no session enters, whichever permits were theirs.
        region.leave(inside[0]);
        region.leave(inside[1]);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(region.session(waiting).unwrap().state(), State::Queued);
        // One more: now there is room for one.
        region.leave(inside[2]);
        assert!(admitted(waiter));
        let (_, waiter) = held(scope, region);
        region.apply(&Settings { parallelism: 8, ..Settings::default() });
        assert!(admitted(waiter));
    });
}

#[test]
fn after_shrinking_no_more_than_the_new_p_enter() {
    let region = enforcing(6);
    let sessions: Vec<u32> = (0..6).map(|_| session(region)).collect();
    for &session in &sessions {
        region.enter(session, clock::now());
    }
    region.apply(&Settings { parallelism: 1, ..Settings::default() });
    for &session in &sessions {
        region.leave(session);
    }
    assert_eq!(region.enter(sessions[5], clock::now()), Entered::AtOnce);
    std::thread::scope(|scope| {
        let (_, waiter) = held(scope, region);
        region.leave(sessions[5]);
        assert!(admitted(waiter));
    });
}

#[test]
fn a_lent_permit_serves_others_and_its_owner_comes_back_at_once() {
    let region = enforcing(1);
    let owner = session(region);
    region.enter(owner, clock::now());
    std::thread::scope(|scope| {
        let (other, waiter) = held(scope, region);
        region.lend(owner, headworks_region::Pause::Thinking);
        assert!(admitted(waiter), "the permit went to who waited");
        let start = Instant::now();
        region.reenter(owner);
        assert!(start.elapsed() < SOON, "an owner of a transaction never waits");
        assert_eq!(region.session(owner).unwrap().state(), State::Owed);

        // The next free permit settles the debt, before any waiter gets one.
        let (third, third_waiter) = held(scope, region);
        region.leave(other);
        assert_eq!(region.session(owner).unwrap().state(), State::Running);
        assert_eq!(region.session(third).unwrap().state(), State::Queued);
        region.leave(owner);
        assert!(admitted(third_waiter));
    });
    assert_eq!(region.counter(Counter::Lent), 1);
    assert_eq!(region.counter(Counter::Overdraft), 1);
}

#[test]
fn an_owner_that_ends_without_a_permit_leaves_no_debt() {
    let region = enforcing(1);
    let (owner, other) = (session(region), session(region));
    region.enter(owner, clock::now());
    region.lend(owner, headworks_region::Pause::Thinking);
    region.enter(other, clock::now());
    region.reenter(owner);
    region.leave(owner);
    assert_eq!(region.pending(), 0);
    region.leave(other);
    assert_eq!(region.enter(owner, clock::now()), Entered::AtOnce);
}

#[test]
fn unregistering_gives_everything_back_whatever_the_user_was_doing() {
    let region = enforcing(1);
    let first = session(region);
    region.enter(first, clock::now());
    std::thread::scope(|scope| {
        let (_, waiter) = held(scope, region);
        region.unregister(first);
        assert!(admitted(waiter));
    });
    assert_eq!(session(region), first, "the slot is free again");
}

#[test]
fn a_full_table_is_counted_and_refuses() {
    let region = enforcing(1);
    for _ in 0..SESSIONS {
        session(region);
    }
    assert_eq!(region.register(1, clock::now()), None);
    assert_eq!(region.counter(Counter::SlotTableFull), 1);
    for leaver in [SESSIONS as u32 - 1, 5, 700] {
        region.unregister(leaver);
    }
    let found: BTreeSet<u32> = (0..3).map(|_| session(region)).collect();
    assert_eq!(found, BTreeSet::from([5, 700, SESSIONS as u32 - 1]));
    assert_eq!(region.register(1, clock::now()), None);
}

#[test]
fn observing_holds_nobody() {
    let region = region();
    region.apply(&Settings { mode: Mode::DryRun, parallelism: 1, ..Settings::default() });
    for _ in 0..10 {
        let entered = region.enter(session(region), clock::now());
        assert_eq!(entered, Entered::Passed(PassReason::NotEnforcing));
    }
    assert_eq!(region.pending(), 0);
}

#[test]
fn what_a_dead_thread_left_half_done_is_made_anew() {
    let region = enforcing(1);
    let first = session(region);
    region.enter(first, clock::now());
    std::thread::scope(|scope| {
        let (_, waiter) = held(scope, region);
        // A thread dies with the lock in its hand.
        std::thread::spawn(move || region.die_with_the_lock()).join().unwrap();
        region.leave(first);
        assert!(admitted(waiter), "the queue survived");
    });
    assert_eq!(region.counter(Counter::LockInherited), 1);
}

#[test]
fn the_users_of_a_class_that_left_are_still_counted() {
    let region = enforcing(4);
    region.set_class(0, "default", 1000, headworks_policy::wrr::ClassShare::default(), false);
    let session = session(region);
    let slot = region.session(session).unwrap();
    region.record(session, slot, Nanos(1_000_000), (Nanos(0), Nanos(2_000_000)), 1);
    region.unregister(session);
    let snapshot = region.snapshot(clock::now());
    assert_eq!(snapshot.classes[0].totals.requests, 1);
    assert_eq!(snapshot.classes[0].totals.wait, Nanos(1_000_000));
    assert_eq!(snapshot.classes[0].latency.iter().sum::<u64>(), 1);
}
