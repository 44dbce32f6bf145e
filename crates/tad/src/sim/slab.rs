//! Requests in flight and their parts. Memory is proportional to the requests in flight.

use super::calendar::INDEX_MAX;
use super::error::SimError;
use super::plan::StepPlan;

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// State of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not submitted.
    Idle,
    /// In a queue, or on the way there.
    Waiting,
    /// A thread works on it.
    Running,
    /// It waits for other parts.
    Blocked,
    /// It is done.
    Done,
}

/// State of a part's speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// Not tried.
    None,
    /// It was started on speculation.
    UnderWay,
    /// That did not work.
    Failed,
}

/// A part of a request. A simulation mostly touches these, so they are small and self-contained:
/// the next step is found without the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Request.
    pub(super) request: u32,
    /// Number of its step in the plan.
    pub(super) step: u32,
    /// Stage instance.
    pub(super) place: u32,
    /// Next in its queue.
    pub(super) next: u32,
    /// Its age among those that wait.
    pub(super) order: u64,
    /// When it got its thread.
    pub(super) begun_ns: u64,
    /// Rest of the current consumption after the turn that is under way, in nanoseconds.
    pub(super) left_ns: u64,
    /// Next consumption.
    pub(super) at: u16,
    /// Parts that must be done before it goes on.
    pub(super) waits: u16,
    pub(super) phase: Phase,
    pub(super) trial: Trial,
    /// It has a thread of its stage.
    pub(super) threaded: bool,
    /// The steps that it submits before its wait were submitted.
    pub(super) submitted: bool,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) load: u32,
    /// First of its parts.
    pub(super) base: u32,
    /// Parts that are not done.
    pub(super) live: u16,
    /// Parts for which the client waits.
    pub(super) answers: u16,
    pub(super) partition: u32,
    pub(super) origin: u32,
    pub(super) issued_ns: u64,
    /// When the client first asked, if this is not the first time.
    pub(super) wanted_ns: u64,
    /// How often it asked before.
    pub(super) attempt: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Slab {
    pub(super) parts: Vec<Part>,
    pub(super) requests: Vec<Request>,
    free_parts: Vec<Vec<u32>>,
    free_requests: Vec<u32>,
    pub(super) in_flight: u32,
    pub(super) in_flight_max: u32,
}

impl Slab {
    /// Makes a request of these steps of the plan.
    pub(super) fn make(
        &mut self,
        mut request: Request,
        (first, steps): (u32, &[StepPlan]),
    ) -> Result<u32, SimError> {
        let count = steps.len();
        if self.free_parts.len() <= count {
            self.free_parts.resize(count + 1, Vec::new());
        }
        let id = self.free_requests.pop().unwrap_or(self.requests.len() as u32);
        let blank = Part {
            request: id,
            step: first,
            place: NONE,
            next: NONE,
            order: 0,
            begun_ns: 0,
            left_ns: 0,
            at: 0,
            waits: 0,
            phase: Phase::Idle,
            trial: Trial::None,
            threaded: false,
            submitted: false,
        };
        request.base = match self.free_parts[count].pop() {
            Some(base) => base,
            None => {
                let base = self.parts.len();
                if base + count > INDEX_MAX as usize {
                    return Err(SimError::Flooded(INDEX_MAX));
                }
                self.parts.resize(base + count, blank);
                base as u32
            }
        };
        let parts = &mut self.parts[request.base as usize..request.base as usize + count];
        for (part, (step, planned)) in parts.iter_mut().zip((first..).zip(steps)) {
            *part = Part { step, waits: planned.waits, ..blank };
        }
        if id as usize == self.requests.len() {
            self.requests.push(request);
        } else {
            self.requests[id as usize] = request;
        }
        self.in_flight += 1;
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        Ok(id)
    }

    /// Forgets a request of `count` parts.
    pub(super) fn free(&mut self, id: u32, count: usize) {
        self.free_parts[count].push(self.requests[id as usize].base);
        self.free_requests.push(id);
        self.in_flight -= 1;
    }
}

/// The parts of a batch that follow the one that leads.
#[derive(Debug, Default)]
pub(super) struct Followers {
    pub(super) parts: Vec<u32>,
    /// What they need, by consumption of the step.
    pub(super) more: Vec<u64>,
}
