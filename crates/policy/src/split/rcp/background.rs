//! What the scheduler keeps of the background's accounts: shares, limits, and what they dirtied.
//!
//! # Terms
//! * *pass*: what an account used, by its weight ([`super::super::strides`]).
//! * *unpaid*: of a task: it waits for tokens of its account ([`super::super::token`]).
//!
//! # The primitive
//! Passes matter once rules give accounts different levels. An account that was away comes back at
//! the least pass of those that wait, so that no account saves up a share. What an account dirties
//! counts as the background's if its last write was one of the background. The account may have
//! become critical by the time it is clean.

use super::super::bits::Bits;
use super::super::dirty::Dirty;
use super::super::strides::Strides;
use super::super::token::Token;
use super::super::waiting::{Waiter, Waiting};
use super::super::{
    ACCOUNTS, Account, AccountSettings, Call, CauseSet, Cleaned, Criticality, DeviceCost, Dirtied,
    Freed, Scheduler, Task, USUAL_LEVEL,
};
use crate::Nanos;

/// What an unpaid task is about to do, as its mark.
pub(super) const WRITE: u64 = 0;
pub(super) const READ: u64 = 1;

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Background {
    strides: Strides,
    /// The largest pass with which a task went on.
    reached: u64,
    /// Limits.
    pub(super) tokens: Token,
    /// Their mark says for which call.
    unpaid: Waiting,
    /// Bytes that accounts have dirtied while they were background.
    dirty: Dirty,
    /// Accounts some of whose bytes `dirty` may count.
    dirtied: Bits<{ ACCOUNTS / 64 }>,
    /// Accounts whose last write was one of the background.
    writers: Bits<{ ACCOUNTS / 64 }>,
    /// Not zero: accounts have different levels.
    ranked: u64,
}

crate::layout!(Background { strides, reached, tokens, unpaid, dirty, dirtied, writers, ranked });

impl Background {
    pub(super) fn new(device: DeviceCost) -> Self {
        Background {
            strides: Strides::default(),
            reached: 0,
            tokens: Token::new(device),
            unpaid: Waiting::default(),
            dirty: Dirty::default(),
            dirtied: Bits::default(),
            writers: Bits::default(),
            ranked: 0,
        }
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, device: DeviceCost) {
        self.strides.begin();
        self.tokens.begin(device);
    }

    pub(super) fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        self.strides.set_level(account, settings.level);
        self.ranked |= u64::from(settings.level != USUAL_LEVEL);
        self.tokens.set_account(now, account, settings);
    }

    pub(super) fn forget_account(&mut self, account: Account) {
        self.strides.forget(account);
        self.tokens.forget_account(account);
    }

    /// Puts an account in its place among those that wait: what it did not use while it was away is
    /// lost.
    pub(super) fn takes_its_place(
        &mut self,
        account: Account,
        waiting: impl Iterator<Item = Account>,
    ) {
        if self.ranked != 0 {
            let least = waiting.map(|account| self.strides.pass_of(account)).min();
            self.strides.raise(account, least.map_or(self.reached, |pass| pass.min(self.reached)));
        }
    }

    /// Of accounts that wait for the same, the one with the least goes first.
    pub(super) fn rank(&self) -> impl Fn(Account) -> u64 {
        let (strides, ranked) = (&self.strides, self.ranked != 0);
        move |account| if ranked { strides.pass_of(account) } else { 0 }
    }

    /// A call of this account goes on: accounts that come back begin at its pass.
    pub(super) fn goes(&mut self, account: Account) {
        if self.ranked != 0 {
            self.reached = self.reached.max(self.strides.pass_of(account));
        }
    }

    /// An account has used so much of the device.
    pub(super) fn uses(&mut self, account: Account, cost: Nanos) {
        if self.ranked != 0 {
            self.strides.charge(account, cost);
        }
    }

    /// A task waits for tokens if its account has none. Says whether it does.
    pub(super) fn waits_for_tokens(
        &mut self,
        now: Nanos,
        task: Task,
        call: &Call,
        kind: u64,
    ) -> bool {
        let waits = self.tokens.wait(now, call.account) > Nanos(0);
        if waits {
            self.unpaid.insert(task, Waiter { call: *call, arrived: now, mark: kind });
        }
        waits
    }

    /// The next task whose account has tokens, or else the time when the next account has some.
    pub(super) fn next_paid(&mut self, now: Nanos) -> Result<(Task, Waiter), Nanos> {
        let wait = |(task, waiter): (Task, &Waiter)| {
            (self.tokens.wait(now, waiter.call.account), waiter.arrived, task)
        };
        match self.unpaid.iter().map(wait).min() {
            Some((Nanos(0), _, task)) => {
                self.unpaid.remove(task).map(|waiter| (task, waiter)).ok_or(now)
            }
            Some((wait, ..)) => Err(now + wait),
            None => Err(Nanos(u64::MAX)),
        }
    }

    /// The task waits for tokens no more. Says whether it did.
    pub(super) fn remove(&mut self, task: Task) -> bool {
        self.unpaid.remove(task).is_some()
    }

    /// When the task came, if it waits for tokens.
    pub(super) fn arrived(&self, task: Task) -> Option<Nanos> {
        self.unpaid.get(task).map(|waiter| waiter.arrived)
    }

    /// Tasks that wait for tokens.
    pub(super) fn waiting(&self) -> usize {
        self.unpaid.len()
    }

    /// An account writes.
    pub(super) fn writes(&mut self, call: &Call) {
        self.writers.set(call.account, call.criticality == Criticality::Background);
    }

    /// Bytes that are dirty by the background.
    pub(super) fn dirty(&mut self, now: Nanos) -> u64 {
        self.dirty.at(now)
    }

    pub(super) fn dirties(&mut self, now: Nanos, dirtied: &Dirtied) {
        if !self.writers.has(dirtied.account) {
            return;
        }
        self.tokens.buffer_dirty(now, dirtied);
        if dirtied.new_bytes > 0 {
            self.dirtied.set(dirtied.account, true);
            self.dirty.add(now, dirtied.new_bytes);
        }
    }

    pub(super) fn frees(&mut self, now: Nanos, freed: &Freed) {
        self.revise(now, freed.causes, (freed.cost, Nanos(0)), freed.bytes);
    }

    pub(super) fn cleans(&mut self, now: Nanos, cleaned: &Cleaned) {
        self.revise(now, cleaned.causes, (cleaned.charged, cleaned.cost), cleaned.bytes);
    }

    /// So many bytes are dirty no more. Only what accounts dirtied in the background was charged
    /// and counted.
    fn revise(
        &mut self,
        now: Nanos,
        causes: CauseSet,
        charged_and_cost: (Nanos, Nanos),
        bytes: u64,
    ) {
        let (dirtied, writers) = (self.dirtied, self.writers);
        self.tokens.revise(now, causes, charged_and_cost, |account| {
            dirtied.has(account) && writers.has(account)
        });
        let mut gone = 0;
        causes.share(bytes, |account, part| {
            gone += if dirtied.has(account) { part } else { 0 };
        });
        self.dirty.remove(gone);
        if self.dirty.at(now) == 0 {
            self.dirtied = Bits::default();
        }
    }
}
