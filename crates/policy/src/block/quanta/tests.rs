//! Quanta, what fits into them, and the options.

use super::super::testing::read;
use super::*;

const MS: u64 = 1_000_000;

fn of(cause: u32, sector: u64) -> Request {
    Request { cause, ..read(10 * sector, 1) }
}

fn share(weight: u32) -> Option<Share> {
    Some(Share { weight, best_effort: false })
}

/// A has 70 slices, B 30; both have `depth` requests.
fn two(settings: Settings, depth: Index) -> Box<Quanta> {
    let mut quanta = Box::new(Quanta::new(settings));
    assert!(quanta.set_share(1, share(70)) && quanta.set_share(2, share(30)));
    for index in 0..depth {
        quanta.add(Nanos(0), index, &of(1, index.into()));
        quanta.add(Nanos(0), 100 + index, &of(2, 1_000 + u64::from(index)));
    }
    quanta
}

fn dispatched(quanta: &mut Quanta, now: Nanos) -> Vec<Index> {
    let next = || match quanta.dispatch(now) {
        Dispatch::Request(index) => Some(index),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn requests_go_in_the_quantum_of_their_application() {
    let mut quanta = two(Settings::default(), 40);
    // The first turn is the second application's: 30 ms; 3 · 8 / 1 fit.
    assert_eq!(dispatched(&mut quanta, Nanos(0)), [100, 101, 102]);
    assert_eq!(quanta.dispatch(Nanos(MS)), Dispatch::Wait(Nanos(30 * MS)));
    // 70 ms: 8 · 8 fit.
    assert_eq!(dispatched(&mut quanta, Nanos(30 * MS)).len(), 8);
    assert_eq!(quanta.dispatch(Nanos(40 * MS)), Dispatch::Wait(Nanos(100 * MS)));
}

#[test]
fn the_worked_example() {
    let mut quanta = two(Settings::default(), 40);
    quanta.applications[1].concurrency = 2.0;
    // (n + 1) · 8 / 2 ≤ 30: seven.
    assert_eq!(dispatched(&mut quanta, Nanos(0)).len(), 7);
    quanta.completed(Nanos(22 * MS), 100, Nanos(8 * MS));
    assert_eq!(quanta.dispatch(Nanos(22 * MS)), Dispatch::Wait(Nanos(30 * MS)));
}

#[test]
fn an_unused_quantum_is_lost_unless_work_is_conserved() {
    for work_conserving in [false, true] {
        let mut quanta = Box::new(Quanta::new(Settings { work_conserving, ..Settings::default() }));
        quanta.set_share(1, share(70));
        quanta.set_share(2, share(30));
        quanta.add(Nanos(0), 0, &of(1, 0));
        let expected =
            if work_conserving { Dispatch::Request(0) } else { Dispatch::Wait(Nanos(30 * MS)) };
        assert_eq!(quanta.dispatch(Nanos(0)), expected);
    }
}

#[test]
fn an_overrun_is_a_debt_if_asked_for() {
    for (debt, fit) in [(false, 3), (true, 1)] {
        let mut quanta = two(Settings { debt, ..Settings::default() }, 40);
        let late = dispatched(&mut quanta, Nanos(0));
        dispatched(&mut quanta, Nanos(30 * MS));
        for index in late {
            // 14 ms after the end of their quantum.
            quanta.completed(Nanos(44 * MS), index, Nanos(8 * MS));
        }
        for application in &mut quanta.applications {
            application.concurrency = 1.0;
        }
        // 30 ms less 14 ms are two requests of 8 ms; the means make it one less at most.
        let again = dispatched(&mut quanta, Nanos(100 * MS)).len();
        assert!((fit..=fit + 1).contains(&again), "debt {debt}: {again}");
    }
}

#[test]
fn an_application_without_a_share_leaves_with_its_last_request() {
    let mut quanta = Box::<Quanta>::default();
    for index in 0..4 {
        quanta.add(Nanos(0), index, &of(u32::from(index), index.into()));
    }
    let mut now = Nanos(0);
    while quanta.waiting() > 0 {
        match quanta.dispatch(now) {
            Dispatch::Request(index) => quanta.completed(now, index, Nanos(MS)),
            Dispatch::Wait(until) => now = until,
            Dispatch::Idle => break,
        }
    }
    quanta.turn_to(now + Nanos(99 * MS));
    quanta.turn_to(now + Nanos(198 * MS));
    assert!(quanta.applications.len() <= 1, "{:?}", quanta.applications);
}
