//! Commits that come by the clock, however long the ones before them take: an open loop. Also on a
//! machine where each thread that should go on waits for a processor.

use super::tests::{big, small};
use super::*;
use std::collections::VecDeque;

/// What a commit takes undisturbed.
const OWN: Nanos = Nanos::from_millis(10);

/// B's pieces.
const PIECES: u32 = 1_600;

/// What a simulated run gave.
struct Run {
    /// From the time at which each commit was due to its end, while B's call lasted.
    p99: Nanos,
    /// What B's call took.
    took: Nanos,
}

/// Who is there first.
#[derive(Clone, Copy, Debug)]
enum First {
    Commits,
    Bulk,
}

/// A disk serves one access after the other, in order of arrival. A commits so often a second.
/// B calls `fsync` once. One begins two seconds after the other. Neither has a rule. B's thread
/// wakes `late`.
fn run(per_s: u64, piece: Nanos, late: Nanos, first: First) -> Run {
    let mut deadline = Box::new(Deadline::default());
    let a_call = Call { deadline: Nanos(0), ..small(1) };
    let b_call = Call { account: 2, file: 1, bytes: 1 << 30, pieces: PIECES, ..Call::default() };
    let second = Nanos::from_millis(2_000);
    let (begin, mut due) = match first {
        First::Commits => (second, Nanos(0)),
        First::Bulk => (Nanos(0), second),
    };
    let (mut now, mut free) = (Nanos(0), Nanos(0));
    let (mut running, mut latencies) = (None::<(Nanos, Nanos)>, Vec::new());
    let (mut left, mut flying, mut b_began, mut b_end) = (PIECES, VecDeque::new(), None, None);
    let mut ordered = VecDeque::new();
    while b_end.is_none_or(|end| now < end || due < end) {
        if b_began.is_none() && now >= begin {
            b_began = Some(now);
            assert_eq!(deadline.fsync_entry(now, 0, &b_call), Entry::Wait);
        }
        while flying.pop_front_if(|end| *end + late <= now).is_some() {
            left -= 1;
            deadline.woke_late(late);
            let begun = (flying.len() + ordered.len()) as u32;
            deadline.written_back(now, 0, 1, left - begun);
        }
        while ordered.pop_front_if(|at| *at + late <= now).is_some() {
            free = free.max(now) + piece;
            flying.push_back(free);
        }
        if let Some((began, end)) = running
            && end <= now
        {
            deadline.fsync_return(now, 1, &a_call, now - began);
            if b_began.is_some() {
                latencies.push(now - due);
            }
            (running, due) = (None, due + Nanos(1_000_000_000 / per_s));
        }
        if running.is_none() && due <= now {
            assert_eq!(deadline.fsync_entry(now, 1, &a_call), Entry::Go);
            free = free.max(now) + OWN;
            running = Some((now, free));
        }
        loop {
            match deadline.dispatch(now) {
                Step::Writeback { pieces, .. } => ordered.extend((0..pieces).map(|_| now)),
                Step::Admit(_) => {
                    let rest = left - (flying.len() + ordered.len()) as u32;
                    free = free.max(now) + Nanos(piece.0 * u64::from(rest)) + OWN;
                    b_end = Some(free);
                }
                _ => break,
            }
        }
        now += Nanos::from_micros(500);
    }
    latencies.sort();
    let p99 = latencies[latencies.len() * 99 / 100];
    Run { p99, took: b_end.unwrap() - b_began.unwrap() }
}

#[test]
fn commits_by_the_clock_are_not_overrun_and_the_big_one_has_what_they_leave() {
    for (per_s, piece_ms) in [20, 30, 40, 60].into_iter().flat_map(|per_s| [(per_s, 2), (per_s, 4)])
    {
        let piece = Nanos::from_millis(piece_ms);
        let found = run(per_s, piece, Nanos(0), First::Commits);
        // What they leave of the device, less what is lost between two batches.
        let free = 1.0 - per_s as f64 * OWN.0 as f64 / 1e9;
        let best = f64::from(PIECES) * piece.0 as f64 / free;
        let ratio = found.took.0 as f64 / best;
        println!("{per_s}/s, {piece_ms} ms: p99 {}, {} ({ratio:.2})", found.p99, found.took);
        assert!(found.p99 <= Nanos::from_millis(200), "{per_s}/s, {piece_ms} ms: {}", found.p99);
        assert!(ratio <= 2.0, "{per_s}/s, {piece_ms} ms: {}", found.took);
    }
}

#[test]
fn commits_that_are_behind_from_the_first_one_on_catch_up() {
    for (per_s, piece_ms) in [20, 30, 40, 60].into_iter().flat_map(|per_s| [(per_s, 2), (per_s, 4)])
    {
        let found = run(per_s, Nanos::from_millis(piece_ms), Nanos(0), First::Bulk);
        println!("{per_s}/s, {piece_ms} ms: p99 {}, {}", found.p99, found.took);
        assert!(found.p99 <= Nanos::from_millis(300), "{per_s}/s, {piece_ms} ms: {}", found.p99);
    }
}

#[test]
fn on_a_busy_machine_to_be_held_takes_twice_as_long_at_the_most() {
    let piece = Nanos::from_millis(4);
    for per_s in [20, 30, 40] {
        let quick = run(per_s, piece, Nanos(0), First::Commits).took;
        for late_ms in [1, 5, 20, 50, 100] {
            let Run { p99, took } = run(per_s, piece, Nanos::from_millis(late_ms), First::Commits);
            let ratio = took.0 as f64 / quick.0 as f64;
            println!("{per_s}/s, {late_ms} ms late: p99 {p99}, {took} ({ratio:.2})");
            assert!(ratio <= 2.0, "{per_s}/s, {late_ms} ms: {took} instead of {quick}");
            assert!(p99 <= Nanos::from_millis(500), "{per_s}/s, {late_ms} ms: {p99}");
        }
    }
}

#[test]
fn a_commit_of_which_the_end_is_not_seen_paces_others() {
    let mut deadline = Box::new(Deadline::default());
    let mut now = Nanos::from_millis(1_000);
    assert!(!deadline.commits_unseen(now, &big(100)), "it is no commit");
    assert_eq!(deadline.fsync_entry(now, 1, &big(32)), Entry::Go, "no other commits");
    assert!(deadline.commits_unseen(now, &small(1)));
    assert_eq!(deadline.fsync_entry(now, 2, &Call { file: 9, ..big(32) }), Entry::Wait);
    assert_eq!(deadline.write_entry(now, 3, &big(100)), Entry::Wait);
    deadline.cancel(now, 3);
    let mut written = 0;
    for ms in 0..1_000 {
        now += Nanos::from_millis(1);
        if ms % 50 == 0 {
            assert!(deadline.commits_unseen(now, &small(1)));
        }
        while let Step::Writeback { task: 2, pieces } = deadline.dispatch(now) {
            assert!(pieces <= 2, "a batch, and not {pieces}");
            written += pieces;
            deadline.written_back(now, 2, pieces, 1_000);
        }
    }
    assert!(written >= 32, "{written} pieces in a second");
}
