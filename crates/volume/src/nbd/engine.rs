//! An engine behind an export.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headworks_policy::block::Operation;

use super::backend::{Backend, Work};
use super::link::Ticket;
use crate::buffer::Buffer;
use crate::engine::{Engine, Submission};
use crate::store::Extent;

/// Ranges are cut at multiples of this: whole chunks of any store, with a 32-bit length.
const PIECE_BYTES: u64 = 2 << 30;

impl Backend for Arc<Engine> {
    fn size_bytes(&self) -> u64 {
        Engine::size_bytes(self)
    }

    fn submit(&self, work: Work, data: Buffer, ticket: Ticket) {
        let cause = ticket.cause();
        let done = Box::new(move |result| ticket.done(result));
        // The protocol keeps payloads below 32 MiB.
        let data_len = data.len() as u32;
        let submission = match work {
            Work::Read { offset } => {
                Submission { data, ..Submission::new(Operation::Read, offset, data_len, done) }
            }
            Work::Write { offset, fua } => {
                Submission { fua, ..Submission::write(offset, data, done) }
            }
            Work::Flush => {
                Submission { sync: true, ..Submission::new(Operation::Flush, 0, 0, done) }
            }
            Work::Discard { offset, len } => {
                return Pieces::start(self, work, (offset, len), cause, done);
            }
            Work::WriteZeroes { offset, len, .. } => {
                return Pieces::start(self, work, (offset, len), cause, done);
            }
        };
        Engine::submit(self, Submission { cause, ..submission });
    }

    fn read_now(&self, offset: u64, into: &mut [u8]) -> Option<io::Result<()>> {
        Engine::read_now(self, offset, into)
    }

    fn write_now(&self, offset: u64, from: &[u8], fua: bool) -> Option<io::Result<()>> {
        Engine::write_now(self, offset, from, fua)
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        Engine::extents(self, offset, len)
    }
}

/// A range longer than a submission: its pieces run one after the other.
struct Pieces {
    engine: Arc<Engine>,
    work: Work,
    cause: u32,
    end: u64,
    left: Mutex<Left>,
}

struct Left {
    offset: u64,
    done: Option<Box<dyn FnOnce(io::Result<Buffer>) + Send>>,
}

/// State of a piece's submission.
const SUBMITTING: u8 = 0;
const SUBMITTED: u8 = 1;
const COMPLETED: u8 = 2;

impl Pieces {
    fn start(
        engine: &Arc<Engine>,
        work: Work,
        (offset, len): (u64, u64),
        cause: u32,
        done: Box<dyn FnOnce(io::Result<Buffer>) + Send>,
    ) {
        let left = Mutex::new(Left { offset, done: Some(done) });
        let end = offset + len;
        Arc::new(Pieces { engine: engine.clone(), work, cause, end, left }).go_on();
    }

    /// Submits piece after piece. A completion within `submit` continues the loop, so that the
    /// stack does not grow; a later one calls this again.
    fn go_on(self: Arc<Pieces>) {
        loop {
            let (offset, len) = {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                let offset = left.offset;
                let len = (self.end - offset).min(PIECE_BYTES - offset % PIECE_BYTES);
                if len == 0 {
                    let done = left.done.take();
                    drop(left);
                    if let Some(done) = done {
                        done(Ok(Buffer::default()));
                    }
                    return;
                }
                left.offset += len;
                (offset, len)
            };
            let stands = Arc::new(AtomicU8::new(SUBMITTING));
            let (pieces, then) = (self.clone(), stands.clone());
            let done = Box::new(move |result: io::Result<Buffer>| {
                if let Err(error) = result {
                    let mut left = pieces.left.lock().unwrap_or_else(PoisonError::into_inner);
                    left.offset = pieces.end;
                    let done = left.done.take();
                    drop(left);
                    if let Some(done) = done {
                        done(Err(error));
                    }
                }
                if then.swap(COMPLETED, Ordering::AcqRel) == SUBMITTED {
                    pieces.go_on();
                }
            });
            let operation = match self.work {
                Work::WriteZeroes { .. } => Operation::WriteZeroes,
                _ => Operation::Discard,
            };
            // 2 GiB at most.
            let mut submission = Submission::new(operation, offset, len as u32, done);
            submission.cause = self.cause;
            if let Work::WriteZeroes { fua, unmap, .. } = self.work {
                (submission.fua, submission.unmap) = (fua, unmap);
            }
            Engine::submit(&self.engine, submission);
            if stands.swap(SUBMITTED, Ordering::AcqRel) != COMPLETED {
                return;
            }
        }
    }
}
