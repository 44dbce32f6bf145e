use std::sync::atomic::AtomicU64;

use super::*;

/// Serves in `service`, except that request number `slow` of each user takes `pause`.
struct Fake {
    made: u64,
    service: Duration,
    slow: u64,
    pause: Duration,
}

impl Client for Fake {
    fn next(&mut self) -> Request {
        self.made += 1;
        Request { kind: (self.made % 2) as usize, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        thread::sleep(if self.made == self.slow { self.pause } else { self.service });
        Ok(())
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![("made", self.made)]
    }
}

fn options(users: usize, arrivals: Arrivals, window_ms: u64) -> RunOptions {
    RunOptions {
        users,
        arrivals,
        warm_up: Duration::ZERO,
        window: Duration::from_millis(window_ms),
        retries_max: 3,
        seed: 1,
        trace: false,
    }
}

fn fake(service_ms: u64, slow: u64, pause_ms: u64) -> Fake {
    Fake {
        made: 0,
        service: Duration::from_millis(service_ms),
        slow,
        pause: Duration::from_millis(pause_ms),
    }
}

#[test]
fn a_closed_loop_serves_each_user_as_fast_as_it_can() {
    let options = options(4, Arrivals::Closed, 500);
    let report =
        run(&options, &["a", "b"], &|_| Ok(fake(10, 0, 0)), &Stop::default(), &mut |_| {}).unwrap();
    // At most 500 / 10 for each of four users; a busy machine serves fewer.
    assert!((8..=200).contains(&report.count), "{}", report.count);
    assert_eq!(report.users.len(), 4);
    assert_eq!(report.kinds.iter().map(|kind| kind.count).sum::<u64>(), report.count);
    assert_eq!(report.users.iter().map(|user| user.count).sum::<u64>(), report.count);
    let series: u32 = report.series.iter().flatten().sum();
    assert_eq!(u64::from(series), report.count);
    assert!(report.latency.p50_us >= 10_000);
    assert!(report.unfairness.is_some() && report.latency_cv.is_some());
    assert!(report.notes["made"] >= report.count);
    assert!(report.users.iter().all(|user| user.trace.is_empty()));
}

#[test]
fn a_trace_has_every_answer_of_the_window() {
    let options = RunOptions {
        trace: true,
        warm_up: Duration::from_millis(100),
        ..options(3, Arrivals::Closed, 300)
    };
    let report =
        run(&options, &["a", "b"], &|_| Ok(fake(10, 0, 0)), &Stop::default(), &mut |_| {}).unwrap();
    for user in &report.users {
        assert_eq!(user.trace.len() as u64, user.count);
        assert!(user.trace.iter().all(|answer| answer.at_ms < 300 && answer.latency_us >= 10_000));
        assert!(user.trace.is_sorted_by_key(|answer| answer.at_ms));
    }
}

#[test]
fn an_open_loop_counts_what_a_stall_delays() {
    // One user, due every 10 ms; the 10th request takes 300 ms. The about 30 requests that were due
    // meanwhile waited too. A closed loop would have seen a single slow request.
    let stalled = |arrivals| {
        run(
            &options(1, arrivals, 1_000),
            &["a", "b"],
            &|_| Ok(fake(1, 10, 300)),
            &Stop::default(),
            &mut |_| {},
        )
        .unwrap()
    };
    let open = stalled(Arrivals::Even { rate_per_s: 100.0 });
    let due = open.count + open.overdue;
    assert!((99..=100).contains(&due), "{due} of 100 due requests accounted for");
    assert!(open.latency.p90_us > 100_000, "{:?}", open.latency);
    let closed = stalled(Arrivals::Closed);
    assert!(closed.latency.p90_us < 100_000, "{:?}", closed.latency);
}

#[test]
fn what_is_never_answered_is_overdue() {
    // 50 due in half a second, each taking 50 ms: 10 are answered.
    let options = options(1, Arrivals::Even { rate_per_s: 100.0 }, 500);
    let report =
        run(&options, &["a", "b"], &|_| Ok(fake(50, 0, 0)), &Stop::default(), &mut |_| {}).unwrap();
    assert!(report.count <= 10);
    assert!((49..=50).contains(&(report.count + report.overdue)), "{report:?}");
}

#[test]
fn poisson_arrivals_have_their_rate() {
    let options = options(4, Arrivals::Poisson { rate_per_s: 1_000.0 }, 1);
    let mut count = 0;
    for user in 0..4 {
        let mut schedule = Schedule::new(&options, user);
        while schedule.due().is_some_and(|due| due < Duration::from_secs(100)) {
            count += 1;
        }
    }
    // 100,000 expected; the standard deviation is its root, 316.
    assert!((98_400..=101_600).contains(&count), "{count}");
}

#[test]
fn a_queue_has_the_rate_of_all_and_keeps_nobody_waiting_beside_a_free_user() {
    let arrivals = Arrivals::Queued { rate_per_s: 1_000.0 };
    let mut queue = Schedule::new(&options(256, arrivals, 1), 0);
    let mut due = Vec::new();
    while let Some(next) = queue.due().filter(|due| *due < Duration::from_secs(100)) {
        due.push(next);
    }
    // 100,000 expected; the standard deviation is its root, 316.
    assert!((98_400..=101_600).contains(&due.len()), "{}", due.len());
    assert!(due.is_sorted());
    // One of two users is slow from its first request on. With separate schedules, half of all
    // requests would wait for it.
    let options = options(2, Arrivals::Queued { rate_per_s: 100.0 }, 1_000);
    let connect = |number| Ok(fake(1, if number == 0 { 1 } else { 0 }, 2_000));
    let report = run(&options, &["a", "b"], &connect, &Stop::default(), &mut |_| {}).unwrap();
    // The slow user's request, and requests that came at the very end. Separate schedules would
    // leave fifty.
    assert!((1..=25).contains(&report.overdue), "{}", report.overdue);
    assert_eq!(report.users[0].count, 0);
    assert!(report.users[1].count > 50, "{}", report.users[1].count);
    assert!(report.latency.p50_us < 100_000, "{:?}", report.latency);
}

#[test]
fn a_thousand_users_start_together_and_one_that_cannot_connect_is_an_error() {
    let report = run(
        &options(1_000, Arrivals::Closed, 200),
        &["a", "b"],
        &|_| Ok(fake(20, 0, 0)),
        &Stop::default(),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(report.users.len(), 1_000);
    let error = run(
        &options(50, Arrivals::Closed, 60_000),
        &["a", "b"],
        &|number| match number {
            31 => Err(DbError::new(ErrorKind::Connection, "full")),
            _ => Ok(fake(1, 0, 0)),
        },
        &Stop::default(),
        &mut |_| {},
    )
    .unwrap_err();
    assert_eq!(error.message, "full");
}

#[test]
fn a_stopped_run_ends_soon() {
    let stop = Stop::default();
    let begun = Instant::now();
    run(
        &options(2, Arrivals::Closed, 60_000),
        &["a", "b"],
        &|_| Ok(fake(1, 0, 0)),
        &stop,
        &mut |progress| {
            if progress.answered > 10 {
                stop.stop();
            }
        },
    )
    .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

struct Unlucky<'a>(&'a AtomicU64, ErrorKind);

impl Client for Unlucky<'_> {
    fn next(&mut self) -> Request {
        Request { kind: 0, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        thread::sleep(Duration::from_millis(1));
        // Every other attempt fails.
        match self.0.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(DbError::new(self.1, "no luck")),
            _ => Ok(()),
        }
    }
}

#[test]
fn deadlocks_are_tried_again_and_refusals_are_not() {
    let attempts = AtomicU64::new(0);
    let go = |kind| {
        run(
            &options(1, Arrivals::Closed, 200),
            &["a"],
            &|_| Ok(Unlucky(&attempts, kind)),
            &Stop::default(),
            &mut |_| {},
        )
        .unwrap()
    };
    let retried = go(ErrorKind::Deadlock);
    assert!(retried.retries[&ErrorKind::Deadlock] >= retried.count);
    assert!(retried.failures.is_empty() && retried.count > 0);
    attempts.store(0, Ordering::Relaxed);
    let refused = go(ErrorKind::Server);
    assert!(refused.retries.is_empty());
    assert!(refused.failures[&ErrorKind::Server] >= refused.count);
    assert_eq!(refused.first_failure.as_deref(), Some("no luck"));
}

#[test]
fn senseless_options_are_refused() {
    let go = |options: RunOptions| {
        run(&options, &["a"], &|_| Ok(fake(1, 0, 0)), &Stop::default(), &mut |_| {}).is_err()
    };
    assert!(go(options(0, Arrivals::Closed, 10)));
    assert!(go(options(1, Arrivals::Closed, 0)));
    assert!(go(options(1, Arrivals::Even { rate_per_s: f64::NAN }, 10)));
}
