//! Shares of applications: who has which part of the device, settable while requests wait.
//!
//! # The primitive
//! An application is the cause of its requests ([`super::Request::cause`]). Its [`Share`] is a
//! weight and whether it is best effort. The list has room for [`REQUESTS`] applications; all
//! others have the usual share.
//!
//! # Worked example
//! Applications 1 and 2 have weights 300 and 100, application 3 is not in the list:
//! [`Share::USUAL`] is best effort with 100. While all three wait, they get 3/5, 1/5 and 1/5 of the
//! device.

use super::REQUESTS;

/// What an application is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Part of the device, in proportion to the weights of the others. At least one.
    pub weight: u32,
    /// It has no target: its requests in the device are also bounded together with those of all
    /// others of this kind.
    pub best_effort: bool,
}

impl Share {
    /// The share of an application of which nothing is known.
    pub const USUAL: Share = Share { weight: 100, best_effort: true };
}

impl Default for Share {
    fn default() -> Self {
        Share::USUAL
    }
}

/// The shares that were set.
#[derive(Clone, Debug)]
pub struct Shares {
    list: [(u32, Share); REQUESTS],
    len: usize,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { list: [(0, Share::USUAL); REQUESTS], len: 0 }
    }
}

impl Shares {
    /// The share of `cause`. Looks through the list: a scheduler asks once for each application
    /// that comes, not for each request.
    pub fn get(&self, cause: u32) -> Share {
        self.find(cause).map_or(Share::USUAL, |at| self.list[at].1)
    }

    /// Sets the share of `cause`, or forgets it. Says whether there was room.
    pub fn set(&mut self, cause: u32, share: Option<Share>) -> bool {
        match (self.find(cause), share) {
            (Some(at), Some(share)) => self.list[at].1 = at_least_one(share),
            (Some(at), None) => {
                self.len -= 1;
                self.list[at] = self.list[self.len];
            }
            (None, Some(share)) => {
                let Some(slot) = self.list.get_mut(self.len) else { return false };
                *slot = (cause, at_least_one(share));
                self.len += 1;
            }
            (None, None) => {}
        }
        true
    }

    /// Whether the share of `cause` was set.
    pub fn has(&self, cause: u32) -> bool {
        self.find(cause).is_some()
    }

    fn find(&self, cause: u32) -> Option<usize> {
        self.list[..self.len].iter().position(|(known, _)| *known == cause)
    }
}

fn at_least_one(share: Share) -> Share {
    Share { weight: share.weight.max(1), ..share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_set_and_forgotten() {
        let mut shares = Box::new(Shares::default());
        let of = |weight| Share { weight, best_effort: false };
        assert!(shares.set(7, Some(of(300))) && shares.set(8, Some(of(0))));
        assert_eq!((shares.get(7), shares.get(8), shares.get(9)), (of(300), of(1), Share::USUAL));
        assert!(shares.set(7, None) && !shares.has(7));
        assert_eq!((shares.get(7), shares.get(8)), (Share::USUAL, of(1)));
    }

    #[test]
    fn the_list_has_an_end() {
        let mut shares = Box::new(Shares::default());
        for cause in 0..REQUESTS as u32 {
            assert!(shares.set(cause, Some(Share::USUAL)));
        }
        assert!(!shares.set(5_000, Some(Share::USUAL)));
        assert!(shares.set(0, None) && shares.set(5_000, Some(Share::USUAL)));
    }
}
