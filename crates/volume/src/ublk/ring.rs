//! A queue's commands to the kernel: a ring on `/dev/ublkcN`, and the requests in memory that it shares.

use super::abi::{Encoding, Io, IoCommand, IoDescriptor, RES_ABORT};
use super::queue::{Event, Kernel, Outbox};
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// What the read of the outbox's event is called; others are called by their tag.
const WAKING: u64 = u64::MAX;

/// The descriptors of a queue, as the kernel shows them.
struct Descriptors {
    at: NonNull<IoDescriptor>,
    len_bytes: usize,
    depth: u16,
}

// SAFETY: it is the only owner of its mapping, which any thread may read.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(device: &File, depth: u16) -> io::Result<Descriptors> {
        // SAFETY: asks for a number of the machine.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).unwrap_or(4096);
        // The driver takes whole pages, exactly as many as it has. Queue 0 is at the beginning.
        let len_bytes = (usize::from(depth) * size_of::<IoDescriptor>()).next_multiple_of(page);
        // SAFETY: a new mapping at a place of the kernel's choice, over nothing of ours.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                libc::PROT_READ,
                // As the driver's own server does; without it a page table is filled at the first use.
                libc::MAP_SHARED | libc::MAP_POPULATE,
                device.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at =
            NonNull::new(at.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Descriptors { at, len_bytes, depth })
    }

    fn read(&self, tag: u16) -> IoDescriptor {
        assert!(tag < self.depth, "the kernel names tag {tag} of {}", self.depth);
        // SAFETY: inside the mapping, which is aligned to a page. The kernel writes a descriptor
        // before it completes the tag's fetch, and not again before it is answered; reading the
        // completion came first.
        unsafe { self.at.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this very length, and no reference into it is ever made.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len_bytes) };
    }
}

/// The kernel's side of queue 0 of a device.
pub(super) struct Ring {
    // Before the file: a command in flight keeps the device from going.
    ring: IoUring,
    descriptors: Descriptors,
    device: File,
    encoding: Encoding,
    outbox: Arc<Outbox>,
    /// Where the event's count goes; at one place as long as the ring exists.
    count: Box<[u8; 8]>,
    waking: bool,
}

impl Ring {
    /// Opens the queue. On the thread that serves it: the kernel binds both together.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(
        device: File,
        depth: u16,
        encoding: Encoding,
        outbox: Arc<Outbox>,
    ) -> io::Result<Ring> {
        // One more for the event.
        let entries = (u32::from(depth) + 1).next_power_of_two();
        let ring = IoUring::builder()
            .dontfork()
            .setup_coop_taskrun()
            .setup_single_issuer()
            .setup_cqsize(entries * 2)
            .build(entries)?;
        let descriptors = Descriptors::map(&device, depth)?;
        let count = Box::new([0; 8]);
        Ok(Ring { ring, descriptors, device, encoding, outbox, count, waking: false })
    }

    fn io(&mut self, io: Io, tag: u16, result: i32, addr: u64) -> io::Result<()> {
        let command = IoCommand { q_id: 0, tag, result, addr };
        let entry =
            opcode::UringCmd16::new(types::Fd(self.device.as_raw_fd()), io.code(self.encoding))
                .cmd(command.encode())
                .build()
                .user_data(u64::from(tag));
        self.push(&entry)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry names lives as long as the kernel works on it: buffers of tags
            // are lent until the tag ends (see `Queue`), the device and the count belong to this ring,
            // and dropping it ends all of its commands.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn expect_waking(&mut self) -> io::Result<()> {
        if self.waking {
            return Ok(());
        }
        let event = types::Fd(self.outbox.event.as_raw_fd());
        let entry = opcode::Read::new(event, self.count.as_mut_ptr(), 8).build().user_data(WAKING);
        self.push(&entry)?;
        self.waking = true;
        Ok(())
    }
}

impl Kernel for Ring {
    fn fetch(&mut self, tag: u16, address: u64) -> io::Result<()> {
        self.io(Io::Fetch, tag, 0, address)
    }

    fn commit(&mut self, tag: u16, result: i32, address: u64) -> io::Result<()> {
        self.io(Io::CommitAndFetch, tag, result, address)
    }

    fn descriptor(&self, tag: u16) -> IoDescriptor {
        self.descriptors.read(tag)
    }

    fn submit(&mut self) -> io::Result<()> {
        self.ring.submit().map(|_| ())
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.expect_waking()?;
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            // Completions are waiting to be read, or a signal came.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        for entry in self.ring.completion() {
            if entry.user_data() == WAKING {
                self.waking = false;
                events.push(Event::Woken);
            } else {
                events.push(told(entry.user_data(), entry.result()));
            }
        }
        Ok(())
    }
}

/// What a completed command of a tag means.
fn told(name: u64, result: i32) -> Event {
    // Named by us, after tags.
    let tag = name as u16;
    match result {
        // That a write's data is to be asked for is never said to who did not ask for that.
        0 => Event::Request(tag),
        RES_ABORT => Event::Ended(tag),
        other => Event::Refused(tag, if other < 0 { -other } else { libc::EPROTO }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_requests_ends_or_refusals() {
        assert_eq!(told(7, 0), Event::Request(7));
        assert_eq!(told(7, -libc::ENODEV), Event::Ended(7));
        assert_eq!(told(7, -libc::EBUSY), Event::Refused(7, libc::EBUSY));
        assert_eq!(told(7, 1), Event::Refused(7, libc::EPROTO));
    }
}
