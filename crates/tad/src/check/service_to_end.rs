//! Service to the end: a thread works for a request until it is done, and requests of one queue
//! differ in length. While a long one is served, the queue can decide nothing. The same work in
//! smaller requests would do no harm.
//!
//! Found by the search of `complete`. The dissertation excludes preemption (section 4.1.2).

use super::advice::Advice;
use super::finding::{Finding, finding};
use super::queues::{Source, busy_ns, sources, steps, turn_ns};
use super::words::join;
use crate::model::{StageId, Tad};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::ServiceToEnd;

/// Requests of a queue may differ in length by this factor. A client whose next request waits for
/// one of that length keeps 0.87 of the half that is due to it: 2 / (1 + 1.3).
const LENGTHS_MAX: f64 = 1.3;

/// Part of the shortest request that a turn may take, for the same reason: 2 / (2 + 0.3).
const TURN_MAX: f64 = 0.3;

/// Shortest turn that is advised.
const TURN_NS_MIN: u64 = 1_000;

/// How requests of a stage keep its threads.
#[derive(Clone, Debug)]
struct Lengths<'a> {
    longest_ns: u64,
    longest: &'a str,
    /// Requests whose clients say how long they take, and those for which chance does.
    set_by_client: Vec<&'a str>,
    by_chance: Vec<&'a str>,
}

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    sources(tad).iter().flat_map(|source| judge(tad, source)).collect()
}

fn judge(tad: &Tad, source: &Source) -> Vec<Finding> {
    let all = source.stages.iter().flat_map(|&id| steps(tad, id));
    let busy = all.map(|(kind, step)| busy_ns(tad, kind, step).0).filter(|ns| *ns > 0);
    let Some(shortest_ns) = busy.min() else { return Vec::new() };
    let stage = |&id: &StageId| {
        let stage = &tad.stages[id];
        if stage.queue.ordered && !stage.queue.ordered_per_client {
            return None; // Its order is the problem: none of its requests may be put off.
        }
        let lengths = lengths(tad, id);
        let differ = lengths.longest_ns as f64 > shortest_ns as f64 * LENGTHS_MAX;
        let turn_ns = turn_ns(tad, &stage.name);
        // A batch is served as one, to its end.
        let in_turns = stage.batch.is_none()
            && turn_ns.is_some_and(|ns| ns as f64 <= shortest_ns as f64 * TURN_MAX);
        let found = !in_turns && (differ || !lengths.vary().is_empty());
        found.then(|| describe(tad, id, &lengths, shortest_ns))
    };
    source.stages.iter().filter_map(stage).collect()
}

impl<'a> Lengths<'a> {
    /// Requests of one kind that differ in length.
    fn vary(&self) -> &[&'a str] {
        if self.set_by_client.is_empty() { &self.by_chance } else { &self.set_by_client }
    }
}

fn lengths(tad: &Tad, id: StageId) -> Lengths<'_> {
    let mut lengths =
        Lengths { longest_ns: 0, longest: "", set_by_client: Vec::new(), by_chance: Vec::new() };
    for (kind, step) in steps(tad, id) {
        let (ns, vary) = busy_ns(tad, kind, step);
        if ns > lengths.longest_ns {
            (lengths.longest_ns, lengths.longest) = (ns, &kind.name);
        }
        for (varies, list) in [
            (vary.set_by_client, &mut lengths.set_by_client),
            (vary.by_chance, &mut lengths.by_chance),
        ] {
            if varies && !list.contains(&kind.name.as_str()) {
                list.push(&kind.name);
            }
        }
    }
    lengths
}

fn describe(tad: &Tad, id: StageId, lengths: &Lengths, shortest_ns: u64) -> Finding {
    let stage = &tad.stages[id];
    let why = if !lengths.set_by_client.is_empty() {
        format!("clients set the amounts of {}", join(&lengths.set_by_client))
    } else if !lengths.by_chance.is_empty() {
        format!("the amounts of {} are drawn", join(&lengths.by_chance))
    } else {
        format!(
            "{} takes {:.1} times as long as the shortest",
            lengths.longest,
            lengths.longest_ns as f64 / shortest_ns as f64
        )
    };
    let reason = format!(
        "a thread of {} serves each request to its end, and these differ in length ({why}): until a long one is done, no other can be put before it",
        stage.name
    );
    let quarter_ns = (shortest_ns / 4).max(TURN_NS_MIN);
    // Whole microseconds, which people can read.
    let turn = Remedy::ServeInTurns {
        stage: stage.name.clone(),
        turn_ns: quarter_ns - quarter_ns % TURN_NS_MIN,
    };
    let resources = stage.uses.iter().map(|u| tad.resources[u.resource].name.clone()).collect();
    let mut direct = vec![turn];
    if stage.batch.is_some() {
        direct.insert(0, Remedy::SetBatch { stage: stage.name.clone(), most: 1 });
    }
    let remedies = vec![Advice::direct(PROBLEM, &direct)];
    finding(tad, PROBLEM, &[id], resources, reason, remedies, Vec::new())
}
