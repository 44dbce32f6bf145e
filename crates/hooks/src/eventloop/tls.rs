//! Conversations inside TLS, followed at the functions of the TLS library ([`crate::tls`]).
//!
//! A hold is the same as without TLS: the socket is not reported as ready. What differs is when the
//! server reads. During the handshake it reads no request, so its events pass. Later, one
//! `SSL_read` may return a part of what the library has decrypted. The rest raises no event: a
//! server that knows this asks the library and reads on. Such a read may come when the turn is
//! over, or even when the session is held for its next bytes. It is never refused.

use super::connection::{self, Channel, LoopConnection, QueueState};
use super::section::{self, Set};
use super::turn::{Turn, follow_client, follow_server, turn};
use crate::process;
use core::sync::atomic::Ordering;
use headworks_region::session::Encryption;
use headworks_region::{PassReason, State, clock};

/// The entry of a descriptor if its conversation is followed by way of its event loop.
pub fn followed(fd: i32) -> Option<&'static LoopConnection> {
    connection::client(fd).filter(|connection| !connection.is_elsewhere())
}

/// The server has handed the descriptor to a TLS library. May be called more than once.
pub fn tls_begins(connection: &'static LoopConnection) {
    // A conversation that was given up is not taken up again.
    if connection.channel() != Channel::Socket || connection.is_left_alone() {
        return;
    }
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return;
    };
    if let Some(slot) = region.session(session_id) {
        slot.encryption.store(Encryption::Read as u32, Ordering::Relaxed);
    }
    connection.set_channel(Channel::Handshake);
}

/// The handshake is over. May be called more than once, and without TLS.
pub fn tls_established(connection: &'static LoopConnection) {
    if connection.channel() == Channel::Handshake {
        connection.set_channel(Channel::Library);
    }
}

/// The TLS library returned these bytes of the client.
pub fn received_inside_tls(connection: &'static LoopConnection, bytes: &[u8]) {
    tls_established(connection);
    if connection.channel() != Channel::Library {
        return;
    }
    follow_client(connection, bytes);
    if is_unasked(connection) {
        read_unasked(connection);
    }
}

/// The TLS library took these bytes of the server.
pub fn sent_inside_tls(connection: &'static LoopConnection, bytes: &[u8]) {
    tls_established(connection);
    if connection.channel() == Channel::Library {
        follow_server(connection, bytes);
    }
}

/// Whether the server has read without having been told to.
fn is_unasked(connection: &LoopConnection) -> bool {
    if connection.is_blocking() || connection.is_left_alone() || !connection.is_tagged() {
        return false;
    }
    match connection.queue_state() {
        QueueState::Out | QueueState::Kept | QueueState::Held => true,
        QueueState::Granted => false,
        // Told of something else: the handshake was over with the same call.
        QueueState::Served => {
            let slot = process::region()
                .zip(connection.session_id())
                .and_then(|(region, id)| region.session(id));
            slot.is_some_and(|slot| slot.state() == State::Idle)
        }
    }
}

#[cold]
fn read_unasked(connection: &'static LoopConnection) {
    let Some(set) = connection.asked().and_then(|(set, ..)| section::find(set)) else { return };
    let Some((fd, _)) = connection.session_id().and_then(connection::of_session) else { return };
    if let Some(section) = Set::enter(set) {
        let _ = turn(section.lists(), (fd, connection), clock::now(), |turn| turn.go_unasked());
    }
}

impl Turn<'_> {
    /// The server has read without having been told to. The session goes ahead without a permit,
    /// and is owed one; what it asked for is charged when the server has come back.
    fn go_unasked(&mut self) {
        match self.connection.queue_state() {
            QueueState::Granted => {}
            QueueState::Served if self.slot.state() != State::Idle => {}
            // It waits for its next bytes; what was read is charged to the turn that it waits for.
            QueueState::Held if self.inner.holding().is_empty() => {}
            QueueState::Held => {
                self.inner.waiting = false;
                self.region.let_pass(self.session_id, PassReason::Owner);
                if self.slot.state() == State::Passing {
                    self.region.reenter(self.session_id);
                }
                self.put(QueueState::Granted);
            }
            QueueState::Out | QueueState::Kept | QueueState::Served => {
                self.arrives();
                let inside = [State::Running, State::Owed, State::Passing, State::Long];
                let is_gated = self.slot.flags.load(Ordering::Relaxed) == 0;
                if is_gated && !inside.contains(&self.slot.state()) {
                    self.region.reenter(self.session_id);
                }
                self.go_on();
            }
        }
    }
}
