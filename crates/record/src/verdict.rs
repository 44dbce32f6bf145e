//! What limits a recorded system, in one sentence, and what else its reader has to know first.

use crate::draw::{self, Drawn};
use crate::infer::Architecture;
use crate::infer::arrows::{By, End};
use crate::infer::locks::Lock;
use crate::limits::{self, Kind, Limit};
use crate::trace::Trace;

/// A group that is stopped in a smaller part of its periods is hardly bounded.
const STOPPED_MIN: f64 = 0.1;
/// Waits of a smaller part of the threads' time are not worth a word.
const LOCK_MIN: f64 = 0.05;
/// Other programs that take less of a processor are not in the way.
const OTHERS_MIN: f64 = 0.1;
/// Fewer clients that wait to be accepted are chance.
const WAITING_MIN: f64 = 0.5;

/// What limits it, whose that is, and by how much. It takes some short simulations.
pub fn answer(trace: &Trace, found: &Architecture, drawn: &Drawn) -> String {
    if let Some(knot) = hung(found) {
        return knot;
    }
    let Some(scenario) = drawn.trial() else {
        return match locks(trace, found).first() {
            Some(lock) => format!("no request of a client was seen; {lock}"),
            None => "no request of a client was seen: what limits them is not known".to_owned(),
        };
    };
    let found = limits::limits(&drawn.tad, &scenario, &drawn.paused, &mut |_| {});
    let Ok(found) = found else { return "the recorded load cannot be simulated".to_owned() };
    match found.limits.first() {
        Some(limit) => first(trace, limit),
        None => "the clients limit: nothing gains 1 % if it is made twice as good".to_owned(),
    }
}

/// Who waits for whom in a program that does nothing.
fn hung(found: &Architecture) -> Option<String> {
    let name = |end: End| match end {
        End::Stage(stage) => found.stages.stages[stage].name.as_str(),
        End::Clients => "clients",
    };
    let waits: Vec<String> = found
        .arrows
        .iter()
        .filter(|arrow| arrow.by == By::Held)
        .map(|arrow| format!("{} waits for a lock that {} has", name(arrow.from), name(arrow.to)))
        .collect();
    (!waits.is_empty()).then(|| format!("no thread does anything: {}", waits.join(", ")))
}

fn first(trace: &Trace, limit: &Limit) -> String {
    let what = match limit.kind {
        Kind::Lock => format!("the lock {}", limit.name),
        Kind::Threads => format!("the threads of {}", limit.name),
        Kind::Time => format!("the sleeps and waits of {}", limit.name),
        Kind::Quota => "the control group's quota".to_owned(),
        Kind::Processors => "the processors".to_owned(),
        Kind::Disk => "the disk".to_owned(),
        Kind::Network => "the network".to_owned(),
        Kind::Server => "a server that is not recorded".to_owned(),
        Kind::Collector => "garbage collection".to_owned(),
    };
    let busy = if limit.busy > 0.0 {
        format!(", busy for {:.0} % of the time", limit.busy * 100.0)
    } else {
        String::new()
    };
    let quota = match &trace.head.quota {
        Some(quota) if limit.kind == Kind::Quota => format!(" ({})", of_group(quota)),
        _ => String::new(),
    };
    let (change, gain) = (&limit.change, limit.gain * 100.0);
    format!("{what}{quota}{busy}; {change}: +{gain:.0} %")
}

fn of_group(quota: &crate::trace::Quota) -> String {
    format!("{:.2} processors, {}", quota.processors, quota.group)
}

/// What a reader has to know beside the tables.
pub fn notes(trace: &Trace, found: &Architecture) -> Vec<String> {
    let mut notes = Vec::new();
    for head in trace.heads() {
        if let Some(quota) = head.quota.as_ref().filter(|quota| quota.part() >= STOPPED_MIN) {
            notes.push(format!(
                "the control group's quota stopped the program in {:.0} % of its periods ({})",
                quota.part() * 100.0,
                of_group(quota)
            ));
        }
        let others = draw::others(trace, head);
        if others >= OTHERS_MIN {
            notes.push(format!(
                "other programs took {others:.1} of {} processors{}",
                head.processors,
                if head.host.is_empty() { String::new() } else { format!(" of {}", head.host) }
            ));
        }
    }
    for (&stage, &waiting) in found.backlog.iter().filter(|(_, n)| **n >= WAITING_MIN) {
        let n = found.requests.iter().find(|(at, _)| *at == stage).map_or(0, |(_, n)| *n);
        let ms = waiting * trace.head.counted_s * 1e3 / n.max(1) as f64;
        notes.push(format!(
            "{waiting:.1} clients waited on average until {} accepted them, {ms:.0} ms each",
            found.stages.stages[stage].name
        ));
    }
    notes.extend(locks(trace, found));
    notes
}

/// Locks for which threads wait for long, in words, the longest waits first.
pub fn locks(trace: &Trace, found: &Architecture) -> Vec<String> {
    let counted_ns = trace.head.counted_s * 1e9;
    let part = |lock: &Lock, stage: usize, ns: u64| {
        let threads = f64::from(found.stages.stages[stage].most.max(1));
        let part = ns as f64 / (threads * counted_ns).max(1.0);
        (part >= LOCK_MIN).then(|| {
            let name = &found.stages.stages[stage].name;
            (
                part,
                format!(
                    "{name} waits for the lock in {} for {:.0} % of its time",
                    lock.name,
                    part * 100.0
                ),
            )
        })
    };
    let each = found.locks.iter().flat_map(|lock| {
        lock.waits.iter().filter_map(move |(&stage, &(_, ns))| part(lock, stage, ns))
    });
    let mut all: Vec<(f64, String)> = each.collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().map(|(_, words)| words).collect()
}
