//! What a request will probably cost a disk: seek and transfer.
//!
//! # Problem
//! A scheduler that shares device time must charge a request when it is dispatched, before its
//! duration is known. It must tell a random request of 4 KiB from a sequential one.
//!
//! # The primitive
//! `cost = request + |sector − head| · seek + sectors · transfer`, where head is the sector after
//! the last request. So the seek is proportional to the distance, and the transfer to the size.
//! This is the estimate that AFQ charges with (Split, section 2.5.1), where `request` is zero.
//! Without seeks, it counts requests and bytes: right for an array, whose arms are not seen.
//!
//! # Worked example
//! A seek over a span of 1,000,000 sectors takes 10 ms, and the transfer of a sector 2 µs. From
//! sector 0, a read of [500,000, 500,008) costs 5 ms and 16 µs. The read of [500,008, 500,016)
//! after it needs no seek and costs 16 µs.

use super::{Operation, Request};
use crate::Nanos;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeekCost {
    /// Time of a seek over the whole span.
    pub seek: Nanos,
    /// Sectors of the span; zero is a device without seeks.
    pub span_sectors: u64,
    /// Time of a sector.
    pub transfer: Nanos,
    /// Time of a request, however small.
    pub request: Nanos,
    /// Of writes, if that is another: of a request, and of a sector.
    pub writes: Option<(Nanos, Nanos)>,
    head: u64,
}

/// What requests take of a device without seeks, as it was learned (`learn::device`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// Of a read, and of each of its sectors.
    pub read: (Nanos, Nanos),
    /// Of a write, and of each of its sectors.
    pub write: (Nanos, Nanos),
    /// Of a flush.
    pub flush: Nanos,
}

impl SeekCost {
    /// A device with its head at sector 0.
    pub const fn new(seek: Nanos, span_sectors: u64, transfer: Nanos) -> Self {
        SeekCost { seek, span_sectors, transfer, request: Nanos(0), writes: None, head: 0 }
    }

    /// A device that is charged by requests and bytes, wherever they are.
    pub const fn by_size(request: Nanos, transfer: Nanos) -> Self {
        SeekCost { seek: Nanos(0), span_sectors: 0, transfer, request, writes: None, head: 0 }
    }

    /// Charges what was learned. Says whether it does: not where seeks are charged.
    pub fn set_prices(&mut self, prices: &Prices) -> bool {
        if self.span_sectors > 0 {
            return false;
        }
        (self.request, self.transfer) = prices.read;
        self.writes = Some(prices.write);
        true
    }

    /// What `request` would cost if it were next.
    pub fn of(&self, request: &Request) -> Nanos {
        let read = (self.request, self.transfer);
        let writes = self.writes.filter(|_| request.operation == Operation::Write);
        let (begin, sector) = writes.unwrap_or(read);
        let transfer = sector.0.saturating_mul(u64::from(request.sectors));
        let transfer = Nanos(begin.0.saturating_add(transfer));
        if self.span_sectors == 0 {
            return transfer;
        }
        let distance = request.sector.abs_diff(self.head).min(self.span_sectors);
        let seek = u128::from(self.seek.0) * u128::from(distance) / u128::from(self.span_sectors);
        // The distance is at most the span, so this is at most the time of the longest seek.
        Nanos(seek as u64) + transfer
    }

    /// `request` goes to the device: what it costs.
    pub fn charge(&mut self, request: &Request) -> Nanos {
        let cost = self.of(request);
        self.head = request.end();
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::read;
    use super::*;

    #[test]
    fn seek_by_distance_and_transfer_by_size() {
        let mut cost = SeekCost::new(Nanos::from_millis(10), 1_000_000, Nanos(2_000));
        assert_eq!(cost.charge(&read(500_000, 8)), Nanos(5_016_000));
        assert_eq!(cost.charge(&read(500_008, 8)), Nanos(16_000));
        assert_eq!(cost.of(&read(500_015, 0)), Nanos(10), "a sector back is 10 ns");
        assert_eq!(cost.of(&read(u64::MAX >> 1, 0)), Nanos::from_millis(10), "never more");
    }

    #[test]
    fn flash_has_no_seeks() {
        let mut cost = SeekCost::new(Nanos::from_millis(10), 0, Nanos(2_000));
        assert_eq!(cost.charge(&read(500_000, 8)), Nanos(16_000));
    }

    #[test]
    fn what_was_learned_is_charged_where_there_are_no_seeks() {
        let nanos = |request, sector| (Nanos(request), Nanos(sector));
        let prices = Prices { read: nanos(100, 1), write: nanos(500, 10), flush: Nanos(9) };
        let mut cost = SeekCost::by_size(Nanos(1_000), Nanos(2));
        assert!(cost.set_prices(&prices));
        assert_eq!(cost.of(&read(0, 8)), Nanos(108));
        assert_eq!(cost.of(&Request::new(Operation::Write, 0, 8)), Nanos(580));
        assert!(!SeekCost::new(Nanos(1), 10, Nanos(1)).set_prices(&prices));
    }

    #[test]
    fn an_array_is_charged_by_requests_and_bytes() {
        let mut cost = SeekCost::by_size(Nanos(1_000), Nanos(2));
        assert_eq!(cost.charge(&read(500_000, 8)), Nanos(1_016));
        assert_eq!(cost.charge(&read(0, 0)), Nanos(1_000));
    }
}
