//! How much data and time a run takes.

use std::time::Duration;

use super::arms::Config;
use crate::experiment::RunOptions;

/// The sizes of one run, and how long its steps are expected to take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    pub(super) rows_per_table: u32,
    /// Load without counting, after all clients are connected.
    pub(super) warm_up: Duration,
    /// The time in which clients count.
    pub(super) window: Duration,
    pub(super) expected_prepare: Duration,
    pub(super) expected_start: Duration,
    pub(super) expected_stop: Duration,
}

impl Plan {
    pub(super) fn new(options: &RunOptions) -> Self {
        let (rounds, rows_per_table, warm_up_s, window_s) =
            if options.quick { (1, 25_000, 2, 5) } else { (3, 250_000, 6, 20) };
        let window_s = options.window_s.map_or(window_s, |asked| asked.max(1));
        Self {
            rounds: options.repeat.unwrap_or(rounds).max(1),
            rows_per_table,
            warm_up: Duration::from_secs(warm_up_s.min(window_s)),
            window: Duration::from_secs(window_s),
            expected_prepare: Duration::from_secs(if options.quick { 2 } else { 12 }),
            expected_start: Duration::from_secs(if options.quick { 1 } else { 2 }),
            expected_stop: Duration::from_secs(2),
        }
    }

    /// Time for the clients to connect: half a second, and 10 ms each.
    pub(super) fn connect(users: usize) -> Duration {
        Duration::from_millis(500 + 10 * users as u64)
    }

    /// From the start of the clients to the begin of the window.
    pub(super) fn lead(&self, users: usize) -> Duration {
        Self::connect(users) + self.warm_up
    }

    /// How long all rounds of these arms will take.
    pub(super) fn expected(&self, arms: &[Config]) -> Duration {
        let run = |arm: &Config| {
            self.expected_start + self.lead(arm.users()) + self.window + self.expected_stop
        };
        self.expected_prepare + arms.iter().map(run).sum::<Duration>() * self.rounds as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate_mariadb::EXPERIMENT;

    #[test]
    fn the_registry_promises_what_the_plan_expects() {
        let mut options = RunOptions::new("");
        let full = Plan::new(&options).expected(&Config::ALL).as_secs();
        assert!(full.abs_diff(EXPERIMENT.expected_s) <= 30, "{full}");
        options.quick = true;
        let quick = Plan::new(&options).expected(&Config::ALL).as_secs();
        assert!(quick.abs_diff(EXPERIMENT.expected_quick_s) <= 10, "{quick}");
    }

    #[test]
    fn a_short_window_shortens_the_warm_up() {
        let options = RunOptions { window_s: Some(1), ..RunOptions::new("") };
        assert_eq!(Plan::new(&options).warm_up, Duration::from_secs(1));
        let options = RunOptions { window_s: Some(60), ..RunOptions::new("") };
        assert_eq!(Plan::new(&options).warm_up, Duration::from_secs(6));
    }
}
