//! A controller beside a plant, second by second, and what reaches it late or not at all.

use super::app::App;
use headworks_policy::Nanos;
use headworks_policy::learn::{Application, Controller, Fractions, Observation, WINDOW};
use headworks_policy::random::Random;
use std::ops::Range;

/// What came of an application in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Transactions a second, with their noise.
    pub rate: f64,
    /// The same without it, where the plant knows.
    pub even: f64,
    /// Service in units of shares.
    pub used: f64,
    /// It waited mostly in schedulers.
    pub held: bool,
    /// It lived on what others left.
    pub lent: bool,
    /// It had something to ask for.
    pub demand: bool,
    /// Mean time of an I/O in seconds; zero if unknown.
    pub latency_s: f64,
    /// I/Os under way on average; zero if unknown.
    pub outstanding: f64,
}

/// What shares act upon.
pub trait Plant {
    /// Its applications.
    fn apps(&self) -> &[App];

    /// The same, to be changed by events.
    fn apps_mut(&mut self) -> &mut [App];

    /// What its schedulers give.
    fn fractions(&mut self) -> &mut Fractions;

    /// One second, application by application.
    fn second(&mut self) -> Vec<Second>;
}

/// How observations reach a controller.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Seconds by which they are late.
    pub late: usize,
    /// Part of them that is lost.
    pub loss: f64,
    /// Seconds in which nothing arrives.
    pub cut_off: Range<usize>,
    /// A late dft comes with its window's figures, not with present ones.
    pub paired: bool,
    /// Seconds in which the owner of the target, or the holder of the token, is dead.
    pub dead: Range<usize>,
}

impl Default for Feed {
    fn default() -> Self {
        Feed { late: 0, loss: 0.0, cut_off: 0..0, paired: true, dead: 0..0 }
    }
}

/// What happens to a plant at the beginning of a second.
pub type Event<'a> = &'a dyn Fn(usize, &mut dyn Plant, &mut dyn Controller);

/// The seconds of a run.
pub type Trace = Vec<Vec<Second>>;

/// Runs for so many seconds.
pub fn run(
    plant: &mut dyn Plant,
    controller: &mut dyn Controller,
    seconds: usize,
    feed: &Feed,
    seed: u64,
    event: Event<'_>,
) -> Trace {
    let mut random = Random::stream(seed, 0xfeed);
    let applications: Vec<Application> = plant.apps().iter().map(App::application).collect();
    let mut seen: Vec<Vec<Observation>> = Vec::with_capacity(seconds);
    let mut trace = Trace::with_capacity(seconds);
    let mut reached = vec![None; applications.len()];
    for second in 0..seconds {
        event(second, plant, controller);
        controller.set_alive(!feed.dead.contains(&second));
        for (at, reached) in reached.iter_mut().enumerate() {
            let lost = random.unit() < feed.loss || feed.cut_off.contains(&second);
            *reached =
                if lost || second <= feed.late { None } else { Some(arrives(&seen, feed, at)) };
        }
        let now = Nanos(WINDOW.0 * second as u64);
        controller.window(now, &applications, &reached, plant.fractions());
        let shares: Vec<f64> = {
            let fractions = plant.fractions();
            (0..applications.len()).map(|at| fractions.share(&applications, at)).collect()
        };
        let figures = plant.second();
        let observe = |at: usize| observe(&plant.apps()[at], &figures[at], shares[at]);
        seen.push((0..applications.len()).map(observe).collect());
        trace.push(figures);
    }
    trace
}

fn arrives(seen: &[Vec<Observation>], feed: &Feed, at: usize) -> Observation {
    let last = seen.len() - 1;
    let then = seen[last - feed.late][at];
    let age = Nanos(WINDOW.0 * feed.late as u64);
    let base = if feed.paired { then } else { seen[last][at] };
    Observation { dft: then.dft, age, ..base }
}

fn observe(app: &App, second: &Second, granted: f64) -> Observation {
    let dft = app.target.filter(|_| second.demand).map(|target| second.rate / target - 1.0);
    Observation {
        dft,
        demand: second.demand,
        age: Nanos(0),
        granted,
        used: second.used,
        held: second.held,
        lent: second.lent,
        sated: false,
        latency_s: second.latency_s,
        outstanding: second.outstanding,
    }
}

/// Nothing happens.
pub fn quiet(_: usize, _: &mut dyn Plant, _: &mut dyn Controller) {}
