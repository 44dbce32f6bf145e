//! What the front end needs of an export's volume.

use std::io;
use std::sync::Arc;

use crate::engine::{Engine, Submission};
use crate::store::Extent;

/// The volume of an export. Called from one thread for each connection.
pub trait Backend: Send + Sync {
    /// Size in bytes, a multiple of 512. Does not change.
    fn size_bytes(&self) -> u64;

    /// Starts a request, whose range is inside the volume. Its completion is called once, from any
    /// thread, perhaps before this returns. A completion that is dropped fails the request. May
    /// block while the volume's queue is full.
    fn submit(&self, submission: Submission);

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

impl Backend for Arc<Engine> {
    fn size_bytes(&self) -> u64 {
        Engine::size_bytes(self)
    }

    fn submit(&self, submission: Submission) {
        Engine::submit(self, submission);
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
