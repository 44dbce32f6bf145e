//! Queued requests and commands at the device: a state machine without clock, thread or store.
//!
//! Requests for which the scheduler has no index left wait before the queue, in order of arrival.
//! Flushes skip the scheduler, as queued requests do not concern them, unless it shares them out.

use super::{Causes, Lateness, Submission};
use crate::layer::Fault;
use crate::model::Model;
use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, Operation, REQUESTS, Request, SECTOR_BYTES,
};
use std::collections::VecDeque;
use std::io;

/// Longest zeroing by a file system that is not asked for by a user: ext4 fills up to 32 KiB of
/// what was reserved (`extent_max_zeroout_kb`).
const FILLED_BYTES_MAX: u64 = 32 << 10;

/// Depth of a device without a model.
pub(super) const RAW_DEPTH: u32 = 32;

/// A submission in progress.
pub(super) struct Part {
    pub(super) submission: Submission,
    /// When it was submitted.
    pub(super) came: Nanos,
    pub(super) fault: Option<Fault>,
    /// The store's result, once it is known.
    pub(super) result: io::Result<()>,
}

/// A command at the device: one submission, or several that were merged.
pub(super) struct Command {
    /// Its index in the queue; none for flushes and without a queue.
    pub(super) index: Option<Index>,
    pub(super) started: Nanos,
    /// When the device completes it.
    pub(super) due: Nanos,
    pub(super) first: Part,
    pub(super) merged: Vec<Part>,
}

impl Command {
    pub(super) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        std::iter::once(&mut self.first).chain(&mut self.merged)
    }

    /// One request without a fault.
    pub(super) fn is_plain(&self) -> bool {
        self.merged.is_empty() && self.first.fault.is_none()
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = Part> + use<> {
        std::iter::once(self.first).chain(self.merged)
    }
}

/// A request that the scheduler knows.
struct Slot {
    /// Grows as others are merged into it.
    request: Request,
    /// Taken out when it goes to the device.
    parts: Option<(Part, Vec<Part>)>,
}

/// What [`Queue::next`] found.
pub(super) enum Next {
    /// This goes to the device.
    Start(Box<Command>),
    /// Ask again at this time.
    Wait(Nanos),
    /// Nothing can start before something is added or finished.
    Idle,
}

/// The queue of one device.
pub(super) struct Queue {
    scheduler: Box<dyn BlockScheduler>,
    model: Option<Box<dyn Model>>,
    depth: u32,
    in_flight: u32,
    slots: Vec<Option<Slot>>,
    free: Vec<Index>,
    before: VecDeque<Part>,
    flushes: VecDeque<Part>,
    merged: u64,
    /// Zero without a model.
    lateness: Lateness,
    causes: Option<Box<dyn Causes>>,
}

impl Queue {
    pub(super) fn new(scheduler: Box<dyn BlockScheduler>, model: Option<Box<dyn Model>>) -> Self {
        let depth = model.as_ref().map_or(RAW_DEPTH, |model| model.depth().max(1));
        Queue {
            scheduler,
            model,
            depth,
            in_flight: 0,
            slots: (0..REQUESTS).map(|_| None).collect(),
            // Indices are below REQUESTS, so they fit.
            free: (0..REQUESTS as Index).rev().collect(),
            before: VecDeque::new(),
            flushes: VecDeque::new(),
            merged: 0,
            lateness: Lateness::default(),
            causes: None,
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn merged(&self) -> u64 {
        self.merged
    }

    pub(super) fn lateness(&self) -> Lateness {
        self.lateness
    }

    pub(super) fn forget_lateness(&mut self) {
        self.lateness = Lateness::default();
    }

    pub(super) fn scheduler(&mut self) -> &mut dyn BlockScheduler {
        &mut *self.scheduler
    }

    pub(super) fn set_causes(&mut self, causes: Box<dyn Causes>) {
        self.causes = Some(causes);
    }

    /// A request comes.
    pub(super) fn add(&mut self, now: Nanos, part: Part) {
        let flush = part.submission.request.operation == Operation::Flush;
        if flush && !self.scheduler.shares_flushes() {
            self.flushes.push_back(part);
        } else if self.free.is_empty() || !self.before.is_empty() {
            self.before.push_back(part);
        } else {
            self.enter(now, part);
        }
    }

    /// What of a submission goes next, for the scheduler.
    fn piece(&mut self, now: Nanos, part: &mut Part) -> Request {
        let Part { submission, fault, .. } = part;
        let mut request = submission.request;
        if let Some(causes) = &mut self.causes {
            submission.tag = causes.complete(now, &mut request);
        }
        let moves = matches!(request.operation, Operation::Read | Operation::Write);
        if moves && fault.is_none() {
            let piece = &mut submission.piece;
            let most = self.scheduler.most_sectors(now).max(1);
            piece.end = piece.start.saturating_add(most).min(request.sectors);
            request.continues = piece.start > 0;
            request.sector += u64::from(piece.start);
            request.sectors = piece.end - piece.start;
        }
        request
    }

    fn enter(&mut self, now: Nanos, mut part: Part) {
        let Some(index) = self.free.pop() else {
            self.before.push_front(part);
            return;
        };
        let request = self.piece(now, &mut part);
        let into = match self.scheduler.add(now, index, &request) {
            Added::Queued => {
                self.slots[usize::from(index)] =
                    Some(Slot { request, parts: Some((part, Vec::new())) });
                return;
            }
            Added::MergedBack(into) | Added::MergedFront(into) => into,
        };
        self.free.push(index);
        self.merged += 1;
        let slot = self.slots[usize::from(into)].as_mut();
        let Some(Slot { request: grown, parts: Some((_, merged)) }) = slot else {
            panic!("the scheduler {} merged into what does not wait", self.scheduler.name());
        };
        grown.sector = grown.sector.min(request.sector);
        grown.sectors += request.sectors;
        grown.fua |= request.fua;
        merged.push(part);
    }

    /// The next command for the device, if it has room.
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        if self.in_flight >= self.depth {
            return Next::Idle;
        }
        if let Some(flush) = self.flushes.pop_front() {
            let request = flush.submission.request;
            return self.start(now, None, &request, flush, Vec::new());
        }
        if let Some(causes) = &mut self.causes
            && causes.have_changed(now)
        {
            self.scheduler.promote(now, &mut |cause| causes.is_critical(cause));
        }
        let index = match self.scheduler.dispatch(now) {
            Dispatch::Request(index) => index,
            Dispatch::Wait(until) => return Next::Wait(until),
            Dispatch::Idle => return Next::Idle,
        };
        let slot = self.slots[usize::from(index)].as_mut();
        let Some((request, (first, merged))) =
            slot.and_then(|slot| Some((slot.request, slot.parts.take()?)))
        else {
            panic!("the scheduler {} dispatched what does not wait", self.scheduler.name());
        };
        self.scheduler.activated(now, index);
        self.start(now, Some(index), &request, first, merged)
    }

    fn start(
        &mut self,
        now: Nanos,
        index: Option<Index>,
        request: &Request,
        first: Part,
        merged: Vec<Part>,
    ) -> Next {
        self.in_flight += 1;
        let mut request = *request;
        // Discards come as zeroing (see the FUSE front end). A device does not write so much.
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        if request.operation == Operation::WriteZeroes
            && first.submission.unmap
            && bytes > FILLED_BYTES_MAX
        {
            request.operation = Operation::Discard;
        }
        let due = self.model.as_mut().map_or(now, |model| model.start(now, &request).max(now));
        Next::Start(Box::new(Command { index, started: now, due, first, merged }))
    }

    /// The device has completed a command. Returns those of its requests that are over.
    pub(super) fn finish(
        &mut self,
        now: Nanos,
        command: Command,
    ) -> impl Iterator<Item = Part> + use<> {
        self.in_flight -= 1;
        if self.model.is_some() {
            self.lateness.add(command.started, command.due, now);
        }
        if let Some(index) = command.index {
            self.scheduler.completed(now, index, now.since(command.started));
            self.slots[usize::from(index)] = None;
            self.free.push(index);
        }
        let first = self.go_on(now, command.first);
        let merged: Vec<Part> =
            command.merged.into_iter().filter_map(|part| self.go_on(now, part)).collect();
        while !self.free.is_empty()
            && let Some(part) = self.before.pop_front()
        {
            self.enter(now, part);
        }
        first.into_iter().chain(merged)
    }

    /// The next piece of a request enters the queue. Returns the request if it is over.
    fn go_on(&mut self, now: Nanos, mut part: Part) -> Option<Part> {
        let piece = &mut part.submission.piece;
        if part.result.is_err() || piece.end >= part.submission.request.sectors {
            return Some(part);
        }
        piece.start = piece.end;
        self.enter(now, part);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use headworks_policy::block::{Afq, Rcp, Sfq, afq, sfq};
    use std::sync::{Arc, Mutex};

    const MIB: u64 = 1 << 20;
    const NOW: Nanos = Nanos::from_millis(1_000);

    /// Writes below this place are of cause 1 and have the highest level. Others are of cause 2 and
    /// have the lowest.
    const BORDER_MIB: u64 = 500;

    /// With the causes that are critical.
    #[derive(Clone, Default)]
    struct Halves(Arc<Mutex<Vec<u32>>>);

    impl Causes for Halves {
        fn complete(&mut self, _: Nanos, request: &mut Request) -> u16 {
            let low = request.sector * 512 < BORDER_MIB * MIB;
            (request.cause, request.level) = if low { (1, 0) } else { (2, 7) };
            0
        }

        fn have_changed(&mut self, _: Nanos) -> bool {
            true
        }

        fn is_critical(&self, cause: u32) -> bool {
            self.0.lock().unwrap().contains(&cause)
        }
    }

    fn add(queue: &mut Queue, operation: Operation, at_mib: u64) {
        let submission = Submission::new(operation, at_mib * MIB, 4096, Box::new(|_| ()));
        queue.add(NOW, Part { submission, came: NOW, fault: None, result: Ok(()) });
    }

    /// The place of the request that goes to the device, in MiB, and its command.
    fn next(queue: &mut Queue) -> Option<(u64, Box<Command>)> {
        match queue.next(NOW) {
            Next::Start(command) => Some((command.first.submission.offset_bytes() / MIB, command)),
            Next::Wait(_) | Next::Idle => None,
        }
    }

    #[test]
    fn queued_writes_for_which_a_client_begins_to_wait_go_at_once() {
        let mut queue = Queue::new(Box::new(Rcp::default()), None);
        let causes = Halves::default();
        queue.set_causes(Box::new(causes.clone()));
        // While a client reads, one write of the background is with the device.
        add(&mut queue, Operation::Read, 700);
        assert_eq!(next(&mut queue).unwrap().0, 700);
        for at in [0, 10, 20, BORDER_MIB, BORDER_MIB + 10] {
            add(&mut queue, Operation::Write, at);
        }
        assert_eq!(next(&mut queue).unwrap().0, 0);
        assert!(next(&mut queue).is_none());
        causes.0.lock().unwrap().push(2);
        assert_eq!(next(&mut queue).unwrap().0, BORDER_MIB);
        assert_eq!(next(&mut queue).unwrap().0, BORDER_MIB + 10);
        assert!(next(&mut queue).is_none());
    }

    #[test]
    fn writes_are_charged_to_whom_they_are_said_to_be_of() {
        let mut queue = Queue::new(Box::new(Afq::new(afq::Settings::flash())), None);
        queue.set_causes(Box::<Halves>::default());
        for at in 0..90 {
            add(&mut queue, Operation::Write, BORDER_MIB + at);
            add(&mut queue, Operation::Write, at);
        }
        // Tickets are 8 to 1.
        let mut high = 0;
        for _ in 0..90 {
            let (at, command) = next(&mut queue).unwrap();
            high += u64::from(at < BORDER_MIB);
            assert_eq!(queue.finish(NOW, *command).count(), 1);
        }
        assert!((78..=82).contains(&high), "{high}");
    }
    #[test]
    fn a_large_request_goes_in_pieces_while_others_ask_and_ends_once() {
        const PIECE: u32 = 128;
        let mut queue = Queue::new(Box::new(Sfq::new(sfq::Settings::flash())), None);
        queue.set_causes(Box::<Halves>::default());
        let large = |at_mib| {
            let data = Buffer::zeroed(1 << 20);
            let submission = Submission::write(at_mib * MIB, data, Box::new(|_| ()));
            Part { submission, came: NOW, fault: None, result: Ok(()) }
        };
        add(&mut queue, Operation::Read, 0);
        queue.add(NOW, large(BORDER_MIB));
        let mut pieces = Vec::new();
        let mut over = 0;
        while let Some((at, command)) = next(&mut queue) {
            if at == BORDER_MIB {
                pieces.push(command.first.submission.piece.clone());
            }
            over += queue.finish(NOW, *command).count();
        }
        let all = (0..16).map(|number| number * PIECE..(number + 1) * PIECE);
        assert_eq!((pieces, over), (all.collect(), 2));
        // Alone, it goes whole. A piece that fails is the last one.
        let later = NOW + Nanos::from_millis(1_000);
        queue.add(later, large(BORDER_MIB));
        let Next::Start(mut command) = queue.next(later) else { panic!("nothing starts") };
        assert_eq!(command.first.submission.piece, 0..16 * PIECE);
        command.first.submission.piece = 0..PIECE;
        command.first.result = Err(io::ErrorKind::Other.into());
        assert_eq!(queue.finish(later, *command).count(), 1);
        assert!(matches!(queue.next(later), Next::Idle));
    }
}
