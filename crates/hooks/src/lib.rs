//! Operations of every hook, as safe functions that tests can link.
//!
//! The preloaded library exports `recv`, `close` and the like. Each of them is a few unsafe lines
//! that call the real function and one operation of [`threads`]. The operations follow the protocol
//! ([`mysql`], [`postgres`]), keep one [`conn::Conn`] for each client connection, and admit
//! requests through the region.
//!
//! Every operation ends *handled*, or *bypassed* for a reason that is counted. None allocates,
//! blocks on a lock of ours for long, or panics on purpose. If one panics all the same, the
//! [`barrier`] catches it, and the connection bypasses the gate from then on.

mod alternate_stack;
pub mod backend;
pub mod barrier;
mod biased_lock;
pub mod channel;
pub mod conn;
pub mod declared_locks;
pub mod early;
pub mod eventloop;
pub mod files;
pub mod generic;
pub mod holding;
pub mod identity;
pub mod lifecycle;
pub mod locks;
pub mod memcached;
pub mod mongo;
pub mod mysql;
pub mod peer;
pub mod postgres;
pub mod process;
pub mod proxy_header;
pub mod redis;
mod room;
pub mod served;
pub mod server;
pub mod server_waits;
pub mod symbols;
pub mod threads;
pub mod tls;
pub mod traffic;
