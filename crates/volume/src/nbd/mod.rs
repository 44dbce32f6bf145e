//! Volumes for any NBD client: a server on a Unix socket or a TCP port.
//!
//! The protocol is that of the NetworkBlockDevice project's specification (`doc/proto.md`): fixed
//! newstyle handshake, simple, structured and extended replies, several exports by name.
//!
//! ```text
//!  client ─► handshake ─► intake ─► request ─► connection ─► volume (the engine)
//!                                                  │              │
//!         ◄───────────────────── outbox ◄──────── link ◄──── ticket
//! ```
//!
//! [`handshake`], [`options`], [`request`], [`intake`] and [`reply`] are pure: bytes in, bytes out,
//! no socket. `connection` reads, one thread for each client; `link` sends, from whatever thread
//! completes a request.
//!
//! # What a client may rely on
//! * Requests in flight at the same time are carried out and answered in any order.
//! * A flush covers every write that was answered before it came, on any connection.
//! * Offsets and lengths are multiples of 512 bytes; payloads have 32 MiB at most.
//!
//! # Access
//! Every process that reaches the socket may connect: there is no TLS and no login. A Unix socket
//! has the permissions of the process's umask; a TCP port belongs on a trusted network.
//!
//! # What a client cannot do
//! Access another export than the one it chose; make the server use more than its [`Limits`] allow;
//! stop it by invalid bytes, or by silence.

mod backend;
mod connection;
pub mod export;
pub mod handshake;
pub mod intake;
mod link;
pub mod options;
mod outbox;
pub mod reply;
pub mod request;
mod server;
pub mod wire;

#[cfg(test)]
mod tests;

pub use backend::Backend;
pub use export::{Export, ExportError, Exports};
pub use server::{Counts, Limits, Listener, Stop, serve};
