//! Where waits end: knots of the wait-for graph, after wPerf (Zhou et al., OSDI 2018).
//!
//! Stages, locks, devices and clients wait for one another. A knot is a set of these that wait for
//! nothing outside of it. Only what is in a knot can limit throughput: whatever is faster elsewhere
//! waits longer for a knot. Here the walk begins at the clients, so that what no request waits for
//! is in none of them. A part of a stage's time below [`PART_MIN`] is no wait that counts.
//!
//! Knots need no simulation. They say where to look, and not what a change gains.

use crate::infer::Architecture;
use crate::infer::arrows::{By, End, Meaning};
use crate::infer::waits::Kind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A smaller part of the time does not count.
const PART_MIN: f64 = 0.1;
/// A knot with a smaller part of the clients' time is left out.
const KNOT_MIN: f64 = 0.05;
/// Steps of the walk from the clients.
const STEPS: usize = 64;

/// What waits, or is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Clients,
    Stage(usize),
    Lock(usize),
    Permits(usize),
    Disk,
    Servers,
    Processors,
}

/// Who waits for one another, and for nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knot {
    /// Stages, locks and devices.
    pub of: Vec<String>,
    /// Part of the clients' waits that ends here.
    pub part: f64,
    /// The waits among them: who, for what, for which part of the time.
    pub waits: Vec<(String, String, f64)>,
}

type Edges = BTreeMap<Node, BTreeMap<Node, f64>>;

/// Finds them, the one in which most waits end first. Without requests of clients there are none.
pub fn knots(found: &Architecture) -> Vec<Knot> {
    let edges = trimmed(&edges(found));
    if !edges.contains_key(&Node::Clients) {
        return Vec::new();
    }
    let ends = walk(&edges);
    let mut knots: Vec<Knot> = Vec::new();
    let mut done: BTreeSet<Node> = BTreeSet::new();
    for &node in ends.keys() {
        let own = reached(&edges, node);
        // A knot: whatever is reached from it leads back.
        let closed =
            own.iter().all(|&other| other == node || reached(&edges, other).contains(&node));
        if !closed || !done.insert(node) {
            continue;
        }
        done.extend(&own);
        let members: BTreeSet<Node> = own.iter().copied().chain([node]).collect();
        let part = members.iter().filter_map(|node| ends.get(node)).sum();
        let name = |node: Node| name(found, node);
        let mut waits: Vec<(String, String, f64)> = members
            .iter()
            .flat_map(|&from| {
                edges.get(&from).into_iter().flatten().map(move |(to, part)| (from, to, part))
            })
            .map(|(from, to, part)| (name(from), name(*to), *part))
            .collect();
        waits.sort_by(|a, b| b.2.total_cmp(&a.2));
        if part >= KNOT_MIN {
            knots.push(Knot { of: members.iter().map(|&node| name(node)).collect(), part, waits });
        }
    }
    knots.sort_by(|a, b| b.part.total_cmp(&a.part));
    knots
}

fn name(found: &Architecture, node: Node) -> String {
    match node {
        Node::Clients => "clients".to_owned(),
        Node::Stage(stage) => found.stages.stages[stage].name.clone(),
        Node::Lock(at) => format!("lock {}", found.locks[at].name),
        Node::Permits(at) => found.permits[at].name.clone(),
        Node::Disk => "disk".to_owned(),
        Node::Servers => "servers that are not recorded".to_owned(),
        Node::Processors => "processors".to_owned(),
    }
}

/// Who waits for whom, for which part of its time. What is left of a stage's time it works.
fn edges(found: &Architecture) -> Edges {
    let mut edges = Edges::new();
    let answer = |arrow: &&crate::infer::arrows::Arrow| {
        arrow.meaning == Meaning::Data && arrow.to == End::Clients
    };
    for arrow in found.arrows.iter().filter(answer) {
        if let End::Stage(stage) = arrow.from {
            add(&mut edges, Node::Clients, Node::Stage(stage), arrow.n as f64);
        }
    }
    for stage in 0..found.stages.stages.len() {
        for (to, ns) in waits_of(found, stage) {
            add(&mut edges, Node::Stage(stage), to, ns);
        }
    }
    // Who waits for a lock waits for those that may have it.
    for (at, lock) in found.locks.iter().enumerate() {
        for (&stage, &(n, _)) in &lock.waits {
            add(&mut edges, Node::Lock(at), Node::Stage(stage), n as f64);
        }
    }
    for (at, permits) in found.permits.iter().enumerate() {
        add(&mut edges, Node::Permits(at), Node::Stage(permits.stage), permits.n as f64);
    }
    for (from, all) in &mut edges {
        let works = match *from {
            Node::Stage(stage) => works_ns(found, stage),
            _ => 0.0,
        };
        let sum = all.values().sum::<f64>() + works;
        all.values_mut().for_each(|part| *part /= sum.max(1.0));
    }
    edges
}

fn add(edges: &mut Edges, from: Node, to: Node, weight: f64) {
    if weight > 0.0 {
        *edges.entry(from).or_default().entry(to).or_default() += weight;
    }
}

fn asleep(found: &Architecture, stage: usize, kind: Kind) -> f64 {
    let at = Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
    found.facts[stage].asleep_ns[at] as f64
}

/// Time of a stage's own: at work, and asleep by the clock.
fn works_ns(found: &Architecture, stage: usize) -> f64 {
    found.facts[stage].cpu_ns as f64 + asleep(found, stage, Kind::Timer)
}

/// What a stage's threads waited for, and how long.
fn waits_of(found: &Architecture, stage: usize) -> Vec<(Node, f64)> {
    let own = End::Stage(stage);
    let mut waits = vec![
        (Node::Processors, found.facts[stage].queued_ns as f64),
        (Node::Disk, asleep(found, stage, Kind::Device)),
    ];
    for arrow in found.arrows.iter().filter(|arrow| arrow.by != By::Socket) {
        // For its next request, or for an answer.
        let (waits_here, on) = match arrow.meaning {
            Meaning::Data => (arrow.to == own, arrow.from),
            Meaning::Blocking => (arrow.from == own, arrow.to),
        };
        if let (true, End::Stage(on)) = (waits_here, on) {
            waits.push((Node::Stage(on), arrow.off_ns as f64));
        }
    }
    for (at, lock) in found.locks.iter().enumerate() {
        waits.extend(lock.waits.get(&stage).map(|(_, ns)| (Node::Lock(at), *ns as f64)));
    }
    for (at, permits) in found.permits.iter().enumerate().filter(|(_, each)| each.stage == stage) {
        waits.push((Node::Permits(at), permits.off_ns as f64));
    }
    let asked = found.asked.get(&stage).map_or(0.0, |(_, ns)| *ns as f64);
    waits.push((Node::Servers, asked));
    // Sockets do not say for whom a thread waits: for answers of recorded stages, or for clients.
    let left = (asleep(found, stage, Kind::Socket) - asked).max(0.0);
    let answers =
        found.arrows.iter().filter_map(|arrow| match (arrow.by, arrow.meaning, arrow.to) {
            (By::Socket, Meaning::Blocking, End::Stage(on)) if arrow.from == own => {
                Some((on, arrow.n))
            }
            _ => None,
        });
    let answers: Vec<(usize, u64)> = answers.collect();
    let comes = found.requests.iter().find(|(at, _)| *at == stage).map_or(0, |(_, n)| *n);
    let all = answers.iter().map(|(_, n)| n).sum::<u64>() + comes;
    for (on, n) in answers {
        waits.push((Node::Stage(on), left * n as f64 / all as f64));
    }
    if comes > 0 {
        waits.push((Node::Clients, left * comes as f64 / all as f64));
    }
    waits
}

/// Without waits that take little of the time.
fn trimmed(edges: &Edges) -> Edges {
    let mut edges = edges.clone();
    for all in edges.values_mut() {
        all.retain(|_, part| *part >= PART_MIN);
    }
    edges.retain(|_, all| !all.is_empty());
    edges
}

/// Nodes that are reached from one, itself only if a way leads back.
fn reached(edges: &Edges, from: Node) -> BTreeSet<Node> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(node) = left.pop() {
        for &next in edges.get(&node).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next) {
                left.push(next);
            }
        }
    }
    reached
}

/// Where a walk from the clients is that follows waits by their parts: where it ends, and where it
/// goes round.
fn walk(edges: &Edges) -> BTreeMap<Node, f64> {
    let mut at = BTreeMap::from([(Node::Clients, 1.0)]);
    for _ in 0..STEPS {
        let mut next: BTreeMap<Node, f64> = BTreeMap::new();
        for (&node, &part) in &at {
            let Some(out) = edges.get(&node) else {
                *next.entry(node).or_default() += part;
                continue;
            };
            let sum: f64 = out.values().sum();
            for (&to, &share) in out {
                *next.entry(to).or_default() += part * share / sum;
            }
        }
        at = next;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::Facts;
    use crate::infer::arrows::Arrow;
    use crate::infer::locks::{Lock, Permits};
    use crate::infer::stages::{Basis, Stage, Stages};
    use headworks_tad::model::Confidence;

    const SECOND: u64 = 1_000_000_000;

    fn stage(name: &str, most: u32) -> Stage {
        Stage {
            name: name.to_owned(),
            title: name.to_owned(),
            place: 0,
            units: Vec::new(),
            threads: Vec::new(),
            on_demand: false,
            most,
            births: 0,
            basis: Basis::Name,
            sure: Confidence::Certain,
            null: false,
        }
    }

    fn arrow(from: End, to: End, meaning: Meaning, by: By, off_ns: u64) -> Arrow {
        let (n, share, sure, confirmed) = (1_000, 1.0, Confidence::Certain, None);
        Arrow { from, to, meaning, by, n, share, off_ns, sure, confirmed }
    }

    /// Connections, a pool, and a thread that sleeps.
    fn system() -> Architecture {
        let stages = vec![stage("connection", 8), stage("pool", 2), stage("sleeper", 1)];
        let mut facts = vec![Facts::default(); 3];
        facts[0].cpu_ns = SECOND / 10;
        let mut found = Architecture {
            stages: Stages { stages, ..Stages::default() },
            arrows: vec![arrow(End::Stage(0), End::Clients, Meaning::Data, By::Socket, 0)],
            requests: vec![(0, 1_000)],
            facts,
            ..Architecture::default()
        };
        sleeps(&mut found, 2, Kind::Timer, SECOND);
        found
    }

    fn sleeps(found: &mut Architecture, stage: usize, kind: Kind, ns: u64) {
        let at = Kind::ALL.iter().position(|known| *known == kind).expect("a kind");
        found.facts[stage].asleep_ns[at] = ns;
    }

    fn socket(found: &mut Architecture, ns: u64) {
        sleeps(found, 0, Kind::Socket, ns);
    }

    /// Connections wait for it, for so long altogether.
    fn lock(found: &mut Architecture, ns: u64) {
        found.locks.push(Lock {
            name: "table".to_owned(),
            place: 0,
            address: 0x100,
            waits: [(0, (5_000, ns))].into(),
            ready_ns: 0,
            max_ns: 0,
            count: 1,
        });
    }

    #[test]
    fn a_lock_and_those_that_have_it_are_a_knot_and_a_sleeper_is_in_none() {
        let mut found = system();
        socket(&mut found, SECOND / 4);
        lock(&mut found, 7 * SECOND);
        let knots = knots(&found);
        assert_eq!(knots.len(), 1, "{knots:?}");
        assert_eq!(knots[0].of, ["connection", "lock table"], "{knots:?}");
        assert_eq!(knots[0].waits[0].0, "lock table");
        let all = format!("{knots:?}");
        assert!(!all.contains("sleeper") && !all.contains("clients"), "{all}");
    }

    #[test]
    fn who_waits_for_a_pool_leads_to_the_pool() {
        let mut found = system();
        let waits = arrow(End::Stage(0), End::Stage(1), Meaning::Blocking, By::Wake, 7 * SECOND);
        found.arrows.push(waits);
        // The pool is always at work, for its next request it hardly waits.
        found.facts[1].cpu_ns = 19 * SECOND / 10;
        let feeds = arrow(End::Stage(0), End::Stage(1), Meaning::Data, By::Wake, SECOND / 10);
        found.arrows.push(feeds);
        let knots = knots(&found);
        assert_eq!((knots.len(), &*knots[0].of), (1, &["pool".to_owned()][..]), "{knots:?}");
        assert!(knots[0].part > 0.99, "{knots:?}");
    }

    #[test]
    fn where_threads_wait_for_clients_these_are_in_the_knot() {
        let mut found = system();
        socket(&mut found, 7 * SECOND);
        let knots = knots(&found);
        assert_eq!(knots[0].of, ["clients", "connection"], "{knots:?}");
    }

    #[test]
    fn without_requests_of_clients_there_is_none() {
        let mut found = system();
        found.arrows.clear();
        lock(&mut found, 7 * SECOND);
        assert_eq!(knots(&found), []);
    }

    #[test]
    fn devices_processors_and_servers_are_ends_and_where_few_waits_end_is_left_out() {
        let mut found = system();
        found.arrows[0].n = 800;
        found.arrows.push(arrow(End::Stage(1), End::Clients, Meaning::Data, By::Socket, 0));
        found.arrows[1].n = 200;
        found.requests.push((1, 200));
        found.facts[0].queued_ns = 7 * SECOND;
        sleeps(&mut found, 1, Kind::Device, 85 * SECOND / 100);
        // All waits at sockets are for the other server, and none is for clients.
        found.asked.insert(1, (10, 15 * SECOND / 100));
        sleeps(&mut found, 1, Kind::Socket, 15 * SECOND / 100);
        let ends = |found: &Architecture| -> Vec<(String, u32)> {
            let knots = knots(found);
            let of = |knot: &Knot| (knot.of.join(", "), (knot.part * 1e3).round() as u32);
            knots.iter().map(of).collect()
        };
        let wanted = [("processors".to_owned(), 800), ("disk".to_owned(), 170)];
        assert_eq!(ends(&found), wanted, "3 % end at the other server");
        // As long for the other server as for the disk.
        found.asked.insert(1, (10, 85 * SECOND / 100));
        sleeps(&mut found, 1, Kind::Socket, 85 * SECOND / 100);
        let third = ("servers that are not recorded".to_owned(), 100);
        assert_eq!(ends(&found)[2], third);
    }

    #[test]
    fn from_where_a_way_leads_on_and_not_back_is_no_knot() {
        let mut found = system();
        socket(&mut found, SECOND);
        let waits = arrow(End::Stage(0), End::Stage(1), Meaning::Blocking, By::Wake, SECOND);
        found.arrows.push(waits);
        found.facts[1].cpu_ns = SECOND;
        let knots = knots(&found);
        assert_eq!((knots.len(), &*knots[0].of), (1, &["pool".to_owned()][..]), "{knots:?}");
        assert!(knots[0].part > 0.99, "{knots:?}");
    }

    #[test]
    fn a_pool_that_waits_for_its_next_request_is_in_a_knot_with_those_that_send_it() {
        let mut found = system();
        for (from, to, meaning) in [(0, 1, Meaning::Data), (0, 1, Meaning::Blocking)] {
            let passes = arrow(End::Stage(from), End::Stage(to), meaning, By::Wake, SECOND);
            found.arrows.push(passes);
        }
        found.facts[1].cpu_ns = SECOND / 10;
        assert_eq!(knots(&found)[0].of, ["connection", "pool"]);
    }

    #[test]
    fn who_waits_for_permits_waits_for_those_that_have_them() {
        let mut found = system();
        found.permits.push(Permits {
            stage: 0,
            address: 0x200,
            name: "permits".to_owned(),
            max_ns: 0,
            n: 1_000,
            off_ns: 7 * SECOND,
        });
        assert!(!edges(&found).contains_key(&Node::Stage(1)), "the pool needs none");
        assert_eq!(knots(&found)[0].of, ["connection", "permits"]);
        // Two ways round are one knot.
        lock(&mut found, 7 * SECOND);
        let knots = knots(&found);
        assert_eq!(knots.len(), 1, "{knots:?}");
        assert_eq!(knots[0].of, ["connection", "lock table", "permits"]);
    }

    #[test]
    fn what_a_stage_sleeps_by_the_clock_is_its_own_time() {
        let mut found = system();
        lock(&mut found, SECOND);
        sleeps(&mut found, 0, Kind::Timer, 20 * SECOND);
        // A twentieth of the time is waited for the lock: too little.
        assert_eq!(knots(&found)[0].of, ["connection"]);
    }

    /// Three answers of another stage for each request: sockets do not say for whom one waits.
    #[test]
    fn waits_at_sockets_are_for_answers_and_for_clients_by_their_numbers() {
        let mut found = system();
        socket(&mut found, 8 * SECOND);
        let asks = arrow(End::Stage(0), End::Stage(1), Meaning::Blocking, By::Socket, 99 * SECOND);
        found.arrows.push(Arrow { n: 3_000, ..asks });
        let parts = &edges(&found)[&Node::Stage(0)];
        // Next to a tenth of a second of work.
        let near = |node: Node, seconds: f64| (parts[&node] - seconds / 8.1).abs() < 1e-6;
        assert!(near(Node::Stage(1), 6.0) && near(Node::Clients, 2.0), "{parts:?}");
    }
}
