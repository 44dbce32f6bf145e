//! Passes of all accounts: which of several goes next, so that each has its share.
//!
//! An account's pass grows by the [stride](crate::stride) of what it uses. The account with the
//! least pass goes next. An account that was away comes back at a pass that the caller gives, so
//! that no account saves up a share.

use super::{ACCOUNTS, Account, USUAL_LEVEL};
use crate::Nanos;
use crate::stride::stride;

/// Passes and levels of all accounts. Those beyond [`ACCOUNTS`] go last.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Strides {
    pass: [u64; ACCOUNTS],
    level: [u8; ACCOUNTS],
}

crate::layout!(Strides { pass, level });

impl Default for Strides {
    fn default() -> Self {
        Strides { pass: [0; ACCOUNTS], level: [USUAL_LEVEL; ACCOUNTS] }
    }
}

impl Strides {
    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self) {
        self.level.fill(USUAL_LEVEL);
    }

    pub(super) fn set_level(&mut self, account: Account, level: u8) {
        if let Some(own) = self.level.get_mut(usize::from(account)) {
            *own = level.min(7);
        }
    }

    /// The account is another thread's from now on.
    pub(super) fn forget(&mut self, account: Account) {
        if let Some(pass) = self.pass.get_mut(usize::from(account)) {
            *pass = 0;
        }
    }

    pub(super) fn charge(&mut self, account: Account, cost: Nanos) {
        let Some(pass) = self.pass.get_mut(usize::from(account)) else { return };
        let more = stride(cost, self.level[usize::from(account)]);
        *pass = pass.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
    }

    pub(super) fn pass_of(&self, account: Account) -> u64 {
        self.pass.get(usize::from(account)).copied().unwrap_or(u64::MAX)
    }

    /// The account's pass is this one at least.
    pub(super) fn raise(&mut self, account: Account, floor: u64) {
        if let Some(pass) = self.pass.get_mut(usize::from(account)) {
            *pass = (*pass).max(floor);
        }
    }
}
