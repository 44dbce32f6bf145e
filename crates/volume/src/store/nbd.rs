//! A volume on an export of another NBD server.
//!
//! # Durability
//! A write with `fua` and a flush are passed on as such; a server without FUA gets a flush after
//! the write. `io` never reports something as durable before the server did.
//!
//! # When the server is lost
//! Requests in flight are unanswered, so each may be done twice. They
//! are repeated on a new connection, for up to the store's timeout; then they fail with EIO. A
//! server that is silent for half of that is taken for lost, too: its machine may be cut off, and
//! TCP would notice for minutes that it is there again. But a server that comes back may have lost
//! answered writes that were not flushed: this store is then like a drive that lost its cache. If
//! any write was answered since the last flush, everything fails with EIO from then on. It lasts
//! until the volume is started again and the file system replays its journal. After a flush
//! nothing can be lost, and the volume's users notice only a pause.
//!
//! A server of ours names its *incarnation*, which is the same as long as it has all that it
//! answered: its process was started again, and the machine was not. Then it is a pause, too.
//!
//! # When it comes back with other bytes
//! Memory that began again, another file of the same name: a file system that went on there would
//! be damaged in silence. A server of ours names the *identity* of its bytes, too. If that differs,
//! everything fails until the volume is started again. Other servers tell nothing. Of them only the
//! size is known: an export that has shrunk is another one. For the rest, the log says that it
//! cannot be known.

mod address;
mod connection;
mod handshake;
mod opening;
mod socket;

pub use address::{Address, Tls};

use super::Store;
use crate::buffer::Buffer;
use crate::nbd::wire::{NOTE_BYTES_MAX, command, command_flag, transmission_flag as flag};
use connection::{Ask, Connection, Failure};
use opening::{Bytes, UNKNOWN_BYTES, compare, connect, identity, incarnation};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may be away, or silent, before requests fail.
pub const OUTAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two attempts to reach a server that is away.
const RETRY: Duration = Duration::from_millis(100);

/// Longest range of a trim or of zeroing that is asked for at a time, in bytes.
const RANGE_BYTES_MAX: u64 = 1 << 30;

/// Zeros that are written at a time where the server cannot zero.
const ZEROS_BYTES: usize = 1 << 20;

/// Why an export cannot hold a volume.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// It is no URI.
    #[error(
        "`{text}` is no address of an NBD export: {problem}\n  \
         write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH"
    )]
    Address {
        /// As written.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The server cannot be reached, or answers wrongly.
    #[error("cannot reach {address}: {source}\n  is its server running? look: nbdinfo '{address}'")]
    Connect {
        /// The export.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The server has no such export.
    #[error(
        "the server of {address} has no such export\n  see which it has: nbdinfo --list '{address}'"
    )]
    NoExport {
        /// The export.
        address: Address,
    },
    /// The server refuses.
    #[error("cannot use {address}: {problem}")]
    Refused {
        /// The export.
        address: Address,
        /// Why.
        problem: String,
    },
    /// Writes would fail.
    #[error(
        "{address} is read-only, and a volume is written to\n  export it writable, or take another"
    )]
    ReadOnly {
        /// The export.
        address: Address,
    },
    /// The volume does not fit.
    #[error(
        "{address} has {has} bytes, the volume needs {needs}\n  make the export larger or the volume smaller"
    )]
    Small {
        /// The export.
        address: Address,
        /// Its size.
        has: u64,
        /// The volume's.
        needs: u64,
    },
    /// The server's smallest block is larger than the volume's.
    #[error(
        "{address} takes blocks of {least} bytes at least\n  create the volume with --block {least}"
    )]
    Block {
        /// The export.
        address: Address,
        /// Its smallest block.
        least: u32,
    },
}

/// State of the connection.
struct Line {
    current: Arc<Connection>,
    /// Since when the server could not be reached.
    away_since: Option<Instant>,
    /// All requests fail from here on.
    failed: bool,
}

/// See the module.
pub struct Nbd {
    address: Address,
    /// Named on each connection: the server keeps requests of the ones before from its store.
    session: String,
    size: u64,
    block: u32,
    patience: Duration,
    line: Mutex<Line>,
    /// Answered writes that are durable only after a flush.
    answered: AtomicU64,
    /// Answered writes that a flush has covered.
    flushed: AtomicU64,
    /// The problem, as a message.
    trouble: Mutex<Option<String>>,
    /// The note that names the tags of applications; empty for none.
    names: Mutex<Vec<u8>>,
}

impl Nbd {
    /// Opens an export for a volume of `size` bytes in blocks of `block` bytes.
    ///
    /// # Errors
    /// If the server cannot be reached, or the export is read-only, too small, or does not take
    /// such blocks.
    pub fn open(address: Address, size: u64, block: u32) -> Result<Nbd, NbdError> {
        Nbd::open_with(address, size, block, OUTAGE_TIMEOUT)
    }

    /// The same with another timeout for the server's silence and absence.
    ///
    /// # Errors
    /// As [`Nbd::open`].
    pub fn open_with(
        address: Address,
        size: u64,
        block: u32,
        patience: Duration,
    ) -> Result<Nbd, NbdError> {
        let session = super::unique();
        let current = Arc::new(connect(&address, &session, size, block, patience)?);
        if let Some(words) = handshake::warning(&current.terms) {
            eprintln!("headworks: {address}: {words}");
        }
        Ok(Nbd {
            address,
            session,
            size,
            block,
            patience,
            line: Mutex::new(Line { current, away_since: None, failed: false }),
            answered: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            trouble: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// Names the tags on a connection that knows none of them yet.
    fn name_on(&self, connection: &Connection) {
        let note = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !note.is_empty() && connection.words.is_some() {
            // If the connection is over, the next one gets it.
            let _ = connection.note(&note);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a note to the server, if it is one of ours, and returns the answer.
    pub fn note(&self, note: &[u8]) -> Option<Buffer> {
        let connection = Arc::clone(&self.lock().current);
        connection.words.as_ref()?;
        // If the connection is over, the next request finds out.
        connection.note(note).ok()
    }

    fn can(&self, what: u16) -> bool {
        self.lock().current.terms.can(what)
    }

    /// Repeats a request until it is answered, on as many connections as needed. Returns the last
    /// one.
    fn call(&self, ask: &Ask, into: &mut [u8]) -> io::Result<Arc<Connection>> {
        let begun = Instant::now();
        loop {
            let connection = {
                let line = self.lock();
                if line.failed {
                    return Err(eio());
                }
                Arc::clone(&line.current)
            };
            match connection.call(ask, into) {
                Ok(()) => return Ok(connection),
                Err(Failure::Server(libc::ESHUTDOWN)) => {
                    // The server takes no more requests on this connection.
                    connection.end(&io::Error::other("the server is being shut down"));
                    self.reconnect(
                        &connection,
                        &io::Error::other("the server is being shut down"),
                    )?;
                }
                Err(Failure::Server(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Err(Failure::Lost(error)) => {
                    self.reconnect(&connection, &error)?;
                    // Repeating it again and again would wait forever for a server that hangs.
                    let silent =
                        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    if silent && begun.elapsed() >= self.patience {
                        return Err(eio());
                    }
                }
            }
        }
    }

    /// Asks for a change of the export. A change that is not `durable` by its answer is noted. So a
    /// broken connection is known to have perhaps lost it. If the connection broke before the note
    /// was made, the change is repeated.
    fn change(&self, ask: &Ask, durable: bool) -> io::Result<()> {
        loop {
            let used = self.call(ask, &mut [])?;
            if durable {
                return Ok(());
            }
            let line = self.lock();
            if line.failed {
                return Err(eio());
            }
            if Arc::ptr_eq(&line.current, &used) {
                self.answered.fetch_add(1, Ordering::AcqRel);
                return Ok(());
            }
        }
    }

    /// Reports a problem once.
    fn say(&self, words: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_ref() != Some(&words) {
            eprintln!("headworks: {words}");
            *trouble = Some(words);
        }
    }

    /// Replaces a connection that is over, unless another thread did.
    fn reconnect(&self, old: &Arc<Connection>, why: &io::Error) -> io::Result<()> {
        let mut line = self.lock();
        if line.failed {
            return Err(eio());
        }
        if !Arc::ptr_eq(&line.current, old) {
            return Ok(());
        }
        let unflushed =
            self.answered.load(Ordering::Acquire) - self.flushed.load(Ordering::Acquire);
        if unflushed > 0 && incarnation(old).is_none() {
            return Err(self.may_be_lost(&mut line, why, unflushed));
        }
        if line.away_since.is_none() {
            self.say(format!("the connection to {} broke ({why}); trying again", self.address));
        }
        let since = *line.away_since.get_or_insert_with(Instant::now);
        loop {
            match connect(&self.address, &self.session, self.size, self.block, self.patience) {
                Ok(fresh) => {
                    let bytes = compare(old, &fresh);
                    match bytes {
                        Bytes::Others => return Err(self.are_others(&mut line)),
                        Bytes::Flushed | Bytes::Unknown if unflushed > 0 => {
                            return Err(self.may_be_lost(&mut line, why, unflushed));
                        }
                        _ => {}
                    }
                    // Before the first request that has a tag.
                    self.name_on(&fresh);
                    let doubt = if bytes == Bytes::Unknown { UNKNOWN_BYTES } else { "" };
                    eprintln!("headworks: {} is back{doubt}", self.address);
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    line.current = Arc::new(fresh);
                    line.away_since = None;
                    return Ok(());
                }
                Err(error) if since.elapsed() >= self.patience => {
                    self.say(format!("requests fail: {error}"));
                    return Err(eio());
                }
                Err(_) => std::thread::sleep(RETRY.min(self.patience)),
            }
        }
    }

    /// The server has other bytes than before: everything fails from here on.
    fn are_others(&self, line: &mut Line) -> io::Error {
        self.say(opening::others(&self.address));
        line.failed = true;
        eio()
    }

    /// The server may have lost writes that it answered: everything fails from here on.
    fn may_be_lost(&self, line: &mut Line, why: &io::Error, unflushed: u64) -> io::Error {
        self.say(opening::may_be_lost(&self.address, why, unflushed));
        line.failed = true;
        eio()
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn longest(&self) -> usize {
        let longest = self.lock().current.terms.payload_bytes_max;
        // A multiple of all block sizes of volumes.
        (longest - longest % 4096) as usize
    }

    /// Commands over a range, piece by piece; those that need no flush are `durable`.
    fn over_range(
        &self,
        (command, flags): (u16, u16),
        offset: u64,
        len: u64,
        durable: bool,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(RANGE_BYTES_MAX);
            // At most 2^30.
            let ask = Ask { command, flags, offset: offset + done, len: part as u32, payload: &[] };
            self.change(&ask, durable)?;
            done += part;
        }
        Ok(())
    }

    fn write_pieces(&self, offset: u64, from: &[u8], flags: u16) -> io::Result<()> {
        let mut at = offset;
        for payload in from.chunks(self.longest()) {
            // At most the server's limit, of 32 bits.
            let len = payload.len() as u32;
            let ask = Ask { command: command::WRITE, flags, offset: at, len, payload };
            self.change(&ask, flags & command_flag::FUA != 0)?;
            at += u64::from(len);
        }
        Ok(())
    }

    /// Whether durability is part of the command; if not, the caller flushes.
    fn fua_flag(&self, fua: bool) -> (u16, bool) {
        let native = fua && self.can(flag::SEND_FUA);
        (if native { command_flag::FUA } else { 0 }, fua && !native)
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl Store for Nbd {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(offset, into.len() as u64)?;
        let mut at = offset;
        for part in into.chunks_mut(self.longest()) {
            // At most the server's limit, of 32 bits.
            let len = part.len() as u32;
            let ask = Ask { command: command::READ, flags: 0, offset: at, len, payload: &[] };
            self.call(&ask, part)?;
            at += u64::from(len);
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8], fua: bool) -> io::Result<()> {
        self.check(offset, from.len() as u64)?;
        let (flags, then_flush) = self.fua_flag(fua);
        self.write_pieces(offset, from, flags)?;
        if then_flush { self.flush() } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        if !self.can(flag::SEND_FLUSH) {
            return Ok(());
        }
        let covered = self.answered.load(Ordering::Acquire);
        let ask = Ask { command: command::FLUSH, flags: 0, offset: 0, len: 0, payload: &[] };
        self.call(&ask, &mut [])?;
        self.flushed.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len)?;
        // Advice: a server without trims gets none.
        if self.can(flag::SEND_TRIM) {
            // The contents of a trimmed range are undefined, so nothing can be lost.
            self.over_range((command::TRIM, 0), offset, len, true)?;
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()> {
        self.check(offset, len)?;
        let (flags, then_flush) = self.fua_flag(fua);
        if self.can(flag::SEND_WRITE_ZEROES) {
            let keep = if unmap { 0 } else { command_flag::NO_HOLE };
            self.over_range((command::WRITE_ZEROES, flags | keep), offset, len, flags != 0)?;
        } else {
            let zeros = vec![0; ZEROS_BYTES.min(usize::try_from(len).unwrap_or(ZEROS_BYTES))];
            let mut done = 0;
            while done < len {
                let part = (len - done).min(zeros.len() as u64);
                // At most the buffer's length.
                self.write_pieces(offset + done, &zeros[..part as usize], flags)?;
                done += part;
            }
        }
        if then_flush { self.flush() } else { Ok(()) }
    }

    fn name_tags(&self, names: &BTreeMap<u16, String>) {
        let plain =
            |name: &&String| !name.contains(['"', '\\']) && !name.contains(char::is_control);
        let pairs: Vec<String> = names
            .iter()
            .filter(|(_, name)| plain(name))
            .map(|(tag, name)| format!("\"{tag}\":\"{name}\""))
            .collect();
        let note = format!("{{\"tags\":{{{}}}}}", pairs.join(",")).into_bytes();
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != note && note.len() as u64 <= NOTE_BYTES_MAX {
            *known = note;
            drop(known);
            let connection = Arc::clone(&self.lock().current);
            self.name_on(&connection);
        }
    }

    fn identity(&self) -> Option<String> {
        identity(&self.lock().current).map(str::to_owned)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        self.lock().current.leave();
    }
}
