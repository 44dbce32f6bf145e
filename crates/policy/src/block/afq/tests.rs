//! Strides, turns, classes and what is sent at once.

use super::super::testing::{drain, read, write};
use super::*;

const MS: u64 = 1_000_000;

/// A millisecond for each sector, no seeks, no turns.
fn plain() -> Settings {
    Settings { transfer: Nanos(MS), depth: 1, ..Settings::flash() }
}

fn of(cause: u32, level: u8, sector: u64) -> Request {
    Request { cause, level, ..read(sector, 1) }
}

/// Whose requests go, in order, when A to C have one in the queue at all times.
fn order(settings: Settings, levels: &[u8], count: usize) -> String {
    let mut afq = Box::new(Afq::new(settings));
    let mut sector = 0;
    let mut add = |afq: &mut Afq, who: usize| {
        // A gap, so that no two requests are joined.
        sector += 10;
        afq.add(Nanos(0), who as Index, &of(who as u32, levels[who], sector));
    };
    for who in 0..levels.len() {
        add(&mut afq, who);
    }
    let mut order = String::new();
    for _ in 0..count {
        let Dispatch::Request(index) = afq.dispatch(Nanos(0)) else { panic!("all wait") };
        order.push(char::from(b'A' + index as u8));
        afq.completed(Nanos(0), index, Nanos(0));
        add(&mut afq, usize::from(index));
    }
    order
}

#[test]
fn strides_follow_weights() {
    // Weights 8 and 4. Passes after each step, in eighths: A 1, B 2, A 2, then B waits first.
    let two = order(plain(), &[0, 4], 12);
    assert_eq!(two.matches('A').count(), 8, "{two}");
    assert!(!two.contains("BB") && !two.contains("AAA"), "{two}");
    // 8 : 2 : 1.
    let three = order(plain(), &[0, 6, 7], 22);
    let count = |who| three.matches(who).count();
    assert_eq!((count('A'), count('B'), count('C')), (16, 4, 2), "{three}");
}

#[test]
fn a_turn_lasts_for_a_quantum() {
    let settings = Settings { quantum: Nanos(3 * MS), ..plain() };
    // Here each has one request at a time in the queue, and the next before the next choice.
    assert_eq!(order(settings, &[4, 4], 12), "AAABBBAAABBB");
}

#[test]
fn cost_and_not_the_number_of_requests_is_shared() {
    let mut afq = Box::new(Afq::new(plain()));
    for step in 0..20 {
        afq.add(Nanos(0), step, &Request { cause: 1, ..read(1_000 * u64::from(step), 4) });
        afq.add(
            Nanos(0),
            100 + step,
            &Request { cause: 2, ..read(50_000 + 10 * u64::from(step), 1) },
        );
    }
    let order: Vec<Index> = drain(afq.as_mut(), Nanos(0)).into_iter().take(15).collect();
    // Four sectors at a time against one: 3 and 12 of 15.
    assert_eq!(order.iter().filter(|index| **index < 100).count(), 3, "{order:?}");
}

#[test]
fn whoever_rested_has_no_claim_on_the_past() {
    let mut afq = Box::new(Afq::new(plain()));
    for step in 0..50 {
        afq.add(Nanos(0), step, &of(1, 4, 10 * u64::from(step)));
    }
    for _ in 0..40 {
        let Dispatch::Request(index) = afq.dispatch(Nanos(0)) else { panic!("it waits") };
        afq.completed(Nanos(0), index, Nanos(0));
    }
    for step in 0..10 {
        afq.add(Nanos(0), 100 + step, &of(2, 4, 100_000 + 10 * u64::from(step)));
    }
    let order = drain(afq.as_mut(), Nanos(0));
    let second = order.iter().take(10).filter(|index| **index >= 100).count();
    assert!((5..=6).contains(&second), "{order:?}");
}

#[test]
fn the_device_is_kept_for_a_reader_with_a_claim() {
    let settings = Settings { anticipate: Nanos(2 * MS), ..plain() };
    let mut afq = Box::new(Afq::new(settings));
    afq.add(Nanos(0), 0, &of(1, 0, 0));
    afq.add(Nanos(0), 1, &of(2, 7, 500));
    assert_eq!(afq.dispatch(Nanos(0)), Dispatch::Request(0));
    afq.completed(Nanos(MS), 0, Nanos(MS));
    // The other one has the lesser pass: the device is not kept.
    assert_eq!(afq.dispatch(Nanos(MS)), Dispatch::Request(1));
    afq.add(Nanos(MS), 0, &of(1, 0, 10));
    afq.completed(Nanos(2 * MS), 1, Nanos(MS));
    afq.add(Nanos(2 * MS), 1, &of(2, 7, 510));
    assert_eq!(afq.dispatch(Nanos(2 * MS)), Dispatch::Request(0));
    afq.completed(Nanos(3 * MS), 0, Nanos(MS));
    // 2/8 against 1/1: the first one is about to ask again, and is waited for, but not for ever.
    assert_eq!(afq.dispatch(Nanos(3 * MS)), Dispatch::Wait(Nanos(5 * MS)));
    assert_eq!(afq.dispatch(Nanos(5 * MS)), Dispatch::Request(1));
}

#[test]
fn the_idle_class_waits_for_silence_and_real_time_for_nobody() {
    let mut afq = Box::new(Afq::new(Settings { idle_grace: Nanos(5 * MS), ..plain() }));
    let class = |class, sector| Request { class, ..of(1, 4, sector) };
    afq.add(Nanos(0), 0, &class(IoClass::Idle, 0));
    afq.add(Nanos(0), 1, &class(IoClass::BestEffort, 100));
    afq.add(Nanos(0), 2, &class(IoClass::RealTime, 200));
    assert_eq!(afq.dispatch(Nanos(0)), Dispatch::Request(2));
    afq.completed(Nanos(MS), 2, Nanos(MS));
    assert_eq!(afq.dispatch(Nanos(MS)), Dispatch::Request(1));
    assert!(matches!(afq.dispatch(Nanos(MS)), Dispatch::Wait(_)), "the other is with the device");
    afq.completed(Nanos(2 * MS), 1, Nanos(MS));
    assert_eq!(afq.dispatch(Nanos(3 * MS)), Dispatch::Wait(Nanos(7 * MS)));
    assert_eq!(afq.dispatch(Nanos(7 * MS)), Dispatch::Request(0));
}

#[test]
fn beneath_scheduled_calls_writes_go_at_once_and_are_charged() {
    let mut afq = Box::new(Afq::new(plain().beneath_calls()));
    for step in 0..8 {
        afq.add(Nanos(0), step, &of(1, 4, 10 * u64::from(step)));
        afq.add(Nanos(0), 20 + step, &of(2, 4, 1_000 + 10 * u64::from(step)));
    }
    for step in 0..4 {
        afq.add(
            Nanos(0),
            40 + step,
            &Request { cause: 2, ..write(90_000 + 10 * u64::from(step), 1) },
        );
    }
    let order = drain(afq.as_mut(), Nanos(0));
    assert_eq!(order[..4], [40, 41, 42, 43]);
    // The writer's reads wait until the other has had as much.
    assert_eq!(order[4..8], [0, 1, 2, 3], "{order:?}");
}

#[test]
fn a_far_seek_costs_more_than_a_near_one() {
    let mut afq = Box::new(Afq::default());
    // One goes to and fro over the disk, the other reads on and on.
    let mut served = [0; 2];
    let mut at = [0u64, 1 << 20];
    for who in [0, 1u16] {
        afq.add(Nanos(0), who, &Request { cause: u32::from(who), ..read(at[usize::from(who)], 8) });
    }
    for step in 0..3_000u64 {
        let Dispatch::Request(index) = afq.dispatch(Nanos(step * 10 * MS)) else {
            panic!("all wait")
        };
        afq.completed(Nanos(step * 10 * MS), index, Nanos(MS));
        let who = usize::from(index);
        served[who] += 1;
        at[who] = if who == 0 { (served[0] % 2) << 30 } else { at[1] + 16 };
        afq.add(
            Nanos(step * 10 * MS),
            index,
            &Request { cause: u32::from(index), ..read(at[who], 8) },
        );
    }
    assert!(served[1] > 50 * served[0], "{served:?}");
}
