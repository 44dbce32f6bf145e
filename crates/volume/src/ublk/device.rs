//! A ublk device, from its adding to its removal.

use super::Unavailable;
use super::abi::{ANY_DEVICE, DeviceInfo, Encoding, QUEUE_DEPTH_MAX};
use super::control::Control;
use super::queue::{DEPTH, Outbox, Queue};
use super::request::{TRANSFER_BYTES_MAX, parameters};
use super::ring::Ring;
use crate::engine::Engine;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const _: () = assert!(DEPTH <= QUEUE_DEPTH_MAX);

/// How long nodes may take to appear in `/dev`: another process makes them.
const NODE_WAIT: Duration = Duration::from_secs(5);

/// A volume's own number, which its device carries. Never zero, as devices of others have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Mark {
    /// One that nobody has.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> io::Result<Mark> {
        let mut bytes = [0; 8];
        // SAFETY: eight bytes of ours are filled.
        let len = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if len != 8 {
            return Err(io::Error::last_os_error());
        }
        Ok(Mark(u64::from_ne_bytes(bytes).max(1)))
    }
}

/// A block device that is served. [`Device::end`] takes it away; dropped, it ends as by a crash.
pub struct Device {
    /// Its node, `/dev/ublkbN`.
    pub path: PathBuf,
    id: u32,
    control: Control,
    thread: JoinHandle<io::Result<()>>,
}

impl Device {
    /// Makes a block device of an engine, with sectors of `block_bytes` (512 to 4096). Whoever looks
    /// for what crashed needs the mark from before this call.
    ///
    /// # Errors
    /// If there is no ublk, or the driver refuses. Nothing is left then.
    pub fn start(
        engine: Arc<Engine>,
        block_bytes: u32,
        rotational: bool,
        mark: Mark,
    ) -> io::Result<Device> {
        let mut control = Control::open().map_err(unavailable)?;
        let mut info = DeviceInfo {
            nr_hw_queues: 1,
            queue_depth: DEPTH,
            max_io_buf_bytes: TRANSFER_BYTES_MAX,
            dev_id: ANY_DEVICE,
            ublksrv_flags: mark.0,
            ..DeviceInfo::default()
        };
        control.add(&mut info)?;
        let id = info.dev_id;
        let wanted = parameters(engine.size_bytes(), block_bytes, rotational);
        let started = control.set_parameters(id, &wanted).and_then(|()| {
            let thread = serve(engine, id, info.queue_depth, control.encoding())?;
            match control.start(id).and_then(|()| wait_for(&block_device(id))) {
                Ok(()) => Ok(thread),
                Err(error) => {
                    // The queue ends when its device is stopped.
                    if control.stop(id).is_ok() {
                        let _ = thread.join();
                    }
                    Err(error)
                }
            }
        });
        match started {
            Ok(thread) => Ok(Device { path: block_device(id), id, control, thread }),
            Err(error) => {
                let _ = control.delete(id);
                Err(error)
            }
        }
    }

    /// The device's number, N in `/dev/ublkbN`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether nobody serves it any more.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether it is mounted, or somebody else has it for himself alone.
    ///
    /// # Errors
    /// If it cannot be opened otherwise.
    pub fn is_held(&self) -> io::Result<bool> {
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.path) {
            Ok(_) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Writes back what the kernel holds for it, takes it away, and waits for its thread.
    ///
    /// # Errors
    /// If what the kernel holds cannot be written (the device is there still in a sense: it ends with
    /// the process); ETIMEDOUT if a program has it open: the number goes when that ends.
    pub fn end(mut self) -> io::Result<()> {
        if !self.thread.is_finished() {
            OpenOptions::new().write(true).open(&self.path)?.sync_all()?;
        }
        self.control.stop(self.id)?;
        let served = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        self.control.delete(self.id)?;
        served
    }
}

fn unavailable(error: Unavailable) -> io::Error {
    io::Error::other(error)
}

/// Starts the queue's thread, and waits until the device can be started.
fn serve(
    engine: Arc<Engine>,
    id: u32,
    depth: u16,
    encoding: Encoding,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let node = character_device(id);
    wait_for(&node)?;
    let file = OpenOptions::new().read(true).write(true).open(&node)?;
    let outbox = Outbox::new()?;
    let (ready, is_ready) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("volume-ublk".to_owned())
        .spawn(move || run(file, depth, encoding, engine, outbox, &ready))?;
    match is_ready.recv() {
        Ok(()) => Ok(thread),
        // It ended before it was ready, and says why.
        Err(_) => match thread.join() {
            Ok(Err(error)) => Err(error),
            _ => Err(io::Error::from_raw_os_error(libc::EIO)),
        },
    }
}

fn run(
    file: File,
    depth: u16,
    encoding: Encoding,
    engine: Arc<Engine>,
    outbox: Arc<Outbox>,
    ready: &SyncSender<()>,
) -> io::Result<()> {
    let ring = Ring::open(file, depth, encoding, Arc::clone(&outbox))?;
    let mut queue = Queue::start(ring, engine, outbox, depth)?;
    // Whoever waits for it gave up only if this whole process ends.
    let _ = ready.send(());
    let served = queue.run();
    if let Err(error) = &served {
        eprintln!("headworks: the queue of the ublk device failed: {error}");
    }
    served
}

fn wait_for(node: &Path) -> io::Result<()> {
    let deadline = Instant::now() + NODE_WAIT;
    while !node.exists() {
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} does not appear", node.display()),
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The block device of a number.
pub fn block_device(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{id}"))
}

fn character_device(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{id}"))
}

/// All ublk devices that carry a mark, with their numbers, whoever made them; none where there is no ublk.
pub fn list() -> Vec<(u32, Mark)> {
    let Ok(entries) = std::fs::read_dir("/sys/class/ublk-char") else { return Vec::new() };
    let Ok(mut control) = Control::open() else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok()?;
            let mark = control.info(id).ok()?.ublksrv_flags;
            (mark != 0).then_some((id, Mark(mark)))
        })
        .collect()
}

/// Takes away a device that carries a mark and that nobody serves.
///
/// # Errors
/// ENODEV if the device of that number is another one by now; ETIMEDOUT if a program has it open: it
/// goes when that ends.
pub fn remove(id: u32, mark: Mark) -> io::Result<()> {
    let mut control = Control::open().map_err(unavailable)?;
    if control.info(id)?.ublksrv_flags != mark.0 {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    control.stop(id)?;
    control.delete(id)
}
