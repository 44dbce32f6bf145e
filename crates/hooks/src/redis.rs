//! The Redis protocol (RESP2, RESP3 and inline commands), as far as the gate needs it.
//!
//! # The problem
//! A single-threaded server reads what a client has sent, executes all the commands in it and
//! answers them before it reads again. So the server's return to its poll ends a *turn*, and no
//! answer has to be awaited. But three things depend on the answers: which account the client has
//! (`AUTH`, `HELLO`, `SELECT`, `CLIENT SETNAME`); whether a transaction is open (`MULTI`, `WATCH`);
//! and whether each command still has one answer (`SUBSCRIBE`, `MONITOR`, replication).
//!
//! # How it is followed
//! * The client's bytes are cut into commands ([`requests`]): every command counts as one request.
//!   Their keys and values are skipped, not read.
//! * The server's bytes are cut into answers ([`replies`]). Nested answers need no stack, only the
//!   number of elements still to come. Messages of the push type are not answers.
//! * A command whose success matters is noted with the number of its answer, and that answer
//!   decides ([`session`]). There is room for 16 such commands in flight; one more counts as
//!   successful at once.
//!
//! # Worked example
//! `*1 MULTI`, `*3 SET k v`, `*1 EXEC` come in one read: three requests, three answers owed.
//! Meanwhile the session holds what the last of them will leave: nothing. The server writes `+OK`,
//! `+QUEUED`, `*1 +OK`: settled, nothing held.
//!
//! # Left to the limits of the gate
//! Transactions inside scripts and functions need no care: each is one command. A command that
//! blocks (`BLPOP`, `WAIT`) is answered later. The server returns to its poll meanwhile, which ends
//! the turn.
//!
//! Source: the Redis serialization protocol specification, and the behaviour of Redis 7.0 where
//! that is silent.

#![forbid(unsafe_code)]

mod command;
mod fast_path;
mod replies;
mod requests;
mod session;

pub use crate::holding::Holding;
pub use session::{Opaque, Session, Stream};
