//! First come, first served.

use super::{Added, BlockScheduler, Dispatch, Index, REQUESTS, Request};
use crate::Nanos;

/// Requests in the order of their coming: a ring of indices.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Noop {
    ring: [Index; REQUESTS],
    first: u16,
    len: u16,
}

impl Default for Noop {
    fn default() -> Self {
        Noop { ring: [0; REQUESTS], first: 0, len: 0 }
    }
}

impl BlockScheduler for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn add(&mut self, _now: Nanos, index: Index, _request: &Request) -> Added {
        let at = (usize::from(self.first) + usize::from(self.len)) % REQUESTS;
        self.ring[at] = index;
        self.len += 1;
        Added::Queued
    }

    fn dispatch(&mut self, _now: Nanos) -> Dispatch {
        if self.len == 0 {
            return Dispatch::Idle;
        }
        let index = self.ring[usize::from(self.first)];
        self.first = (self.first + 1) % REQUESTS as u16;
        self.len -= 1;
        Dispatch::Request(index)
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.first = (self.first + REQUESTS as u16 - 1) % REQUESTS as u16;
        self.ring[usize::from(self.first)] = index;
        self.len += 1;
    }

    fn waiting(&self) -> usize {
        usize::from(self.len)
    }
}
