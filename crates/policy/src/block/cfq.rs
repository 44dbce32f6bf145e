//! Time slices of the device for each cause, in proportion to its level: after CFQ of Linux.
//!
//! # Problem
//! The cause that submits most gets most of the device. A reader that waits for each block before
//! it asks for the next gets almost nothing beside a writer with a thousand requests.
//!
//! # The primitive
//! Each cause has a queue for its synchronous and one for its asynchronous requests. One queue at a
//! time has the device, for a *slice* of device time that depends on its level. Then the next of
//! the same class has its turn. Within a slice requests go upwards by sector.
//!
//! * **Slices.** `base · (9 − level) / 5`: 180 ms for level 0, 100 ms for level 4, 40 ms for level
//!   7, if synchronous; 40 % of that if not.
//! * **Accounts.** While n requests are with the device, each is charged 1/n of the time that
//!   passes. So at any depth the charges add up to the time during which the device was busy. What
//!   a queue used beyond its slice is a debt, taken from its next slices. So while two queues
//!   always have work, their device times follow the proportion of their slices. The error is at
//!   most one slice and what was with the device at its end.
//! * **Anticipation.** A synchronous queue whose requests are all completed keeps the device for
//!   [`Settings::slice_idle`]: the reader's next request is probably near. A queue whose mean think
//!   time is longer is not waited for.
//! * **Classes.** Real time goes before best effort, and interrupts its slice, which goes on later.
//!   The idle class has the device only when no other class has had anything there for
//!   [`Settings::idle_grace`], one request at a time.
//! * **Depth.** While others wait, a queue has at most [`Settings::quantum`] requests with the
//!   device, lest the device's own queue undoes the slices.
//!
//! Sources: the kernel's `Documentation/block/cfq-iosched` (Linux up to 4.20) for rules and
//! defaults; Split, sections 2.2.1 and 2.5.1, for what it is compared with. It differs from Linux
//! in four ways. Asynchronous requests have a queue for each cause, not one for each level. A
//! synchronous request does not interrupt an asynchronous slice of the same class. There are no
//! control groups. Two causes that read the same region are not joined into one queue.
//!
//! # Invariants
//! A best-effort queue with requests has its turn after at most one slice, and one overrun, of each
//! other best-effort queue, if no real-time request comes. In a turn a request that has waited for
//! longer than [`Settings::fifo_expire`] goes first. The idle class may wait for ever.
//!
//! # Worked example
//! Two readers, each with requests of 10 ms waiting, levels 4 and 7: slices of 100 and 40 ms. The
//! device serves 10 requests of the first, 4 of the second, 10, 4, ...: shares 5/7 and 2/7.

mod queue;
#[cfg(test)]
mod tests;

use super::fifo::{Links, List};
use super::plug::{self, Plug};
use super::sorted::{Key, Sorted};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, IoClass, Operation, REQUESTS, Request};
use crate::Nanos;
use queue::{Owner, Queues};

/// Tunables, with the kernel's defaults for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Slice of a synchronous queue of level 4. Default 100 ms. Smaller: shorter waits for a turn.
    /// Larger: fewer seeks between the regions of two causes.
    pub slice_sync: Nanos,
    /// The same for an asynchronous queue. Default 40 ms.
    pub slice_async: Nanos,
    /// How long the device is kept for a reader that will ask again. Default 8 ms; zero for flash,
    /// where a seek costs nothing.
    pub slice_idle: Nanos,
    /// Requests of one queue with the device while others wait. Default 8.
    pub quantum: u32,
    /// A synchronous request that has waited this long goes first in its queue's turn. Default 125
    /// ms.
    pub fifo_expire_sync: Nanos,
    /// The same for an asynchronous one. Default 250 ms.
    pub fifo_expire_async: Nanos,
    /// How long no other class may have had a request before the idle class has the device.
    /// Default 100 ms.
    pub idle_grace: Nanos,
    /// How large merges may become.
    pub limits: Limits,
    /// When bursts are held.
    pub plug: plug::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slice_sync: Nanos::from_millis(100),
            slice_async: Nanos::from_millis(40),
            slice_idle: Nanos::from_millis(8),
            quantum: 8,
            fifo_expire_sync: Nanos::from_millis(125),
            fifo_expire_async: Nanos::from_millis(250),
            idle_grace: Nanos::from_millis(100),
            limits: Limits::default(),
            plug: plug::Settings::default(),
        }
    }
}

impl Settings {
    /// For flash: a seek costs nothing there, so the device is never kept.
    pub fn flash() -> Self {
        Settings { slice_idle: Nanos(0), ..Settings::default() }
    }

    /// Device time of one turn.
    pub fn slice(&self, sync: bool, level: u8) -> Nanos {
        let base = if sync { self.slice_sync } else { self.slice_async };
        Nanos((base.0 / 5 * u64::from(9 - level.min(7))).max(1))
    }
}

/// Fractions of a nanosecond in the clock of charges. With a thousand requests at the device, each
/// is charged a thousandth of a nanosecond for each nanosecond.
const FRACTION_BITS: u32 = 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Cfq {
    settings: Settings,
    table: Table,
    sorted: Sorted,
    arrival: Links,
    queues: Queues,
    plug: Plug,
    /// Whose turn it is.
    active: Option<Index>,
    /// Whose turn was the last to begin.
    previous: Option<Index>,
    /// The turn has looked for a request that waited for too long.
    looked: bool,
    /// Since when, and until when, the device is kept for the active queue, which has nothing.
    kept: Option<(Nanos, Nanos)>,
    /// Sector after the last dispatched request.
    head: u64,
    /// ∫ dt / n, where n is the number of requests with the device.
    charge_clock: u128,
    clock: Nanos,
    /// The charge clock when the request went to the device.
    started: [u128; REQUESTS],
    /// Requests with the device, by whether their class is idle.
    inflight: [u32; 2],
    /// Last event of a request that is not of the idle class.
    last_other: Option<Nanos>,
}

impl Default for Cfq {
    fn default() -> Self {
        Cfq::new(Settings::default())
    }
}

impl Cfq {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        Cfq {
            settings,
            table: Table::new(settings.limits),
            sorted: Sorted::default(),
            arrival: Links::default(),
            queues: Queues::default(),
            plug: Plug::new(settings.plug),
            active: None,
            previous: None,
            looked: false,
            kept: None,
            head: 0,
            charge_clock: 0,
            clock: Nanos(0),
            started: [0; REQUESTS],
            inflight: [0; 2],
            last_other: None,
        }
    }

    fn advance(&mut self, now: Nanos) {
        let passed = now.since(self.clock);
        self.clock = self.clock.max(now);
        let with_device = self.inflight[0] + self.inflight[1];
        if with_device > 0 {
            self.charge_clock += (u128::from(passed.0) << FRACTION_BITS) / u128::from(with_device);
        }
    }

    /// An event of a request of this class.
    fn note(&mut self, now: Nanos, class: IoClass) {
        if class != IoClass::Idle {
            self.last_other = Some(now);
        }
    }

    /// Ends the turn of the active queue. An interrupted one goes on where it was. One whose slice
    /// is used up has its next turn after the others. One without requests loses the rest.
    fn end_turn(&mut self, interrupted: bool) {
        let Some(active) = self.active.take() else { return };
        self.kept = None;
        let queue = self.queues.get_mut(active);
        if queue.waiting == 0 {
            queue.extra.credit_ns = queue.extra.credit_ns.min(0);
        } else if interrupted && queue.extra.credit_ns > 0 {
            self.queues.rejoin_front(active);
        } else {
            self.queues.rejoin_back(active);
        }
    }

    /// What the active queue lets happen, if it keeps its turn.
    fn go_on(&mut self, now: Nanos) -> Option<Dispatch> {
        let active = self.active?;
        let queue = *self.queues.get(active);
        let rival = self.queues.most_urgent();
        if rival.is_some_and(|class| class < queue.owner.class) {
            self.end_turn(true);
            return None;
        }
        // The sign was checked: a positive credit fits.
        let slice_end = now + Nanos(queue.extra.credit_ns.max(0) as u64);
        if queue.extra.credit_ns <= 0 {
            self.end_turn(false);
            return None;
        }
        if queue.waiting > 0 {
            let idle = queue.owner.class == IoClass::Idle;
            let most = if idle { 1 } else { self.settings.quantum };
            let limited = idle || rival.is_some();
            if limited && u32::from(queue.inflight) >= most {
                return Some(Dispatch::Wait(slice_end));
            }
            if idle && let Some(until) = self.others_keep(now) {
                return Some(Dispatch::Wait(until));
            }
            return Some(self.serve(active, now));
        }
        if queue.inflight > 0 && self.anticipates(active) {
            return Some(Dispatch::Wait(slice_end));
        }
        match self.kept {
            Some((_, until)) if until > now => Some(Dispatch::Wait(until)),
            _ => {
                self.end_turn(false);
                None
            }
        }
    }

    /// Whether the device is worth keeping for the queue when it has nothing.
    fn anticipates(&self, queue: Index) -> bool {
        let queue = self.queues.get(queue);
        self.settings.slice_idle > Nanos(0)
            && queue.owner.sync
            && queue.owner.class != IoClass::Idle
            && queue.think_ns <= self.settings.slice_idle.0
    }

    /// Until when the idle class must not have the device.
    fn others_keep(&self, now: Nanos) -> Option<Nanos> {
        if self.inflight[0] > 0 {
            return Some(now + self.settings.idle_grace.max(Nanos(1)));
        }
        let until = self.last_other? + self.settings.idle_grace;
        (until > now).then_some(until)
    }

    /// Gives the next queue its turn.
    fn next_turn(&mut self, now: Nanos) -> Dispatch {
        let Some(class) = self.queues.most_urgent() else { return Dispatch::Idle };
        if class == IoClass::Idle
            && let Some(until) = self.others_keep(now)
        {
            return Dispatch::Wait(until);
        }
        // A debt is at most ten slices (see `completed`), so each queue comes up eleven times at
        // most.
        loop {
            let Some(queue) = self.queues.pop(class) else { return Dispatch::Idle };
            let owner = self.queues.get(queue).owner;
            // Slices are far below the limit of the type.
            let slice_ns = self.settings.slice(owner.sync, owner.level).0 as i64;
            let state = self.queues.get_mut(queue);
            if state.extra.credit_ns <= 0 {
                // A queue that has two turns in a row was alone, and has no debt.
                let debt_ns = if self.previous == Some(queue) { 0 } else { state.extra.credit_ns };
                state.extra.credit_ns = slice_ns + debt_ns;
            }
            if state.extra.credit_ns <= 0 {
                self.queues.rejoin_back(queue);
                continue;
            }
            self.active = Some(queue);
            self.previous = Some(queue);
            self.looked = false;
            self.kept = None;
            return self.serve(queue, now);
        }
    }

    fn serve(&mut self, queue: Index, now: Nanos) -> Dispatch {
        let Some(index) = self.choose(queue, now) else { return Dispatch::Idle };
        self.table.take(index);
        self.sorted.remove(index);
        let state = self.queues.get_mut(queue);
        self.arrival.remove(&mut state.arrival, index);
        state.waiting -= 1;
        self.head = self.table.entry(index).request.end();
        self.kept = None;
        self.start(index, now);
        Dispatch::Request(index)
    }

    /// Upwards by sector; at the beginning of a turn first the request that has waited for too
    /// long.
    fn choose(&mut self, queue: Index, now: Nanos) -> Option<Index> {
        let state = self.queues.get(queue);
        let oldest = state.arrival.first()?;
        if !core::mem::replace(&mut self.looked, true) {
            let expire = if state.owner.sync {
                self.settings.fifo_expire_sync
            } else {
                self.settings.fifo_expire_async
            };
            if now.since(self.table.entry(oldest).added) >= expire {
                return Some(oldest);
            }
        }
        self.sorted.from(queue, self.head).or_else(|| self.sorted.first(queue))
    }

    /// `index` is on its way to the device.
    fn start(&mut self, index: Index, now: Nanos) {
        let queue = self.queue_of(index);
        let state = self.queues.get_mut(queue);
        state.inflight += 1;
        let class = state.owner.class;
        self.inflight[usize::from(class == IoClass::Idle)] += 1;
        self.started[usize::from(index)] = self.charge_clock;
        self.note(now, class);
    }

    /// `index` is no longer with the device: charges its queue.
    fn stop(&mut self, index: Index, now: Nanos) -> Index {
        let queue = self.queue_of(index);
        let passed = self.charge_clock - self.started[usize::from(index)];
        let charge_ns = i64::try_from(passed >> FRACTION_BITS).unwrap_or(i64::MAX);
        let state = self.queues.get_mut(queue);
        let owner = state.owner;
        state.inflight -= 1;
        // Slices are far below the limit of the type. More than ten of them are forgiven: after a
        // time alone with a deep queue no cause should be shut out for minutes.
        let most_debt = -10 * self.settings.slice(owner.sync, owner.level).0 as i64;
        state.extra.credit_ns = state.extra.credit_ns.saturating_sub(charge_ns).max(most_debt);
        self.inflight[usize::from(owner.class == IoClass::Idle)] -= 1;
        self.note(now, owner.class);
        queue
    }

    fn queue_of(&self, index: Index) -> Index {
        // The mark is the queue's number, which is below REQUESTS.
        self.table.entry(index).mark as Index
    }

    fn open(&mut self, owner: Owner) -> Index {
        let queue = self.queues.open(owner);
        // It may have been the queue of another owner, which had the device and nothing to do.
        if self.active == Some(queue) {
            self.active = None;
            self.kept = None;
        }
        if self.previous == Some(queue) {
            self.previous = None;
        }
        queue
    }

    fn merge(&mut self, added: Added, request: &Request) {
        let index = added.index_or(0);
        let old = *self.table.entry(index);
        self.table.merge(added, request);
        let whole = self.table.entry(index).request;
        if whole.sector != old.request.sector {
            self.sorted.remove(index);
            self.sorted.insert(index, key(self.queue_of(index), &whole, old.sequence));
        }
        self.plug.merged(&whole);
    }
}

fn key(queue: Index, request: &Request, sequence: u64) -> Key {
    Key { group: queue, sector: request.sector, sequence }
}

impl BlockScheduler for Cfq {
    fn name(&self) -> &'static str {
        "cfq"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        self.advance(now);
        let owner = Owner::of(request);
        self.note(now, owner.class);
        let queue = self.queues.find(owner);
        if let Some(queue) = queue {
            let may = |entry: &super::table::Entry| entry.mark == u64::from(queue);
            if let Some(added) = self.table.find_merge(request, true, may) {
                self.merge(added, request);
                return added;
            }
        }
        let queue = queue.unwrap_or_else(|| self.open(owner));
        self.plug.queued(now, request, self.table.waiting());
        let sequence = self.table.insert(now, index, request, u64::from(queue));
        self.sorted.insert(index, key(queue, request, sequence));
        let idle_ns = self.settings.slice_idle.0;
        let active = self.active == Some(queue);
        let state = self.queues.get_mut(queue);
        self.arrival.push_back(&mut state.arrival, index);
        state.members += 1;
        state.waiting += 1;
        if state.waiting == 1 && state.inflight == 0 {
            state.think(now, idle_ns);
        }
        if active {
            if let Some((since, _)) = self.kept.take() {
                let kept_ns = now.since(since).0.min(idle_ns);
                // At most `slice_idle`.
                self.queues.get_mut(queue).extra.credit_ns -= kept_ns as i64;
            }
        } else if self.queues.get(queue).waiting == 1 {
            self.queues.rejoin_back(queue);
        }
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        self.advance(now);
        if let Some(index) = self.table.take_returned() {
            self.start(index, now);
            return Dispatch::Request(index);
        }
        if self.table.waiting() == 0 {
            return Dispatch::Idle;
        }
        if let Some(until) = self.plug.holds(now) {
            return Dispatch::Wait(until);
        }
        match self.go_on(now) {
            Some(dispatch) => dispatch,
            None => self.next_turn(now),
        }
    }

    fn deactivated(&mut self, now: Nanos, index: Index) {
        self.advance(now);
        self.stop(index, now);
        self.table.give_back(index);
    }

    fn completed(&mut self, now: Nanos, index: Index, _service: Nanos) {
        self.advance(now);
        let queue = self.stop(index, now);
        self.table.forget(index);
        let state = self.queues.get_mut(queue);
        state.members -= 1;
        state.last_done = Some(now);
        if state.waiting == 0
            && state.inflight == 0
            && self.active == Some(queue)
            && self.anticipates(queue)
        {
            self.kept = Some((now, now + self.settings.slice_idle));
        }
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }
}

/// Whether its program waits for the request: a read, or a write of a synchronous call.
fn is_sync(request: &Request) -> bool {
    request.sync || request.operation == Operation::Read
}

/// Turns of one class.
type Ring = List;
