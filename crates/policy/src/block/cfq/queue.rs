//! The queues of the causes, and whose turn is next.

use super::super::fifo::Links;
use super::super::owners::{self, Owners};
use super::super::{Index, IoClass, Request};
use super::{Ring, is_sync};

/// Whose requests a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cause: u32,
    pub sync: bool,
    pub class: IoClass,
    pub level: u8,
}

impl Owner {
    pub fn of(request: &Request) -> Self {
        Owner {
            cause: request.cause,
            sync: is_sync(request),
            class: request.class,
            level: request.level.min(7),
        }
    }
}

impl owners::Owner for Owner {
    const UNUSED: Owner = Owner { cause: 0, sync: false, class: IoClass::BestEffort, level: 0 };

    fn word(self) -> u64 {
        u64::from(self.cause) << 8
            | u64::from(self.sync) << 6
            | (self.class as u64) << 4
            | u64::from(self.level)
    }
}

/// What is kept of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// Device time left of the slice; below zero, a debt.
    pub credit_ns: i64,
}

pub type Queue = owners::Queue<Owner, Slice>;

/// One queue for each owner.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    queues: Owners<Owner, Slice>,
    turns: Links,
    /// Queues that wait for their turn, by class.
    rings: [Ring; 3],
}

impl Queues {
    pub fn get(&self, queue: Index) -> &Queue {
        self.queues.get(queue)
    }

    pub fn get_mut(&mut self, queue: Index) -> &mut Queue {
        self.queues.get_mut(queue)
    }

    /// The queue of `owner`.
    pub fn find(&self, owner: Owner) -> Option<Index> {
        self.queues.find(owner)
    }

    /// A queue for `owner`, who has none.
    pub fn open(&mut self, owner: Owner) -> Index {
        self.queues.open(owner)
    }

    /// The queue has its turn after the others of its class.
    pub fn rejoin_back(&mut self, queue: Index) {
        let class = self.get(queue).owner.class as usize;
        self.turns.push_back(&mut self.rings[class], queue);
    }

    /// The queue has its turn before the others of its class.
    pub fn rejoin_front(&mut self, queue: Index) {
        let class = self.get(queue).owner.class as usize;
        self.turns.push_front(&mut self.rings[class], queue);
    }

    /// Takes the next queue of the class out.
    pub fn pop(&mut self, class: IoClass) -> Option<Index> {
        self.turns.pop_front(&mut self.rings[class as usize])
    }

    /// The most urgent class in which a queue waits for its turn.
    pub fn most_urgent(&self) -> Option<IoClass> {
        [IoClass::RealTime, IoClass::BestEffort, IoClass::Idle]
            .into_iter()
            .find(|class| !self.rings[*class as usize].is_empty())
    }
}
