//! Rows of results.

use super::judge::Times;
use std::fmt;

/// What a controller did in a case, over all seeds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The controller.
    pub controller: &'static str,
    /// Relative deviation of 5 s windows: put in, or measured.
    pub sigma: f64,
    /// Runs.
    pub seeds: usize,
    /// When rates had converged.
    pub rate: Times,
    /// When what was delivered had.
    pub delivered: Times,
    /// Part of the 30 s windows of the last 600 s within 5 % of all goals.
    pub held: f64,
    /// Mean of those 600 s ÷ goal, goal by goal.
    pub mean: Vec<f64>,
    /// What best effort did there ÷ what it does under the best fixed shares. None
    /// if there is none, or no fixed shares meet the target.
    pub best_effort: Option<f64>,
    /// The worst 10 s of any run in the 120 s after the event, as a part of the goal.
    pub worst: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean: Vec<String> = self.mean.iter().map(|mean| format!("{mean:.3}")).collect();
        let best_effort = self.best_effort.map_or("-".to_owned(), |part| format!("{part:.2}"));
        write!(
            f,
            "{:44} {:29} σ {:.2} rate {:>13} delivered {:>13} held {:.2} mean {} best effort {} worst 10 s {:.2}",
            self.case,
            self.controller,
            self.sigma,
            self.rate.to_string(),
            self.delivered.to_string(),
            self.held,
            mean.join(","),
            best_effort,
            self.worst,
        )
    }
}
