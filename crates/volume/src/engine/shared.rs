//! The engine's core: what submitters, the timer and the workers do to the queue together.

#![expect(
    clippy::vec_box,
    clippy::boxed_local,
    reason = "commands go from the queue to the timer and the workers by their address"
)]

use super::counters::{Counters, Counts};
use super::perform::{perform, perform_at_once};
use super::queue::{Command, Next, Part, Queue};
use super::timer::{Event, Timer};
use super::workers::Workers;
use super::{Causes, EngineConfig, Submission, TRANSFER_BYTES_MAX};
use crate::clock;
use crate::layer::{Fault, Layer};
use crate::store::Store;
use headworks_policy::Nanos;
use headworks_policy::block::{BlockScheduler, Noop, Operation, Request, SECTOR_BYTES};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The queue, and the time of the next call of the scheduler that it asked for.
struct Queued {
    queue: Queue,
    asked_at: Option<Nanos>,
}

/// Held by the engine's threads: a panic in one ends the process. A queue without its thread would
/// leave its users hanging; without the process they get errors.
pub(super) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("headworks: a thread of a volume panicked; the volume ends");
            std::process::abort();
        }
    }
}

/// What the threads of an engine share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) timer: Timer,
    pub(super) workers: Workers,
    /// None if requests go straight to the store, in order of arrival.
    queued: Option<Mutex<Queued>>,
    layers: Mutex<Vec<Box<dyn Layer>>>,
    has_layers: bool,
    inline: bool,
    counters: Counters,
    /// Submitted and not answered, without those done within `submit`.
    outstanding: AtomicU64,
    /// Nanoseconds by which completions are reported early.
    lead_ns: AtomicU64,
    idle: Mutex<()>,
    became_idle: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(config: EngineConfig) -> Shared {
        let EngineConfig { store, model, scheduler, layers } = config;
        let queued = (model.is_some() || scheduler.is_some()).then(|| {
            let scheduler = scheduler.unwrap_or_else(|| Box::new(Noop::default()));
            Mutex::new(Queued { queue: Queue::new(scheduler, model), asked_at: None })
        });
        Shared {
            inline: store.is_fast(),
            store,
            timer: Timer::default(),
            workers: Workers::default(),
            queued,
            has_layers: !layers.is_empty(),
            layers: Mutex::new(layers),
            counters: Counters::default(),
            outstanding: AtomicU64::new(0),
            lead_ns: AtomicU64::new(0),
            idle: Mutex::new(()),
            became_idle: Condvar::new(),
        }
    }

    /// Whether there is nothing to decide and nothing to wait for.
    pub(super) fn is_direct(&self) -> bool {
        self.inline && self.queued.is_none() && !self.has_layers
    }

    /// Whether each thread calls the store itself, without a queue.
    pub(super) fn is_inline(&self) -> bool {
        self.inline
    }

    fn check(&self, submission: &Submission) -> Result<(), i32> {
        let len = submission.len_bytes();
        let inside = submission.request.end() <= self.store.size_bytes() / SECTOR_BYTES;
        let fits = match submission.request.operation {
            Operation::Read => len <= TRANSFER_BYTES_MAX,
            Operation::Write => len <= TRANSFER_BYTES_MAX && submission.data.len() as u64 == len,
            Operation::Flush => len == 0,
            Operation::Discard | Operation::WriteZeroes => true,
        };
        if submission.whole && inside && fits { Ok(()) } else { Err(libc::EINVAL) }
    }

    pub(super) fn submit(shared: &Arc<Shared>, mut submission: Submission) {
        if let Err(errno) = shared.check(&submission) {
            (submission.done)(Err(io::Error::from_raw_os_error(errno)));
            return;
        }
        if shared.is_direct() {
            let result = perform(&*shared.store, &mut submission, None);
            let operation = submission.request.operation;
            shared.counters.add(operation, submission.len_bytes(), result.is_err());
            (submission.done)(result.map(|()| submission.data));
            return;
        }
        let came = clock::now();
        let (hold_until, fault) = shared.admit(came, &submission.request);
        shared.outstanding.fetch_add(1, Ordering::Relaxed);
        let part = Part { submission, came, fault, result: Ok(()) };
        if hold_until > came {
            shared.timer.push(hold_until, Event::Enter(Box::new(part)));
        } else {
            Shared::enter(shared, part);
        }
    }

    /// The layers' verdicts: how long to hold the request, and its fault.
    fn admit(&self, came: Nanos, request: &Request) -> (Nanos, Option<Fault>) {
        let (mut at, mut fault) = (came, None);
        if self.has_layers {
            for layer in lock(&self.layers).iter_mut() {
                let verdict = layer.admit(at, request);
                at = at.max(verdict.hold_until);
                fault = fault.or(verdict.fault);
            }
        }
        (at, fault)
    }

    /// The layers let a request through.
    pub(super) fn enter(shared: &Arc<Shared>, part: Part) {
        let Some(queued) = &shared.queued else {
            let now = clock::now();
            let command =
                Command { index: None, started: now, due: now, first: part, merged: Vec::new() };
            Shared::begin(shared, vec![Box::new(command)]);
            return;
        };
        let mut queued = lock(queued);
        // Under the lock: schedulers and models rely on times that never run backwards.
        let now = clock::now();
        queued.queue.add(now, part);
        let commands = shared.pump(&mut queued, now);
        drop(queued);
        Shared::begin(shared, commands);
    }

    /// The scheduler asked to be called again.
    pub(super) fn ask(shared: &Arc<Shared>) {
        let Some(queued) = &shared.queued else { return };
        let mut queued = lock(queued);
        queued.asked_at = None;
        let now = clock::now();
        let commands = shared.pump(&mut queued, now);
        drop(queued);
        Shared::begin(shared, commands);
    }

    /// Changes the scheduler, which may let requests go that waited.
    pub(super) fn adjust(
        shared: &Arc<Shared>,
        change: &mut dyn FnMut(&mut dyn BlockScheduler) -> bool,
    ) -> bool {
        let Some(queued) = &shared.queued else { return false };
        let mut queued = lock(queued);
        let changed = change(queued.queue.scheduler());
        let commands = shared.pump(&mut queued, clock::now());
        drop(queued);
        Shared::begin(shared, commands);
        changed
    }

    /// Takes all commands that can start.
    fn pump(&self, queued: &mut Queued, now: Nanos) -> Vec<Box<Command>> {
        let mut commands = Vec::new();
        loop {
            match queued.queue.next(now) {
                Next::Start(command) => commands.push(command),
                Next::Idle => break,
                Next::Wait(until) => {
                    if queued.asked_at.is_none_or(|at| until < at) {
                        queued.asked_at = Some(until);
                        // A scheduler that answers "now" must not keep this loop running.
                        self.timer.push(until.max(now + Nanos(1)), Event::Ask);
                    }
                    break;
                }
            }
        }
        commands
    }

    /// Carries out commands that were given to the device.
    fn begin(shared: &Arc<Shared>, commands: Vec<Box<Command>>) {
        // In the order in which the device got them.
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            let done = match (shared.inline, command.is_plain()) {
                (true, _) => shared.carry_out(command),
                (false, true) => shared.carry_out_at_once(command),
                (false, false) => {
                    shared.workers.push(command);
                    None
                }
            };
            if let Some(command) = done {
                commands.extend(shared.settle(command));
            }
        }
    }

    /// Carries a command out if the store need not wait for a device, else passes it to a worker.
    /// Returns it if the device has completed it by then.
    fn carry_out_at_once(&self, mut command: Box<Command>) -> Option<Box<Command>> {
        let Some(result) = perform_at_once(&*self.store, &mut command.first.submission) else {
            self.workers.push(command);
            return None;
        };
        command.first.result = result;
        self.when_due(command)
    }

    /// Carries out one command, on a worker.
    pub(super) fn work(shared: &Arc<Shared>, command: Box<Command>) {
        if let Some(command) = shared.carry_out(command) {
            let commands = shared.settle(command);
            Shared::begin(shared, commands);
        }
    }

    /// Calls the store. Returns the command if the device has completed it by then.
    fn carry_out(&self, mut command: Box<Command>) -> Option<Box<Command>> {
        for part in command.parts_mut() {
            part.result = perform(&*self.store, &mut part.submission, part.fault);
        }
        self.when_due(command)
    }

    /// The store is done with a command. Returns it if the device has completed it, too.
    fn when_due(&self, command: Box<Command>) -> Option<Box<Command>> {
        let due = Nanos(command.due.0.saturating_sub(self.lead_ns.load(Ordering::Relaxed)));
        if due > clock::now() {
            self.timer.push(due, Event::Finish(command));
            return None;
        }
        Some(command)
    }

    /// The timer reports that the device has completed a command.
    pub(super) fn finish(shared: &Arc<Shared>, command: Box<Command>) {
        let commands = shared.settle(command);
        Shared::begin(shared, commands);
    }

    /// Takes a command off the device and answers its requests. Returns the commands that start
    /// instead.
    fn settle(&self, command: Box<Command>) -> Vec<Box<Command>> {
        let Some(queued) = &self.queued else {
            let now = clock::now();
            command.into_parts().for_each(|part| self.answer(now, part));
            return Vec::new();
        };
        let mut queued = lock(queued);
        let now = clock::now();
        let over = queued.queue.finish(now, *command);
        let commands = self.pump(&mut queued, now);
        drop(queued);
        let now = clock::now();
        for part in over {
            self.answer(now, part);
        }
        commands
    }

    fn answer(&self, now: Nanos, part: Part) {
        let Part { submission, came, result, .. } = part;
        let failed = result.is_err();
        self.counters.add(submission.request.operation, submission.len_bytes(), failed);
        if self.has_layers {
            for layer in lock(&self.layers).iter_mut() {
                layer.completed(now, &submission.request, came, failed);
            }
        }
        (submission.done)(result.map(|()| submission.data));
        // After the answer: a drain returns only when all completions have run.
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(lock(&self.idle));
            self.became_idle.notify_all();
        }
    }

    pub(super) fn drain(&self) {
        let mut idle = lock(&self.idle);
        while self.outstanding.load(Ordering::Acquire) > 0 {
            idle = self.became_idle.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn stop(&self) {
        self.timer.stop();
        self.workers.stop();
    }

    pub(super) fn read_now(&self, offset: u64, into: &mut [u8]) -> Option<io::Result<()>> {
        if !self.is_direct() {
            return None;
        }
        let result = self.store.read(offset, into);
        self.counters.add(Operation::Read, into.len() as u64, result.is_err());
        Some(result)
    }

    pub(super) fn write_now(&self, offset: u64, from: &[u8], fua: bool) -> Option<io::Result<()>> {
        if !self.is_direct() {
            return None;
        }
        let result = self.store.write(offset, from, fua);
        self.counters.add(Operation::Write, from.len() as u64, result.is_err());
        Some(result)
    }

    pub(super) fn set_causes(&self, causes: Box<dyn Causes>) -> bool {
        let Some(queued) = &self.queued else { return false };
        lock(queued).queue.set_causes(causes);
        true
    }

    pub(super) fn set_lead(&self, lead: Nanos) {
        self.lead_ns.store(lead.0, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        let (merged, in_flight, lateness) =
            self.queued.as_ref().map_or_else(Default::default, |queued| {
                let queue = &lock(queued).queue;
                (queue.merged(), u64::from(queue.in_flight()), queue.lateness())
            });
        Counts {
            read: self.counters.read(Operation::Read),
            write: self.counters.read(Operation::Write),
            flush: self.counters.read(Operation::Flush),
            discard: self.counters.read(Operation::Discard),
            write_zeroes: self.counters.read(Operation::WriteZeroes),
            merged,
            outstanding: self.outstanding.load(Ordering::Relaxed),
            in_flight,
            lateness,
        }
    }

    pub(super) fn forget_counts(&self) {
        self.counters.forget();
        if let Some(queued) = &self.queued {
            lock(queued).queue.forget_lateness();
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, Vec<(String, f64)>)> {
        lock(&self.layers).iter().map(|layer| (layer.name(), layer.figures())).collect()
    }
}
