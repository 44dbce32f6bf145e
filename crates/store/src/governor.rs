//! Shares by the second: what each application had, what its owner asks for, what it is granted.
//!
//! Windows, owners and the allocator are `policy::learn`'s. Here are the clock's seconds, the
//! ledger's figures and the queue's weights.

use crate::apps::{About, App, Goal};
use crate::learner::Learner;
use crate::ledger::Page;
use crate::note::{Grant, Post};
use crate::number::Number;
use crate::rival::Rival;
pub use crate::window::Window;
use headworks_policy::Nanos;
use headworks_policy::block::Share;
use headworks_policy::learn::allocate::{self, Allocator};
use headworks_policy::learn::device::{Device, KINDS, Price};
use headworks_policy::learn::need::{Owner, Settings};
use headworks_policy::learn::{Application, Observation, WINDOW};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

mod at_once;
mod device;
mod fares;

pub use fares::Fares;

/// Windows that are kept: those that a late dft may belong to, and the picture's.
pub const HISTORY: usize = 600;

/// Part of what was asked of an application from which on it has served all.
const SERVED: f64 = 0.97;

/// Windows without a post after which nothing is posted any more.
const PATIENCE: u32 = 10;

/// A weight of one.
const WEIGHT: f64 = 1e6;

/// What is believed of an application.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The owner of its target.
    pub owner: Owner,
    /// How its target fares.
    pub fares: Fares,
    /// Its windows, the latest last.
    pub windows: VecDeque<Window>,
    /// What it was given of its ask.
    pub promise: f64,
    goal: Goal,
    /// The share that its owner asked for last; zero before the first.
    ask: f64,
    /// Its owner is at the host: the last ask that came, and when.
    asked: Option<(f64, Nanos)>,
    /// Windows with demand since something was posted that it achieved.
    quiet: u32,
}

impl Belief {
    /// Part of the usual depth that best effort may have for its sake. All, if it is not there or
    /// says nothing.
    fn depth(&self) -> f64 {
        let works = self.windows.back().is_some_and(|window| window.demand);
        if works && self.quiet < PATIENCE { self.owner.depth() } else { 1.0 }
    }

    fn fares(&self, settings: &Settings, limit: f64) -> Fares {
        // What is posted may come a little late, and a newcomer's program begins later.
        let patience = if self.owner.ask(settings).is_some() { PATIENCE } else { 30 };
        let verdict = || Fares::from(self.owner.verdict(limit));
        if self.quiet >= patience { Fares::Silent } else { verdict() }
    }
}

/// By what is posted, all that was asked was served, and that was less than the target.
fn is_sated(goal: Goal, post: &Post) -> bool {
    match (goal, post.achieved, post.offered) {
        (Goal::Rate(target), Some(achieved), Some(offered)) => {
            offered < target && achieved >= SERVED * offered
        }
        _ => false,
    }
}

/// What is to be set in the queue.
pub struct Orders {
    /// Of each application, by number.
    pub shares: Vec<(u32, Share)>,
    /// Requests of best effort in the device.
    pub best_effort: u32,
    /// Millionths of the device's time that it may have, if that is bounded.
    pub pace: Option<u32>,
    /// What is told to clients.
    pub grants: BTreeMap<u32, Grant>,
    /// What has to be said.
    pub said: Vec<String>,
}

/// What was learned of an application, for another store or the next start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Share that its target needs.
    pub need: f64,
    /// Its target was this.
    pub goal: Goal,
}

impl Learned {
    /// Whether its numbers can be: a file may be anyone's.
    fn is_sound(&self) -> bool {
        Number::Ask.check(self.need).is_ok() && self.goal.is_sound()
    }
}

/// See the module.
pub struct Governor {
    settings: Settings,
    depth: u32,
    allocator: Allocator,
    /// Applications that the allocator knows, by their places there.
    known: Vec<(u32, Application)>,
    beliefs: BTreeMap<u32, Belief>,
    /// Another controller, which decides instead of the allocator.
    rival: Option<Rival>,
    /// What is in force, by application.
    shares: BTreeMap<u32, f64>,
    page: Page,
    /// What the device can do, and for which part of the last window it was busy.
    device: Device,
    busy: f64,
    /// The prices that requests are charged.
    charged: Option<[Price; KINDS]>,
    starved: bool,
    best_effort: f64,
    /// Device time that best effort had in a second while nothing but its share bounded it.
    unbounded: f64,
    /// Windows since the start.
    pub windows: u64,
}

impl Governor {
    /// Of a device with this depth, and what is guessed of it.
    pub fn new(depth: u32, learner: &Learner, device: Device) -> Governor {
        let own = learner.need(false, false);
        let rival = own.is_none().then(|| Rival::new(learner.clone()));
        let settings = own.unwrap_or_default();
        Governor {
            settings,
            depth,
            allocator: Allocator::new(settings.store, &[]),
            known: Vec::new(),
            beliefs: BTreeMap::new(),
            rival,
            shares: BTreeMap::new(),
            page: Page::default(),
            device,
            busy: 0.0,
            charged: None,
            starved: false,
            best_effort: 1.0,
            unbounded: 0.0,
            windows: 0,
        }
    }

    /// What is believed of an application.
    pub fn belief(&self, cause: u32) -> Option<&Belief> {
        self.beliefs.get(&cause)
    }

    /// The share that is in force.
    pub fn share(&self, cause: u32) -> f64 {
        self.shares.get(&cause).copied().unwrap_or(0.0)
    }

    /// How often shares have changed.
    pub fn epoch(&self) -> u64 {
        self.allocator.epoch
    }

    /// Part of the device's depth that best effort may have.
    pub fn best_effort(&self) -> f64 {
        self.best_effort
    }

    /// What was learned, by name.
    pub fn learned(&self, apps: &[Arc<App>]) -> BTreeMap<String, Learned> {
        let one = |app: &Arc<App>| {
            let belief = self.beliefs.get(&app.cause)?;
            let need = belief.owner.estimate.need();
            (need > 0.0).then(|| (app.about().name, Learned { need, goal: belief.goal }))
        };
        apps.iter().filter_map(one).collect()
    }

    /// Begins with what was learned before, where a target is the same or of the same kind.
    pub fn take_over(
        &mut self,
        now: Nanos,
        apps: &[Arc<App>],
        learned: &BTreeMap<String, Learned>,
    ) {
        for app in apps {
            let about = app.about();
            let known = learned.get(&about.name).filter(|known| known.is_sound());
            let Some(known) = known else { continue };
            let factor = match (known.goal, about.goal) {
                (Goal::Rate(old), Goal::Rate(new)) => new / old,
                (Goal::LatencyMs(old), Goal::LatencyMs(new)) => old / new,
                _ => continue,
            };
            let settings = self.settings;
            let belief = self.belief_of(app.cause, about.goal);
            let need = (known.need * factor).clamp(0.0, 1.0);
            let seen = Observation {
                dft: Some(0.0),
                demand: true,
                age: Nanos(0),
                granted: need,
                used: need,
                held: true,
                lent: false,
                sated: false,
                latency_s: 0.0,
                outstanding: 0.0,
            };
            for _ in 0..settings.first {
                belief.owner.window(now, &settings, &seen);
            }
        }
    }

    fn belief_of(&mut self, cause: u32, goal: Goal) -> &mut Belief {
        let fresh = || Belief {
            owner: Owner::default(),
            fares: Fares::Unknown,
            windows: VecDeque::new(),
            promise: 1.0,
            goal,
            ask: 0.0,
            asked: None,
            quiet: 0,
        };
        let belief = self.beliefs.entry(cause).or_insert_with(fresh);
        if belief.goal != goal {
            match (belief.goal, goal) {
                (Goal::Rate(old), Goal::Rate(new)) => belief.owner.retarget(new / old),
                (Goal::LatencyMs(old), Goal::LatencyMs(new)) => belief.owner.retarget(old / new),
                _ => belief.owner = Owner::default(),
            }
            belief.goal = goal;
        }
        belief
    }

    /// The allocator knows these applications, and no others.
    fn know(&mut self, now: Nanos, abouts: &[(u32, About)]) {
        let known: Vec<_> =
            abouts.iter().map(|(cause, about)| (*cause, about.application())).collect();
        if known == self.known {
            return;
        }
        let applications: Vec<Application> = known.iter().map(|(_, about)| *about).collect();
        let epoch = self.allocator.epoch;
        self.allocator = Allocator::new(self.settings.store, &applications);
        self.allocator.epoch = epoch;
        self.known = known;
        self.beliefs.retain(|cause, _| abouts.iter().any(|(known, _)| known == cause));
        for (at, (cause, _)) in self.known.iter().enumerate() {
            let belief = self.beliefs.get(cause);
            let last = belief.and_then(|belief| belief.windows.back());
            self.allocator.set_present(at, last.is_none_or(|window| window.demand));
            let owner = belief.map(|belief| &belief.owner);
            if let Some((owner, ask)) = owner.and_then(|own| Some((own, own.ask(&self.settings)?)))
            {
                self.allocator.ask_for(now, at, ask, owner.estimate.need());
            }
        }
    }

    /// A window is over.
    pub fn window(
        &mut self,
        now: Nanos,
        page: Page,
        apps: &[Arc<App>],
        mut posts: BTreeMap<u32, (Post, Nanos)>,
    ) -> Orders {
        let abouts: Vec<(u32, About)> =
            apps.iter().filter(|app| app.is_there()).map(|app| (app.cause, app.about())).collect();
        for (cause, about) in &abouts {
            self.belief_of(*cause, about.goal);
        }
        self.know(now, &abouts);
        let before = std::mem::replace(&mut self.page, page);
        self.windows += 1;
        let mut said = Vec::new();
        let seconds = (self.page.at.since(before.at).0 as f64 / 1e9).max(1e-3);
        let all_ns: u64 = abouts
            .iter()
            .map(|(cause, _)| self.page.of(*cause).cost_ns - before.of(*cause).cost_ns)
            .sum();
        let work = self.page.device.window(&before.device, seconds, self.depth);
        self.busy = self.device.window(&work);
        let busy = self.busy;
        let mut seen = Vec::with_capacity(abouts.len());
        for (at, (cause, about)) in abouts.iter().enumerate() {
            let tally = self.page.of(*cause).since(&before.of(*cause));
            let used = tally.cost_ns as f64 / all_ns.max(1) as f64 * busy;
            let window = Window::of(&tally, seconds, self.share(*cause), used);
            // Who uses all that it is granted, and has more in the queue, is held by that, although
            // most of its time may be with the device.
            let bound = tally.waiting > 0 && used >= 0.95 * window.granted && !window.lent;
            let window = Window { held: window.held || bound, ..window };
            self.allocator.set_present(at, tally.has_demand());
            let post = posts.remove(cause);
            seen.push(self.observe(now, at, *cause, about, window, post, &mut said));
        }
        let changed = self.allocator.settle(now);
        for (at, (cause, _)) in abouts.iter().enumerate() {
            let promise = self.allocator.promise(at);
            let Some(belief) = self.beliefs.get_mut(cause) else { continue };
            belief.promise = promise;
            if changed {
                belief.owner.granted(promise);
            }
        }
        if self.best_effort == 1.0 {
            let rest = abouts.iter().filter(|(_, about)| about.goal == Goal::BestEffort);
            let cost = |cause: &u32| self.page.of(*cause).cost_ns - before.of(*cause).cost_ns;
            let had_ns: u64 = rest.map(|(cause, _)| cost(cause)).sum();
            // A second in which it was not there does not make it slow.
            self.unbounded = (had_ns as f64 / 1e9 / seconds).max(0.8 * self.unbounded);
        }
        let depths = self.beliefs.values().map(Belief::depth);
        self.best_effort = depths.fold(1.0, f64::min);
        let mut shares = self.allocator.shares().to_vec();
        if let Some(rival) = &mut self.rival {
            (shares, self.best_effort) = rival.window(now, abouts.iter().map(|(_, a)| a), &seen);
        }
        self.shares = abouts.iter().map(|(cause, _)| *cause).zip(shares).collect();
        self.orders(&abouts, said)
    }

    #[expect(clippy::too_many_arguments, reason = "one window of one application, in full")]
    fn observe(
        &mut self,
        now: Nanos,
        at: usize,
        cause: u32,
        about: &About,
        window: Window,
        post: Option<(Post, Nanos)>,
        said: &mut Vec<String>,
    ) -> Option<Observation> {
        let settings = self.settings;
        let belief = self.beliefs.get_mut(&cause)?;
        if belief.windows.len() == HISTORY {
            belief.windows.pop_front();
        }
        belief.windows.push_back(Window { ask: belief.ask, ..window });
        if let Goal::Share(share) = about.goal {
            self.allocator.ask(now, at, share);
            return None;
        }
        if about.goal == Goal::BestEffort {
            belief.fares = Fares::BestEffort;
            return Some(window.seen(None, Nanos(0)));
        }
        let (post, came) = post.unwrap_or_default();
        if let Some(ask) = post.ask {
            belief.asked = Some((ask, now));
        }
        // A dft belongs to the window in which the middle of its second was.
        let age = now.since(came) + Nanos::from_millis(post.age_ms) + Nanos(WINDOW.0 / 2);
        let back = (age.0 / WINDOW.0) as usize;
        let born = belief.windows.len().checked_sub(1 + back);
        let achieved = post.achieved;
        belief.quiet = if achieved.is_some() { 0 } else { belief.quiet + u32::from(window.demand) };
        let sated = is_sated(about.goal, &post);
        let mut observed = None;
        if let (Some(born), Some(achieved)) = (born, achieved)
            && let Some(dft) = about.goal.dft(achieved)
        {
            // It came in the middle of the window: what it had does not belong to its share.
            let comes = born.checked_sub(1).is_none_or(|before| !belief.windows[before].demand);
            let of = &mut belief.windows[born];
            (of.dft, of.sated) = (Some(dft), sated);
            let seen = of.seen(Some(dft), age);
            observed = Some(seen);
            // What it had before its first ask was in force, it has not asked for.
            let lent = of.lent || of.ask == 0.0;
            if !comes {
                belief.owner.window(now, &settings, &Observation { lent, ..seen });
            }
        }
        let lease = settings.store.lease;
        belief.asked = belief.asked.filter(|(_, when)| now.since(*when) < lease);
        // Who comes back asks for what it needed, before its first dft.
        let count = belief.windows.len();
        let comes = window.demand && count > 1 && !belief.windows[count - 2].demand;
        let own = belief.owner.ask(&settings).filter(|_| achieved.is_some() || comes);
        if let Some(ask) = belief.asked.map(|(ask, _)| ask).or(own) {
            self.allocator.ask_for(now, at, ask, belief.owner.estimate.need());
        }
        let ask = belief.asked.map(|(ask, _)| ask).or_else(|| belief.owner.ask(&settings));
        belief.ask = ask.unwrap_or(0.0).min(about.limit);
        let fares = belief.fares(&settings, about.limit);
        if fares.word() != belief.fares.word() {
            let starved = self.starved;
            said.extend(fares::words(&about.name, &fares, belief.promise, about.limit, starved));
        }
        belief.fares = fares;
        observed
    }

    fn orders(&self, abouts: &[(u32, About)], said: Vec<String>) -> Orders {
        let with_goal = abouts.iter().any(|(_, about)| about.goal != Goal::BestEffort);
        let floor = self.settings.store.floor;
        let all: f64 = abouts.iter().map(|(_, about)| about.weight).sum();
        let (mut shares, mut grants) = (Vec::new(), BTreeMap::new());
        for (cause, about) in abouts {
            let granted = self.share(*cause);
            // Who comes back in the middle of a window must not find a weight of nothing.
            let least = floor * about.weight / all.max(1e-9);
            let belief = self.beliefs.get(cause);
            let last = belief.and_then(|belief| belief.windows.back()).copied();
            let last = last.unwrap_or_default();
            // What is not there holds up no other, so it keeps the weight that it comes back to.
            let kept = match about.goal {
                _ if last.demand => 0.0,
                Goal::Share(share) => share,
                _ => belief.map_or(0.0, |belief| belief.ask),
            };
            let granted_or_kept = granted.max(kept).max(least);
            let part = if with_goal { granted_or_kept } else { about.weight / all.max(1e-9) };
            // At most 10^6.
            let weight = ((part * WEIGHT) as u32).max(1);
            let best_effort = about.goal == Goal::BestEffort;
            shares.push((*cause, Share { weight, best_effort }));
            let Some(belief) = belief else { continue };
            grants.insert(
                *cause,
                Grant {
                    application: about.name.clone(),
                    share: granted,
                    promise: belief.promise,
                    used: last.used,
                    held: last.held,
                    lent: last.lent,
                    wait_us: last.wait_us,
                    service_us: last.service_us,
                    depth: self.best_effort,
                },
            );
        }
        let most = (f64::from(self.depth) * self.best_effort).round().max(1.0);
        // At most the depth. A guessed price may be too high, by a few thousand times at most.
        let (best_effort, pace) = (most as u32, self.pace().map(|pace| (1e6 * pace) as u32));
        Orders { shares, best_effort, pace, grants, said }
    }
}

/// What shares a set of asks would get.
pub fn would_get(asks: &[(About, Option<f64>)]) -> Vec<f64> {
    let claim = |(about, ask): &(About, Option<f64>)| match ask {
        Some(ask) => {
            let granted = ask.min(about.limit);
            allocate::Claim::of_need(granted, *ask, about.limit, about.weight)
        }
        None => allocate::Claim::new(None, about.weight),
    };
    let claims: Vec<_> = asks.iter().map(claim).collect();
    let mut shares = vec![0.0; claims.len()];
    allocate::allocate(&claims, allocate::Settings::default().floor, &mut shares);
    shares
}
