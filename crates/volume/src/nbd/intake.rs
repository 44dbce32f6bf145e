//! The client's stream in the transmission phase, cut into events. It has no socket: the caller
//! reads into [`Intake::space`] and passes the number of bytes.
//!
//! Headers and small payloads come through one buffer, so one call reads many pipelined requests. A
//! complete payload is returned in place. The rest of a large one is read directly into its own
//! buffer.

use crate::buffer::Buffer;

use super::export::Facts;
use super::request::{self, Agreement, Job, Parsed, Refusal};

/// Bytes for one call. More means fewer calls, but more copied bytes of large payloads.
pub const INTAKE_BYTES: usize = 64 << 10;

/// Payloads from this size on are large and read into their own buffer, in one call. Two smaller
/// ones and a header fit into the intake.
const LARGE_BYTES: usize = 32 << 10;

/// Bytes for one call after a large payload: another may follow, and what comes with its header is
/// copied.
const AFTER_LARGE_BYTES: usize = 4 << 10;

/// The payload of a write.
#[derive(Debug)]
pub enum Payload<'a> {
    /// It came in one piece, and lies in the intake.
    Here(&'a [u8]),
    /// It is large, and has its own buffer.
    Gathered(Buffer),
}

/// What a client did.
#[derive(Debug)]
pub enum Event<'a> {
    /// A large payload is about to be read. The next event is another one's, or none.
    Large(u64),
    /// A valid request; the payload is that of a write or a note, else empty.
    Job(Job, Payload<'a>),
    /// A request that gets an error.
    Refused(Refusal),
    /// The client leaves.
    Leave,
    /// The stream is invalid: the connection ends.
    Broken(&'static str),
}

#[derive(Debug)]
enum State {
    Header,
    /// The header of a large payload has come.
    Large(Job),
    Payload {
        job: Job,
        data: Buffer,
        filled: usize,
    },
    Skip {
        refusal: Refusal,
        left: u64,
    },
    Over,
}

/// The stream of one client.
#[derive(Debug)]
pub struct Intake {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
    /// The last payload was large.
    after_large: bool,
}

/// Where the client's next bytes go.
#[derive(Debug)]
pub enum Space<'a> {
    /// Whatever comes.
    Any(&'a mut [u8]),
    /// The rest of a large payload: its request needs all of it.
    All(&'a mut [u8]),
}

impl Default for Intake {
    fn default() -> Self {
        let bytes = vec![0; INTAKE_BYTES].into_boxed_slice();
        Intake { bytes, start: 0, end: 0, state: State::Header, after_large: false }
    }
}

impl Intake {
    /// Where the next bytes go. Not empty. Only after [`Intake::next`] returned `None`.
    pub fn space(&mut self) -> Space<'_> {
        self.make_room();
        if let State::Payload { data, filled, .. } = &mut self.state {
            return Space::All(&mut data[*filled..]);
        }
        let buffer = &mut self.bytes[self.end..];
        let len = if self.after_large { buffer.len().min(AFTER_LARGE_BYTES) } else { buffer.len() };
        Space::Any(&mut buffer[..len])
    }

    /// `count` bytes were read into the space.
    pub fn came(&mut self, count: usize) {
        if let State::Payload { data, filled, .. } = &mut self.state {
            *filled = (*filled + count).min(data.len());
        } else {
            self.end = (self.end + count).min(self.bytes.len());
        }
    }

    /// Bytes that are not yet part of an event.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The handshake used up `count` of the unread bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Whether the client stopped between two requests, where it may be silent for as long as it
    /// likes.
    pub fn at_rest(&self) -> bool {
        matches!(self.state, State::Header | State::Over) && self.start == self.end
    }

    /// The next event, if it is complete. [`Event::Leave`] and [`Event::Broken`] are the last.
    pub fn next(&mut self, agreement: &Agreement, facts: &Facts) -> Option<Event<'_>> {
        if matches!(self.state, State::Header) {
            match request::parse(agreement, facts, self.unread()) {
                Parsed::Incomplete => return None,
                Parsed::Job(job) => return self.begin(agreement, job),
                Parsed::Refused(refusal, left) => {
                    self.consume(request::header_bytes(agreement.mode));
                    self.state = State::Skip { refusal, left };
                }
                Parsed::Leave => {
                    self.state = State::Over;
                    return Some(Event::Leave);
                }
                Parsed::Broken(words) => {
                    self.state = State::Over;
                    return Some(Event::Broken(words));
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Header) {
            State::Large(job) => {
                self.gather(agreement, job);
                None
            }
            State::Payload { job, data, filled } if filled == data.len() => {
                Some(Event::Job(job, Payload::Gathered(data)))
            }
            State::Skip { refusal, left } => {
                let unread = self.unread().len();
                let here = usize::try_from(left).map_or(unread, |left| unread.min(left));
                self.consume(here);
                let left = left - here as u64;
                if left == 0 {
                    return Some(Event::Refused(refusal));
                }
                self.state = State::Skip { refusal, left };
                None
            }
            unfinished => {
                self.state = unfinished;
                None
            }
        }
    }

    /// A job's header is complete, and perhaps its payload.
    fn begin(&mut self, agreement: &Agreement, job: Job) -> Option<Event<'_>> {
        let header = request::header_bytes(agreement.mode);
        let carries = matches!(job.ask, request::Ask::Write | request::Ask::Note);
        let len = if carries { usize::try_from(job.len).expect("32 MiB at most") } else { 0 };
        let here = self.unread().len() - header;
        self.after_large = len >= LARGE_BYTES;
        if here >= len {
            let from = self.start + header;
            self.consume(header + len);
            return Some(Event::Job(job, Payload::Here(&self.bytes[from..from + len])));
        }
        if self.after_large {
            self.state = State::Large(job);
            return Some(Event::Large(job.len));
        }
        None
    }

    /// A large payload gets its buffer.
    fn gather(&mut self, agreement: &Agreement, job: Job) {
        self.consume(request::header_bytes(agreement.mode));
        let mut data = Buffer::new(usize::try_from(job.len).expect("32 MiB at most"));
        let here = self.unread().len();
        data[..here].copy_from_slice(self.unread());
        self.consume(here);
        self.state = State::Payload { job, data, filled: here };
    }

    /// Moves unread bytes to the front if the room behind them is short: less than half of the
    /// buffer, an option or a small payload.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.bytes.len() - self.end < self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}
