//! Schedulers and models that go to the limits of what an engine must take.

use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request,
};
pub use headworks_policy::random::Random;
use headworks_volume::model::Model;

/// Takes requests in any order, merges whatever fits, and now and then wants to wait.
pub struct Shuffler {
    waiting: Vec<(Index, Request)>,
    random: Random,
    known: [bool; REQUESTS],
}

impl Shuffler {
    pub fn new(seed: u64) -> Shuffler {
        Shuffler { waiting: Vec::new(), random: Random::new(seed), known: [false; REQUESTS] }
    }
}

impl BlockScheduler for Shuffler {
    fn name(&self) -> &'static str {
        "shuffler"
    }

    fn add(&mut self, _now: Nanos, index: Index, request: &Request) -> Added {
        assert!(!self.known[usize::from(index)], "{index} is used twice");
        let mergeable = |other: &Request| {
            other.operation == request.operation
                && matches!(request.operation, Operation::Read | Operation::Write)
                && other.fua == request.fua
                && other.sectors + request.sectors <= 1024
        };
        for (into, other) in &mut self.waiting {
            if !mergeable(other) {
                continue;
            }
            if other.end() == request.sector {
                other.sectors += request.sectors;
                return Added::MergedBack(*into);
            }
            if request.end() == other.sector {
                other.sector = request.sector;
                other.sectors += request.sectors;
                return Added::MergedFront(*into);
            }
        }
        self.known[usize::from(index)] = true;
        self.waiting.push((index, *request));
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if self.waiting.is_empty() {
            return Dispatch::Idle;
        }
        // Not at once, so that something is there to be merged into.
        if self.random.below(8) == 0 {
            return Dispatch::Wait(now + Nanos(self.random.below(20_000)));
        }
        let at = self.random.below(self.waiting.len() as u64) as usize;
        Dispatch::Request(self.waiting.swap_remove(at).0)
    }

    fn deactivated(&mut self, _now: Nanos, _index: Index) {
        panic!("the engine asks only when there is room");
    }

    fn completed(&mut self, _now: Nanos, index: Index, _service: Nanos) {
        assert!(std::mem::replace(&mut self.known[usize::from(index)], false), "{index}");
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// A device that takes up to `longest` for a command, at random, and checks its own depth.
pub struct Jumpy {
    pub depth: u32,
    pub longest: Nanos,
    pub random: Random,
    pub last: Nanos,
}

impl Model for Jumpy {
    fn depth(&self) -> u32 {
        self.depth
    }

    fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
        assert!(now >= self.last, "times run backwards");
        self.last = now;
        assert!(command.sectors > 0 || command.operation == Operation::Flush);
        now + Nanos(self.random.below(self.longest.0 + 1))
    }
}
