//! Ways past a queue: a stage hands some requests to the queue of a second stage, and others at
//! once to where that one hands on. Such a fast path skips what the queue orders.

use super::arrows::{Arrow, By, End, Meaning, SHARE_MIN};
use headworks_tad::model::Confidence;

/// A way past a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Stage that hands over.
    pub from: usize,
    /// Stage whose queue is passed by.
    pub queue: usize,
    /// Where both ways lead.
    pub to: End,
    /// Calls that went at once.
    pub direct: u64,
    /// And those that went through the queue.
    pub through: u64,
    /// That of the least sure arrow.
    pub sure: Confidence,
}

impl Past {
    /// Part of the calls that passed the queue by.
    pub fn share(&self) -> f64 {
        self.direct as f64 / (self.direct + self.through).max(1) as f64
    }
}

/// Finds them. A stage that waits for the second one, or for where that hands on, calls one after
/// the other: it passes nothing by.
pub fn find(arrows: &[Arrow]) -> Vec<Past> {
    let sure = |arrow: &&Arrow| arrow.sure > Confidence::Guess;
    let data = || arrows.iter().filter(|arrow| arrow.meaning == Meaning::Data).filter(sure);
    let waits = |from: End, on: End| {
        let blocking = arrows.iter().filter(|arrow| arrow.meaning == Meaning::Blocking);
        blocking.filter(sure).any(|arrow| (arrow.from, arrow.to) == (from, on))
    };
    let queued = |arrow: &&Arrow| matches!(arrow.by, By::Wake | By::Ready | By::Probe);
    let mut found: Vec<Past> = Vec::new();
    for into in data().filter(queued) {
        let (End::Stage(from), End::Stage(queue)) = (into.from, into.to) else { continue };
        // A stage that has requests of clients, too, answers those.
        let entry = data().any(|arrow| (arrow.from, arrow.to) == (End::Clients, into.to));
        let others = data().any(|arrow| arrow.to == into.to && arrow.from != into.from);
        for on in data().filter(|arrow| arrow.from == into.to && arrow.to != into.from) {
            let known =
                found.iter().any(|one| (one.from, one.queue, one.to) == (from, queue, on.to));
            let answers = entry && on.to == End::Clients;
            if known || answers || waits(into.from, into.to) || waits(into.from, on.to) {
                continue;
            }
            let direct = data().find(|arrow| (arrow.from, arrow.to) == (into.from, on.to));
            let Some(direct) = direct else { continue };
            // Who is awake is not woken: what is handed on tells of requests that woke no thread.
            let through = if others { into.n } else { into.n.max(on.n) };
            let sure = into.sure.min(on.sure).min(direct.sure);
            let past = Past { from, queue, to: on.to, direct: direct.n, through, sure };
            if past.share() >= SHARE_MIN {
                found.push(past);
            }
        }
    }
    found
}
