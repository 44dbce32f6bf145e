//! First come, first served.
//!
//! # The primitive
//! A list in the order of arrival. A request that begins where a waiting one ends joins it, as at
//! insertion in Linux's `noop`, which sorts nothing and therefore merges at the back only.
//!
//! # Worked example
//! Reads of [8, 16), [0, 8) and [16, 24) come while the device is busy. The third joins the first.
//! Dispatched: [8, 24), [0, 8).

use super::fifo::{Links, List};
use super::plug::{self, Plug};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, Request};
use crate::Nanos;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Noop {
    table: Table,
    links: Links,
    queue: List,
    plug: Plug,
}

impl Noop {
    /// With limits of merging and a plug.
    pub fn new(limits: Limits, plug: plug::Settings) -> Self {
        Noop { table: Table::new(limits), plug: Plug::new(plug), ..Noop::default() }
    }
}

impl BlockScheduler for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        if let Some(added) = self.table.find_merge(request, false, |_| true) {
            self.table.merge(added, request);
            self.plug.merged(&self.table.entry(added.index_or(index)).request);
            return added;
        }
        self.plug.queued(now, request, self.table.waiting());
        self.table.insert(now, index, request, 0);
        self.links.push_back(&mut self.queue, index);
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if let Some(index) = self.table.take_returned() {
            return Dispatch::Request(index);
        }
        if self.queue.is_empty() {
            return Dispatch::Idle;
        }
        if let Some(until) = self.plug.holds(now) {
            return Dispatch::Wait(until);
        }
        match self.links.pop_front(&mut self.queue) {
            Some(index) => {
                self.table.take(index);
                Dispatch::Request(index)
            }
            None => Dispatch::Idle,
        }
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.table.give_back(index);
    }

    fn completed(&mut self, _now: Nanos, index: Index, _service: Nanos) {
        self.table.forget(index);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain, read, write};
    use super::*;

    #[test]
    fn first_come_first_served_and_neighbours_join_at_the_back() {
        let mut noop = Box::new(Noop::default());
        assert_eq!(noop.add(Nanos(0), 0, &read(8, 8)), Added::Queued);
        assert_eq!(noop.add(Nanos(0), 1, &read(0, 8)), Added::Queued, "no merge at the front");
        assert_eq!(noop.add(Nanos(0), 2, &read(16, 8)), Added::MergedBack(0));
        assert_eq!(drain(noop.as_mut(), Nanos(0)), [0, 1]);
    }

    #[test]
    fn a_plug_lets_a_burst_become_one_request() {
        let mut noop = Box::new(Noop::new(Limits::default(), plug::Settings::QUEUE));
        noop.add(Nanos(0), 0, &write(0, 8));
        assert_eq!(noop.dispatch(Nanos(0)), Dispatch::Wait(Nanos::from_millis(3)));
        for piece in 1..31 {
            assert_eq!(noop.add(Nanos(piece), 1, &write(8 * piece, 8)), Added::MergedBack(0));
        }
        assert_eq!(noop.dispatch(Nanos(31)), Dispatch::Wait(Nanos::from_millis(3)));
        noop.add(Nanos(32), 1, &write(8 * 31, 8));
        assert_eq!(noop.dispatch(Nanos(32)), Dispatch::Request(0), "it is 128 KiB large");
    }
}
