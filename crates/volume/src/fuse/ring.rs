//! FUSE over io_uring: the kernel puts requests into our memory and takes answers from it, without
//! a read and a write for each.
//!
//! Each processor has a queue, and each queue a thread on that processor. So a request is served
//! where it came up, and no other processor must be woken. Entries go to the kernel once, and then
//! back with each answer. The layout is that of `struct fuse_uring_req_header` and
//! `struct fuse_uring_cmd_req` in `linux/fuse.h`.
//!
//! The kernel sends nothing else this way than requests: forgets and interrupts come by
//! `/dev/fuse`. It needs the parameter `enable_uring` of its module `fuse`.

use super::abi::{self, Answer};
use super::{Disk, REQUEST_BYTES_MAX};
use crate::buffer::Buffer;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Requests that a queue takes at a time. More wait in the kernel.
const ENTRIES: usize = 32;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Offsets in the header of an entry.
const OPERATION_AT: usize = 128;
const PAYLOAD_AT: usize = 256;
const HEADER_BYTES: usize = 288;

/// Marks the completion that says that answers have come.
const MAIL: u64 = u64::MAX;

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// The threads of a mounted file system. They end with its connection.
#[derive(Debug)]
pub(super) struct Rings {
    threads: Vec<JoinHandle<()>>,
}

impl Rings {
    /// Starts a thread for each processor and gives the kernel their entries.
    ///
    /// # Errors
    /// If the kernel refuses. Its requests wait until all queues are there, so the file system must
    /// go then.
    pub(super) fn start(disk: &Arc<Disk>, kernel: BorrowedFd<'_>) -> io::Result<Rings> {
        let (ready, started) = channel();
        let mut threads = Vec::new();
        for number in 0..processors() {
            let (disk, ready) = (Arc::clone(disk), ready.clone());
            let kernel = kernel.try_clone_to_owned()?;
            let thread = std::thread::Builder::new()
                .name("volume-ring".to_owned())
                .spawn(move || serve(number, disk, kernel, &ready))?;
            threads.push(thread);
        }
        drop(ready);
        for _ in &threads {
            started.recv().unwrap_or_else(|_| Err(io::Error::other("a thread ended")))?;
        }
        Ok(Rings { threads })
    }

    /// Waits for the threads.
    pub(super) fn join(self) {
        for thread in self.threads {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Processors that the kernel may ever have: one queue each.
fn processors() -> u16 {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = list.trim().rsplit([',', '-']).next().and_then(|text| text.parse::<u16>().ok());
    last.map_or(1, |last| last.saturating_add(1))
}

/// A thread of the ring: until the connection ends.
fn serve(number: u16, disk: Arc<Disk>, kernel: OwnedFd, ready: &Sender<io::Result<()>>) {
    stay_on(number);
    let mut queue = match Queue::new(number, disk, kernel) {
        Ok(queue) => queue,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let registered = queue.register();
    let refused = registered.is_err();
    let _ = ready.send(registered);
    while !refused && queue.turn() {}
}

/// Keeps this thread on a processor. One that is offline has no requests either.
fn stay_on(processor: u16) {
    if usize::from(processor) >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: an empty set is a valid value of this structure of bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, and has a bit for this number.
    unsafe { libc::CPU_SET(usize::from(processor), &mut set) };
    // SAFETY: reads the set, and concerns this thread alone.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// Answers of requests that other threads completed.
struct Mail {
    answers: Mutex<Vec<(usize, io::Result<Buffer>)>>,
    event: OwnedFd,
}

impl Mail {
    fn new() -> io::Result<Mail> {
        // SAFETY: makes a descriptor; no memory is involved.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Mail { answers: Mutex::default(), event })
    }

    fn put(&self, entry: usize, result: io::Result<Buffer>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((entry, result));
        let first = answers.len() == 1;
        drop(answers);
        if first {
            // It fails only if the count is full, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<(usize, io::Result<Buffer>)> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Memory that a request comes and goes in.
struct Entry {
    header: Buffer,
    payload: Buffer,
    parts: Box<[libc::iovec; 2]>,
    /// The request's number; for a write, its length.
    unique: u64,
    len: u32,
}

impl Entry {
    fn new() -> Entry {
        let mut header = Buffer::zeroed(HEADER_BYTES);
        let mut payload = Buffer::new(REQUEST_BYTES_MAX as usize);
        let part = |buffer: &mut Buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let parts = Box::new([part(&mut header), part(&mut payload)]);
        Entry { header, payload, parts, unique: 0, len: 0 }
    }
}

/// One queue, of one thread.
struct Queue {
    /// First: it goes before the memory that the kernel was given.
    ring: Ring,
    number: u16,
    kernel: OwnedFd,
    disk: Arc<Disk>,
    mail: Arc<Mail>,
    /// Where the kernel writes the count of the mail's event.
    count: Box<[u8; 8]>,
    entries: Vec<Entry>,
}

impl Queue {
    fn new(number: u16, disk: Arc<Disk>, kernel: OwnedFd) -> io::Result<Queue> {
        let ring = Ring::builder().setup_single_issuer().setup_defer_taskrun().build(64)?;
        let entries = (0..ENTRIES).map(|_| Entry::new()).collect();
        let mail = Arc::new(Mail::new()?);
        Ok(Queue { ring, number, kernel, disk, mail, count: Box::default(), entries })
    }

    /// Gives all entries to the kernel. It refuses at once, or not at all.
    fn register(&mut self) -> io::Result<()> {
        for at in 0..self.entries.len() {
            let parts = self.entries[at].parts.as_ptr() as u64;
            self.push(&command(self.kernel.as_raw_fd(), REGISTER, self.number, at, 0, parts));
        }
        self.listen();
        self.ring.submit()?;
        let refused = self.ring.completion().find(|entry| entry.result() < 0);
        refused.map_or(Ok(()), |entry| Err(io::Error::from_raw_os_error(-entry.result())))
    }

    fn push(&mut self, entry: &squeue::Entry128) {
        // SAFETY: what the entries name lives in this structure, behind the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is longer than one turn needs, so this is rare.
            if self.ring.submit().is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Asks to be told of mail.
    fn listen(&mut self) {
        let event = types::Fd(self.mail.event.as_raw_fd());
        let read = opcode::Read::new(event, self.count.as_mut_ptr(), 8).build().user_data(MAIL);
        self.push(&read.into());
    }

    /// Serves what came. Returns false once the connection is over.
    fn turn(&mut self) -> bool {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                return true;
            }
        }
        let came: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (whose, result) in came {
            if whose == MAIL {
                self.listen();
            } else if result < 0 {
                return false;
            } else {
                // The index that was given with it.
                self.begin(whose as usize);
            }
        }
        for (at, result) in self.mail.take() {
            self.end(at, result);
        }
        true
    }

    /// A request came in an entry.
    fn begin(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        let (fixed, rest) = entry.header.split_at(OPERATION_AT);
        let header = abi::Header::read(fixed);
        let sent = abi::number::<4>(&entry.header, PAYLOAD_AT + 16) as usize;
        entry.unique = header.unique;
        entry.len = abi::length(header.operation, rest);
        let mail = Arc::clone(&self.mail);
        let done = Box::new(move |result| mail.put(at, result));
        let answer = abi::serve(&self.disk, header, rest, &mut entry.payload, sent, done);
        match answer {
            Answer::Later => {}
            Answer::Bytes(bytes) => self.commit(at, bytes, 0),
            Answer::Error(errno) => self.commit(at, 0, errno),
        }
    }

    /// The engine has answered the request of an entry.
    fn end(&mut self, at: usize, result: io::Result<Buffer>) {
        let entry = &mut self.entries[at];
        match result {
            Ok(data) => {
                let bytes = abi::finish(entry.len, &data, &mut entry.payload);
                self.commit(at, bytes, 0);
            }
            Err(error) => self.commit(at, 0, error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Gives an answer, and the entry for the next request.
    fn commit(&mut self, at: usize, bytes: usize, errno: i32) {
        let entry = &mut self.entries[at];
        let unique = entry.unique;
        // The payload's length is at most REQUEST_BYTES_MAX.
        let bytes = bytes as u32;
        entry.header[0..4].copy_from_slice(&(16 + bytes).to_ne_bytes());
        entry.header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        entry.header[8..16].copy_from_slice(&unique.to_ne_bytes());
        entry.header[PAYLOAD_AT..HEADER_BYTES].fill(0);
        entry.header[PAYLOAD_AT + 16..PAYLOAD_AT + 20].copy_from_slice(&bytes.to_ne_bytes());
        let kernel = self.kernel.as_raw_fd();
        self.push(&command(kernel, COMMIT_AND_FETCH, self.number, at, unique, 0));
    }
}

/// An entry of the submission queue that gives the kernel an entry of ours.
fn command(
    kernel: RawFd,
    operation: u32,
    queue: u16,
    at: usize,
    unique: u64,
    parts: u64,
) -> squeue::Entry128 {
    #[repr(C, align(8))]
    struct Raw([u8; 128]);
    let mut raw = Raw([0; 128]);
    let mut put = |at: usize, bytes: &[u8]| raw.0[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[opcode::UringCmd80::CODE]);
    put(4, &kernel.to_ne_bytes());
    put(8, &operation.to_ne_bytes());
    put(16, &parts.to_ne_bytes());
    put(24, &(if parts == 0 { 0_u32 } else { 2 }).to_ne_bytes());
    put(32, &(at as u64).to_ne_bytes());
    put(56, &unique.to_ne_bytes());
    put(64, &queue.to_ne_bytes());
    // SAFETY: both are 128 bytes for which every value is valid; the kernel defines their layout.
    unsafe { std::mem::transmute::<Raw, squeue::Entry128>(raw) }
}
