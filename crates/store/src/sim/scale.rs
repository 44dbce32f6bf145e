//! Many hosts and stores: owners of targets on hosts, books at stores, and messages that get lost.
//!
//! # The model
//! Each host has an application with a target on one or two stores; each store also serves best
//! effort. A transaction needs I/O of each of its stores, so its rate is that of the tightest.
//! Costs and targets change, hosts are cut off for 30 s, and stores restart and forget all asks. An
//! ask rides on requests, a grant on replies, and either may be lost; there are no other messages.
//! The owner's and the store's code is that of `policy::learn`.
//!
//! An application on several stores does not hold what the tightest one makes useless: it asks each
//! for at most [`SPARE`] times what its least grant lets it use.

use super::fluid::normal;
use super::judge::Times;
use headworks_policy::Nanos;
use headworks_policy::learn::allocate::{self, Allocator};
use headworks_policy::learn::need::{self, Owner};
use headworks_policy::learn::{Application, Observation, WINDOW};
use headworks_policy::random::Random;

/// Part by which an ask may exceed what the tightest store lets the application use.
const SPARE: f64 = 1.1;

/// Seconds of a window of delivered work by which a change is judged.
const WINDOW_S: usize = 15;

/// Sizes and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Hosts, each with one application with a target.
    pub hosts: usize,
    /// Stores.
    pub stores: usize,
    /// Simulated time.
    pub seconds: usize,
    /// σ of 5 s windows.
    pub sigma: f64,
    /// Part of the messages that is lost.
    pub loss: f64,
    /// Mean part of a store that targets need.
    pub load: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { hosts: 1_000, stores: 100, seconds: 3_600, sigma: 0.05, loss: 0.01, load: 0.65 }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Changes of cost or target.
    pub changes: usize,
    /// Hosts cut off.
    pub cut_offs: usize,
    /// Stores restarted.
    pub restarts: usize,
    /// Seconds until a window of 15 s began that was within 5 %, where there was room.
    pub followed: Times,
    /// The same, the slowest of a hundred.
    pub followed_p99_s: usize,
    /// Part of settled windows of 30 s within 5 %.
    pub held: f64,
    /// Mean of the target where there was no room.
    pub short: f64,
    /// Mean part of a store that best effort had.
    pub best_effort: f64,
}

struct Place {
    store: usize,
    /// Number among the applications of the store.
    entry: usize,
    /// Share that one transaction a second takes.
    cost: f64,
    /// What it varies about.
    usual_cost: f64,
    owner: Owner,
    share: f64,
    promise: f64,
}

struct App {
    target: f64,
    usual_target: f64,
    places: Vec<Place>,
    slow: f64,
    changed: Option<usize>,
    cut_until: usize,
    achieved: Vec<f64>,
}

struct World {
    settings: Settings,
    random: Random,
    apps: Vec<App>,
    stores: Vec<Allocator>,
    members: Vec<usize>,
    down_until: Vec<usize>,
    outcome: Outcome,
    times: Vec<Option<usize>>,
    held: (usize, usize),
    short: (f64, usize),
}

fn books(members: usize) -> Allocator {
    // One for each application with a target, and one for all of best effort.
    let mut about = vec![Application::with_target(0); members];
    about.push(Application::best_effort(0));
    let mut books = Allocator::new(allocate::Settings::default(), &about);
    (0..=members).for_each(|at| books.set_present(at, true));
    books
}

impl World {
    fn new(settings: Settings, seed: u64) -> Self {
        let mut random = Random::stream(seed, 4);
        let mut members = vec![0; settings.stores];
        let per_store = settings.hosts as f64 * 1.3 / settings.stores as f64;
        let mut apps = Vec::with_capacity(settings.hosts);
        for _ in 0..settings.hosts {
            let target = 20.0 + 80.0 * random.unit();
            let count = if random.unit() < 0.3 { 2 } else { 1 };
            let mut places = Vec::with_capacity(count);
            for _ in 0..count {
                let store = random.below(settings.stores as u64) as usize;
                let cost = (0.25 + 1.1 * random.unit()) * settings.load / per_store / target;
                let owner = Owner::default();
                let entry = members[store];
                members[store] += 1;
                let share = 1.0 / per_store;
                let usual_cost = cost;
                places.push(Place { store, entry, cost, usual_cost, owner, share, promise: 1.0 });
            }
            let changed = Some(0);
            apps.push(App {
                target,
                usual_target: target,
                places,
                slow: 0.0,
                changed,
                cut_until: 0,
                achieved: vec![],
            });
        }
        let outcome = Outcome {
            changes: 0,
            cut_offs: 0,
            restarts: 0,
            followed: Times::of(&[]),
            followed_p99_s: 0,
            held: 0.0,
            short: 0.0,
            best_effort: 0.0,
        };
        World {
            settings,
            random,
            apps,
            stores: members.iter().map(|members| books(*members)).collect(),
            down_until: vec![0; settings.stores],
            members,
            outcome,
            times: Vec::new(),
            held: (0, 0),
            short: (0.0, 0),
        }
    }

    fn events(&mut self, second: usize) {
        for app in &mut self.apps {
            let event = self.random.unit() * 3_600.0;
            let factor = 0.6 + self.random.unit();
            if event < 1.0 {
                app.places.iter_mut().for_each(|place| place.cost = place.usual_cost * factor);
            } else if event < 1.5 {
                let target = app.usual_target * factor;
                let factor = target / app.target;
                app.target = target;
                app.places.iter_mut().for_each(|place| place.owner.retarget(factor));
            } else if event < 1.6 {
                app.cut_until = second + 30;
                self.outcome.cut_offs += 1;
            }
            if event < 1.5 {
                app.changed = Some(second);
                self.outcome.changes += 1;
            }
        }
        for store in 0..self.stores.len() {
            if self.random.unit() < 1.0 / 43_200.0 {
                self.down_until[store] = second + 2;
                self.stores[store] = books(self.members[store]);
                self.outcome.restarts += 1;
            }
        }
    }

    fn allocate(&mut self, now: Nanos, second: usize) {
        for store in &mut self.stores {
            store.settle(now);
            let rest = store.shares().last().copied().unwrap_or(0.0);
            self.outcome.best_effort +=
                rest / self.settings.stores as f64 / self.settings.seconds as f64;
        }
        for app in &mut self.apps {
            for place in &mut app.places {
                let up = self.down_until[place.store] <= second;
                let store = &self.stores[place.store];
                place.share = if up { store.shares()[place.entry] } else { 0.0 };
                if up && app.cut_until <= second && self.random.unit() >= self.settings.loss {
                    place.promise = store.promise(place.entry);
                }
            }
        }
    }

    fn applications(&mut self, now: Nanos, second: usize, needs: &[f64]) {
        let settings = need::Settings { depth_gain: 0.0, ..Default::default() };
        let Settings { sigma, loss, .. } = self.settings;
        for app in &mut self.apps {
            let kept = (-1.0f64 / 20.0).exp();
            let slow = 0.5 * sigma * normal(&mut self.random);
            app.slow = kept * app.slow + (1.0 - kept * kept).sqrt() * slow;
            let even =
                app.places.iter().map(|place| place.share / place.cost).fold(f64::MAX, f64::min);
            let cut = app.cut_until > second;
            let noise = (1.0 + 1.9 * sigma * normal(&mut self.random) + app.slow).max(0.0);
            let achieved = if cut { 0.0 } else { even * noise / app.target };
            app.achieved.push(achieved);
            if cut {
                continue;
            }
            let least = app.places.iter().map(|place| place.promise).fold(1.0, f64::min);
            for place in &mut app.places {
                let used = place.cost * even;
                let used = used * (1.0 + 0.6 * sigma * normal(&mut self.random)).max(0.0);
                let seen = Observation {
                    dft: Some(achieved - 1.0),
                    demand: true,
                    age: Nanos(0),
                    granted: place.share,
                    used,
                    // The tightest of several holds it, and it is not known which: use is measured.
                    held: false,
                    lent: false,
                    sated: false,
                    latency_s: 0.0,
                    outstanding: 0.0,
                };
                place.owner.granted(least);
                place.owner.window(now, &settings, &seen);
                let spare = (SPARE * least / place.promise.max(0.05)).min(1.0);
                if let Some(ask) = place.owner.ask(&settings)
                    && self.random.unit() >= loss
                    && self.down_until[place.store] <= second
                {
                    self.stores[place.store].ask(now, place.entry, ask * spare);
                }
            }
            let room = app.places.iter().all(|place| needs[place.store] < 0.92);
            judge(app, second, room, &mut self.times, &mut self.held, &mut self.short);
        }
    }
}

fn judge(
    app: &mut App,
    second: usize,
    room: bool,
    times: &mut Vec<Option<usize>>,
    held: &mut (usize, usize),
    short: &mut (f64, usize),
) {
    let mean = |seconds: usize| {
        let from = app.achieved.len().saturating_sub(seconds);
        app.achieved[from..].iter().sum::<f64>() / (app.achieved.len() - from).max(1) as f64
    };
    if let Some(since) = app.changed {
        let seen = second >= since + WINDOW_S && (mean(WINDOW_S) - 1.0).abs() < 0.05;
        let gave_up = second > since + 600;
        if room && (seen || gave_up) {
            times.push(seen.then(|| second - since - WINDOW_S));
        }
        if room && seen || gave_up {
            app.changed = None;
        }
    }
    if second.is_multiple_of(30) && second > 300 {
        if !room {
            *short = (short.0 + mean(30), short.1 + 1);
        } else if app.changed.is_none() {
            *held = (held.0 + usize::from((mean(30) - 1.0).abs() <= 0.05), held.1 + 1);
        }
        let keep = app.achieved.len().saturating_sub(60);
        app.achieved.drain(..keep);
    }
}

/// Runs it.
pub fn scale(settings: Settings, seed: u64) -> Outcome {
    let mut world = World::new(settings, seed);
    for second in 0..settings.seconds {
        let now = Nanos(WINDOW.0 * second as u64);
        world.events(second);
        world.allocate(now, second);
        let mut needs = vec![0.0; settings.stores];
        for app in &world.apps {
            for place in &app.places {
                needs[place.store] += place.cost * app.target;
            }
        }
        world.applications(now, second, &needs);
    }
    let mut outcome = world.outcome;
    outcome.followed = Times::of(&world.times);
    let mut sorted: Vec<usize> =
        world.times.iter().map(|time| time.unwrap_or(usize::MAX)).collect();
    sorted.sort_unstable();
    outcome.followed_p99_s = sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(0);
    outcome.held = world.held.0 as f64 / world.held.1.max(1) as f64;
    outcome.short = world.short.0 / world.short.1.max(1) as f64;
    outcome
}
