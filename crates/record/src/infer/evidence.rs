//! Arrows that other things than sleeps show: answers to clients, an agent, stops of threads.

use super::Facts;
use super::arrows::{Arrow, By, EVENTS_MIN, End, Meaning, socket_arrow};
use super::sockets::Sockets;
use super::stages::Stages;
use crate::trace::Trace;
use headworks_tad::model::Confidence;
use std::collections::BTreeMap;

/// Adds to arrows that sleeps show.
pub fn add(trace: &Trace, stages: &Stages, sockets: &Sockets, arrows: &mut Vec<Arrow>) {
    answering(stages, sockets, arrows);
    confirm(trace, stages, arrows);
    handed(trace, stages, arrows);
    held(trace, stages, arrows);
}

/// A stage that answers and is never asleep: nothing wakes it, and requests come to it anyway.
/// They come from who waits for its answers, or from where clients come in.
fn answering(stages: &Stages, sockets: &Sockets, arrows: &mut Vec<Arrow>) {
    let entry = sockets.requests.first().map(|(stage, _)| *stage);
    let clients =
        sockets.replies.iter().filter_map(|(&stage, sent)| Some((entry?, stage, sent.messages)));
    let waiting = arrows.iter().filter_map(|arrow| match (arrow.meaning, arrow.from, arrow.to) {
        (Meaning::Blocking, End::Stage(from), End::Stage(to)) => Some((from, to, arrow.n)),
        _ => None,
    });
    let mut answers: Vec<(usize, usize, u64)> = waiting.chain(clients).collect();
    // Who waits most often gives the most.
    answers.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
    for (from, stage, n) in answers {
        let stage = full(arrows, stage, n).unwrap_or(stage);
        let reads = sockets.requests.iter().any(|(entry, _)| *entry == stage);
        let fed = arrows.iter().any(|arrow| {
            arrow.meaning == Meaning::Data
                && arrow.to == End::Stage(stage)
                && arrow.sure > Confidence::Guess
        });
        if from == stage || reads || fed || n < EVENTS_MIN {
            continue;
        }
        let mut arrow = socket_arrow(stages, from, stage, Meaning::Data, n);
        // A third stage, which has requests of others, may have passed them on.
        let third = arrows.iter().any(|arrow| match (arrow.meaning, arrow.to) {
            (Meaning::Data, End::Stage(to)) => {
                to != from && to != stage && arrow.from != End::Stage(stage)
            }
            _ => false,
        });
        (arrow.by, arrow.sure) = if third {
            (By::Nothing, Confidence::Guess)
        } else {
            (By::Answer, arrow.sure.min(Confidence::Likely))
        };
        arrows.push(arrow);
    }
}

/// The stage that passes a stage its requests, and waits about as often as that answers: for room
/// in the queue between them, which is full.
fn full(arrows: &[Arrow], stage: usize, answers: u64) -> Option<usize> {
    let waits = arrows.iter().filter(|arrow| {
        (arrow.meaning, arrow.to) == (Meaning::Blocking, End::Stage(stage))
            && arrow.n * 2 >= answers
    });
    let mut feeders = waits.filter_map(|arrow| match arrow.from {
        End::Stage(from) => {
            let feeds = |other: &&Arrow| other.from == arrow.from && other.feeds(stage);
            arrows.iter().any(|other| feeds(&other)).then_some(from)
        }
        End::Clients => None,
    });
    feeders.next()
}

/// A stage that looks for its work itself takes the lock of its queue at each look: more often than
/// any other lock. Stages that take that lock, too, and do not look themselves, give it work.
pub fn polled(trace: &Trace, stages: &Stages, facts: &[Facts], arrows: &mut Vec<Arrow>) {
    /// Fewer looks than this are chance.
    const LOOKS_MIN: u64 = 10;
    if trace.head.probed_s <= 0.0 {
        return;
    }
    let scale = trace.head.counted_s / trace.head.probed_s;
    // Addresses mean something within one process alone.
    let mut calls: BTreeMap<(usize, usize, u64), u64> = BTreeMap::new();
    for call in &trace.calls {
        let Some(&stage) = stages.of.get(&call.unit) else { continue };
        *calls.entry((stages.stages[stage].place, stage, call.object)).or_default() += call.n;
    }
    let polls = |stage: usize| facts[stage].polls(trace.head.counted_s);
    for stage in (0..facts.len()).filter(|stage| polls(*stage)) {
        if arrows.iter().any(|arrow| arrow.feeds(stage)) {
            continue;
        }
        let own = calls.iter().filter(|((_, own, _), _)| *own == stage);
        let Some(((place, _, queue), &looks)) = own.max_by_key(|(_, n)| **n) else { continue };
        for ((at, from, object), &n) in &calls {
            let gives = *from != stage && (at, object) == (place, queue) && !polls(*from);
            // Who puts something into a queue wakes its takers, and takes its lock as they do.
            let takes = arrows.iter().any(|arrow| {
                arrow.feeds(*from) && arrow.from == End::Stage(stage) && arrow.by == By::Wake
            });
            if !gives || takes || n < EVENTS_MIN || looks < LOOKS_MIN {
                continue;
            }
            let n = (n as f64 * scale).round() as u64;
            let mut arrow = socket_arrow(stages, *from, stage, Meaning::Data, n);
            (arrow.by, arrow.sure) = (By::Probe, arrow.sure.min(Confidence::Likely));
            arrows.push(arrow);
        }
    }
}

/// Hand-overs that an agent counted: of an arrow that was seen, all of them; and arrows to threads
/// that were never asleep.
fn handed(trace: &Trace, stages: &Stages, arrows: &mut Vec<Arrow>) {
    let stage = |pid: u32, name: &str| {
        let place = stages.place_of.get(&pid)?;
        let name = super::names::normalised(name);
        stages.stages.iter().position(|stage| stage.place == *place && stage.title == name)
    };
    for handed in &trace.handed {
        let ends = (stage(handed.pid, &handed.from), stage(handed.pid, &handed.to));
        let (Some(from), Some(to)) = ends else { continue };
        if from == to || handed.n < EVENTS_MIN {
            continue;
        }
        let same = arrows.iter_mut().find(|arrow| {
            arrow.meaning == Meaning::Data
                && (arrow.from, arrow.to) == (End::Stage(from), End::Stage(to))
        });
        match same {
            Some(arrow) => arrow.n = arrow.n.max(handed.n),
            None => arrows.push(Arrow {
                by: By::Probe,
                ..socket_arrow(stages, from, to, Meaning::Data, handed.n)
            }),
        }
    }
}

/// Locks for which threads wait of a program that does nothing. Who has each is written in it.
fn held(trace: &Trace, stages: &Stages, arrows: &mut Vec<Arrow>) {
    let mut waits: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for held in &trace.held {
        if let (Some(&from), Some(&to)) = (stages.of.get(&held.unit), stages.of.get(&held.owner)) {
            *waits.entry((from, to)).or_default() += 1;
        }
    }
    for ((from, to), n) in waits {
        let off_ns = (trace.head.counted_s * 1e9) as u64 * n;
        let arrow = socket_arrow(stages, from, to, Meaning::Blocking, n);
        let sure = stages.stages[from].sure.min(stages.stages[to].sure);
        arrows.push(Arrow { by: By::Held, off_ns, sure, ..arrow });
    }
}

/// A stage whose waits became longer while another stood still is blocked by it.
fn confirm(trace: &Trace, stages: &Stages, arrows: &mut [Arrow]) {
    /// A wait is longer by so much, or by this part, if that is more.
    const LONGER_NS: f64 = 150_000.0;
    const PART: f64 = 0.1;
    for injection in &trace.injections {
        let stage = |units: &[u32]| units.iter().find_map(|unit| stages.of.get(unit)).copied();
        let (Some(waits), Some(stopped)) = (stage(&injection.waiters), stage(&injection.stopped))
        else {
            continue;
        };
        let mean = |(n, ns): (u64, u64)| ns as f64 / n.max(1) as f64;
        let (before, during) = (mean(injection.before), mean(injection.during));
        let longer = during > before + LONGER_NS.max(PART * before);
        let blocked = |arrow: &&mut Arrow| {
            arrow.meaning == Meaning::Blocking
                && (arrow.from, arrow.to) == (End::Stage(waits), End::Stage(stopped))
        };
        for arrow in arrows.iter_mut().filter(blocked) {
            arrow.confirmed = Some(longer);
            if longer && arrow.sure == Confidence::Guess {
                arrow.sure = Confidence::Likely;
            }
        }
    }
}
