//! Exclusive quanta of time by application, as the coordinated-learning paper enforces shares.
//!
//! # Problem
//! Each application is to have a fraction of the time of the device, alone, so that its own
//! locality is not disturbed by others.
//!
//! # The primitive
//! A *period* (100 ms) has [`Settings::slices`] slices (100). Each application has a *quantum* of
//! whole slices in it, in proportion to its weight. The quanta follow each other, whether their
//! applications have requests or not. While its quantum lasts, an application's requests go as
//! long as they *fit*: with n in the device, the next one goes if
//!
//! `(n + 1) · service / concurrency ≤ time left of the quantum`
//!
//! Service is what its completed requests took, and concurrency how many of its requests were in
//! the device at a completion. Both are exponentially weighted means. The first request of a
//! quantum always goes, if none is in the device. What does not fit waits for the next period.
//!
//! # Options
//! The paper leaves open what happens to a request that is not back at the end of its quantum, and
//! how concurrency is counted. [`Settings::debt`] takes the overrun from the application's next
//! quantum. [`Settings::whole_queue`] counts what waits as concurrency, too. With
//! [`Settings::work_conserving`] others may use a quantum whose application has nothing. A host and
//! a store can have unequal periods ([`Settings::period`]).
//!
//! # Why shares do not multiply
//! Two levels of this scheduler do not give the product of their shares. Equal periods lock their
//! phases: a host's quantum for one application may always meet the same part of the store's. And
//! concurrency feeds on itself: an application that was given few requests is estimated to need
//! few. Large shares work, small ones starve. [`super::sfq`] has neither fault.
//!
//! # Invariants
//! A request starts only in a quantum of its application, except if lent. Every application that
//! waits has a quantum of at least one slice in each round. A round is a period, unless there are
//! more applications than slices.
//!
//! # Worked example
//! Weights 70 and 30: A has 0 to 70 ms, B 70 to 100 ms. B's requests take 8 ms, two at a time. At
//! 70 ms they go while (n + 1) · 8 / 2 ≤ 30: seven of them. When one is back at 92 ms, six are with
//! the device and 7 · 4 = 28 > 8: none goes before the next period.
//!
//! Source: coordinated learning, sections 3.6 and 4.3.

#[cfg(test)]
mod tests;

use super::fifo::{Links, List};
use super::share::{Share, Shares};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request};
use crate::Nanos;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Time in which each application has its quantum. Default 100 ms. Smaller: shorter waits.
    /// Larger: less time lost at the ends of quanta.
    pub period: Nanos,
    /// Parts of the period of which quanta are made. Default 100.
    pub slices: u32,
    /// Weight of the latest completion in the means. Default 1/20.
    pub mean_weight: f64,
    /// Service time of an application of which nothing is known. Default 8 ms.
    pub service: Nanos,
    /// An overrun is taken from the application's next quantum. Default: it is not.
    pub debt: bool,
    /// Requests that wait count as concurrency. Default: only those in the device do.
    pub whole_queue: bool,
    /// Others may use a quantum whose application has nothing. Default: they may not.
    pub work_conserving: bool,
    /// How large merges may become.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            period: Nanos::from_millis(100),
            slices: 100,
            mean_weight: 0.05,
            service: Nanos::from_millis(8),
            debt: false,
            whole_queue: false,
            work_conserving: false,
            limits: Limits::default(),
        }
    }
}

/// An application that has a quantum: its share was set, or it has requests.
#[derive(Clone, Copy, Debug)]
struct Application {
    cause: u32,
    share: Share,
    fixed: bool,
    members: u16,
    waiting: u16,
    inflight: u16,
    arrival: List,
    service_ns: f64,
    concurrency: f64,
    ended: Nanos,
    overrun: Nanos,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Quanta {
    settings: Settings,
    table: Table,
    arrival: Links,
    shares: Shares,
    applications: Vec<Application>,
    turn: usize,
    end: Nanos,
    first: bool,
    inflight: u32,
}

impl Default for Quanta {
    fn default() -> Self {
        Quanta::new(Settings::default())
    }
}

impl Quanta {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        Quanta {
            settings,
            table: Table::new(settings.limits),
            arrival: Links::default(),
            shares: Shares::default(),
            // One for each set share, and one for each request.
            applications: Vec::with_capacity(2 * REQUESTS),
            turn: 0,
            end: Nanos(0),
            first: true,
            inflight: 0,
        }
    }

    fn find(&self, cause: u32) -> Option<usize> {
        self.applications.iter().position(|application| application.cause == cause)
    }

    fn open(&mut self, cause: u32) -> usize {
        self.find(cause).unwrap_or_else(|| {
            self.applications.push(Application {
                cause,
                share: self.shares.get(cause),
                fixed: self.shares.has(cause),
                members: 0,
                waiting: 0,
                inflight: 0,
                arrival: List::EMPTY,
                // Service times are far below 2^53 ns.
                service_ns: self.settings.service.0 as f64,
                concurrency: 1.0,
                ended: Nanos(0),
                overrun: Nanos(0),
            });
            self.applications.len() - 1
        })
    }

    fn quantum(&self, application: &Application) -> Nanos {
        let all: u64 = self.applications.iter().map(|other| u64::from(other.share.weight)).sum();
        let slices = u64::from(self.settings.slices.max(1));
        let own = u64::from(application.share.weight) * slices;
        let own = ((own + all / 2) / all.max(1)).max(1);
        Nanos((self.settings.period.0 / slices * own).max(1))
    }

    /// Lets the quanta that are over by `now` be over.
    fn turn_to(&mut self, now: Nanos) {
        if self.applications.is_empty() {
            return;
        }
        if now.since(self.end) >= self.settings.period {
            // Nothing was asked for a whole round: all begins again.
            self.end = now;
        }
        while self.end <= now {
            let ended = self.end;
            if let Some(application) = self.applications.get_mut(self.turn) {
                application.ended = ended;
                application.overrun = Nanos(0);
                if application.members == 0 && !application.fixed {
                    self.applications.remove(self.turn);
                    // The one after it has its place, and its turn.
                    self.turn = self.turn.wrapping_sub(1);
                }
            }
            if self.applications.is_empty() {
                self.turn = 0;
                return;
            }
            self.turn = self.turn.wrapping_add(1) % self.applications.len();
            self.end = ended + self.quantum(&self.applications[self.turn]);
            self.first = true;
        }
    }

    fn fits(&self, now: Nanos, application: &Application) -> bool {
        let overrun = if self.settings.debt { application.overrun } else { Nanos(0) };
        let left_ns = self.end.since(now).0.saturating_sub(overrun.0) as f64;
        let with_it = f64::from(application.inflight) + 1.0;
        with_it * application.service_ns <= left_ns * application.concurrency
    }

    /// Whose request may go.
    fn choose(&mut self, now: Nanos) -> Option<usize> {
        let application = self.applications.get(self.turn)?;
        if application.waiting > 0 {
            let first = self.first && application.inflight == 0;
            let goes = first || self.fits(now, application);
            self.first &= !goes;
            return goes.then_some(self.turn);
        }
        if !self.settings.work_conserving || application.inflight > 0 {
            return None;
        }
        let len = self.applications.len();
        (1..len).map(|step| (self.turn + step) % len).find(|at| {
            let other = &self.applications[*at];
            other.waiting > 0 && (self.inflight == 0 || self.fits(now, other))
        })
    }

    fn begin(&mut self, at: usize) {
        self.applications[at].inflight += 1;
        self.inflight += 1;
    }

    /// `index` is no longer with the device.
    fn back(&mut self, index: Index) -> usize {
        // The application of a request is in the list while the request is in the table.
        let at = self.open(self.table.entry(index).request.cause);
        self.applications[at].inflight -= 1;
        self.inflight -= 1;
        at
    }
}

impl BlockScheduler for Quanta {
    fn name(&self) -> &'static str {
        "quanta"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        self.turn_to(now);
        let cause = u64::from(request.cause);
        let found = self.table.find_merge(request, true, |entry| entry.mark == cause);
        if let Some(added) = found {
            self.table.merge(added, request);
            return added;
        }
        self.table.insert(now, index, request, cause);
        let at = self.open(request.cause);
        let application = &mut self.applications[at];
        application.members += 1;
        application.waiting += 1;
        if request.operation == Operation::Flush {
            self.arrival.push_front(&mut application.arrival, index);
        } else {
            self.arrival.push_back(&mut application.arrival, index);
        }
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        self.turn_to(now);
        if let Some(index) = self.table.take_returned() {
            let at = self.open(self.table.entry(index).request.cause);
            self.begin(at);
            return Dispatch::Request(index);
        }
        if self.table.waiting() == 0 {
            return Dispatch::Idle;
        }
        let Some(at) = self.choose(now) else { return Dispatch::Wait(self.end) };
        let application = &mut self.applications[at];
        let Some(index) = self.arrival.pop_front(&mut application.arrival) else {
            return Dispatch::Wait(self.end);
        };
        application.waiting -= 1;
        self.table.take(index);
        self.begin(at);
        Dispatch::Request(index)
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.back(index);
        self.table.give_back(index);
    }

    fn completed(&mut self, now: Nanos, index: Index, service: Nanos) {
        self.turn_to(now);
        let at = self.back(index);
        self.table.forget(index);
        let (mean, whole) = (self.settings.mean_weight, self.settings.whole_queue);
        let turn = self.turn;
        let application = &mut self.applications[at];
        application.members -= 1;
        if at != turn {
            application.overrun = now.since(application.ended);
        }
        let waiting = if whole { application.waiting } else { 0 };
        let concurrency = f64::from(application.inflight + 1 + waiting);
        application.concurrency += mean * (concurrency - application.concurrency);
        // Service times are far below 2^53 ns.
        application.service_ns += mean * (service.0 as f64 - application.service_ns);
    }

    fn shares_flushes(&self) -> bool {
        true
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_share(&mut self, cause: u32, share: Option<Share>) -> bool {
        let set = self.shares.set(cause, share);
        if share.is_some() && set {
            self.open(cause);
        }
        if let Some(at) = self.find(cause) {
            self.applications[at].share = self.shares.get(cause);
            self.applications[at].fixed = self.shares.has(cause);
        }
        set
    }
}
