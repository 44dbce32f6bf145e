//! What the front end needs of an export's volume.

use std::io;

use super::link::Ticket;
use crate::buffer::Buffer;
use crate::store::Extent;

/// An operation. Ranges are inside the volume and whole sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fill the given buffer from `offset`.
    Read {
        /// First byte.
        offset: u64,
    },
    /// Write the given buffer to `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// Durable when done.
        fua: bool,
    },
    /// Everything done before becomes durable, whichever connection asked for it.
    Flush,
    /// The range is not needed.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The range reads as zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when done.
        fua: bool,
        /// Its space may be given back.
        unmap: bool,
    },
}

/// The volume of an export. Called from one thread for each connection.
pub trait Backend: Send + Sync {
    /// Size in bytes, a multiple of 512. Does not change.
    fn size_bytes(&self) -> u64;

    /// Starts `work`. [`Ticket::done`] reports its end and gives the buffer back, from any thread,
    /// perhaps before this returns. A dropped ticket is a failed request. May block while its queue
    /// is full.
    fn submit(&self, work: Work, data: Buffer, ticket: Ticket);

    /// Reads at once, on this thread. `None` if that is not possible: then submit.
    fn read_now(&self, offset: u64, into: &mut [u8]) -> Option<io::Result<()>> {
        let _ = (offset, into);
        None
    }

    /// Writes at once, on this thread. `None` if that is not possible: then submit.
    fn write_now(&self, offset: u64, from: &[u8], fua: bool) -> Option<io::Result<()>> {
        let _ = (offset, from, fua);
        None
    }

    /// The allocated parts of the range, as [`crate::store::Store::extents`] returns them: in
    /// order, without gaps, at least one extent, perhaps fewer bytes than asked for.
    ///
    /// # Errors
    /// Those of the store.
    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        Ok(vec![Extent { offset, len, allocated: true }])
    }
}
