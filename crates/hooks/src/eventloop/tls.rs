//! Conversations inside TLS, followed at the functions of the TLS library ([`crate::tls`]).
//!
//! A hold is the same as without TLS: the socket is not reported as ready. What differs is when the server reads. During the
//! handshake it reads no request, so its events pass. Later, one `SSL_read` may return a part of what the library has
//! decrypted, and the rest raises no event: a server that knows asks the library and reads on by itself. Such a read may
//! come when the turn is over, or even when the session is held for its next bytes. It is never refused.

use super::section::{self, Set};
use super::turn::{Turn, follow_client, follow_server, turn};
use super::watch::{self, Channel, Place, Watch};
use crate::process;
use core::sync::atomic::Ordering;
use headworks_region::session::Encryption;
use headworks_region::{PassReason, State, clock};

/// The entry of a descriptor if its conversation is followed by way of its event loop.
pub fn followed(fd: i32) -> Option<&'static Watch> {
    watch::client(fd).filter(|watch| !watch.is_elsewhere())
}

/// The server has handed the descriptor to a TLS library. May be called more than once.
pub fn tls_begins(watch: &'static Watch) {
    // A conversation that was given up is not taken up again.
    if watch.channel() != Channel::Socket || watch.is_left_alone() {
        return;
    }
    let (Some(region), Some(session_id)) = (process::region(), watch.session_id()) else { return };
    if let Some(slot) = region.session(session_id) {
        slot.encryption.store(Encryption::Read as u32, Ordering::Relaxed);
    }
    watch.set_channel(Channel::Handshake);
}

/// The handshake is over. May be called more than once, and without TLS.
pub fn tls_established(watch: &'static Watch) {
    if watch.channel() == Channel::Handshake {
        watch.set_channel(Channel::Library);
    }
}

/// The TLS library returned these bytes of the client.
pub fn received_inside_tls(watch: &'static Watch, bytes: &[u8]) {
    tls_established(watch);
    if watch.channel() != Channel::Library {
        return;
    }
    follow_client(watch, bytes);
    if is_unasked(watch) {
        read_unasked(watch);
    }
}

/// The TLS library took these bytes of the server.
pub fn sent_inside_tls(watch: &'static Watch, bytes: &[u8]) {
    tls_established(watch);
    if watch.channel() == Channel::Library {
        follow_server(watch, bytes);
    }
}

/// Whether the server has read without having been told to.
fn is_unasked(watch: &Watch) -> bool {
    if watch.is_blocking() || watch.is_left_alone() || !watch.is_tagged() {
        return false;
    }
    match watch.place() {
        Place::Out | Place::Kept | Place::Held => true,
        Place::Granted => false,
        // Told of something else: the handshake was over with the same call.
        Place::Served => {
            let slot = process::region()
                .zip(watch.session_id())
                .and_then(|(region, id)| region.session(id));
            slot.is_some_and(|slot| slot.state() == State::Idle)
        }
    }
}

#[cold]
fn read_unasked(watch: &'static Watch) {
    let Some(set) = watch.asked().and_then(|(set, ..)| section::find(set)) else { return };
    let Some((fd, _)) = watch.session_id().and_then(watch::of_session) else { return };
    if let Some(section) = Set::enter(set) {
        let _ = turn(section.lists(), (fd, watch), clock::now(), |turn| turn.go_unasked());
    }
}

impl Turn<'_> {
    /// The server has read without having been told to. The session goes ahead without a permit, and is owed one; what it asked
    /// for is charged when the server has come back.
    fn go_unasked(&mut self) {
        match self.watch.place() {
            Place::Granted => {}
            Place::Served if self.slot.state() != State::Idle => {}
            // It waits for its next bytes; what was read is charged to the turn that it waits for.
            Place::Held if self.inner.holding().is_empty() => {}
            Place::Held => {
                self.inner.waiting = false;
                self.region.let_pass(self.session_id, PassReason::Owner);
                if self.slot.state() == State::Passing {
                    self.region.reenter(self.session_id);
                }
                self.put(Place::Granted);
            }
            Place::Out | Place::Kept | Place::Served => {
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
