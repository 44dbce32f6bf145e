//! Device time for each cause in proportion to its priority, by strides: the block half of AFQ.
//!
//! # Problem
//! Shares must follow priorities whatever the causes ask for: one reads small blocks from all over
//! the disk, the other large ones in sequence. Counting requests or bytes shares neither fairly;
//! measuring after the fact charges a cause for what the device did meanwhile for others.
//!
//! # The primitive
//! Each cause has a *pass*. A request that goes to the device advances the pass of its cause by
//! `cost / (8 − level)`. The cost is that of the seek and transfer model ([`SeekCost`]). The cause
//! with the least pass goes next. A cause that was idle comes back at the pass that the others have
//! reached: it has no claim on what it did not use.
//!
//! * **Quantum.** The chosen cause keeps its turn for [`Settings::quantum`] of model time. After
//!   its oldest request it goes upwards by sector. Else a disk would seek between causes for each
//!   request.
//! * **Anticipation.** A reader that waits for each answer before it asks again has nothing queued
//!   when its turn would come. If its pass is the least, the device is kept for it for up to
//!   [`Settings::anticipate`], unless it usually takes longer to think.
//! * **Depth.** While several causes wait, at most [`Settings::depth`] requests are with the
//!   device: what is there is beyond any scheduler.
//! * **Classes.** Real time goes before best effort, each with separate passes. The idle class has
//!   the device, one request at a time, when no other class had anything there for
//!   [`Settings::idle_grace`].
//! * **Writes.** Under a journal a request of a high priority may wait for a write of a low one. So
//!   AFQ schedules writes where they are called. Here it sends them to the device at once, and
//!   charges their causes ([`Settings::beneath_calls`]). Standing alone, as by default, it
//!   schedules them here as it does reads.
//!
//! # Invariants
//! Let Wᵢ be the model time that cause i was given, and wᵢ its weight. While two causes of a class
//! have requests waiting, `|Wᵢ/wᵢ − Wⱼ/wⱼ| ≤ (q + cᵢ)/wᵢ + (q + cⱼ)/wⱼ`: one quantum q and one
//! request c of each. So a best-effort cause that waits is passed over by each other one for at
//! most `(q + cᵢ)·wⱼ/wᵢ + 2(q + cⱼ)`. Without the idle class and anticipation the device is never
//! left empty while a request waits.
//!
//! # Worked example
//! Reads of 1 ms each, no quantum; A has level 0 (weight 8), B level 4 (weight 4). A's pass grows
//! by 1/8, B's by 1/4: A, B, A, A, B, A, A, B, …: two of A for each of B.
//!
//! Sources: Split, section 2.5.1 (weights, cost, writes at once); Waldspurger and Weihl, *Stride
//! Scheduling* (1995). Quantum, anticipation and depth are additions: the chapter does not say how
//! its AFQ keeps a disk from seeking at every request.

mod flows;
#[cfg(test)]
mod tests;

use super::cost::SeekCost;
use super::fifo::{Links, List};
use super::plug::{self, Plug};
use super::sorted::{Key, Sorted};
use super::table::{Limits, Table};
use super::{Added, BlockScheduler, Dispatch, Index, IoClass, Operation, REQUESTS, Request};
use crate::Nanos;
use crate::stride::stride;
use flows::{Flows, Owner};

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Model time of one turn. Default 50 ms; zero for flash: the choice is made for each request.
    /// Smaller: shorter waits for a turn. Larger: fewer seeks between the regions of two causes.
    pub quantum: Nanos,
    /// How long the device is kept for a reader whose turn it is. Default 4 ms; zero for flash.
    /// Smaller: less time lost. Larger: shares hold for readers that think for longer.
    pub anticipate: Nanos,
    /// Requests with the device while several causes wait. Default 2 for a disk (one is prepared
    /// while one is served), 32 for flash. Smaller: shares hold better. Larger: the device orders
    /// more.
    pub depth: u32,
    /// How long no other class may have had a request before the idle class has the device. Default
    /// 20 ms; 2 ms for flash.
    pub idle_grace: Nanos,
    /// Model time of a seek over all sectors that were ever asked for. Default 12 ms; zero for
    /// flash.
    pub seek: Nanos,
    /// Model time of the transfer of a sector. Default 4 µs (128 MB/s); 1 µs for flash.
    pub transfer: Nanos,
    /// Writes, discards and zeroing go to the device at once and are only charged. A scheduler
    /// above holds the calls that cause them.
    pub writes_at_once: bool,
    /// How large merges may become.
    pub limits: Limits,
    /// When bursts are held.
    pub plug: plug::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            quantum: Nanos::from_millis(50),
            anticipate: Nanos::from_millis(4),
            depth: 2,
            idle_grace: Nanos::from_millis(20),
            seek: Nanos::from_millis(12),
            transfer: Nanos::from_micros(4),
            writes_at_once: false,
            limits: Limits::default(),
            plug: plug::Settings::default(),
        }
    }
}

impl Settings {
    /// For flash: a seek costs nothing there.
    pub fn flash() -> Self {
        Settings {
            quantum: Nanos(0),
            anticipate: Nanos(0),
            depth: 32,
            idle_grace: Nanos::from_millis(2),
            seek: Nanos(0),
            transfer: Nanos::from_micros(1),
            ..Settings::default()
        }
    }

    /// As the lower half of split AFQ: writes were scheduled above.
    pub fn beneath_calls(self) -> Self {
        Settings { writes_at_once: true, ..self }
    }
}

/// When to ask again if a completion is to come before: it causes a dispatch anyway.
const LATER: Nanos = Nanos::from_millis(100);

/// In a request's mark: it went past the flows.
const AT_ONCE: u64 = 1 << 32;

/// See the module.
#[derive(Clone, Debug)]
pub struct Afq {
    settings: Settings,
    table: Table,
    sorted: Sorted,
    arrival: Links,
    at_once: List,
    flows: Flows,
    plug: Plug,
    cost: SeekCost,
    /// Whose turn it is, and the model time left of it.
    turn: Option<(Index, u64)>,
    /// Who was served last.
    last: Option<Index>,
    /// For whom the device may be kept, and until when.
    kept: Option<(Index, Nanos)>,
    /// Sector after the last dispatched request.
    head: u64,
    /// Requests with the device, by whether their class is idle.
    inflight: [u32; 2],
    /// Last event of a request that is not of the idle class.
    last_other: Option<Nanos>,
}

impl Default for Afq {
    fn default() -> Self {
        Afq::new(Settings::default())
    }
}

impl Afq {
    /// Empty.
    pub fn new(settings: Settings) -> Self {
        // The span grows with what is asked for; without seeks it stays zero.
        let span = u64::from(settings.seek > Nanos(0));
        Afq {
            settings,
            table: Table::new(settings.limits),
            sorted: Sorted::default(),
            arrival: Links::default(),
            at_once: List::EMPTY,
            flows: Flows::default(),
            plug: Plug::new(settings.plug),
            cost: SeekCost::new(settings.seek, span, settings.transfer),
            turn: None,
            last: None,
            kept: None,
            head: 0,
            inflight: [0; 2],
            last_other: None,
        }
    }

    fn note(&mut self, now: Nanos, class: IoClass) {
        if class != IoClass::Idle {
            self.last_other = Some(now);
        }
    }

    /// Until when the idle class must not have the device.
    fn others_keep(&self, now: Nanos) -> Option<Nanos> {
        if self.inflight[0] > 0 {
            return Some(now + self.settings.idle_grace.max(Nanos(1)));
        }
        let until = self.last_other? + self.settings.idle_grace;
        (until > now).then_some(until)
    }

    /// Whose request is next: the flow that has its turn, else the least pass of the most urgent
    /// class.
    fn choose_flow(&mut self) -> Option<Index> {
        let least = self.flows.least()?;
        if let Some((flow, left)) = self.turn {
            let state = self.flows.get(flow);
            let urgent = self.flows.get(least).owner.class < state.owner.class;
            if left > 0 && state.waiting > 0 && !urgent {
                return Some(flow);
            }
            // A turn is over when its owner is not expected to ask again soon.
            let expected = self.expects(flow) || self.kept.is_some_and(|(kept, _)| kept == flow);
            if left == 0 || urgent || !expected {
                self.turn = None;
            }
        }
        Some(least)
    }

    /// The flow waits for what is with the device, and asks again soon after.
    fn expects(&self, flow: Index) -> bool {
        let state = self.flows.get(flow);
        state.inflight > 0 && state.waiting == 0 && self.anticipates(flow)
    }

    /// Whether the device is worth keeping for the flow when it has nothing.
    fn anticipates(&self, flow: Index) -> bool {
        let state = self.flows.get(flow);
        self.settings.anticipate > Nanos(0)
            && state.extra.sync
            && state.owner.class != IoClass::Idle
            && state.think_ns <= self.settings.anticipate.0
    }

    /// Until when the device is kept for a flow that will ask soon and goes before `flow`.
    fn keeps(&mut self, now: Nanos, flow: Index) -> Option<Nanos> {
        self.kept = self.kept.filter(|(_, until)| *until > now);
        let expected = self.last.filter(|last| *last != flow && self.expects(*last));
        // What is with the device comes back some time; its completion asks again.
        let expected = expected.map(|last| (last, now + LATER));
        let (kept, until) = expected.or(self.kept)?;
        let (theirs, ours) = (self.flows.get(kept), self.flows.get(flow));
        let goes_on = self.turn.is_some_and(|(turn, left)| turn == kept && left > 0);
        let before = theirs.owner.class < ours.owner.class
            || theirs.owner.class == ours.owner.class
                && (goes_on || theirs.extra.pass < ours.extra.pass);
        before.then_some(until)
    }

    fn serve(&mut self, flow: Index, now: Nanos) -> Dispatch {
        let fresh = self.turn.is_none_or(|(turn, _)| turn != flow);
        if fresh {
            self.flows.reach(flow);
            self.turn = Some((flow, self.settings.quantum.0));
        }
        let oldest = self.flows.get(flow).arrival.first();
        let upwards = || self.sorted.from(flow, self.head).or_else(|| self.sorted.first(flow));
        let Some(index) = (if fresh { oldest } else { upwards() }) else { return Dispatch::Idle };
        self.table.take(index);
        self.sorted.remove(index);
        self.last = Some(flow);
        let request = self.table.entry(index).request;
        let state = self.flows.get_mut(flow);
        state.extra.sync = request.sync || request.operation == Operation::Read;
        self.arrival.remove(&mut state.arrival, index);
        state.waiting -= 1;
        if state.waiting == 0 {
            self.flows.leave(flow);
        }
        let cost = self.charge(flow, index);
        if let Some((_, left)) = &mut self.turn {
            *left = left.saturating_sub(cost.0);
        }
        self.start(index, now);
        Dispatch::Request(index)
    }

    /// `index` goes to the device for the first time: its cause pays.
    fn charge(&mut self, flow: Index, index: Index) -> Nanos {
        let request = self.table.entry(index).request;
        if self.cost.span_sectors > 0 {
            self.cost.span_sectors = self.cost.span_sectors.max(request.end());
        }
        // Even a request that moves nothing costs a moment, so that no flow is served for ever for
        // nothing.
        let cost = self.cost.charge(&request).max(Nanos(1));
        self.head = request.end();
        self.flows.charge(flow, stride(cost, request.level));
        cost
    }

    /// `index` is on its way to the device.
    fn start(&mut self, index: Index, now: Nanos) {
        let flow = self.flow_of(index);
        let state = self.flows.get_mut(flow);
        state.inflight += 1;
        let class = state.owner.class;
        self.inflight[usize::from(class == IoClass::Idle)] += 1;
        self.note(now, class);
    }

    /// `index` is no longer with the device.
    fn stop(&mut self, index: Index, now: Nanos) -> Index {
        let flow = self.flow_of(index);
        let state = self.flows.get_mut(flow);
        state.inflight -= 1;
        let class = state.owner.class;
        self.inflight[usize::from(class == IoClass::Idle)] -= 1;
        self.note(now, class);
        flow
    }

    fn flow_of(&self, index: Index) -> Index {
        // The low half of the mark is the flow's number, which is below REQUESTS.
        self.table.entry(index).mark as u16
    }

    fn goes_at_once(&self, request: &Request) -> bool {
        self.settings.writes_at_once && request.operation != Operation::Read
    }

    fn merge(&mut self, added: Added, request: &Request) {
        let index = added.index_or(0);
        let old = *self.table.entry(index);
        self.table.merge(added, request);
        let whole = self.table.entry(index).request;
        if whole.sector != old.request.sector && old.mark & AT_ONCE == 0 {
            self.sorted.remove(index);
            self.sorted.insert(index, key(self.flow_of(index), &whole, old.sequence));
        }
        self.plug.merged(&whole);
    }

    /// Only the owner of the turn waits.
    fn is_alone(&self, flow: Index) -> bool {
        self.flows.waiting() <= usize::from(self.flows.get(flow).waiting > 0)
    }
}

fn key(flow: Index, request: &Request, sequence: u64) -> Key {
    Key { group: flow, sector: request.sector, sequence }
}

impl BlockScheduler for Afq {
    fn name(&self) -> &'static str {
        "afq"
    }

    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added {
        let owner = Owner { cause: request.cause, class: request.class };
        self.note(now, owner.class);
        let mark = if self.goes_at_once(request) { AT_ONCE } else { 0 };
        if let Some(flow) = self.flows.find(owner) {
            let may = |entry: &super::table::Entry| entry.mark == mark | u64::from(flow);
            if let Some(added) = self.table.find_merge(request, true, may) {
                self.merge(added, request);
                return added;
            }
        }
        let flow = self.flows.find_or_open(owner);
        // It may have been the flow of another owner that has left.
        if self.flows.get(flow).members == 0 && self.flows.get(flow).last_done.is_none() {
            self.kept = self.kept.filter(|(kept, _)| *kept != flow);
            self.turn = self.turn.filter(|(turn, _)| *turn != flow);
            self.last = self.last.filter(|last| *last != flow);
        }
        self.plug.queued(now, request, self.table.waiting());
        let sequence = self.table.insert(now, index, request, mark | u64::from(flow));
        let anticipate_ns = self.settings.anticipate.0;
        let state = self.flows.get_mut(flow);
        state.members += 1;
        if mark != 0 {
            self.arrival.push_back(&mut self.at_once, index);
            return Added::Queued;
        }
        state.waiting += 1;
        self.arrival.push_back(&mut state.arrival, index);
        if state.waiting == 1 {
            if state.inflight == 0 {
                state.think(now, anticipate_ns);
            }
            self.flows.join(flow);
        }
        self.sorted.insert(index, key(flow, request, sequence));
        self.kept = self.kept.filter(|(kept, _)| *kept != flow);
        Added::Queued
    }

    fn dispatch(&mut self, now: Nanos) -> Dispatch {
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
        if let Some(index) = self.arrival.pop_front(&mut self.at_once) {
            self.table.take(index);
            self.charge(self.flow_of(index), index);
            self.start(index, now);
            return Dispatch::Request(index);
        }
        let Some(flow) = self.choose_flow() else { return Dispatch::Idle };
        let idle = self.flows.get(flow).owner.class == IoClass::Idle;
        if idle && let Some(until) = self.others_keep(now) {
            return Dispatch::Wait(until);
        }
        let most = if idle { 1 } else { self.settings.depth.max(1) };
        let with_device = self.inflight[0] + self.inflight[1];
        if with_device >= most && (idle || !self.is_alone(flow)) {
            return Dispatch::Wait(now + LATER);
        }
        match self.keeps(now, flow) {
            Some(until) => Dispatch::Wait(until),
            None => self.serve(flow, now),
        }
    }

    fn deactivated(&mut self, now: Nanos, index: Index) {
        self.stop(index, now);
        self.table.give_back(index);
    }

    fn completed(&mut self, now: Nanos, index: Index, _service: Nanos) {
        let flow = self.stop(index, now);
        self.table.forget(index);
        let state = self.flows.get_mut(flow);
        state.members -= 1;
        state.last_done = Some(now);
        if state.waiting == 0 && state.inflight == 0 && self.anticipates(flow) {
            self.kept = Some((flow, now + self.settings.anticipate));
        }
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }
}

const _: () = assert!(REQUESTS <= 1 << 16, "a flow's number fits into the low half of a mark");
