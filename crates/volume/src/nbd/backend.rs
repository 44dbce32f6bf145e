//! What the front end needs of an export's volume.

use std::io;
use std::sync::Arc;

use crate::engine::{Engine, Submission};
use crate::store::Extent;

/// What a client of ours says when it opens an export, by the metadata context
/// `x-headworks:key=value;…`. A client that does not know it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// The same on each connection of one client that follows another.
    pub session: String,
    /// All that it said.
    pub words: String,
}

impl Greeting {
    /// Of the words after `x-headworks:`.
    pub fn new(words: &str) -> Greeting {
        let value = |key| words.split(';').find_map(|pair| pair.strip_prefix(key));
        Greeting { session: value("session=").unwrap_or_default().into(), words: words.into() }
    }
}

/// What a server says of an export to clients of ours. The incarnation is the same as long as all
/// that was answered is there. The identity is that of the bytes, as far as they were flushed.
pub fn words(incarnation: &str, identity: Option<&str>) -> String {
    format!("incarnation={incarnation};bytes={}", identity.unwrap_or(UNKNOWN))
}

/// Of bytes whose identity cannot be known.
pub const UNKNOWN: &str = "unknown";

/// Room for one request; dropping it gives the room back.
pub type Room = Box<dyn Send>;

/// Room that a request has.
#[derive(Default)]
pub(super) struct Rooms {
    /// At the device: given back when the request is done.
    pub(super) device: Option<Room>,
    /// Of its answer: given back when that has gone out.
    pub(super) answer: Option<Room>,
}

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

    /// A client of ours greets. The answer goes into the name of the metadata context; without one
    /// the client is served as any other.
    fn greet(&self, greeting: &Greeting) -> Option<String> {
        let _ = greeting;
        None
    }

    /// A note of a client that was answered when it greeted, and the answer to it.
    fn note(&self, note: &[u8]) -> Vec<u8> {
        let _ = note;
        Vec::new()
    }

    /// A request with this many bytes is about to be read, or to be answered with them. Waits
    /// until there is room for it, and calls `before` if it has to. The room is given back when
    /// [`Room`] is dropped. None if the volume sets no bounds.
    fn admit(&self, bytes: u64, before: &mut dyn FnMut()) -> Option<Room> {
        let _ = (bytes, before);
        None
    }

    /// The same for an answer of so many bytes, until it has gone out. Asked for what a connection
    /// has open beyond a little: a client that does not receive keeps its answers here.
    fn reserve(&self, bytes: u64, before: &mut dyn FnMut()) -> Option<Room> {
        let _ = (bytes, before);
        None
    }

    /// A request (a read, a write, …) has failed; the client gets the error.
    fn failed(&self, what: &str, error: &io::Error) {
        let _ = (what, error);
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

    fn greet(&self, _: &Greeting) -> Option<String> {
        Some(words(self.incarnation(), self.identity().as_deref()))
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        Engine::extents(self, offset, len)
    }
}
