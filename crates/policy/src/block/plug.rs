//! Plugging: holding the first requests of a burst back, so that the next ones can join them.
//!
//! # Problem
//! A sequential writer that comes in pieces of 4 KiB loses its chance to be one large request as
//! soon as the first piece is with the device.
//!
//! # The primitive
//! When a request comes to an empty queue, the queue is *plugged*: nothing is dispatched. It is
//! unplugged by whatever comes first: a request that is waited for (it is synchronous or has a
//! deadline), enough requests, a large one, or the end of a time. Linux plugs in the submitting
//! task since 2.6.39 (16 requests, 128 KiB). Before, it plugged in the queue (4 requests, 3 ms), as
//! is done here, for front ends whose clients trickle. A front end that gets a burst at once adds
//! all of it before it asks for the first dispatch. That merges as well and delays no request. So a
//! plug holds nothing unless a setting says for how long.
//!
//! # Worked example
//! Hold 3 ms, 4 requests. Asynchronous writes at 0, 1 and 2 ms: held until 3 ms. A fourth at 2.5
//! ms: all go at 2.5 ms. A read at 1 ms instead: all go at 1 ms.

use super::Request;
use crate::Nanos;

/// When to unplug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest hold. Zero: never plugged. Smaller: less delay. Larger: more merges.
    pub hold: Nanos,
    /// Requests that are held at most.
    pub requests: u16,
    /// A request of this many sectors is large enough.
    pub sectors: u32,
}

impl Default for Settings {
    /// Never plugged.
    fn default() -> Self {
        Settings { hold: Nanos(0), ..Settings::QUEUE }
    }
}

impl Settings {
    /// As the queues of Linux were plugged before 2.6.39: 4 requests or 3 ms; and 128 KiB.
    pub const QUEUE: Settings = Settings { hold: Nanos::from_millis(3), requests: 4, sectors: 256 };
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Plug {
    settings: Settings,
    until: Option<Nanos>,
    held: u16,
}

impl Plug {
    /// Open.
    pub const fn new(settings: Settings) -> Self {
        Plug { settings, until: None, held: 0 }
    }

    /// A request came that joined no other; `waiting` is the number of requests before it.
    pub fn queued(&mut self, now: Nanos, request: &Request, waiting: usize) {
        if waiting == 0 && self.settings.hold > Nanos(0) {
            self.until = Some(now + self.settings.hold);
            self.held = 0;
        }
        self.held = self.held.saturating_add(1);
        self.check(request);
    }

    /// A request joined another, which is now `whole`.
    pub fn merged(&mut self, whole: &Request) {
        self.check(whole);
    }

    fn check(&mut self, request: &Request) {
        let urgent = request.sync || request.deadline.is_some();
        if urgent || self.held >= self.settings.requests || request.sectors >= self.settings.sectors
        {
            self.until = None;
        }
    }

    /// Until when nothing goes, if the queue is plugged.
    pub fn holds(&mut self, now: Nanos) -> Option<Nanos> {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IoClass, Operation};
    use super::*;

    fn write(sectors: u32) -> Request {
        Request {
            operation: Operation::Write,
            sector: 0,
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

    fn plugged() -> Plug {
        let mut plug = Plug::new(Settings::QUEUE);
        plug.queued(Nanos(0), &write(8), 0);
        plug
    }

    #[test]
    fn on_time() {
        let mut plug = plugged();
        plug.queued(Nanos::from_millis(1), &write(8), 1);
        plug.queued(Nanos::from_millis(2), &write(8), 2);
        assert_eq!(plug.holds(Nanos::from_millis(2)), Some(Nanos::from_millis(3)));
        assert_eq!(plug.holds(Nanos::from_millis(3)), None);
    }

    #[test]
    fn on_count() {
        let mut plug = plugged();
        for waiting in 1..4 {
            assert!(plug.holds(Nanos(waiting)).is_some());
            plug.queued(Nanos(waiting), &write(8), waiting as usize);
        }
        assert_eq!(plug.holds(Nanos(4)), None);
    }

    #[test]
    fn on_size_on_a_synchronous_request_and_on_a_deadline() {
        let mut plug = plugged();
        plug.merged(&write(255));
        assert!(plug.holds(Nanos(1)).is_some());
        plug.merged(&write(256));
        assert_eq!(plug.holds(Nanos(1)), None);

        let mut plug = plugged();
        plug.queued(Nanos(1), &Request { sync: true, ..write(8) }, 1);
        assert_eq!(plug.holds(Nanos(1)), None);

        let mut plug = plugged();
        plug.queued(Nanos(1), &Request { deadline: Some(Nanos(9)), ..write(8) }, 1);
        assert_eq!(plug.holds(Nanos(1)), None);
    }

    #[test]
    fn once_unplugged_it_stays_so_until_the_queue_was_empty() {
        let mut plug = plugged();
        plug.queued(Nanos(1), &Request { sync: true, ..write(8) }, 1);
        plug.queued(Nanos(2), &write(8), 2);
        assert_eq!(plug.holds(Nanos(2)), None);
        plug.queued(Nanos(3), &write(8), 0);
        assert!(plug.holds(Nanos(3)).is_some());
    }

    #[test]
    fn without_a_hold_it_is_never_plugged() {
        let mut plug = Plug::default();
        plug.queued(Nanos(0), &write(8), 0);
        assert_eq!(plug.holds(Nanos(0)), None);
    }
}
