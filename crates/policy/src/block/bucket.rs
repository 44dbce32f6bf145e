//! Token buckets: each application has a rate, whether or not others want the device.
//!
//! # Problem
//! Operators know limits: "this volume gets 100 MB/s". A limit holds whatever others do, and what
//! one leaves is lost to all. It is here to be compared with: shares ([`super::sfq`]) lend.
//!
//! # The primitive
//! Each application has a bucket, which fills at its part of [`Settings::bytes_per_s`]: its weight
//! ÷ [`WHOLE`]. A request goes while the bucket is not in debt, and takes its bytes out, at least
//! [`Settings::least`]. So the bucket may be in debt by one request. It holds what comes in
//! [`Settings::burst`]. Of several that may go, the one that came first goes.
//!
//! # Invariants
//! In any time t an application is given at most its rate · (t + burst), and one request. One that
//! waits goes after its debt's time at the latest, if the device has room: none starves.
//!
//! # Worked example
//! 100 MB/s, weight a tenth of the whole: 10 MB/s. A request of 1 MB goes at once; the bucket held
//! 1 MB (a burst of 100 ms) and is empty. The next one goes, too, and leaves a debt of 1 MB, which
//! takes 100 ms.

use super::fifo::{Links, List};
use super::share::{Share, Shares};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, REQUESTS, Request, SECTOR_BYTES};
use crate::Nanos;

/// The weight of all of the rate.
pub const WHOLE: u64 = 1_000_000;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of all applications together.
    pub bytes_per_s: u64,
    /// What a request counts for at least, in bytes.
    pub least: u64,
    /// How long a bucket fills. Default 100 ms. Smaller: smoother. Larger: idle time is not lost.
    pub burst: Nanos,
}

impl Settings {
    /// For this rate.
    pub const fn new(bytes_per_s: u64) -> Self {
        Settings { bytes_per_s, least: 16 << 10, burst: Nanos::from_millis(100) }
    }
}

/// A bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    cause: u32,
    share: Share,
    /// Byte-nanoseconds × the weight's unit would overflow; so bytes, and below zero in debt.
    bytes: f64,
    filled: Nanos,
    arrival: List,
    waiting: u16,
    members: u16,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Buckets {
    settings: Settings,
    table: Table,
    arrival: Links,
    shares: Shares,
    buckets: Vec<Bucket>,
}

impl Buckets {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        Buckets {
            settings,
            table: Table::new(Limits::default()),
            arrival: Links::default(),
            shares: Shares::default(),
            // One for each request; without requests a bucket is forgotten if room is short.
            buckets: Vec::with_capacity(REQUESTS),
        }
    }

    fn rate(&self, share: Share) -> f64 {
        // Rates are far below 2^53 bytes a second.
        self.settings.bytes_per_s as f64 * f64::from(share.weight) / WHOLE as f64
    }

    fn fill(&mut self, now: Nanos, at: usize) {
        let rate = self.rate(self.buckets[at].share);
        let most = rate * self.settings.burst.0 as f64 / 1e9;
        let bucket = &mut self.buckets[at];
        let came = rate * now.since(bucket.filled).0 as f64 / 1e9;
        bucket.bytes = (bucket.bytes + came).min(most.max(0.0));
        bucket.filled = now;
    }

    fn find(&self, cause: u32) -> Option<usize> {
        self.buckets.iter().position(|bucket| bucket.cause == cause)
    }

    fn open(&mut self, now: Nanos, cause: u32) -> usize {
        if let Some(at) = self.find(cause) {
            return at;
        }
        let share = self.shares.get(cause);
        let (bytes, arrival) = (0.0, List::EMPTY);
        let fresh = Bucket { cause, share, bytes, filled: now, arrival, waiting: 0, members: 0 };
        match self.buckets.iter().position(|bucket| bucket.members == 0) {
            Some(unused) if self.buckets.len() >= REQUESTS => {
                self.buckets[unused] = fresh;
                unused
            }
            _ => {
                self.buckets.push(fresh);
                self.buckets.len() - 1
            }
        }
    }

    /// Of those that may go, the one whose first request came first; else when one may.
    fn choose(&mut self, now: Nanos) -> Result<usize, Nanos> {
        let mut first: Option<(u64, usize)> = None;
        let mut soonest = Nanos(u64::MAX);
        for at in 0..self.buckets.len() {
            self.fill(now, at);
            let bucket = self.buckets[at];
            let Some(index) = bucket.arrival.first() else { continue };
            if bucket.bytes >= 0.0 {
                let sequence = self.table.entry(index).sequence;
                if first.is_none_or(|(least, _)| sequence < least) {
                    first = Some((sequence, at));
                }
            } else {
                let wait_ns = -bucket.bytes / self.rate(bucket.share).max(1.0) * 1e9;
                // A debt is one request, and the rate a byte a second at least.
                soonest = soonest.min(now + Nanos(wait_ns as u64 + 1));
            }
        }
        first.map(|(_, at)| at).ok_or(soonest)
    }
}

impl BlockScheduler for Buckets {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        let cause = u64::from(request.cause);
        if let Some(added) = self.table.find_merge(request, true, |entry| entry.mark == cause) {
            self.table.merge(added, request);
            return added;
        }
        self.table.insert(now, index, request, cause);
        let at = self.open(now, request.cause);
        let bucket = &mut self.buckets[at];
        bucket.members += 1;
        bucket.waiting += 1;
        self.arrival.push_back(&mut bucket.arrival, index);
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if let Some(index) = self.table.take_returned() {
            return Dispatch::Request(index);
        }
        if self.table.waiting() == 0 {
            return Dispatch::Idle;
        }
        let at = match self.choose(now) {
            Ok(at) => at,
            Err(until) => return Dispatch::Wait(until),
        };
        let bucket = &mut self.buckets[at];
        let Some(index) = self.arrival.pop_front(&mut bucket.arrival) else {
            return Dispatch::Idle;
        };
        bucket.waiting -= 1;
        let request = self.table.entry(index).request;
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        // Requests are far below 2^53 bytes.
        bucket.bytes -= bytes.max(self.settings.least) as f64;
        self.table.take(index);
        Dispatch::Request(index)
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.table.give_back(index);
    }

    fn completed(&mut self, _now: Nanos, index: Index, _service: Nanos) {
        let cause = self.table.entry(index).request.cause;
        self.table.forget(index);
        if let Some(at) = self.find(cause) {
            self.buckets[at].members -= 1;
        }
    }

    fn shares_flushes(&self) -> bool {
        true
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_share(&mut self, cause: u32, share: Option<Share>) -> bool {
        let set = self.shares.set(cause, share);
        if let Some(at) = self.find(cause) {
            self.buckets[at].share = self.shares.get(cause);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::read;
    use super::*;

    fn of(cause: u32, sector: u64) -> Request {
        // 1 MiB.
        Request { cause, ..read(sector, 2_048) }
    }

    #[test]
    fn each_has_its_rate_and_what_one_leaves_is_lost() {
        let mut buckets = Box::new(Buckets::new(Settings::new(100 << 20)));
        let share = |weight| Some(Share { weight, best_effort: false });
        assert!(buckets.set_share(1, share(300_000)) && buckets.set_share(2, share(100_000)));
        let (mut given, mut now) = ([0u64; 3], Nanos(0));
        // Apart, so that none are merged.
        let place = |index: Index| u64::from(index) * 10_000;
        for index in 0..20 {
            buckets.add(now, index, &of(1 + u32::from(index % 2), place(index)));
        }
        while now < Nanos::from_millis(10_000) {
            match buckets.dispatch(now) {
                Dispatch::Request(index) => {
                    let cause = buckets.table.entry(index).request.cause;
                    given[cause as usize] += 1;
                    buckets.completed(now, index, Nanos(0));
                    buckets.add(now, index, &of(cause, place(index)));
                }
                Dispatch::Wait(until) => now = until,
                Dispatch::Idle => panic!("twenty requests wait"),
            }
        }
        // 30 and 10 MiB a second.
        assert!((295..=310).contains(&given[1]) && (95..=110).contains(&given[2]), "{given:?}");
    }
}
