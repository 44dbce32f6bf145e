//! A call's life, in its order: it enters, waits for the scheduler's orders, is admitted, and
//! leaves.

use super::layout::{FREE, Guarded, IoRegion, PASSED, RUNNING, STATE, TaskSlot, WAITING};
use super::tally::Unmarked;
use super::tasks::{ask, returned};
use super::waits::{self, ClientWait};
use super::{gone, guess};
use crate::lock::thread_id;
use crate::text::Text;
use crate::{clock, futex};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use headworks_policy::Nanos;
use headworks_policy::split::{
    Account, Call, CallKind, Criticality, DeviceCost, Entry, TASKS, Task,
};

/// A sleeper asks again after this time at the latest.
const MAX_SLEEP: Nanos = Nanos::from_millis(100);

/// An `fsync` of no more tells what the device is: to write them takes no time.
const FEW_PAGES: u64 = 16;

/// A call that the scheduler knows. Goes back by [`IoRegion::leave`].
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    pub(super) task: Option<Task>,
    kind: CallKind,
    /// As the scheduler sees it.
    pub call: Call,
    entered: Nanos,
    admitted: Nanos,
    /// Of an `fsync` of a file that runs: the pages that it makes durable.
    pub flushed: Option<Unmarked>,
}

/// What the thread of a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Makes the call.
    Go,
    /// Begins to write back so many pieces.
    WriteBack(u32),
    /// Has nothing new to do: waits for what it began.
    Nothing,
}

/// Pages that were given up, for [`IoRegion::cleaned`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Pieces that were written, or not found.
    pub pieces: u32,
    /// What the tally knew of them.
    pub taken: Unmarked,
}

impl IoRegion {
    /// A call of `bytes` is about to run. It may run if the ticket has been [admitted]
    /// (IoRegion::is_admitted); else its thread follows [`IoRegion::next_order`].
    pub fn enter(&self, kind: CallKind, account: Account, file: u16, bytes: u64) -> Ticket {
        self.enter_with(kind, account, file, bytes, |_, _| {})
    }

    /// As [`IoRegion::enter`], for an `fsync` of a whole file. If it may run, it begins at once.
    /// Else [`IoRegion::begins_flush`] is to be called when it does.
    pub fn enter_fsync(&self, account: Account, file: u16) -> Ticket {
        self.enter_with(CallKind::Fsync, account, file, 0, |guarded, ticket| {
            if self.is_admitted(ticket) {
                ticket.flushed = Some(guarded.tally.flush(file.into()));
            }
        })
    }

    fn enter_with(
        &self,
        kind: CallKind,
        account: Account,
        file: u16,
        bytes: u64,
        then: impl FnOnce(&mut Guarded, &mut Ticket),
    ) -> Ticket {
        let now = clock::now();
        let criticality = self.criticality(account);
        let direct = kind.is_direct().into();
        let call =
            Call { account, file: file.into(), bytes, criticality, direct, ..Call::default() };
        let mut ticket =
            Ticket { task: None, kind, call, entered: now, admitted: now, flushed: None };
        self.locked(|guarded| {
            self.enter_locked(guarded, now, &mut ticket);
            then(guarded, &mut ticket);
        });
        ticket
    }

    fn enter_locked(&self, guarded: &mut Guarded, now: Nanos, ticket: &mut Ticket) {
        ticket.call = self.described(guarded, ticket.kind, ticket.call);
        let begin = guarded.next_task as usize;
        let in_turn = |step: usize| (begin + step) % TASKS;
        let is_free = |at: &usize| self.tasks[*at].state() == FREE;
        if ticket.call.criticality != Criticality::Critical
            && let Some(criticality) = guarded.split.scheduler().trusts(now, ticket.call.file)
        {
            ticket.call.criticality = criticality;
        }
        let Some(at) = (0..TASKS).map(in_turn).find(is_free) else {
            self.control.tasks_full.fetch_add(1, Relaxed);
            return;
        };
        guarded.next_task = (at + 1) as u32 % TASKS as u32;
        let slot = &self.tasks[at];
        slot.tid.store(thread_id(), Relaxed);
        slot.kind.store(ticket.kind as u32, Relaxed);
        slot.account.store(ticket.call.account.into(), Relaxed);
        slot.file.store(ticket.call.file, Relaxed);
        slot.criticality.store(ticket.call.criticality as u32, Relaxed);
        slot.pieces.store(ticket.call.pieces, Relaxed);
        slot.orders.store(0, Relaxed);
        slot.since_ns.store(now.0, Relaxed);
        slot.progress_ns.store(now.0, Relaxed);
        let task = at as Task;
        ticket.task = Some(task);
        // A call that returned while the lock was busy may have left a waiter with this number.
        guarded.split.scheduler().cancel(now, task);
        let mut entry = ask(guarded, now, task, ticket.kind, &ticket.call);
        if entry == Entry::Wait && self.forget_ended(guarded, now) {
            guarded.split.scheduler().cancel(now, task);
            entry = ask(guarded, now, task, ticket.kind, &ticket.call);
        }
        let state = if entry == Entry::Go { RUNNING } else { WAITING };
        slot.word.store(state, Release);
        self.note_call(&ticket.call, (state == WAITING).then_some(task));
        if state == WAITING {
            self.dispatch(guarded, now);
        }
    }

    /// Counts a call, and keeps which one of its account is held.
    fn note_call(&self, call: &Call, held: Option<Task>) {
        if !self.control.kind().puts_clients_first() {
            return;
        }
        let Some(slot) = self.accounts.get(usize::from(call.account)) else { return };
        let background = call.criticality == Criticality::Background;
        slot.foreground.store(self.is_foreground(call.account).into(), Relaxed);
        if held.is_some() && call.account != 0 {
            // Another thread's number may have taken its place in the table.
            self.inheritance.note_thread(thread_id(), call.account);
        }
        let counter = if background { &slot.background } else { &slot.critical };
        counter.fetch_add(1, Relaxed);
        slot.task.store(held.map_or(0, |task| u32::from(task) + 1), Relaxed);
    }

    /// Whether the call may run.
    pub fn is_admitted(&self, ticket: &Ticket) -> bool {
        ticket.slot(self).is_none_or(|slot| slot.state() != WAITING)
    }

    /// What the thread of a call that waits does next. Sleeps until there is something, unless the
    /// thread is `busy` with pieces that it began to write.
    pub fn next_order(&self, ticket: &Ticket, busy: bool) -> Order {
        let (Some(task), Some(slot)) = (ticket.task, ticket.slot(self)) else { return Order::Go };
        let (mut until, mut slept) = (Nanos(0), false);
        loop {
            let word = slot.word.load(Acquire);
            if word & STATE != WAITING {
                return Order::Go;
            }
            let orders = slot.orders.swap(0, Relaxed);
            if orders > 0 {
                if slept {
                    self.woke_late(clock::now().since(Nanos(slot.progress_ns.load(Relaxed))));
                }
                return Order::WriteBack(orders);
            }
            let now = clock::now();
            if self.may_block_clients(now, ticket.call.account, task) {
                return Order::Go;
            }
            let (on, parent_is_gone) = (self.control.is_on(), gone::parent_is_gone());
            if busy && !parent_is_gone {
                return Order::Nothing;
            }
            let idle = now.since(Nanos(slot.progress_ns.load(Relaxed)));
            let hold_max = self.control.hold_max();
            if idle >= hold_max || parent_is_gone || !on {
                if on && !parent_is_gone {
                    self.control.hold_limit.fetch_add(1, Relaxed);
                }
                self.locked(|guarded| {
                    guarded.split.scheduler().cancel(now, task);
                    // Unless it was admitted just now.
                    slot.end_wait(PASSED);
                    self.dispatch(guarded, now);
                });
                slot.end_wait(PASSED);
                return Order::Go;
            }
            let left = hold_max.since(idle).min(self.longest_sleep());
            let sleep = if until > now { until.since(now).min(left) } else { Nanos(0) };
            if sleep > Nanos(0) {
                futex::wait(&slot.word, word, sleep);
                slept = true;
            }
            let now = clock::now();
            until = self
                .locked(|guarded| {
                    self.reap(guarded, now);
                    self.forget_ended(guarded, now);
                    self.dispatch(guarded, now)
                })
                .unwrap_or(now + Nanos::from_millis(1))
                .max(now + Nanos::from_micros(50));
        }
    }

    /// How long a held thread may sleep before it polls for clients that are stuck.
    fn longest_sleep(&self) -> Nanos {
        if self.control.kind().puts_clients_first() { guess::STUCK_AFTER } else { MAX_SLEEP }
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
            self.dispatch(guarded, now);
        });
    }

    /// Counts the time for which the call was held, and returns it. To be called when it runs.
    pub fn admitted(&self, ticket: &mut Ticket) -> Nanos {
        ticket.admitted = clock::now();
        let held = ticket.admitted.since(ticket.entered);
        if let Some(slot) = self.accounts.get(usize::from(ticket.call.account)) {
            slot.held.fetch_add(1, Relaxed);
            slot.held_ns.fetch_add(held.0, Relaxed);
        }
        held
    }

    /// The real `fsync` begins, unless it has. What is written from then on belongs to the next
    /// one.
    pub fn begins_flush(&self, ticket: &mut Ticket) {
        if ticket.flushed.is_none() {
            ticket.flushed = self.locked(|guarded| guarded.tally.flush(ticket.call.file as usize));
        }
    }

    /// A call has returned.
    pub fn leave(&self, ticket: Ticket) {
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
        self.note_wait(&ticket, now);
        let is_known = ticket.is_running(self);
        let reported = self.locked(|guarded| {
            if let Some(task) = ticket.task.filter(|_| is_known) {
                self.ended(guarded, now, task, &ticket, took);
            } else if matches!(ticket.kind, CallKind::Read | CallKind::ReadStream) {
                // It passed, but the device has read for it.
                returned(guarded, now, Task::MAX, ticket.kind, &ticket.call, took);
            }
            if let Some(taken) = ticket.flushed.filter(|taken| taken.pages > 0) {
                self.clean(guarded, now, ticket.call.file, &taken);
                if taken.pages <= FEW_PAGES {
                    self.learn(guarded, took);
                }
            }
            self.dispatch(guarded, now);
        });
        self.free(&ticket, reported.is_some() || !is_known);
    }

    /// As [`IoRegion::wrote`], for a call that the scheduler admitted: its turn ends, too.
    pub fn wrote_and_left(&self, ticket: Ticket, offset: u64, bytes: u64) -> bool {
        let call = ticket.call;
        self.counts_write(call.account, bytes);
        let running = ticket.is_running(self);
        self.note_wait(&ticket, clock::now());
        let reported = self.locked(|guarded| {
            let now = clock::now();
            let fresh = self.dirty(guarded, call.account, call.file as u16, offset, bytes);
            if let Some(task) = ticket.task.filter(|_| running) {
                self.inheritance.guess.note_return(now, task);
                returned(guarded, now, task, ticket.kind, &call, now.since(ticket.admitted));
            }
            self.dispatch(guarded, now);
            fresh
        });
        self.free(&ticket, reported.is_some() || !running);
        reported.unwrap_or(false)
    }

    /// A part of a batch may be submitted. Its turn ends, as its end is not seen.
    pub fn release(&self, ticket: Ticket) {
        let now = clock::now();
        let device = DeviceCost::for_device(self.control.rotational());
        let took = match ticket.kind {
            CallKind::Fsync => device.runs(ticket.call.pieces.into(), ticket.call.bytes),
            _ => Nanos(0),
        };
        let running = ticket.is_running(self);
        let reported = self.locked(|guarded| {
            if let Some(task) = ticket.task.filter(|_| running) {
                self.ended(guarded, now, task, &ticket, took);
            }
            self.dispatch(guarded, now);
        });
        self.free(&ticket, reported.is_some() || !running);
    }

    /// The scheduler hears of the return of a call that it let go.
    fn ended(&self, guarded: &mut Guarded, now: Nanos, task: Task, ticket: &Ticket, took: Nanos) {
        self.inheritance.guess.note_return(now, task);
        returned(guarded, now, task, ticket.kind, &ticket.call, took);
        if ticket.kind == CallKind::WriteDirect && ticket.admitted > ticket.entered {
            self.note_progress(guarded, now);
        }
    }

    /// A call of the calling thread is over: if the thread serves a client, that waited for it.
    fn note_wait(&self, ticket: &Ticket, now: Nanos) {
        let took = now.since(ticket.entered);
        let (account, cause) = (ticket.call.account, waits::cause_of(ticket.kind));
        if took >= waits::SHORTEST
            && let Some(wait) = self.client_wait(account, cause, ticket.entered, took)
        {
            let held = ticket.admitted.since(ticket.entered);
            self.waits.note(ClientWait { held, ..wait }, || {
                let name = self.names.get(ticket.call.file as usize);
                name.map_or(Text::EMPTY, |name| name.get())
            });
        }
    }

    /// An `fsync` of a few pages took so long. If that shows another kind of device, the scheduler
    /// restarts for it.
    fn learn(&self, guarded: &mut Guarded, took: Nanos) {
        if self.control.learns_device.load(Relaxed) == 0 {
            return;
        }
        if let Some(kind) = guarded.learner.saw(self.control.rotational(), took) {
            self.control.rotational.store(kind.into(), Relaxed);
            self.restart(guarded);
        }
    }

    /// The task's slot is free. If the return was not `reported` to the scheduler, the slot looks
    /// like that of a dead thread, so that [`IoRegion::reap`] reports it.
    fn free(&self, ticket: &Ticket, reported: bool) {
        let Some(slot) = ticket.slot(self) else { return };
        if reported {
            slot.word.store(FREE, Release);
        } else {
            slot.tid.store(gone::NO_THREAD, Relaxed);
        }
    }
}

impl Ticket {
    fn slot<'a>(&self, region: &'a IoRegion) -> Option<&'a TaskSlot> {
        region.tasks.get(usize::from(self.task?))
    }

    /// Whether the scheduler admitted it and is to hear of its return.
    fn is_running(&self, region: &IoRegion) -> bool {
        self.slot(region).is_some_and(|slot| slot.state() == RUNNING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::IoMapping;
    use crate::io::gone::SUSPECT_AFTER;
    use headworks_policy::split::SplitKind;
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
    fn a_return_without_the_lock_is_reported_later() {
        let region = region("lock");
        let file = region.file(1, 1, |_| 0).unwrap().slot;
        let tickets = [0, 1].map(|_| region.enter(CallKind::Fsync, 40, file, 4096));
        assert!(tickets.iter().all(|ticket| region.is_admitted(ticket)));
        let held = region.lock.acquire(|_| false).unwrap();
        // By other threads: this one has the lock.
        for ticket in tickets {
            std::thread::spawn(move || region.leave(ticket)).join().unwrap();
        }
        drop(held);
        assert_eq!(region.control.lock_busy.load(Relaxed), 2);
        assert_eq!(region.tasks[0].state(), RUNNING);
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
        let file = region.file(1, 1, |_| 0).unwrap().slot;
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
        region.leave(first);
        region.leave(second);
        for ticket in passed {
            region.leave(ticket);
        }
        let next = [0; 2].map(|_| region.enter(CallKind::Fsync, 40, file, 4096));
        assert!(next.iter().all(|ticket| region.is_admitted(ticket)), "the depth of two is free");
        for ticket in next {
            region.leave(ticket);
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
