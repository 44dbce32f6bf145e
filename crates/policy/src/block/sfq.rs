//! Fair queueing with depth by application: start-time fair queueing, SFQ(D).
//!
//! # Problem
//! A store serves applications of many hosts, and their queues are of all lengths. Its device
//! wants many requests at a time: fifteen disks are idle under one. So shares must hold although D
//! requests are with the device, where no scheduler reaches them. Shares must also *multiply*: an
//! application with one half at its host, whose host has one half at the store, must get a quarter.
//! Quanta of time do not give that ([`super::quanta`]).
//!
//! # The primitive
//! Each application has a *tag*: what it was given so far, in cost divided by weight. While fewer
//! than D requests are with the device, the application with the least tag goes next. Its tag grows
//! by `cost / weight` at the dispatch. The *virtual time* is the tag at which the last dispatch
//! began. An application that comes with nothing in the queue starts there, at the earliest. It has
//! no claim on what it did not ask for. When nothing waits and nothing is with the device, all
//! start alike.
//!
//! * **Cost.** A [`SeekCost`]: model time of the device, or requests and bytes
//!   ([`SeekCost::by_size`]) for an array. Not the measured time: with D requests in the device,
//!   that is mostly the time of others.
//! * **Weights** change while requests wait. The part of a tag that is ahead of the virtual time is
//!   scaled. So a large request at a small weight does not bind the application after its weight
//!   has grown.
//! * **Best effort** is bounded a second time ([`Settings::best_effort_depth`]). An application
//!   that waits for the device, and not for its share, gains nothing by a greater share. It gains
//!   when fewer requests of others are in the device before it.
//!   One request at a time is still much on a fast device: a store in memory answers 70,000 a
//!   second so. So best effort is bounded a third time, by a *pace* ([`BlockScheduler::set_pace`]):
//!   after a request of cost c its next one goes c/pace later, even if the device is idle.
//! * **Room.** D requests of 1 MiB are as much work as a thousand small ones, and an application
//!   that comes then waits for all of it. So the cost that is with the device is bounded, too,
//!   while several applications ask ([`Settings::room`]). Best effort has the same part of this
//!   room as of the depth.
//! * **Pieces.** The device does not stop a request of 1 MiB for one of 4 KiB. On flash, large
//!   requests go in pieces while several applications ask ([`Settings::piece_sectors`]). The
//!   next piece of a request goes before other requests of its application.
//! * **Flushes** go before the other requests of their application, and wait for those of
//!   others no longer than shares say. They are charged [`Settings::flush`], lest endless flushes
//!   be free.
//!
//! # Invariants
//! It is work-conserving. While a request waits, D are with the device, or its room is full. Or
//! all that wait are best effort, which has a pace, or as many with the device as it may. Let W be
//! the cost that was dispatched, and cᵢ and cⱼ the largest of applications i and j. While both
//! wait and no bound on best effort binds, `|Wᵢ/wᵢ − Wⱼ/wⱼ| ≤ cᵢ/wᵢ + cⱼ/wⱼ`. What was completed
//! may differ by what is with the device: (D + 1) requests more. So none starves: an application
//! that waits is passed over by each other one for at most `(cᵢ/wᵢ + cⱼ/wⱼ)·wⱼ` of its cost.
//!
//! # Worked example
//! Requests of cost 1; A has weight 2, B weight 1, depth 3. Tags from zero: A goes (tag ½), B (1),
//! A (1); the device is full. One is completed: A and B are both at 1, and A came to wait first: A
//! (1½), then B (2), A (2), …: two of A for each of B.
//!
//! Sources: Goyal, Vin and Cheng, *Start-time fair queueing* (1996); Jin, Chase and Kaur,
//! *Interposed proportional sharing for a storage service utility* (2004): SFQ(D). The bound on
//! best effort, the scaled tags and the flushes are additions.

#[cfg(test)]
mod tests;

use super::cost::{Prices, SeekCost};
use super::fifo::{Links, List};
use super::owners::{self, Owners};
use super::share::{Share, Shares};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request};
use crate::Nanos;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests with the device, D. Default 4 for a disk, 32 for flash, twice the disks for an
    /// array. Smaller: shares hold better, and short waits in the device. Larger: more of the
    /// device's throughput.
    pub depth: u32,
    /// How many of them may be best effort, at least one. Default: all.
    pub best_effort_depth: u32,
    /// Model time of all that is with the device, at which no more goes there, while several
    /// applications ask. Default: no bound.
    /// Smaller: large requests of one application are in the way of others for less time. Larger:
    /// more of the device's throughput for large requests.
    pub room: Nanos,
    /// Most sectors of a request that go to the device at once, while several applications ask.
    /// Default: no bound; 128 (64 KiB) for flash. On disks each piece would cost a seek.
    pub piece_sectors: u32,
    /// Model time of a seek over all sectors that were ever asked for. Default 12 ms; zero for
    /// flash and arrays.
    pub seek: Nanos,
    /// Model time of a request, however small. Default zero; 20 µs for flash.
    pub request: Nanos,
    /// Model time of the transfer of a sector. Default 4 µs (128 MB/s); 1 µs for flash.
    pub transfer: Nanos,
    /// Model time of a flush. Default 10 ms; 100 µs for flash.
    pub flush: Nanos,
    /// How large merges may become.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            depth: 4,
            best_effort_depth: u32::MAX,
            room: Nanos(u64::MAX),
            piece_sectors: u32::MAX,
            seek: Nanos::from_millis(12),
            request: Nanos(0),
            transfer: Nanos::from_micros(4),
            flush: Nanos::from_millis(10),
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// For flash: a seek costs nothing there.
    pub fn flash() -> Self {
        Settings {
            depth: 32,
            piece_sectors: 128,
            seek: Nanos(0),
            request: Nanos::from_micros(20),
            transfer: Nanos::from_micros(1),
            flush: Nanos::from_micros(100),
            ..Settings::default()
        }
    }

    /// For an array: twice as many requests as disks, charged by requests and bytes.
    pub fn array(disks: u32, request: Nanos, transfer: Nanos) -> Self {
        Settings { depth: 2 * disks, seek: Nanos(0), request, transfer, ..Settings::default() }
    }
}

/// Keeps quotients of tags exact enough: the unit of a tag is 2⁻²⁰ ns for a weight of one.
const SCALE: u32 = 20;

/// When to ask again if a completion is to come before: that asks, too.
const LATER: Nanos = Nanos::from_millis(100);

/// A request as databases make them: of 16 KiB.
const ORDINARY_SECTORS: u32 = 32;

/// For so long best effort may be behind its pace, and make up for it.
const BEHIND: Nanos = Nanos::from_millis(5);

/// How long an application counts as one that asks after its last request.
const CONTENDED: Nanos = Nanos::from_millis(200);

/// Whose requests a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Application(u32);

impl owners::Owner for Application {
    const UNUSED: Application = Application(0);

    fn word(self) -> u64 {
        self.0.into()
    }
}

/// What is kept of one application.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Cost given, divided by the weight.
    tag: u128,
    /// Cost of what is with the device.
    inflight: Nanos,
    share: Share,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sfq {
    settings: Settings,
    table: Table,
    arrival: Links,
    flows: Owners<Application, Flow>,
    shares: Shares,
    links: Links,
    /// Flows with requests that wait, in the order in which they came to wait.
    ring: List,
    cost: SeekCost,
    /// Virtual time.
    reached: u128,
    /// The greatest tag.
    furthest: u128,
    inflight: u32,
    inflight_best_effort: u32,
    /// What was charged for each request with the device.
    charged: [Nanos; REQUESTS],
    /// The sum of these, and of those of best effort.
    inflight_cost: Nanos,
    best_effort_cost: Nanos,
    /// Millionths of the device's time that best effort may have, and when it may go on.
    pace: Option<u32>,
    paced_until: Nanos,
    /// Whose request came last, and until when several applications are taken to ask.
    last: u32,
    contended_until: Nanos,
}

impl Default for Sfq {
    fn default() -> Self {
        Sfq::new(Settings::default())
    }
}

impl Sfq {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        // The span grows with what is asked for; without seeks it stays zero.
        let span = u64::from(settings.seek > Nanos(0));
        let mut cost = SeekCost::new(settings.seek, span, settings.transfer);
        cost.request = settings.request;
        Sfq {
            settings,
            table: Table::new(settings.limits),
            arrival: Links::default(),
            flows: Owners::default(),
            shares: Shares::default(),
            links: Links::default(),
            ring: List::EMPTY,
            cost,
            reached: 0,
            furthest: 0,
            inflight: 0,
            inflight_best_effort: 0,
            charged: [Nanos(0); REQUESTS],
            inflight_cost: Nanos(0),
            best_effort_cost: Nanos(0),
            pace: None,
            paced_until: Nanos(0),
            last: 0,
            contended_until: Nanos(0),
        }
    }

    /// Whether an application other than `cause` has requests that wait. If none has, what `cause`
    /// gets is lent to it.
    pub fn others_wait(&self, cause: u32) -> bool {
        let own = self.flows.find(Application(cause));
        self.ring
            .first()
            .is_some_and(|first| Some(first) != own || self.links.next(first).is_some())
    }

    fn flow_of(&self, index: Index) -> Index {
        // The mark is the flow's number, which is below REQUESTS.
        self.table.entry(index).mark as u16
    }

    fn open(&mut self, cause: u32) -> Index {
        self.flows.find(Application(cause)).unwrap_or_else(|| {
            let flow = self.flows.open(Application(cause));
            self.flows.get_mut(flow).extra =
                Flow { share: self.shares.get(cause), ..Flow::default() };
            flow
        })
    }

    /// The flow to serve next: the least tag, of equals the one that came to wait first. Looks at
    /// all that wait: applications are few, and a tag changes with every request.
    fn choose(&self, now: Nanos) -> Option<Index> {
        let most = self.settings.best_effort_depth.max(1);
        let full = self.inflight_best_effort >= most
            || now < self.paced_until
            || self.inflight_best_effort > 0
                && self.best_effort_cost >= self.best_effort_room()
                && now < self.contended_until;
        let mut best: Option<(u128, Index)> = None;
        let mut at = self.ring.first();
        while let Some(flow) = at {
            let Flow { tag, share, .. } = self.flows.get(flow).extra;
            let may = !(full && share.best_effort);
            if may && best.is_none_or(|(least, _)| tag.max(self.reached) < least) {
                best = Some((tag.max(self.reached), flow));
            }
            at = self.links.next(flow);
        }
        best.map(|(_, flow)| flow)
    }

    /// The part of the room that best effort may have.
    fn best_effort_room(&self) -> Nanos {
        let depth = u128::from(self.settings.depth.max(1));
        let most = u128::from(self.settings.best_effort_depth.max(1)).min(depth);
        // No more than the room, which fits.
        Nanos((u128::from(self.settings.room.0) * most / depth) as u64)
    }

    /// Best effort begins a request of this cost.
    fn keep_pace(&mut self, now: Nanos, cost: Nanos) {
        let Some(pace) = self.pace else { return };
        let time = u128::from(cost.0) * 1_000_000 / u128::from(pace.max(1));
        let from = self.paced_until.max(Nanos(now.0.saturating_sub(BEHIND.0)));
        self.paced_until = Nanos(from.0.saturating_add(u64::try_from(time).unwrap_or(u64::MAX)));
    }

    fn serve(&mut self, now: Nanos, flow: Index) -> Option<Index> {
        let queue = self.flows.get_mut(flow);
        let index = self.arrival.pop_front(&mut queue.arrival)?;
        queue.waiting -= 1;
        if queue.waiting == 0 {
            self.links.remove(&mut self.ring, flow);
        }
        self.table.take(index);
        let cost = self.charge(index);
        self.charged[usize::from(index)] = cost;
        let extra = &mut self.flows.get_mut(flow).extra;
        let start = extra.tag.max(self.reached);
        extra.tag = start + (u128::from(cost.0) << SCALE) / u128::from(extra.share.weight);
        self.furthest = self.furthest.max(extra.tag);
        self.reached = start;
        if extra.share.best_effort {
            self.keep_pace(now, cost);
        }
        self.begin(index);
        Some(index)
    }

    fn charge(&mut self, index: Index) -> Nanos {
        let request = self.table.entry(index).request;
        if request.operation == Operation::Flush {
            return self.settings.flush.max(Nanos(1));
        }
        if self.cost.span_sectors > 0 {
            self.cost.span_sectors = self.cost.span_sectors.max(request.end());
        }
        // Even what moves nothing takes a moment, so that no application is served for ever for
        // nothing.
        self.cost.charge(&request).max(Nanos(1))
    }

    /// `index` is on its way to the device.
    fn begin(&mut self, index: Index) {
        let flow = self.flow_of(index);
        let cost = self.charged[usize::from(index)];
        let queue = self.flows.get_mut(flow);
        queue.inflight += 1;
        queue.extra.inflight += cost;
        self.inflight += 1;
        self.inflight_cost += cost;
        if queue.extra.share.best_effort {
            self.inflight_best_effort += 1;
            self.best_effort_cost += cost;
        }
    }

    /// `index` is no longer with the device.
    fn end(&mut self, index: Index) -> Index {
        let flow = self.flow_of(index);
        let cost = self.charged[usize::from(index)];
        let queue = self.flows.get_mut(flow);
        queue.inflight -= 1;
        queue.extra.inflight.0 -= cost.0;
        self.inflight -= 1;
        self.inflight_cost.0 -= cost.0;
        if queue.extra.share.best_effort {
            self.inflight_best_effort -= 1;
            self.best_effort_cost.0 -= cost.0;
        }
        flow
    }
}

impl BlockScheduler for Sfq {
    fn name(&self) -> &'static str {
        "sfq"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        if core::mem::replace(&mut self.last, request.cause) != request.cause {
            self.contended_until = now + CONTENDED;
        }
        let flow = self.open(request.cause);
        let most = u64::from(self.most_sectors(now));
        let found = self.table.find_merge(request, true, |entry| {
            let sectors = u64::from(entry.request.sectors) + u64::from(request.sectors);
            entry.mark == u64::from(flow) && sectors <= most
        });
        if let Some(added) = found {
            self.table.merge(added, request);
            return added;
        }
        self.table.insert(now, index, request, flow.into());
        let queue = self.flows.get_mut(flow);
        queue.members += 1;
        queue.waiting += 1;
        if request.operation == Operation::Flush || request.continues {
            self.arrival.push_front(&mut queue.arrival, index);
        } else {
            self.arrival.push_back(&mut queue.arrival, index);
        }
        if queue.waiting == 1 {
            self.links.push_back(&mut self.ring, flow);
        }
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
        if let Some(index) = self.table.take_returned() {
            self.begin(index);
            return Dispatch::Request(index);
        }
        if self.table.waiting() == 0 {
            return Dispatch::Idle;
        }
        let full = self.inflight >= self.settings.depth.max(1)
            || self.inflight > 0
                && self.inflight_cost >= self.settings.room
                && now < self.contended_until;
        let next =
            if full { None } else { self.choose(now).and_then(|flow| self.serve(now, flow)) };
        let until = self.paced_until.min(now + LATER);
        let until = if full || until <= now { now + LATER } else { until };
        next.map_or(Dispatch::Wait(until), Dispatch::Request)
    }

    fn deactivated(&mut self, _now: Nanos, index: Index) {
        self.end(index);
        self.table.give_back(index);
    }

    fn completed(&mut self, _now: Nanos, index: Index, _service: Nanos) {
        let flow = self.end(index);
        self.table.forget(index);
        self.flows.get_mut(flow).members -= 1;
        if self.inflight == 0 && self.table.waiting() == 0 {
            self.reached = self.furthest;
        }
    }

    fn shares_flushes(&self) -> bool {
        true
    }

    fn most_sectors(&self, now: Nanos) -> u32 {
        if now < self.contended_until { self.settings.piece_sectors.max(1) } else { u32::MAX }
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_share(&mut self, cause: u32, share: Option<Share>) -> bool {
        let set = self.shares.set(cause, share);
        if let Some(flow) = self.flows.find(Application(cause)) {
            let share = self.shares.get(cause);
            let queue = self.flows.get_mut(flow);
            let old = core::mem::replace(&mut queue.extra.share, share);
            let ahead = queue.extra.tag.saturating_sub(self.reached);
            // A tag is ahead by one request at most, so the product fits.
            let ahead = ahead * u128::from(old.weight) / u128::from(share.weight);
            queue.extra.tag = queue.extra.tag.min(self.reached) + ahead;
            let (inflight, cost) = (u32::from(queue.inflight), queue.extra.inflight);
            if old.best_effort {
                self.inflight_best_effort -= inflight;
                self.best_effort_cost.0 -= cost.0;
            }
            if share.best_effort {
                self.inflight_best_effort += inflight;
                self.best_effort_cost += cost;
            }
        }
        set
    }

    fn set_prices(&mut self, prices: &Prices) -> bool {
        // The dearer of a read and a write: neither has fewer places than before.
        let ordinary = |cost: &SeekCost| {
            let of = |operation| cost.of(&Request::new(operation, 0, ORDINARY_SECTORS)).0.max(1);
            of(Operation::Read).max(of(Operation::Write))
        };
        let before = ordinary(&self.cost);
        if !self.cost.set_prices(prices) {
            return false;
        }
        self.settings.flush = prices.flush;
        if self.settings.room != Nanos(u64::MAX) {
            // As many requests of ordinary size as before.
            let room = u128::from(self.settings.room.0) * u128::from(ordinary(&self.cost));
            let room = (room / u128::from(before)).max(1);
            self.settings.room = Nanos(u64::try_from(room).unwrap_or(u64::MAX - 1));
        }
        true
    }

    fn set_pace(&mut self, millionths: Option<u32>) -> bool {
        self.pace = millionths;
        self.paced_until = millionths.map_or(Nanos(0), |_| self.paced_until);
        true
    }

    fn set_depth(&mut self, depth: u32, best_effort: u32) -> bool {
        self.settings.depth = depth;
        self.settings.best_effort_depth = best_effort;
        true
    }
}
