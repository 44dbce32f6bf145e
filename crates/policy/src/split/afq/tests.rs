use super::*;
use crate::block::IoClass;

fn call(account: Account) -> Call {
    Call { account, bytes: 4096, ..Call::default() }
}

fn afq(depth: u32, levels: &[u8]) -> Box<Afq> {
    let mut afq = Box::new(Afq::new(Settings { depth, ..Settings::for_device(true) }));
    for (account, level) in levels.iter().enumerate() {
        let settings = AccountSettings { level: *level, ..AccountSettings::default() };
        afq.set_account(Nanos(0), account as Account, &settings);
    }
    afq
}

/// Callers of random writes with `fsync`, several for each level, which call again 50 µs after
/// each return. Returns how often each account was served.
fn synchronous(levels: &[u8], callers: usize, depth: u32, rounds: usize) -> Vec<usize> {
    let mut afq = afq(depth, levels);
    let mut served = vec![0; levels.len()];
    let mut now;
    let account_of = |task: Task| (usize::from(task) / callers) as Account;
    let mut running: Vec<(Nanos, Task)> = Vec::new();
    let mut calls: Vec<(Nanos, Task)> =
        (0..(levels.len() * callers) as Task).map(|task| (Nanos(0), task)).collect();
    while served.iter().sum::<usize>() < rounds {
        let start = |running: &mut Vec<(Nanos, Task)>, now: Nanos, task| {
            let busy = running.iter().map(|(end, _)| *end).max().unwrap_or(now).max(now);
            running.push((busy + Nanos::from_millis(8), task));
        };
        calls.sort();
        running.sort();
        let call_first = calls.first().is_some_and(|c| running.first().is_none_or(|r| c.0 <= r.0));
        if call_first {
            let (at, task) = calls.remove(0);
            now = at;
            let cost = DeviceCost::DISK.access(1 << 40, 0, 4096);
            let account = account_of(task);
            afq.buffer_dirty(
                now,
                &Dirtied { account, new_bytes: 4096, cost, ..Dirtied::default() },
            );
            if afq.fsync_entry(now, task, &call(account)) == Entry::Go {
                start(&mut running, now, task);
            }
        } else {
            let (at, task) = running.remove(0);
            now = at;
            let account = account_of(task);
            served[usize::from(account)] += 1;
            afq.buffer_clean(now, &Cleaned { bytes: 4096, ..Cleaned::default() });
            afq.fsync_return(now, task, &call(account), Nanos::from_millis(8));
            calls.push((now + Nanos::from_micros(50), task));
        }
        while let Step::Admit(task) = afq.dispatch(now) {
            start(&mut running, now, task);
        }
    }
    served
}

/// The paper's Figure 2.13(c): 5 callers for each of 8 priorities; 3 % from the ideal.
#[test]
fn synchronous_random_writes_follow_the_priorities() {
    let levels: Vec<u8> = (0..8).collect();
    for depth in [1, 2, 8] {
        let served = synchronous(&levels, 5, depth, 7_200);
        for (level, count) in served.iter().enumerate() {
            let ideal = 7_200.0 * (8 - level) as f64 / 36.0;
            let off = (*count as f64 - ideal).abs() / ideal;
            assert!(off < 0.03, "level {level}: {count} of {ideal} at depth {depth}");
        }
    }
}

/// The paper's Figure 2.13(a): threads that read in sequence while the kernel reads ahead.
#[test]
fn streams_follow_the_priorities_although_their_calls_hardly_wait() {
    let levels: Vec<u8> = (0..8).collect();
    let mut afq = afq(2, &levels);
    let stream = |account: Account| Request {
        operation: Operation::Read,
        sector: 0,
        sectors: 512,
        fua: false,
        sync: false,
        cause: account.into(),
        class: IoClass::BestEffort,
        level: 4,
        deadline: None,
        continues: false,
    };
    let mut bytes = [0u64; 8];
    let mut now = Nanos(1_000_000_000);
    let mut waiting = [false; 8];
    // Each call that may go reads 256 KiB. Its thread calls again after 2 ms.
    for _ in 0..20_000 {
        now += Nanos::from_millis(2);
        let mut done: Vec<Task> = (0..8)
            .filter(|task| !waiting[usize::from(*task)])
            .filter(|task| afq.req_add(now, *task, &stream(*task)) == Entry::Go)
            .collect();
        waiting = [true; 8];
        for task in &done {
            afq.req_complete(now, *task, &stream(*task), Nanos(10_000));
        }
        while let Step::Admit(task) = afq.dispatch(now) {
            afq.req_complete(now, task, &stream(task), Nanos(10_000));
            done.push(task);
        }
        for task in done {
            waiting[usize::from(task)] = false;
            bytes[usize::from(task)] += 1;
        }
    }
    let all: u64 = bytes.iter().sum();
    for (level, count) in bytes.iter().enumerate() {
        let share = *count as f64 / all as f64 / ((8 - level) as f64 / 36.0);
        assert!((share - 1.0).abs() < 0.1, "level {level}: {bytes:?}");
    }
}

#[test]
fn who_was_away_claims_nothing_and_a_moment_loses_nothing() {
    let mut afq = afq(1, &[4, 4]);
    assert_eq!(afq.fsync_entry(Nanos(0), 0, &call(0)), Entry::Go);
    for step in 1..100 {
        let now = Nanos::from_millis(8 * step);
        afq.fsync_return(now, 0, &call(0), Nanos(0));
        assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Go, "no other waits");
    }
    let now = Nanos::from_millis(800);
    assert_eq!(afq.fsync_entry(now, 1, &call(1)), Entry::Wait);
    afq.fsync_return(now, 0, &call(0), Nanos(0));
    assert_eq!(afq.dispatch(now), Step::Admit(1));
    assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Wait);
    afq.fsync_return(now, 1, &call(1), Nanos(0));
    assert_eq!(afq.fsync_entry(now, 2, &call(1)), Entry::Wait);
    assert_eq!(afq.dispatch(now), Step::Admit(0), "no account has a second turn in a row");
}

#[test]
fn writes_over_dirty_pages_are_never_held_and_cost_nothing() {
    let mut afq = afq(1, &[0, 7]);
    for _ in 0..1_000 {
        assert_eq!(afq.write_entry(Nanos(5), 0, &call(1)), Entry::Go);
        afq.buffer_dirty(Nanos(5), &Dirtied { account: 1, ..Dirtied::default() });
        afq.write_return(Nanos(5), 0, &call(1));
    }
    assert_eq!(afq.pass_of(1), 0);
}

#[test]
fn direct_writes_take_turns() {
    let mut afq = afq(1, &[0, 4]);
    let write = |account| Call { direct: 1, ..call(account) };
    let mut served = [0; 2];
    assert_eq!(afq.write_entry(Nanos(1), 0, &write(0)), Entry::Go);
    assert_eq!(afq.write_entry(Nanos(1), 1, &write(1)), Entry::Wait);
    let (mut now, mut running) = (Nanos(1), 0);
    for _ in 0..300 {
        now += Nanos::from_millis(8);
        let cost = Nanos::from_millis(8);
        let dirtied = Dirtied { account: running, new_bytes: 4096, cost, ..Dirtied::default() };
        afq.buffer_dirty(now, &dirtied);
        afq.buffer_clean(now, &Cleaned { charged: cost, ..Cleaned::default() });
        afq.write_return(now, running, &write(running));
        served[usize::from(running)] += 1;
        if afq.write_entry(now, running, &write(running)) == Entry::Wait {
            let Step::Admit(next) = afq.dispatch(now) else { panic!("the device is idle") };
            running = next;
        }
    }
    assert!(served[0] >= 198 && served[1] >= 98, "weights 8 and 4: {served:?}");
}

/// Writers without a pause; each piece takes 8 ms on the device. Returns the megabytes that each
/// wrote.
fn buffered(levels: &[u8], pieces: u32) -> Vec<u64> {
    let mut afq = afq(1, levels);
    let mut written = vec![0; levels.len()];
    let mib = 1 << 20;
    let write = |account| Call { pieces: 100, ..call(account) };
    let mut now = Nanos(1);
    let mut ordered = None;
    let mut calls: Vec<Task> = (0..levels.len() as Task).collect();
    for _ in 0..pieces {
        loop {
            let entered = calls.pop();
            let goes = match entered {
                Some(task) => {
                    (afq.write_entry(now, task, &write(task)) == Entry::Go).then_some(task)
                }
                None => match afq.dispatch(now) {
                    Step::Admit(task) => Some(task),
                    Step::Writeback { task, pieces } => {
                        ordered = Some((task, pieces));
                        None
                    }
                    _ => break,
                },
            };
            if let Some(task) = goes {
                let cost = DeviceCost::DISK.transfer(mib);
                let dirtied = Dirtied { account: task, new_bytes: mib, cost, ..Dirtied::default() };
                afq.buffer_dirty(now, &dirtied);
                afq.write_return(now, task, &write(task));
                written[usize::from(task)] += 1;
                calls.push(task);
            }
        }
        now += Nanos::from_millis(8);
        let (task, left) = ordered.expect("the device is not idle");
        ordered = (left > 1).then_some((task, left - 1));
        let charged = DeviceCost::DISK.transfer(mib);
        afq.buffer_clean(now, &Cleaned { bytes: mib, charged, ..Cleaned::default() });
        afq.written_back(now, task, 1, 99);
    }
    written
}

/// The paper's Figure 2.13(b): 16 % from the ideal.
#[test]
fn beyond_the_dirty_limit_writers_take_turns_and_write_back() {
    let written = buffered(&[0, 4, 7], 2_600);
    let all: u64 = written.iter().sum();
    assert!(all >= 2_600, "{written:?}: the device wrote all the time");
    for (account, weight) in [8.0, 4.0, 1.0].into_iter().enumerate() {
        let share = written[account] as f64 / all as f64;
        assert!((share / (weight / 13.0) - 1.0).abs() < 0.05, "{written:?}");
    }
}

#[test]
fn a_writer_goes_on_when_it_has_written_back_or_makes_nothing_dirty() {
    let mut afq = afq(1, &[0, 0]);
    let dirtied =
        Dirtied { new_bytes: 1 << 40, cost: Nanos::from_millis(9_000), ..Dirtied::default() };
    afq.buffer_dirty(Nanos(0), &dirtied);
    assert_eq!(afq.write_entry(Nanos(0), 2, &call(0)), Entry::Go, "it has nothing dirty");
    let write = |account| Call { pieces: 2, ..call(account) };
    assert_eq!(afq.write_entry(Nanos(0), 3, &write(0)), Entry::Wait);
    assert_eq!(afq.dispatch(Nanos(0)), Step::Writeback { task: 3, pieces: 2 });
    assert_eq!(afq.write_entry(Nanos(0), 4, &write(0)), Entry::Wait);
    assert_eq!(afq.dispatch(Nanos(0)), Step::Wait(LATER), "one at a time");
    afq.written_back(Nanos(1), 3, 1, 1);
    assert_eq!(afq.dispatch(Nanos(1)), Step::Wait(Nanos(1) + LATER));
    afq.written_back(Nanos(1), 3, 1, 0);
    assert_eq!(afq.dispatch(Nanos(1)), Step::Admit(3));
    assert_eq!(afq.dispatch(Nanos(1)), Step::Writeback { task: 4, pieces: 2 });
    afq.cancel(Nanos(1), 4);
    assert_eq!(afq.dispatch(Nanos(1)), Step::Idle);
    // A write over dirty pages.
    afq.buffer_dirty(Nanos(1), &Dirtied { account: 1, ..Dirtied::default() });
    assert_eq!(afq.write_entry(Nanos(1), 5, &write(1)), Entry::Go);
}

#[test]
fn an_account_that_changes_hands_owes_nothing() {
    let mut afq = afq(1, &[4, 4]);
    let now = Nanos(1);
    assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Go);
    afq.charge(0, Nanos::from_millis(500));
    afq.fsync_return(now, 0, &call(0), Nanos::from_millis(500));
    assert!(afq.pass_of(0) > 0);
    afq.forget_account(0);
    assert_eq!(afq.pass_of(0), 0);
}

#[test]
fn whoever_comes_back_is_not_behind_all_for_one_long_call_of_a_neighbour() {
    let mut afq = afq(2, &[0, 7, 4]);
    let now = Nanos::from_millis(1_000);
    // One of low priority was admitted after it had used much, another one all the time.
    assert_eq!(afq.fsync_entry(now, 2, &call(2)), Entry::Go);
    afq.charge(1, Nanos::from_millis(500));
    assert_eq!(afq.fsync_entry(now, 1, &call(1)), Entry::Go);
    assert!(afq.reached > afq.pass_of(2));
    assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Wait);
    assert!(afq.pass_of(0) <= afq.pass_of(2));
}
