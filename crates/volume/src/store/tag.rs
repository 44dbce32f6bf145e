//! Whose a request is, on its way through stores.
//!
//! A store has no use for that, except one that passes requests on to a server which tells
//! applications apart. A request is at a store in one thread, so its tag is kept there.

use std::cell::Cell;

thread_local! {
    static TAG: Cell<u16> = const { Cell::new(0) };
}

/// Calls a store for a request with this tag.
pub(crate) fn with<T>(tag: u16, call: impl FnOnce() -> T) -> T {
    let before = TAG.replace(tag);
    let result = call();
    TAG.set(before);
    result
}

/// The tag of the request that this thread has at a store. Zero if it has none.
pub(crate) fn current() -> u16 {
    TAG.get()
}
