//! Pools whose tasks wait for other tasks of the same pool.

use super::{Arrow, By, End, LIKELY_MIN, Meaning, Search};
use crate::infer::waits::{Kind, Link, Object};
use headworks_tad::model::Confidence;

impl Search<'_> {
    /// Pools whose tasks wait for tasks of the same pool: their threads hand over to one another at
    /// their queue, and answer one another elsewhere.
    pub(super) fn wait_for_themselves(&self) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        for stage in 0..self.home.len() {
            let own = |link: &&&Link| {
                (link.wakee, link.waker, link.kind) == (stage, Some(stage), Kind::Handover)
            };
            // Where each thread has its own address, a queue looks like an answer.
            let queue = |link: &Link| {
                matches!(link.object, Object::Shared(_))
                    && self.home[stage].contains(link.kind, link.object)
            };
            let own = self.links.iter().filter(own);
            let (mut handed, mut n, mut off_ns) = (0, 0, 0);
            for link in own {
                if queue(link) {
                    handed += link.n;
                } else if !matches!(link.object, Object::Shared(_)) {
                    (n, off_ns) = (n + link.n, off_ns + link.off_ns);
                }
            }
            if handed.min(n) >= LIKELY_MIN {
                arrows.push(Arrow {
                    from: End::Stage(stage),
                    to: End::Stage(stage),
                    meaning: Meaning::Blocking,
                    by: By::Wake,
                    n,
                    share: n as f64 / self.woken[stage].max(1) as f64,
                    off_ns,
                    sure: self.stages.stages[stage].sure.min(Confidence::Likely),
                    confirmed: None,
                });
            }
        }
        arrows
    }
}
