//! The MySQL/MariaDB client protocol as the gate needs it: where a request starts, where its answer
//! ends, and whether the connection holds locks afterwards.
//!
//! Problem. The gate sees only bytes: what the server's `recv` returned and what its `send`
//! accepted, cut anywhere. From those it must know that a request begins, before the server works
//! on it, and that the server came back for the next one. It must also know whether this connection
//! owns a lock that others may wait for. An owner keeps its permit: queueing it could deadlock the
//! whole server.
//!
//! The primitive is [`Session`]: a plain value of fixed size, one per connection, fed with bytes
//! from both directions. It allocates nothing, reads no clock, does no I/O and never panics, so it
//! can run inside `recv` and `send` of a database. Bytes that do not parse make it [`Opaque`] for
//! good; the gate then falls back to a coarser rule.
//!
//! # The invariant of lock state: estimated holding ⊇ actual holding
//!
//! Holding too much costs fairness (a permit is kept while its owner idles, until the idle limit
//! lends it out). Holding too little can stop the server. So every rule errs to one side:
//!
//! * Transactions are never guessed from text: the server says so in the status word of every OK
//!   and EOF packet, and the latest one wins. An ERR has no status, so the state stays. If the
//!   failed statement could have opened a transaction (autocommit off, a routine, a compound or
//!   multi-statement text), [`Holding::AUTOCOMMIT_OFF_AFTER_ERROR`] counts as holding until the
//!   next status.
//! * Session locks come from text. A *take* is noticed wherever its words could be a statement,
//!   without believing in quotes or comments (their rules depend on `sql_mode` and on the server's
//!   version). A *release* is believed only if the whole text is one exact, simple release
//!   statement and its answer was OK.
//! * What cannot be counted becomes a sticky flag: names that are not plain literals, texts too
//!   long, full tables of ours. Only a connection reset clears it, or for user locks
//!   `RELEASE_ALL_LOCKS()`.
//!
//! Three things are not visible here, and are left to the gate's stall detector. `GET_LOCK` may
//! stand inside a stored routine or a trigger. An ERR 1213 may be raised by `SIGNAL`, and then ends
//! no transaction. Lock words may come after the first 64 KiB of an INSERT, REPLACE, UPDATE or LOAD
//! text.
//!
//! # Worked example
//!
//! `03 "BEGIN"` arrives: a [`Request`] of class `Gated`; one answer is outstanding. The server
//! sends OK with status 0x0003: the answer is complete, [`Session::at_boundary`] is true and
//! [`Session::holding`] is `TRANSACTION`, so the permit is kept. `03 "COMMIT"` and OK with status
//! 0x0002: nothing is held, and the permit is given back.
//!
//! Sources: "MariaDB protocol documentation" (Client/Server Protocol: connection, commands, server
//! response packets) and "MySQL Internals: Client/Server Protocol".

#![forbid(unsafe_code)]

mod answer;
mod command;
mod fast_path;
mod frames;
pub(crate) mod keywords;
mod lexer;
mod lock_effects;
mod locks;
mod login;
mod pending;
mod protocol;
mod session;
mod statement;

pub use crate::holding::Holding;
pub use crate::identity::{Identity, InlineStr};
pub use command::{Command, PassReason, Request, RequestClass};
pub use session::{ClientEvent, Opaque, Session};
