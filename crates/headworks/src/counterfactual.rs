//! Without enforcement: keeps the recent turns, and replays them on demand.

use crate::status::{Counterfactual, CounterfactualClass};
use headworks_policy::counterfactual::{ObservedTurn, Setting, replay};
use headworks_policy::wrr::ClassShare;
use headworks_region::snapshot::Snapshot;
use headworks_region::{Mapping, Mode};
use std::collections::VecDeque;

/// Turns that a replay uses: a few seconds of a busy server. The replay takes well below a second.
const TURNS: usize = 20_000;

/// Keeps the last turns.
#[derive(Debug, Default)]
pub struct Recorder {
    position: u64,
    turns: VecDeque<ObservedTurn>,
}

impl Recorder {
    /// Takes new turns from the region's ring.
    pub fn collect(&mut self, region: &Mapping) {
        if region.control.mode() == Mode::Enforce {
            self.turns.clear();
            self.position = region.ring.drain(u64::MAX, |_| {});
            return;
        }
        let turns = &mut self.turns;
        self.position = region.ring.drain(self.position, |turn| turns.push_back(turn));
        while self.turns.len() > TURNS {
            self.turns.pop_front();
        }
    }

    /// Replays them behind a gate with the current settings and weights, those of `now`.
    pub fn counterfactual(&self, now: &Snapshot) -> Option<Counterfactual> {
        if now.settings.mode == Mode::Enforce || self.turns.is_empty() {
            return None;
        }
        let observed: Vec<ObservedTurn> = self.turns.iter().copied().collect();
        let classes = now.classes.iter().map(|class| class.class as usize + 1).max().unwrap_or(1);
        let mut shares = vec![ClassShare::default(); classes];
        for class in &now.classes {
            let weight = (class.weight * 1000.0).round() as u32;
            shares[class.class as usize] = ClassShare::from_words(weight, class.shared);
        }
        let replayed = replay(
            &observed,
            &Setting {
                parallelism: now.settings.parallelism,
                zeta: now.settings.zeta,
                capacity: crate::config::cores(),
                shares,
            },
        );
        let from = observed.iter().map(|turn| turn.arrived).min()?;
        let to = observed.iter().map(|turn| turn.ended).max()?;
        // Shares are compared over the same time: up to where the shorter of both ends.
        let gated_to = replayed.iter().map(|turn| turn.ended).max()?.min(to);
        let requests = |class: Option<u32>, gated: bool| -> u64 {
            replayed
                .iter()
                .filter(|turn| class.is_none_or(|class| turn.observed.class == class))
                .filter(|turn| (if gated { turn.ended } else { turn.observed.ended }) <= gated_to)
                .map(|turn| u64::from(turn.observed.requests))
                .sum()
        };
        let share = |class: u32, gated: bool| {
            requests(Some(class), gated) as f64 / requests(None, gated).max(1) as f64
        };
        Some(Counterfactual {
            turns: replayed.len() as u64,
            span_s: to.since(from).as_millis_f64() / 1e3,
            held_share: replayed.iter().filter(|turn| turn.admitted > turn.arrived).count() as f64
                / replayed.len() as f64,
            classes: now
                .classes
                .iter()
                .map(|class| {
                    let own = || replayed.iter().filter(|turn| turn.observed.class == class.class);
                    CounterfactualClass {
                        name: class.name.clone(),
                        turns: own().count() as u64,
                        observed: Counterfactual::percentiles(
                            own().map(|turn| turn.observed.ended.since(turn.observed.arrived)),
                        ),
                        gated: Counterfactual::percentiles(
                            own().map(|turn| turn.ended.since(turn.arrived)),
                        ),
                        gated_wait: Counterfactual::percentiles(
                            own().map(|turn| turn.admitted.since(turn.arrived)),
                        ),
                        observed_requests_share: share(class.class, false),
                        gated_requests_share: share(class.class, true),
                    }
                })
                .collect(),
        })
    }
}
