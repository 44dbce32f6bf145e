//! Weights for the schedulers of many nodes, so that shares are fair over all of them together.
//!
//! # Problem
//! Each node divides what it has by weights. A tenant that is alone on many nodes, and meets others
//! on few, has more in all than its weight says. Equal weights everywhere are not equal shares.
//!
//! # The primitive
//! Each tenant has a *factor*. Its weight at every node is its own weight times the factor. Who has
//! more in all than its share gets a smaller factor: it yields where it meets others, and keeps
//! what no one else wants. So one number by tenant is all that nodes must be told.
//!
//! The factors are found here and not by trying them out on the nodes. Nodes report who is there
//! and whether it wants more ([`Cluster::report`]). From that the decision knows what each node
//! would give by any weights: max-min by weight. It repeats that arithmetic until shares are even
//! ([`Cluster::decide`]). The nodes converge as soon as they have the result.
//!
//! # Example
//! Two nodes. A and B want all of node 1, A all of node 2. By equal weights A has 1.5 nodes and B
//! 0.5. With a small factor for A, B has nearly all of node 1, and both have about one node.
//!
//! Source: the dissertation's section 6.3.1 (as much as possible at local schedulers); D. Shue et
//! al., Performance isolation and fairness for multi-tenant cloud storage (Pisces).

/// Rounds of arithmetic in one decision.
const ROUNDS: usize = 40;

/// Smallest and largest factor: no tenant is starved for what it has elsewhere.
const FACTOR: [f64; 2] = [1.0 / 64.0, 64.0];

/// How far a round goes: part of the way, in logarithms.
const STEP: f64 = 0.7;

/// What a tenant has at a node, in a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// The tenant's number.
    pub tenant: u32,
    /// Part of the node that it had: of the resource that it used most.
    pub used: f32,
    /// It waited for more.
    pub wants: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    weights: Vec<f64>,
    factors: Vec<f64>,
    limits: Vec<f64>,
    /// By node, in order of tenants' numbers.
    uses: Vec<Vec<Use>>,
    shares: Vec<f64>,
    wanting: Vec<bool>,
    present: Vec<u32>,
    /// What was reported, all nodes together.
    used: Vec<f64>,
}

impl Cluster {
    /// A cluster without nodes and tenants.
    pub fn new() -> Self {
        Cluster::default()
    }

    /// Sets a tenant's weight, above zero, and the most that it may have on all nodes together, in
    /// requests a second. Makes room for it.
    pub fn set(&mut self, tenant: u32, weight: f64, limit: Option<f64>) {
        let at = tenant as usize;
        if at >= self.weights.len() {
            self.weights.resize(at + 1, 1.0);
            self.factors.resize(at + 1, 1.0);
            self.limits.resize(at + 1, f64::INFINITY);
        }
        self.weights[at] = weight.max(1e-6);
        self.limits[at] = limit.unwrap_or(f64::INFINITY);
    }

    /// What has changed at a node. Who is not named has what it had before; who uses nothing and
    /// wants nothing is forgotten there.
    pub fn report(&mut self, node: usize, changes: &[Use]) {
        if node >= self.uses.len() {
            self.uses.resize(node + 1, Vec::new());
        }
        for change in changes {
            if change.tenant as usize >= self.weights.len() {
                self.set(change.tenant, 1.0, None);
            }
            let uses = &mut self.uses[node];
            let found = uses.binary_search_by_key(&change.tenant, |known| known.tenant);
            let gone = change.used <= 0.0 && !change.wants;
            match found {
                Ok(at) if gone => drop(uses.remove(at)),
                Ok(at) => uses[at] = *change,
                Err(_) if gone => {}
                Err(at) => uses.insert(at, *change),
            }
        }
    }

    /// The node is gone, or will report everything again.
    pub fn forget(&mut self, node: usize) {
        if let Some(uses) = self.uses.get_mut(node) {
            uses.clear();
        }
    }

    /// Who is at a node, in order of numbers.
    pub fn at(&self, node: usize) -> &[Use] {
        self.uses.get(node).map_or(&[], Vec::as_slice)
    }

    /// The tenant's weight at each node.
    pub fn weight(&self, tenant: u32) -> f64 {
        let at = tenant as usize;
        self.weights.get(at).map_or(1.0, |weight| weight * self.factors[at])
    }

    /// Part of the tenant's limit that a node may give: half in equal parts, half by use.
    pub fn limit(&self, node: usize, tenant: u32) -> Option<f64> {
        let limit = self.limits.get(tenant as usize).copied().filter(|limit| limit.is_finite())?;
        let present = f64::from(self.present.get(tenant as usize).copied().unwrap_or(0).max(1));
        let all = self.used.get(tenant as usize).copied().unwrap_or(0.0);
        let here = self.at(node).iter().find(|known| known.tenant == tenant);
        let used = here.map_or(0.0, |known| f64::from(known.used));
        let by_use = if all > 0.0 { (used / all).min(1.0) } else { 1.0 / present };
        Some(limit * (0.5 / present + 0.5 * by_use))
    }

    /// What the tenant would have on all nodes together, by the last decision.
    pub fn share(&self, tenant: u32) -> f64 {
        self.shares.get(tenant as usize).copied().unwrap_or(0.0)
    }

    /// Finds the factors that make shares as even as nodes allow.
    pub fn decide(&mut self) {
        self.factors.fill(1.0);
        self.wanting = vec![false; self.weights.len()];
        self.present = vec![0; self.weights.len()];
        self.used = vec![0.0; self.weights.len()];
        for known in self.uses.iter().flatten() {
            self.used[known.tenant as usize] += f64::from(known.used);
            self.wanting[known.tenant as usize] |= known.wants;
            self.present[known.tenant as usize] += 1;
        }
        let mut given = Vec::new();
        for round in 0..ROUNDS {
            self.shares = vec![0.0; self.weights.len()];
            for uses in &self.uses {
                let claim = |known: &Use| Claim {
                    weight: self.weights[known.tenant as usize]
                        * self.factors[known.tenant as usize],
                    demand: if known.wants { f64::INFINITY } else { f64::from(known.used) },
                };
                divide(uses.iter().map(claim), &mut given);
                for (known, part) in uses.iter().zip(&given) {
                    self.shares[known.tenant as usize] += part;
                }
            }
            if round + 1 < ROUNDS {
                self.adjust();
            }
        }
    }

    fn adjust(&mut self) {
        let wanting = || (0..self.weights.len()).filter(|at| self.wanting[*at]);
        let shares: f64 = wanting().map(|at| self.shares[at]).sum();
        let weights: f64 = wanting().map(|at| self.weights[at]).sum();
        let fair = shares / weights.max(1e-9);
        for at in 0..self.weights.len() {
            if self.wanting[at] {
                let own = (self.shares[at] / self.weights[at]).max(1e-9);
                let factor = self.factors[at] * (fair / own).powf(STEP);
                self.factors[at] = factor.clamp(FACTOR[0], FACTOR[1]);
            }
        }
    }
}

/// What a tenant asks of a node.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its weight there.
    pub weight: f64,
    /// The most that it wants, in parts of the node.
    pub demand: f64,
}

/// Divides one node by weights: who wants less than its part leaves the rest to the others.
pub fn divide(claims: impl Iterator<Item = Claim>, given: &mut Vec<f64>) {
    let claims: Vec<Claim> = claims.collect();
    given.clear();
    given.resize(claims.len(), 0.0);
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let level = |at: &usize| claims[*at].demand / claims[*at].weight;
    order.sort_by(|a, b| level(a).total_cmp(&level(b)));
    let mut left = 1.0;
    let mut weights: f64 = claims.iter().map(|claim| claim.weight).sum();
    for at in order {
        let part = (left * claims[at].weight / weights.max(1e-12)).min(claims[at].demand).max(0.0);
        given[at] = part;
        left -= part;
        weights -= claims[at].weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(tenant: u32) -> Use {
        Use { tenant, used: 0.5, wants: true }
    }

    #[test]
    fn the_worked_example() {
        let mut cluster = Cluster::new();
        cluster.report(0, &[wants(0), wants(1)]);
        cluster.report(1, &[wants(0)]);
        cluster.decide();
        assert!(cluster.weight(1) > 10.0 * cluster.weight(0));
        assert!(cluster.share(1) > 0.9, "{}", cluster.share(1));
        assert!(cluster.share(0) < 1.1 && cluster.share(0) > 1.0, "{}", cluster.share(0));
    }

    #[test]
    fn shares_follow_weights_where_nodes_allow_it() {
        let mut cluster = Cluster::new();
        for (tenant, weight) in [4.0, 2.0, 1.0].into_iter().enumerate() {
            cluster.set(tenant as u32, weight, None);
        }
        // A chain: neighbours meet on some nodes, and no two tenants on all.
        for node in 0..3 {
            cluster.report(node, &[wants(0), wants(1)]);
            cluster.report(3 + node, &[wants(1), wants(2)]);
            cluster.report(6 + node, &[wants(0), wants(2)]);
        }
        cluster.decide();
        let total = 9.0;
        for (tenant, weight) in [4.0, 2.0, 1.0].into_iter().enumerate() {
            let fair = total * weight / 7.0;
            let share = cluster.share(tenant as u32);
            assert!((share / fair - 1.0).abs() < 0.05, "{tenant}: {share} of {fair}");
        }
    }

    #[test]
    fn who_wants_little_has_it_and_leaves_the_rest() {
        let mut cluster = Cluster::new();
        cluster.report(0, &[Use { tenant: 0, used: 0.1, wants: false }, wants(1)]);
        cluster.decide();
        assert!((cluster.share(0) - 0.1).abs() < 1e-6);
        assert!((cluster.share(1) - 0.9).abs() < 1e-6);
        cluster.report(0, &[Use { tenant: 0, used: 0.0, wants: false }]);
        cluster.decide();
        assert_eq!(cluster.at(0).len(), 1);
        assert!((cluster.share(1) - 1.0).abs() < 1e-6);
        cluster.forget(0);
        cluster.decide();
        assert_eq!(cluster.share(1), 0.0);
    }

    #[test]
    fn parts_of_a_limit_add_up_to_it() {
        let mut cluster = Cluster::new();
        cluster.set(3, 1.0, Some(1_000.0));
        for node in 0..4 {
            let used = 0.1 * (1 + node) as f32;
            cluster.report(node, &[Use { tenant: 3, used, wants: false }]);
        }
        cluster.decide();
        let parts: Vec<f64> = (0..4).map(|node| cluster.limit(node, 3).unwrap()).collect();
        assert!((parts.iter().sum::<f64>() - 1_000.0).abs() < 1.0, "{parts:?}");
        assert!(parts[3] > parts[0] && parts[0] > 100.0, "{parts:?}");
        assert_eq!(cluster.limit(0, 2), None);
    }
}
