//! Loop devices: a file as a block device.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";

// From linux/loop.h.
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
const LO_NAME_SIZE: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LO_NAME_SIZE],
    crypt_name: [u8; LO_NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// How often to try for a free device: another process may take it first each time.
const TRIES: usize = 50;

/// A loop device that is set up. It disappears once it is neither open nor mounted.
#[derive(Debug)]
pub struct LoopDevice {
    /// Its node, `/dev/loopN`.
    pub path: PathBuf,
    /// The number of the file system under it, and the file's there.
    beneath: (u64, u64),
    /// None after it was let go.
    file: Option<File>,
}

impl LoopDevice {
    /// Makes a block device of `backing` with sectors of `block_bytes` (512 to 4096), by direct
    /// I/O.
    ///
    /// # Errors
    /// Those of the system: no loop devices in this kernel (ENOENT), not allowed (EACCES, EPERM).
    pub fn attach(backing: &Path, block_bytes: u32) -> io::Result<LoopDevice> {
        let target = OpenOptions::new().read(true).write(true).open(backing)?;
        let found = target.metadata()?;
        let beneath = (found.dev(), found.ino());
        let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..TRIES {
            // SAFETY: an ioctl without argument on an open descriptor.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = match open(&path) {
                Ok(file) => file,
                // Another process makes its node a little later.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    last = error;
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match configure(&file, &target, backing, block_bytes) {
                Ok(()) => return Ok(LoopDevice { path, beneath, file: Some(file) }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Detaches the device; if it is mounted or open elsewhere, in any mount namespace, once that
    /// ends.
    ///
    /// # Errors
    /// If it no longer belongs to us (ENXIO).
    pub fn let_go(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| clear(&file))
    }

    /// Whether the device still stands on our file. Its path alone does not tell: another device
    /// may have the number by now.
    pub fn is_attached(&self) -> bool {
        // SAFETY: all zero bytes are a valid value of this structure of numbers.
        let mut info: LoopInfo = unsafe { std::mem::zeroed() };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            // Without a descriptor or memory nothing is known.
            Err(error) => {
                return matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
                );
            }
        };
        // SAFETY: the ioctl writes this structure, which outlives the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
        done == 0 && (info.device, info.inode) == self.beneath
    }
}

/// Whether a loop device stands on this file, by its path.
pub fn is_over(device: &Path, file: &Path) -> bool {
    let on = |attached: &Attached| {
        attached.path == device
            && Path::new(attached.backing.trim_end_matches(" (deleted)")) == file
    };
    list().iter().any(on)
}

/// An existing loop device, ours or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its node.
    pub path: PathBuf,
    /// The path under it, as the kernel reports it; it ends in ` (deleted)` if that is gone.
    pub backing: String,
}

/// All loop devices that are set up.
pub fn list() -> Vec<Attached> {
    let Ok(entries) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let mut found: Vec<Attached> = entries
        .flatten()
        .filter_map(|entry| {
            let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let path = Path::new("/dev").join(entry.file_name());
            Some(Attached { path, backing: backing.trim_end().to_owned() })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Detaches a loop device, ours or not.
///
/// # Errors
/// If it cannot be opened, or is not set up (ENXIO).
pub fn remove(device: &Path) -> io::Result<()> {
    clear(&open(device)?)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

fn clear(file: &File) -> io::Result<()> {
    // SAFETY: an ioctl without argument on an open descriptor.
    match unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CLR_FD) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn configure(device: &File, target: &File, name: &Path, block_bytes: u32) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: all zero bytes are a valid value of this structure of numbers.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    // Descriptors are not negative.
    config.fd = target.as_raw_fd() as u32;
    config.block_size = block_bytes;
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    let name = CString::new(name.as_os_str().as_bytes()).unwrap_or_default();
    let name = name.as_bytes();
    let shown = name.len().min(LO_NAME_SIZE - 1);
    config.info.file_name[..shown].copy_from_slice(&name[..shown]);
    // SAFETY: the structure is what this ioctl reads, and outlives the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
