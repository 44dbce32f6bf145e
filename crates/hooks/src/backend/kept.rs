//! The bytes of a queued request: read from the kernel, but not yet given to the server.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes that are kept while their request waits: eight times what PostgreSQL reads at once.
/// Costs no memory until a request is held.
pub(super) const MAX: usize = 64 << 10;

struct Kept(UnsafeCell<[u8; MAX]>);

// SAFETY: only `keep` and `deliver` touch it. They are called by the one thread that reads from the
// client: a backend has no other. A hook inside a hook comes to neither.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new([0; MAX]));
static KEPT_FROM: AtomicUsize = AtomicUsize::new(0);
static KEPT_TO: AtomicUsize = AtomicUsize::new(0);

/// Keeps the bytes of one receipt. None may be kept already.
pub(super) fn keep(bytes: &[u8]) {
    // SAFETY: see `Kept`; the caller has looked at the length.
    let room = unsafe { &mut *KEPT.0.get() };
    if let Some(room) = room.get_mut(..bytes.len()) {
        room.copy_from_slice(bytes);
        KEPT_FROM.store(0, Ordering::Relaxed);
        KEPT_TO.store(bytes.len(), Ordering::Relaxed);
    }
}

/// Copies the kept bytes into the server's buffer and returns how many. The rest comes with the
/// next call. `None` if there are none. This also works when the gate is off.
pub fn deliver(buffer: &mut [u8]) -> Option<usize> {
    let (from, to) = (KEPT_FROM.load(Ordering::Relaxed), KEPT_TO.load(Ordering::Relaxed));
    if from == to {
        return None;
    }
    // SAFETY: see `Kept`.
    let kept = unsafe { &*KEPT.0.get() }.get(from..to)?;
    let count = kept.len().min(buffer.len());
    buffer.get_mut(..count)?.copy_from_slice(kept.get(..count)?);
    KEPT_FROM.store(from + count, Ordering::Relaxed);
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_once_and_in_order_however_small_the_buffers() {
        assert_eq!(deliver(&mut [0; 8]), None);
        keep(b"abcdefg");
        let mut three = [0; 3];
        let mut all: Vec<u8> = Vec::new();
        while let Some(count) = deliver(&mut three) {
            all.extend(&three[..count]);
        }
        assert_eq!(all, b"abcdefg");
        keep(b"xy");
        let mut eight = [0; 8];
        assert_eq!((deliver(&mut eight), &eight[..2]), (Some(2), &b"xy"[..]));
        assert_eq!(deliver(&mut eight), None);
    }
}
