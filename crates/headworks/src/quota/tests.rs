use super::*;
use crate::views::{self, snapshot};
use headworks_region::State::{Idle, Lent, Queued, Running};
use headworks_region::snapshot::Totals;

const SPAN: Nanos = Nanos::from_millis(1_000);

/// A session in a window: its state at the end; the part of the time for which answered requests
/// had waited and run; how long the open one has lasted; requests and turns.
type Did = (State, f64, f64, u64, u64);

fn window(did: &[(u32, Did)]) -> Window {
    let (before, now) = snapshots(did, &[]);
    Window::new(&before, &now)
}

/// Snapshots at the beginning and at the end of a window.
fn snapshots(did: &[(u32, Did)], classes: &[ClassView]) -> (Snapshot, Snapshot) {
    let part = |of: f64| Nanos((SPAN.0 as f64 * of) as u64);
    let sessions = |end: u64| {
        let session = |(number, &(class, did)): (u32, &(u32, Did))| {
            let (state, answered, in_hand, requests, turns) = did;
            let answered = answered * end as f64;
            let (wait, run) = (part(answered * 0.75), part(answered * 0.25));
            let (requests, turns) = (requests * end, turns * end);
            let totals = Totals { requests, turns, wait, run, ..Totals::default() };
            // At the beginning all are idle.
            let state = if end == 0 { Idle } else { state };
            let arrived = Nanos(SPAN.0 * 2).since(part(in_hand));
            SessionView { state, totals, arrived, ..views::session(number, class) }
        };
        (0..).zip(did).map(session).collect()
    };
    let before = Snapshot { now: SPAN, ..snapshot(sessions(0), classes.to_vec()) };
    let now = Snapshot { now: Nanos(SPAN.0 * 2), ..snapshot(sessions(1), classes.to_vec()) };
    (before, now)
}

fn of_one_class(did: [Did; 4]) -> Window {
    window(&did.map(|did| (0, did)))
}

fn unfairness_of(window: &Window) -> Option<f64> {
    window.observation(&QuotaLimits { unfairness_max: 1.0, ..QuotaLimits::default() }).unfairness
}

#[test]
fn who_waits_all_the_time_counts_and_who_asks_now_and_then_does_not() {
    let fair = of_one_class([
        (Queued, 0.7, 0.2, 100, 4),
        (Running, 0.9, 0.1, 100, 4),
        // The snapshot came between two statements.
        (Idle, 0.8, 0.0, 100, 4),
        // It has asked just now, by chance.
        (Running, 0.1, 0.01, 1, 1),
    ]);
    assert_eq!((fair.sessions(), unfairness_of(&fair)), (3, Some(0.0)));
    assert!((fair.turns_least() - 4.0).abs() < 1e-9);
    let starved = of_one_class([
        (Queued, 0.7, 0.2, 150, 6),
        (Running, 0.9, 0.1, 150, 6),
        // Its request is not answered yet.
        (Queued, 0.0, 1.0, 0, 0),
        // Its client has idled inside a transaction for long.
        (Lent, 0.1, 1.0, 70, 70),
    ]);
    assert_eq!((starved.sessions(), unfairness_of(&starved)), (3, Some(1.0)));
}

#[test]
fn a_request_that_was_in_hand_before_counts_from_the_begin_of_the_window() {
    let ms = Nanos::from_millis;
    let at = |state, arrived, answered| SessionView {
        state,
        arrived: ms(arrived),
        totals: Totals { run: ms(answered), ..Totals::default() },
        ..views::session(1, 0)
    };
    // It came at 400 and was answered at 1,300; the window begins at 1,000.
    let (past, session) = (at(Queued, 400, 50), at(Idle, 400, 950));
    assert_eq!(wanted(&past, &session, ms(1_000), ms(2_000)), ms(300));
    // It is not answered yet.
    let session = at(Queued, 400, 50);
    assert_eq!(wanted(&past, &session, ms(1_000), ms(2_000)), ms(1_000));
}

#[test]
fn a_class_whose_statements_take_minutes_keeps_nobody_from_judging_the_others() {
    let busy = (Queued, 0.8, 0.1, 100, 4);
    let window =
        window(&[(0, busy), (0, (Queued, 0.8, 0.1, 300, 12)), (1, (Running, 0.0, 1.0, 0, 0))]);
    assert_eq!((window.sessions(), window.turns_least()), (3, 0.0));
    assert_eq!(unfairness_of(&window), Some(0.5), "100 and 300 requests");
}

#[test]
fn the_step_is_a_part_of_a_turn_for_everybody() {
    // Turns of 25 requests: 40 sessions x 25 x an eighth.
    let many = window(&[(0, (Queued, 0.8, 0.1, 100, 4)); 40]);
    assert_eq!(many.step(), 125.0);
    let idle = of_one_class([(Idle, 0.0, 0.0, 0, 0); 4]);
    assert_eq!((idle.step(), unfairness_of(&idle)), (16.0, None));
}

#[test]
fn a_weight_that_is_shared_is_divided_among_those_who_want_something() {
    let shared = ClassView { shared: true, sessions: 52, ..views::class(1, "reports", 1.0) };
    let each = ClassView { sessions: 2, ..views::class(0, "default", 1.0) };
    // Two of 52 always have an open request: half of the weight each, and half of the requests of
    // the others.
    let busy = |requests| (Queued, 0.8, 0.1, requests, 40);
    let mut did = vec![(0, busy(200)), (0, busy(200)), (1, busy(100)), (1, busy(100))];
    did.extend([(1, (Idle, 0.0, 0.0, 0, 0)); 50]);
    let classes = [each, shared];
    let (before, now) = snapshots(&did, &classes);
    assert_eq!(unfairness_of(&Window::new(&before, &now)), Some(0.0));
    // The fifty are busy for a twentieth of the time: two and a half more at a time.
    did[4..].iter_mut().for_each(|(_, did)| *did = (Idle, 0.05, 0.0, 1, 1));
    let parts = [450, 450, 100, 100];
    did[..4].iter_mut().zip(parts).for_each(|((_, did), requests)| did.3 = requests);
    let (before, now) = snapshots(&did, &classes);
    let unfairness = unfairness_of(&Window::new(&before, &now)).unwrap();
    assert!(unfairness < 1e-6, "{unfairness}");
}

/// Bounds of 10 %: windows of 40 turns of a mean session.
fn bounded() -> Settings {
    Settings { unfairness_max_mille: 100, ..Settings::default() }
}

#[test]
fn a_snapshot_is_due_once_the_window_can_be_over_and_not_before() {
    let (region, settings) = (views::region(), bounded());
    let ms = |ms| Nanos(SPAN.0 + Nanos::from_millis(ms).0);
    // Eight sessions that are always busy, this long after the beginning.
    let at = |since, turns| {
        let totals =
            Totals { requests: turns, turns, run: Nanos::from_millis(since), ..Totals::default() };
        let sessions = (0..8).map(|number| SessionView { totals, ..views::session(number, 0) });
        Snapshot { now: ms(since), settings, ..snapshot(sessions.collect(), Vec::new()) }
    };
    let mut quota = Quota::default();
    assert!(!quota.is_due(&settings, ms(0), || 0), "the first snapshot is one of the daemon's own");
    quota.tick(&region, &at(0, 0), 1_000);
    let none = || -> u64 { panic!("turns were counted for nothing") };
    assert!(!quota.is_due(&settings, ms(90), none), "too soon, whatever was done");
    assert!(!quota.is_due(&settings, ms(110), || 1_039));
    assert!(quota.is_due(&settings, ms(110), || 1_040), "there may be one user");
    // There are eight, who had 5 turns each.
    quota.tick(&region, &at(110, 5), 1_040);
    assert!(!quota.is_due(&settings, ms(500), || 1_319));
    assert!(quota.is_due(&settings, ms(600), || 1_320));
    assert!(!quota.is_due(&Settings::default(), ms(600), none), "no bounds, no windows");
    // It is over; the next one is expected to be similar.
    quota.tick(&region, &at(700, 40), 1_320);
    assert!(!quota.is_due(&settings, ms(1_000), || 1_639));
    assert!(quota.is_due(&settings, ms(1_000), || 1_640));
}

#[test]
fn a_class_that_is_nearly_there_for_long_does_not_cost_a_snapshot_each_time() {
    let (region, settings) = (views::region(), bounded());
    let (before, mut now) = snapshots(&[(0, (Queued, 0.8, 0.1, 100, 39))], &[]);
    let mut quota = Quota::default();
    quota.tick(&region, &Snapshot { settings, ..before }, 0);
    now.settings = settings;
    let mut taken = 0;
    for look in 0..100 {
        now.now = Nanos(now.now.0 + Nanos::from_millis(100).0);
        let turns = 100 * (look + 1);
        if quota.is_due(&settings, now.now, || turns) {
            taken += 1;
            quota.tick(&region, &now, turns);
        }
    }
    assert_eq!(taken, EXTRA_SNAPSHOTS_MAX, "and the daemon's own, each half a second");
}
