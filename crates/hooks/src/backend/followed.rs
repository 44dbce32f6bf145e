//! Operations on the client of a backend: the life of its requests, from receipt to the end of a
//! turn.

use super::{Backend, Followed, Receipt, Stage, kept};
use super::{set_anticipating, set_lendable, set_stage};
use crate::channel::Channel;
use crate::conn::Work;
use crate::generic;
use crate::holding::Holding;
use crate::identity::apply_identity;
use crate::postgres::{ClientEvent, Opaque, Request};
use crate::served;
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;
use headworks_region::control::Mode;
use headworks_region::layout::Counter;
use headworks_region::lock::thread_id;
use headworks_region::session::{Encryption, State};
use headworks_region::{Entered, PassReason, clock};

impl Backend {
    pub(super) fn at_boundary(&self) -> bool {
        match &self.generic {
            Some(generic) => generic.at_boundary(),
            None => self.session.at_boundary(),
        }
    }

    pub(super) fn holding(&self) -> Holding {
        self.session.holding().with_if(Holding::NAMED_LOCK, self.declared.held())
    }
}

impl Followed<'_> {
    pub(super) fn client_bytes(&mut self, bytes: &[u8]) -> ClientEvent {
        if self.backend.channel == Channel::Awaited {
            // No call named a TLS library, so TLS is part of the server.
            self.backend.channel = Channel::Socket;
            self.backend.generic = Some(generic::Session::of_records());
            self.slot.encryption.store(Encryption::Unread as u32, Ordering::Relaxed);
            self.region.count(Counter::TlsUnread);
        }
        match &mut self.backend.generic {
            Some(generic) => match generic.client_bytes(bytes) {
                true => ClientEvent::Request(Request::Gated),
                false => ClientEvent::None,
            },
            None => self.backend.session.client_bytes(bytes),
        }
    }

    /// After bytes of either side: checks whether the session can still be followed, and who it is.
    pub(super) fn look_at_session(&mut self) {
        let session = &self.backend.session;
        if session.opaque() == Some(Opaque::Tls) {
            if self.backend.generic.is_none() {
                self.backend.channel = Channel::Awaited;
            }
            return;
        }
        if session.opaque().is_some() || session.replication() {
            self.stop_following();
            return;
        }
        let identity = session.identity().map(|_| session.identity_number());
        if identity.is_some() && self.backend.classified != identity {
            self.backend.classified = identity;
            if let Some(identity) = self.backend.session.identity() {
                apply_identity(self.region, self.session_id, identity);
            }
        }
    }

    pub(super) fn begin(&mut self, request: Request, bytes: &[u8]) -> Receipt {
        if self.backend.work == Work::Admitted {
            // One more request, or one more part of this one, on the same turn.
            return Receipt::Go;
        }
        set_anticipating(false);
        set_stage(Stage::Busy);
        let slot = self.slot;
        if let Request::Pass(_) = request {
            self.backend.work = Work::Passed;
            slot.served.was_passed();
            slot.pass_reason.store(PassReason::Statement as u32, Ordering::Relaxed);
            return Receipt::Go;
        }
        let now = clock::now();
        slot.arrived_ns.store(now.0, Ordering::Relaxed);
        slot.thread.store(thread_id(), Ordering::Relaxed);
        self.backend.hold = self.region.begin_wait(now);
        self.region.end_gap(slot, now);
        match slot.state() {
            State::Running | State::Owed | State::Long => {}
            State::Passing => slot.served.was_passed(),
            State::Lent => self.region.reenter(self.session_id),
            _ if !self.backend.holding().is_empty() => self.region.reenter(self.session_id),
            _ => {
                slot.turn_arrived_ns.store(now.0, Ordering::Relaxed);
                return self.hold(bytes);
            }
        }
        self.go_on(now)
    }

    pub(super) fn hold(&mut self, bytes: &[u8]) -> Receipt {
        let hold = self.backend.hold;
        // Records are read by the server's own TLS code. It takes an interruption for an empty
        // socket and then sleeps until the kernel has more bytes. The kernel has given all, so
        // there is no step to come back from. A read of more bytes than can be kept is held in one
        // step too. Neither hears signals meanwhile.
        if self.backend.generic.is_some() || bytes.len() > kept::MAX {
            let entered = self.region.enter(self.session_id, hold.arrived);
            return self.enter(entered);
        }
        match self.region.enter_in_steps(self.session_id, hold) {
            Some(entered) => self.enter(entered),
            None => {
                self.backend.waiting = true;
                kept::keep(bytes);
                Receipt::Later
            }
        }
    }

    pub(super) fn enter(&mut self, entered: Entered) -> Receipt {
        self.backend.waiting = false;
        let now = if entered == Entered::AtOnce { self.backend.hold.arrived } else { clock::now() };
        self.go_on(now)
    }

    pub(super) fn go_on(&mut self, now: Nanos) -> Receipt {
        served::serves(self.region, self.session_id);
        let backend = &mut *self.backend;
        backend.work = Work::Admitted;
        backend.admitted = now;
        backend.wait = now.since(backend.hold.arrived);
        self.slot.admitted_ns.store(now.0, Ordering::Relaxed);
        set_lendable(true);
        Receipt::Go
    }

    /// Accounts for the requests that were answered.
    pub(super) fn account(&mut self) {
        let answered = self.backend.session.answered();
        let fresh = answered.wrapping_sub(self.backend.accounted);
        self.backend.accounted = answered;
        if self.backend.generic.is_some() {
            return;
        }
        if fresh == 0 || self.backend.work != Work::Admitted {
            return;
        }
        let now = clock::now();
        for _ in 0..fresh {
            self.record(now);
            let backend = &mut *self.backend;
            backend.quota_left = self.region.spend(self.slot);
            // The server began to work on the next request only now.
            (backend.wait, backend.admitted) = (Nanos(0), now);
        }
    }

    /// A request is over.
    pub(super) fn record(&self, now: Nanos) {
        let Backend { wait, admitted, .. } = *self.backend;
        self.region.record(self.session_id, self.slot, wait, (admitted, now), 1);
    }

    /// All that was asked is answered.
    pub(super) fn settle(&mut self) {
        if self.backend.generic.is_some() && self.backend.work == Work::Admitted {
            // No message marks the end of the answer; the server's next read does.
            let now = clock::now();
            self.record(now);
            self.backend.quota_left = self.region.spend(self.slot);
        }
        self.backend.declared.answered();
        let holding = self.backend.holding();
        self.slot.holding.store(u32::from(holding.bits()), Ordering::Relaxed);
        self.backend.work = Work::None;
        set_stage(Stage::Ready);
        if !holding.is_empty() {
            self.region.begin_gap(self.slot, clock::now());
        } else if self.slot.state() != State::Idle {
            self.end_turn();
        }
    }

    pub(super) fn end_turn(&mut self) {
        self.slot.served.turn_ended();
        if self.region.control.mode() != Mode::Enforce {
            self.region.note_turn(self.session_id, clock::now());
        }
        let quota_left = core::mem::take(&mut self.backend.quota_left);
        let anticipating =
            quota_left && self.slot.state() == State::Running && self.region.pending() > 0;
        set_anticipating(anticipating);
        if !anticipating {
            self.leave();
        }
    }

    /// Gives back the session's permit, if it has one.
    pub(super) fn leave(&self) {
        set_lendable(false);
        self.region.leave(self.session_id);
    }

    #[cold]
    pub(super) fn stop_following(&mut self) {
        if core::mem::replace(&mut self.backend.left_alone, true) {
            return;
        }
        self.backend.work = Work::None;
        self.backend.waiting = false;
        set_lendable(false);
        // Shows the connection's identity in the lists of connections.
        if let Some(identity) = self.backend.session.identity() {
            apply_identity(self.region, self.session_id, identity);
        }
        if self.backend.session.opaque() == Some(Opaque::Encrypted) {
            self.slot.encryption.store(Encryption::Opaque as u32, Ordering::Relaxed);
        }
        self.region.count(match self.backend.session.opaque() {
            Some(Opaque::Tls | Opaque::Encrypted) => Counter::OpaqueTls,
            Some(Opaque::Desynchronized) => Counter::OpaqueUnknown,
            None => Counter::Replication,
        });
        self.region.stop_following(self.session_id);
    }
}
