//! Tags, depth, live shares, best effort and flushes.

use super::super::testing::read;
use super::*;

const MS: u64 = 1_000_000;

/// Each request costs 1 ms, wherever it is.
fn plain(depth: u32) -> Settings {
    Settings { depth, ..Settings::array(1, Nanos(MS), Nanos(0)) }
}

fn of(cause: u32, sector: u64) -> Request {
    Request { cause, ..read(10 * sector, 1) }
}

fn share(weight: u32) -> Option<Share> {
    Some(Share { weight, best_effort: false })
}

fn next(sfq: &mut Sfq) -> Option<Index> {
    match sfq.dispatch(Nanos(0)) {
        Dispatch::Request(index) => Some(index),
        _ => None,
    }
}

/// Applications of these weights, each with requests in the queue at all times; whose go.
fn order(sfq: &mut Sfq, count: usize, applications: u32) -> String {
    let mut sector = 0;
    for index in 0..10 * applications as Index {
        sector += 1;
        sfq.add(Nanos(0), index, &of(u32::from(index) % applications, sector));
    }
    let mut order = String::new();
    let mut device = std::collections::VecDeque::new();
    while order.len() < count {
        while let Some(index) = next(sfq) {
            device.push_back(index);
            order.push(char::from(b'A' + (u32::from(index) % applications) as u8));
        }
        let index = device.pop_front().expect("the device has something");
        sfq.completed(Nanos(0), index, Nanos(0));
        sector += 1;
        sfq.add(Nanos(0), index, &of(u32::from(index) % applications, sector));
    }
    order
}

#[test]
fn the_worked_example() {
    let mut sfq = Box::new(Sfq::new(plain(3)));
    sfq.set_share(0, share(2));
    sfq.set_share(1, share(1));
    assert_eq!(order(&mut sfq, 9, 2), "ABAABAABA");
}

#[test]
fn depth_is_never_exceeded_and_always_used() {
    let mut sfq = Box::new(Sfq::new(plain(3)));
    for index in 0..10 {
        sfq.add(Nanos(0), index, &of(index.into(), index.into()));
    }
    assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 3);
    sfq.completed(Nanos(0), 0, Nanos(0));
    assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 1);
    assert!(sfq.set_depth(5, 5));
    assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 2);
}

#[test]
fn large_requests_are_fewer_with_the_device_than_small_ones() {
    // A sector costs 1 ms, and 4 ms have room.
    let sector = Settings::array(1, Nanos(0), Nanos(MS));
    let room = Nanos(4 * MS);
    let limits = Limits { sectors: 0 };
    let mut sfq = Box::new(Sfq::new(Settings { depth: 8, room, limits, ..sector }));
    let large = |at: u64| Request { cause: 1, ..read(1_000 * at, 3) };
    for index in 0..4 {
        sfq.add(Nanos(0), index, &large(index.into()));
    }
    // Alone, it has all places.
    let long_ago = CONTENDED;
    for index in 0..4 {
        assert_eq!(sfq.dispatch(long_ago), Dispatch::Request(index));
    }
    for index in 0..4 {
        sfq.completed(long_ago, index, Nanos(0));
    }
    sfq.add(Nanos(0), 5, &of(2, 8_000));
    assert_eq!(next(&mut sfq), Some(5));
    sfq.completed(Nanos(0), 5, Nanos(0));
    for index in 0..4 {
        sfq.add(Nanos(0), index, &large(index.into()));
    }
    // The second finds room and takes more than there is.
    assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 2);
    sfq.add(Nanos(0), 4, &of(2, 9_000));
    assert_eq!(next(&mut sfq), None);
    sfq.completed(Nanos(0), 0, Nanos(0));
    assert_eq!(next(&mut sfq), Some(4), "who comes waits for one of them");
    assert_eq!(next(&mut sfq), None, "3 + 1 ms are there");
    sfq.completed(Nanos(0), 4, Nanos(0));
    assert_eq!(next(&mut sfq), Some(2));
    // One that is larger than the room goes alone.
    let mut sfq = Box::new(Sfq::new(Settings { depth: 8, room, limits, ..sector }));
    for index in 0..2 {
        let request = Request { cause: 1 + u32::from(index), ..read(100 * u64::from(index), 9) };
        sfq.add(Nanos(0), index, &request);
    }
    assert_eq!((next(&mut sfq), next(&mut sfq)), (Some(0), None));
}

#[test]
fn the_next_piece_goes_before_other_requests_and_merges_stay_pieces() {
    let mut sfq = Box::new(Sfq::new(Settings { depth: 1, ..Settings::flash() }));
    sfq.add(Nanos(0), 0, &of(2, 9_000));
    let large = |sector| Request { cause: 1, ..read(sector, 100) };
    assert_eq!(sfq.add(Nanos(0), 1, &large(0)), Added::Queued);
    assert_eq!(sfq.add(Nanos(0), 2, &large(100)), Added::Queued, "200 sectors are no piece");
    let rest = Request { continues: true, ..large(5_000) };
    sfq.add(Nanos(0), 3, &rest);
    let mut order = Vec::new();
    while let Some(index) = next(&mut sfq) {
        order.push(index);
        sfq.completed(Nanos(0), index, Nanos(0));
    }
    assert_eq!(order, [0, 3, 1, 2]);
    // Alone for a while, an application has whole requests.
    assert_eq!(sfq.most_sectors(CONTENDED), u32::MAX);
}

#[test]
fn best_effort_has_its_part_of_the_room() {
    let sector = Settings::array(1, Nanos(0), Nanos(MS));
    let settings =
        Settings { depth: 8, room: Nanos(8 * MS), limits: Limits { sectors: 0 }, ..sector };
    for (best_effort, at_once) in [(8, 3), (2, 1)] {
        let mut sfq = Box::new(Sfq::new(settings));
        sfq.set_depth(8, best_effort);
        sfq.set_share(1, Some(Share { weight: 1, best_effort: true }));
        sfq.add(Nanos(0), 9, &of(2, 9_000));
        assert_eq!(next(&mut sfq), Some(9));
        sfq.completed(Nanos(0), 9, Nanos(0));
        for index in 0..4 {
            sfq.add(Nanos(0), index, &Request { cause: 1, ..read(1_000 * u64::from(index), 3) });
        }
        assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), at_once);
        // It is no best effort from then on: what is with the device does not bind the rest.
        sfq.set_share(1, share(1));
        assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 3 - at_once);
    }
}

#[test]
fn a_weight_counts_from_the_next_request() {
    let mut sfq = Box::new(Sfq::new(plain(1)));
    sfq.set_share(0, share(1_000));
    sfq.set_share(1, share(1));
    let before = order(&mut sfq, 100, 2);
    assert_eq!(before.matches('B').count(), 1, "{before}");
    // B was charged 1,000 times as much for its one request. That is no debt under equal weights.
    sfq.set_share(1, share(1_000));
    let mut served = [0; 2];
    for _ in 0..10 {
        let index = next(&mut sfq).expect("all wait");
        sfq.completed(Nanos(0), index, Nanos(0));
        served[usize::from(index) % 2] += 1;
    }
    assert!((4..=6).contains(&served[1]), "{served:?}");
}

#[test]
fn best_effort_is_bounded_in_the_device() {
    let mut sfq = Box::new(Sfq::new(plain(8)));
    sfq.set_share(1, share(100));
    for index in 0..10 {
        sfq.add(Nanos(0), index, &of(2, index.into()));
        sfq.add(Nanos(0), 20 + index, &of(3, 100 + u64::from(index)));
    }
    assert!(sfq.set_depth(8, 2));
    assert_eq!(std::iter::from_fn(|| next(&mut sfq)).count(), 2);
    for index in 40..50 {
        sfq.add(Nanos(0), index, &of(1, 200 + u64::from(index)));
    }
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut sfq)).collect();
    assert!(rest.len() == 6 && rest.iter().all(|index| *index >= 40), "{rest:?}");
    // An application that gets a target is no longer counted.
    sfq.set_share(2, share(100));
    sfq.completed(Nanos(0), 40, Nanos(0));
    assert!(next(&mut sfq).is_some());
    // Zero is one: none starves.
    sfq.set_depth(8, 0);
    sfq.completed(Nanos(0), 20, Nanos(0));
    for index in rest.into_iter().skip(1) {
        sfq.completed(Nanos(0), index, Nanos(0));
    }
    assert!(std::iter::from_fn(|| next(&mut sfq)).any(|index| (20..30).contains(&index)));
}

#[test]
fn a_flush_waits_for_no_backlog_and_is_not_free() {
    let mut sfq = Box::new(Sfq::new(Settings { flush: Nanos(5 * MS), ..plain(1) }));
    for index in 0..100 {
        sfq.add(Nanos(0), index, &of(1, index.into()));
        sfq.add(Nanos(0), 200 + index, &of(2, 500 + u64::from(index)));
    }
    next(&mut sfq);
    let flush = Request { operation: Operation::Flush, sector: 0, sectors: 0, ..of(2, 0) };
    sfq.add(Nanos(0), 400, &flush);
    sfq.completed(Nanos(0), 0, Nanos(0));
    assert_eq!(next(&mut sfq), Some(400), "before a hundred of both");
    // Endless flushes: each costs five requests of the other.
    let (mut index, mut others) = (400, 0);
    for _ in 0..60 {
        sfq.completed(Nanos(0), index, Nanos(0));
        if index == 400 {
            sfq.add(Nanos(0), 400, &flush);
        }
        index = next(&mut sfq).expect("all wait");
        others += u32::from(index < 200);
    }
    assert!((48..=51).contains(&others), "{others} of 60");
}

#[test]
fn rest_is_no_claim() {
    let mut sfq = Box::new(Sfq::new(plain(1)));
    for index in 0..60 {
        sfq.add(Nanos(0), index, &of(1, index.into()));
    }
    for _ in 0..40 {
        let index = next(&mut sfq).expect("it waits");
        sfq.completed(Nanos(0), index, Nanos(0));
    }
    for index in 100..120 {
        sfq.add(Nanos(0), index, &of(2, index.into()));
    }
    let mut late = 0;
    for _ in 0..20 {
        let index = next(&mut sfq).expect("both wait");
        sfq.completed(Nanos(0), index, Nanos(0));
        late += u32::from(index >= 100);
    }
    assert!((9..=11).contains(&late), "{late} of 20");
}

#[test]
fn nothing_is_owed_after_silence() {
    let mut sfq = Box::new(Sfq::new(plain(1)));
    sfq.set_share(1, share(1));
    sfq.set_share(2, share(1_000));
    sfq.add(Nanos(0), 0, &of(1, 0));
    assert_eq!(next(&mut sfq), Some(0));
    sfq.completed(Nanos(0), 0, Nanos(0));
    // Both start alike: the one that came first goes first, for all that it was charged.
    sfq.add(Nanos(0), 1, &of(1, 1));
    sfq.add(Nanos(0), 2, &of(2, 2));
    assert!(!sfq.others_wait(3) || sfq.others_wait(1));
    assert_eq!(next(&mut sfq), Some(1));
    assert!(sfq.others_wait(1) && !sfq.others_wait(2));
}

#[test]
fn best_effort_keeps_its_pace_although_the_device_is_idle() {
    let mut sfq = Box::new(Sfq::new(plain(8)));
    sfq.set_share(1, share(100));
    sfq.set_share(2, Some(Share { weight: 100, best_effort: true }));
    // A tenth of the device's time: a request of 1 ms each 10 ms.
    assert!(sfq.set_pace(Some(100_000)));
    let (mut index, mut others) = (0, 0);
    let (mut now, mut served) = (1_000 * MS, [0; 2]);
    while now < 2_000 * MS {
        // Both have something in the queue at all times; best effort waits for nothing else.
        while others < 3 {
            sfq.add(Nanos(now), index, &of(2, 10 * u64::from(index)));
            (index, others) = ((index + 1) % 200, others + 1);
        }
        if now % (20 * MS) == 0 {
            sfq.add(Nanos(now), 300, &of(1, 5_000));
        }
        loop {
            match sfq.dispatch(Nanos(now)) {
                Dispatch::Request(300) => {
                    served[0] += 1;
                    sfq.completed(Nanos(now), 300, Nanos(0));
                }
                Dispatch::Request(index) => {
                    served[1] += 1;
                    others -= 1;
                    sfq.completed(Nanos(now), index, Nanos(0));
                }
                Dispatch::Wait(until) => {
                    assert!(until > Nanos(now) && until <= Nanos(now + 10 * MS), "{until:?}");
                    break;
                }
                other => panic!("{other:?}: best effort waits"),
            }
        }
        now += MS;
    }
    assert!((98..=102).contains(&served[1]), "{served:?}");
    assert_eq!(served[0], 50, "others do not wait for its pace");
    // Without a pace it has all again, at once.
    sfq.set_pace(None);
    assert!(matches!(sfq.dispatch(Nanos(now)), Dispatch::Request(_)));
}
