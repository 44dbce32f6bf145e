//! Arrows that sockets show: requests of clients, answers, and what stages ask each other.

use super::between::machine;
use super::{Arrow, By, EVENTS_MIN, End, Meaning, judge};
use crate::infer::sockets::{Sent, Sockets};
use crate::infer::stages::Stages;
use crate::infer::waits::{Kind, Links};
use headworks_tad::model::Confidence;
use std::collections::BTreeSet;

/// Requests, answers and what is passed on by sockets.
pub(super) fn add(
    stages: &Stages,
    sockets: &Sockets,
    loops: &BTreeSet<usize>,
    arrows: &mut Vec<Arrow>,
) {
    for &(stage, n) in &sockets.requests {
        arrows.push(from_clients(stages, stage, n));
    }
    for (&stage, &sent) in &sockets.replies {
        if sent.calls >= EVENTS_MIN {
            let sure = judge(sent.calls, 1.0, true, &[stages.stages[stage].sure]);
            arrows.push(Arrow {
                from: End::Stage(stage),
                to: End::Clients,
                meaning: Meaning::Data,
                by: By::Socket,
                n: sent.messages.max(1),
                share: 1.0,
                off_ns: 0,
                sure,
                confirmed: None,
            });
        }
    }
    for (&(from, to), &sent) in &sockets.passed {
        if sent.calls >= EVENTS_MIN && from != to {
            arrows.push(by_socket(stages, from, to, Meaning::Data, sent));
        }
    }
    for (&(waits, answers), &sent) in &sockets.answers {
        if sent.calls >= EVENTS_MIN && waits != answers {
            arrows.push(if loops.contains(&waits) {
                by_socket(stages, answers, waits, Meaning::Data, sent)
            } else {
                by_socket(stages, waits, answers, Meaning::Blocking, sent)
            });
        }
    }
}

fn from_clients(stages: &Stages, stage: usize, n: u64) -> Arrow {
    Arrow {
        from: End::Clients,
        to: End::Stage(stage),
        meaning: Meaning::Data,
        by: By::Socket,
        n,
        share: 1.0,
        off_ns: 0,
        sure: judge(n, 1.0, true, &[stages.stages[stage].sure]),
        confirmed: None,
    }
}

/// An arrow that sockets show.
pub fn socket_arrow(stages: &Stages, from: usize, to: usize, meaning: Meaning, n: u64) -> Arrow {
    let ends = [stages.stages[from].sure, stages.stages[to].sure];
    Arrow {
        from: End::Stage(from),
        to: End::Stage(to),
        meaning,
        by: By::Socket,
        n,
        share: 1.0,
        off_ns: 0,
        sure: judge(n, 1.0, true, &ends),
        confirmed: None,
    }
}

/// The same: each transfer shows it, and messages are counted.
fn by_socket(stages: &Stages, from: usize, to: usize, meaning: Meaning, sent: Sent) -> Arrow {
    Arrow { n: sent.messages.max(1), ..socket_arrow(stages, from, to, meaning, sent.calls) }
}

/// Where sockets cannot be seen, a process that is not recorded still wakes the stage that reads.
pub(super) fn outside_wakes(stages: &Stages, links: &Links, arrows: &mut Vec<Arrow>) {
    let outside = links.all.iter().filter(|link| link.outside && link.kind == Kind::Socket);
    for link in outside.filter(|link| !machine(stages, link)) {
        let end = End::Stage(link.wakee);
        let known = arrows
            .iter()
            .any(|arrow| arrow.by == By::Socket && (arrow.to == end || arrow.from == end));
        if !known && link.n >= EVENTS_MIN {
            let mut arrow = from_clients(stages, link.wakee, link.n);
            arrow.sure = arrow.sure.min(Confidence::Likely);
            arrow.off_ns = link.off_ns;
            arrows.push(arrow);
        }
    }
}
