//! MongoDB's wire protocol (OP_MSG, and what is left of the older messages), as far as the gate
//! needs it.
//!
//! # The problem
//! Every message states its length, so requests are easily told apart. But a command is known only
//! by its document. Its name is the first element. Later elements tell whether it belongs to a
//! transaction: `lsid`, `txnNumber`, `startTransaction`, `autocommit`. And a transaction belongs to
//! a logical session, not to a connection: a driver may send its next statement on any connection
//! of its pool.
//!
//! # How it is followed
//! * Both sides are cut into messages, sections and documents ([`messages`], [`bson`]). Only the
//!   elements that matter are kept; documents in documents are skipped by their length, unless
//!   something that matters is in them.
//! * A statement that *begins* a transaction makes its connection the holder. A statement that
//!   *continues* one says so (`autocommit: false` without `startTransaction`). On the holder it
//!   goes on with the kept permit; on any other connection it passes ([`session`]).
//! * The transaction is over for its holder in three cases. `commitTransaction` or
//!   `abortTransaction` is answered. One of its statements fails, as the server then aborts it. The
//!   connection is used for something else.
//! * Answers are matched by `responseTo`. A client's message with `moreToCome` gets no answer. Of
//!   an exhaust cursor, all answers but the last have `moreToCome` and act as the next question.
//! * Commands that may wait for long by design pass: a `hello` with `maxAwaitTimeMS`, and `getMore`
//!   on a cursor that awaits data.
//!
//! # Worked example
//! `{insert: "c", lsid: S, txnNumber: 7, startTransaction: true, autocommit: false}` comes: a
//! request, and the connection holds a transaction. `{ok: 1}` answers. `{update: "c", lsid: S,
//! txnNumber: 7, autocommit: false}` comes by another connection: it passes there.
//! `{commitTransaction: 1, lsid: S, txnNumber: 7, autocommit: false}` comes by the first and is
//! answered: nothing is held.
//!
//! # Left to the limits of the gate
//! Where another connection ends a transaction, the holder keeps its permit until it is used for
//! something else, or until the idle limit. `getMore` on a change stream that another connection
//! opened is an ordinary request, unless it states how long it waits. Compressed messages cannot be
//! read: such a connection is left alone.
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
