//! From a recording to an architecture, by pure rules.
//!
//! 1. [`stages`]: threads that do the same. A name that a thread was given is trusted; else its
//!    loop function; else what it waits on.
//! 2. [`waits`]: what each sleep is: for a queue, an answer, a lock, a device or a time.
//! 3. [`arrows`]: from where requests come in, breadth first. The first object by which a stage is
//!    woken is its queue. Other objects are answers, for which the stage is blocked.
//! 4. [`locks`]: resources, which no annotation declared.
//!
//! Each stage and arrow says how sure it is. "Certain" follows from what was seen; "likely" rests
//! on
//! a rule that may err; "guess" rests on too little.

pub mod arrows;
mod executor;
mod frames;
pub mod locks;
pub mod names;
pub mod sockets;
pub mod stages;
mod trie;
pub mod waits;

use crate::hints::Hints;
use crate::trace::Trace;
use arrows::Arrow;
use locks::Lock;
use stages::Stages;
use waits::Kind;

/// Stages, and what passes between them.
#[derive(Clone, Debug, Default)]
pub struct Architecture {
    /// Stages.
    pub stages: Stages,
    /// Requests, answers and what threads are blocked by.
    pub arrows: Vec<Arrow>,
    /// Locks that threads waited for.
    pub locks: Vec<Lock>,
    /// What each stage did and used.
    pub facts: Vec<Facts>,
    /// Requests that came from outside, and where: messages by stage.
    pub requests: Vec<(usize, u64)>,
    /// Connections of clients that are not recorded, by stage.
    pub connections: std::collections::BTreeMap<usize, usize>,
    /// What could not be seen, in words.
    pub unseen: Vec<String>,
}

/// What a stage did and used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Processor time in the counted time.
    pub cpu_ns: u64,
    /// Sleeps by kind, in the order of [`Kind::ALL`].
    pub sleeps: [u64; Kind::ALL.len()],
    /// Time of these.
    pub asleep_ns: [u64; Kind::ALL.len()],
    /// Requests to block devices and their bytes.
    pub bios: u64,
    /// See there.
    pub bio_bytes: u64,
    /// Bytes read and written by calls, page cache or not, over the whole recording.
    pub file_chars: u64,
    /// Bytes to and from other machines and recorded or other processes.
    pub socket_bytes: u64,
    /// Bytes to and from other processes that are not recorded.
    pub outside_bytes: u64,
}

/// What the recording shows.
pub fn infer(trace: &Trace, hints: &Hints) -> Architecture {
    let stages = stages::find(trace, hints);
    let sites = waits::Sites::of(trace);
    let links = waits::links(trace, &stages, &sites);
    let sockets = sockets::links(trace, &stages);
    let arrows = arrows::find(trace, &stages, &links, &sockets);
    let locks = locks::find(trace, &stages, &links, &sites);
    let facts = facts(trace, &stages, &links, &sockets);
    let mut architecture = Architecture {
        unseen: trace.head.missing.clone(),
        requests: sockets.requests.clone(),
        connections: sockets.clients.clone(),
        stages,
        arrows,
        locks,
        facts,
    };
    unseen(trace, &mut architecture);
    architecture
}

fn facts(
    trace: &Trace,
    stages: &Stages,
    links: &waits::Links,
    sockets: &sockets::Sockets,
) -> Vec<Facts> {
    let mut facts = vec![Facts::default(); stages.stages.len()];
    for unit in trace.units.values() {
        let Some(&stage) = stages.of.get(&unit.unit) else { continue };
        facts[stage].cpu_ns += unit.run_ns;
        facts[stage].bios += unit.bios[0] + unit.bios[2];
        facts[stage].bio_bytes += unit.bios[1] + unit.bios[3];
    }
    for thread in trace.threads.values() {
        if let Some(&stage) = stages.of.get(&thread.unit) {
            facts[stage].file_chars += thread.read_chars + thread.written_chars;
        }
    }
    for link in &links.all {
        let at = Kind::ALL.iter().position(|kind| *kind == link.kind).unwrap_or(0);
        facts[link.wakee].sleeps[at] += link.n;
        facts[link.wakee].asleep_ns[at] += link.off_ns;
    }
    for (stage, (all, outside)) in sockets.bytes.iter().enumerate() {
        facts[stage].socket_bytes = *all;
        facts[stage].outside_bytes = *outside;
    }
    facts
}

/// Names what the rules cannot see, so that it is not silently absent.
fn unseen(trace: &Trace, found: &mut Architecture) {
    let kind = |kind| Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
    for (id, stage) in found.stages.stages.iter().enumerate() {
        let facts = &found.facts[id];
        let all: u64 = facts.sleeps.iter().sum();
        let polls = facts.sleeps[kind(Kind::Timer)];
        let fed = found.arrows.iter().any(|arrow| arrow.feeds(id));
        if polls >= 50 && polls * 3 > all && !fed {
            found.unseen.push(format!(
                "what feeds {}: it looks for work itself ({polls} sleeps by the clock)",
                stage.name
            ));
        }
        let counted_ns = trace.head.counted_s * 1e9;
        if all < 3 && counted_ns > 0.0 && facts.cpu_ns as f64 > 0.2 * counted_ns {
            found
                .unseen
                .push(format!("what feeds {}: it never sleeps, so nothing wakes it", stage.name));
        }
    }
    for call in &trace.head.missing {
        debug_assert!(found.unseen.contains(call));
    }
    for loss in &trace.losses {
        found.unseen.push(format!("{} of {}", loss.n, loss.what));
    }
}
