//! The client's stream in the transmission phase, cut into events. Knows no socket: whoever has one
//! reads into [`Intake::spaces`] and says how much came.
//!
//! Headers and small payloads come through one buffer, so that one call fetches many pipelined
//! requests, and a payload that is all there is handed out where it lies. What is still to come of a
//! large one goes straight into a buffer of its own.

use std::io::IoSliceMut;

use crate::buffer::Buffer;

use super::export::Facts;
use super::request::{self, Agreement, Job, Parsed, Refusal};

/// Bytes that one call fetches: more is fewer calls, but more bytes of large payloads that are
/// copied.
pub const INTAKE_BYTES: usize = 64 << 10;

/// Fetched behind a payload, so that the next header comes along: more would be copied.
const BEHIND_BYTES: usize = 4 << 10;

/// The payload of a write.
#[derive(Debug)]
pub enum Payload<'a> {
    /// It came in one piece, and lies in the intake.
    Here(&'a [u8]),
    /// It was gathered.
    Gathered(Buffer),
}

/// What a client did.
#[derive(Debug)]
pub enum Event<'a> {
    /// A valid request; the payload is a write's, else empty.
    Job(Job, Payload<'a>),
    /// A request that gets an error.
    Refused(Refusal),
    /// The client leaves.
    Leave,
    /// The stream makes no sense: the connection ends.
    Broken(&'static str),
}

#[derive(Debug)]
enum State {
    Header,
    Payload { job: Job, data: Buffer, filled: usize },
    Skip { refusal: Refusal, left: u64 },
    Over,
}

/// The stream of one client.
#[derive(Debug)]
pub struct Intake {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
}

impl Default for Intake {
    fn default() -> Self {
        let bytes = vec![0; INTAKE_BYTES].into_boxed_slice();
        Intake { bytes, start: 0, end: 0, state: State::Header }
    }
}

impl Intake {
    /// Where the next bytes go, in order. At least one is not empty.
    pub fn spaces(&mut self) -> [IoSliceMut<'_>; 2] {
        self.make_room();
        let buffer = &mut self.bytes[self.end..];
        match &mut self.state {
            State::Payload { data, filled, .. } => {
                let behind = buffer.len().min(BEHIND_BYTES);
                [IoSliceMut::new(&mut data[*filled..]), IoSliceMut::new(&mut buffer[..behind])]
            }
            _ => [IoSliceMut::new(&mut []), IoSliceMut::new(buffer)],
        }
    }

    /// `count` bytes came into the spaces.
    pub fn came(&mut self, count: usize) {
        let mut rest = count;
        if let State::Payload { data, filled, .. } = &mut self.state {
            let here = rest.min(data.len() - *filled);
            *filled += here;
            rest -= here;
        }
        self.end = (self.end + rest).min(self.bytes.len());
    }

    /// Bytes that are not yet part of an event.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The handshake used up `count` of the unread bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Whether the client stopped between two requests, where it may rest for as long as it likes.
    pub fn at_rest(&self) -> bool {
        matches!(self.state, State::Header | State::Over) && self.start == self.end
    }

    /// The next event, if its bytes are all here. After [`Event::Leave`] and [`Event::Broken`] none
    /// follows.
    pub fn next(&mut self, agreement: &Agreement, facts: &Facts) -> Option<Event<'_>> {
        if matches!(self.state, State::Header) {
            match request::parse(agreement, facts, self.unread()) {
                Parsed::Incomplete => return None,
                Parsed::Job(job) => {
                    self.consume(request::header_bytes(agreement.mode));
                    return self.begin(job);
                }
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

    /// A job's header was read.
    fn begin(&mut self, job: Job) -> Option<Event<'_>> {
        if job.ask != request::Ask::Write {
            return Some(Event::Job(job, Payload::Here(&[])));
        }
        let len = usize::try_from(job.len).expect("32 MiB at most");
        let (from, unread) = (self.start, self.unread().len());
        if unread >= len {
            self.consume(len);
            return Some(Event::Job(job, Payload::Here(&self.bytes[from..from + len])));
        }
        let mut data = Buffer::new(len);
        data[..unread].copy_from_slice(self.unread());
        self.consume(unread);
        self.state = State::Payload { job, data, filled: unread };
        None
    }

    /// Moves what is unread to the front when the room behind it gets short. In the transmission
    /// phase that is less than a header.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.bytes.len() - self.end < self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}
