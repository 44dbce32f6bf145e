//! A thousand nodes and twenty thousand tenants, simulated: nodes divide what they have by the
//! weights that they heard, and say by the real lines what has changed.

use headworks_controller::desk::Desk;
use headworks_controller::wire::{self, Heard, Hearing, Said};
use headworks_policy::cluster::{Claim, Use, divide};
use headworks_policy::random::Random;
use std::collections::HashMap;

const NODES: usize = 1_000;
const TENANTS: usize = 20_000;
/// Nodes at which a tenant has something.
const PRESENCE: u64 = 8;
const PERIOD_S: f64 = 2.0;

#[derive(Default)]
struct Node {
    /// Tenants that want all that they get here.
    here: Vec<usize>,
    weights: HashMap<usize, f64>,
    told: HashMap<usize, f32>,
    given: Vec<f64>,
    bytes: usize,
    hearing: Hearing,
}

impl Node {
    fn serve(&mut self) {
        let claim = |tenant: &usize| Claim {
            weight: self.weights.get(tenant).copied().unwrap_or(1.0),
            demand: f64::INFINITY,
        };
        divide(self.here.iter().map(claim), &mut self.given);
    }

    /// Says what has changed, with noise in what was measured.
    fn report(&mut self, random: &mut Random) -> String {
        let mut changes = Vec::new();
        for (tenant, part) in self.here.iter().zip(&self.given) {
            let used = (part * random.between(0.97, 1.03)) as f32;
            let worth = self
                .told
                .get(tenant)
                .is_none_or(|told| (told - used).abs() > 0.1 * told && (told - used).abs() > 0.001);
            if worth {
                self.told.insert(*tenant, used);
                changes.push((name(*tenant), Use { tenant: 0, used, wants: true }));
            }
        }
        let gone: Vec<usize> =
            self.told.keys().copied().filter(|tenant| !self.here.contains(tenant)).collect();
        for tenant in gone {
            self.told.remove(&tenant);
            changes.push((name(tenant), Use { tenant: 0, used: 0.0, wants: false }));
        }
        let text = wire::report(changes.iter().map(|(name, change)| (name.as_str(), *change)));
        self.bytes += text.len();
        text
    }

    fn hear(&mut self, text: &str) {
        self.bytes += text.len();
        for line in text.lines() {
            if let Heard::Push(push) = self.hearing.line(line) {
                for (name, weight) in push.weights {
                    self.weights.insert(name["tenant-".len()..].parse().unwrap(), weight);
                }
            }
        }
    }
}

fn name(tenant: usize) -> String {
    format!("tenant-{tenant:05}")
}

struct World {
    nodes: Vec<Node>,
    desk: Desk,
    random: Random,
}

impl World {
    fn new() -> World {
        let mut world = World {
            nodes: (0..NODES).map(|_| Node::default()).collect(),
            desk: Desk::default(),
            random: Random::new(1),
        };
        for node in 0..NODES {
            assert_eq!(world.desk.come(&format!("node-{node}"), "regionserver", 1), node);
        }
        for tenant in 0..TENANTS {
            world.place(tenant);
        }
        world
    }

    fn place(&mut self, tenant: usize) {
        for _ in 0..1 + self.random.below(2 * PRESENCE) {
            let node = self.random.below(NODES as u64) as usize;
            if !self.nodes[node].here.contains(&tenant) {
                self.nodes[node].here.push(tenant);
            }
        }
    }

    /// One period. Nodes for which `cut` holds do not reach the controller.
    fn period(&mut self, cut: impl Fn(usize) -> bool) {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.bytes = 0;
            node.serve();
            if cut(number) {
                continue;
            }
            let text = node.report(&mut self.random);
            let mut changes = Vec::new();
            for line in text.lines() {
                match wire::said(line) {
                    Some(Said::Use { used, wants, tenant }) => changes.push((tenant, used, wants)),
                    Some(Said::Report) => self.desk.report(number, &changes),
                    other => panic!("{other:?}"),
                }
            }
        }
        for (number, push) in self.desk.decide() {
            if !cut(number) {
                self.nodes[number].hear(&push.text(1));
            }
        }
    }

    /// Nodes that each tenant has, all together.
    fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; TENANTS];
        for node in &self.nodes {
            for (tenant, part) in node.here.iter().zip(&node.given) {
                shares[*tenant] += part;
            }
        }
        shares
    }

    fn most_bytes(&self) -> f64 {
        let most = self.nodes.iter().map(|node| node.bytes).max().unwrap();
        most as f64 / PERIOD_S
    }
}

/// Part of the tenants whose share is within so much of another.
fn alike(a: &[f64], b: &[f64], within: f64) -> f64 {
    let same = a.iter().zip(b).filter(|(a, b)| (*a / *b - 1.0).abs() <= within).count();
    same as f64 / a.len() as f64
}

/// Jain's index: one if all have the same.
fn evenness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn a_thousand_nodes_converge_and_stay_as_they_are_without_a_controller() {
    let mut world = World::new();
    let none = |_: usize| false;
    world.period(none);
    let alone = evenness(&world.shares());
    let first = world.most_bytes();
    world.period(none);
    world.period(none);
    let settled = world.shares();
    let even = evenness(&settled);
    println!("simulated: evenness {alone:.3} by equal weights, {even:.3} with a controller");
    assert!(even > alone && even > 0.95, "{alone} {even}");
    // A tenth of the tenants move.
    for tenant in (0..TENANTS).step_by(10) {
        for node in &mut world.nodes {
            node.here.retain(|here| *here != tenant);
        }
        world.place(tenant);
    }
    let mut most = first;
    let mut after = Vec::new();
    for _ in 0..8 {
        world.period(none);
        most = most.max(world.most_bytes());
        after.push(world.shares());
    }
    let end = after.last().unwrap().clone();
    let third = alike(&after[2], &end, 0.05);
    println!(
        "simulated: {:.1} % within 5 % of the end after three periods, {most:.0} bytes a second at most",
        100.0 * third
    );
    assert!(third > 0.99, "{third}");
    assert!(most <= 10_000.0, "{most}");
    // Ten minutes in which a third of the nodes hear nothing.
    for _ in 0..(600.0 / PERIOD_S) as usize {
        world.period(|node| node % 3 == 0);
    }
    let cut = alike(&world.shares(), &end, 0.1);
    println!(
        "simulated: {:.1} % within 10 % after ten minutes without a controller on a third of the nodes",
        100.0 * cut
    );
    assert!(cut > 0.99, "{cut}");
}
