//! `libheadworks.so`: the symbols that stand before the C library's, and nothing else.
//!
//! Each hook calls the real function and, before or after it, one safe operation of
//! `headworks-hooks`. The real call is made outside everything of ours: it may be cancelled or
//! interrupted, and its result and errno reach the caller as they are.
//!
//! Linked into nothing: it exports `close`.

mod batches;
mod closings;
mod files;
mod hooks;
mod locks;
mod loops;
mod mappings;
mod processes;
mod real;
mod start;
mod streams;
mod tls;
mod waits;
