//! The server's end of a connection in the transmission phase: requests in flight, and the path of
//! replies to the client.
//!
//! # The turn
//! One thread at a time sends. A thread that adds a reply while none sends takes the *turn* and
//! sends what there is, without waiting for the client. This is the reader at the end of a batch,
//! or a thread of the engine that completed something. If the socket is full, a thread of the
//! engine passes the turn to the connection's writer, which may wait. So no reply is left over:
//! replies are added under the same lock under which the turn is given back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headworks_policy::block::Operation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::backend::{Backend, Room, Rooms};
use super::directory::Origin;
use super::export::Mode;
use super::outbox::{Batch, Outgoing};
use super::reply::{Reply, To};
use super::request::{Ask, Job};
use super::wire::Error;
use crate::buffer::Buffer;
use crate::engine::{Completion, Fence, Submission};

/// Most bytes of replies that the completing thread sends itself. The writer sends more, so that
/// copying to a socket does not hold up the engine.
const INLINE_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Free,
    Taken,
    /// Passed to the writer, which has not taken it yet.
    Passed,
}

pub(super) struct State {
    replies: VecDeque<Outgoing>,
    turn: Turn,
    /// Requests in flight, and their bytes: read, and not yet answered to the client.
    pub(super) requests: u32,
    bytes: u64,
    /// Bytes of the unsent replies.
    unsent_bytes: u64,
    /// The client no longer reads replies.
    pub(super) dead: bool,
    /// No more replies will come: the writer may end.
    over: bool,
    /// A thread waits for requests to finish.
    pub(super) waited_for: bool,
}

/// The load of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Requests in flight: read, and not yet answered to the client.
    pub(super) requests: u32,
    /// Their payloads.
    pub(super) bytes: u64,
    /// Bytes of the replies that wait for the client.
    pub(super) unsent_bytes: u64,
}

/// Result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Nothing is left, or another thread sends it.
    Clear,
    /// The socket is full; the caller has the turn.
    Stalled,
}

/// What does not change on a connection.
pub(super) struct Terms {
    pub(super) mode: Mode,
    /// Cookies carry the tags of applications.
    pub(super) tags: bool,
    /// The account that is charged: not zero, the same for all its requests.
    pub(super) cause: u32,
    pub(super) volume: Arc<dyn Backend>,
    /// The name of the export.
    pub(super) export: String,
    /// The client's session; empty if it has named none.
    pub(super) session: String,
    /// Where the client comes from.
    pub(super) origin: Origin,
    /// The end of the client's own socket, if `socket` is not that.
    pub(super) wire: Option<OwnedFd>,
    /// How long a client may leave replies unread, or a request unfinished.
    pub(super) patience: Duration,
}

/// One connection.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) terms: Terms,
    /// Its requests pass it on their way to the store.
    pub(super) fence: Arc<Fence>,
    /// The client said that it leaves.
    pub(super) left: AtomicBool,
    /// When bytes last came from the client, in nanoseconds.
    pub(super) heard_ns: AtomicU64,
    /// All that came was dealt with.
    pub(super) at_rest: AtomicBool,
    state: Mutex<State>,
    batch: Mutex<Batch>,
    writer: Condvar,
    pub(super) room: Condvar,
}

impl Link {
    pub(super) fn new(socket: OwnedFd, terms: Terms) -> Link {
        let state = State {
            replies: VecDeque::new(),
            turn: Turn::Free,
            requests: 0,
            bytes: 0,
            unsent_bytes: 0,
            dead: false,
            over: false,
            waited_for: false,
        };
        Link {
            socket,
            terms,
            fence: Arc::default(),
            left: AtomicBool::new(false),
            heard_ns: AtomicU64::new(0),
            at_rest: AtomicBool::new(false),
            state: Mutex::new(state),
            batch: Mutex::default(),
            writer: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// What is in flight.
    pub(super) fn load(&self) -> Load {
        let state = self.lock();
        let State { requests, bytes, unsent_bytes, .. } = *state;
        Load { requests, bytes, unsent_bytes }
    }

    /// Admits a request that counts for `charge` bytes; the ticket will answer it.
    pub(super) fn admit(self: &Arc<Link>, job: &Job, charge: u64, rooms: Rooms) -> Ticket {
        let mut state = self.lock();
        state.requests += 1;
        state.bytes += charge;
        drop(state);
        let to = To { mode: self.terms.mode, cookie: job.cookie, offset: job.offset };
        // The upper 16 bits.
        let tag = if self.terms.tags { (job.cookie >> 48) as u16 } else { 0 };
        let (link, ask) = (Some(self.clone()), job.ask);
        Ticket { link, ask, to, tag, charge, rooms, reads: false, flush_after: false }
    }

    /// A request has failed, and not because its connection is over.
    pub(super) fn note_failed(&self, ask: Ask, error: &io::Error) {
        if error.raw_os_error() != Some(libc::ESHUTDOWN) {
            self.terms.volume.failed(ask.name(), error);
        }
    }

    /// Adds the reply of a request that was answered at once. The reader sends it later, by
    /// [`Link::flush`].
    pub(super) fn answer_later(&self, reply: Reply, charge: u64) {
        self.answer_later_from(reply, charge, None);
    }

    /// The same; the reply's room goes with it.
    pub(super) fn answer_later_from(&self, reply: Reply, charge: u64, room: Option<Room>) {
        let mut state = self.lock();
        if state.dead {
            return;
        }
        state.requests += 1;
        state.bytes += charge;
        state.unsent_bytes += charge;
        state.replies.push_back(Outgoing { reply, charge, _room: room });
    }

    /// Adds the reply of an admitted request, and sends it unless another thread sends.
    fn answer(&self, reply: Reply, charge: u64, room: Option<Room>) {
        let mut state = self.lock();
        if state.dead {
            state.requests -= 1;
            state.bytes -= charge;
            self.notify_room(&mut state);
            return;
        }
        state.unsent_bytes += charge;
        state.replies.push_back(Outgoing { reply, charge, _room: room });
        if state.turn != Turn::Free {
            return;
        }
        if state.unsent_bytes > INLINE_BYTES_MAX {
            self.pass(&mut state);
            return;
        }
        state.turn = Turn::Taken;
        drop(state);
        if self.send() == Flushed::Stalled {
            self.pass_turn();
        }
    }

    /// Sends the added replies, unless another thread sends.
    pub(super) fn flush(&self) -> Flushed {
        let mut state = self.lock();
        if state.turn != Turn::Free || state.replies.is_empty() {
            return Flushed::Clear;
        }
        state.turn = Turn::Taken;
        drop(state);
        self.send()
    }

    /// Sends the added replies. The caller has the turn, and keeps it if the socket is full.
    pub(super) fn send(&self) -> Flushed {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let sent = batch.send(self.socket.as_fd());
            if !matches!(sent, Ok(()) | Err(Errno::AGAIN)) {
                batch.clear();
                self.hang_up();
            }
            let mut state = self.lock();
            let over = std::mem::take(&mut batch.sent);
            state.requests -= over.requests;
            state.bytes -= over.bytes;
            state.unsent_bytes -= over.bytes;
            if over.requests > 0 {
                self.notify_room(&mut state);
            }
            if !batch.replies.is_empty() {
                return Flushed::Stalled;
            }
            if state.replies.is_empty() {
                state.turn = Turn::Free;
                return Flushed::Clear;
            }
            std::mem::swap(&mut batch.replies, &mut state.replies);
        }
    }

    /// Has the writer send the added replies, unless another thread sends.
    pub(super) fn flush_elsewhere(&self) {
        let mut state = self.lock();
        if state.turn == Turn::Free && !state.replies.is_empty() {
            self.pass(&mut state);
        }
    }

    /// Passes the caller's turn to the writer.
    pub(super) fn pass_turn(&self) {
        self.pass(&mut self.lock());
    }

    fn pass(&self, state: &mut State) {
        state.turn = Turn::Passed;
        self.writer.notify_one();
    }

    /// Waits until the socket has room (or, with `or_read`, until the client sends something).
    /// Returns which. Nothing after the connection's timeout, which hangs it up.
    pub(super) fn wait_writable(&self, or_read: bool) -> PollFlags {
        let mut wanted = PollFlags::OUT;
        if or_read {
            wanted |= PollFlags::IN;
        }
        let mut fds = [PollFd::new(&self.socket, wanted)];
        let timeout = Timespec::try_from(self.terms.patience).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => {
                self.hang_up();
                PollFlags::OUT
            }
            Ok(_) => fds[0].revents(),
            Err(Errno::INTR) => PollFlags::empty(),
            Err(_) => {
                self.hang_up();
                PollFlags::OUT
            }
        }
    }

    /// The writer's loop: sends for threads that must not wait.
    pub(super) fn write_replies(&self) {
        loop {
            let mut state = self.lock();
            while state.turn != Turn::Passed {
                if state.over {
                    return;
                }
                state = self.writer.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.turn = Turn::Taken;
            drop(state);
            while self.send() == Flushed::Stalled {
                self.wait_writable(false);
            }
        }
    }

    /// Waits until the load is below `most` in every respect. Not with the turn.
    pub(super) fn wait_below(&self, most: Load) {
        let mut state = self.lock();
        while state.requests >= most.requests
            || state.bytes >= most.bytes
            || state.unsent_bytes >= most.unsent_bytes
        {
            state.waited_for = true;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until nothing is in flight: every request is answered, and the answers have gone out
    /// or the client is gone. Not with the turn.
    pub(super) fn finish(&self) {
        self.wait_below(Load { requests: 1, bytes: u64::MAX, unsent_bytes: u64::MAX });
    }

    /// Requests are no longer read. The writer ends, the client is hung up, and requests in flight
    /// end without an answer.
    pub(super) fn abandon(&self) {
        self.hang_up();
        self.lock().over = true;
        self.writer.notify_one();
    }

    /// Ends the connection: replies are dropped, and the reader wakes up.
    pub(super) fn hang_up(&self) {
        let mut state = self.lock();
        state.dead = true;
        let dropped = std::mem::take(&mut state.replies);
        for outgoing in &dropped {
            state.requests -= 1;
            state.bytes -= outgoing.charge;
            state.unsent_bytes -= outgoing.charge;
        }
        self.notify_room(&mut state);
        drop(state);
        // It may be shut down already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Stops reading from the client; replies still go out.
    pub(super) fn stop_reading(&self) {
        let _ = shutdown(&self.socket, Shutdown::Read);
    }

    fn notify_room(&self, state: &mut State) {
        if std::mem::take(&mut state.waited_for) {
            self.room.notify_all();
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in flight, which the client must be told the end of.
pub(super) struct Ticket {
    link: Option<Arc<Link>>,
    ask: Ask,
    to: To,
    tag: u16,
    charge: u64,
    rooms: Rooms,
    pub(super) reads: bool,
    pub(super) flush_after: bool,
}

impl Ticket {
    /// Hands the request to the volume, charged to the connection. Its end is answered.
    pub(super) fn submit(self, make: impl FnOnce(Completion) -> Submission) {
        let Some(link) = self.link.clone() else { return };
        let tag = self.tag;
        let mut submission = make(Box::new(move |result| self.done(result)));
        submission.request.cause = link.terms.cause;
        submission.tag = tag;
        submission.fence = Some(Arc::clone(&link.fence));
        link.terms.volume.submit(submission);
    }

    fn done(mut self, result: io::Result<Buffer>) {
        if !self.flush_after {
            self.rooms.device = None;
        }
        let reply = match result {
            Ok(_) if self.flush_after => {
                self.flush_after = false;
                return self.submit(|done| Submission::new(Operation::Flush, 0, 0, done));
            }
            Ok(data) if self.reads => Reply::data(self.to, data),
            Ok(_) => Reply::done(self.to),
            Err(error) => {
                if let Some(link) = &self.link {
                    link.note_failed(self.ask, &error);
                }
                Reply::error(self.to, Error::of(&error), "the device reports an error")
            }
        };
        self.answer(reply);
    }

    fn answer(&mut self, reply: Reply) {
        if let Some(link) = self.link.take() {
            link.answer(reply, self.charge, self.rooms.answer.take());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.answer(Reply::error(self.to, Error::Io, "the device lost the request"));
    }
}
