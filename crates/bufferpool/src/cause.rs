//! For whom a thread works: the tag of its page reads, and of the writes of pages that it dirties.

use std::cell::Cell;

thread_local! {
    static CAUSE: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's cause; 0 is nobody.
#[must_use]
pub fn current() -> u32 {
    CAUSE.get()
}

/// Runs `work` for `cause` (a user's number, for example the gate's slot), then restores the old one.
pub fn with<T>(cause: u32, work: impl FnOnce() -> T) -> T {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            CAUSE.set(self.0);
        }
    }
    let _restore = Restore(CAUSE.replace(cause));
    work()
}
