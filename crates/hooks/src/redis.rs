//! The Redis protocol (RESP2, RESP3 and inline commands), as far as the gate needs it.
//!
//! # The problem
//! A single-threaded server reads whatever a client has sent, executes all the commands in it and
//! answers them before it reads again. So what ends a *turn* is the server's return to its poll,
//! and no answer has to be waited for. But three things are only true if the server said so: who
//! the client is (`AUTH`, `HELLO`, `SELECT`, `CLIENT SETNAME`), whether a transaction is open
//! (`MULTI`, `WATCH`), and whether the connection left the pattern of one answer for each command
//! (`SUBSCRIBE`, `MONITOR`, replication).
//!
//! # How it is followed
//! * The client's bytes are cut into commands ([`requests`]): every command counts as one request.
//!   Their keys and values are skipped, not read.
//! * The server's bytes are cut into answers ([`replies`]); nested answers need no stack, only the
//!   number of elements to come. Messages of the push type are no answers.
//! * A command whose success matters is noted with the number of its answer; when that one comes,
//!   what it says decides ([`session`]). There is room for 16 such commands in flight; one more is
//!   believed at once.
//!
//! # Worked example
//! `*1 MULTI`, `*3 SET k v`, `*1 EXEC` come in one read: three requests, three answers owed, and
//! while they are, the session holds what the last of them will leave: nothing. The server writes
//! `+OK`, `+QUEUED`, `*1 +OK`: settled, nothing held.
//!
//! # Left to the limits of the gate
//! Transactions inside scripts and functions need nothing: they are one command. A command that
//! blocks (`BLPOP`, `WAIT`) is answered later; the server returns to its poll meanwhile, and with
//! that the turn is over.
//!
//! Source: the Redis serialization protocol specification, and what Redis 7.0 does where it is
//! silent.

#![forbid(unsafe_code)]

mod command;
mod fast_path;
mod replies;
mod requests;
mod session;

pub use crate::holding::Holding;
pub use session::{Opaque, Session, Stream};
