//! How long the region's lock is held, by P and the number of sessions: `make bench-lock`.

use crate::common::{enforcing, session};
use crate::control::{PERMITS, Settings};
use crate::layout::Counter;
use crate::{Entered, Region, clock};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use headworks_policy::{Nanos, SESSIONS};

thread_local! {
    static HELD: Cell<(u32, Nanos)> = const { Cell::new((0, Nanos(0))) };
}

/// This thread held the lock for so long.
pub(super) fn note(time: Nanos) {
    HELD.with(|held| {
        let (times, sum) = held.get();
        held.set((times + 1, sum + time));
    });
}

/// Number and sum of the holds of `work`, and how long it took altogether.
fn measure(work: impl FnOnce()) -> [u64; 3] {
    HELD.with(|held| held.set((0, Nanos(0))));
    let begun = clock::now();
    work();
    let took = clock::now().since(begun);
    let (times, sum) = HELD.with(Cell::get);
    [u64::from(times), sum.0, took.0]
}

fn ask(region: &Region, session: u32) -> Option<Entered> {
    region.enter_or_queue(session, region.begin_wait(clock::now()))
}

/// One size: the name of each operation, and what it takes.
fn size(places: u32, sessions: u32) -> Vec<(&'static str, [u64; 3])> {
    const ROUNDS: u32 = 2_000;
    let region = enforcing(places);
    let all: Vec<u32> = (0..sessions).map(|_| session(region)).collect();
    let (inside, outside) = all.split_at(places as usize);
    for &session in inside {
        assert!(ask(region, session).is_some());
    }
    let (&last, crowd) = outside.split_last().unwrap();
    let mut rows = Vec::new();
    let mut row = |name, rounds: u32, work: &mut dyn FnMut()| {
        let sums = measure(|| (0..rounds).for_each(|_| work()));
        rows.push((name, sums.map(|sum| sum / u64::from(rounds))));
    };
    row("the first begins to wait, and leaves", ROUNDS, &mut || {
        assert!(ask(region, last).is_none());
        region.leave(last);
    });
    for &session in crowd {
        assert!(ask(region, session).is_none());
    }
    row("one more begins to wait, and leaves", ROUNDS, &mut || {
        let _ = ask(region, last);
        region.leave(last);
    });
    let mut turns = 0;
    // Many rounds, so that a session that wanted nothing meanwhile is due.
    row("a turn ends, the next one begins, its session waits again", 30 * sessions, &mut || {
        let ends = loop {
            let session = all[turns % all.len()];
            turns += 1;
            if region.session(session).unwrap().permit.load(Ordering::Relaxed) != 0 {
                break session;
            }
        };
        // Turns are charged, so that the rounds go on.
        region.spend(region.session(ends).unwrap());
        region.leave(ends);
        let _ = ask(region, ends);
    });
    // The only one of its class: it goes ahead of those who wait, if its turn is due.
    region.classify(last, 1, false, 1);
    let ahead = region.counter(Counter::Ahead);
    row("one of another class goes ahead, and leaves", ROUNDS, &mut || {
        let _ = ask(region, last);
        region.leave(last);
    });
    assert!(region.counter(Counter::Ahead) >= ahead + u64::from(ROUNDS) / 2, "it mostly does");
    row("P becomes 1, and P again", 20, &mut || {
        for parallelism in [1, places] {
            region.apply(&Settings { parallelism, ..Settings::default() });
        }
    });
    row("the daemon puts things right", 20, &mut || region.reclaim(&mut [0; PERMITS]));
    while region.high_water() < SESSIONS as u32 {
        session(region);
    }
    row("a connection finds the table full", ROUNDS, &mut || {
        assert!(region.register(std::process::id(), clock::now()).is_none());
    });
    rows
}

#[test]
#[ignore = "it measures: make bench-lock"]
fn how_long_the_lock_is_held() {
    let sizes = [(16, 100), (128, 1_000), (1_024, 10_000)];
    let all = sizes.map(|(places, sessions)| size(places, sessions));
    println!("nanoseconds under the lock (times it is taken; nanoseconds altogether)");
    print!("{:56}", "");
    sizes.iter().for_each(|(places, sessions)| {
        print!("{:>26}", format!("P {places}, {sessions} sessions"))
    });
    println!();
    for at in 0..all[0].len() {
        print!("{:56}", all[0][at].0);
        for rows in &all {
            let [times, held, took] = rows[at].1;
            print!("{:>26}", format!("{held} ({times}; {took})"));
        }
        println!();
    }
}
