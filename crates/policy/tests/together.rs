//! P, ζ and the weights of a target at once, each found by its own controller, on one simulated
//! database. Each changes what the others measure, and they must not chase each other.
//!
//! The gate is the policy itself, request by request. Inside, turns share the database's speed,
//! which depends on their number; a session that goes on with the next transaction of its quota
//! finds its data in the caches. More seeds: `HEADWORKS_SEEDS=2000 cargo test --release -p
//! headworks-policy --test together`.

use headworks_policy::Nanos;
use headworks_policy::gate::{Gate, Next};
use headworks_policy::histogram::{BUCKETS, bucket_of, percentile};
use headworks_policy::metrics::unfairness;
use headworks_policy::quota::{QuotaControl, QuotaLimits, QuotaObservation};
use headworks_policy::random::Random;
use headworks_policy::slo::{SloControl, SloLimits, SloObservation, Target, TargetState};
use headworks_policy::tuner::{Decision, Limits, Observation, Tuner};
use headworks_policy::wrr::{ClassShare, Sharing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sessions with a target, who pause between transactions; all others never do.
const SENSITIVE: u32 = 10;
const QUANTILE: f64 = 0.99;
const LOOK_S: f64 = 0.05;
const LOOKS_OF_A_TICK: u64 = 10;
/// Until the load changes, and until the end; what comes before `LEARNT_S` after either is
/// learning.
const HALF_S: f64 = 210.0;
const LEARNT_S: f64 = 90.0;

/// What transactions are like, and how fast so many of them are served together.
#[derive(Clone, Copy)]
struct Work {
    capacity: f64,
    each: f64,
    knee: f64,
    harm: f64,
    /// Mean requests of a transaction.
    turn: f64,
    /// Part of the work that is saved by going on with the next one.
    warm: f64,
    pause_s: f64,
}

impl Work {
    fn drawn(random: &mut Random) -> Work {
        let peak = 4.0 * 6f64.powf(random.unit());
        let capacity = 250.0 * 3f64.powf(random.unit());
        Work {
            capacity,
            each: capacity / peak * (1.0 + 2.0 * random.unit()),
            knee: peak * (1.0 + random.unit()),
            harm: 0.05 + 0.6 * random.unit(),
            turn: 4.0 * 8f64.powf(random.unit()),
            warm: 0.15 * random.unit(),
            pause_s: 0.02 + 0.04 * random.unit(),
        }
    }

    /// Transactions a second with so many inside.
    fn speed(&self, inside: usize) -> f64 {
        let p = inside as f64;
        let linear = self.each * p;
        let rising = linear / (1.0 + (linear / self.capacity).powi(3)).cbrt();
        rising / (1.0 + self.harm * (p / self.knee).ln().max(0.0))
    }

    fn best(&self) -> (usize, f64) {
        let all = (2..=256).map(|p| (p, self.speed(p)));
        all.fold((0, 0.0), |best, each| if each.1 > best.1 { each } else { best })
    }
}

#[derive(Clone, Copy, Default)]
struct Session {
    since: f64,
    quota: u32,
    used: u32,
    requests: u32,
    served: u64,
    /// The same when the window of ζ began.
    served_before: u64,
    last_s: f64,
}

/// A time, or an amount of work, and a session; in a heap, the earliest first. Numbers that are not
/// negative have the order of their bits.
type At = Reverse<(u64, u32)>;

fn at(time: f64, session: u32) -> At {
    Reverse((time.to_bits(), session))
}

fn time(at: &At) -> f64 {
    f64::from_bits(at.0.0)
}

struct Site {
    work: Work,
    random: Random,
    gate: Box<Gate>,
    sessions: Vec<Session>,
    inside: BinaryHeap<At>,
    away: BinaryHeap<At>,
    /// Work that each one inside has been given by now.
    given: f64,
    now: f64,
    parallelism: usize,
    turns: u64,
    requests: u64,
    inside_s: f64,
    latencies: [u64; BUCKETS],
    above: u64,
    target_ms: f64,
}

impl Site {
    fn new(seed: u64) -> Site {
        let mut random = Random::new(seed);
        let work = Work::drawn(&mut random);
        let others = 80 + (120.0 * random.unit()) as u32;
        let sessions = SENSITIVE + others;
        let mut gate = Box::new(Gate::new());
        for session in 0..sessions {
            gate.wrr.join(session, u32::from(session < SENSITIVE));
        }
        let mut site = Site {
            target_ms: 0.0,
            work,
            random,
            gate,
            sessions: vec![Session::default(); sessions as usize],
            inside: BinaryHeap::new(),
            away: BinaryHeap::new(),
            given: 0.0,
            now: 0.0,
            parallelism: 1_024,
            turns: 0,
            requests: 0,
            inside_s: 0.0,
            latencies: [0; BUCKETS],
            above: 0,
        };
        site.aim();
        (0..sessions).for_each(|session| site.arrive(session));
        site
    }

    /// A target that can be held at the best P: the longest transactions have several times the
    /// mean.
    fn aim(&mut self) {
        let (inside, speed) = self.work.best();
        self.target_ms = 12.0 * inside as f64 / speed * 1e3;
    }

    fn others(&self) -> u32 {
        self.sessions.len() as u32 - SENSITIVE
    }

    /// The next transaction of a session that is inside begins.
    fn begin(&mut self, session: u32, part: f64) {
        let drawn = (self.work.turn * (0.5 + self.random.unit())).round().max(1.0);
        let demand = drawn / self.work.turn * (0.5 + 0.5 * self.random.exponential(1.0)) * part;
        self.sessions[session as usize].requests = drawn as u32;
        self.inside.push(at(self.given + demand, session));
    }

    fn pump(&mut self) {
        while self.inside.len() < self.parallelism {
            let Some(Next::Admit(turn)) = self.gate.decide() else { break };
            let session = &mut self.sessions[turn.session as usize];
            (session.quota, session.used) = (turn.quota, 0);
            self.begin(turn.session, 1.0);
        }
    }

    fn arrive(&mut self, session: u32) {
        self.sessions[session as usize].since = self.now;
        self.gate.wrr.arrive(session);
        self.pump();
    }

    fn finish(&mut self, number: u32) {
        let now = self.now;
        let session = &mut self.sessions[number as usize];
        session.used += session.requests;
        session.served += u64::from(session.requests);
        session.last_s = now;
        self.turns += 1;
        self.requests += u64::from(session.requests);
        let (used, waited_s) = (session.used, now - session.since);
        if number < SENSITIVE {
            self.latencies[bucket_of(Nanos((waited_s * 1e9) as u64))] += 1;
            self.above += u64::from(waited_s * 1e3 > self.target_ms);
        } else if used < session.quota {
            session.since = now;
            return self.begin(number, 1.0 - self.work.warm);
        }
        self.gate.wrr.withdraw(number);
        self.gate.wrr.end_turn(number, used);
        if number < SENSITIVE {
            let pause = self.work.pause_s * self.random.exponential(1.0);
            self.away.push(at(now + pause, number));
            self.pump();
        } else {
            self.arrive(number);
        }
    }

    fn run(&mut self, until: f64) {
        loop {
            let speed = self.work.speed(self.inside.len()) / self.inside.len().max(1) as f64;
            let done = self.inside.peek().map_or(f64::INFINITY, |first| {
                self.now + (time(first) - self.given).max(0.0) / speed
            });
            let back = self.away.peek().map_or(f64::INFINITY, time);
            let next = done.min(back).min(until).max(self.now);
            self.inside_s += (next - self.now) * self.inside.len() as f64;
            self.given += (next - self.now) * speed;
            self.now = next;
            if next >= until {
                return;
            }
            if back <= done {
                let Some(Reverse((_, session))) = self.away.pop() else { return };
                self.arrive(session);
            } else {
                let Some(Reverse((_, session))) = self.inside.pop() else { return };
                self.finish(session);
            }
        }
    }
}

/// What came of one half.
#[derive(Default)]
struct Half {
    /// Throughput of the P in force relative to the best P's, mean.
    part: f64,
    fair: (u32, u32),
    held: (u32, u32),
    longest_wait_s: f64,
    moves: u32,
    infeasible: bool,
}

/// The controllers, glued together as the daemon does it.
struct Controllers {
    tuner: Tuner,
    quota: QuotaControl,
    window_since: f64,
    slo: SloControl,
    slo_since: f64,
    slo_seen: ([u64; BUCKETS], u64),
}

impl Controllers {
    fn new(site: &Site) -> Controllers {
        let share = f64::from(SENSITIVE) / site.sessions.len() as f64;
        Controllers {
            tuner: Tuner::new(Limits { cores: 2, ..Limits::default() }, 1_024),
            quota: QuotaControl::default(),
            window_since: 0.0,
            slo: SloControl::new(&[share], &SloLimits::USUAL),
            slo_since: 0.0,
            slo_seen: ([0; BUCKETS], 0),
        }
    }

    fn observe(&mut self, site: &mut Site) {
        let p = self.tuner.observe(Observation {
            now: Nanos((site.now * 1e9) as u64),
            completed: site.turns,
            requests: site.requests,
            run: Nanos((site.inside_s * 1e9) as u64),
            sessions: site.sessions.len() as u32,
            long: 0,
        });
        site.parallelism = p as usize;
        site.pump();
    }

    /// ζ, of those that always want something. Returns U_f at the end of a window.
    fn quota(&mut self, site: &mut Site) -> Option<f64> {
        let others = f64::from(site.others());
        let of = |session: &Session| (session.served - session.served_before) as f64;
        let each: Vec<f64> = site.sessions[SENSITIVE as usize..].iter().map(of).collect();
        let mean = each.iter().sum::<f64>() / others;
        let turns_each = mean / site.work.turn;
        let lasted = Nanos(((site.now - self.window_since) * 1e9) as u64);
        let limits = QuotaLimits {
            increase: QuotaLimits::step(site.work.turn, others),
            most: 1_048_576.0,
            ..QuotaLimits::default()
        };
        if !limits.ends(lasted, turns_each) {
            return None;
        }
        let found = unfairness(each.iter().copied());
        let least = site.sessions.len() as f64;
        let unfairness = found.filter(|_| limits.judges(turns_each));
        let zeta =
            self.quota.observe(&limits, QuotaObservation { unfairness, variability: None, least });
        site.gate.wrr.set_zeta(zeta.round() as u32);
        site.sessions.iter_mut().for_each(|session| session.served_before = session.served);
        self.window_since = site.now;
        unfairness
    }

    /// Weights of those with a target. Returns how it stands at the end of a window.
    fn target(&mut self, site: &mut Site) -> Option<TargetState> {
        let (before, above_before) = &self.slo_seen;
        let counts: [u64; BUCKETS] = std::array::from_fn(|at| site.latencies[at] - before[at]);
        let answered: u64 = counts.iter().sum();
        let span_s = site.now - self.slo_since;
        let enough = answered as f64 * (1.0 - QUANTILE) >= 10.0;
        if span_s < 1.0 || !enough && span_s < 10.0 {
            return None;
        }
        let target = Target { quantile: QUANTILE, latency_ms: site.target_ms };
        let latency_ms = percentile(&counts, QUANTILE).map_or(0.0, Nanos::as_millis_f64);
        let observation = SloObservation { answered, above: site.above - above_before, latency_ms };
        let standing = self.slo.observe(0, target, &SloLimits::USUAL, observation);
        let share = self.slo.share(0);
        let weight = share / (1.0 - share) * f64::from(site.others()) / f64::from(SENSITIVE);
        let thousandths = (weight.clamp(0.25, 1_000.0) * 1e3).round() as u32;
        site.gate.wrr.set_share(1, ClassShare::new(thousandths, Sharing::PerUser));
        (self.slo_since, self.slo_seen) = (site.now, (site.latencies, site.above));
        Some(standing)
    }

    /// Runs to `until`, and judges what comes after `from`.
    fn run(&mut self, site: &mut Site, from: f64, until: f64) -> Half {
        let mut half = Half::default();
        let best = site.work.best().1;
        let (mut looks, mut judged, mut decided) = (0, 0.0, self.tuner.decisions().1);
        while site.now < until {
            site.run((site.now + LOOK_S).min(until));
            self.observe(site);
            looks += 1;
            let counts = site.now > from;
            if counts {
                half.part += site.work.speed(site.parallelism.min(site.sessions.len())) / best;
                judged += 1.0;
            } else {
                decided = self.tuner.decisions().1;
            }
            if looks % LOOKS_OF_A_TICK != 0 {
                continue;
            }
            if let Some(unfairness) = self.quota(site).filter(|_| counts) {
                half.fair.0 += u32::from(unfairness <= 0.1);
                half.fair.1 += 1;
            }
            if let Some(standing) = self.target(site).filter(|_| counts) {
                half.held.0 += u32::from(standing == TargetState::Held);
                half.held.1 += 1;
                half.infeasible |= matches!(standing, TargetState::Infeasible(_));
            }
            let waits = site.sessions.iter().map(|session| site.now - session.last_s);
            half.longest_wait_s = waits.fold(half.longest_wait_s, f64::max);
        }
        let (latest, total) = self.tuner.decisions();
        let latest: Vec<&Decision> = latest.collect();
        let fresh = latest.len() - ((total - decided) as usize).min(latest.len());
        let moved = latest[fresh..].iter().filter(|d| matches!(d, Decision::Moved { .. }));
        half.moves = moved.count() as u32;
        half.part /= judged;
        half
    }
}

#[test]
fn three_controllers_on_one_database_reach_their_aims_and_do_not_chase_each_other() {
    let seeds = std::env::var("HEADWORKS_SEEDS").map_or(60, |text| text.parse().unwrap());
    let mut halves = Vec::new();
    for seed in 0..seeds {
        let mut site = Site::new(seed);
        let mut controllers = Controllers::new(&site);
        halves.push((seed, controllers.run(&mut site, LEARNT_S, HALF_S)));
        site.work = Work::drawn(&mut site.random);
        site.aim();
        let (from, until) = (HALF_S + LEARNT_S, 2.0 * HALF_S);
        halves.push((seed, controllers.run(&mut site, from, until)));
    }
    let all = halves.len() as f64;
    let part = |good: &dyn Fn(&Half) -> bool| {
        halves.iter().filter(|(_, half)| good(half)).count() as f64 / all
    };
    let near = part(&|half| half.part >= 0.95);
    let sum = |of: &dyn Fn(&Half) -> (u32, u32)| {
        let (good, of_all) = halves
            .iter()
            .map(|(_, half)| of(half))
            .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        f64::from(good) / f64::from(of_all)
    };
    let (fair, held) = (sum(&|half| half.fair), sum(&|half| half.held));
    let wait = halves.iter().map(|(_, half)| half.longest_wait_s).fold(0.0, f64::max);
    let calm = part(&|half| half.moves <= 6);
    println!(
        "{all} loads: {near:.3} within 5 % of the best P's throughput, U_f held in {fair:.3} of the windows and the \
         target in {held:.3}; no session waited longer than {wait:.1} s; {calm:.3} with at most six moves of P in two minutes"
    );
    for (seed, half) in &halves {
        if half.part < 0.95 || half.infeasible || half.moves > 6 {
            println!(
                "seed {seed}: {:.3} of the best, {} moves, target {:?}, U_f {:?}, infeasible {}",
                half.part, half.moves, half.held, half.fair, half.infeasible
            );
        }
    }
    assert!(near >= 0.95, "{near}");
    assert!(fair >= 0.95, "{fair}");
    assert!(held >= 0.95, "{held}");
    assert!(halves.iter().all(|(_, half)| !half.infeasible), "all targets can be held");
    // A fifth of a slow database among two hundred sessions, who have some transactions in a row
    // each.
    assert!(wait < 30.0, "{wait}");
    assert!(calm >= 0.95, "{calm}");
}
