//! The paper's Figures 4 to 8, on the fluid plant.
//!
//! Four OLTP-A with a quarter of the store each (Figures 4 to 7), and DBT-2 with 0.8 of it beside
//! three OLTP-A of best effort (Figure 8): with the store's controller alone, the hosts' fractions
//! set by hand, and with three controllers, from random fractions of the paper's five.

use super::app::{App, applications, dbt2_and_three, four_oltp};
use super::fluid::Fluid;
use super::judge::{self, Goal, Times};
use super::report::Row;
use super::run::{Feed, Plant, quiet, run};
use crate::learner::Learner;
use headworks_policy::learn::Fractions;
use headworks_policy::learn::automaton::ACTIONS;
use headworks_policy::random::Random;
use std::ops::Range;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Four OLTP-A.
    Four,
    /// DBT-2 and three OLTP-A.
    Dbt2,
}

impl Experiment {
    fn apps(self) -> Vec<App> {
        match self {
            Experiment::Four => four_oltp(200.0),
            Experiment::Dbt2 => dbt2_and_three(20.0),
        }
    }

    /// The hosts' fractions that were set by hand.
    fn by_hand(self) -> Vec<f64> {
        match self {
            Experiment::Four => vec![0.5; 4],
            Experiment::Dbt2 => vec![0.9, 0.1, 0.5, 0.5],
        }
    }

    /// The shares that are right.
    fn reserved(self) -> Vec<f64> {
        match self {
            Experiment::Four => vec![0.25; 4],
            Experiment::Dbt2 => vec![0.8, 0.0, 0.0, 0.0],
        }
    }

    const fn name(self, store_alone: bool) -> &'static str {
        match (self, store_alone) {
            (Experiment::Four, true) => "Figure 5: four OLTP-A, store alone",
            (Experiment::Four, false) => "Figures 6, 7: four OLTP-A, three levels",
            (Experiment::Dbt2, true) => "Figure 8b: DBT-2, store alone",
            (Experiment::Dbt2, false) => "Figures 8c, 8d: DBT-2, three levels",
        }
    }
}

/// Fractions at random of the paper's five; those of the hosts by hand if given.
pub fn scramble(fractions: &mut Fractions, by_hand: Option<Vec<f64>>, seed: u64) {
    let mut random = Random::stream(seed, 3);
    let mut draw = || ACTIONS[random.below(ACTIONS.len() as u64) as usize];
    match by_hand {
        Some(host) => fractions.host = host,
        None => {
            for host in 0..2 {
                let first = draw();
                fractions.host[2 * host] = first;
                fractions.host[2 * host + 1] = 1.0 - first;
            }
        }
    }
    let first = draw();
    fractions.store = vec![first, 1.0 - first];
}

/// The goals of applications with a target.
pub fn goals(apps: &[App]) -> Vec<Goal> {
    let goal = |(at, app): (usize, &App)| app.target.map(|target| (at, target));
    apps.iter().enumerate().filter_map(goal).collect()
}

/// Runs one experiment with one controller.
pub fn figure(
    experiment: Experiment,
    learner: &Learner,
    store_alone: bool,
    sigma: f64,
    seconds: usize,
    seeds: Range<u64>,
) -> Row {
    let apps = experiment.apps();
    let goals = goals(&apps);
    let count = seeds.end - seeds.start;
    let (mut rates, mut delivered, mut held, mut controller) = (vec![], vec![], 0.0, "");
    let mut mean = vec![0.0; goals.len()];
    let (mut best_effort, mut worst) = (0.0, f64::MAX);
    for seed in seeds {
        let mut plant = Fluid::new(apps.clone(), sigma, seed);
        scramble(plant.fractions(), store_alone.then(|| experiment.by_hand()), seed);
        let mut learner = learner.build(&applications(&apps), true, store_alone, seed);
        controller = learner.name();
        let trace = run(&mut plant, learner.as_mut(), seconds, &Feed::default(), seed, &quiet);
        rates.push(judge::converged(&trace, &goals, 0, seconds, 0.05));
        delivered.push(judge::delivered(&trace, &goals, 0, seconds));
        let (from, part) = (seconds - 600, 1.0 / count as f64);
        held += part * judge::held(&trace, &goals, from, seconds);
        for (mean, (at, goal)) in mean.iter_mut().zip(&goals) {
            *mean += part * judge::mean(&trace, *at, from, seconds) / goal;
        }
        let others = (0..apps.len()).filter(|at| apps[*at].target.is_none());
        best_effort +=
            part * others.map(|at| judge::mean(&trace, at, from, seconds)).sum::<f64>() / 160.0;
        worst = worst.min(judge::worst(&trace, &goals, from, seconds));
    }
    Row {
        case: experiment.name(store_alone).to_owned(),
        controller,
        sigma,
        seeds: count as usize,
        rate: Times::of(&rates),
        delivered: Times::of(&delivered),
        held,
        mean,
        best_effort: (experiment == Experiment::Dbt2).then_some(best_effort),
        worst,
    }
}

/// All controllers in both experiments.
pub fn table(sigma: f64, seeds: Range<u64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for experiment in [Experiment::Four, Experiment::Dbt2] {
        for learner in
            [Learner::SINGLE, Learner::LogPi, Learner::Need, Learner::Lag, Learner::Integral]
        {
            rows.push(figure(experiment, &learner, true, sigma, 4_000, seeds.clone()));
        }
        let three = [
            Learner::UNCOORDINATED,
            Learner::TOKEN,
            Learner::LogPi,
            Learner::Need,
            Learner::Lag,
            Learner::Integral,
            Learner::Reserved(experiment.reserved()),
        ];
        for learner in three {
            let seconds = if learner.is_slow() { 8_000 } else { 3_000 };
            rows.push(figure(experiment, &learner, false, sigma, seconds, seeds.clone()));
        }
    }
    rows
}
