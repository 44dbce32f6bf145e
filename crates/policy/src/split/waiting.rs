//! The tasks that wait: a bit and a record for each. Searches look at the set bits only; a few
//! hundred held calls are the worst case, and each of them stands for an I/O.

use super::bits::Bits;
use super::{Call, TASKS, Task};
use crate::Nanos;

/// A task that waits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Waiter {
    pub(super) call: Call,
    pub(super) arrived: Nanos,
    /// Free for the scheduler.
    pub(super) mark: u64,
}

crate::layout!(Waiter { call, arrived, mark });

/// All zero bytes: no task waits.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Waiting {
    tasks: Bits<{ TASKS / 64 }>,
    waiters: [Waiter; TASKS],
}

crate::layout!(Waiting { tasks, waiters });

impl Default for Waiting {
    fn default() -> Self {
        Waiting { tasks: Bits::default(), waiters: [Waiter::default(); TASKS] }
    }
}

impl Waiting {
    /// Adds a task. One that is no task is left out, and never named.
    pub(super) fn insert(&mut self, task: Task, waiter: Waiter) {
        if let Some(place) = self.waiters.get_mut(usize::from(task)) {
            *place = waiter;
            self.tasks.set(task, true);
        }
    }

    /// Takes a task out, if it waits.
    pub(super) fn remove(&mut self, task: Task) -> Option<Waiter> {
        self.tasks.set(task, false).then(|| self.waiters[usize::from(task)])
    }

    pub(super) fn contains(&self, task: Task) -> bool {
        self.tasks.has(task)
    }

    pub(super) fn get(&self, task: Task) -> Option<&Waiter> {
        self.contains(task).then(|| &self.waiters[usize::from(task)])
    }

    pub(super) fn get_mut(&mut self, task: Task) -> Option<&mut Waiter> {
        self.contains(task).then(|| &mut self.waiters[usize::from(task)])
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Task, &Waiter)> {
        self.tasks.iter().map(|task| (task, &self.waiters[usize::from(task)]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }
}
