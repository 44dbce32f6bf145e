//! The causes, their passes, and which of them has the least.

use super::super::fifo::{Links, List};
use super::super::owners::{self, Owners, Queue};
use super::super::{Index, IoClass};

/// Whose requests a flow has. The level is that of each request: it decides what the request adds
/// to the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cause: u32,
    pub class: IoClass,
}

impl owners::Owner for Owner {
    const UNUSED: Owner = Owner { cause: 0, class: IoClass::BestEffort };

    fn word(self) -> u64 {
        u64::from(self.cause) << 2 | self.class as u64
    }
}

/// What is kept of one cause in one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Model time given, in nanoseconds times 840, divided by the weight.
    pub pass: u128,
    /// Its last request was synchronous.
    pub sync: bool,
}

pub type Flow = Queue<Owner, Share>;

/// One flow for each cause and class.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    flows: Owners<Owner, Share>,
    links: Links,
    /// Flows with requests that wait, by class, in no order.
    rings: [List; 3],
    waiting: u16,
    /// The greatest pass at which a turn began, by class.
    reached: [u128; 3],
}

impl Flows {
    pub fn get(&self, flow: Index) -> &Flow {
        self.flows.get(flow)
    }

    pub fn get_mut(&mut self, flow: Index) -> &mut Flow {
        self.flows.get_mut(flow)
    }

    /// Flows with requests that wait.
    pub fn waiting(&self) -> usize {
        usize::from(self.waiting)
    }

    /// The flow of `owner`.
    pub fn find(&self, owner: Owner) -> Option<Index> {
        self.flows.find(owner)
    }

    /// The flow of `owner`, or a new one.
    pub fn find_or_open(&mut self, owner: Owner) -> Index {
        self.find(owner).unwrap_or_else(|| self.flows.open(owner))
    }

    /// The flow has something to be served: not before the pass that others have reached.
    pub fn join(&mut self, flow: Index) {
        let queue = self.flows.get_mut(flow);
        let class = queue.owner.class as usize;
        queue.extra.pass = queue.extra.pass.max(self.reached[class]);
        self.links.push_back(&mut self.rings[class], flow);
        self.waiting += 1;
    }

    /// The flow has nothing that waits any more.
    pub fn leave(&mut self, flow: Index) {
        let class = self.get(flow).owner.class as usize;
        self.links.remove(&mut self.rings[class], flow);
        self.waiting -= 1;
    }

    /// The flow's turn begins.
    pub fn reach(&mut self, flow: Index) {
        let queue = self.flows.get(flow);
        let reached = &mut self.reached[queue.owner.class as usize];
        *reached = queue.extra.pass.max(*reached);
    }

    /// The flow was given something.
    pub fn charge(&mut self, flow: Index, stride: u128) {
        let extra = &mut self.get_mut(flow).extra;
        extra.pass = extra.pass.saturating_add(stride);
    }

    /// The flow with the least pass of the most urgent class in which a request waits; of equals
    /// the one that waits longest. Looks at all of them: causes that wait at a time are few, and a
    /// pass changes with every request.
    pub fn least(&self) -> Option<Index> {
        let class = [IoClass::RealTime, IoClass::BestEffort, IoClass::Idle]
            .into_iter()
            .find(|class| !self.rings[*class as usize].is_empty())?;
        let mut at = self.rings[class as usize].first();
        let mut best = at?;
        while let Some(flow) = at {
            if self.get(flow).extra.pass < self.get(best).extra.pass {
                best = flow;
            }
            at = self.links.next(flow);
        }
        Some(best)
    }
}
