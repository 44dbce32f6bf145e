//! What calls did to pages, once they have returned.

use super::{
    CallKind, FREE, Guarded, IoRegion, NO_THREAD, Piece, STATE, Task, Ticket, WAITING, Written,
    tally,
};
use crate::clock;
use core::sync::atomic::Ordering::{Relaxed, Release};
use headworks_policy::Nanos;
use headworks_policy::block::{IoClass, Operation, Request, SECTOR_BYTES};
use headworks_policy::split::{
    Account, Call, CauseSet, Cleaned, DeviceCost, Dirtied, Freed, PAGE_BYTES, Urgency,
};

/// An `fsync` of no more tells what the device is: to write them takes no time.
const FEW_PAGES: u64 = 16;

impl IoRegion {
    /// A call has returned.
    pub fn leave(&self, ticket: Ticket, flushed: Option<tally::Unmarked>) {
        let now = clock::now();
        let took = now.since(ticket.admitted);
        if let Some(slot) = self.accounts.get(usize::from(ticket.call.account)) {
            match ticket.kind {
                CallKind::Fsync | CallKind::Commit => {
                    slot.fsyncs.fetch_add(1, Relaxed);
                    slot.fsync_ns.fetch_add(now.since(ticket.entered).0, Relaxed);
                }
                CallKind::Read | CallKind::ReadStream => {
                    slot.reads.fetch_add(1, Relaxed);
                    slot.read_bytes.fetch_add(ticket.call.bytes, Relaxed);
                }
                _ => {}
            }
        }
        self.note_call_wait(&ticket, now);
        let is_known = ticket.is_running(self);
        let told = self.locked(|guarded| {
            if let Some(task) = ticket.task.filter(|_| is_known) {
                self.ended(guarded, now, task, &ticket, took);
            } else if matches!(ticket.kind, CallKind::Read | CallKind::ReadStream) {
                // It passed, but the device has read for it.
                returned(guarded, now, Task::MAX, ticket.kind, &ticket.call, took);
            }
            if let Some(taken) = flushed.filter(|taken| taken.pages > 0) {
                self.clean(guarded, now, ticket.call.file, &taken);
            }
            let dirty = flushed.map_or(0, |taken| taken.pages);
            if ticket.kind == CallKind::Fsync && (1..=FEW_PAGES).contains(&dirty) {
                self.learn(guarded, took);
            }
            self.pump(guarded, now);
        });
        self.free(&ticket, told.is_some() || !is_known);
    }

    /// An `fsync` of a few pages took so long. If that shows another kind of device, the scheduler
    /// begins again for it.
    fn learn(&self, guarded: &mut Guarded, took: Nanos) {
        if self.control.learns_device.load(Relaxed) == 0 {
            return;
        }
        if let Some(kind) = guarded.learner.saw(self.control.rotational(), took) {
            self.control.rotational.store(kind.into(), Relaxed);
            self.begin_anew(guarded);
        }
    }

    /// The task's slot is free. If the scheduler was not `told` of the return, the slot looks like
    /// that of a dead thread, so that [`IoRegion::reap`] tells.
    fn free(&self, ticket: &Ticket, told: bool) {
        let Some(slot) = ticket.slot(self) else { return };
        if told {
            slot.word.store(FREE, Release);
        } else {
            slot.tid.store(NO_THREAD, Relaxed);
        }
    }

    /// A write of `bytes` at `offset` has returned. Says whether pages were clean before.
    pub fn wrote(&self, account: Account, file: u16, offset: u64, bytes: u64) -> bool {
        self.counts_write(account, bytes);
        self.dirtied_unseen(account, file, offset, bytes)
    }

    /// A range holds dirty pages, but the call that wrote them was not seen. Says whether pages
    /// were clean before.
    pub fn dirtied_unseen(&self, account: Account, file: u16, offset: u64, bytes: u64) -> bool {
        self.locked(|guarded| self.dirty(guarded, account, file, offset, bytes)).unwrap_or(false)
    }

    /// As [`IoRegion::wrote`], for a call that the scheduler admitted: its turn ends, too.
    pub fn wrote_and_left(&self, ticket: Ticket, offset: u64, bytes: u64) -> bool {
        let call = ticket.call;
        self.counts_write(call.account, bytes);
        let running = ticket.is_running(self);
        self.note_call_wait(&ticket, clock::now());
        let told = self.locked(|guarded| {
            let now = clock::now();
            let fresh = self.dirty(guarded, call.account, call.file as u16, offset, bytes);
            if let Some(task) = ticket.task.filter(|_| running) {
                self.note_return(now, task);
                returned(guarded, now, task, ticket.kind, &call, now.since(ticket.admitted));
            }
            self.pump(guarded, now);
            fresh
        });
        self.free(&ticket, told.is_some() || !running);
        told.unwrap_or(false)
    }

    fn dirty(
        &self,
        guarded: &mut Guarded,
        account: Account,
        file: u16,
        offset: u64,
        bytes: u64,
    ) -> bool {
        let device = DeviceCost::for_device(self.control.rotational());
        let end = offset.saturating_add(bytes);
        let marked = guarded.tally.mark(clock::now(), usize::from(file), offset, end, account);
        let Some(state) = guarded.tally.state_mut(usize::from(file)) else { return false };
        let new_bytes = marked.new_pages * PAGE_BYTES;
        // A page that was written in part goes on where it ended.
        let cost = match new_bytes {
            0 => Nanos(0),
            new => device.access(state.last_end, offset, new.min(bytes.max(PAGE_BYTES))),
        };
        state.last_end = end;
        state.charged += cost;
        let dirtied =
            Dirtied { account, previous: marked.previous, file: file.into(), new_bytes, cost };
        guarded.split.scheduler().buffer_dirty(clock::now(), &dirtied);
        new_bytes > 0
    }

    /// A read went to the device without having asked.
    pub fn read_unasked(&self, account: Account, bytes: u64, took: Nanos) {
        let urgency = self.urgency(account);
        let call = Call { account, bytes, urgency, ..Call::default() };
        let now = clock::now();
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.reads.fetch_add(1, Relaxed);
            slot.read_bytes.fetch_add(bytes, Relaxed);
        }
        self.note_read_wait(account, now, took);
        self.locked(|guarded| {
            returned(guarded, now, Task::MAX, CallKind::Read, &call, took);
        });
    }

    /// The next dirty piece of a file from `offset` on.
    pub fn take_piece(&self, file: u16, offset: u64) -> Piece {
        self.locked(|guarded| guarded.tally.take_piece(usize::from(file), offset, 1 << 12))
            .unwrap_or(Piece::End)
    }

    /// Pieces of the ticket's file that were ordered are on the device.
    pub fn cleaned(&self, ticket: &Ticket, written: &Written) {
        let now = clock::now();
        if let Some(slot) = self.accounts.get(usize::from(ticket.call.account)) {
            slot.written_back.fetch_add(written.pieces.into(), Relaxed);
        }
        if let Some(slot) = ticket.slot(self) {
            slot.progress_ns.store(now.0, Relaxed);
        }
        self.locked(|guarded| {
            self.note_progress(guarded, now);
            self.clean(guarded, now, ticket.call.file, &written.taken);
            let left = guarded.tally.state(ticket.call.file as usize).map_or(0, |file| file.pieces);
            // The scheduler counts the pieces of a call only while it holds the call.
            if let Some(task) = ticket.task.filter(|_| !self.is_admitted(ticket)) {
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                guarded.split.scheduler().written_back(now, task, written.pieces, left);
            }
            self.pump(guarded, now);
        });
    }

    /// Pieces have landed, or a direct write that was held. Under a scheduler that writes back for
    /// one call after the other, that is progress of all that wait for their turn: a call that
    /// passed now would write its pieces all at once.
    fn note_progress(&self, guarded: &mut Guarded, now: Nanos) {
        let scheduler = guarded.split.scheduler();
        for (at, slot) in self.tasks.iter().enumerate() {
            if slot.word.load(Relaxed) & STATE == WAITING && scheduler.waits_in_turn(at as Task) {
                slot.progress_ns.store(now.0, Relaxed);
            }
        }
    }

    /// The scheduler hears of the return of a call that it let go.
    fn ended(&self, guarded: &mut Guarded, now: Nanos, task: Task, ticket: &Ticket, took: Nanos) {
        self.note_return(now, task);
        returned(guarded, now, task, ticket.kind, &ticket.call, took);
        if ticket.kind == CallKind::WriteDirect && ticket.admitted > ticket.entered {
            self.note_progress(guarded, now);
        }
    }

    pub(super) fn clean(
        &self,
        guarded: &mut Guarded,
        now: Nanos,
        file: u32,
        taken: &tally::Unmarked,
    ) {
        let device = DeviceCost::for_device(self.control.rotational());
        let bytes = taken.pages * PAGE_BYTES;
        // The tally cuts a long run at each end of a chunk; the device does not.
        let runs = taken.pieces.saturating_sub(bytes / tally::CHUNK_BYTES).max(1);
        let cleaned = Cleaned {
            causes: taken.causes,
            file,
            bytes,
            charged: taken.charged,
            cost: device.runs(runs, bytes),
        };
        guarded.split.scheduler().buffer_clean(now, &cleaned);
    }

    /// A write of `bytes` at `offset` past the page cache has returned, or was submitted.
    pub fn wrote_through(&self, account: Account, file: u16, offset: u64, bytes: u64) {
        let device = DeviceCost::for_device(self.control.rotational());
        self.counts_write(account, bytes);
        self.locked(|guarded| {
            let Some(state) = guarded.tally.state_mut(usize::from(file)) else { return };
            let cost = device.access(state.last_end, offset, bytes);
            state.last_end = offset.saturating_add(bytes);
            let causes = CauseSet::of(account);
            let (now, file) = (clock::now(), u32::from(file));
            let previous = CauseSet::default();
            let dirtied = Dirtied { account, previous, file, new_bytes: bytes, cost };
            guarded.split.scheduler().buffer_dirty(now, &dirtied);
            // The preliminary model knows where the last write ended: there is nothing to revise.
            let cleaned = Cleaned { causes, file, bytes, charged: cost, cost };
            guarded.split.scheduler().buffer_clean(now, &cleaned);
        });
    }

    pub(super) fn counts_write(&self, account: Account, bytes: u64) {
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.writes.fetch_add(1, Relaxed);
            slot.written_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// The program has begun to write a range of a file back by itself.
    pub fn wrote_back(&self, file: u16, from: u64, to: u64) {
        self.locked(|guarded| {
            let taken = guarded.tally.unmark(usize::from(file), from, to);
            if taken.pages > 0 {
                let now = clock::now();
                self.clean(guarded, now, file.into(), &taken);
                self.pump(guarded, now);
            }
        });
    }

    /// A range of a file was cut off or punched out: its dirty pages are not written any more.
    pub fn freed(&self, file: u16, from: u64, to: u64) {
        self.locked(|guarded| {
            let taken = if from == 0 && to == u64::MAX {
                guarded.tally.flush(usize::from(file))
            } else {
                guarded.tally.unmark(usize::from(file), from, to)
            };
            if taken.pages == 0 {
                return;
            }
            let freed = Freed {
                causes: taken.causes,
                file: file.into(),
                bytes: taken.pages * PAGE_BYTES,
                cost: taken.charged,
            };
            let now = clock::now();
            guarded.split.scheduler().buffer_free(now, &freed);
            self.pump(guarded, now);
        });
    }

    /// A part of a batch may be submitted. Its turn ends, as nobody will tell of its end.
    pub fn release(&self, ticket: Ticket) {
        let now = clock::now();
        let device = DeviceCost::for_device(self.control.rotational());
        let took = match ticket.kind {
            CallKind::Fsync => device.runs(ticket.call.pieces.into(), ticket.call.bytes),
            _ => Nanos(0),
        };
        let running = ticket.is_running(self);
        let told = self.locked(|guarded| {
            if let Some(task) = ticket.task.filter(|_| running) {
                self.ended(guarded, now, task, &ticket, took);
            }
            self.pump(guarded, now);
        });
        self.free(&ticket, told.is_some() || !running);
    }

    /// A read of a batch was submitted.
    pub fn read_submitted(&self, account: Account, file: u16, offset: u64, bytes: u64) {
        let device = DeviceCost::for_device(self.control.rotational());
        let cost = self.locked(|guarded| {
            let state = guarded.tally.state_mut(usize::from(file))?;
            let cost = device.access(state.last_end, offset, bytes);
            state.last_end = offset.saturating_add(bytes);
            Some(cost)
        });
        self.read_unasked(account, bytes, cost.flatten().unwrap_or_default());
    }

    /// An `fsync` of a batch was submitted.
    pub fn flushed(&self, account: Account, file: u16) {
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.fsyncs.fetch_add(1, Relaxed);
        }
        self.locked(|guarded| {
            let taken = guarded.tally.flush(usize::from(file));
            if taken.pages > 0 {
                self.clean(guarded, clock::now(), file.into(), &taken);
            }
        });
    }
}

pub(super) fn read_request(call: &Call) -> Request {
    Request {
        operation: Operation::Read,
        sector: 0,
        sectors: u32::try_from(call.bytes.div_ceil(SECTOR_BYTES)).unwrap_or(u32::MAX),
        fua: false,
        sync: true,
        cause: call.account.into(),
        class: match call.urgency {
            Urgency::Background => IoClass::Idle,
            Urgency::Critical | Urgency::Guessed => IoClass::BestEffort,
        },
        level: 4,
        deadline: None,
    }
}

/// A read of a stream. `sync` is false: the kernel reads ahead, and no call waits for that.
pub(super) fn stream_request(call: &Call) -> Request {
    Request { sync: false, ..read_request(call) }
}

pub(super) fn returned(
    guarded: &mut Guarded,
    now: Nanos,
    task: Task,
    kind: CallKind,
    call: &Call,
    took: Nanos,
) {
    let scheduler = guarded.split.scheduler();
    match kind {
        CallKind::Write | CallKind::WriteDirect => scheduler.write_return(now, task, call),
        CallKind::Fsync => scheduler.fsync_return(now, task, call, took),
        CallKind::Commit => scheduler.commit_return(now, task, call, took),
        CallKind::Create => scheduler.creat_return(now, task, call),
        CallKind::MakeDirectory => scheduler.mkdir_return(now, task, call),
        CallKind::Read => scheduler.req_complete(now, task, &read_request(call), took),
        CallKind::ReadStream => {
            scheduler.req_complete(now, task, &stream_request(call), took);
        }
        CallKind::ReadCall | CallKind::WriteRange => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IoMapping, Order, RUNNING, STATE, SUSPECT_AFTER};
    use super::*;
    use headworks_policy::split::{Entry, SplitKind};
    use std::time::Duration;

    fn region(called: &str) -> &'static IoRegion {
        let path = format!("/dev/shm/headworks-io-{called}-{}", std::process::id());
        let name = std::ffi::CString::new(path.clone()).unwrap();
        let region: &'static IoRegion = IoMapping::create(&name, None).unwrap().region();
        std::fs::remove_file(path).unwrap();
        region.start(SplitKind::Afq, true);
        region
    }

    #[test]
    fn a_return_without_the_lock_is_told_later() {
        let region = region("lock");
        let file = region.file(1, 1, |_| 0).unwrap().0;
        let tickets = [0, 1].map(|_| region.enter(CallKind::Fsync, 40, file, 4096));
        assert!(tickets.iter().all(|ticket| region.is_admitted(ticket)));
        let held = region.lock.acquire(|_| false).unwrap();
        // By other threads: this one has the lock.
        for ticket in tickets {
            std::thread::spawn(move || region.leave(ticket, None)).join().unwrap();
        }
        drop(held);
        assert_eq!(region.control.lock_busy.load(Relaxed), 2);
        assert_eq!(region.tasks[0].word.load(Relaxed) & STATE, RUNNING);
        std::thread::sleep(Duration::from_nanos(SUSPECT_AFTER.0));
        region.locked(|guarded| {
            region.reap(guarded, clock::now());
            let call = Call { pieces: 1, ..Call::default() };
            let entry = guarded.split.scheduler().fsync_entry(clock::now(), 9, &call);
            assert_eq!(entry, Entry::Go, "the depth of two is free again");
        });
        assert_eq!(region.tasks[0].word.load(Relaxed), FREE);
    }

    #[test]
    fn the_turn_of_a_call_that_passed_without_the_lock_is_given_back() {
        let region = region("passed");
        region.set_hold_max(Nanos::from_millis(1));
        let file = region.file(1, 1, |_| 0).unwrap().0;
        let tickets = [0; 4].map(|_| region.enter(CallKind::Fsync, 40, file, 4096));
        let [first, second, third, fourth] = tickets;
        assert!(region.is_admitted(&second) && !region.is_admitted(&third));
        let held = region.lock.acquire(|_| false).unwrap();
        // By other threads: this one has the lock.
        let passes = [third, fourth].map(|ticket| {
            std::thread::spawn(move || {
                assert_eq!(region.next_order(&ticket, false), Order::Go);
                ticket
            })
        });
        let passed = passes.map(|thread| thread.join().unwrap());
        drop(held);
        // The device has room again, and the scheduler gives it to those that passed.
        region.leave(first, None);
        region.leave(second, None);
        for ticket in passed {
            region.leave(ticket, None);
        }
        let next = [0; 2].map(|_| region.enter(CallKind::Fsync, 40, file, 4096));
        assert!(next.iter().all(|ticket| region.is_admitted(ticket)), "the depth of two is free");
        for ticket in next {
            region.leave(ticket, None);
        }
    }

    #[test]
    fn calls_hardly_wait_for_a_lock_that_was_not_to_be_had() {
        let region = region("stopped");
        let held = region.lock.acquire(|_| false).unwrap();
        let waited = || {
            let begun = std::time::Instant::now();
            assert!(!region.wrote(40, 1, 0, 4096));
            begun.elapsed()
        };
        // By another thread: this one has the lock.
        let (first, second) = std::thread::spawn(move || (waited(), waited())).join().unwrap();
        drop(held);
        assert!(second < first, "{first:?}, then {second:?}");
    }
}
