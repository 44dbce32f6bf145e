//! One connection to a server, with many requests in flight. Each belongs to a thread that waits
//! for its answer.
//!
//! No extra thread reads. One of the waiting threads is the *reader*: it takes answers off the
//! socket until its own has come, and passes each of the others to its owner. Then it passes the
//! reading to another waiting thread. At depth 1 the asking thread reads its own answer, without
//! another thread between. At any depth some thread reads while anything was sent, so a server that
//! is blocked on its answers can send them.

use super::Address;
use super::NbdError;
use super::handshake::{self, Terms};
use super::socket::Socket;
use crate::buffer::Buffer;
use crate::nbd::wire::{
    Error, REPLY_DONE, REQUEST_BYTES, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
    chunk, command, u16_at, u32_at, u64_at,
};
use crate::store::tag;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// A chunk of zeros within a read.
const CHUNK_OFFSET_HOLE: u16 = 2;
/// An error for a part of a read.
const CHUNK_ERROR_OFFSET: u16 = (1 << 15) + 2;
/// The part of a cookie that is not a tag.
const COOKIE_MASK: u64 = (1 << 48) - 1;
/// Longest answer to a note.
const NOTE_ANSWER_BYTES_MAX: u32 = 1 << 20;
/// Longest chunk without data: an error with its message.
const WORDS_BYTES_MAX: u32 = 16 << 10;

/// Why a request did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server says so.
    Server(i32),
    /// The connection is over; whether the request was carried out is not known.
    Lost(io::Error),
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub command: u16,
    pub flags: u16,
    pub offset: u64,
    pub len: u32,
    pub payload: &'a [u8],
}

/// A waiting thread.
struct Waiter {
    thread: Thread,
    offset: u64,
    /// Bytes that a read expects; zero for other commands.
    wanted: u32,
    /// Bytes that came.
    came: u32,
    data: Buffer,
    error: Option<i32>,
    sent: bool,
    done: bool,
}

#[derive(Default)]
struct Inbox {
    waiting: HashMap<u64, Waiter>,
    next_cookie: u64,
    has_reader: bool,
    /// What ended the connection.
    over: Option<(io::ErrorKind, String)>,
}

/// See the module.
pub(super) struct Connection {
    socket: Socket,
    pub terms: Terms,
    /// What the server said of itself, if it is one of ours.
    pub words: Option<String>,
    sending: Mutex<()>,
    inbox: Mutex<Inbox>,
}

impl Connection {
    /// Connects. From then on the server may be silent for `patience` while it owes an answer.
    pub fn open(
        address: &Address,
        session: &str,
        patience: Duration,
    ) -> Result<Connection, NbdError> {
        let io = |source| NbdError::Connect { address: address.clone(), source };
        let socket = Socket::connect(&address.place, patience).map_err(io)?;
        let (terms, words) = handshake::agree(&mut &socket, address, session)?;
        let (sending, inbox) = (Mutex::default(), Mutex::default());
        Ok(Connection { socket, terms, words, sending, inbox })
    }

    /// Sends a request and waits. A read fills `into`, which is as long as the request.
    pub fn call(&self, ask: &Ask, into: &mut [u8]) -> Result<(), Failure> {
        let answered = self.ask(ask)?;
        if ask.command == command::READ {
            into.copy_from_slice(&answered.data);
        }
        Ok(())
    }

    /// Sends a note to a server of ours, and waits for the answer.
    pub fn note(&self, note: &[u8]) -> Result<Buffer, Failure> {
        // A note has 4 KiB at most.
        let len = note.len() as u32;
        let ask = Ask { command: command::NOTE, flags: 0, offset: 0, len, payload: note };
        Ok(self.ask(&ask)?.data)
    }

    fn ask(&self, ask: &Ask) -> Result<Waiter, Failure> {
        let reads = ask.command == command::READ;
        let cookie = {
            let mut inbox = self.lock();
            if let Some(lost) = lost(&inbox) {
                return Err(lost);
            }
            inbox.next_cookie += 1;
            // The upper 16 bits have the tag, and the rest lasts for years.
            let tag = if self.words.is_some() { u64::from(tag::current()) } else { 0 };
            let cookie = inbox.next_cookie & COOKIE_MASK | tag << 48;
            let waiter = Waiter {
                thread: std::thread::current(),
                offset: ask.offset,
                wanted: if reads { ask.len } else { 0 },
                came: 0,
                data: if reads { Buffer::new(ask.len as usize) } else { Buffer::default() },
                error: None,
                sent: false,
                done: false,
            };
            inbox.waiting.insert(cookie, waiter);
            cookie
        };
        let sent = {
            let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            self.socket.write_both(&head(ask, cookie), ask.payload)
        };
        if let Err(error) = sent {
            self.end(&error);
        }
        let answered = self.wait(cookie)?;
        if let Some(errno) = answered.error {
            return Err(Failure::Server(errno));
        }
        Ok(answered)
    }

    /// Waits for the answer to `cookie`; reads unless another thread does.
    fn wait(&self, cookie: u64) -> Result<Waiter, Failure> {
        let mut inbox = self.lock();
        if let Some(waiter) = inbox.waiting.get_mut(&cookie) {
            waiter.sent = true;
        }
        loop {
            let done = inbox.waiting.get(&cookie).is_none_or(|waiter| waiter.done);
            if done || inbox.over.is_some() {
                let waiter = inbox.waiting.remove(&cookie);
                return match waiter {
                    Some(waiter) if waiter.done => Ok(waiter),
                    _ => Err(lost(&inbox).unwrap_or_else(|| Failure::Lost(nonsense("no answer")))),
                };
            }
            if inbox.has_reader {
                drop(inbox);
                std::thread::park();
                inbox = self.lock();
                continue;
            }
            inbox.has_reader = true;
            drop(inbox);
            let read = self.read_until(cookie);
            if let Err(error) = &read {
                self.end(error);
            }
            inbox = self.lock();
            inbox.has_reader = false;
            let mut others = inbox.waiting.iter();
            let next =
                others.find(|(other, waiter)| **other != cookie && waiter.sent && !waiter.done);
            if let Some((_, waiter)) = next {
                waiter.thread.unpark();
            }
        }
    }

    /// Reads answers until that to `cookie` is complete.
    fn read_until(&self, cookie: u64) -> io::Result<()> {
        loop {
            if let Some(done) = self.read_one()? {
                let mut inbox = self.lock();
                let waiter = inbox.waiting.get_mut(&done).ok_or_else(stranger)?;
                waiter.done = true;
                if waiter.error.is_none() && waiter.came != waiter.wanted {
                    return Err(nonsense("a read was answered without all of its bytes"));
                }
                if done == cookie {
                    return Ok(());
                }
                waiter.thread.unpark();
            }
        }
    }

    /// Reads one reply, or one chunk of one. Returns the request that it completes, if any.
    fn read_one(&self) -> io::Result<Option<u64>> {
        let mut head = [0; 20];
        self.socket.read_exact(&mut head[..16])?;
        match u32_at(&head, 0) {
            Some(SIMPLE_REPLY_MAGIC) => {
                let (error, cookie) =
                    (u32_at(&head, 4).unwrap_or(0), u64_at(&head, 8).unwrap_or(0));
                let wanted = self.waiter(cookie, |waiter| {
                    waiter.error = (error != 0).then(|| errno(error));
                    waiter.wanted
                })?;
                if error == 0 && wanted > 0 {
                    if self.terms.structured {
                        return Err(nonsense("a read was answered without chunks"));
                    }
                    self.read_data(cookie, 0, wanted)?;
                }
                Ok(Some(cookie))
            }
            Some(STRUCTURED_REPLY_MAGIC) if self.terms.structured => {
                self.socket.read_exact(&mut head[16..20])?;
                let (flags, kind) = (u16_at(&head, 4).unwrap_or(0), u16_at(&head, 6).unwrap_or(0));
                let (cookie, len) = (u64_at(&head, 8).unwrap_or(0), u32_at(&head, 16).unwrap_or(0));
                self.read_chunk(cookie, kind, len)?;
                Ok((flags & REPLY_DONE != 0).then_some(cookie))
            }
            _ => Err(nonsense("a reply does not begin with its magic number")),
        }
    }

    fn read_chunk(&self, cookie: u64, kind: u16, len: u32) -> io::Result<()> {
        let place = |at: &[u8]| -> io::Result<u32> {
            let offset = u64_at(at, 0).unwrap_or(0);
            let from = self.waiter(cookie, |waiter| waiter.offset)?;
            let within = offset.checked_sub(from).and_then(|place| u32::try_from(place).ok());
            within.ok_or_else(|| nonsense("a chunk lies outside of the read"))
        };
        match kind {
            chunk::NONE if len == 0 => self.waiter(cookie, |_| ()),
            chunk::OFFSET_DATA if len > 8 => {
                let mut at = [0; 8];
                self.socket.read_exact(&mut at)?;
                self.read_data(cookie, place(&at)?, len - 8)
            }
            CHUNK_OFFSET_HOLE if len == 12 => {
                let mut at = [0; 12];
                self.socket.read_exact(&mut at)?;
                let (start, count) = (place(&at)?, u32_at(&at, 8).unwrap_or(0));
                self.waiter(cookie, |waiter| {
                    let range = range(waiter, start, count)?;
                    waiter.data[range].fill(0);
                    waiter.came += count;
                    Ok(())
                })?
            }
            chunk::ERROR | CHUNK_ERROR_OFFSET if (6..=WORDS_BYTES_MAX).contains(&len) => {
                let mut words = vec![0; len as usize];
                self.socket.read_exact(&mut words)?;
                let error = u32_at(&words, 0).unwrap_or(0);
                self.waiter(cookie, |waiter| waiter.error = Some(errno(error)))
            }
            chunk::NOTE if self.words.is_some() && len <= NOTE_ANSWER_BYTES_MAX => {
                let mut answer = Buffer::new(len as usize);
                self.socket.read_exact(&mut answer)?;
                self.waiter(cookie, |waiter| waiter.data = answer)
            }
            _ => Err(nonsense("a chunk is of no kind that was asked for")),
        }
    }

    /// Reads the data of a read. Its buffer is taken out meanwhile, so that others go on.
    fn read_data(&self, cookie: u64, start: u32, count: u32) -> io::Result<()> {
        let (mut data, range) = self.waiter(cookie, |waiter| {
            let range = range(waiter, start, count)?;
            Ok::<_, io::Error>((std::mem::take(&mut waiter.data), range))
        })??;
        let read = self.socket.read_exact(&mut data[range]);
        self.waiter(cookie, |waiter| {
            waiter.data = data;
            waiter.came += count;
        })?;
        read
    }

    fn waiter<T>(&self, cookie: u64, act: impl FnOnce(&mut Waiter) -> T) -> io::Result<T> {
        self.lock()
            .waiting
            .get_mut(&cookie)
            .filter(|waiter| !waiter.done)
            .map(act)
            .ok_or_else(stranger)
    }

    /// The connection is over: all waiting threads learn of it.
    pub fn end(&self, error: &io::Error) {
        let mut inbox = self.lock();
        if inbox.over.is_none() {
            let silent =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            let words = match error.kind() {
                _ if silent => "the server owes an answer and is silent".to_owned(),
                io::ErrorKind::UnexpectedEof => "the server hung up".to_owned(),
                _ => error.to_string(),
            };
            inbox.over = Some((error.kind(), words));
        }
        for waiter in inbox.waiting.values() {
            waiter.thread.unpark();
        }
        drop(inbox);
        self.socket.hang_up();
    }

    /// Tells the server that the client leaves, if the connection still stands.
    pub fn leave(&self) {
        let ask = Ask { command: command::DISC, flags: 0, offset: 0, len: 0, payload: &[] };
        // There is no answer, and it does not matter whether it arrives.
        let _ = self.socket.write_both(&head(&ask, 0), &[]);
        self.socket.hang_up();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(inbox: &Inbox) -> Option<Failure> {
    let (kind, words) = inbox.over.as_ref()?;
    Some(Failure::Lost(io::Error::new(*kind, words.clone())))
}

fn range(waiter: &Waiter, start: u32, count: u32) -> io::Result<std::ops::Range<usize>> {
    let fits = start.checked_add(count).is_some_and(|end| end <= waiter.wanted)
        && waiter.came.checked_add(count).is_some_and(|came| came <= waiter.wanted);
    if fits {
        Ok(start as usize..(start + count) as usize)
    } else {
        Err(nonsense("a read was answered with more than it asked for"))
    }
}

fn head(ask: &Ask, cookie: u64) -> [u8; REQUEST_BYTES] {
    let mut head = [0; REQUEST_BYTES];
    head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    head[4..6].copy_from_slice(&ask.flags.to_be_bytes());
    head[6..8].copy_from_slice(&ask.command.to_be_bytes());
    head[8..16].copy_from_slice(&cookie.to_be_bytes());
    head[16..24].copy_from_slice(&ask.offset.to_be_bytes());
    head[24..28].copy_from_slice(&ask.len.to_be_bytes());
    head
}

/// The errno of an error on the wire. Unknown ones become EIO: the EINVAL that the protocol
/// prescribes would mislead.
fn errno(error: u32) -> i32 {
    match error {
        e if e == Error::Perm as u32 => libc::EPERM,
        e if e == Error::NoMem as u32 => libc::ENOMEM,
        e if e == Error::Inval as u32 => libc::EINVAL,
        e if e == Error::NoSpc as u32 => libc::ENOSPC,
        e if e == Error::NotSup as u32 => libc::EOPNOTSUPP,
        e if e == Error::Shutdown as u32 => libc::ESHUTDOWN,
        _ => libc::EIO,
    }
}

fn nonsense(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

fn stranger() -> io::Error {
    nonsense("the server answers a request that was never made")
}
