//! What the tests of several schedulers need.

use super::{BlockScheduler, Dispatch, Index, IoClass, Operation, Request};
use crate::Nanos;

/// A synchronous read of cause 1.
pub fn read(sector: u64, sectors: u32) -> Request {
    Request { operation: Operation::Read, sync: true, ..write(sector, sectors) }
}

/// An asynchronous write of cause 1.
pub fn write(sector: u64, sectors: u32) -> Request {
    Request {
        operation: Operation::Write,
        sector,
        sectors,
        fua: false,
        sync: false,
        cause: 1,
        class: IoClass::BestEffort,
        level: 4,
        deadline: None,
        continues: false,
    }
}

/// Dispatches all that goes at `now`, to a device that is done with each at once.
pub fn drain(scheduler: &mut dyn BlockScheduler, now: Nanos) -> Vec<Index> {
    let mut order = Vec::new();
    while let Dispatch::Request(index) = scheduler.dispatch(now) {
        scheduler.activated(now, index);
        scheduler.completed(now, index, Nanos(0));
        order.push(index);
    }
    order
}
