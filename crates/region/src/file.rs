//! The file of a region: its descriptor, and why it cannot be used.

use crate::layout::VERSION;
use core::ffi::CStr;
use core::fmt;

/// Why a region cannot be used. Its texts are constants, so that the preloaded library can make one
/// without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// A system call failed with this errno.
    System(&'static str, i32),
    /// The file is too short or too long for a region of this build.
    Size {
        /// Bytes found.
        found: u64,
        /// Bytes that this build's region has.
        wanted: u64,
    },
    /// The file is no region.
    NoRegion,
    /// A region of another build.
    Version {
        /// Version found.
        found: u32,
    },
    /// An I/O region of a build with another layout.
    Layout {
        /// Hash of its layout.
        found: u64,
        /// Hash of this build's.
        wanted: u64,
    },
    /// The daemon was asked for the region, and refused.
    Refused,
    /// A region that was made in another PID namespace.
    PidNamespace {
        /// That namespace, as a link in /proc shows it.
        found: u64,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RegionError::System(call, errno) => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(errno))
            }
            RegionError::Size { found, wanted } => {
                write!(f, "the region has {found} bytes, this build expects {wanted}")
            }
            RegionError::NoRegion => write!(f, "the file is no Headworks region"),
            RegionError::Version { found } => {
                write!(f, "the region has version {found:08x}, this build expects {VERSION:08x}")
            }
            RegionError::Layout { found, wanted } => {
                write!(
                    f,
                    "the I/O region has layout {found:016x}, this build expects {wanted:016x}"
                )
            }
            RegionError::Refused => write!(f, "the daemon does not grant the region"),
            RegionError::PidNamespace { found } => {
                write!(f, "the region was made in another PID namespace (pid:[{found}])")
            }
        }
    }
}

impl core::error::Error for RegionError {}

pub(crate) fn errno() -> i32 {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// A descriptor that is closed when dropped.
pub(crate) struct Descriptor(pub(crate) i32);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and open. By system call, because `close` may be our own
        // hook.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

impl Descriptor {
    /// Opens the file of a region, and says how long it is.
    pub(crate) fn open(path: &CStr, how: i32) -> Result<(Self, u64), RegionError> {
        // SAFETY: `path` is a C string.
        let fd = unsafe { libc::open(path.as_ptr(), how | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
        if fd < 0 {
            return Err(RegionError::System("cannot open the region", errno()));
        }
        let file = Descriptor(fd);
        let found = file.examine()?;
        Ok((file, found))
    }

    /// Checks that it is a file of ours, and says how long it is.
    pub(crate) fn examine(&self) -> Result<u64, RegionError> {
        // SAFETY: all zero bytes are a valid stat buffer.
        unsafe {
            let mut stat: libc::stat = core::mem::zeroed();
            if libc::fstat(self.0, &mut stat) != 0 {
                return Err(RegionError::System("cannot examine the region", errno()));
            }
            if stat.st_mode & libc::S_IFMT != libc::S_IFREG || stat.st_nlink > 1 {
                return Err(RegionError::NoRegion);
            }
            Ok(stat.st_size as u64)
        }
    }
}

/// Makes the file of a region of so many bytes, readable and writable by its owner only.
pub(crate) fn create_file(
    path: &CStr,
    bytes: usize,
    owner: Option<(u32, u32)>,
) -> Result<Descriptor, RegionError> {
    // SAFETY: `path` is a C string; the flags ask for a new file.
    let fd = unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC,
            0o600,
        )
    };
    if fd < 0 {
        return Err(RegionError::System("cannot create the region", errno()));
    }
    let file = Descriptor(fd);
    // All of it now: a page that finds no room later would end the database with SIGBUS.
    // SAFETY: the descriptor is open.
    let failed = unsafe { libc::posix_fallocate(file.0, 0, bytes as libc::off_t) };
    let error = if failed != 0 {
        Some(RegionError::System("there is no room for the region (25 MB of memory)", failed))
    } else {
        // SAFETY: the descriptor is open.
        owner
            .filter(|(uid, gid)| unsafe { libc::fchown(file.0, *uid, *gid) } != 0)
            .map(|_| RegionError::System("cannot give the region to the database's user", errno()))
    };
    match error {
        None => Ok(file),
        Some(error) => {
            // SAFETY: the path is a C string, and the file is the one made above.
            unsafe { libc::unlink(path.as_ptr()) };
            Err(error)
        }
    }
}
