//! The tasks that wait: a bit and a record for each. Searches look at the set bits only; a few
//! hundred held calls are the worst case, and each of them stands for an I/O.

use super::{Call, TASKS, Task};
use crate::Nanos;

const WORDS: usize = TASKS / 64;

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

/// All zero bytes: nobody waits.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Waiting {
    bits: [u64; WORDS],
    waiters: [Waiter; TASKS],
}

crate::layout!(Waiting { bits, waiters });

impl Default for Waiting {
    fn default() -> Self {
        Waiting { bits: [0; WORDS], waiters: [Waiter::default(); TASKS] }
    }
}

impl Waiting {
    /// Adds a task. One that is no task is left out, and never named.
    pub(super) fn insert(&mut self, task: Task, waiter: Waiter) {
        if let Some(place) = self.waiters.get_mut(usize::from(task)) {
            *place = waiter;
            self.bits[usize::from(task) / 64] |= 1 << (task % 64);
        }
    }

    /// Takes a task out, if it waits.
    pub(super) fn remove(&mut self, task: Task) -> Option<Waiter> {
        if !self.contains(task) {
            return None;
        }
        self.bits[usize::from(task) / 64] &= !(1 << (task % 64));
        Some(self.waiters[usize::from(task)])
    }

    pub(super) fn contains(&self, task: Task) -> bool {
        self.bits.get(usize::from(task) / 64).is_some_and(|word| word & 1 << (task % 64) != 0)
    }

    pub(super) fn get(&self, task: Task) -> Option<&Waiter> {
        self.contains(task).then(|| &self.waiters[usize::from(task)])
    }

    pub(super) fn get_mut(&mut self, task: Task) -> Option<&mut Waiter> {
        self.contains(task).then(|| &mut self.waiters[usize::from(task)])
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Task, &Waiter)> {
        self.bits.iter().enumerate().flat_map(move |(at, word)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
            .map(move |index| (index as Task, &self.waiters[index]))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    pub(super) fn len(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }
}
