//! Who is there, what each has, and what each must be told.

use crate::keeper::Office;
use crate::tenant::{self, Settings};
use crate::wire::Push;
use headworks_policy::cluster::{Cluster, Use};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Weights and limits that differ by less are not told.
const WORTH_TELLING: f64 = 0.03;

/// A number of a node in this controller.
pub type NodeNumber = usize;

/// A node.
#[derive(Clone, Debug, Default)]
struct Node {
    name: String,
    role: String,
    version: u32,
    reports: u64,
    /// What it was told, by tenant: weight, limit.
    told: HashMap<u32, (f64, Option<f64>)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Desk {
    cluster: Cluster,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    settings: Settings,
    nodes: BTreeMap<NodeNumber, Node>,
    /// Numbers of nodes that are gone.
    free: Vec<NodeNumber>,
    made: NodeNumber,
    /// Something has changed since the last decision.
    changed: bool,
}

/// What an operator is told.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The fence, while this controller is in office.
    pub fence: Option<u64>,
    /// Why nodes get nothing of it.
    pub trouble: Option<String>,
    /// Who is there.
    pub nodes: Vec<NodeStatus>,
    /// All tenants that were set or seen.
    pub tenants: Vec<TenantStatus>,
}

/// A node.
#[derive(Debug, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: String,
    /// Version of its lines.
    pub version: u32,
    /// Reports so far.
    pub reports: u64,
    /// Tenants that have something there.
    pub tenants: usize,
}

/// A tenant.
#[derive(Debug, Serialize)]
pub struct TenantStatus {
    /// Its name.
    pub name: String,
    /// What operators have set, as far as it counts.
    pub weight: f64,
    /// See `weight`.
    pub limit: Option<f64>,
    /// See `weight`.
    pub target: Option<f64>,
    /// Nodes that it would have by the last decision.
    pub share: f64,
    /// Its weight at each node.
    pub weight_at_nodes: f64,
}

impl Desk {
    /// What operators have set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Operators have set this. Who is not named has weight one and no limit.
    pub fn set(&mut self, settings: Settings) {
        let before = std::mem::replace(&mut self.settings, settings);
        let names: Vec<String> = before.into_keys().chain(self.settings.keys().cloned()).collect();
        for name in names {
            if tenant::name_is_one(&name).is_err() {
                continue;
            }
            let set = self.settings.get(&name).cloned().unwrap_or_default();
            let number = self.number(&name);
            self.cluster.set(number, set.weight(), set.limit());
        }
        self.changed = true;
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.cluster.set(number, 1.0, None);
        number
    }

    /// A node has come. It is told everything once.
    pub fn come(&mut self, name: &str, role: &str, version: u32) -> NodeNumber {
        let number = self.free.pop().unwrap_or(self.made);
        self.made = self.made.max(number + 1);
        let node =
            Node { name: name.to_owned(), role: role.to_owned(), version, ..Node::default() };
        self.nodes.insert(number, node);
        number
    }

    /// A node is gone.
    pub fn go(&mut self, number: NodeNumber) {
        if self.nodes.remove(&number).is_some() {
            self.changed = true;
            self.cluster.forget(number);
            self.free.push(number);
        }
    }

    /// A node says what has changed.
    pub fn report(&mut self, node: NodeNumber, changes: &[(String, f32, bool)]) {
        let uses: Vec<Use> = changes
            .iter()
            .map(|(name, used, wants)| Use {
                tenant: self.number(name),
                used: *used,
                wants: *wants,
            })
            .collect();
        if let Some(known) = self.nodes.get_mut(&node) {
            known.reports += 1;
            self.changed |= !uses.is_empty();
            self.cluster.report(node, &uses);
        }
    }

    /// Decides, and says what each node must be told. Where nothing has changed, nothing is to say.
    pub fn decide(&mut self) -> Vec<(NodeNumber, Push)> {
        if !std::mem::take(&mut self.changed) {
            return Vec::new();
        }
        self.cluster.decide();
        let cluster = &self.cluster;
        let names = &self.names;
        self.nodes
            .iter_mut()
            .filter_map(|(number, node)| {
                let push = push(cluster, names, *number, node);
                (push != Push::default()).then_some((*number, push))
            })
            .collect()
    }

    /// For operators. A controller that is not in office names no node and no tenant: what it knows
    /// is of an earlier time.
    pub fn status(&self, office: &Office) -> Status {
        let fence = office.fence();
        let trouble = office.serves().err().map(str::to_owned);
        if fence.is_none() {
            return Status { fence, trouble, nodes: Vec::new(), tenants: Vec::new() };
        }
        let nodes = self.nodes.iter().map(|(number, node)| NodeStatus {
            name: node.name.clone(),
            role: node.role.clone(),
            version: node.version,
            reports: node.reports,
            tenants: self.cluster.at(*number).len(),
        });
        let tenants = self.names.iter().enumerate().map(|(number, name)| {
            let set = self.settings.get(name).cloned().unwrap_or_default();
            TenantStatus {
                name: name.clone(),
                weight: set.weight(),
                limit: set.limit(),
                target: set.target(),
                share: self.cluster.share(number as u32),
                weight_at_nodes: self.cluster.weight(number as u32),
            }
        });
        Status { fence, trouble, nodes: nodes.collect(), tenants: tenants.collect() }
    }
}

/// What has changed for the tenants of a node since it was told last.
fn push(cluster: &Cluster, names: &[String], number: NodeNumber, node: &mut Node) -> Push {
    let mut push = Push::default();
    let here = cluster.at(number);
    // Who went and comes again is told again: the node may have forgotten it.
    node.told.retain(|told, _| here.binary_search_by_key(told, |known| known.tenant).is_ok());
    for known in here {
        let name = &names[known.tenant as usize];
        let now = (cluster.weight(known.tenant), cluster.limit(number, known.tenant));
        // Who comes may remember what an earlier controller said: it is told everything once.
        let before = node.told.get(&known.tenant);
        let weight_differs = before.is_none_or(|before| differs(now.0, before.0));
        let limit_differs = before.is_none_or(|before| match (now.1, before.1) {
            (Some(now), Some(before)) => differs(now, before),
            (now, before) => now.is_some() != before.is_some(),
        });
        if weight_differs {
            push.weights.push((name.clone(), now.0));
        }
        if limit_differs {
            push.limits.push((name.clone(), now.1));
        }
        if weight_differs || limit_differs {
            node.told.insert(known.tenant, now);
        }
    }
    push
}

fn differs(a: f64, b: f64) -> bool {
    (a - b).abs() > WORTH_TELLING * b.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::Tenant;

    #[test]
    fn a_node_is_told_what_changed_and_only_of_its_own_tenants() {
        let mut desk = Desk::default();
        let (one, two) = (desk.come("one", "regionserver", 1), desk.come("two", "gate", 1));
        desk.report(one, &[("alice".into(), 0.5, true), ("bob".into(), 0.5, true)]);
        desk.report(two, &[("carol".into(), 0.5, true)]);
        desk.decide();
        let alice = Tenant { weight: 4.0, limit: Some(100.0), ..Tenant::default() };
        desk.set([("alice".to_owned(), alice)].into());
        let pushes: BTreeMap<_, _> = desk.decide().into_iter().collect();
        let limits = [("alice".to_owned(), Some(100.0))];
        assert_eq!(pushes[&one].limits, limits);
        assert!(pushes[&one].weights.iter().all(|(name, _)| name != "carol"));
        assert!(
            pushes
                .get(&two)
                .is_none_or(|push| push.weights.iter().all(|(name, _)| name == "carol"))
        );
        assert_eq!(desk.decide(), vec![]);
        // Whom the node has forgotten meanwhile, it is told again.
        desk.report(one, &[("alice".into(), 0.0, false)]);
        desk.decide();
        desk.report(one, &[("alice".into(), 0.5, true)]);
        let pushes: BTreeMap<_, _> = desk.decide().into_iter().collect();
        assert_eq!(pushes[&one].limits, limits);
        desk.set(Settings::new());
        let pushes: BTreeMap<_, _> = desk.decide().into_iter().collect();
        assert_eq!(pushes[&one].limits, [("alice".to_owned(), None)]);
        desk.go(one);
        let again = desk.come("three", "gate", 1);
        assert_eq!(again, one);
        assert_eq!(desk.cluster.at(again), []);
        assert!(desk.status(&Office::default()).nodes.is_empty(), "it is not in office");
    }
}
