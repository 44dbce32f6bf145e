//! The queue in front of a stage, or of several stages that share a scheduler.
//!
//! A queue keeps one list for each client and stage. The policy chooses the client, and age chooses
//! among a client's lists. With speculation there are two lists: parts that have not been tried,
//! and parts that were tried and put back. A third has parts that a guard mispredicts.

use super::slab::{NONE, Slab, Trial};
use super::{CLIENTS, RESOURCES};
use crate::model::Policy;
use headworks_policy::drr::Drr;
use headworks_policy::fair::{Fair, WEIGHT_ONE};

/// Deficit round robin's quantum of a client of weight one.
const QUANTUM_NS: u32 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    count: u32,
}

/// Index of the list of mispredicted parts.
pub(super) const MISTAKEN: usize = 2;

const EMPTY: List = List { head: NONE, tail: NONE, count: 0 };

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    policy: Policy,
    clients: usize,
    fair: Fair<CLIENTS, RESOURCES>,
    /// Only with the policy of that name.
    drr: Option<Box<Drr<CLIENTS>>>,
    rank: [f64; CLIENTS],
    /// Stage instances that pull from it.
    pub(super) members: Vec<u32>,
    /// Members that must serve in order of arrival, over all clients. Only queues of several stages
    /// need it: the queue of a single one has an order as its policy.
    ordered: Vec<bool>,
    /// For each member and client: untried, tried, and mispredicted parts.
    lists: Vec<[[List; 3]; CLIENTS]>,
    /// Number of tries on speculation, and each client's latest.
    tries: u64,
    tried_last: [u64; CLIENTS],
    /// Parts that wait, by client.
    pub(super) waiting: [u32; CLIENTS],
    pub(super) total: u32,
    /// Parts in service, without those that wait for another stage.
    pub(super) in_service: u32,
    /// Bound on them.
    pub(super) concurrency: u32,
    /// A guard limits the clients of its members.
    pub(super) guarded: bool,
    /// A member starts parts on speculation.
    pub(super) speculates: bool,
    /// The threads of a member are shared like a resource.
    pub(super) shares_threads: bool,
}

impl Queue {
    pub(super) fn new(
        policy: Policy,
        clients: usize,
        members: Vec<u32>,
        concurrency: u32,
    ) -> Queue {
        Queue {
            policy,
            clients,
            fair: Fair::new(),
            drr: (policy == Policy::Drr).then(|| Box::new(Drr::new(QUANTUM_NS))),
            rank: [1.0; CLIENTS],
            ordered: vec![false; members.len()],
            lists: vec![[[EMPTY; 3]; CLIENTS]; members.len()],
            members,
            tries: 0,
            tried_last: [0; CLIENTS],
            waiting: [0; CLIENTS],
            total: 0,
            in_service: 0,
            concurrency,
            guarded: false,
            speculates: false,
            shares_threads: false,
        }
    }

    /// A member must keep the order over all clients' parts.
    pub(super) fn keep_order(&mut self, member: usize) {
        self.ordered[member] = true;
    }

    /// Whether no part at this member is older.
    fn first(&self, slab: &Slab, member: usize, order: u64) -> bool {
        self.lists[member]
            .iter()
            .flatten()
            .filter(|list| list.count > 0)
            .all(|list| slab.parts[list.head as usize].order >= order)
    }

    pub(super) fn set_weight(&mut self, client: usize, weight: f64) {
        self.rank[client] = weight;
        let thousandths = (weight * f64::from(WEIGHT_ONE)).clamp(1.0, 1e9);
        self.fair.set_weight(client, thousandths as u32);
        if let Some(drr) = &mut self.drr {
            drr.set_quantum(client, (weight * f64::from(QUANTUM_NS)).clamp(1.0, 4e9) as u32);
        }
    }

    /// Adds a part of a client for a member. `mistaken`: to the list [`MISTAKEN`].
    pub(super) fn push(
        &mut self,
        slab: &mut Slab,
        (member, client): (usize, usize),
        part: u32,
        mistaken: bool,
    ) {
        let tried = usize::from(slab.parts[part as usize].trial == Trial::Failed);
        let list = &mut self.lists[member][client][if mistaken { MISTAKEN } else { tried }];
        slab.parts[part as usize].next = NONE;
        if list.count == 0 {
            list.head = part;
        } else {
            slab.parts[list.tail as usize].next = part;
        }
        list.tail = part;
        list.count += 1;
        self.joined(client);
    }

    /// Puts a part that was served for a while before all others of its client.
    pub(super) fn push_front(
        &mut self,
        slab: &mut Slab,
        (member, client): (usize, usize),
        part: u32,
    ) {
        let list = &mut self.lists[member][client][0];
        slab.parts[part as usize].next = list.head;
        if list.count == 0 {
            slab.parts[part as usize].next = NONE;
            list.tail = part;
        }
        list.head = part;
        list.count += 1;
        self.joined(client);
    }

    /// One part more of a client waits.
    fn joined(&mut self, client: usize) {
        self.total += 1;
        self.waiting[client] += 1;
        if self.waiting[client] == 1 {
            self.fair.wait(client);
            if let Some(drr) = &mut self.drr {
                drr.wait(client);
            }
        }
    }

    fn take(&mut self, slab: &mut Slab, member: usize, client: usize, tried: usize) -> u32 {
        let list = &mut self.lists[member][client][tried];
        let part = list.head;
        list.head = slab.parts[part as usize].next;
        list.count -= 1;
        self.total -= 1;
        self.waiting[client] -= 1;
        if self.waiting[client] == 0 {
            self.fair.rest(client);
            if let Some(drr) = &mut self.drr {
                drr.rest(client);
            }
        }
        part
    }

    /// The oldest part of a client at any member for which `open` allows it.
    fn oldest(
        &self,
        slab: &Slab,
        client: usize,
        open: &impl Fn(usize, usize, usize) -> bool,
    ) -> Option<(u64, usize, usize)> {
        let mut best: Option<(u64, usize, usize)> = None;
        for (member, lists) in self.lists.iter().enumerate() {
            for (tried, list) in lists[client].iter().enumerate() {
                if list.count == 0 {
                    continue;
                }
                let order = slab.parts[list.head as usize].order;
                if best.is_none_or(|(least, _, _)| order < least)
                    && open(member, client, tried)
                    && (!self.ordered[member] || self.first(slab, member, order))
                {
                    best = Some((order, member, tried));
                }
            }
        }
        best
    }

    /// Takes the part to serve next, with its member. `open` tells whether a member may work for a
    /// client, and on which of its lists.
    pub(super) fn next(
        &mut self,
        slab: &mut Slab,
        open: impl Fn(usize, usize, usize) -> bool,
    ) -> Option<(usize, u32)> {
        if self.total == 0 || self.in_service >= self.concurrency {
            return None;
        }
        let clients = self.clients;
        let able = |queue: &Queue, client: usize| {
            queue.waiting[client] > 0 && queue.oldest(slab, client, &open).is_some()
        };
        let client = match self.policy {
            Policy::Fifo => (0..clients)
                .filter(|&client| self.waiting[client] > 0)
                .filter_map(|client| Some((self.oldest(slab, client, &open)?.0, client)))
                .min()
                .map(|(_, client)| client),
            Policy::Priority => {
                let mut best: Option<usize> = None;
                for client in 0..clients {
                    if best.is_none_or(|other| self.rank[client] > self.rank[other])
                        && able(self, client)
                    {
                        best = Some(client);
                    }
                }
                best
            }
            Policy::Drf | Policy::Stride => self.fair.next(|client| able(self, client)),
            Policy::Drr => {
                let mut ables = [false; CLIENTS];
                for (client, slot) in ables.iter_mut().enumerate().take(clients) {
                    *slot = able(self, client);
                }
                self.drr.as_mut()?.next(|client| ables[client])
            }
        }?;
        let (_, member, tried) = self.oldest(slab, client, &open)?;
        self.fair.served(client);
        let part = self.take(slab, member, client, tried);
        Some((member, part))
    }

    /// Takes the part of one member to serve next, even if nothing more may be in service: it goes
    /// with one that is.
    pub(super) fn next_of(&mut self, slab: &mut Slab, member: usize) -> Option<u32> {
        let bound = std::mem::replace(&mut self.concurrency, u32::MAX);
        let next = self.next(slab, |at, _, _| at == member);
        self.concurrency = bound;
        next.map(|(_, part)| part)
    }

    /// The same for a queue of one member without a guard: every waiting part may go.
    pub(super) fn next_of_one(&mut self, slab: &mut Slab) -> Option<u32> {
        if self.total == 0 || self.in_service >= self.concurrency {
            return None;
        }
        let client = match self.policy {
            Policy::Drf | Policy::Stride => self.fair.next(|_| true)?,
            Policy::Fifo => (0..self.clients)
                .filter(|&client| self.waiting[client] > 0)
                .min_by_key(|&client| self.oldest_of_one(slab, client).0)?,
            Policy::Priority | Policy::Drr => {
                return self.next(slab, |_, _, _| true).map(|(_, part)| part);
            }
        };
        let (_, tried) = self.oldest_of_one(slab, client);
        self.fair.served(client);
        Some(self.take(slab, 0, client, tried))
    }

    /// The age of a client's oldest part at the only member, and whether it was tried.
    fn oldest_of_one(&self, slab: &Slab, client: usize) -> (u64, usize) {
        let [fresh, tried, _] = &self.lists[0][client];
        let order = |list: &List| slab.parts[list.head as usize].order;
        if tried.count == 0 {
            return (order(fresh), 0);
        }
        if fresh.count == 0 || order(tried) < order(fresh) {
            return (order(tried), 1);
        }
        (order(fresh), 0)
    }

    /// Takes an untried part of a member, of the client that was tried longest ago among those
    /// permitted (`permits`, as bits). Idle time is free, so no account tells which client is
    /// behind.
    pub(super) fn next_untried(
        &mut self,
        slab: &mut Slab,
        member: usize,
        permits: u16,
    ) -> Option<u32> {
        let (_, client) = (0..self.clients)
            .filter(|&client| permits & (1 << client) != 0)
            .filter(|&client| self.lists[member][client][0].count > 0)
            .map(|client| (self.tried_last[client], client))
            .min()?;
        self.tries += 1;
        self.tried_last[client] = self.tries;
        Some(self.take(slab, member, client, 0))
    }

    /// Whether only this client waits.
    pub(super) fn only(&self, client: usize) -> bool {
        self.waiting[client] == self.total
    }

    /// The client was given work, in nanoseconds of the whole resource.
    pub(super) fn charge(&mut self, client: usize, resource: usize, cost_ns: u64) {
        match self.policy {
            Policy::Stride => {}
            _ => self.fair.charge(client, resource, cost_ns),
        }
        if let Some(drr) = &mut self.drr {
            drr.charge(client, cost_ns);
        }
    }

    /// The client was given threads, in nanoseconds of all of them. Fair queueing over several
    /// resources remembers how little of each was used: a client that begins to block after a
    /// minute of short requests would have a minute's credit of threads.
    pub(super) fn charge_threads(&mut self, client: usize, cost_ns: u64) {
        if self.policy != Policy::Stride {
            self.fair.charge_most(client, cost_ns);
        }
        if let Some(drr) = &mut self.drr {
            drr.charge(client, cost_ns);
        }
    }

    /// A part of the client starts. Charges the known cost, and a little more, so that parts
    /// without cost take turns too.
    pub(super) fn charge_known(&mut self, client: usize, known_ns: &[u64; RESOURCES]) {
        if self.policy == Policy::Stride {
            self.fair.charge(client, 0, 1_000_000);
            return;
        }
        let mut largest = 1;
        for (resource, &cost_ns) in known_ns.iter().enumerate() {
            if cost_ns > 0 {
                self.fair.charge(client, resource, cost_ns);
                largest = largest.max(cost_ns);
            }
        }
        self.fair.charge(client, RESOURCES - 1, 1);
        if let Some(drr) = &mut self.drr {
            drr.charge(client, largest);
        }
    }
}
