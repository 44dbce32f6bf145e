//! TLS, followed at the functions of the TLS library: the bytes that they return and take are the
//! conversation.
//!
//! The life of an encrypted connection. The client asks for TLS in plain text, and the session
//! becomes [`opaque`](crate::mysql::Session::opaque). From then on its channel is *awaited*
//! ([`crate::channel`]). Either the server passes the descriptor to a TLS library that it is linked
//! to, which a hook sees ([`begins`]). Or encrypted bytes arrive at `recv` first, so the library is
//! part of the server.
//!
//! In the first case the session goes on inside TLS, fed by `SSL_read` and `SSL_write`, and the
//! socket's own bytes are ignored. A request is held before `SSL_read` returns it, never in the
//! middle of a record or a handshake. In the second case generic framing follows the records.
//!
//! A server with an event loop has separate ports for TLS, and its clients do not ask for it. Its
//! connections are inside TLS once the server passes their descriptors to the library
//! ([`crate::eventloop`]).

use crate::conn::{self, Conn};
use crate::eventloop::{self, LoopConnection};
use crate::{backend, process, threads};
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

/// In a backend: the TLS library's object for its client, if that has no descriptor.
static OBJECT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The connection that a descriptor belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// A client of a server with one thread for each connection.
    Thread(&'static Conn),
    /// A client of an event loop.
    Loop(&'static LoopConnection),
    /// The client of this backend.
    Backend,
}

/// The connection of a descriptor; `None` for one that is not followed. Nothing but loads.
pub fn whose(fd: i32) -> Option<Whose> {
    process::region()?;
    if backend::serves(fd) {
        return Some(Whose::Backend);
    }
    if let Some(conn) = conn::find(fd).filter(|conn| conn.session_id().is_some()) {
        return Some(Whose::Thread(conn));
    }
    eventloop::followed(fd).map(Whose::Loop)
}

/// The same for an object of the TLS library without a descriptor, where the server reads and
/// writes itself.
pub fn whose_object(object: *mut c_void) -> Option<Whose> {
    process::region()?;
    let known = !object.is_null() && OBJECT.load(Ordering::Relaxed) == object;
    (known && backend::in_tls()).then_some(Whose::Backend)
}

/// The server accepts a client by an object without a descriptor. A backend that awaits TLS has
/// only one client, so the object is that client's until the process ends.
pub fn accepts_by_object(object: *mut c_void) {
    if backend::has_client() && !backend::in_tls() {
        backend::tls_begins();
        if backend::in_tls() {
            OBJECT.store(object, Ordering::Relaxed);
        }
    }
}

/// The server has passed the descriptor to a TLS library. May be called more than once.
pub fn begins(whose: Whose) {
    match whose {
        Whose::Thread(conn) => threads::tls_begins(conn),
        Whose::Loop(connection) => eventloop::tls_begins(connection),
        Whose::Backend => backend::tls_begins(),
    }
}
