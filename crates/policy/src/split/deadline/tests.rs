use super::*;
use crate::split::pacer::{
    ACTIVE, CALLERS, DESERTED, OVERDUE_MAX, PATIENCE, PROBE_PAUSE, WRITER_PIECES,
};

const A: Account = 1;
const B: Account = 2;

pub(super) fn small(account: Account) -> Call {
    Call { account, bytes: 4096, pieces: 1, deadline: Nanos::from_millis(100), ..Call::default() }
}

pub(super) fn big(pieces: u32) -> Call {
    Call {
        account: B,
        file: 1,
        bytes: u64::from(pieces) * 4096,
        pieces,
        deadline: Nanos::from_millis(10_000),
        ..Call::default()
    }
}

#[test]
fn the_writeback_of_a_range_waits_while_others_commit() {
    let mut deadline = Box::new(Deadline::default());
    let range = big(100);
    let now = Nanos::from_millis(1_000);
    assert_eq!(deadline.range_entry(now, 1, &range), Entry::Go, "no other commits");
    assert_eq!(deadline.fsync_entry(now, 2, &small(A)), Entry::Go);
    deadline.fsync_return(now, 2, &small(A), Nanos::from_millis(9));
    assert_eq!(deadline.range_entry(now, 3, &range), Entry::Wait);
    let log = Call { deadline: Nanos::from_millis(20), ..range };
    assert_eq!(deadline.range_entry(now, 4, &log), Entry::Go, "its deadline is short");
    let later = now + DESERTED;
    assert_eq!(deadline.range_entry(later, 5, &range), Entry::Go, "commits have ended");
}

#[test]
fn who_is_alone_waits_for_nobody_and_an_account_ends_with_its_thread() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    assert_eq!(deadline.fsync_entry(now, 1, &big(33)), Entry::Wait, "too much at once");
    deadline.cancel(now, 1);
    assert_eq!(deadline.fsync_entry(now, 2, &small(A)), Entry::Go);
    deadline.fsync_return(now, 2, &small(A), Nanos::from_millis(9));
    assert!(!deadline.forget_ended(now, &|_| true));
    assert_eq!(deadline.fsync_entry(now, 3, &big(32)), Entry::Wait);
    assert_eq!(deadline.write_entry(now, 4, &big(100)), Entry::Wait);
    assert!(deadline.forget_ended(now, &|account| account != A));
    for task in [3, 4] {
        deadline.cancel(now, task);
    }
    assert_eq!(deadline.fsync_entry(now, 3, &big(32)), Entry::Go);
    assert_eq!(deadline.write_entry(now, 4, &big(100)), Entry::Go);
    deadline.fsync_return(now, 3, &big(32), Nanos::from_millis(90));
    assert!(!deadline.forget_ended(now, &|_| false), "an fsync of much is not waited for");
}

#[test]
fn an_fsync_of_much_in_a_log_is_a_commit() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    let log = Call { file: 7, ..big(64) };
    assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 2, &log), Entry::Wait, "A commits in another file");
    assert_eq!(deadline.fsync_entry(now, 3, &Call { file: 7, ..small(A) }), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 4, &log), Entry::Go, "A commits in this one");
    let soon = Call { deadline: Nanos::from_millis(20), ..big(64) };
    assert_eq!(deadline.fsync_entry(now, 5, &soon), Entry::Go, "due before parts are written");
}

#[test]
fn a_small_durable_write_is_a_commit() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    let write = Call { direct: 1, pieces: 0, ..small(A) };
    assert_eq!(deadline.commit_entry(now, 1, &write), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 2, &big(32)), Entry::Wait, "one runs");
    deadline.commit_return(now, 1, &write, Nanos::from_millis(9));
    assert_eq!(deadline.write_entry(now, 3, &big(100)), Entry::Wait);
}

#[test]
fn the_end_of_a_forgotten_caller_does_not_hide_one_that_runs() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    let all = CALLERS as Account + 10;
    for account in 1..=all {
        assert_eq!(deadline.fsync_entry(now, account, &small(account)), Entry::Go);
    }
    let known = |deadline: &Deadline| deadline.pacer.running();
    assert_eq!(known(&deadline), CALLERS);
    // Ten of them were forgotten, whichever: their ends change nothing.
    let ended = (1..=all)
        .filter(|account| deadline.pacer.end_commit(now, *account, None, Nanos::from_millis(100)));
    assert_eq!(ended.count(), CALLERS);
    assert_eq!(known(&deadline), 0);
}

/// What a simulated run gave.
struct Run {
    /// Latencies of A's `fsync`s, sorted.
    a: Vec<Nanos>,
    /// Pieces of B that were written in a second.
    b_per_s: f64,
}

impl Run {
    fn p99(&self) -> Nanos {
        self.a[self.a.len() * 99 / 100]
    }
}

/// A disk serves one access after the other, in order of arrival: 4 ms for a piece of B's, 9 ms
/// for an `fsync` of A's. B always has an `fsync` of 1,000 pieces; A pauses between its own.
fn run(pause: Option<Nanos>, seconds: u64) -> Run {
    let mut deadline = Box::new(Deadline::default());
    let (piece, own) = (Nanos::from_millis(4), Nanos::from_millis(9));
    let end = Nanos::from_millis(1_000 * seconds);
    let mut now = Nanos(0);
    let mut disk_free = Nanos(0);
    // Completions of B's pieces, and of A's call.
    let mut pieces: std::collections::VecDeque<Nanos> = Default::default();
    let (mut left, mut written) = (1_000u32, 0u64);
    let mut b_call = big(left);
    let mut a_next = pause;
    let mut a_started: Option<(Nanos, Nanos)> = None;
    let mut a = Vec::new();
    assert_eq!(deadline.fsync_entry(now, 0, &b_call), Entry::Wait);
    while now < end {
        loop {
            match deadline.dispatch(now) {
                Step::Writeback { task, pieces: ordered } => {
                    assert_eq!(task, 0);
                    for _ in 0..ordered {
                        disk_free = disk_free.max(now) + piece;
                        pieces.push_back(disk_free);
                    }
                }
                Step::Admit(_) => {
                    // The rest, by the call itself.
                    written += u64::from(left);
                    disk_free = disk_free.max(now) + Nanos(piece.0 * u64::from(left)) + own;
                    deadline.fsync_return(now, 0, &b_call, own);
                    left = 1_000;
                    b_call = big(left);
                    assert_eq!(deadline.fsync_entry(now, 0, &b_call), Entry::Wait);
                }
                _ => break,
            }
        }
        let next_b = pieces.front().copied().unwrap_or(Nanos(u64::MAX));
        let next_a = a_started.map(|(_, end)| end).or(a_next).unwrap_or(Nanos(u64::MAX));
        now = next_a.min(next_b);
        if next_b <= next_a {
            pieces.pop_front();
            left -= 1;
            written += 1;
            deadline.written_back(now, 0, 1, left.saturating_sub(pieces.len() as u32));
        } else if let Some((start, _)) = a_started.take() {
            a.push(now - start);
            deadline.fsync_return(now, 1, &small(A), now - start);
            a_next = pause.map(|pause| now + pause);
        } else {
            assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
            disk_free = disk_free.max(now) + own;
            a_started = Some((now, disk_free));
        }
    }
    a.sort();
    Run { a, b_per_s: written as f64 / seconds as f64 }
}

#[test]
fn alone_the_big_one_has_the_device() {
    let run = run(None, 60);
    assert!(run.b_per_s > 0.95 * 250.0, "{}", run.b_per_s);
}

#[test]
fn in_a_closed_loop_the_small_one_is_short_and_the_big_one_goes_on() {
    let run = run(Some(Nanos::from_micros(20)), 60);
    assert!(run.p99() <= Nanos::from_millis(32), "{}: about three times its own", run.p99());
    assert!(run.b_per_s > 0.4 * 250.0, "{}", run.b_per_s);
}

#[test]
fn beside_twenty_small_ones_a_second_the_big_one_has_the_rest() {
    let run = run(Some(Nanos::from_millis(40)), 60);
    assert!(run.p99() <= Nanos::from_millis(34), "{}: its own and a batch", run.p99());
    // A needs 9 of 50 ms.
    assert!(run.b_per_s > 0.9 * 0.82 * 250.0, "{}", run.b_per_s);
}

#[test]
fn more_callers_than_are_remembered_do_not_hide_one_that_runs() {
    let mut deadline = Deadline::default();
    let mut now = Nanos(10_000_000_000);
    assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
    for account in 3..3 + 2 * CALLERS as Account {
        now += Nanos(1_000);
        assert_eq!(deadline.fsync_entry(now, 1, &small(account)), Entry::Go);
        deadline.fsync_return(now, 1, &small(account), Nanos(1_000));
    }
    assert!(deadline.pacer.end_commit(now, A, None, Nanos(0)), "A's has not been forgotten");
}

#[test]
fn a_probe_does_not_wait_for_a_caller_that_is_silent() {
    let mut deadline = Deadline::default();
    let mut now = Nanos(10_000_000_000);
    assert_eq!(deadline.fsync_entry(now, 0, &big(300)), Entry::Wait);
    let Step::Writeback { pieces, .. } = deadline.dispatch(now) else { panic!("no other waits") };
    // What A's takes undisturbed is not known yet.
    assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
    deadline.written_back(now, 0, pieces, 300 - pieces);
    now += Nanos::from_millis(50);
    deadline.fsync_return(now, 1, &small(A), Nanos::from_millis(50));
    now += Nanos::from_millis(1);
    assert!(matches!(deadline.dispatch(now), Step::Wait(_)), "A is measured");
    now += PROBE_PAUSE;
    assert!(matches!(deadline.dispatch(now), Step::Writeback { .. }), "A may itself wait for B");
}

#[test]
fn a_file_with_a_long_deadline_has_few_dirty_pieces_while_others_commit() {
    let mut deadline = Deadline::default();
    let mut now = Nanos(10_000_000_000);
    let write = |pieces| Call { deadline: Nanos::from_millis(20_000), ..big(pieces) };
    assert_eq!(deadline.write_entry(now, 0, &write(900)), Entry::Go, "no other commits");
    assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
    deadline.fsync_return(now, 1, &small(A), Nanos::from_millis(10));
    assert_eq!(deadline.write_entry(now, 2, &write(31)), Entry::Go);
    assert_eq!(deadline.write_entry(now, 3, &write(32)), Entry::Wait);
    let urgent = Call { deadline: Nanos::from_millis(20), ..write(32) };
    assert_eq!(deadline.write_entry(now, 4, &urgent), Entry::Go);
    let without = Call { deadline: Nanos(0), ..write(32) };
    assert_eq!(deadline.write_entry(now, 5, &without), Entry::Wait, "the usual one is long");
    deadline.cancel(now, 5);
    let step = deadline.dispatch(now);
    assert!(matches!(step, Step::Writeback { task: 3, pieces: 1..=WRITER_PIECES }), "{step:?}");
    now += DESERTED;
    assert_eq!(deadline.write_entry(now, 5, &write(32)), Entry::Go);
}

#[test]
fn what_is_small_or_has_nothing_to_write_goes_at_once() {
    let mut deadline = Box::new(Deadline::default());
    assert_eq!(deadline.fsync_entry(Nanos(1), 0, &big(0)), Entry::Go);
    assert_eq!(deadline.fsync_entry(Nanos(1), 1, &big(2)), Entry::Go, "small");
    assert_eq!(deadline.fsync_entry(Nanos(1), 2, &big(33)), Entry::Wait);
    assert_eq!(deadline.waiting(), 1);
    deadline.cancel(Nanos(2), 2);
    assert_eq!(deadline.dispatch(Nanos(3)), Step::Idle);
}

#[test]
fn a_call_is_issued_at_last_whatever_the_device_does() {
    let mut deadline = Box::new(Deadline::default());
    assert_eq!(deadline.fsync_entry(Nanos(0), 2, &big(500)), Entry::Wait);
    assert!(matches!(deadline.dispatch(Nanos(0)), Step::Writeback { task: 2, pieces: 32 }));
    assert!(matches!(deadline.dispatch(Nanos(0)), Step::Wait(_)));
    let late = Nanos::from_millis(10_000 * (1 + OVERDUE_MAX));
    assert_eq!(deadline.dispatch(late), Step::Admit(2));
    assert_eq!(deadline.dispatch(late), Step::Idle);
    deadline.written_back(late, 2, 32, 0);
}

#[test]
fn the_earlier_deadline_is_written_back_first() {
    let mut deadline = Box::new(Deadline::default());
    let urgent = Call { account: 3, deadline: Nanos::from_millis(200), ..big(100) };
    assert_eq!(deadline.fsync_entry(Nanos(0), 0, &big(100)), Entry::Wait);
    assert_eq!(deadline.fsync_entry(Nanos(5), 1, &urgent), Entry::Wait);
    assert!(matches!(deadline.dispatch(Nanos(5)), Step::Writeback { task: 1, .. }));
}

#[test]
fn a_writers_few_pieces_go_before_those_of_a_big_fsync() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    assert_eq!(deadline.fsync_entry(now, 2, &big(1_000)), Entry::Wait);
    deadline.pacer.throttle(now + Nanos(1), 3, &big(40));
    let step = deadline.dispatch(now + Nanos(1));
    assert_eq!(step, Step::Writeback { task: 3, pieces: WRITER_PIECES });
}

#[test]
fn a_throttled_writer_writes_a_whole_batch_back() {
    let mut deadline = Box::new(Deadline::default());
    deadline.pacer.set_batch(10);
    let now = Nanos::from_millis(1_000);
    assert_eq!(deadline.fsync_entry(now, 2, &small(A)), Entry::Go);
    deadline.fsync_return(now, 2, &small(A), Nanos::from_millis(9));
    assert_eq!(deadline.write_entry(now, 3, &big(40)), Entry::Wait);
    let step = deadline.dispatch(now + ACTIVE);
    assert_eq!(step, Step::Writeback { task: 3, pieces: 10 });
}

#[test]
fn direct_writes_and_a_big_fsync_have_batches_in_turn() {
    let mut deadline = Box::new(Deadline::default());
    let mut now = Nanos::from_millis(1_000);
    let write = Call { account: 3, bytes: 16 << 10, direct: 1, ..big(0) };
    let (mut written, mut direct) = (0, 0);
    assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 1, &big(200)), Entry::Wait);
    for task in [2, 3] {
        assert_eq!(deadline.write_entry(now, task, &write), Entry::Wait);
    }
    for _ in 0..200 {
        now += Nanos::from_millis(10);
        deadline.fsync_return(now, 0, &small(A), Nanos::from_millis(10));
        loop {
            match deadline.dispatch(now) {
                Step::Writeback { task: 1, pieces } => {
                    written += pieces;
                    deadline.written_back(now, 1, pieces, 200 - written);
                }
                Step::Admit(task @ 2..=3) => loop {
                    direct += 1;
                    deadline.write_return(now, task, &write);
                    if deadline.write_entry(now, task, &write) == Entry::Wait {
                        break;
                    }
                },
                Step::Admit(_) => {}
                _ => break,
            }
        }
        assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
    }
    assert!(written >= 50 && direct >= 50, "{written} pieces, {direct} direct writes");
}

#[test]
fn many_direct_writers_leave_a_big_fsync_its_turn() {
    for commits in [false, true] {
        let mut deadline = Box::new(Deadline::default());
        let mut now = Nanos::from_millis(1_000);
        // Their deadline is earlier than that of the `fsync`.
        let short = Nanos::from_millis(1_000);
        let write = Call { account: 3, bytes: 16 << 10, direct: 1, deadline: short, ..big(0) };
        assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
        deadline.fsync_return(now, 0, &small(A), Nanos::from_millis(10));
        assert_eq!(deadline.fsync_entry(now, 1, &big(200)), Entry::Wait);
        let (mut written, mut direct) = (0, 0);
        let mut running: Vec<Task> = Vec::new();
        for task in 10..50 {
            assert_eq!(deadline.pacer.write_directly(now, task, &write), Entry::Wait);
        }
        for _ in 0..100 {
            if commits {
                assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
            }
            now += Nanos::from_millis(10);
            if commits {
                deadline.fsync_return(now, 0, &small(A), Nanos::from_millis(10));
            }
            for task in running.drain(..) {
                direct += 1;
                deadline.pacer.end_direct(now, task);
                assert_eq!(deadline.pacer.write_directly(now, task, &write), Entry::Wait);
            }
            loop {
                match deadline.dispatch(now) {
                    Step::Writeback { task: 1, pieces } => {
                        written += pieces;
                        deadline.written_back(now, 1, pieces, 200 - written);
                    }
                    Step::Admit(1) => break,
                    Step::Admit(task) => running.push(task),
                    _ => break,
                }
            }
        }
        assert!(written >= 30 && direct >= 30, "{written} pieces, {direct} direct: {commits}");
    }
}

#[test]
fn a_direct_write_that_does_not_return_stops_nobody_for_long() {
    let mut deadline = Box::new(Deadline::default());
    let now = Nanos::from_millis(1_000);
    let write = Call { account: 3, bytes: 16 << 10, direct: 1, ..big(0) };
    assert_eq!(deadline.pacer.write_directly(now, 2, &write), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
    assert_eq!(deadline.fsync_entry(now, 1, &big(200)), Entry::Wait);
    assert!(matches!(deadline.dispatch(now), Step::Wait(_)));
    assert!(matches!(deadline.dispatch(now + PATIENCE), Step::Writeback { task: 1, .. }));
}

/// The device serves one access after the other: 4 ms for a direct write of four threads, 9 ms for
/// a commit. A commits `commits` times in a row, pauses for a second, and so on. Returns the direct
/// writes a second while A commits.
fn direct_writes_beside_bursts(commits: u32) -> f64 {
    let mut deadline = Box::new(Deadline::default());
    let (access, own) = (Nanos::from_millis(4), Nanos::from_millis(9));
    let write = Call { account: 3, bytes: 16 << 10, direct: 1, ..big(0) };
    let (mut now, mut free) = (Nanos::from_millis(1_000), Nanos(0));
    let mut running: std::collections::VecDeque<(Nanos, Task)> = Default::default();
    let mut calls: Vec<Task> = (10..14).collect();
    let (mut left, mut commit) = (commits, None);
    let mut next = now;
    let (mut written, mut busy) = (0u32, Nanos(0));
    let end = Nanos::from_millis(61_000);
    while now < end {
        for task in calls.drain(..) {
            if deadline.write_entry(now, task, &write) == Entry::Go {
                free = free.max(now) + access;
                running.push_back((free, task));
            }
        }
        if commit.is_none() && next <= now {
            assert_eq!(deadline.fsync_entry(now, 0, &small(A)), Entry::Go);
            free = free.max(now) + own;
            commit = Some((now, free));
        }
        while let Step::Admit(task) = deadline.dispatch(now) {
            free = free.max(now) + access;
            running.push_back((free, task));
        }
        now += Nanos::from_micros(100);
        while let Some((_, task)) = running.pop_front_if(|(end, _)| *end <= now) {
            deadline.write_return(now, task, &write);
            written += u32::from(left < commits);
            calls.push(task);
        }
        if let Some((start, _)) = commit.take_if(|(_, end)| *end <= now) {
            deadline.fsync_return(now, 0, &small(A), now - start);
            left -= 1;
            (left, next) = match left {
                0 => (commits, now + Nanos::from_millis(1_000)),
                left => (left, now + Nanos::from_millis(20)),
            };
        }
        if left < commits {
            busy += Nanos::from_micros(100);
        }
    }
    f64::from(written) / (busy.0 as f64 / 1e9)
}

#[test]
fn what_came_before_a_burst_of_commits_does_not_shrink_the_batch() {
    let per_s = direct_writes_beside_bursts(8);
    assert!(per_s > 50.0, "{per_s} direct writes a second beside commits");
}

/// A commits all the time, on another device than B: each sixth commit takes long by chance. B
/// always has an `fsync` of 1,000 pieces of 4 ms. Returns B's pieces a second in the last half.
fn beside_commits_that_gain_nothing(seconds: u64) -> f64 {
    let mut deadline = Box::new(Deadline::default());
    let begin = Nanos::from_millis(10_000);
    let (mut now, mut free, mut left, mut written) = (begin, begin, 1_000u32, 0u32);
    let mut pieces: std::collections::VecDeque<Nanos> = Default::default();
    let (mut commits, mut began) = (0, now);
    assert_eq!(deadline.fsync_entry(now, 0, &big(left)), Entry::Wait);
    for ms in 0..seconds * 1_000 {
        let took = Nanos::from_millis(if commits % 6 == 5 { 150 } else { 15 });
        if ms == 0 || now.since(began) >= took {
            if ms > 0 {
                deadline.fsync_return(now, 1, &small(A), took);
                commits += 1;
            }
            assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
            began = now;
        }
        while pieces.pop_front_if(|end| *end <= now).is_some() {
            (left, written) = (left - 1, written + u32::from(ms >= seconds * 500));
            deadline.written_back(now, 0, 1, left - pieces.len() as u32);
        }
        loop {
            match deadline.dispatch(now) {
                Step::Writeback { pieces: ordered, .. } => {
                    for _ in 0..ordered {
                        free = free.max(now) + Nanos::from_millis(4);
                        pieces.push_back(free);
                    }
                }
                Step::Admit(_) => {
                    deadline.fsync_return(now, 0, &big(1_000), Nanos::from_millis(9));
                    left = 1_000;
                    assert_eq!(deadline.fsync_entry(now, 0, &big(left)), Entry::Wait);
                }
                _ => break,
            }
        }
        now += Nanos::from_millis(1);
    }
    f64::from(written) * 2.0 / seconds as f64
}

#[test]
fn what_is_held_without_a_gain_is_let_go() {
    let per_s = beside_commits_that_gain_nothing(30);
    assert!(per_s > 0.95 * 250.0, "{per_s} pieces a second of 250");
}
