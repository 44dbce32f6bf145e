//! Callers, a scheduler and a device, simulated. The device serves one access after the other.

use headworks_policy::Nanos;
use headworks_policy::block::{IoClass, Operation, Request};
use headworks_policy::split::{
    Account, Call, CauseSet, Cleaned, Criticality, DeviceCost, Dirtied, Entry, PAGE_BYTES,
    Scheduler, Step, Task,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a caller does again and again.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Makes so many pages at random places dirty, and calls `fsync`.
    Fsync(u32),
    /// Makes so many pages of its file dirty, which the flusher never writes.
    Write(u32),
    /// Reads a page that is not cached.
    Read,
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub account: Account,
    pub criticality: Criticality,
    pub work: Work,
    pub deadline: Nanos,
    /// Time between an answer and the next call.
    pub thinks: Nanos,
}

/// One call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub caller: usize,
    pub called: Nanos,
    pub admitted: Nanos,
    pub returned: Nanos,
    /// Device time that was charged for it.
    pub charged: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Lands(usize, u64),
    Returns(usize),
    Calls(usize),
    Looks,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    call: Call,
    called: Nanos,
    admitted: Nanos,
    held: bool,
    /// Pages of this call that are dirty and not begun.
    left: u32,
    /// Counts the calls: a piece may land after its call has gone on.
    number: u64,
}

pub struct Machine<'a> {
    pub scheduler: &'a mut dyn Scheduler,
    pub done: Vec<Done>,
    /// Calls that waited although nothing may hold them.
    pub wrongly_held: usize,
    callers: Vec<Caller>,
    states: Vec<State>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    now: Nanos,
    end: Nanos,
    device_free: Nanos,
}

/// Device time of one page at a random place.
pub fn page() -> Nanos {
    DeviceCost::DISK.runs(1, PAGE_BYTES)
}

pub fn times(time: Nanos, count: u32) -> Nanos {
    Nanos(time.0 * u64::from(count))
}

/// Lets the callers call for so long, and goes on until all calls have ended. `never_held` says of
/// which calls the scheduler promises that it does not hold them.
pub fn run<'a>(
    scheduler: &'a mut dyn Scheduler,
    callers: &[Caller],
    time: Nanos,
    never_held: impl Fn(&Caller) -> bool,
) -> Machine<'a> {
    let begin = Nanos::from_millis(100_000);
    let mut machine = Machine {
        scheduler,
        done: Vec::new(),
        wrongly_held: 0,
        callers: callers.to_vec(),
        states: vec![State::default(); callers.len()],
        events: BinaryHeap::new(),
        now: begin,
        end: begin + time,
        device_free: begin,
    };
    for (at, _) in callers.iter().enumerate() {
        machine.at(begin + Nanos(at as u64), Event::Calls(at));
    }
    while let Some(Reverse((now, event))) = machine.events.pop() {
        assert!(now.since(machine.end) < Nanos::from_millis(600_000), "some call never ends");
        machine.now = machine.now.max(now);
        match event {
            Event::Calls(at) => machine.calls(at, &never_held),
            Event::Lands(at, number) => machine.lands(at, number),
            Event::Returns(at) => machine.returns(at),
            Event::Looks => {}
        }
        machine.pump();
    }
    machine
}

impl Machine<'_> {
    fn at(&mut self, time: Nanos, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    /// The device will be done with so much more work at this time.
    fn device(&mut self, work: Nanos) -> Nanos {
        self.device_free = self.device_free.max(self.now) + work;
        self.device_free
    }

    fn read(&self, at: usize) -> Request {
        let caller = &self.callers[at];
        let class = match caller.criticality {
            Criticality::Background => IoClass::Idle,
            _ => IoClass::BestEffort,
        };
        Request {
            operation: Operation::Read,
            sector: 0,
            sectors: 8,
            fua: false,
            sync: true,
            cause: caller.account.into(),
            class,
            level: 4,
            deadline: None,
            continues: false,
        }
    }

    fn calls(&mut self, at: usize, never_held: &impl Fn(&Caller) -> bool) {
        if self.now >= self.end {
            return;
        }
        let (caller, now, task) = (self.callers[at], self.now, at as Task);
        let pieces = match caller.work {
            Work::Fsync(pieces) | Work::Write(pieces) => pieces,
            Work::Read => 0,
        };
        let call = Call {
            account: caller.account,
            file: at as u32,
            bytes: u64::from(pieces) * PAGE_BYTES,
            pieces,
            deadline: caller.deadline,
            criticality: caller.criticality,
            direct: 0,
        };
        let number = self.states[at].number + 1;
        let left = if matches!(caller.work, Work::Fsync(_)) { pieces } else { 0 };
        self.states[at] = State { call, called: now, left, number, ..State::default() };
        if left > 0 {
            self.dirties(at, pieces);
        }
        let entry = match caller.work {
            Work::Fsync(_) => self.scheduler.fsync_entry(now, task, &call),
            Work::Write(_) => self.scheduler.write_entry(now, task, &call),
            Work::Read => {
                let read = self.read(at);
                self.scheduler.req_add(now, task, &read)
            }
        };
        match entry {
            Entry::Go => self.admit(at),
            Entry::Wait => {
                self.wrongly_held += usize::from(never_held(&caller));
                self.states[at].held = true;
            }
        }
    }

    fn dirties(&mut self, at: usize, pieces: u32) {
        let dirtied = Dirtied {
            account: self.callers[at].account,
            file: at as u32,
            new_bytes: u64::from(pieces) * PAGE_BYTES,
            cost: times(page(), pieces),
            ..Dirtied::default()
        };
        self.scheduler.buffer_dirty(self.now, &dirtied);
    }

    fn cleans(&mut self, at: usize, pieces: u32) {
        let cleaned = Cleaned {
            causes: CauseSet::of(self.callers[at].account),
            file: at as u32,
            bytes: u64::from(pieces) * PAGE_BYTES,
            charged: times(page(), pieces),
            cost: times(page(), pieces),
        };
        self.scheduler.buffer_clean(self.now, &cleaned);
    }

    fn admit(&mut self, at: usize) {
        (self.states[at].held, self.states[at].admitted) = (false, self.now);
        let work = match self.callers[at].work {
            // What is left, and the commit.
            Work::Fsync(_) => times(page(), self.states[at].left + 1),
            Work::Read => page(),
            Work::Write(pieces) => {
                self.dirties(at, pieces);
                return self.at(self.now + Nanos(1_000), Event::Returns(at));
            }
        };
        let end = self.device(work);
        self.at(end, Event::Returns(at));
    }

    fn lands(&mut self, at: usize, number: u64) {
        self.cleans(at, 1);
        let State { held, left, number: current, .. } = self.states[at];
        if held && number == current {
            self.scheduler.written_back(self.now, at as Task, 1, left);
        }
    }

    fn returns(&mut self, at: usize) {
        let (caller, state, task) = (self.callers[at], self.states[at], at as Task);
        let took = self.now - state.admitted;
        let charged = match caller.work {
            Work::Fsync(pieces) => {
                if state.left > 0 {
                    self.cleans(at, state.left);
                }
                self.scheduler.fsync_return(self.now, task, &state.call, took);
                times(page(), pieces + 1)
            }
            Work::Write(pieces) => {
                self.scheduler.write_return(self.now, task, &state.call);
                times(page(), pieces)
            }
            Work::Read => {
                let read = self.read(at);
                self.scheduler.req_complete(self.now, task, &read, page());
                page()
            }
        };
        let (called, admitted) = (state.called, state.admitted);
        self.done.push(Done { caller: at, called, admitted, returned: self.now, charged });
        self.at(self.now + caller.thinks, Event::Calls(at));
    }

    fn pump(&mut self) {
        for _ in 0..10_000 {
            match self.scheduler.dispatch(self.now) {
                Step::Admit(task) => self.admit(usize::from(task)),
                Step::Writeback { task, pieces } => {
                    let at = usize::from(task);
                    let begun = pieces.min(self.states[at].left);
                    self.states[at].left -= begun;
                    for _ in 0..begun {
                        let end = self.device(page());
                        self.at(end, Event::Lands(at, self.states[at].number));
                    }
                    if pieces > begun {
                        let left = self.states[at].left;
                        self.scheduler.written_back(self.now, task, pieces - begun, left);
                    }
                }
                Step::Wait(until) => {
                    assert!(until > self.now, "the driver would spin");
                    return self.at(until, Event::Looks);
                }
                Step::Idle => return,
            }
        }
        panic!("the scheduler has always something to say");
    }
}
