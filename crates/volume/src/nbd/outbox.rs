//! Replies on their way to the socket, as many as possible in one call.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::backend::Room;
use super::reply::Reply;

/// Most parts of replies in one call: the kernel takes 1,024, and more than 64 replies save
/// nothing.
const PARTS_MAX: usize = 128;

/// A reply, and the bytes that its request counts for.
pub(super) struct Outgoing {
    pub(super) reply: Reply,
    pub(super) charge: u64,
    /// Given back when the reply has gone out, or never will.
    pub(super) _room: Option<Room>,
}

/// Requests and bytes that are done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) requests: u32,
    pub(super) bytes: u64,
}

/// Replies that are being sent.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) replies: VecDeque<Outgoing>,
    /// Bytes of the first reply that were sent.
    gone: usize,
    pub(super) sent: Sent,
}

impl Batch {
    /// Sends what the socket takes without waiting.
    ///
    /// # Errors
    /// `EAGAIN` when it is full; any other ends the connection.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while !self.replies.is_empty() {
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let mut count = 0;
            let mut skip = self.gone;
            for outgoing in self.replies.iter().take(PARTS_MAX / 2) {
                for part in outgoing.reply.parts() {
                    let here = skip.min(part.len());
                    skip -= here;
                    if here < part.len() {
                        parts[count] = IoSlice::new(&part[here..]);
                        count += 1;
                    }
                }
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let mut nothing = SendAncillaryBuffer::default();
            match sendmsg(socket, &parts[..count], &mut nothing, flags) {
                Ok(bytes) => self.went(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn went(&mut self, bytes: usize) {
        self.gone += bytes;
        while let Some(first) = self.replies.front() {
            let whole = first.reply.wire_bytes();
            if self.gone < whole {
                break;
            }
            self.gone -= whole;
            self.drop_first();
        }
    }

    /// Drops all replies: the client no longer reads them.
    pub(super) fn clear(&mut self) {
        while !self.replies.is_empty() {
            self.drop_first();
        }
        self.gone = 0;
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.replies.pop_front() {
            self.sent.requests += 1;
            self.sent.bytes += first.charge;
        }
    }
}
