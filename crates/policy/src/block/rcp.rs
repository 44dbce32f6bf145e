//! Two queues: what a client waits for, and the rest (RCP, section 4.3).
//!
//! # Problem
//! A device chooses the order of the requests that it has. Background requests that are on it delay
//! a critical one, however early that is dispatched.
//!
//! # The primitive
//! A request is *critical* if its program waits for it (`sync`) and its class is not idle. Critical
//! requests go first come, first served, before all others. Of the others at most
//! [`Settings::slots`] are on the device at a time, and at least one starts every
//! [`Settings::starved_after`].
//!
//! The paper always has one slot, and loses a third of a device's throughput by it (Figure 11).
//! Here, while no critical request was seen for [`Settings::quiet`], the slots double with each
//! further `starved_after`, up to [`Settings::slots_max`]. They fall back at the next critical
//! request, so that at most what is on the device by then delays it.
//!
//! A client may turn out to need what a background request reads or writes. [`Rcp::promote`] makes
//! it critical (section 4.2.2). Requests of different causes are not merged, so that it can.
//!
//! # Worked example
//! A checkpoint's writes 0 to 9 wait, one slot. Write 0 goes. A client's read comes: it goes next,
//! although nine came before it. Write 1 goes when write 0 is done, or 10 ms after it.

use super::fifo::{Links, List};
use super::table::{Entry, Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, IoClass, REQUESTS, Request};
use crate::Nanos;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Background requests on the device while critical ones come. Default 1, as the paper has it.
    pub slots: u32,
    /// The same while none was seen for long. Default 32.
    pub slots_max: u32,
    /// How long without a critical request is long. Default 100 ms.
    pub quiet: Nanos,
    /// A background request starts so often at least. Default 10 ms, as the paper has it.
    pub starved_after: Nanos,
    /// How large merges may become.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots: 1,
            slots_max: 32,
            quiet: Nanos::from_millis(100),
            starved_after: Nanos::from_millis(10),
            limits: Limits::default(),
        }
    }
}

/// Whether it is critical.
fn is_critical(request: &Request) -> bool {
    request.sync && request.class != IoClass::Idle
}

/// The mark of a critical request.
const CRITICAL: u64 = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct Rcp {
    settings: Settings,
    table: Table,
    links: Links,
    critical: List,
    background: List,
    /// Background requests on the device.
    active: [u64; REQUESTS / 64],
    slots: u32,
    /// When a critical request was last added or completed.
    critical_at: Nanos,
    /// When a background request last started.
    background_at: Nanos,
    slots_at: Nanos,
}

impl Default for Rcp {
    fn default() -> Self {
        Rcp::new(Settings::default())
    }
}

impl Rcp {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        Rcp {
            settings,
            table: Table::new(settings.limits),
            links: Links::default(),
            critical: List::EMPTY,
            background: List::EMPTY,
            active: [0; REQUESTS / 64],
            slots: settings.slots,
            critical_at: Nanos(0),
            background_at: Nanos(0),
            slots_at: Nanos(0),
        }
    }

    fn see_critical(&mut self, now: Nanos) {
        self.critical_at = now;
        self.slots = self.settings.slots;
    }

    fn on_device(&self) -> u32 {
        self.active.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether a background request may start.
    fn has_slot(&mut self, now: Nanos) -> bool {
        let every = self.settings.starved_after;
        let quiet = now.since(self.critical_at) >= self.settings.quiet;
        if quiet && now.since(self.slots_at) >= every {
            let most = self.settings.slots_max.max(1);
            self.slots = self.slots.saturating_mul(2).clamp(1, most);
            self.slots_at = now;
        }
        self.on_device() < self.slots || now.since(self.background_at) >= every
    }

    fn start(&mut self, now: Nanos, index: Index, critical: bool) -> Dispatch {
        self.table.take(index);
        if !critical {
            self.active[usize::from(index) / 64] |= 1 << (index % 64);
            self.background_at = now;
        }
        Dispatch::Request(index)
    }
}

impl BlockScheduler for Rcp {
    fn name(&self) -> &'static str {
        "rcp"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        let critical = is_critical(request);
        let mark = if critical { CRITICAL } else { 0 };
        if critical {
            self.see_critical(now);
        }
        let alike = |entry: &Entry| entry.mark == mark && entry.request.cause == request.cause;
        if let Some(added) = self.table.find_merge(request, false, alike) {
            self.table.merge(added, request);
            return added;
        }
        self.table.insert(now, index, request, mark);
        let queue = if critical { &mut self.critical } else { &mut self.background };
        self.links.push_back(queue, index);
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if let Some(index) = self.table.take_returned() {
            return Dispatch::Request(index);
        }
        let starved = !self.background.is_empty()
            && now.since(self.background_at) >= self.settings.starved_after;
        if !starved && let Some(index) = self.links.pop_front(&mut self.critical) {
            return self.start(now, index, true);
        }
        if !self.background.is_empty()
            && self.has_slot(now)
            && let Some(index) = self.links.pop_front(&mut self.background)
        {
            return self.start(now, index, false);
        }
        if self.background.is_empty() {
            Dispatch::Idle
        } else {
            Dispatch::Wait(self.background_at + self.settings.starved_after)
        }
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.table.give_back(index);
    }

    fn completed(&mut self, now: Nanos, index: Index, _service: Nanos) {
        let (word, mask) = (usize::from(index) / 64, 1 << (index % 64));
        if self.active[word] & mask == 0 {
            self.critical_at = now;
        }
        self.active[word] &= !mask;
        self.table.forget(index);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn promote(&mut self, now: Nanos, critical: &mut dyn FnMut(u32) -> bool) -> usize {
        let (mut promoted, mut at) = (0, self.background.first());
        while let Some(index) = at {
            at = self.links.next(index);
            if critical(self.table.entry(index).request.cause) {
                self.links.remove(&mut self.background, index);
                self.links.push_back(&mut self.critical, index);
                self.table.set_mark(index, CRITICAL);
                promoted += 1;
            }
        }
        if promoted > 0 {
            self.see_critical(now);
        }
        promoted
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain, read, write};
    use super::*;

    const MS: u64 = 1_000_000;

    fn full(writes: u16) -> Box<Rcp> {
        let mut rcp = Box::new(Rcp::default());
        // One cause reads all the time.
        rcp.add(Nanos(1_000 * MS), 900, &read(1 << 30, 8));
        assert_eq!(rcp.dispatch(Nanos(1_000 * MS)), Dispatch::Request(900));
        for index in 0..writes {
            let cause = u32::from(index);
            let request = Request { cause, ..write(u64::from(index) * 100, 8) };
            rcp.add(Nanos(1_000 * MS), index, &request);
        }
        rcp
    }

    #[test]
    fn what_somebody_waits_for_goes_first_and_one_other_is_on_the_device() {
        let mut rcp = full(10);
        let now = Nanos(1_000 * MS);
        assert_eq!(rcp.dispatch(now), Dispatch::Request(0));
        assert_eq!(rcp.dispatch(now), Dispatch::Wait(Nanos(1_010 * MS)));
        rcp.add(now, 500, &read(5, 8));
        assert_eq!(rcp.dispatch(now), Dispatch::Request(500));
        rcp.completed(now, 0, Nanos(MS));
        assert_eq!(rcp.dispatch(now), Dispatch::Request(1));
    }

    #[test]
    fn a_background_request_starts_every_ten_milliseconds() {
        let mut rcp = full(100);
        let mut started = 0;
        for step in 0..50 {
            let now = Nanos((1_000 + step) * MS);
            // More reads than the device can do, and nothing is ever done.
            rcp.add(now, 400 + step as u16, &read(step * 1_000, 8));
            if let Dispatch::Request(index) = rcp.dispatch(now) {
                started += u32::from(index < 100);
            }
        }
        assert_eq!(started, 5);
    }

    #[test]
    fn slots_grow_while_nobody_waits_and_fall_back() {
        let mut rcp = full(200);
        rcp.completed(Nanos(1_000 * MS), 900, Nanos(MS));
        let mut started = 0;
        for step in 0..40 {
            while let Dispatch::Request(_) = rcp.dispatch(Nanos((1_000 + step * 10) * MS)) {
                started += 1;
            }
        }
        assert!((32..80).contains(&started), "{started}");
        assert_eq!(rcp.slots, 32);
        rcp.add(Nanos(1_400 * MS), 901, &read(3, 8));
        assert_eq!(rcp.slots, 1);
    }

    #[test]
    fn what_a_client_needs_is_promoted() {
        let mut rcp = full(10);
        let now = Nanos(1_000 * MS);
        assert_eq!(rcp.dispatch(now), Dispatch::Request(0));
        assert_eq!(rcp.promote(now, &mut |cause| cause == 7), 1);
        assert_eq!(rcp.promote(now, &mut |cause| cause == 7), 0);
        assert_eq!(rcp.dispatch(now), Dispatch::Request(7));
        rcp.completed(now, 0, Nanos(MS));
        assert_eq!(rcp.dispatch(now), Dispatch::Request(1), "it took no slot");
        let idle = Request { class: IoClass::Idle, ..read(9_000, 8) };
        rcp.add(now, 600, &idle);
        assert_eq!(rcp.waiting(), 8);
    }

    #[test]
    fn all_are_dispatched_once() {
        let mut rcp = full(10);
        let mut order = drain(rcp.as_mut(), Nanos(1_000 * MS));
        order.sort_unstable();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }
}
