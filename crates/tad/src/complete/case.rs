//! A random system with its loads.

use crate::fix::times;
use crate::model::Tad;
use crate::scenario::{Change, Load, Scenario};
use serde::Serialize;

/// What C2 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Eight times as many threads.
    Threads,
    /// Requests eight times as large.
    Amounts,
}

impl Growth {
    /// Grows a load.
    pub(super) fn apply(self, load: &mut Load) {
        match self {
            Growth::Threads => times(load, 8),
            Growth::Amounts => load.parameters.iter_mut().for_each(|amount| *amount *= 8),
        }
    }
}

/// A system, its initial load, and how C2 grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// System.
    pub tad: Tad,
    /// C1 and C2, without changes.
    pub base: Scenario,
    /// What C2 does.
    pub growth: Growth,
}

impl Case {
    /// The scenario with C2 grown.
    pub fn grown(&self) -> Scenario {
        let mut grown = self.base.clone();
        for load in &mut grown.clients[1].loads {
            self.growth.apply(load);
        }
        grown
    }

    /// One scenario: base load first, then C2 grows.
    pub(super) fn growing(&self) -> Scenario {
        let mut scenario = self.base.clone();
        let change = Change::Loads { client: 1, loads: self.grown().clients[1].loads.clone() };
        scenario.changes.push((scenario.duration_ns, change));
        scenario.duration_ns *= 2;
        scenario.sample_ns = scenario.duration_ns / 40;
        scenario
    }
}
