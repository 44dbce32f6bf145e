//! How many threads there are over time.

use super::Trace;
use serde::{Deserialize, Serialize};

/// Threads of a unit, at the moments [`super::Head::moments_ms`] of its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Unit.
    pub unit: u32,
    /// Threads that were alive.
    pub alive: Vec<u32>,
    /// Threads that ran or were ready to, on average since the moment before.
    pub active: Vec<f64>,
}

impl Trace {
    /// The sum of units of one machine; none if it was not recorded.
    pub fn activity_of(&self, units: &[u32]) -> Option<Activity> {
        let pid = self.pid_of(*units.first()?);
        let count = self.head_of(self.host_of(pid)).moments_ms.len();
        let mut sum = Activity { unit: units[0], alive: vec![0; count], active: vec![0.0; count] };
        let own = self.activity.iter().filter(|one| units.contains(&one.unit));
        for one in own {
            sum.alive.iter_mut().zip(&one.alive).for_each(|(sum, n)| *sum += n);
            sum.active.iter_mut().zip(&one.active).for_each(|(sum, n)| *sum += n);
        }
        (count > 0).then_some(sum)
    }
}
