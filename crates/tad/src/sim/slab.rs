//! Requests in flight and their parts. Memory is linear in what is in flight.

use super::plan::SimError;

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// What a part of a request is about.
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

/// A part of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Request.
    pub(super) request: u32,
    /// Stage instance.
    pub(super) place: u32,
    /// Next in its queue.
    pub(super) next: u32,
    /// Next consumption.
    pub(super) at: u32,
    /// Parts that must be done before it goes on.
    pub(super) waits: u16,
    pub(super) phase: Phase,
    /// It has a thread of its stage.
    pub(super) threaded: bool,
    /// It was started on speculation.
    pub(super) speculative: bool,
    /// What it submits before it waits was submitted.
    pub(super) submitted: bool,
    /// Speculation has failed for it.
    pub(super) tried: bool,
    /// Its age among those that wait.
    pub(super) order: u64,
    /// When its thread took it.
    pub(super) begun_ns: u64,
    /// What is left of the consumption under way, in nanoseconds.
    pub(super) left_ns: u64,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) load: u32,
    pub(super) client: u32,
    /// First of its parts.
    pub(super) base: u32,
    /// Parts that are not done.
    pub(super) live: u16,
    /// Parts for which the client waits.
    pub(super) answers: u16,
    pub(super) partition: u32,
    pub(super) origin: u32,
    pub(super) issued_ns: u64,
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
    /// Makes a request of `count` parts.
    pub(super) fn make(&mut self, mut request: Request, count: usize) -> Result<u32, SimError> {
        if self.free_parts.len() <= count {
            self.free_parts.resize(count + 1, Vec::new());
        }
        let id = self.free_requests.pop().unwrap_or(self.requests.len() as u32);
        let blank = Part {
            request: id,
            place: NONE,
            next: NONE,
            at: 0,
            waits: 0,
            phase: Phase::Idle,
            threaded: false,
            speculative: false,
            submitted: false,
            tried: false,
            order: 0,
            begun_ns: 0,
            left_ns: 0,
        };
        request.base = match self.free_parts[count].pop() {
            Some(base) => {
                self.parts[base as usize..base as usize + count].fill(blank);
                base
            }
            None => {
                let base = self.parts.len();
                if base + count > super::calendar::INDEX_MAX as usize {
                    return Err(SimError::Flooded(super::calendar::INDEX_MAX));
                }
                self.parts.resize(base + count, blank);
                base as u32
            }
        };
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
