//! The operations behind the hooks of a server whose threads serve many connections each: Redis,
//! memcached, and MariaDB with its pool of threads. Such a thread must never block.
//!
//! # The problem
//! A thread that waits in the gate for one session would stop all its other sessions. So a session
//! is queued by *hiding that its socket is ready*. The loop asks the kernel which sockets are ready
//! (`epoll_wait`), and is not told of those whose sessions have no permit yet. Their bytes stay in
//! the kernel.
//!
//! # The one primitive
//! A server registers its clients level-triggered: the kernel reports a ready socket again and
//! again until it was read. To hide such a socket takes two more system calls for each request: out
//! of the set, and back into it. Without them the loop would spin. So the socket's real
//! registration is *edge-triggered*: the kernel reports each arrival once. The report is remembered
//! here ([`connection`]) until the server's own `read` returns less than was asked for. To queue a
//! session, its event is not passed on, and nothing has to be undone when it is admitted. However
//! many sessions are queued, the loop does not spin.
//!
//! The server notices no difference. A socket that it did not read empty is reported again, after
//! the kernel confirmed that it is ready ([`turn`]). Registrations that are edge-triggered,
//! one-shot or for writing stay as they are ([`control`]). Every `epoll_ctl` is made with the
//! caller's operation and returns the kernel's result.
//!
//! # A turn
//! It begins when an event is passed on ([`wait`]). The server reads what is there, answers, and
//! comes back to `epoll_wait`: then the turn is over, unless a transaction is open. One call passes
//! on the events of at most P sessions. The policy chooses which session is next, and every command
//! counts as a request.
//!
//! # Inside TLS
//! The socket is ready at the same times, but what is read from it are TLS records. The
//! conversation is what the TLS library returns and takes ([`tls`]). The library may keep a part of
//! a record, for which no event comes any more. A server that reads this part without an event
//! passes, and is charged.
//!
//! # Who wakes the loop
//! The loop itself admits nearly all sessions, and passes their events on in the same call. If
//! another thread of the process admits one, it makes the event come by a real `epoll_ctl`, which
//! re-arms the edge. What happens outside the process is found by polling: the daemon's grants, its
//! death, the longest hold. While a session is queued, no sleep lasts longer than a fifth of a
//! second.

use crate::process;
use headworks_region::Region;
use headworks_region::layout::Counter;

mod blocking;
mod connection;
mod control;
mod events;
mod framing;
mod peek;
mod section;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod turn;
mod wait;

pub use connection::{LoopConnection, client, forked};
pub use control::{Registration, closing_set, created, prepare, settled};
pub use tls::{followed, received_inside_tls, sent_inside_tls, tls_begins, tls_established};
pub(crate) use turn::abandon;
pub use turn::{accepted, close, received, sent, shutting_down};
pub use wait::{Sleep, after_wait, before_wait, pass_through};

/// Whether waits for this epoll set go through [`before_wait`]. They do if clients' sockets are in
/// it. They also do if such sockets may come while a thread of a pool sleeps in it, since its sleep
/// must then end.
pub fn has_clients(set: i32) -> bool {
    let Some(found) = section::find(set) else { return false };
    found.in_use() || (found.is_made() && process::region().is_some_and(Region::pooled))
}

/// Whether this is the descriptor of an epoll set.
pub fn is_set(fd: i32) -> bool {
    section::find(fd).is_some_and(|found| found.is_made() || found.in_use())
}

/// Whether this is a child that shares the server's memory. Its descriptors are separate, and what
/// it does with them is not done to the server's connections.
fn is_foreign() -> bool {
    if process::is_attached_process() {
        return false;
    }
    if let Some(region) = process::region() {
        region.count(Counter::Foreign);
    }
    true
}

/// Notes that the server waits for this set by functions that are hooked.
pub fn waits(set: i32) {
    if let Some(set) = section::find(set) {
        set.note_waited();
    }
}
