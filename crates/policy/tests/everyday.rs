//! The tuner on ordinary days: whatever the load is, it is no worse off than with the open gate,
//! from the first second on.
//!
//! Simulated turn by turn: those inside share the database's speed, which depends on their number.
//! Beside each run there is one of the same seed with the gate open. More seeds:
//! `HEADWORKS_SEEDS=2000 cargo test --release -p headworks-policy --test everyday -- --nocapture`.

use headworks_policy::Nanos;
use headworks_policy::random::Random;
use headworks_policy::tuner::{Decision, Limits, Observation, Phase, Tuner};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const LOOK_S: f64 = 0.05;
const OPEN: u32 = 1_024;
/// Until the load or the number of sessions changes, if it does, and until the end.
const CHANGE_S: f64 = 120.0;
const END_S: f64 = 300.0;
const WINDOW_S: f64 = 10.0;
/// Time over which a machine whose speed moves comes back to its usual one.
const MOVES_S: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A few inside are as good as all.
    Flat,
    /// The more inside the better.
    Rising,
    /// Best with 8 to 64 inside, and somewhat worse with more.
    Peak,
    /// With many inside hardly anything is done.
    Collapse,
    /// Clients think between turns, so that few want anything at a time.
    Thinking,
}

const KINDS: [Kind; 5] = [Kind::Flat, Kind::Rising, Kind::Peak, Kind::Collapse, Kind::Thinking];

/// How fast so many inside are served together.
#[derive(Clone, Copy, Debug)]
struct Load {
    kind: Kind,
    /// Turns a second at most, and inside which they are reached.
    capacity: f64,
    width: f64,
    /// From where on more inside are harmful, and how much.
    knee: f64,
    harm: f64,
    /// Mean time between two turns of a session.
    think_s: f64,
}

impl Load {
    fn drawn(kind: Kind, random: &mut Random) -> Load {
        let capacity = random.between(500.0, 8_000.0);
        let peak = random.between(8.0, 64.0);
        let (width, knee, harm) = match kind {
            Kind::Flat => (random.between(2.0, 16.0), 1e9, 0.0),
            Kind::Rising => (1e4, 1e9, 0.0),
            Kind::Peak => (peak / 2.0, peak, 0.05 + 0.4 * random.unit()),
            Kind::Collapse => (peak / 2.0, peak, 0.5 + random.unit()),
            Kind::Thinking => (random.between(2.0, 16.0), 1e9, 0.0),
        };
        let think_s = if kind == Kind::Thinking { random.between(0.1, 1.0) } else { 0.0 };
        Load { kind, capacity, width, knee, harm, think_s }
    }

    fn speed(&self, inside: u32) -> f64 {
        let p = f64::from(inside);
        if self.kind == Kind::Rising {
            return self.capacity * p / 256.0;
        }
        let linear = p / self.width;
        let rising = self.capacity * linear / (1.0 + linear.powi(3)).cbrt();
        let beyond = (p / self.knee).max(1.0);
        let harmed = match self.kind {
            Kind::Collapse => beyond.powf(self.harm),
            _ => 1.0 + self.harm * beyond.ln(),
        };
        rising / harmed
    }
}

struct Site {
    load: Load,
    sessions: u32,
    /// Long sessions beside them. They hold no permit and share the processors with those inside.
    long: u32,
    random: Random,
    /// Counts scatter by so much from 50 ms to 50 ms.
    noise: f64,
    /// The machine's speed moves by so much (standard deviation), over some seconds; as it stands.
    moves: f64,
    pace: f64,
    state: u64,
    inside: BinaryHeap<Reverse<u64>>,
    thinking: BinaryHeap<Reverse<u64>>,
    given: f64,
    now: f64,
    turns: u64,
    inside_s: f64,
    /// Work that was done, without noise.
    done: f64,
}

impl Site {
    fn new(seed: u64, load: Load, sessions: u32, noise: f64) -> Site {
        Site {
            load,
            sessions,
            long: 0,
            random: Random::new(seed),
            noise,
            moves: 0.0,
            pace: 1.0,
            state: seed,
            inside: BinaryHeap::new(),
            thinking: BinaryHeap::new(),
            given: 0.0,
            now: 0.0,
            turns: 0,
            inside_s: 0.0,
            done: 0.0,
        }
    }

    /// How fast so many inside are served together, beside the long ones.
    fn speed(&self, inside: u32) -> f64 {
        let part = f64::from(inside) / f64::from(inside + self.long).max(1.0);
        self.load.speed(inside) * part
    }

    /// Runs for a look with this P.
    fn run(&mut self, parallelism: u32) {
        let until = self.now + LOOK_S;
        let noisy = {
            let mut random = Random::new(self.state);
            self.state = self.state.wrapping_add(1);
            let step = self.moves * (6.0 * LOOK_S / MOVES_S).sqrt() * (2.0 * random.unit() - 1.0);
            self.pace = (self.pace + (1.0 - self.pace) * LOOK_S / MOVES_S + step).max(0.3);
            self.pace * (1.0 + self.noise * (random.unit() + random.unit() - 1.0) * 3.0)
        };
        loop {
            let waiting = |site: &Site| {
                let away = (site.inside.len() + site.thinking.len()) as u32;
                site.sessions.saturating_sub(away)
            };
            while (self.inside.len() as u32) < parallelism && waiting(self) > 0 {
                let turn = self.given + 0.5 + self.random.unit();
                self.inside.push(Reverse(turn.to_bits()));
            }
            let count = self.inside.len() as u32;
            let speed = self.speed(count);
            let each = speed * noisy.max(0.1) / f64::from(count.max(1));
            let time = |at: &Reverse<u64>| f64::from_bits(at.0);
            let done = self.inside.peek().map_or(f64::INFINITY, |first| {
                self.now + (time(first) - self.given).max(0.0) / each
            });
            let back = self.thinking.peek().map_or(f64::INFINITY, time);
            let next = done.min(back).min(until).max(self.now);
            self.given += (next - self.now) * each;
            self.inside_s += (next - self.now) * f64::from(count);
            self.done += (next - self.now) * speed;
            self.now = next;
            if done > until && back > until {
                return;
            }
            if back <= done {
                self.thinking.pop();
                continue;
            }
            self.inside.pop();
            self.turns += 1;
            if self.load.think_s > 0.0 {
                let back = self.now - self.load.think_s * (1.0 - self.random.unit()).ln();
                self.thinking.push(Reverse(back.to_bits()));
            }
        }
    }

    fn observation(&self) -> Observation {
        Observation {
            now: Nanos((self.now * 1e9) as u64),
            completed: self.turns,
            requests: self.turns,
            run: Nanos((self.inside_s * 1e9) as u64),
            sessions: self.sessions,
            long: self.long,
        }
    }
}

/// What changes in the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// 64 sessions become 256.
    Sessions,
    /// The load becomes another one.
    Load(Kind),
    /// 24 long requests begin beside it.
    Long,
    /// The machine's speed moves all the time. Nothing else changes.
    Machine,
}

/// What came of a run.
#[derive(Debug)]
struct Day {
    kind: Kind,
    seed: u64,
    /// Throughput of each window, relative to the open gate's in the same one, and how much of that
    /// may be chance. Without the window in which the load turned.
    windows: Vec<(f64, f64)>,
    /// That window.
    turned: Option<f64>,
    /// Longest time at less than half of the open gate's throughput, in seconds.
    halved_s: f64,
    /// What the held P gives, relative to the best, two minutes after the begin and at the end.
    /// Only for a load that has a P which is better than the open gate by 5 %.
    found: Vec<f64>,
    /// The least that a P gives, relative to the open gate, while it is held.
    held_least: f64,
    /// Time for which a P was tried that leaves short sessions less than 0.95 of the processors, in
    /// seconds.
    handed_s: f64,
    /// Searches that began.
    searches: u64,
}

fn day(seed: u64, kind: Kind, change: Change) -> Day {
    let mut random = Random::new(seed);
    let load = Load::drawn(kind, &mut random);
    let noise = 0.01 + 0.09 * random.unit();
    let sessions = match change {
        Change::Sessions => 64,
        _ => [64, 128, 256, 512][(random.unit() * 4.0) as usize],
    };
    let mut tuner = Tuner::new(Limits { cores: 2, ..Limits::default() }, OPEN);
    let (mut gate, mut open) =
        (Site::new(seed, load, sessions, noise), Site::new(seed, load, sessions, noise));
    let changes = !matches!(change, Change::Nothing | Change::Machine);
    if change == Change::Machine {
        (gate.moves, open.moves) = (0.15, 0.15);
    }
    let mut day = Day {
        kind,
        seed,
        windows: Vec::new(),
        turned: None,
        halved_s: 0.0,
        found: Vec::new(),
        held_least: f64::INFINITY,
        handed_s: 0.0,
        searches: 0,
    };
    let (mut before, mut halved_s, mut usual) = ((0.0, 0.0), 0.0, 0.0);
    let looks = (END_S / LOOK_S) as u64;
    let every = |at: u64, seconds: f64| at.is_multiple_of((seconds / LOOK_S) as u64);
    for at in 1..=looks {
        let now_s = at as f64 * LOOK_S;
        let gated = gate.done;
        let ungated = open.done;
        let hands = tuner.parallelism() < gate.sessions.min(tuner.held()).min(19 * gate.long);
        day.handed_s += if hands { LOOK_S } else { 0.0 };
        gate.run(tuner.parallelism());
        open.run(OPEN);
        let known = tuner.decisions().1;
        tuner.observe(gate.observation());
        let (decisions, total) = tuner.decisions();
        let fresh = decisions.skip((32u64.min(total) - (total - known)) as usize);
        day.searches += fresh.filter(|d| matches!(d, Decision::Began { .. })).count() as u64;
        usual += 0.1 * (open.done - ungated - usual);
        // Where clients think, whether one of them wants anything at a moment is chance.
        let half = gate.load.think_s == 0.0 && gate.done - gated < 0.5 * usual && now_s > 1.0;
        halved_s = if half { halved_s + LOOK_S } else { 0.0 };
        let turning = changes && (CHANGE_S..CHANGE_S + WINDOW_S).contains(&now_s);
        if !turning {
            day.halved_s = day.halved_s.max(halved_s);
        }
        let held = gate.speed(tuner.held().min(gate.sessions));
        let all = open.speed(gate.sessions);
        if tuner.phase() == Phase::Holding && !turning && gate.load.think_s == 0.0 {
            day.held_least = day.held_least.min(held / all);
        }
        if every(at, WINDOW_S) {
            let ratio = (gate.done - before.0) / (open.done - before.1);
            if changes && (now_s - WINDOW_S - CHANGE_S).abs() < 1.0 {
                day.turned = Some(ratio);
            } else {
                // Where clients think, what comes in is chance in both runs; else both are the
                // same.
                let turns = if gate.load.think_s > 0.0 { open.done - before.1 } else { 1e9 };
                day.windows.push((ratio, 4.0 * (2.0 / turns).sqrt()));
            }
            before = (gate.done, open.done);
        }
        if now_s >= CHANGE_S && now_s - LOOK_S < CHANGE_S || at == looks {
            let best = (2..=gate.sessions).map(|p| gate.speed(p)).fold(0.0, f64::max);
            // Too few turns end with the open gate to begin a search, otherwise.
            let measurable = gate.load.think_s == 0.0 && all >= 4.0;
            if measurable && best >= 1.05 * all {
                day.found.push(held / best);
            }
        }
        if (now_s - CHANGE_S).abs() < LOOK_S / 2.0 && at != looks {
            match change {
                Change::Nothing | Change::Machine => {}
                Change::Sessions => (gate.sessions, open.sessions) = (256, 256),
                Change::Long => (gate.long, open.long) = (24, 24),
                Change::Load(kind) => {
                    let load = Load::drawn(kind, &mut random);
                    (gate.load, open.load) = (load, load);
                }
            }
        }
    }
    day
}

/// Judges many days.
fn judge(what: &str, days: &[Day]) {
    let (mut low, mut all, mut good, mut found) = (0, 0, 0, 0);
    for kind in KINDS {
        let of: Vec<&Day> = days.iter().filter(|day| day.kind == kind).collect();
        let sorted = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            let at = |part: f64| values.get((values.len() as f64 * part) as usize).copied();
            (at(0.0).unwrap_or(1.0), at(0.5).unwrap_or(1.0))
        };
        let each = || of.iter().flat_map(|day| &day.windows);
        let (least, median) = sorted(&mut each().map(|window| window.0));
        let below = each().filter(|(ratio, chance)| ratio + chance < 0.95).count();
        let (turned, usually) = sorted(&mut of.iter().filter_map(|day| day.turned));
        let (worst, _) = sorted(&mut of.iter().flat_map(|day| day.found.iter().copied()));
        let held = of.iter().map(|day| day.held_least).fold(f64::INFINITY, f64::min);
        let halved_s = of.iter().map(|day| day.halved_s).fold(0.0, f64::max);
        println!(
            "{what}, {kind:?}: of the open gate's throughput {least:.3} in the worst 10 s, {median:.3} in the median, {below} \
             of {} below 0.95; as it turns {turned:.3} at worst, {usually:.3} in the median; a held P gives {held:.3} of it \
             at least; found {worst:.3} of the best P's; {halved_s:.2} s below half",
            each().count(),
        );
        assert!(each().all(|(ratio, chance)| ratio + chance >= 0.9), "{kind:?}: {least}");
        assert!(median >= 0.97 && usually >= 0.95, "{kind:?}: {median}, {usually}");
        assert!(held >= 0.97, "{kind:?}: a P is held that gives {held} of the open gate");
        assert!(halved_s <= 0.3, "{kind:?}: {halved_s} s");
        (low, all) = (low + below, all + each().count());
        good += of.iter().flat_map(|day| &day.found).filter(|part| **part >= 0.97).count();
        found += of.iter().map(|day| day.found.len()).sum::<usize>();
        for day in of.iter().filter(|day| day.found.iter().any(|part| *part < 0.97)) {
            println!("   seed {}: {:?}", day.seed, day.found);
        }
    }
    println!("{what}: {low} of {all} windows below 0.95, {good} of {found} at 0.97 of the best P");
    assert!(low * 200 <= all, "{low} of {all} windows are below 0.95");
    assert!(good * 100 >= found * 95, "{good} of {found} are at 0.97 of the best P");
}

fn seeds() -> u64 {
    std::env::var("HEADWORKS_SEEDS").map_or(12, |text| text.parse().unwrap())
}

fn days(change: impl Fn(u64, Kind) -> Change) -> Vec<Day> {
    let each = KINDS.iter().flat_map(|&kind| (0..seeds()).map(move |seed| (seed, kind)));
    each.map(|(seed, kind)| day(seed, kind, change(seed, kind))).collect()
}

#[test]
fn a_load_that_stays() {
    judge("stays", &days(|_, _| Change::Nothing));
}

#[test]
fn sessions_that_come_later() {
    judge("64 to 256", &days(|_, _| Change::Sessions));
}

#[test]
fn a_load_that_turns() {
    judge(
        "turns",
        &days(|seed, kind| {
            let others: Vec<Kind> = KINDS.into_iter().filter(|other| *other != kind).collect();
            Change::Load(others[seed as usize % others.len()])
        }),
    );
}

/// Each P that queues a short session hands processors to the long ones, so none is tried.
#[test]
fn long_requests_that_join() {
    let mut days = days(|_, _| Change::Long);
    let handed_s = days.iter().map(|day| day.handed_s).fold(0.0, f64::max);
    println!("a search hands processors to long requests for {handed_s:.2} s at most");
    assert!(handed_s <= 2.0 * LOOK_S, "{handed_s} s");
    // A better P is not looked for meanwhile.
    days.iter_mut().for_each(|day| day.found.truncate(1));
    judge("24 long join", &days);
}

/// The open gate shows what the machine does, too: that begins no search before one is due. Where
/// the open gate is best, that is after 0, 20, 60, 140 and 300 s. The first search loses little.
#[test]
fn a_machine_that_moves() {
    let days = days(|_, _| Change::Machine);
    for kind in KINDS {
        let of = || days.iter().filter(move |day| day.kind == kind);
        let windows = || of().flat_map(|day| &day.windows).map(|window| window.0);
        let mean = windows().sum::<f64>() / windows().count() as f64;
        let searches = of().map(|day| day.searches).max().unwrap_or(0);
        let first = || of().map(|day| day.windows[0].0);
        let least = first().fold(f64::INFINITY, f64::min);
        let early = first().sum::<f64>() / first().count() as f64;
        println!(
            "{kind:?}: {mean:.3} of the open gate's throughput, {early:.3} in the first 10 s ({least:.3} at least), \
             {searches} searches at most"
        );
        assert!(mean >= 0.985 && least >= 0.96, "{kind:?}: {mean}, {least}");
        assert!(kind != Kind::Rising || searches <= 5, "{searches} searches");
    }
}
