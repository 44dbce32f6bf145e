//! Who caused an I/O: a small set of accounts.
//!
//! Metadata is shared and I/O is batched, so that a page or a request may have several causes
//! (Split, section 2.3.1). A proxy (a flusher, a journal's thread) has the union of the causes for
//! which it works.

use super::Account;

/// Accounts that a set names. A further one takes the place of the oldest: its part of the cost is
/// then borne by the last ones.
pub const CAUSES: usize = 4;

/// A set of up to [`CAUSES`] accounts. All zero bytes are the empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CauseSet {
    /// Account plus one; zero is no account. The last one comes first.
    members: [u16; CAUSES],
}

crate::layout!(CauseSet { members });

impl CauseSet {
    /// One account.
    pub const fn of(account: Account) -> Self {
        let mut members = [0; CAUSES];
        members[0] = account.saturating_add(1);
        CauseSet { members }
    }

    /// Adds an account.
    pub fn insert(&mut self, account: Account) {
        let member = account.saturating_add(1);
        let at = self.members.iter().position(|found| *found == member || *found == 0);
        let at = at.unwrap_or(CAUSES - 1);
        self.members.copy_within(..at, 1);
        self.members[0] = member;
    }

    /// Adds all accounts of another set.
    pub fn union(&mut self, other: CauseSet) {
        for account in other.iter() {
            self.insert(account);
        }
    }

    /// The accounts.
    pub fn iter(self) -> impl Iterator<Item = Account> {
        self.members.into_iter().take_while(|member| *member != 0).map(|member| member - 1)
    }

    /// How many.
    pub fn len(self) -> usize {
        self.iter().count()
    }

    /// Whether no account is in it.
    pub const fn is_empty(self) -> bool {
        self.members[0] == 0
    }

    /// Calls `charge` with each account and its equal part of `amount`.
    pub fn share(self, amount: u64, mut charge: impl FnMut(Account, u64)) {
        let count = self.len() as u64;
        for (at, account) in self.iter().enumerate() {
            // The first ones bear the remainder.
            let part = amount / count + u64::from((at as u64) < amount % count);
            charge(account, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_account_once_and_the_last_four() {
        let mut set = CauseSet::default();
        assert!(set.is_empty());
        for account in [7, 8, 7, 9, 0, 7] {
            set.insert(account);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [7, 0, 9, 8]);
        set.insert(5);
        assert_eq!(set.iter().collect::<Vec<_>>(), [5, 7, 0, 9], "the oldest is forgotten");
        let mut proxy = CauseSet::of(1);
        proxy.union(set);
        assert_eq!(proxy.len(), CAUSES);
    }

    #[test]
    fn a_cost_is_shared_without_remainder() {
        let mut set = CauseSet::of(3);
        set.insert(4);
        set.insert(5);
        let mut parts = [0u64; 8];
        set.share(10, |account, part| parts[usize::from(account)] += part);
        assert_eq!(parts.iter().sum::<u64>(), 10);
        assert_eq!(parts[3..6].iter().max(), Some(&4));
    }
}
