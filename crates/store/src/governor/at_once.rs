//! What is set by hand counts at once, and not with the next window.

use super::{Governor, Orders};
use crate::apps::{About, App, Goal};
use headworks_policy::Nanos;
use headworks_policy::learn::allocate::Allocator;
use std::sync::Arc;

impl Governor {
    /// Applications, or what they are to have, have changed. Nothing is learned from that.
    pub fn at_once(&mut self, now: Nanos, apps: &[Arc<App>]) -> Orders {
        let there = apps.iter().filter(|app| app.is_there());
        let abouts: Vec<(u32, About)> = there.map(|app| (app.cause, app.about())).collect();
        for (cause, about) in &abouts {
            self.belief_of(*cause, about.goal);
        }
        self.know(now, &abouts);
        let applications: Vec<_> = self.known.iter().map(|(_, about)| *about).collect();
        // The allocator leaves small changes of asks out. Those by hand are meant.
        let epoch = self.allocator.epoch;
        self.allocator = Allocator::new(self.settings.store, &applications);
        self.allocator.epoch = epoch;
        for (at, (cause, about)) in abouts.iter().enumerate() {
            let Some(belief) = self.beliefs.get(cause) else { continue };
            let last = belief.windows.back();
            self.allocator.set_present(at, last.is_none_or(|window| window.demand));
            let own = || {
                let asked = belief.asked.map(|(ask, _)| ask);
                asked.or_else(|| belief.owner.ask(&self.settings))
            };
            let ask = match about.goal {
                Goal::Share(share) => Some(share),
                Goal::BestEffort => None,
                Goal::Rate(_) | Goal::LatencyMs(_) => own(),
            };
            let need = match about.goal {
                Goal::Rate(_) | Goal::LatencyMs(_) => belief.owner.estimate.need(),
                Goal::Share(_) | Goal::BestEffort => 0.0,
            };
            if let Some(ask) = ask {
                self.allocator.ask_for(now, at, ask, need);
            }
        }
        self.allocator.settle(now);
        for (at, (cause, _)) in abouts.iter().enumerate() {
            let promise = self.allocator.promise(at);
            if let Some(belief) = self.beliefs.get_mut(cause) {
                belief.promise = promise;
                belief.owner.granted(promise);
            }
        }
        if self.rival.is_none() {
            let shares = self.allocator.shares().iter().copied();
            self.shares = abouts.iter().map(|(cause, _)| *cause).zip(shares).collect();
        }
        self.orders(&abouts, Vec::new())
    }
}
