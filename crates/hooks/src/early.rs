//! The read that a server makes before it sleeps.
//!
//! After an answer, MariaDB and PostgreSQL read at once, are told that nothing is there, and only
//! then wait. A client that waits for its answer cannot have written more. So each request has one
//! useless call. After several such reads in a row found nothing, the hook may answer for the
//! kernel. If that is wrong, the wait that follows returns at once, and the server has made one
//! more call. Nothing is lost or late.
//!
//! This is learned from the kernel's answers, and only on connections whose reads do not block. A
//! read that blocks is never told that nothing is there.

use core::sync::atomic::{AtomicU8, Ordering};

/// So many early reads in a row must have found nothing before one is skipped.
const EMPTY_READS_BEFORE_SKIP: u8 = 8;

/// What the early reads of a connection found. All zero bits: nothing is known. Only for the thread
/// that serves the connection.
#[derive(Debug, Default)]
pub struct EarlyReads {
    /// Reads in a row that found nothing or were skipped.
    empty: AtomicU8,
}

impl EarlyReads {
    /// Nothing is known.
    pub const fn new() -> EarlyReads {
        EarlyReads { empty: AtomicU8::new(0) }
    }

    /// Forgets what it knows.
    pub fn forget(&self) {
        self.empty.store(0, Ordering::Relaxed);
    }

    /// Whether the next early read may be skipped, as it would find nothing. One in 248 is always
    /// made, to notice a client that writes ahead.
    pub fn leave_out(&self) -> bool {
        let empty = self.empty.load(Ordering::Relaxed);
        let left_out = (EMPTY_READS_BEFORE_SKIP..u8::MAX).contains(&empty);
        if left_out {
            self.empty.store(empty + 1, Ordering::Relaxed);
        }
        left_out
    }

    /// An early read was made.
    pub fn made(&self, found_nothing: bool) {
        let empty = match self.empty.load(Ordering::Relaxed) {
            _ if !found_nothing => 0,
            // This read was the one that is always made.
            u8::MAX => EMPTY_READS_BEFORE_SKIP,
            empty => empty + 1,
        };
        self.empty.store(empty, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_left_out_once_several_in_a_row_found_nothing() {
        let reads = EarlyReads::new();
        for _ in 0..EMPTY_READS_BEFORE_SKIP - 1 {
            assert!(!reads.leave_out());
            reads.made(true);
        }
        assert!(!reads.leave_out());
        reads.made(false);
        assert!(!reads.leave_out(), "something was there: the count restarts");
        for _ in 0..EMPTY_READS_BEFORE_SKIP {
            assert!(!reads.leave_out());
            reads.made(true);
        }
        assert!(reads.leave_out());
        reads.forget();
        assert!(!reads.leave_out());
    }

    #[test]
    fn now_and_then_one_is_made_all_the_same() {
        let reads = EarlyReads::new();
        (0..EMPTY_READS_BEFORE_SKIP).for_each(|_| reads.made(true));
        for _ in 0..3 {
            let left_out = (0..1000).take_while(|_| reads.leave_out()).count();
            assert_eq!(left_out, usize::from(u8::MAX - EMPTY_READS_BEFORE_SKIP));
            reads.made(true);
        }
        while reads.leave_out() {}
        reads.made(false);
        assert!(!reads.leave_out(), "the client writes ahead by now");
    }
}
