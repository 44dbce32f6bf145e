//! The one thread that talks to a device's queue: takes requests, hands them to the engine, and hands
//! the engine's answers back.
//!
//! # Whose a buffer is
//! Each tag has one buffer of the longest transfer. The kernel has it from a fetch until it gives the
//! tag a request (it copies the data of a write into it before that); then it is ours, and the
//! engine's while it works; with the answer the kernel gets it back (it copies the data of a read out
//! of it), as the place of the tag's next request.
//!
//! The kernel binds a queue to the thread that fetched first: answers of the engine's threads reach it
//! through an [`Outbox`].

use super::abi::IoDescriptor;
use super::request::{Asked, TRANSFER_BYTES_MAX, refusal};
use crate::buffer::Buffer;
use crate::engine::{Engine, Submission};
use headworks_policy::block::Operation;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests that the kernel keeps in flight: as many as the loop device. More than a device's model
/// takes at a time, so that the engine's scheduler has something to choose from.
pub(super) const DEPTH: u16 = 128;

/// What a queue hears of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A tag has a request; its descriptor is filled, and its buffer is ours.
    Request(u16),
    /// A tag is given back for ever: the device stops.
    Ended(u16),
    /// Something is in the outbox.
    Woken,
    /// The kernel refused a command.
    Refused(u16, i32),
}

/// The kernel's side of a queue.
pub(super) trait Kernel {
    /// Gives a tag's buffer for its first request.
    fn fetch(&mut self, tag: u16, address: u64) -> io::Result<()>;
    /// Answers a tag's request, and gives a buffer for its next.
    fn commit(&mut self, tag: u16, result: i32, address: u64) -> io::Result<()>;
    /// The request of a tag.
    fn descriptor(&self, tag: u16) -> IoDescriptor;
    /// Hands over what was asked so far.
    fn submit(&mut self) -> io::Result<()>;
    /// Waits until something happened.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()>;
}

struct Done {
    tag: u16,
    asked: Asked,
    result: io::Result<Buffer>,
}

/// Answers on their way to the queue's thread.
pub(super) struct Outbox {
    done: Mutex<Vec<Done>>,
    /// Readable while there are some.
    pub(super) event: OwnedFd,
}

impl Outbox {
    pub(super) fn new() -> io::Result<Arc<Outbox>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Outbox { done: Mutex::default(), event }))
    }

    fn push(&self, done: Done) {
        let mut list = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = list.is_empty();
        list.push(done);
        drop(list);
        if was_empty {
            // It fails only if 2^64 wakings were never read.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Done> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a tag's buffer is.
enum Slot {
    /// The kernel may write into it at any time.
    Kernels(Buffer),
    /// A request without data is under way; the buffer waits for its answer.
    Kept(Buffer),
    /// With the engine, or nowhere.
    Away,
}

/// A queue: its tags and their buffers.
pub(super) struct Queue<K: Kernel> {
    kernel: K,
    engine: Arc<Engine>,
    outbox: Arc<Outbox>,
    slots: Vec<Slot>,
    ended: usize,
}

impl<K: Kernel> Queue<K> {
    /// Fetches for every tag: the device can be started then.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub(super) fn start(
        kernel: K,
        engine: Arc<Engine>,
        outbox: Arc<Outbox>,
        depth: u16,
    ) -> io::Result<Queue<K>> {
        let slots = (0..depth).map(|_| Slot::Away).collect();
        let mut queue = Queue { kernel, engine, outbox, slots, ended: 0 };
        for tag in 0..depth {
            let (address, slot) = lend(Buffer::new(TRANSFER_BYTES_MAX as usize));
            queue.slots[usize::from(tag)] = slot;
            queue.kernel.fetch(tag, address)?;
        }
        queue.kernel.submit()?;
        Ok(queue)
    }

    /// Serves until the device was stopped.
    ///
    /// # Errors
    /// If the kernel refuses what it should take: nobody serves the device then.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        while self.ended < self.slots.len() {
            events.clear();
            self.kernel.wait(&mut events)?;
            for event in &events {
                match *event {
                    Event::Request(tag) => self.request(tag)?,
                    Event::Ended(tag) => {
                        self.slots[usize::from(tag)] = Slot::Away;
                        self.ended += 1;
                    }
                    // Looked at below, also for what the engine answered at once.
                    Event::Woken => {}
                    Event::Refused(_, errno) => return Err(io::Error::from_raw_os_error(errno)),
                }
            }
            for Done { tag, asked, result } in self.outbox.take() {
                self.answer(tag, &asked, result)?;
            }
        }
        Ok(())
    }

    fn request(&mut self, tag: u16) -> io::Result<()> {
        let slot = std::mem::replace(&mut self.slots[usize::from(tag)], Slot::Away);
        let (Slot::Kernels(mut buffer) | Slot::Kept(mut buffer)) = slot else {
            // A tag whose last request is not answered yet.
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        };
        let descriptor = self.kernel.descriptor(tag);
        let asked = match Asked::decode(&descriptor, self.engine.size_bytes()) {
            Ok(asked) => asked,
            Err(errno) => return self.commit(tag, refusal(errno), buffer),
        };
        let offset = asked.offset_bytes;
        let has_data = matches!(asked.operation, Operation::Read | Operation::Write);
        if has_data {
            buffer.truncate(asked.len_bytes as usize);
        }
        let at_once = match asked.operation {
            Operation::Read => self.engine.read_now(offset, &mut buffer),
            Operation::Write => self.engine.write_now(offset, &buffer, asked.fua),
            _ => None,
        };
        if let Some(result) = at_once {
            return self.commit(tag, asked.answer(&result), buffer);
        }
        let outbox = Arc::clone(&self.outbox);
        let done = Box::new(move |result| outbox.push(Done { tag, asked, result }));
        let mut submission = Submission::new(asked.operation, offset, asked.len_bytes, done);
        submission.fua = asked.fua;
        submission.unmap = asked.unmap;
        submission.sync = asked.sync;
        if has_data {
            submission.data = buffer;
        } else {
            self.slots[usize::from(tag)] = Slot::Kept(buffer);
        }
        self.engine.submit(submission);
        Ok(())
    }

    fn answer(&mut self, tag: u16, asked: &Asked, result: io::Result<Buffer>) -> io::Result<()> {
        let told = asked.answer(&result);
        let slot = std::mem::replace(&mut self.slots[usize::from(tag)], Slot::Away);
        let buffer = match (slot, result) {
            (Slot::Kept(buffer), _) => buffer,
            (_, Ok(buffer)) => buffer,
            // The engine drops the buffer of what fails.
            (_, Err(_)) => Buffer::default(),
        };
        self.commit(tag, told, buffer)
    }

    /// Answers with the data in `buffer`, which also takes the next request's.
    fn commit(&mut self, tag: u16, result: i32, mut buffer: Buffer) -> io::Result<()> {
        let whole = TRANSFER_BYTES_MAX as usize;
        if !buffer.try_resize(whole) {
            let mut larger = Buffer::new(whole);
            larger[..buffer.len()].copy_from_slice(&buffer);
            buffer = larger;
        }
        let (address, slot) = lend(buffer);
        self.slots[usize::from(tag)] = slot;
        self.kernel.commit(tag, result, address)
    }
}

/// The address of a buffer that the kernel has from then on.
fn lend(mut buffer: Buffer) -> (u64, Slot) {
    (buffer.as_mut_ptr() as u64, Slot::Kernels(buffer))
}

impl<K: Kernel> Drop for Queue<K> {
    fn drop(&mut self) {
        // What the kernel did not give back it may still write into: such memory is nobody's again.
        for slot in self.slots.drain(..) {
            if let Slot::Kernels(buffer) = slot {
                std::mem::forget(buffer);
            }
        }
    }
}
