//! `libheadworks.so`: the symbols that interpose on the C library's, and nothing else.
//!
//! Each hook calls the real function and, before or after it, one safe operation of
//! `headworks-hooks`. No code of ours is active during the real call: it may be cancelled or
//! interrupted, and its result and errno reach the caller unchanged.
//!
//! Nothing links this crate: it exports `close`.

mod batches;
mod closings;
mod files;
mod hooks;
mod locks;
mod loops;
mod mappings;
mod processes;
mod real;
mod receiving;
mod start;
mod streams;
mod tls;
#[cfg(target_arch = "x86_64")]
mod unwinder;
mod waits;
