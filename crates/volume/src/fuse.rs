//! The front end of a volume that is mounted here: a file system with one file, `disk`, which a
//! loop device turns into a block device.
//!
//! The kernel's requests map as follows. The loop device asks for zeroing and for discards by the
//! same call, so both must leave zeros.
//!
//! | block layer | loop device | file system | engine |
//! | --- | --- | --- | --- |
//! | read, write | direct I/O | read, write | the same |
//! | flush; write with FUA (write, then flush) | `vfs_fsync` | fsync | flush |
//! | discard; zeroing that may unmap | punch hole | fallocate | zeroing that may unmap |
//! | zeroing that may not | zero range | fallocate | zeroing |
//!
//! # Latency
//! A request costs two system calls here, a read and a write. At depth 1 most time goes into waking
//! the thread. So after an immediate answer it spins for the next request for a moment before it
//! sleeps in the next read. It does so only where that is faster ([`Front::choose_to_look`]): where
//! processors never sleep, waking is cheap. Only one thread spins at a time, and none while
//! requests are queued. Spins that find nothing become rarer.

mod abi;
mod look;
mod ring;

use crate::buffer::Buffer;
use crate::engine::{Completion, Engine, Submission};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    Session, WriteFlags,
};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, SECTOR_BYTES};
use ring::Rings;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// Name of the file.
pub const FILE_NAME: &str = "disk";

/// Longest request: FUSE's default limit (`fs.fuse.max_pages_limit` of 256).
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Requests that the kernel keeps in flight: the loop device has 128 tags.
const BACKGROUND_MAX: u16 = 256;

/// Longest piece of a discard, in bytes: it fits into a submission and ends at a sector.
const RANGE_BYTES_MAX: u64 = 1 << 31;

/// Neither size nor name ever changes.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// How long the threads may take to end after the file system was unmounted.
const COPIES: Duration = Duration::from_secs(2);

const ROOT: INodeNo = INodeNo(1);
const DISK: INodeNo = INodeNo(2);

/// Reads that measure the latency of the path.
const WAYS: usize = 101;

/// Upper bound of that latency: a longer one comes from a busy machine, not from the front end.
const WAY_MAX: Nanos = Nanos::from_micros(80);

/// Measurements, alternately with and without spinning: an odd number of each, for a median.
const SPIN_MEASUREMENTS: usize = 18;

/// The file, for whichever way the kernel's requests come.
struct Disk {
    engine: Arc<Engine>,
    made: SystemTime,
    state: Arc<State>,
}

/// Requests by `/dev/fuse`.
struct Files {
    disk: Arc<Disk>,
    /// Requests should come by io_uring, if the kernel has that.
    ring: bool,
}

/// What the threads and the owner of a file system share.
#[derive(Debug, Default)]
struct State {
    /// The connection to the kernel, for polling.
    kernel: OnceLock<OwnedFd>,
    /// The kernel sends requests by io_uring.
    ring: AtomicBool,
    /// Spinning is worth it here.
    looks: AtomicBool,
    /// A thread looks.
    looking: AtomicBool,
    /// Reads go straight to the store, and are timed.
    measuring: AtomicBool,
    /// Nanoseconds that the store took for them.
    inside_ns: AtomicU64,
}

/// A mounted file system. [`Front::end`] unmounts it.
#[derive(Debug)]
pub struct Front {
    session: BackgroundSession,
    rings: Option<Rings>,
    state: Arc<State>,
}

impl Front {
    /// Mounts the file system on `dir` and serves it with `threads` threads.
    ///
    /// # Errors
    /// If there is no FUSE, or the caller may not mount.
    pub fn mount(engine: Arc<Engine>, name: &str, dir: &Path, threads: usize) -> io::Result<Front> {
        match Front::mount_by(Arc::clone(&engine), name, dir, threads, true)? {
            Some(front) => Ok(front),
            // Asked not to, the kernel offers no ring.
            None => Front::mount_by(engine, name, dir, threads, false)?
                .ok_or_else(|| io::Error::other("a ring that was not asked for")),
        }
    }

    /// The same. `None` if the kernel agreed to a ring and then refused its queues.
    fn mount_by(
        engine: Arc<Engine>,
        name: &str,
        dir: &Path,
        threads: usize,
        ring: bool,
    ) -> io::Result<Option<Front>> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!("headworks-{name}")),
            MountOption::RW,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
        ];
        config.n_threads = Some(threads.max(1));
        // Each thread has its own queue for answers.
        config.clone_fd = true;
        let state = Arc::new(State::default());
        let disk = Arc::new(Disk { engine, made: SystemTime::now(), state: Arc::clone(&state) });
        let session = Session::new(Files { disk: Arc::clone(&disk), ring }, dir, &config)?;
        let mut rings = None;
        if state.ring.load(Ordering::Relaxed) {
            match Rings::start(&disk, session.as_fd()) {
                Ok(started) => rings = Some(started),
                Err(_) => return Ok(None),
            }
        }
        // Set once, here.
        let _ = state.kernel.set(session.as_fd().try_clone_to_owned()?);
        Ok(Some(Front { session: session.spawn()?, rings, state }))
    }

    /// Whether the kernel sends requests by io_uring.
    pub fn has_ring(&self) -> bool {
        self.rings.is_some()
    }

    /// Measures whether spinning makes requests at depth 1 faster by at least a twentieth, and sets
    /// it accordingly. Takes about a tenth of a second. Returns the choice.
    ///
    /// # Errors
    /// If the device cannot be read; then no thread spins.
    pub fn choose_to_look(&self, device: &Path) -> io::Result<bool> {
        let mut ways = [Vec::new(), Vec::new()];
        let measured = (0..SPIN_MEASUREMENTS).try_for_each(|round| {
            let looks = round % 2;
            self.state.looks.store(looks == 1, Ordering::Relaxed);
            ways[looks].push(self.measure(device)?.0);
            Ok(())
        });
        let [without, with] = ways.map(|mut ways| {
            ways.sort_unstable();
            ways.get(ways.len() / 2).copied().unwrap_or(0)
        });
        let worth_it = measured.is_ok() && with < without / 20 * 19;
        self.state.looks.store(worth_it, Ordering::Relaxed);
        measured.map(|()| worth_it)
    }

    /// How long a read takes from the block device over our file to the store and back, without the
    /// store's own time. It is a median, at most 80 µs. Meant for [`Engine::set_lead`].
    ///
    /// # Errors
    /// If the device cannot be read.
    pub fn measure_way(&self, device: &Path) -> io::Result<Nanos> {
        Ok(self.measure(device)?.min(WAY_MAX))
    }

    fn measure(&self, device: &Path) -> io::Result<Nanos> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device)?;
        let mut block = Buffer::new(4096);
        let mut ways = Vec::with_capacity(WAYS);
        self.state.measuring.store(true, Ordering::Relaxed);
        let read = (0..WAYS).try_for_each(|_| {
            let began = Instant::now();
            file.read_exact_at(&mut block, 0)?;
            let inside = Duration::from_nanos(self.state.inside_ns.load(Ordering::Relaxed));
            ways.push(began.elapsed().saturating_sub(inside));
            Ok(())
        });
        self.state.measuring.store(false, Ordering::Relaxed);
        ways.sort_unstable();
        // Reads take seconds at most.
        read.map(|()| Nanos(ways[WAYS / 2].as_nanos() as u64))
    }

    /// Unmounts, and waits for the threads. Where another mount namespace has a copy of the mount,
    /// they would go on as long as that: then they end with the process, unused.
    ///
    /// # Errors
    /// If the file is still open (EBUSY).
    pub fn end(self) -> io::Result<()> {
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let joined = self.session.umount_and_join();
            self.rings.into_iter().for_each(Rings::join);
            // The receiver may be gone.
            let _ = ended.send(joined);
        });
        end.recv_timeout(COPIES).unwrap_or(Ok(()))
    }

    /// Whether the kernel ended the connection, for example by `umount`.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }
}

impl Disk {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let directory = node == ROOT;
        FileAttr {
            ino: node,
            size: if directory { 0 } else { self.engine.size_bytes() },
            blocks: if directory { 0 } else { self.engine.size_bytes() / 512 },
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o500 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            // Not a real unit; the loop device uses it as the grain of discards.
            blksize: 4096,
            flags: 0,
        }
    }

    /// Reads without a queue, if this engine has none. A front end that is measured never queues.
    fn read_at_once(&self, offset: u64, into: &mut [u8]) -> Option<io::Result<()>> {
        if !self.state.measuring.load(Ordering::Relaxed) {
            return self.engine.read_now(offset, into);
        }
        let began = Instant::now();
        let read = self.engine.read_past_queue(offset, into);
        let inside_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.state.inside_ns.store(inside_ns, Ordering::Relaxed);
        Some(read)
    }

    fn zero(&self, offset: u64, len: u64, unmap: bool, done: Completion) {
        if len <= RANGE_BYTES_MAX {
            self.engine.submit(zeroing(offset, len, unmap, done));
            return;
        }
        // A file system is being made, or a volume wiped. That is rare and worth its own thread, so
        // that other requests need not wait for all the pieces.
        let engine = Arc::clone(&self.engine);
        std::thread::spawn(move || {
            let mut at = 0;
            while at < len {
                let part = (len - at).min(RANGE_BYTES_MAX);
                if let Err(error) = engine.call(|done| zeroing(offset + at, part, unmap, done)) {
                    return done(Err(error));
                }
                at += part;
            }
            done(Ok(Buffer::default()));
        });
    }
}

/// Answers without data.
fn answer_empty(reply: ReplyEmpty) -> Completion {
    Box::new(move |result| match result {
        Ok(_) => reply.ok(),
        Err(error) => reply.error(error.into()),
    })
}

/// Zeroing of at most [`RANGE_BYTES_MAX`].
fn zeroing(offset: u64, len: u64, unmap: bool, done: Completion) -> Submission {
    let mut submission = Submission::new(Operation::WriteZeroes, offset, len, done);
    submission.unmap = unmap;
    submission
}

impl Filesystem for Files {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each of these is optional: an older kernel does without.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX);
        let ring = self.ring && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        self.disk.state.ring.store(ring, Ordering::Relaxed);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == FILE_NAME {
            reply.entry(&FOREVER, &self.disk.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.disk.attributes(node));
    }

    fn open(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if node != DISK {
            return reply.error(Errno::EISDIR);
        }
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO
                | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
                | FopenFlags::FOPEN_NOFLUSH,
        );
    }

    fn read(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // Reads of a file may go beyond its end, those of a device may not.
        let left = self.disk.engine.size_bytes().saturating_sub(offset);
        let len = u64::from(size).min(left);
        let mut buffer = Buffer::new(len as usize);
        match self.disk.read_at_once(offset, &mut buffer) {
            Some(Ok(())) => {
                reply.data(&buffer);
                self.disk.state.look();
            }
            Some(Err(error)) => reply.error(error.into()),
            None => {
                let done = Box::new(move |result: io::Result<Buffer>| match result {
                    Ok(data) => reply.data(&data),
                    Err(error) => reply.error(error.into()),
                });
                let mut submission = Submission::new(Operation::Read, offset, len, done);
                submission.data = buffer;
                self.disk.engine.submit(submission);
            }
        }
    }

    fn write(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // A request is at most REQUEST_BYTES_MAX long.
        let len = data.len() as u32;
        match self.disk.engine.write_now(offset, data, false) {
            Some(Ok(())) => {
                reply.written(len);
                self.disk.state.look();
            }
            Some(Err(error)) => reply.error(error.into()),
            None => {
                let done = Box::new(move |result: io::Result<Buffer>| match result {
                    Ok(_) => reply.written(len),
                    Err(error) => reply.error(error.into()),
                });
                self.disk.engine.submit(Submission::write(offset, Buffer::copy_of(data), done));
            }
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let done = answer_empty(reply);
        self.disk.engine.submit(Submission::new(Operation::Flush, 0, 0, done));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _node: INodeNo,
        _file: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let unmap = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE => true,
            libc::FALLOC_FL_ZERO_RANGE => false,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        if !(offset | len).is_multiple_of(SECTOR_BYTES) {
            return reply.error(Errno::EINVAL);
        }
        self.disk.zero(offset, len, unmap, answer_empty(reply));
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        // The loop device uses the block size as the grain of discards.
        reply.statfs(self.disk.engine.size_bytes() / 4096, 0, 0, 2, 0, 4096, 255, 4096);
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if node != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (ROOT, FileType::Directory, "."),
            (ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, FILE_NAME),
        ];
        // The offset is the number of the next entry: 0 to 3.
        for (at, (node, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(node, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
