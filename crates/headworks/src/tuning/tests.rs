use super::*;
use crate::config::OPEN;
use headworks_region::State;
use std::sync::atomic::Ordering;

const SESSIONS: u32 = 100;
const HELD: u32 = 16;

/// A region with sessions that are always busy, and its tuner.
struct Stage {
    region: Box<Region>,
    tuning: Tuning,
    now: Nanos,
    turns: f64,
    /// Turns a second at the best P.
    most: f64,
}

impl Stage {
    fn new(auto: bool) -> Stage {
        Stage::with(HELD, auto)
    }

    /// With this P in force.
    fn with(parallelism: u32, auto: bool) -> Stage {
        // SAFETY: all zero bytes are a valid region.
        let region = unsafe {
            let layout = std::alloc::Layout::new::<Region>();
            Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Region>())
        };
        region.apply(&Settings { parallelism, auto, ..Settings::default() });
        let now = Nanos::from_millis(1_000_000);
        for _ in 0..SESSIONS {
            let session = region.register(std::process::id(), now).expect("there is room");
            region.session(session).expect("it was registered").set_state(State::Passing);
        }
        Stage { region, tuning: Tuning::new(), now, turns: 0.0, most: 2_000.0 }
    }

    fn parallelism(&self) -> u32 {
        self.region.control.settings().parallelism
    }

    /// Best at 24, half of that at 12, and less beyond.
    fn rate(&self) -> f64 {
        let p = f64::from(self.parallelism().min(SESSIONS));
        self.most * (p / 24.0).min(1.0) / (1.0 + 0.5 * (p / 24.0).ln().max(0.0))
    }

    fn tick(&mut self) {
        self.turns += self.rate() * 0.1;
        self.now += Nanos::from_millis(100);
        let served = &self.region.session(0).expect("the first").served;
        served.turns.store(self.turns as u64, Ordering::Relaxed);
        served.requests.store(self.turns as u64, Ordering::Relaxed);
        self.tuning.tick(&self.region, self.now);
    }

    fn until(&mut self, what: &str, met: impl Fn(&Stage) -> bool) {
        for _ in 0..6_000 {
            if met(self) {
                return;
            }
            self.tick();
        }
        panic!("{what} did not come true");
    }

    /// During the first samples: the P in force is not the held one.
    fn sampling() -> Stage {
        let mut stage = Stage::new(true);
        stage.until("a sample", |stage| stage.parallelism() != HELD);
        stage
    }

    /// The daemon is killed, and another one comes.
    fn successor(&mut self) {
        self.tuning = Tuning::new();
        self.tick();
    }

    fn now_in_force(&self) -> (u32, Option<TemporaryP>) {
        (self.parallelism(), self.region.heartbeat.temporary_p())
    }
}

const STAYS: (u32, Option<TemporaryP>) = (HELD, None);

#[test]
fn the_region_says_of_every_p_that_is_not_there_to_stay() {
    let mut stage = Stage::new(true);
    let (mut passed, mut last) = (0, 0);
    for _ in 0..1_200 {
        stage.tick();
        let (parallelism, temporary) = stage.now_in_force();
        let back = stage.tuning.tuner.as_ref().map_or(HELD, Tuner::held);
        let expected = (parallelism != back).then_some(TemporaryP { parallelism, permanent: back });
        assert_eq!(temporary, expected);
        passed += u32::from(temporary.is_some() && parallelism != last);
        last = parallelism;
    }
    // Samples, neighbours, probes; in the end the result is permanent.
    assert!(passed > 20, "{passed}");
    assert!((18..=30).contains(&stage.tuning.tuner.as_ref().unwrap().held()));
}

#[test]
fn what_a_killed_daemon_left_in_force_for_a_moment_is_taken_back() {
    let mut stage = Stage::sampling();
    let (sampled, temporary) = stage.now_in_force();
    assert_eq!(temporary, Some(TemporaryP { parallelism: sampled, permanent: HELD }));
    stage.successor();
    assert_eq!(stage.now_in_force(), STAYS);
    // Also during a trial, with an automatic or a fixed P.
    for auto in [true, false] {
        let mut stage = Stage::new(auto);
        assert!(stage.tuning.try_out(&stage.region, 256, stage.now + Nanos::from_millis(5_000)));
        stage.tick();
        assert_eq!(stage.parallelism(), 256);
        stage.successor();
        assert_eq!(stage.now_in_force(), STAYS, "{auto}");
    }
}

#[test]
fn however_a_search_ends_p_is_what_was_held() {
    for end in ["off", "dry-run", "fixed", "the daemon ends"] {
        let mut stage = Stage::sampling();
        let settings = stage.region.control.settings();
        match end {
            "off" => stage.region.set_off(true),
            "dry-run" => {
                stage.region.apply(&Settings { mode: Mode::DryRun, ..settings });
            }
            "fixed" => {
                stage.region.apply(&Settings { auto: false, ..settings });
            }
            _ => stage.tuning.end(&stage.region),
        }
        if end != "the daemon ends" {
            stage.tick();
        }
        assert_eq!(stage.now_in_force(), STAYS, "{end}");
    }
}

#[test]
fn what_an_operator_sets_is_never_taken_back() {
    // Another P than the sample, then the same one, for which `set` clears the record.
    for same in [false, true] {
        let mut stage = Stage::sampling();
        let settings = stage.region.control.settings();
        let fixed = if same { settings.parallelism } else { 7 };
        if same {
            stage.region.heartbeat.set_temporary_p(None);
        }
        stage.region.apply(&Settings { auto: false, parallelism: fixed, ..settings });
        stage.tick();
        assert_eq!(stage.now_in_force(), (fixed, None));
    }
    // Without a daemon, and during a trial.
    let mut stage = Stage::sampling();
    let settings = Settings { auto: false, parallelism: 7, ..stage.region.control.settings() };
    stage.region.apply(&settings);
    stage.successor();
    assert_eq!(stage.now_in_force(), (7, None));
    assert!(stage.tuning.try_out(&stage.region, 256, stage.now + Nanos::from_millis(5_000)));
    stage.region.apply(&Settings { parallelism: 9, ..settings });
    stage.tick();
    assert_eq!(stage.now_in_force(), (9, None));
    // The P that is tried is fixed, for which `set` clears the record.
    assert!(stage.tuning.try_out(&stage.region, 256, stage.now + Nanos::from_millis(5_000)));
    stage.region.heartbeat.set_temporary_p(None);
    (0..60).for_each(|_| stage.tick());
    assert_eq!(stage.now_in_force(), (256, None));
}

#[test]
fn trials_lead_back_to_what_was_held() {
    let mut stage = Stage::new(false);
    let soon = |stage: &Stage| stage.now + Nanos::from_millis(1_000);
    // One after another, and the one that is in force anyway.
    for parallelism in [256, 3, HELD] {
        assert!(stage.tuning.try_out(&stage.region, parallelism, soon(&stage)));
        stage.tick();
        assert_eq!(stage.parallelism(), parallelism);
    }
    assert!(stage.tuning.try_out(&stage.region, 3, soon(&stage)));
    (0..9).for_each(|_| stage.tick());
    assert_eq!(stage.parallelism(), 3);
    stage.tick();
    assert_eq!(stage.now_in_force(), STAYS);
    // During a search, the P held before it is restored, and the search goes on.
    let mut stage = Stage::sampling();
    let sampled = stage.parallelism();
    assert!(stage.tuning.try_out(&stage.region, 3, soon(&stage)));
    assert_eq!(stage.now_in_force(), (3, Some(TemporaryP { parallelism: 3, permanent: HELD })));
    (0..10).for_each(|_| stage.tick());
    let temporary = TemporaryP { parallelism: sampled, permanent: HELD };
    assert_eq!(stage.now_in_force(), (sampled, Some(temporary)));
}

#[test]
fn settings_from_before_do_not_undo_what_the_search_has_set() {
    let mut stage = Stage::sampling();
    let before = Settings { parallelism: 99, ..stage.region.control.settings() };
    let sampled = stage.parallelism();
    assert!(stage.region.apply(&Settings { zeta: 500, ..before }));
    let settings = stage.region.control.settings();
    assert_eq!((settings.zeta, settings.parallelism), (500, sampled));
    assert!(!stage.region.tune_parallelism(&before, 12), "99 is not in force");
    stage.tick();
    assert_ne!(stage.parallelism(), 99);
}

#[test]
fn a_model_is_outdated_by_the_next_search() {
    // Only a search that begins with the open gate uses the model.
    let mut stage = Stage::with(OPEN, true);
    let outdated = |stage: &Stage| stage.tuning.fitted.as_ref().map(|fitted| fitted.outdated);
    stage.until("a model", |stage| outdated(stage).is_some());
    stage.until("the end of the search", |stage| {
        stage.tuning.tuner.as_ref().is_some_and(|tuner| tuner.phase() == Phase::Holding)
    });
    assert_eq!(outdated(&stage), Some(false));
    stage.most /= 2.0;
    stage.until("another search", |stage| {
        stage.tuning.tuner.as_ref().is_some_and(|tuner| tuner.phase() == Phase::Climbing)
    });
    assert_eq!(outdated(&stage), Some(true));
    assert_eq!(stage.tuning.report(&stage.region).fitted.map(|fitted| fitted.outdated), Some(true));
}

#[test]
fn while_long_requests_run_no_p_is_tried() {
    let mut stage = Stage::with(OPEN, true);
    for session in 0..24 {
        let slot = stage.region.session(session).expect("it was registered");
        slot.admitted_ns.store(stage.now.0, Ordering::Relaxed);
        slot.set_state(State::Running);
    }
    // Nothing is known of the others' requests in the first window.
    (0..40).for_each(|_| stage.tick());
    for _ in 0..600 {
        stage.tick();
        assert_eq!(stage.parallelism(), OPEN);
    }
    // They end.
    (0..24).for_each(|session| stage.region.session(session).unwrap().set_state(State::Passing));
    stage.until("a sample", |stage| stage.parallelism() != OPEN);
    // A disk flushes: none outlasts the others.
    stage.most = 0.0;
    for session in 0..24 {
        let slot = stage.region.session(session).expect("it was registered");
        slot.admitted_ns.store(stage.now.0, Ordering::Relaxed);
        slot.set_state(State::Running);
    }
    let later = stage.now + Nanos::from_millis(5_000);
    assert_eq!(stage.tuning.long(&stage.region, later, stage.turns as u64), 0);
    assert_eq!(stage.tuning.long(&stage.region, later, stage.turns as u64 + 1), 24);
}
