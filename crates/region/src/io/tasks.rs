//! Tasks: calls as the scheduler knows them. What it is asked and told, and what it orders.

use super::layout::{CHANGE, Guarded, IoRegion, RUNNING, TaskSlot, WAITING};
use crate::lock::thread_exists;
use crate::{clock, futex};
use core::sync::atomic::Ordering::{Relaxed, Release};
use headworks_policy::Nanos;
use headworks_policy::block::{IoClass, Operation, Request, SECTOR_BYTES};
use headworks_policy::split::{
    Account, Call, CallKind, Criticality, Entry, PAGE_BYTES, Scheduler, Step, TASKS, Task,
};

impl IoRegion {
    /// Calls that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting_threads().count()
    }

    /// Threads whose calls wait now. Dead ones are left out: the next call that waits frees their
    /// slots.
    pub fn waiting_threads(&self) -> impl Iterator<Item = u32> + '_ {
        let waits = self.tasks.iter().filter(|slot| slot.state() == WAITING);
        waits.map(|slot| slot.tid.load(Relaxed)).filter(|tid| thread_exists(*tid))
    }
}

/// Asks the scheduler whether a call may run.
pub(super) fn ask(
    guarded: &mut Guarded,
    now: Nanos,
    task: Task,
    kind: CallKind,
    call: &Call,
) -> Entry {
    let scheduler = guarded.split.scheduler();
    match kind {
        CallKind::Write | CallKind::WriteDirect => scheduler.write_entry(now, task, call),
        CallKind::Fsync => scheduler.fsync_entry(now, task, call),
        CallKind::Commit => scheduler.commit_entry(now, task, call),
        CallKind::WriteRange => scheduler.range_entry(now, task, call),
        CallKind::Create => scheduler.creat_entry(now, task, call),
        CallKind::MakeDirectory => scheduler.mkdir_entry(now, task, call),
        CallKind::Read => scheduler.req_add(now, task, &read_request(call)),
        CallKind::ReadStream => scheduler.req_add(now, task, &stream_request(call)),
        CallKind::ReadCall => scheduler.read_entry(now, task, call),
    }
}

/// The scheduler hears of the return of a call.
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

fn read_request(call: &Call) -> Request {
    Request {
        operation: Operation::Read,
        sector: 0,
        sectors: u32::try_from(call.bytes.div_ceil(SECTOR_BYTES)).unwrap_or(u32::MAX),
        fua: false,
        sync: true,
        cause: call.account.into(),
        class: match call.criticality {
            Criticality::Background => IoClass::Idle,
            Criticality::Critical | Criticality::Guessed => IoClass::BestEffort,
        },
        level: 4,
        deadline: None,
        continues: false,
    }
}

/// A read of a stream. `sync` is false: the kernel reads ahead, and no call waits for that.
fn stream_request(call: &Call) -> Request {
    Request { sync: false, ..read_request(call) }
}

impl IoRegion {
    /// A small durable write or an `fsync` is submitted, of which the end is not seen. Says whether
    /// it is a commit to the scheduler, which then holds others for it.
    pub fn commits_unseen(&self, kind: CallKind, account: Account, file: u16, bytes: u64) -> bool {
        let criticality = self.criticality(account);
        let call = Call { account, file: file.into(), bytes, criticality, ..Call::default() };
        self.locked(|guarded| {
            let call = self.described(guarded, kind, call);
            guarded.split.scheduler().commits_unseen(clock::now(), &call)
        })
        .unwrap_or(false)
    }

    /// The call, with what is known of its file.
    pub(super) fn described(&self, guarded: &Guarded, kind: CallKind, mut call: Call) -> Call {
        if let Some(file) = guarded.tally.state(call.file as usize) {
            call.deadline = file.deadline;
            if matches!(kind, CallKind::Fsync | CallKind::WriteRange) {
                // What was given are pages of a mapping, which the tally does not know.
                call.bytes = call.bytes.max(file.pages * PAGE_BYTES);
            }
            if matches!(kind, CallKind::Fsync | CallKind::Write | CallKind::WriteRange) {
                call.pieces = u32::try_from(file.pieces).unwrap_or(u32::MAX);
            }
        }
        if matches!(kind, CallKind::Fsync | CallKind::Commit) {
            call.deadline = self.deadline(call.account, call.deadline);
        }
        call
    }

    /// A thread of a held call woke by so much later than it should have.
    pub fn woke_late(&self, by: Nanos) {
        self.locked(|guarded| guarded.split.scheduler().woke_late(by));
    }

    /// Drives the scheduler until it has nothing more to say. Returns when to ask again.
    pub(super) fn dispatch(&self, guarded: &mut Guarded, now: Nanos) -> Nanos {
        // Each step admits a task or orders pieces: more steps are nonsense in memory.
        for _ in 0..4 * TASKS {
            match guarded.split.scheduler().dispatch(now) {
                Step::Admit(task) => {
                    if let Some(slot) = self.tasks.get(usize::from(task)) {
                        self.resume(guarded, now, task, slot);
                    }
                }
                Step::Writeback { task, pieces } => {
                    if let Some(slot) = self.tasks.get(usize::from(task)) {
                        slot.orders.fetch_add(pieces, Relaxed);
                        slot.progress_ns.store(now.0, Relaxed);
                        slot.word.fetch_add(CHANGE, Release);
                        futex::wake(&slot.word, 1);
                    }
                }
                Step::Wait(until) => return until,
                Step::Idle => break,
            }
        }
        Nanos(u64::MAX)
    }

    /// The scheduler lets a call go. If its thread passed while the lock was busy, the turn is
    /// given back here. Says whether the thread waited for it.
    pub(super) fn resume(
        &self,
        guarded: &mut Guarded,
        now: Nanos,
        task: Task,
        slot: &TaskSlot,
    ) -> bool {
        slot.since_ns.store(now.0, Relaxed);
        let waited = slot.end_wait(RUNNING);
        if !waited {
            let (kind, call) = slot.call();
            returned(guarded, now, task, kind, &call, Nanos(0));
        }
        waited
    }

    /// A held call goes on if the scheduler agrees, as a client waits for it. Says whether it does.
    pub(super) fn resume_if(
        &self,
        now: Nanos,
        task: Task,
        agrees: impl FnOnce(&mut dyn Scheduler) -> bool,
    ) -> bool {
        let Some(slot) = self.tasks.get(usize::from(task)) else { return false };
        let resumed = self.locked(|guarded| {
            agrees(guarded.split.scheduler()) && self.resume(guarded, now, task, slot)
        });
        if resumed == Some(true) {
            self.inheritance.promoted.fetch_add(1, Relaxed);
        }
        resumed == Some(true)
    }

    /// Pieces have landed, or a direct write that was held. Under a scheduler that writes back for
    /// one call after the other, that is progress of all that wait for their turn. A call that
    /// passed meanwhile would write its pieces all at once.
    pub(super) fn note_progress(&self, guarded: &mut Guarded, now: Nanos) {
        let scheduler = guarded.split.scheduler();
        for (at, slot) in self.tasks.iter().enumerate() {
            if slot.state() == WAITING && scheduler.waits_in_turn(at as Task) {
                slot.progress_ns.store(now.0, Relaxed);
            }
        }
    }
}
