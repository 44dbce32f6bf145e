//! MongoDB's wire protocol (OP_MSG, and what is left of the older messages), as far as the gate
//! needs it.
//!
//! # The problem
//! Every message says how long it is, so requests are easily told apart. But nothing outside a
//! command's document says what it is: its name is the document's first element, and whether it
//! belongs to a transaction is told by others behind it (`lsid`, `txnNumber`, `startTransaction`,
//! `autocommit`). And a transaction belongs to a logical session, not to a connection: a driver may
//! send its next statement by any connection of its pool.
//!
//! # How it is followed
//! * Both sides are cut into messages, sections and documents ([`messages`], [`bson`]). Only the
//!   elements that matter are kept; documents in documents are skipped by their length, unless
//!   something that matters is in them.
//! * A statement that *begins* a transaction makes its connection the holder. A statement that
//!   *goes on with* one says so itself (`autocommit: false` without `startTransaction`): on the
//!   holder it goes ahead with the permit that is kept, on any other connection it passes
//!   ([`session`]).
//! * The transaction is over for its holder when `commitTransaction` or `abortTransaction` is
//!   answered, when one of its statements fails (the server then aborts it), or when the connection
//!   is used for something else.
//! * Answers are told apart by `responseTo`: a message without an answer (`moreToCome` from the
//!   client) owes none, and of an exhaust cursor all answers but the last say `moreToCome` and are
//!   the question to the next one.
//! * What may wait for long by design passes: a `hello` with `maxAwaitTimeMS`, and `getMore` on a
//!   cursor that awaits data.
//!
//! # Worked example
//! `{insert: "c", lsid: S, txnNumber: 7, startTransaction: true, autocommit: false}` comes: a
//! request, and the connection holds a transaction. `{ok: 1}` answers. `{update: "c", lsid: S,
//! txnNumber: 7, autocommit: false}` comes by another connection: it passes there.
//! `{commitTransaction: 1, lsid: S, txnNumber: 7, autocommit: false}` comes by the first and is
//! answered: nothing is held.
//!
//! # Left to the limits of the gate
//! A transaction that is ended by another connection than the one that began it is held by the
//! latter until that is used for something else, or until the idle limit. `getMore` on a change
//! stream that was opened by another connection is a request like others, unless it says how long
//! it waits. Compressed messages cannot be read: such a connection is left alone.
//!
//! Source: the MongoDB wire protocol and BSON 1.1 specifications; the drivers' specifications of
//! transactions, handshake, authentication and OP_MSG.

#![forbid(unsafe_code)]

mod bson;
mod command;
mod login;
mod messages;
mod session;

pub use crate::holding::Holding;
pub use session::{Opaque, Session};
