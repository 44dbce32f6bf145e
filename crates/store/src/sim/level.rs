//! One level of scheduling: a scheduler, its queue, and who waits there.

use super::array::Kind;
use headworks_policy::Nanos;
use headworks_policy::block::{
    BlockScheduler, Dispatch, Index, Noop, Quanta, REQUESTS, Request, Sfq, Share, quanta, sfq,
    table::Limits,
};

/// How a level enforces shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Enforcement {
    /// Fair queueing with depth.
    Fair,
    /// The paper's quanta.
    Quanta(quanta::Settings),
    /// Not at all: requests pass in order.
    Pass,
}

impl Enforcement {
    /// Quanta as the paper has them.
    pub fn quanta() -> Self {
        Enforcement::Quanta(quanta::Settings::default())
    }

    fn build(self, kind: Kind, depth: u32) -> Box<dyn BlockScheduler> {
        // Requests are random and not joined, so that each is one access.
        let limits = Limits { sectors: 0 };
        match self {
            Enforcement::Fair => {
                let cost = kind.cost();
                let array = sfq::Settings::array(1, cost.request, cost.transfer);
                Box::new(Sfq::new(sfq::Settings { depth, limits, ..array }))
            }
            Enforcement::Quanta(settings) => {
                Box::new(Quanta::new(quanta::Settings { limits, ..settings }))
            }
            Enforcement::Pass => Box::new(Noop::new(limits, Default::default())),
        }
    }
}

/// See the module.
pub struct Level {
    scheduler: Box<dyn BlockScheduler>,
    depth: u32,
    /// For each index of the scheduler: the plant's number of the request.
    carried: Vec<usize>,
    free: Vec<Index>,
    waiting: Vec<u32>,
    /// When the scheduler wants to be asked again.
    pub ask_ns: u64,
    /// Whether the last request that went was alone: no other flow waited.
    pub lent: bool,
}

impl Level {
    /// With this many flows, equal and without requests, and room for `depth` beneath.
    pub fn new(enforcement: Enforcement, kind: Kind, depth: u32, flows: usize) -> Self {
        Level {
            scheduler: enforcement.build(kind, depth),
            depth,
            carried: vec![0; REQUESTS],
            free: (0..REQUESTS as Index).rev().collect(),
            waiting: vec![0; flows],
            ask_ns: u64::MAX,
            lent: false,
        }
    }

    /// Gives a flow a fraction.
    pub fn set_fraction(&mut self, flow: usize, fraction: f64, best_effort: bool) {
        // Fractions are at most one; flows are few.
        let weight = ((fraction * 1e6) as u32).max(1);
        self.scheduler.set_share(flow as u32, Some(Share { weight, best_effort }));
    }

    /// Gives best effort a part of what the device takes. One is no bound.
    pub fn set_best_effort(&mut self, kind: Kind, part: f64) {
        // At most the device's depth.
        let most = (f64::from(kind.depth()) * part).round().max(1.0) as u32;
        let most = if part < 1.0 { most } else { self.depth };
        self.scheduler.set_depth(self.depth, most);
    }

    /// Request `number` of `flow` comes. Returns its index here.
    ///
    /// # Panics
    /// If more requests come than a queue can name.
    pub fn add(&mut self, now: Nanos, number: usize, flow: usize, request: &Request) -> Index {
        let index = self.free.pop().expect("threads are fewer than the queue has names");
        self.carried[usize::from(index)] = number;
        self.waiting[flow] += 1;
        let request = Request { cause: flow as u32, ..*request };
        self.scheduler.add(now, index, &request);
        index
    }

    /// Takes the next request that may go.
    pub fn next(&mut self, now: Nanos, flow_of: impl Fn(usize) -> usize) -> Option<usize> {
        match self.scheduler.dispatch(now) {
            Dispatch::Request(index) => {
                self.scheduler.activated(now, index);
                let number = self.carried[usize::from(index)];
                let flow = flow_of(number);
                self.waiting[flow] -= 1;
                let others =
                    self.waiting.iter().enumerate().any(|(at, count)| at != flow && *count > 0);
                self.lent = !others;
                Some(number)
            }
            Dispatch::Wait(until) => {
                self.ask_ns = until.0;
                None
            }
            Dispatch::Idle => {
                self.ask_ns = u64::MAX;
                None
            }
        }
    }

    /// The request with this index is back after `service`.
    pub fn done(&mut self, now: Nanos, index: Index, service: Nanos) {
        self.scheduler.completed(now, index, service);
        self.free.push(index);
    }

    /// Whether requests of the flow wait here.
    pub fn waits(&self, flow: usize) -> bool {
        self.waiting[flow] > 0
    }
}
