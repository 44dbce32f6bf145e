//! The PostgreSQL frontend/backend protocol (version 3) as the gate needs it: where a request
//! starts, when it is answered, and whether the session holds locks afterwards.
//!
//! The problem, the primitive ([`Session`], fed with the bytes of both directions) and the
//! invariant (estimated holding ⊇ actual holding) are those of [`crate::mysql`]. What differs:
//!
//! * The server says when it is ready for the next request, and with it the transaction's state:
//!   ReadyForQuery, `I`, `T` or `E`. Nothing about transactions is guessed. PREPARE TRANSACTION
//!   ends the transaction for its session.
//! * A *request* is a Query, a FunctionCall, or everything up to a Sync. It begins when its first
//!   message is complete, since the server can do nothing with less. So a client that sends a large
//!   text slowly keeps no permit meanwhile. Between the first message and the Sync the server may
//!   have opened an implicit transaction, so the session is not at a boundary then.
//! * Session-level advisory locks come from text, as MySQL's user locks do, and from the rows of
//!   the answer. A `SELECT pg_advisory_lock(…)` has taken as many locks as it returned rows. A
//!   `SELECT pg_advisory_unlock(…)` has released as many as it returned true rows, whatever the
//!   keys. So parameters need not be read. A text that mentions such a call, but is not exactly
//!   one, may take locks and never releases any.
//!
//! Not visible here, and left to the gate's stall detector: advisory locks taken inside a function
//! or trigger, and names written with Unicode escapes.
//!
//! # Worked example
//!
//! `Q "BEGIN"` arrives: a gated request, one ReadyForQuery is owed. The server sends
//! CommandComplete and ReadyForQuery(`T`): [`Session::at_boundary`] is true and
//! [`Session::holding`] is `transaction`, so the permit is kept. `P B D E S` arrive in one chunk: a
//! request inside the transaction. `Q "COMMIT"` and ReadyForQuery(`I`): nothing is held.
//!
//! Source: PostgreSQL 15 documentation, chapter 55 (Frontend/Backend Protocol).

#![forbid(unsafe_code)]

mod frames;
mod lock_names;
mod locks;
mod protocol;
mod session;
mod startup;
mod statement;

pub use crate::holding::Holding;
pub use session::{ClientEvent, Opaque, PassReason, Request, Session};
