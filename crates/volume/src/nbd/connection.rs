//! One client, from its handshake to its end: the thread that reads what it sends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headworks_policy::block::Operation;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, getpeername, recv, send};

use super::backend::{Room, Rooms};
use super::directory::{Origin, Peer, Unserved};
use super::export::{Export, Exports};
use super::handshake::{self, Handshake, Step};
use super::intake::{Event, Intake, Payload, Space};
use super::link::{Flushed, Link, Load, Terms};
use super::reply::{Reply, To};
use super::request::{Agreement, Ask, Job};
use super::room::{admit, rooms};
use super::server::Shared;
use super::wire::{Error, PAYLOAD_BYTES_MAX};
use crate::buffer::Buffer;
use crate::engine::Submission;
use crate::spin::{SPIN_TIME, SpinHistory};

/// Unsent replies after which they are sent, even in the middle of a batch of requests.
const BATCH_BYTES: u64 = 256 << 10;

/// Unsent replies of a slow client after which no more of its requests are read. More would not
/// make it faster, and would leave the cache between the copy from the store and the one to the
/// socket.
const UNSENT_BYTES_MAX: u64 = 2 << 20;

/// Serves the client of `socket` to its end.
pub(super) fn serve(shared: &Shared, id: u64, socket: OwnedFd) {
    let mut intake = Intake::default();
    let Ok(origin) = origin(&socket) else { return };
    let mut peer = Peer { origin, certificate: None };
    let agreed = match shake_hands(shared, id, socket, &mut intake, &mut peer) {
        Ok(agreed) => agreed,
        Err(why) => {
            return shared.directory.unserved(Unserved::Handshake { peer: &peer, why: &why });
        }
    };
    let Agreed { socket, wire, exports, agreement, session, out } = agreed;
    let export = &exports.list()[agreement.export];
    let patience = shared.limits.patience;
    // Numbers of connections are reused after four billion.
    let cause = (id % u64::from(u32::MAX)) as u32 + 1;
    let terms = Terms {
        mode: agreement.mode,
        tags: agreement.extension,
        cause,
        volume: export.volume.clone(),
        export: export.name.clone(),
        session,
        origin,
        wire,
        patience,
    };
    let link = Arc::new(Link::new(socket, terms));
    if set_socket_timeout(&link.socket, Timeout::Recv, Some(patience)).is_err() {
        return;
    }
    // Once the client knows that it has the export, later connections know of this one.
    if !shared.register(id, &link) {
        let why = io::Error::other(
            "an earlier connection to this volume is over, and its requests hang at the device",
        );
        return shared.directory.unserved(Unserved::Handshake { peer: &peer, why: &why });
    }
    if send_all(&link.socket, &out).is_err() {
        return;
    }
    let writer = Writer::start(id, &link);
    if writer.0.is_some() {
        let spins = SpinHistory::default();
        let mut reader = Reader {
            shared,
            agreement,
            export,
            link: &link,
            intake,
            stalled: false,
            room: None,
            spins,
        };
        reader.read_requests();
        reader.leave();
    }
}

/// The thread that sends when no other thread may wait. It ends with the reader, even if that
/// panics.
struct Writer<'a>(Option<JoinHandle<()>>, &'a Link);

impl Writer<'_> {
    fn start(id: u64, link: &Arc<Link>) -> Writer<'_> {
        let own = link.clone();
        let builder = std::thread::Builder::new().name(format!("nbd-{id}-out"));
        Writer(builder.spawn(move || own.write_replies()).ok(), link)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.1.abandon();
        if let Some(thread) = self.0.take() {
            // It panics only by a bug of ours, which was reported then.
            let _ = thread.join();
        }
    }
}

/// What a handshake comes to.
struct Agreed {
    /// The plain bytes.
    socket: OwnedFd,
    /// The client's socket, under TLS.
    wire: Option<OwnedFd>,
    exports: Exports,
    agreement: Agreement,
    session: String,
    /// The end of the server's side.
    out: Vec<u8>,
}

/// Negotiates an export with the client.
fn shake_hands(
    shared: &Shared,
    id: u64,
    mut socket: OwnedFd,
    intake: &mut Intake,
    peer: &mut Peer,
) -> io::Result<Agreed> {
    let deadline = Instant::now() + shared.limits.handshake;
    set_socket_timeout(&socket, Timeout::Send, Some(shared.limits.handshake))?;
    let mut exports = shared.directory.exports(peer);
    let mut handshake = Handshake::new(shared.directory.tls(peer.origin));
    let mut wire = None;
    let mut out = Vec::new();
    send_all(&socket, &handshake::greeting())?;
    loop {
        let (used, step) = handshake.step(&exports, intake.unread(), &mut out);
        intake.consume(used);
        if !matches!(step, Step::Agreed(_)) {
            send_all(&socket, &out)?;
            out.clear();
        }
        match step {
            Step::Again => {}
            Step::Secure if !intake.unread().is_empty() => {
                // What came before TLS could be another's.
                return Err(io::Error::other("bytes before TLS"));
            }
            Step::Secure => {
                wire = Some(socket.try_clone()?);
                let secured = shared.directory.secure(socket)?;
                socket = secured.plain;
                shared.secured(id, &socket)?;
                set_socket_timeout(&socket, Timeout::Send, Some(shared.limits.handshake))?;
                peer.certificate = secured.certificate;
                exports = shared.directory.exports(peer);
                handshake = handshake.secured();
            }
            Step::Agreed(agreement) => {
                let session = handshake.greeting().map(|greeting| greeting.session.clone());
                let session = session.unwrap_or_default();
                return Ok(Agreed { socket, wire, exports, agreement, session, out });
            }
            Step::Close(reason) => {
                return Err(io::Error::other(handshake.refused().unwrap_or(reason)));
            }
            Step::More => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || shared.stopping() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let left = left.max(Duration::from_millis(1));
                set_socket_timeout(&socket, Timeout::Recv, Some(left))?;
                if receive(&socket, intake, RecvFlags::empty())? == 0 {
                    return Err(match handshake.refused() {
                        Some(refused) => io::Error::other(refused),
                        None => io::ErrorKind::UnexpectedEof.into(),
                    });
                }
            }
        }
    }
}

/// Whence a client comes.
pub(super) fn origin(socket: &OwnedFd) -> io::Result<Origin> {
    if sockopt::socket_domain(socket)? == AddressFamily::UNIX {
        let credentials = sockopt::socket_peercred(socket)?;
        return Ok(Origin::Unix { uid: credentials.uid.as_raw() });
    }
    let address = getpeername(socket)?.and_then(|address| SocketAddr::try_from(address).ok());
    address.map(Origin::Tcp).ok_or_else(|| io::Error::other("a client without an address"))
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits for bytes of the client; zero marks its end.
fn receive(socket: &OwnedFd, intake: &mut Intake, how: RecvFlags) -> Result<usize, Errno> {
    loop {
        let received = match intake.space() {
            Space::Any(space) => recv(socket, space, how),
            // One call, instead of one for each piece that the socket's buffer holds.
            Space::All(space) => recv(socket, space, how | RecvFlags::WAITALL),
        };
        match received {
            Err(Errno::INTR) => {}
            Ok((_, count)) => {
                intake.came(count);
                return Ok(count);
            }
            Err(error) => return Err(error),
        }
    }
}

struct Reader<'a> {
    shared: &'a Shared,
    agreement: Agreement,
    export: &'a Export,
    link: &'a Arc<Link>,
    intake: Intake,
    /// This thread has the turn, and the socket's buffer is full.
    stalled: bool,
    /// Of the large payload that is being read.
    room: Option<Room>,
    spins: SpinHistory,
}

impl Reader<'_> {
    fn read_requests(&mut self) {
        loop {
            loop {
                let Some(event) = self.intake.next(&self.agreement, self.export.facts()) else {
                    break;
                };
                match event {
                    Event::Large(len) => {
                        self.room = admit(self.link, &mut self.stalled, len);
                        continue;
                    }
                    Event::Job(job, payload) => {
                        let room = self.room.take();
                        let rooms = rooms(self.link, &mut self.stalled, &job, room);
                        carry_out(self.link, self.export, &job, payload, rooms);
                    }
                    Event::Refused(refusal) => {
                        let (cookie, offset) = (refusal.cookie, refusal.offset);
                        let to = To { mode: self.agreement.mode, cookie, offset };
                        let reply = Reply::error(to, refusal.error, refusal.words);
                        self.link.answer_later(reply, 0);
                    }
                    Event::Leave => {
                        self.link.note_leave();
                        return;
                    }
                    Event::Broken(_) => return,
                }
                self.make_room();
            }
            self.flush();
            if self.shared.stopping() || !self.fetch() {
                return;
            }
        }
    }

    /// Sends what there is, if this thread may.
    fn flush(&mut self) {
        let flushed = if self.stalled { self.link.send() } else { self.link.flush() };
        self.stalled = flushed == Flushed::Stalled;
    }

    /// Sends if there is much to send, and waits while too much is in flight.
    fn make_room(&mut self) {
        let most = Load {
            requests: self.shared.limits.requests,
            bytes: PAYLOAD_BYTES_MAX,
            unsent_bytes: UNSENT_BYTES_MAX,
        };
        loop {
            let load = self.link.load();
            if load.unsent_bytes > BATCH_BYTES {
                self.flush_or_share();
            }
            if load.requests < most.requests
                && load.bytes < most.bytes
                && load.unsent_bytes < most.unsent_bytes
            {
                return;
            }
            self.flush();
            if self.stalled {
                self.link.wait_writable(false);
                self.flush();
            } else {
                self.link.wait_below(most);
            }
        }
    }

    /// Sends. If more requests are there already, the writer sends while this thread works on the
    /// next reply.
    fn flush_or_share(&mut self) {
        if self.intake.unread().is_empty() {
            self.flush();
        } else if std::mem::take(&mut self.stalled) {
            self.link.pass_turn();
        } else {
            self.link.flush_elsewhere();
        }
    }

    /// Waits for more of the client, and sends meanwhile. False at its end.
    fn fetch(&mut self) -> bool {
        self.link.note_waits(self.intake.at_rest());
        while self.stalled {
            let ready = self.link.wait_writable(true);
            if ready.contains(PollFlags::OUT) {
                self.flush();
            }
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                break;
            }
        }
        let looked = if self.stalled { None } else { self.look() };
        let blocking = RecvFlags::empty();
        match looked.unwrap_or_else(|| receive(&self.link.socket, &mut self.intake, blocking)) {
            Ok(0) => false,
            Ok(_) => {
                self.link.note_heard();
                true
            }
            // A client may be silent between its requests for as long as it likes, but not within
            // one.
            Err(Errno::AGAIN) => self.intake.at_rest(),
            Err(_) => false,
        }
    }

    /// Spins briefly for the client's next request. A client that waits for each answer sends it at
    /// once, and waking this thread would take longer. The processor is yielded to others between.
    fn look(&mut self) -> Option<Result<usize, Errno>> {
        if !self.spins.worth_it() {
            return None;
        }
        let until = Instant::now() + SPIN_TIME;
        loop {
            match receive(&self.link.socket, &mut self.intake, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) if Instant::now() < until => std::thread::yield_now(),
                Err(Errno::AGAIN) => {
                    self.spins.failed();
                    return None;
                }
                result => {
                    self.spins.succeeded();
                    return Some(result);
                }
            }
        }
    }

    /// Answers the open requests, and waits for the answers to go out.
    fn leave(&mut self) {
        self.flush();
        if self.stalled {
            self.link.pass_turn();
        }
        self.link.finish();
    }
}

/// Does what a request asks, or has it done.
fn carry_out(link: &Arc<Link>, export: &Export, job: &Job, payload: Payload<'_>, rooms: Rooms) {
    let to = To { mode: link.terms.mode, cookie: job.cookie, offset: job.offset };
    let Some(_inside) = link.fence.enter() else {
        let words = "another connection has taken this one's place";
        return link.answer_later(Reply::error(to, Error::Shutdown, words), 0);
    };
    let &Job { ask, offset, len, fua, .. } = job;
    let volume = &export.volume;
    if len == 0 && !matches!(ask, Ask::Flush | Ask::Note) {
        let nothing = ask == Ask::Read;
        let reply = if nothing { Reply::data(to, Buffer::default()) } else { Reply::done(to) };
        return link.answer_later(reply, 0);
    }
    match ask {
        Ask::Read => read(link, export, job, to, rooms),
        Ask::Write => write(link, job, to, payload, rooms),
        Ask::Flush => {
            link.admit(job, 0, rooms).submit(|done| Submission::new(Operation::Flush, 0, 0, done));
        }
        Ask::Trim => {
            let mut ticket = link.admit(job, 0, rooms);
            ticket.flush_after = fua;
            ticket.submit(|done| Submission::new(Operation::Discard, offset, len, done));
        }
        Ask::WriteZeroes { unmap } => {
            link.admit(job, 0, rooms).submit(|done| {
                let mut zeroing = Submission::new(Operation::WriteZeroes, offset, len, done);
                (zeroing.request.fua, zeroing.unmap) = (fua, unmap);
                zeroing
            });
        }
        // No cache is nearer than the store.
        Ask::Cache => link.answer_later(Reply::done(to), 0),
        Ask::Note => {
            let Payload::Here(note) = payload else {
                return link
                    .answer_later(Reply::error(to, Error::Inval, "the note is too long"), 0);
            };
            link.answer_later(Reply::note(to, volume.note(note)), 0);
        }
        Ask::BlockStatus { one } => {
            let reply = match volume.extents(offset, len) {
                Ok(extents) => Reply::extents(to, len, one, &extents),
                Err(error) => outcome(link, ask, to, Err(error)),
            };
            link.answer_later(reply, 0);
        }
    }
}

fn write(link: &Arc<Link>, job: &Job, to: To, payload: Payload<'_>, rooms: Rooms) {
    let &Job { ask, offset, len, fua, .. } = job;
    let volume = &link.terms.volume;
    let at_once = match &payload {
        Payload::Here(bytes) => volume.write_now(offset, bytes, fua),
        Payload::Gathered(buffer) => volume.write_now(offset, buffer, fua),
    };
    if let Some(result) = at_once {
        return link.answer_later(outcome(link, ask, to, result), 0);
    }
    let data = match payload {
        Payload::Here(bytes) => Buffer::copy_of(bytes),
        Payload::Gathered(buffer) => buffer,
    };
    link.admit(job, len, rooms).submit(|done| {
        let mut write = Submission::write(offset, data, done);
        write.request.fua = fua;
        write
    });
}

fn read(link: &Arc<Link>, export: &Export, job: &Job, to: To, rooms: Rooms) {
    let len = usize::try_from(job.len).expect("32 MiB at most");
    let mut data = Buffer::new(len);
    match export.volume.read_now(job.offset, &mut data) {
        Some(Ok(())) => link.answer_later_from(Reply::data(to, data), job.len, rooms.answer),
        Some(Err(error)) => link.answer_later(outcome(link, job.ask, to, Err(error)), 0),
        None => {
            let mut ticket = link.admit(job, job.len, rooms);
            ticket.reads = true;
            ticket.submit(|done| {
                let mut read = Submission::new(Operation::Read, job.offset, job.len, done);
                read.data = data;
                read
            });
        }
    }
}

fn outcome(link: &Link, ask: Ask, to: To, result: io::Result<()>) -> Reply {
    match result {
        Ok(()) => Reply::done(to),
        Err(error) => {
            link.note_failed(ask, &error);
            Reply::error(to, Error::of(&error), "the device reports an error")
        }
    }
}
